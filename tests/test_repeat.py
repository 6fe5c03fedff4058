"""The page of the repeated evaluation is what its scores give."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeps.file.reading import load_sweep
from sweeps.file.spec import Mixtures
from sweeps.inputs import draw_mixture
from sweeps.seeds import data_seed

DOCS = Path(__file__).resolve().parents[1] / "docs"
KEPT = DOCS / "repeat"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a script of the repeat as its neighbours do."""
    monkeypatch.syspath_prepend(str(KEPT / "build"))
    before = set(sys.modules)

    def module(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(KEPT)):
            del sys.modules[name]


@pytest.fixture
def two_clusters() -> dict[str, pd.DataFrame]:
    """Cells of the mixtures of two clusters, by a sweep that draws them."""
    parts = [pd.read_csv(KEPT / "scores" / "mixtures" / f"mixtures-p{p}.csv") for p in ("08", "09", "10")]
    first = pd.concat(parts).drop_duplicates(["dataset", "mixture", "p", "m", "model"])
    return {
        "mixtures-p10": first,
        "others-k2": pd.read_csv(KEPT / "scores" / "mixtures" / "others-k2.csv"),
    }


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("path", sorted(KEPT.glob("sweeps/*/*.toml")), ids=lambda path: path.stem)
def test_no_search_of_the_repeat_hangs_on_a_default(path: Path) -> None:
    """Their scores are kept: the files mean the same whatever the default method is, and becomes."""
    search = tomllib.loads(path.read_text(encoding="utf-8"))["search"]
    keys = {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
    assert search == {"method": "published", **(keys if "stronger" in path.stem else {})}


def test_what_is_kept_is_small() -> None:
    assert [path.name for path in KEPT.rglob("*") if path.is_file() and path.stat().st_size >= 2**20] == []


def test_gap_is_that_of_the_true_labels(build: Any) -> None:
    truth = build("truth")
    name, cells = "mixtures-p08", 50 * 17
    gaps = pd.DataFrame(islice(truth.gaps(name), cells))
    assert set(gaps["dataset"]) == {"mixtures_k2"}
    kept = pd.read_csv(KEPT / "scores" / "truth.csv")
    kept = kept[(kept["sweep"] == name) & (kept["dataset"] == "mixtures_k2")]
    means = gaps.groupby(["p", "m", "model"], dropna=False, sort=False)["gap"].mean().round(3)
    assert len(means) == len(kept)
    assert means.to_list() == pytest.approx(kept["mean_gap"].to_list(), abs=2e-3)


# The second pair is nearly of one variance: the ball of the narrower cluster is nearly a half space.
@pytest.mark.parametrize(
    ("centers", "variances"),
    [
        ([[0.3, -0.2], [1.0, 0.5]], [0.4, 2.0]),
        ([[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]], [1.01, 1.0]),
        ([[0.2], [0.2]], [3.0, 0.5]),
    ],
)
def test_bayes_error_is_what_a_large_sample_has(
    build: Any, centers: list[list[float]], variances: list[float]
) -> None:
    middle, spread = np.array(centers), np.array(variances)
    rng, n = np.random.default_rng(0), 400_000
    labels = rng.integers(2, size=n)
    X = middle[labels] + np.sqrt(spread[labels])[:, np.newaxis] * rng.standard_normal((n, middle.shape[1]))
    squares = ((X[:, np.newaxis] - middle) ** 2).sum(axis=2)
    cost = squares / spread + middle.shape[1] * np.log(spread)
    wrong = (cost.argmin(axis=1) != labels).mean()
    assert float(build("reweighting").bayes_error(middle, spread)) == pytest.approx(wrong, abs=0.003)


def test_mixtures_are_those_of_the_sweep(build: Any) -> None:
    reweighting = build("reweighting")
    spec = load_sweep(KEPT / "sweeps" / "mixtures" / "others-k2.toml")
    (recipe,) = spec.grid.datasets
    assert isinstance(recipe, Mixtures)
    errors, same = reweighting.errors_of("others-k2")
    assert (len(errors), same) == (150, recipe)
    stream = data_seed(spec.seed, recipe.name, 7)
    X, labels = draw_mixture(np.random.default_rng(stream), n_clusters=2)
    centers, variances = reweighting.parameters(np.random.default_rng(stream), recipe)
    noise = (X - centers[labels]) / np.sqrt(variances[labels])[:, np.newaxis]
    rng = np.random.default_rng(stream)
    reweighting.parameters(rng, recipe)
    rng.integers(2, size=200)
    assert noise == pytest.approx(rng.standard_normal(X.shape), abs=1e-12)
    assert errors[7] == reweighting.bayes_error(centers, variances)


def test_tilt_is_found_again(build: Any) -> None:
    reweighting = build("reweighting")
    rng = np.random.default_rng(3)
    errors = rng.uniform(0, 0.3, 200)
    scores = 1 - errors * rng.uniform(0.5, 1.5, (12, 1)) + 0.01 * rng.standard_normal((12, 200))
    published = scores @ reweighting.weights(errors, 4.0)
    assert reweighting.best_tilt(errors, scores, published) == pytest.approx(4.0, abs=1e-3)
    flat = reweighting.weights(errors, 0.0)
    by_hand = (published[0] - scores[0].mean()) / (scores[0].std() / np.sqrt(50))
    assert reweighting.z(scores, published, flat)[0] == pytest.approx(by_hand)


def test_reweighting_does_not_see_what_it_is_judged_by(
    build: Any, two_clusters: dict[str, pd.DataFrame]
) -> None:
    reweighting = build("reweighting")
    against = pd.read_csv(KEPT / "scores" / "against.csv")
    found = reweighting.reweigh(against, two_clusters)
    assert (found.values["fitted"].sum(), (~found.values["fitted"]).sum()) == (42, 20)
    assert not found.values[["mean", "weighted"]].isna().any(axis=None)
    exact = (against["p"] == 1.0) & (against["m"] > 0)
    other = against.assign(published=against["published"].where(~exact, 0.5))
    assert (reweighting.reweigh(other, two_clusters).weights == found.weights).all()
    other = against.assign(published=against["published"].where(against["p"] != 0.9, 0.5))
    assert not (reweighting.reweigh(other, two_clusters).weights == found.weights).all()


def test_ways_to_scale_are_means_of_data_sets(build: Any) -> None:
    scores = {
        "standard": pd.read_csv(KEPT / "scores" / "uci" / "uci-p10.csv"),
        "minmax": pd.read_csv(KEPT / "scores" / "uci" / "uci-minmax.csv"),
        "none": pd.read_csv(KEPT / "scores" / "uci" / "uci-unscaled-p10.csv"),
    }
    scaling = build("scaling")
    ways = scaling.ways_to_scale(scores)
    assert len(ways) == 3**8
    means = {
        name: rows[(rows["m_over_n"] > 1.45) & (rows["model"] == "likelihood")]
        .groupby("dataset")["nmi"]
        .mean()
        for name, rows in scores.items()
    }
    assert ways["likelihood"].max() == pytest.approx(pd.DataFrame(means).max(axis=1).mean())
    chosen = scaling.some_ways(ways)["Wine and Thyroid standardised"]
    one_by_one = means["none"].copy()
    one_by_one[["wine", "thyroid"]] = means["standard"][["wine", "thyroid"]]
    assert chosen["likelihood"] == pytest.approx(one_by_one.mean())
    near = scaling.near(ways)
    distance = (ways["posterior"] - 0.8828).abs() / ways["posterior_se"]
    assert near["posterior"] == (distance <= 8**0.5).sum()
    assert 0 <= near["both"] <= min(near["posterior"], near["likelihood"])
