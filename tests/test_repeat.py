"""The page of the repeated evaluation follows from its scores, and building it runs all its sources."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweep_clustering.sweeps.file.reading import load_sweep

DOCS = Path(__file__).resolve().parents[1] / "docs"
KEPT = DOCS / "repeat"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return a function that imports a script of the repeat as its neighbours do."""
    monkeypatch.syspath_prepend(str(KEPT / "build"))
    return importlib.import_module


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the sources of the page."""
    ignore = shutil.ignore_patterns("*.png", "*-summary.csv", "__pycache__")
    return Path(shutil.copytree(KEPT, tmp_path / "repeat", ignore=ignore))


def script(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent), "PYTHONWARNINGS": "error"}
    line = [sys.executable, copy / "build" / command[0], *command[1:]]
    return subprocess.run(line, cwd=copy.parent, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_page_is_built_from_the_scores_that_are_kept(copy: Path) -> None:
    process = script(copy, "page.py")
    assert process.returncode == 0, process.stderr
    page = copy.with_name("repeat.md").read_text(encoding="utf-8")
    assert page == (DOCS / "repeat.md").read_text(encoding="utf-8")
    assert "nan" not in page
    linked = re.findall(r"\]\(repeat/(.*?)\)", page)
    assert len(linked) > 8
    assert [name for name in linked if not ((KEPT / name).is_file() and (copy / name).is_file())] == []


@pytest.mark.slow
def test_everything_wrong_is_said_and_nothing_started(copy: Path) -> None:
    copy.with_name("table.csv").write_text(
        "p,n_clusters,m,model,metric,value\n0.8,two,100,posteriour,nmi,x\n"
    )
    before = (copy / "scores" / "against.csv").read_bytes()
    for command, words in (
        ("run.py uci-p11 one-restart mixtures", ("uci-p11, mixtures", "expected some of")),
        ("page.py table.csv", ("line 2, n_clusters", "line 2, value", "line 2, model")),
    ):
        process = script(copy, *command.split())
        assert process.returncode == 2
        assert "Traceback" not in process.stderr
        assert [word for word in words if word not in process.stderr] == []
        assert (copy / "scores" / "against.csv").read_bytes() == before
        assert {path.name for path in copy.parent.iterdir()} == {"repeat", "table.csv"}


def test_sweeps_of_the_repeat_are_named_and_hang_on_no_default() -> None:
    """Their scores are kept, so the files must mean the same whatever the default method becomes."""
    keys = {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
    for path in KEPT.glob("sweeps/*/*.toml"):
        assert load_sweep(path).name == path.stem
        search = tomllib.loads(path.read_text(encoding="utf-8"))["search"]
        assert search == {"method": "published", **(keys if "stronger" in path.stem else {})}, path


@pytest.mark.slow
def test_gap_is_that_of_the_true_labels(build: Callable[[str], Any]) -> None:
    name, cells = "mixtures-p08", 50 * 17
    gaps = pd.DataFrame(islice(build("truth").gaps(name), cells))
    assert set(gaps["dataset"]) == {"mixtures_k2"}
    expected = pd.read_csv(KEPT / "scores" / "truth.csv")
    expected = expected[(expected["sweep"] == name) & (expected["dataset"] == "mixtures_k2")]
    means = gaps.groupby(["p", "m", "model"], dropna=False, sort=False)["gap"].mean().round(3)
    assert len(means) == len(expected)
    assert means.to_list() == pytest.approx(expected["mean_gap"].to_list(), abs=2e-3)


def test_bayes_error_is_what_a_large_sample_has(build: Callable[[str], Any]) -> None:
    rng, n = np.random.default_rng(0), 400_000
    # nearly of one variance: the ball of the narrower cluster is nearly a half space
    close = [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]], [1.01, 1.0]
    for centers, variances in (([[0.3, -0.2], [1.0, 0.5]], [0.4, 2.0]), close, ([[0.2], [0.2]], [3.0, 0.5])):
        middle, spread = np.array(centers), np.array(variances)
        labels = rng.integers(2, size=n)
        noise = rng.standard_normal((n, middle.shape[1]))
        X = middle[labels] + np.sqrt(spread[labels])[:, np.newaxis] * noise
        squares = ((X[:, np.newaxis] - middle) ** 2).sum(axis=2)
        wrong = ((squares / spread + middle.shape[1] * np.log(spread)).argmin(axis=1) != labels).mean()
        assert float(build("reweighting").bayes_error(middle, spread)) == pytest.approx(wrong, abs=0.003)
