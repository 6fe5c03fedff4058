"""The `sweep datasets` commands."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes.commandline import sweep

from sweeps.data.builtin import Unavailable


def test_data_sets_are_listed_with_their_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path))
    rows = json.loads(sweep("datasets", "list", "--json").stdout)
    assert len(rows) == 9
    assert {row["name"] for row in rows if "scikit-learn" in row["source"]} == {"iris", "wine"}
    assert "not on this machine" in sweep("datasets", "list").stdout
    assert sweep("datasets", "check", "iris", "wine").exit_code == 0
    missing = sweep("datasets", "check", "ecoli")
    assert missing.exit_code == 1
    assert "MISSING" in missing.stdout
    unknown = sweep("datasets", "check", "irsi")
    assert unknown.exit_code == 2
    assert "'irsi'" in unknown.stderr


def test_all_eight_are_good_in_a_data_directory(raw_data: Path) -> None:
    result = sweep("datasets", "check", "--data-dir", raw_data)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("good") == 9


def test_every_unknown_name_is_named(tmp_path: Path) -> None:
    for command in ("check", "fetch"):
        unknown = sweep("datasets", command, "irsi", "wine", "glas")
        assert unknown.exit_code == 2
        assert "2 problems, nothing was started" in unknown.stderr
        assert "'irsi'" in unknown.stderr
        assert "'glas'" in unknown.stderr


def test_one_that_cannot_be_fetched_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str, *, data_dir: Path | None) -> SimpleNamespace:
        if name == "ecoli":
            raise Unavailable(name, ("no network", "no mirror"))
        return SimpleNamespace(path="scikit-learn")

    monkeypatch.setattr("sweeps.data.builtin.find", find)
    fetched = sweep("datasets", "fetch", "ecoli", "iris")
    assert fetched.exit_code == 1
    assert fetched.stdout == "iris: scikit-learn\n"
    assert "ecoli: not available: no network; no mirror" in fetched.stderr
    assert sweep("datasets", "fetch", "iris").exit_code == 0
