"""Parts of a sweep have each data set and each mixture once together, and nothing else differs."""

import pytest
from pydantic_core import PydanticCustomError

from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.spec import (
    Mixtures,
    Part,
    SweepSpec,
    annotation_count,
    base_name,
    dealt_in_ranges,
    load,
    mixtures_name,
    part_named,
    part_of,
)

GRID = {"p": [0.9], "m": ["4"], "replicates": 2, "models": ["likelihood"], "restarts": 3}


def a_sweep(name: str = "tiny", count: int = 7) -> SweepSpec:
    """Return a sweep of two real data sets around seven mixtures."""
    mixtures = {"name": "mix_k2", "count": count, "n_clusters": 2}
    datasets = [{"name": "iris", "scale": "none"}, mixtures, {"name": "wine", "scale": "none"}]
    return load("spec", {"name": name, "seed": 7, "grid": {**GRID, "datasets": datasets}})


def units(spec: SweepSpec) -> list[tuple[str, int | None]]:
    """Return every data set and mixture of a sweep."""
    pairs: list[tuple[str, int | None]] = []
    for entry in spec.grid.datasets:
        draws = entry.draws if isinstance(entry, Mixtures) else [None]
        pairs += [(entry.name, draw) for draw in draws]
    return pairs


def sorted_units(specs: list[SweepSpec]) -> list[tuple[str, int | None]]:
    """Return the sorted units of some sweeps."""
    return sorted((unit for spec in specs for unit in units(spec)), key=str)


@pytest.mark.parametrize("of", range(1, 10))
def test_parts_have_all_of_a_sweep_once_and_are_as_long_as_each_other(of: int) -> None:
    whole = a_sweep()
    parts = [part_of(whole, f"{number}/{of}") for number in range(1, of + 1)]
    assert sorted_units(parts) == sorted_units([whole])
    lengths = [len(units(part)) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    for number, part in enumerate(parts, 1):
        assert part_named(part.name) == Part("tiny", number, of)
        assert load("spec", part.dump()) == part  # a cube keeps it so
        grid = part.grid.model_copy(update={"datasets": whole.grid.datasets})
        assert part.model_copy(update={"name": whole.name, "grid": grid}) == whole


def test_a_part_of_a_part_begins_where_it_does() -> None:
    half = part_of(a_sweep(), "2/2")
    assert sorted_units([part_of(half, "1/2"), part_of(half, "2/2")]) == sorted_units([half])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, "such as 1/4") for text in ("", "2", "0/4", "5/4", "1/0", "-1/4", "1/4/4", "a/b", "1.5/4")),
        ("1/10", "at most 9 parts"),
    ],
)
def test_what_is_no_part_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected) as refused:
        part_of(a_sweep(), text)
    assert f"--part: found {text!r}" in str(refused.value)


def test_a_name_that_would_be_too_long_is_refused() -> None:
    assert len(part_of(a_sweep("a" * 88), "1/4").name) == 100
    with pytest.raises(InputError, match="shorter name"):
        part_of(a_sweep("a" * 89), "1/4")


@pytest.mark.parametrize("name", ["tiny", "tiny.part-0-of-2", "tiny.part-3-of-2", "tiny.part-1-of-"])
def test_other_names_are_of_no_part(name: str) -> None:
    assert part_named(name) is None


@pytest.mark.parametrize("of", range(1, 10))
def test_a_part_keeps_what_it_has_when_mixtures_are_added(of: int) -> None:
    for number in range(1, of + 1):
        before, after = (part_of(a_sweep(count=count), f"{number}/{of}") for count in (7, 30))
        assert set(units(before)) <= set(units(after))
        mixtures = [unit for unit in units(after) if unit[0] == "mix_k2"]
        had = [unit for unit in units(before) if unit[0] == "mix_k2"]
        assert mixtures[: len(had)] == had


def in_ranges(count: int) -> dict[int, SweepSpec]:
    """Return two parts of a sweep as earlier releases divided it, each with a range of the units."""
    whole, parts = a_sweep(count=count), {}
    iris, mixtures, wine = whole.grid.datasets
    assert isinstance(mixtures, Mixtures)
    cut = (count + 2) // 2 - 1
    ranges = (
        (iris, mixtures.model_copy(update={"count": cut})),
        (mixtures.model_copy(update={"first": cut, "count": count - cut}), wine),
    )
    for number, datasets in enumerate(ranges, start=1):
        name, grid = f"tiny.part-{number}-of-2", whole.grid.model_copy(update={"datasets": datasets})
        parts[number] = whole.model_copy(update={"name": name, "grid": grid})
    return parts


def test_parts_of_an_earlier_release_go_on_as_they_were() -> None:
    parts = in_ranges(7)
    assert part_of(a_sweep(), "1/2", parts) == parts[1]
    assert part_of(a_sweep(), "2/2", parts) == parts[2]
    assert part_of(a_sweep(), "2/2", {1: parts[1]}) == parts[2]


@pytest.mark.parametrize("text", ["1/2", "2/2"])
@pytest.mark.parametrize("there", [(1,), (2,), (1, 2)])
def test_parts_of_an_earlier_release_are_refused_if_mixtures_are_added(text: str, there: tuple[int]) -> None:
    parts = in_ranges(7)
    with pytest.raises(InputError, match="parts of an earlier release are ranges") as refused:
        part_of(a_sweep(count=9), text, {number: parts[number] for number in there})
    assert "as in its cube" in str(refused.value)


def test_a_part_that_would_have_nothing_is_refused() -> None:
    entries = [{"name": f"mix_k{k}", "count": 2, "n_clusters": k} for k in (2, 3, 4)]
    whole = load("spec", {"name": "tiny", "seed": 7, "grid": {**GRID, "datasets": entries}})
    for of in range(1, 5):
        parts = [part_of(whole, f"{number}/{of}") for number in range(1, of + 1)]
        assert sorted_units(parts) == sorted_units([whole])
        assert all(part.grid.datasets for part in parts)
    with pytest.raises(InputError, match="at most 4 parts"):
        part_of(whole, "1/5")


def test_parts_of_an_earlier_release_are_as_many_as_mixtures() -> None:
    entries = [{"name": f"mix_k{k}", "count": 2, "n_clusters": k} for k in (2, 3, 4)]
    whole = load("spec", {"name": "tiny", "seed": 7, "grid": {**GRID, "datasets": entries}})
    datasets = {number: dealt_in_ranges(whole, number, 6) for number in range(1, 7)}
    for there in (2, 5):
        grid = whole.grid.model_copy(update={"datasets": tuple(datasets[there])})
        parts = {there: whole.model_copy(update={"grid": grid})}
        for number in range(1, 7):
            assert [*part_of(whole, f"{number}/6", parts).grid.datasets] == datasets[number]
        with pytest.raises(InputError, match="at most 6 parts"):
            part_of(whole, "1/7", parts)


# What a sweep file says of annotations and mixtures.


def test_a_number_of_annotations_has_limits() -> None:
    for value, text in (
        (1, "1"),
        (2**31 - 1, "2147483647"),
        ("012", "12"),
        ("00000000012", "12"),
        (" .5 N ", ".5N"),
        ("N", "1N"),
    ):
        assert annotation_count(value).text == text
    for value in (0, 2**31, True, 1.0, "0", "0N", "0.0N", "2147483648", "000000000012", "1e3", "-1N", None):
        with pytest.raises(PydanticCustomError, match="a whole number of at least 1"):
            annotation_count(value)
    for text, n_samples, expected in ((".5N", 3, 1), ("1.5N", 3, 4), ("0.29N", 100, 29), ("7", 3, 7)):
        assert annotation_count(text).resolve(n_samples) == expected


def test_mixtures_of_a_number_of_clusters_have_the_name_of_their_entry() -> None:
    assert base_name(mixtures_name("mix_k2", 12), 12) == "mix_k2"
    assert base_name("mix", 2) == "mix"


def test_a_table_has_another_name_than_the_group_of_the_suite() -> None:
    for name, is_refused in (("suite", True), ("suites", False)):
        datasets = [{"name": name, "path": "/a.csv"}]
        dump = {"name": "tiny", "seed": 7, "grid": {**GRID, "datasets": datasets}}
        if is_refused:
            with pytest.raises(InputError, match="another name"):
                load("spec", dump)
        else:
            assert load("spec", dump).grid.datasets[0].name == name
