"""What a worker does with a path of questions: batch after batch, each given the answers before it."""

from __future__ import annotations

import os
import socket
import time
import traceback

import numpy as np

from kernels.interrupt import cpu_time
from pipeline.questions.records import Answers, Asking, PathBatch, PathFailure, PathPart
from sweeps.errors import cause_of, given
from sweeps.inputs import Arrays, Source
from sweeps.plan import AskedPath
from sweeps.seeds import path_seed
from sweeps.words import ASKED


def run_path(task: PathBatch, source: Source) -> list[PathPart | PathFailure]:
    """Ask the batches of a task; what was answered before one raises is kept.

    Parameters
    ----------
    task : PathBatch
        Which path, and how far.
    source : Source
        Features and true labels of its data set.

    Returns
    -------
    list of PathPart or PathFailure
        A part of the batches that were asked, if any were, and then the failure of the one that raised.
    """
    arrays = source.arrays(task.path.mixture)
    answers, cause = task.known, ""
    started, cpu_started, trace = time.perf_counter(), cpu_time(), ""
    for _ in range(task.batches):
        try:
            answers = np.concatenate([answers, ask_batch(task.asking, task.path, answers, arrays)])
        except Exception as error:
            cause, trace = cause_of(error), traceback.format_exc()
            break
    results: list[PathPart | PathFailure] = []
    if len(answers) > task.start:
        took = time.perf_counter() - started, cpu_time() - cpu_started
        results.append(PathPart(task.path, task.start, answers[task.start :], *took))
    if cause:
        start, job = len(answers), os.environ.get("SLURM_JOB_ID", "")
        stop = start + task.asking.batch
        results.append(PathFailure(task.path, start, stop, cause, socket.gethostname(), job, trace))
    return results


def ask_batch(asking: Asking, path: AskedPath, known: Answers, arrays: Arrays) -> Answers:
    """Ask one batch of a path, whole whatever the largest m: a path is a prefix of a longer one.

    Where there are not so many pairs to ask at once, the rest of the batch is asked given the answers to its
    beginning: so a pair may come again in a batch of more questions than there are pairs.

    Parameters
    ----------
    asking : Asking
        How to ask.
    path : AskedPath
        Which path.
    known : ndarray of shape (start, 3)
        The answers before.
    arrays : (X, labels_true)
        Features as used, and what the oracle answers from.

    Returns
    -------
    ndarray of shape (batch, 3), int32
        Columns i, j and kind, in the order of asking.

    Raises
    ------
    ValueError
        If the model that asks has no solution, or there is no pair to ask.
    """
    # Imported here, so that commands that only plan or read do not load numba.
    from pipeline.asking.strategies import next_answers

    X, labels_true = arrays
    answers, stop = known, len(known) + asking.batch
    while len(answers) < stop:
        seed = path_seed(
            asking.seed,
            path.dataset,
            mixture=path.mixture,
            p=path.p,
            replicate=path.replicate,
            design=path.design,
            start=len(answers),
        )
        found = next_answers(
            X,
            given(labels_true),
            answers,
            n_clusters=asking.n_clusters,
            p=path.p,
            strategy=ASKED[path.design],
            count=stop - len(answers),
            seed=seed,
            covariance=asking.covariance,
            restarts=asking.restarts,
        )
        if not len(found):
            raise ValueError(f"{path}: no pair to ask after {len(answers)} answers")
        answers = np.concatenate([answers, found])
    return answers[len(known) : stop]
