"""What a worker does: a batch of restarts, from coordinates to partial results."""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernels.interrupt import beside, cpu_time
from pipeline.common import best_of
from pipeline.methods.process import MethodFailed
from pipeline.questions.asking import run_path
from pipeline.work.methods import run_method
from pipeline.work.records import Batch, Chosen, Failure, Partial, Results, Science, Task, Work
from pipeline.work.stopping import is_enough
from sweeps.errors import cause_of, given
from sweeps.inputs import Source, cell_annotations
from sweeps.plan import Cell
from sweeps.seeds import choice_seed, search_seed
from sweeps.shapes import CANDIDATES, SCORED
from sweeps.words import AUTO, split_model

if TYPE_CHECKING:
    from kernels.problem.data import Layer
    from kernels.search.genetic import Restart


def run_task(task: Task, source: Source) -> Results:
    """Run what a worker was given: a batch of restarts, or one of questions.

    Parameters
    ----------
    task : Batch or PathBatch
        What to do.
    source : Source
        Features and true labels of its data set.
    """
    return run_batch(task, source) if isinstance(task, Batch) else run_path(task, source)


def run_batch(batch: Batch, source: Source) -> list[Partial | Failure]:
    """Run a batch; a cell that raises costs that cell alone.

    Parameters
    ----------
    batch : Batch
        Cells and restarts.
    source : Source
        Features and true labels of the batch's data set.

    Returns
    -------
    list of Partial or Failure
        One for each work, in order.
    """
    results: list[Partial | Failure] = []
    for work in batch.work:
        try:
            results.append(_run(batch.science, work, source))
        except MethodFailed as error:
            results.append(_failure(work, str(error), error.traceback))
        except Exception as error:
            results.append(_failure(work, cause_of(error), traceback.format_exc()))
    return results


def _failure(work: Work, cause: str, trace: str) -> Failure:
    return Failure(work, cause, socket.gethostname(), os.environ.get("SLURM_JOB_ID", ""), trace)


def missing_ranges(restarts: int, done: Iterable[int]) -> list[tuple[int, int]]:
    """Half-open ranges of the restarts not in `done`."""
    left = sorted(set(range(restarts)) - set(done))
    ranges: list[tuple[int, int]] = []
    for restart in left:
        if ranges and ranges[-1][1] == restart:
            ranges[-1] = (ranges[-1][0], restart + 1)
        else:
            ranges.append((restart, restart + 1))
    return ranges


def _run(science: Science, work: Work, source: Source) -> Partial:
    method = science.method(work.cell.model)
    if method is not None:
        X, labels_true = source.arrays(work.cell.mixture)
        return run_method(science, work, method, X, _annotations(science, work, labels_true, source))
    # Imported here, so that commands that only plan or read do not load numba.
    from kernels.problem.problem import build_problem, layers_from_annotations
    from kernels.search.genetic import run_restart

    cell, search = work.cell, science.search(work.cell)
    term, covariance = split_model(cell.model)
    X, labels_true = source.arrays(cell.mixture)
    annotations = _annotations(science, work, labels_true, source)
    layers = layers_from_annotations(annotations, cell.p)
    chosen, seconds, cpu_seconds = work.chosen, 0.0, 0.0
    if science.holds_out(cell):
        if chosen is None:
            chosen, seconds, cpu_seconds = _choose(science, cell, X, layers)
        covariance = chosen.covariance
    choosing = seconds
    problem = build_problem(
        X,
        layers,
        n_clusters=science.n_clusters,
        model=term,
        covariance=covariance,
        settings=search,
    )

    def search_all() -> list[Restart]:
        runs: list[Restart] = []
        for restart in range(work.start, work.stop):
            objectives = [*work.known, *(run.objective for run in runs)]
            if science.stop is not None and is_enough(objectives, science.stop):
                break
            runs.append(run_restart(problem, search, _rng(science.seed, cell, restart)))
        return runs

    started, cpu_started = time.perf_counter(), cpu_time()
    runs = beside(search_all)
    seconds += time.perf_counter() - started
    cpu_seconds += cpu_time() - cpu_started
    best = best_of([run.objective for run in runs])
    return Partial(
        work=Work(cell, work.start, work.start + len(runs)),
        objectives=np.array([run.objective for run in runs]),
        best_restart=work.start + best,
        labels=runs[best].labels.astype(np.int16),
        centroids=runs[best].centroids,
        covariances=runs[best].covariances,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        chosen=chosen,
        choosing=choosing,
    )


def _annotations(
    science: Science, work: Work, labels_true: NDArray[np.int16] | None, source: Source
) -> NDArray[np.int32]:
    """Annotations of a cell: the answers it comes with, or those drawn from its coordinates."""
    if work.annotations is not None:
        return work.annotations
    return cell_annotations(science.seed, work.cell, labels_true, source.pool)


def _choose(
    science: Science, cell: Cell, X: NDArray[np.float64], layers: Sequence[Layer]
) -> tuple[Chosen, float, float]:
    """What held-out annotations say of a cell, and the seconds, elapsed and of the processor, it took."""
    from kernels.choice.held_out import choose_covariance, warm_up

    warm_up()
    term, covariance = split_model(cell.model)
    search = science.search(cell)
    started, cpu_started = time.perf_counter(), cpu_time()
    choose = partial(
        choose_covariance,
        X,
        layers,
        n_clusters=science.n_clusters,
        model=term,
        settings=search,
        seed=choice_seed(
            science.seed,
            cell.dataset,
            mixture=cell.mixture,
            p=given(cell.p),
            m=given(cell.m),
            replicate=given(cell.replicate),
            model=cell.model,
        ),
        candidates=CANDIDATES if covariance == AUTO else (covariance,),
    )
    choice = beside(choose)
    seconds, cpu_seconds = time.perf_counter() - started, cpu_time() - cpu_started
    scores = [choice.candidates.get(shape) for shape in (SCORED if search.held_out else CANDIDATES)]
    held_out = tuple(np.nan if each is None else each.log_loss for each in scores)
    right = tuple(np.nan if each is None else each.share_right for each in scores)
    return Chosen(choice.covariance, held_out, right), seconds, cpu_seconds


def _rng(seed: int, cell: Cell, restart: int) -> np.random.Generator:
    where = search_seed(
        seed,
        cell.dataset,
        mixture=cell.mixture,
        p=cell.p,
        m=cell.m,
        replicate=cell.replicate,
        model=cell.model,
        restart=restart,
    )
    return np.random.default_rng(where)
