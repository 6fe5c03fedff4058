"""Sweeps, too, say what makes the objective of a data set a poor guide."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from processes.sweeping import run

from pipeline.fit.data_notes import data_notes, equal_rows

SPEC = """
name = "notes"
seed = 1
[grid]
datasets = [
    {name = "plain", path = "plain.csv", n_clusters = 2},
    {name = "odd", path = "odd.csv", n_clusters = 2},
    {name = "drawn", mixture = {n_clusters = [6], count = 1, n_samples = 6, n_features = 2}},
]
models = ["unsupervised"]
restarts = 2
[search]
population = 2
offspring = 1
generations = 1
min_cluster_size = 1
"""


def test_a_sweep_says_so_before_it_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rows 0 and 1 of the second data set are equal, and its last column is constant."""
    X = np.random.default_rng(0).normal(size=(8, 3))
    np.savetxt(tmp_path / "plain.csv", X)
    X[1] = X[0]
    X[:, 2] = 0.5
    np.savetxt(tmp_path / "odd.csv", X)
    (tmp_path / "notes.toml").write_text(SPEC)
    assert run(tmp_path / "notes.toml", tmp_path) == 0
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    constant, repeats, crowded = (text.removeprefix("NOTE data set ") for text in said)
    assert constant.startswith("odd: 1 feature is constant, of 3")
    assert repeats.startswith("odd: 2 of 8 rows are (nearly) equal")
    assert crowded.startswith("drawn_k6: as many clusters as rows")


@pytest.mark.parametrize("place", [0.0, 0.5, 0.25])
def test_rows_alike_count_as_equal_wherever_they_lie(place: float) -> None:
    """Also on the lines of the grid that finds them, and in any units."""
    X = np.random.default_rng(1).normal(size=(400, 2))
    width = 1e-5 * np.sqrt(np.square(X - X.mean(axis=0)).mean())
    X[:200] = X.mean(axis=0) + (np.round(X[:200] / width) + place) * width
    X = np.concatenate([X, X[:200] + 1e-9, X[:200] - 1e-9])
    for units in (1.0, 2.0**40):
        assert np.sort(equal_rows(X * units)).tolist() == [1] * 200 + [3] * 200
    (note,) = data_notes(X, 3, may_degenerate=True)
    assert note.startswith("3 of 800 rows")
