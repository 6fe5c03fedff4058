"""`sweep schema` and `sweep plan --resolved`: documents for editors and for people."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from processes.sweeping import write_spec

from pipeline.cluster.profiles import cluster_schema
from pipeline.commands.main import main
from sweeps.file.reading import as_file, load_sweep, sweep_schema


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_schema_of_a_sweep_file() -> None:
    assert printed("schema") == sweep_schema()


def test_the_schema_of_cluster_yaml() -> None:
    assert printed("schema", "--cluster") == cluster_schema()


def test_a_resolved_sweep_needs_no_data_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_spec(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("sweeps.data.reading.load_builtin", None)
    text = printed("plan", str(path), "--resolved")
    assert tomllib.loads(text) == as_file(load_sweep(path))
    assert json.loads(printed("plan", str(path), "--resolved", "--json")) == as_file(load_sweep(path))
    assert sorted(tmp_path.rglob("*")) == before


def test_every_problem_of_a_bad_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('seed = -1\n[grid]\nmodels = ["x"]\n', encoding="utf-8")
    done = CliRunner().invoke(main, ["plan", str(path), "--resolved"])
    assert done.exit_code == 2
    assert done.stderr.startswith("5 problems")
