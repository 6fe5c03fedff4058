"""Parts of a sweep: together they have each data set and each mixture once, and nothing else is other."""

import pytest

from sweeps.errors import InputError
from sweeps.file.spec import Mixtures, SweepSpec, load
from sweeps.parts import Part, part_named, part_of

GRID = {"p": [0.9], "m": ["4"], "replicates": 2, "models": ["likelihood"], "restarts": 3}


def a_sweep(name: str = "tiny") -> SweepSpec:
    """Two real data sets around seven mixtures."""
    mixtures = {"name": "mix_k2", "count": 7, "n_clusters": 2}
    datasets = [{"name": "iris", "scale": "none"}, mixtures, {"name": "wine", "scale": "none"}]
    return load("spec", {"name": name, "seed": 7, "grid": {**GRID, "datasets": datasets}})


def units(spec: SweepSpec) -> list[tuple[str, int | None]]:
    """Every data set and mixture of a sweep."""
    found: list[tuple[str, int | None]] = []
    for entry in spec.grid.datasets:
        one = isinstance(entry, Mixtures)
        found += (
            [(entry.name, entry.first + at) for at in range(entry.count)] if one else [(entry.name, None)]
        )
    return found


@pytest.mark.parametrize("of", range(1, 10))
def test_parts_have_all_of_a_sweep_once_and_are_as_long_as_each_other(of: int) -> None:
    whole = a_sweep()
    parts = [part_of(whole, f"{number}/{of}") for number in range(1, of + 1)]
    assert [unit for part in parts for unit in units(part)] == units(whole)
    lengths = [len(units(part)) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    for number, part in enumerate(parts, 1):
        assert part_named(part.name) == Part("tiny", number, of)
        assert load("spec", part.dump()) == part  # as a cube keeps it
        assert {**part.dump(), "name": "", "grid": {**part.dump()["grid"], "datasets": []}} == {
            **whole.dump(),
            "name": "",
            "grid": {**whole.dump()["grid"], "datasets": []},
        }


def test_a_part_of_a_part_begins_where_it_does() -> None:
    half = part_of(a_sweep(), "2/2")
    assert units(part_of(half, "1/2")) + units(part_of(half, "2/2")) == units(half)


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
    with pytest.raises(InputError, match="shorter name"):
        part_of(a_sweep("a" * 90), "1/4")


@pytest.mark.parametrize("name", ["tiny", "tiny.part-0-of-2", "tiny.part-3-of-2", "tiny.part-1-of-"])
def test_other_names_are_of_no_part(name: str) -> None:
    assert part_named(name) is None
