"""The guide on tables of one's own, done as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guides import outputs


def test_the_guide_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made, head, refused, fitted, numbered, planned = outputs("own-tables.md", tmp_path, capsys)
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
