"""The guide to one's own method is done as it is written, from the template to the scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from guides import outputs


def test_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = outputs("own-methods.md", tmp_path, capsys)
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
