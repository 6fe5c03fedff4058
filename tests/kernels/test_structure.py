"""Structures have names in words, and codes in a cube."""

import pytest

from sweep_clustering.kernels import structure as module
from sweep_clustering.kernels.structure import (
    AVERAGE,
    DISCRIMINATIVE,
    GENIE,
    KMEANS,
    LINEAR,
    LINKAGES,
    METRIC,
    NONE,
    ODDS,
    ROWS,
    SIGNED,
    STRUCTURE,
    WARD,
    WEIGHTS,
    Structure,
)

FIRST = Structure(5, 4, "diagonal")
WORDS = {
    FIRST: "4 diagonal in 5 principal components",
    Structure(DISCRIMINATIVE, 1, "full", "equal", first=FIRST): (
        f"1 full along discriminative directions of {FIRST}, equal"
    ),
    Structure(NONE, 1, KMEANS, annotated=False): "k-means",
    Structure(NONE, 2, "full", odds=3.0): "2 full, answers 95% right",
    Structure(100, 9, WARD): "Ward's linkage, 9 a class, in 100 principal components",
    Structure(METRIC, 9, AVERAGE): "average linkage, 9 a class, in a metric from the answers",
    Structure(METRIC, 1, SIGNED, odds=1.5): (
        "signed graph, 1 a class, in a metric from the answers, answers 82% right"
    ),
}
SENTENCES = {
    Structure(DISCRIMINATIVE, 1, "full", first=FIRST): (
        "each class is one ellipsoid, in the directions that separate the classes"
    ),
    Structure(NONE, 3, "spherical", "equal", annotated=False): (
        "each class is 3 balls, all classes equally likely, found without the answers"
    ),
    Structure(5, 1, "tied", odds=3.0): (
        "each class is one ellipsoid, all of one shape, in the first 5 principal components,"
        " with answers taken to be 95% right"
    ),
    Structure(NONE, 1, KMEANS, annotated=False): (
        "each row belongs to the nearest of the centers, as in k-means"
    ),
    Structure(NONE, 1, AVERAGE): (
        "the classes are small groups of rows merged by average linkage, with one center each"
    ),
    Structure(METRIC, 1, LINEAR, first=Structure(METRIC, 9, WARD)): (
        "linear functions of the features separate the classes, which at first were small groups of rows"
        " merged by Ward's linkage, by distances learned from the answers"
    ),
    Structure(METRIC, 1, SIGNED, odds=1.5): (
        "the classes are groups that the answers suggest, refined by the features, by distances learned from"
        " the answers, with answers taken to be 82% right"
    ),
}


def test_a_structure_reads_as_words() -> None:
    assert {structure: str(structure) for structure in WORDS} == WORDS
    assert {structure: structure.words for structure in SENTENCES} == SENTENCES


def test_codes_give_back_the_structure() -> None:
    several = [Structure(NONE, 1, "tied", proportions="equal", annotated=False)]
    several += [Structure(space, 8, linkage) for space in (NONE, METRIC, WEIGHTS) for linkage in LINKAGES]
    several += [structure._replace(odds=odds) for structure in (*WORDS, *several) for odds in (0.0, *ODDS)]
    for structure in several:
        assert len(structure.codes) == len(STRUCTURE)
        assert Structure.from_codes(structure.codes) == structure


@pytest.mark.parametrize("code", range(len(STRUCTURE)))
def test_codes_that_cannot_be_are_refused(code: int) -> None:
    wrong = list(Structure(DISCRIMINATIVE, 4, "spherical", first=FIRST).codes)
    wrong[code] = -7
    with pytest.raises((ValueError, IndexError)):
        Structure.from_codes(wrong)


def test_merged_groups_of_one_space_follow_each_other() -> None:
    def parts_of(n_samples: int, n_features: int, n_pairs: int) -> list[tuple[int | str, int, str, bool]]:
        structures = module.merged_structures(n_samples, n_features, 5, n_pairs)
        assert all(structure.proportions == "equal" for structure in structures)
        return [(s.subspace, s.components, s.covariance, s.annotated) for s in structures]

    def linkages(space: int | str, count: int) -> list[tuple[int | str, int, str, bool]]:
        return [(space, n, kind, True) for kind in (AVERAGE, WARD) for n in (count, 1)]

    # 400 rows are 133 groups, of which each of five classes has 26
    rows = [(METRIC, 26, kind, True) for kind in (ROWS, *GENIE)]
    first = [(NONE, 26, ROWS, True), *((NONE, 26, kind, False) for kind in (ROWS, *GENIE))]
    expected = [*linkages(NONE, 26), *first, *linkages(METRIC, 26), *rows, *linkages(WEIGHTS, 26)]
    assert parts_of(400, 100, 1_250) == expected
    # more than 25 / 8 answers for each row tell the classes apart by themselves
    all_parts = parts_of(400, 100, 1_251)
    signed = [(space, 1, SIGNED, True) for space in (NONE, METRIC, WEIGHTS)]
    assert set(all_parts) == {*expected, *signed}
    assert all_parts[4] == signed[0]
    # many rows are not merged one by one, and many features stand in principal components
    assert parts_of(4_001, 101, 0) == linkages(module.MOST_LEARNED, 180) + linkages(METRIC, 180)
    assert len(parts_of(4_000, 101, 0)) == 8 + 7
    assert module.merged_structures(4, 2, 3)[0].components == 2


@pytest.mark.parametrize(
    ("n_samples", "n_classes", "expected"),
    [(90, 3, 30), (2_699, 3, 899), (9_000, 3, 900), (9_000, 301, 903), (30, 20, 30), (30, 9, 27)],
)
def test_groups_are_a_third_of_the_rows_or_three_for_each_class(
    n_samples: int, n_classes: int, expected: int
) -> None:
    assert module.n_groups(n_samples, n_classes) == expected


def test_costs_of_a_step_are_products_of_rows_classes_and_dimensions() -> None:
    assert module.operations("full", 100, 7, 3) == module.operations("tied", 100, 7, 3) == 100 * 3 * 49
    assert (
        module.operations("diagonal", 100, 7, 3) == module.operations("spherical", 100, 7, 3) == 100 * 3 * 28
    )
    assert module.single_operations(100, 7, 3) == 100 * 3 * 28
    assert module.single_operations(100, 20, 3) == 100 * 3 * 60


def test_as_many_components_are_tried_as_samples_and_costs_allow() -> None:
    assert module.most_supported("full", 120, 3) == 10  # a quarter of the rows
    assert module.most_supported("full", 9_000, 3) == 53  # 160 in all
    assert module.most_supported("diagonal", 8, 3) == 1
    assert module.most_supported("tied", 9_000, 3) == module.most_supported(KMEANS, 9_000, 3) == 1
    assert module.most_components("full", 1_000, 50, 10) == 4  # 1e8 / (1000 × 10 × 50²)
    assert module.most_components("full", 1_000, 101, 10) == 0
    assert module.most_components("diagonal", 1_000, 50, 10) == 16


@pytest.mark.parametrize(
    ("n_dims", "n_classes", "dims"), [(100, 30, ()), (100, 31, (31,)), (62, 31, (31,)), (61, 31, ())]
)
def test_many_classes_have_as_many_principal_components(
    n_dims: int, n_classes: int, dims: tuple[int, ...]
) -> None:
    assert module.wide_dims(n_dims, n_classes) == dims


def test_a_part_of_a_large_table_has_fifty_rows_a_class_or_four_thousand() -> None:
    assert module.part_size(80) == 4_000
    assert module.part_size(81) == 4_050
