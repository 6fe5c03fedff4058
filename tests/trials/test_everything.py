"""Sweeps with every axis: the bits of every array, and every word that is shown, are those of `tests/golden`.

`pytest tests/trials/test_everything.py -m "" --golden` records them again; `git diff` shows what changed.
"""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from golden import (
    COMMANDS,
    FOLDERS,
    GOLDEN,
    PACKAGED,
    RUN_DEPENDENT,
    SWEEPS,
    Everything,
    made_with,
    run_packaged,
)

pytestmark = pytest.mark.timeout(1200)  # the first test runs all sweeps, and may have to compile the kernels

BITS = GOLDEN / "bits.json"
ENDS = (".txt", ".csv")
MOST_LINES = 20
"""Lines that differ, shown of each text."""
REWRITE = (
    "If that is meant, `pytest tests/trials/test_everything.py -m '' --golden` writes tests/golden again, and"
    " `git diff tests/golden` shows all of it."
)
GROUPS = ("everything", "sibling", "answered")
"""Folders of texts in `tests/golden`."""


def recorded_texts(group: str) -> dict[str, str]:
    """Return the texts of a folder by their path in `tests/golden`."""
    files = [path for path in (GOLDEN / group).rglob("*") if path.suffix in ENDS]
    return {str(path.relative_to(GOLDEN)): path.read_bytes().decode() for path in files}


def fail(differing: list[str], *, of_bits: bool) -> None:
    """Fail, or skip with the differences if only bits differ that are not promised here."""
    then, here = json.loads(BITS.read_text())["made with"], made_with()
    here = {key: here[key] for key in then}  # fields that were not recorded then are not known to differ
    text = "\n".join([*differing, REWRITE])
    if of_bits and then != here:
        pytest.skip(f"made with {then}, here are {here}: bits are promised for the same alone\n{text}")
    pytest.fail(text, pytrace=False)


def check_bits(bits: Mapping[str, Mapping[str, str]], pytestconfig: pytest.Config) -> None:
    """Compare the arrays of some cubes with the record, or record them."""
    arrays = json.loads(BITS.read_text())["arrays"]
    if pytestconfig.getoption("golden"):
        document = {"made with": made_with(), "arrays": arrays | bits}
        BITS.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
        return
    bits_here, expected = _flatten(bits), _flatten({name: arrays[name] for name in bits})
    differing = sorted(path for path in expected | bits_here if expected.get(path) != bits_here.get(path))
    if differing:
        lines = [f"{len(differing)} of {len(expected)} arrays differ, are new or gone", *differing]
        fail(lines, of_bits=expected.keys() == bits_here.keys())


def test_every_array_has_the_recorded_bits(all_sweeps: Everything, pytestconfig: pytest.Config) -> None:
    check_bits(all_sweeps.bits, pytestconfig)


@pytest.mark.slow
def test_the_packaged_sweep_has_the_recorded_bits(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    check_bits(run_packaged(tmp_path), pytestconfig)


@pytest.mark.parametrize("group", GROUPS)
def test_everything_shown_is_as_recorded(
    all_sweeps: Everything, group: str, pytestconfig: pytest.Config
) -> None:
    now = {name: text for name, text in all_sweeps.texts.items() if name.startswith(f"{group}/")}
    expected = recorded_texts(group)
    if pytestconfig.getoption("golden"):
        for name in expected:
            (GOLDEN / name).unlink()
        for name, text in now.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_bytes(text.encode())
        return
    names = sorted(name for name in now.keys() | expected.keys() if now.get(name) != expected.get(name))
    lines: list[str] = []
    for name in names:
        here, there = (texts.get(name, "").splitlines() for texts in (expected, now))
        changed = list(difflib.unified_diff(here, there, "recorded", "now", n=0, lineterm=""))[2:]
        lines += [
            f"{name}: {len(changed)} lines of differences",
            *(f"  {line[:200]}" for line in changed[:MOST_LINES]),
        ]
    if names:
        fail(lines, of_bits=expected.keys() == now.keys())


def test_the_record_is_of_every_command_and_leaves_out_times_alone() -> None:
    names = set().union(*(recorded_texts(group) for group in GROUPS))
    assert {f"{name}.txt" for name in COMMANDS} < names
    assert all(f"{name}/files.txt" in names for name in FOLDERS)
    assert not any(place.is_dir() and place.name not in (*GROUPS, "sweeps") for place in GOLDEN.iterdir())
    arrays = json.loads(BITS.read_text())["arrays"]
    assert set(arrays) == {*SWEEPS, PACKAGED, "everything.scores"}
    arrays_kept = {path.rpartition("/")[2] for name in SWEEPS for path in arrays[name]}
    assert {"labels", "annotations", "held_out", "unseen_mass", "covariance_shape", "X"} < arrays_kept
    assert not arrays_kept & set(RUN_DEPENDENT)


def _flatten(bits: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {f"{cube}/{path}": digest for cube, digests in bits.items() for path, digest in digests.items()}
