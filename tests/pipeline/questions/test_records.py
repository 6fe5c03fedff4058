"""What goes to a worker that asks: how many batches, and their names."""

from __future__ import annotations

import numpy as np

from pipeline.questions.records import NO_ANSWERS, Asking, PathBatch, PathPart
from sweeps.plan import AskedPath

ASKING = Asking(seed=1, n_clusters=2, batch=8, restarts=1, covariance="auto")
PATH = AskedPath("iris", 3, 0.9, 1, "active")


def test_batches_are_whole() -> None:
    assert [ASKING.batches(0, stop) for stop in (0, 1, 8, 9, 24)] == [0, 1, 1, 2, 3]
    assert [ASKING.batches(16, stop) for stop in (10, 16, 17)] == [0, 0, 1]


def test_names_say_where_and_which_questions() -> None:
    assert str(PATH) == "iris/mixture=3/p=0.9/design=active/replicate=1"
    task = PathBatch(ASKING, PATH, NO_ANSWERS, 2, 1.0)
    assert str(task) == f"{PATH}, questions 0..15"
    assert (task.dataset, task.start) == ("iris", 0)
    assert PathPart(PATH, 8, np.zeros((8, 3), dtype=np.int32), 1.0, 1.0).stop == 16
