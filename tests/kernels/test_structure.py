"""Structures have names in words, and codes in a cube."""

import pytest

from sweep_clustering.kernels.structure import (
    AVERAGE,
    DISCRIMINATIVE,
    KMEANS,
    LINEAR,
    LINKAGES,
    METRIC,
    NONE,
    ODDS,
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
