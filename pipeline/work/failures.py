"""Batches that are lost with their worker."""

from __future__ import annotations

from pipeline.questions.records import PathBatch, PathFailure
from pipeline.work.records import Failure, Work
from sweeps.errors import cause_of


class BatchLost(Exception):
    """A batch is given up: it ended its worker.

    Parameters
    ----------
    cause : str
        What happened.
    node, job : str
        Where.
    """

    def __init__(self, cause: str, node: str = "", job: str = "") -> None:
        super().__init__(cause)
        self.node = node
        self.job = job


def lost_with_its_worker(work: Work, error: BaseException) -> Failure:
    """Failure of a work whose worker died while running it."""
    return Failure(work, *_how(error), "")


def lost_while_asking(task: PathBatch, error: BaseException) -> PathFailure:
    """Failure of questions whose worker died while it asked them."""
    stop = task.start + task.batches * task.asking.batch
    return PathFailure(task.path, task.start, stop, *_how(error), "")


def _how(error: BaseException) -> tuple[str, str, str]:
    """Cause, node and job."""
    node, job = "", ""
    last = getattr(error, "last_worker", None)  # of distributed's KilledWorker
    if isinstance(error, BatchLost):
        node, job = error.node, error.job
    elif last is not None:
        node, job = last.host, last.name if isinstance(last.name, str) else ""
    return cause_of(error), node, job
