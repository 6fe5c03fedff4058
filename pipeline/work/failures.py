"""Batches that are given up: lost with their worker, or answered with what is of another."""

from __future__ import annotations

from pipeline.questions.records import PathBatch, PathFailure, PathPart
from pipeline.work.records import Failure, Partial, Results, Task, Work
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


def checked(task: Task, outcome: Results | BaseException) -> Results | BaseException:
    """What came of a task, where all of it is of this task: an answer to another one is none."""
    if isinstance(outcome, BaseException) or all(_is_of(task, result) for result in outcome):
        return outcome
    return BatchLost("what came back was the answer to another batch")


def _is_of(task: Task, result: Partial | Failure | PathPart | PathFailure) -> bool:
    if isinstance(result, (PathPart, PathFailure)):
        if not isinstance(task, PathBatch) or result.path != task.path:
            return False
        return task.start <= result.start < result.stop <= task.start + task.batches * task.asking.batch
    if isinstance(task, PathBatch):
        return False
    done, wanted = result.work, {(work.cell, work.start): work.stop for work in task.work}
    return done.start < done.stop <= wanted.get((done.cell, done.start), 0)


def _how(error: BaseException) -> tuple[str, str, str]:
    """Cause, node and job."""
    node, job = "", ""
    last = getattr(error, "last_worker", None)  # of distributed's KilledWorker
    if isinstance(error, BatchLost):
        node, job = error.node, error.job
    elif last is not None:
        node, job = last.host, last.name if isinstance(last.name, str) else ""
    return cause_of(error), node, job
