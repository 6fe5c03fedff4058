"""What a worker does with a task: restarts of cells and batches of questions, from coordinates to results.

`run_task` is all that a worker calls; an executor says where. `SerialExecutor` is the reference.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.interrupt import cpu_time, run_interruptibly
from sweep_clustering.pipeline.common import SAME_OPTIMUM, best_of
from sweep_clustering.pipeline.methods.contract import merged_links
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import MethodFailed, MethodProcess, Unsolved
from sweep_clustering.pipeline.work import records
from sweep_clustering.pipeline.work.records import Answers, Chosen, Science, Solved, Span
from sweep_clustering.sweeps import seeds
from sweep_clustering.sweeps.errors import InputError, Problem, cause_of, collecting, present
from sweep_clustering.sweeps.file.methods import Method
from sweep_clustering.sweeps.file.spec import Stop
from sweep_clustering.sweeps.inputs import Arrays, Source, cell_annotations
from sweep_clustering.sweeps.plan import AskedPath, Cell
from sweep_clustering.sweeps.shapes import DIMS, widened
from sweep_clustering.sweeps.words import ASKED, shape_of, split_model

if TYPE_CHECKING:
    from sweep_clustering.kernels.fits import Fit
    from sweep_clustering.kernels.solver.contract import Solver

T = TypeVar("T")

# Restarts that a choice is tried with.
TRIED = 3


def run_task(task: records.Task, source: Source) -> list[records.Done | records.Failed]:
    """Run the task of a worker; a span that raises costs itself alone.

    Parameters
    ----------
    task : Task
        Spans of one data set.
    source : Source
        Features and true labels of its data set.

    Returns
    -------
    list of Solved, Answered or Failed
        One for each span of a cell, and for each batch of a path; after one that failed its path is left.
    """
    results: list[records.Done | records.Failed] = []
    for span in task.spans:
        running = span
        try:
            if isinstance(span.unit, Cell):
                results.append(_run(task.science, span, source))
                continue
            answers, arrays = present(span.answers), source.arrays(span.unit.mixture)
            for start in range(span.start, span.stop, span.step):
                running = Span(span.unit, start, start + span.step, step=span.step)
                ask = partial(ask_batch, task.science, span.unit, answers, arrays)
                asked, seconds, cpu_seconds = _timed(ask)
                results.append(records.Answered(running, asked, seconds, cpu_seconds))
                answers = np.concatenate([answers, asked])
        except Exception as error:
            cause, trace = cause_of(error), traceback.format_exc()
            if isinstance(error, MethodFailed):  # what happened in the process of the method
                cause, trace = str(error), error.traceback
            job = os.environ.get("SLURM_JOB_ID", "")
            results.append(records.Failed(running, cause, socket.gethostname(), job, trace))
    return results


def _run(science: Science, span: Span[Cell], source: Source) -> Solved:
    """Run some restarts of a cell."""
    cell = span.unit
    X, _ = source.arrays(cell.mixture)
    annotations = span.answers
    if annotations is None:
        annotations = cell_annotations(science.seed, cell, source)
    method = science.method(cell.model)
    if method is not None:
        return run_method(science, span, method, X, annotations)
    solver, chosen, choosing, cpu_choosing = solver_of(science, cell, X, annotations), span.chosen, 0.0, 0.0
    if science.holds_out(cell):
        if chosen is None:
            choose = partial(solver.choose, [stream_of(science, cell, n) for n in range(TRIED)], predict=True)
            solver.warm_up(predict=True)
            choice, choosing, cpu_choosing = _timed(partial(run_interruptibly, choose))
            chosen = Chosen.of(choice, science.search(cell).held_out)
        # as any worker does that is told what was chosen
        solver = solver_of(science, cell, X, annotations, chosen)

    def fit_all() -> list[Fit]:
        fits: list[Fit] = []
        for restart in range(span.start, span.stop):
            objectives = [*span.known, *(fit.objective for fit in fits)]
            if science.stop is not None and is_enough(objectives, science.stop):
                break
            fits.append(solver.restart(stream_of(science, cell, restart)).bare)
        return fits

    fits, seconds, cpu_seconds = _timed(partial(run_interruptibly, fit_all))
    objectives = [fit.objective for fit in fits]
    best = best_of(objectives)
    shape = shape_of(cell.model) if chosen is None else chosen.covariance
    return Solved(
        span=Span(cell, span.start, span.start + len(fits)),
        objectives=np.array(objectives),
        best_restart=span.start + best,
        labels=fits[best].labels.astype(np.int16),
        centroids=fits[best].centroids,
        # those of unions are spherical, whatever the shape
        covariances=widened(fits[best].covariances, len(DIMS[shape]), X.shape[1]),
        seconds=choosing + seconds,
        cpu_seconds=cpu_choosing + cpu_seconds,
        chosen=chosen,
        choosing=choosing,
        gaussians=fits[best].gaussians,
    )


def solver_of(
    science: Science,
    cell: Cell,
    X: NDArray[np.float64],
    annotations: NDArray[np.int32],
    chosen: Chosen | None = None,
) -> Solver:
    """Prepare the solver of a cell.

    A restart has the same bits when the same release fits it again. A cube of format 2 has no Gaussians: what
    is fitted for its report is of today's starts, and need not have the partition that is stored.

    Parameters
    ----------
    science : Science
        Seed, searches and number of clusters.
    cell : Cell
        Cell of a model.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    annotations : ndarray of shape (m, 3)
        Samples i and j, and kind.
    chosen : Chosen or None
        What held-out annotations said of the cell before.
    """
    # Imported here, so that commands that only plan or read do not load numba.
    from sweep_clustering.kernels.problem.problem import layers_from_annotations
    from sweep_clustering.kernels.solver.contract import Model
    from sweep_clustering.kernels.solver.prepare import prepare

    term, covariance = split_model(cell.model)
    structure = None
    if chosen is not None:
        structure = chosen.made_of
        covariance = covariance if structure else chosen.covariance
    model = Model(term, covariance, science.search(cell), structure)
    seed = seeds.choice_seed(science.seed, cell.dataset, **_where(cell), model=cell.model)
    return prepare(model, X, layers_from_annotations(annotations, cell.p), science.n_clusters, seed)


def stream_of(science: Science, cell: Cell, restart: int) -> np.random.SeedSequence:
    """Return the random stream of a restart of a cell."""
    where = _where(cell)
    return seeds.search_seed(science.seed, cell.dataset, **where, model=cell.model, restart=restart)


def _where(cell: Cell) -> dict[str, Any]:
    """Coordinates that the random streams of a cell depend on."""
    return {name: getattr(cell, name) for name in ("mixture", "p", "m", "replicate")}


class Timed(NamedTuple, Generic[T]):
    """Result of a call, and the seconds that it took: elapsed, and of the processor."""

    result: T
    seconds: float
    cpu_seconds: float


def _timed(function: Callable[[], T]) -> Timed[T]:
    """Call a function, in a way that Ctrl-C can end."""
    started, cpu_started = time.perf_counter(), cpu_time()
    result = function()
    return Timed(result, time.perf_counter() - started, cpu_time() - cpu_started)


def ask_batch(science: Science, path: AskedPath, known: Answers, arrays: Arrays) -> Answers:
    """Ask one batch of a path, whole whatever the largest m: a path is a prefix of a longer one.

    Where there are not so many pairs to ask at once, the rest of the batch is asked given the answers to its
    beginning: so a pair may come again in a batch of more questions than there are pairs.

    Parameters
    ----------
    science : Science
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
    from sweep_clustering.pipeline.asking.strategies import next_answers

    X, labels_true = arrays
    asking = present(science.asking)
    answers, stop = known, len(known) + asking.batch
    while len(answers) < stop:
        seed = seeds.path_seed(science.seed, **asdict(path), start=len(answers))
        batch = next_answers(
            X,
            present(labels_true),
            answers,
            n_clusters=science.n_clusters,
            p=path.p,
            strategy=ASKED[path.design],
            count=stop - len(answers),
            seed=seed,
            covariance=asking.covariance,
            restarts=asking.restarts,
        )
        if not len(batch):
            raise ValueError(f"{path}: no pair to ask after {len(answers)} answers")
        answers = np.concatenate([answers, batch])
    return answers[len(known) : stop]


# Calls of a method: the restarts of a cell that no model of ours solves.


def method_calls(where: str, methods: Iterable[Method], *, loaded: bool = False) -> tuple[MethodCall, ...]:
    """Methods of a sweep as workers get them, with the text of files.

    Parameters
    ----------
    where : str
        Sweep file or cube, for messages.
    methods : iterable of Method
        Of its grid.
    loaded : bool
        Whether each is imported once, in a process of its own, so that a run does not begin with one that
        cannot be.

    Raises
    ------
    InputError
        With what is wrong with each: a file that is not the one whose checksum was taken, code that raises,
        names that are not there, arguments, options.
    """
    calls, problems = list[MethodCall](), list[Problem]()
    with MethodProcess() as process:
        for method in methods:
            with collecting(problems):
                try:
                    source = method.source()
                    call = MethodCall(method.name, method.call, source, method.options, method.time_limit)
                    if loaded:
                        process.load(call)
                    calls.append(call)
                except InputError:
                    raise
                except (ValueError, MethodFailed) as error:
                    expected = "code that is as it was, and can be imported"
                    problems.append(Problem(f"{where}: method {method.name}", str(error), expected))
    if problems:
        raise InputError(problems)
    return tuple(calls)


@cache
def _process() -> MethodProcess:
    """The processes that run methods for this one; they end with this one, and are waited for."""
    process = MethodProcess()
    Finalize(None, process.close, exitpriority=0)  # a worker, which multiprocessing started, runs no atexit
    return process


def run_method(
    science: Science,
    span: Span[Cell],
    method: MethodCall,
    X: NDArray[np.float64],
    annotations: NDArray[np.int32],
) -> Solved:
    """Call a method for some restarts of a cell.

    Parameters
    ----------
    science : Science
        Seed and number of clusters.
    span : Span
        Cell and restarts.
    method : MethodCall
        What to call.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    annotations : ndarray of shape (m, 3)
        Samples i and j, and kind; none for a method that uses none.

    Returns
    -------
    Solved
        The solution of the largest objective, of the lowest restart where there are none. Centroids are the
        method's own, or means; covariances are spherical, from its labels.

    Raises
    ------
    MethodFailed
        If a call raises, answers what the contract does not allow, dies, or takes too long.
    """
    from sweep_clustering.kernels.scores import cluster_gaussians

    cell, n_clusters = span.unit, science.n_clusters
    links = merged_links(annotations)
    best, answer, seconds, cpu_seconds = -1, None, 0.0, 0.0
    objectives = np.full(span.size, np.nan)
    for restart in range(span.start, span.stop):
        drawn = {**_where(cell), "method": method.name, "restart": restart}
        try:
            call = _process().solve(
                method,
                (cell.dataset, cell.mixture, science.seed),
                X,
                n_clusters=n_clusters,
                links=links,
                accuracy=cell.p,
                random_state=seeds.method_seed(science.seed, cell.dataset, **drawn),
            )
        except Unsolved as none:
            seconds, cpu_seconds = seconds + none.seconds, cpu_seconds + none.cpu_seconds
            continue
        seconds, cpu_seconds = seconds + call.seconds, cpu_seconds + call.cpu_seconds
        if call.solution.objective is not None:
            objectives[restart - span.start] = call.solution.objective
        if answer is None or objectives[restart - span.start] > objectives[best - span.start]:
            best, answer = restart, call.solution
    # what is not a number stays where there is no solution
    labels = np.full(len(X), -1, dtype=np.int16)
    centroids, covariances = np.full((n_clusters, X.shape[1]), np.nan), np.full(n_clusters, np.nan)
    if answer is not None:
        labels = np.asarray(answer.labels, dtype=np.int16)
        _, centroids, covariances = cluster_gaussians(X, labels, n_clusters)
        if answer.centroids is not None:
            centroids = np.asarray(answer.centroids, dtype=np.float64)
    return Solved(
        span=Span(cell, span.start, span.stop),
        objectives=objectives,
        best_restart=best,
        labels=labels,
        centroids=centroids,
        covariances=covariances,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
    )


# Whether a cell has had enough restarts, from the objectives of its restarts alone.
#
# The restarts of a cell are independent, so its optima are like species and its restarts like animals caught:
# how likely the next one is of an unknown species is a question with two classical answers. Both count every
# unknown optimum, so they bound the probability that the next restart finds a better one.


def optimum_counts(objectives: Sequence[float] | NDArray[np.float64]) -> list[int]:
    """How often each distinct optimum was found, best optimum first.

    Parameters
    ----------
    objectives : array-like of shape (n,)
        Objectives in nats, in any order. Those at most `SAME_OPTIMUM` below the largest of an optimum belong
        to it.

    Returns
    -------
    list of int
        Sums to n.
    """
    counts: list[int] = []
    top = np.inf
    for value in sorted(map(float, objectives), reverse=True):
        if not counts or value < top - SAME_OPTIMUM:
            counts.append(0)
            top = value
        counts[-1] += 1
    return counts


def unseen_mass(objectives: Sequence[float] | NDArray[np.float64], rule: str) -> float:
    """Estimate the probability that the next restart finds an optimum that none has found yet.

    Parameters
    ----------
    objectives : array-like of shape (n,)
        Objectives of the restarts so far, in nats, at least two.
    rule : str
        `"boender-rinnooy-kan"`: w(w+1)/(n(n-1)) for w distinct optima, a posterior mean under uniform priors
        (Boender and Rinnooy Kan, Bayesian stopping rules for multistart global optimization methods,
        Mathematical Programming 37, 1987). `"good-turing"`: the share f1/n of restarts whose optimum was
        found once (Good, The population frequencies of species and the estimation of population parameters,
        Biometrika 40, 1953).

    Returns
    -------
    float
        In [0, 1].
    """
    counts = optimum_counts(objectives)
    n, w = sum(counts), len(counts)
    if rule == "good-turing":
        return counts.count(1) / n
    return min(1.0, w * (w + 1) / (n * (n - 1)))


def is_enough(objectives: Sequence[float] | NDArray[np.float64], stop: Stop) -> bool:
    """Whether the rule is tested after these restarts, and ends the cell."""
    beyond = len(objectives) - stop.r_min
    return beyond >= 0 and beyond % stop.step == 0 and unseen_mass(objectives, stop.rule) < stop.risk


def restarts_enough(
    objectives: Sequence[float] | NDArray[np.float64], stop: Stop | None, restarts: int
) -> int | None:
    """Number of restarts after which a cell ends.

    Parameters
    ----------
    objectives : array-like of shape (n,)
        Objectives of restarts 0..n-1, in nats.
    stop : Stop or None
        None: all restarts are run.
    restarts : int
        The most a cell may have.

    Returns
    -------
    int or None
        At most n; None if the cell needs more than these.
    """
    if stop is not None:
        for n in range(stop.r_min, min(len(objectives), restarts - 1) + 1, stop.step):
            if is_enough(objectives[:n], stop):
                return n
    return restarts if len(objectives) >= restarts else None


# What runs tasks; the serial executor is the reference that every other one must equal.

Outcome = records.Results | BaseException

# Tasks that ended at about the same time.
Ended = list[tuple[records.Task, Outcome]]

NextTask = Callable[[], records.Task | None]


class SerialExecutor:
    """The reference: the same tasks in a loop, in this process."""

    workers = 1

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        load_kernels()

    def results(self, next_task: NextTask) -> Iterator[Ended]:
        """Run each task before asking `next_task` for another, until it has none.

        What was yielded may bring new ones. Another executor may end tasks in any order, several together.
        """
        while (task := next_task()) is not None:
            yield [(task, run_task(task, self._sources[task.dataset]))]


def load_kernels() -> None:
    """Compile the kernels, or load them from the cache: otherwise the first restart pays for it."""
    from sweep_clustering.kernels.search.genetic import warm_up

    warm_up()
