"""Guides that use files of one's own, done as they are written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from guides import outputs

pytestmark = pytest.mark.slow

Done = Callable[[str], list[str]]


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Done:
    monkeypatch.chdir(tmp_path)
    return lambda name: outputs(name, tmp_path, capsys)


def test_a_table(done: Done) -> None:
    made, head, refused, fitted, numbered, planned = done("own-tables.md")
    assert made == ""
    assert head.startswith(",plant,nr,sepal length,")
    assert refused.splitlines()[0] == "6 problems, nothing was started:"
    assert "column 9 (species): found no number, first 'Iris" in refused
    out = "plant 003 (row 4), plant 017 (row 18), plant 060 (row 61)"
    assert f"note: 3 of 150 rows have an empty cell and are left out (--missing drop): {out}" in fitted
    assert "note: features used: sepal length, sepal width, petal length, petal width (4)" in fitted
    assert fitted.splitlines()[-4] == "index,label"
    assert nmi(fitted) > 0.7
    assert "note: column 1 is another whole number in each row: it tells rows apart" in numbered
    assert "note: column 3 ('nr') is another whole number in each row: it tells rows apart" in numbered
    assert nmi(numbered) < 0.1
    assert "NOTE data set flowers: features used: sepal length, " in planned


def nmi(text: str) -> float:
    (found,) = re.findall(r"^scores +nmi ([\d.e-]+)", text, flags=re.MULTILINE)
    return float(found)


def test_annotations(done: Done) -> None:
    printed = done("own-annotations.md")
    assert "flowers.zarr" in next(each for each in printed if "results:" in each)
    assert "drawn without replacement from the 300 of a file" in printed[-1]
    assert "conditional" in printed[-1]


def test_a_method(done: Done) -> None:
    printed = done("own-methods.md")
    checked, careless, submitted, scored = (
        next(each for each in printed if word in each)
        for word in ("keeps the contract", "breaches of the contract", "results:", "without annotations")
    )
    assert "no links" in checked
    assert careless.startswith("careless.py:cluster")
    assert "3 breaches" in careless
    assert careless.rstrip().endswith("exit code 3")
    assert "mine.zarr" in submitted
    assert "pckmeans" in scored
    assert "mine" in scored
