"""The page of the repeated evaluation is what its scores give."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.file.reading import load_sweep

DOCS = Path(__file__).resolve().parents[1] / "docs"
KEPT = DOCS / "repeat"


def test_page_is_built_from_the_scores_that_are_kept(tmp_path: Path) -> None:
    copy = tmp_path / "repeat"
    shutil.copytree(KEPT, copy, ignore=shutil.ignore_patterns("*.png", "*-summary.csv", "__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent), "PYTHONWARNINGS": "error"}
    subprocess.run([sys.executable, copy / "build" / "page.py"], cwd=tmp_path, env=environment, check=True)
    page = (tmp_path / "repeat.md").read_text(encoding="utf-8")
    assert page == (DOCS / "repeat.md").read_text(encoding="utf-8")
    assert "nan" not in page
    linked = re.findall(r"\]\(repeat/(.*?)\)", page)
    assert len(linked) > 8
    for name in linked:
        assert (KEPT / name).is_file(), name
        assert (copy / name).is_file(), name


@pytest.mark.parametrize(
    ("script", "arguments", "words"),
    [
        ("run.py", ("uci-p11", "one-restart", "mixtures"), ("uci-p11, mixtures", "expected some of")),
        ("page.py", ("table.csv",), ("line 2, n_clusters", "line 2, value", "line 2, model")),
    ],
)
def test_everything_wrong_is_said_and_nothing_started(
    tmp_path: Path, script: str, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    copy = tmp_path / "repeat"
    shutil.copytree(KEPT, copy, ignore=shutil.ignore_patterns("*.png", "*-summary.csv", "__pycache__"))
    (tmp_path / "table.csv").write_text("p,n_clusters,m,model,metric,value\n0.8,two,100,posteriour,nmi,x\n")
    before = (copy / "scores" / "against.csv").read_bytes()
    done = subprocess.run(
        [sys.executable, copy / "build" / script, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert (copy / "scores" / "against.csv").read_bytes() == before
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "repeat.md").exists()


@pytest.mark.parametrize("path", sorted(KEPT.glob("sweeps/*/*.toml")), ids=lambda path: path.stem)
def test_sweeps_of_the_repeat_are_named_as_their_files(path: Path) -> None:
    assert load_sweep(path).name == path.stem


def test_what_is_kept_is_small() -> None:
    assert [path.name for path in KEPT.rglob("*") if path.is_file() and path.stat().st_size >= 2**20] == []


def test_folders_stay_surveyable() -> None:
    folders = [KEPT, *(path for path in KEPT.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    entries = {
        folder.name: sum(path.name != "__pycache__" for path in folder.iterdir()) for folder in folders
    }
    assert {name: count for name, count in entries.items() if count > 12} == {}
