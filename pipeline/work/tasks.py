"""Work on a task: restarts of cells and batches of questions, from coordinates to results.

A worker calls `run_task` alone, and an executor decides which worker does. `SerialExecutor` is the reference.
"""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from sweep_clustering.kernels.interrupt import cpu_time, run_interruptibly
from sweep_clustering.kernels.structure import UNION
from sweep_clustering.pipeline.common import SAME_OPTIMUM, best_of
from sweep_clustering.pipeline.methods.contract import Floats, merged_links
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import MethodFailed, MethodProcess, Unsolved
from sweep_clustering.pipeline.work import records
from sweep_clustering.pipeline.work.records import Answers, Chosen, Science, Solved, Span
from sweep_clustering.storage.provenance import machine_class
from sweep_clustering.storage.runfolder.lease import own_job
from sweep_clustering.sweeps import seeds
from sweep_clustering.sweeps.errors import InputError, Problem, cause_of, collecting, present, raise_all
from sweep_clustering.sweeps.file.methods import Method
from sweep_clustering.sweeps.file.spec import Stop
from sweep_clustering.sweeps.inputs import Arrays, Source, cell_annotations
from sweep_clustering.sweeps.plan import AskedPath, Cell
from sweep_clustering.sweeps.shapes import DIMS, widened
from sweep_clustering.sweeps.words import ASKED_DESIGNS, CROWD, shape_of, split_model

if TYPE_CHECKING:
    from sweep_clustering.kernels.fits import Fit
    from sweep_clustering.kernels.solver.contract import Solver

T = TypeVar("T")

# Number of restarts by which the candidates of a choice are compared.
TRIED = 3


def run_task(task: records.Task, source: Source) -> list[records.Success | records.Failed]:
    """Run a task on the data of its source, with one result for each span of a cell and batch of a path.

    A span that raises is a `Failed` and does not stop the others, but later batches of its path are not run.
    """
    results: list[records.Success | records.Failed] = []
    for span in task.spans:
        current_span = span
        try:
            if isinstance(span.unit, Cell):
                results.append(run_cell(task.science, span, source))
                continue
            answers, arrays = present(span.answers), source.arrays(span.unit.mixture)
            for start in range(span.start, span.stop, span.step):
                current_span = Span(span.unit, start, start + span.step, step=span.step)
                ask = partial(ask_batch, task.science, span.unit, answers, arrays)
                batch, seconds, cpu_seconds = _timed(ask)
                results.append(records.Answered(current_span, batch, seconds, cpu_seconds))
                answers = np.concatenate([answers, batch])
        except Exception as error:
            cause, trace = cause_of(error), traceback.format_exc()
            if isinstance(error, MethodFailed):  # the error was raised in the process of the method
                cause, trace = str(error), error.traceback
            results.append(records.Failed(current_span, cause, socket.gethostname(), own_job().number, trace))
    return results


def run_cell(science: Science, span: Span[Cell], source: Source) -> Solved:
    """Run some restarts of a cell."""
    cell = span.unit
    X, _ = source.arrays(cell.mixture)
    annotations = span.answers
    if annotations is None:
        annotations = cell_annotations(science.seed, cell, source, science.crowd)
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
        # Any worker that gets the choice with its span makes the same solver.
        solver = solver_of(science, cell, X, annotations, chosen)

    def fit_all() -> list[Fit]:
        fits: list[Fit] = []
        for restart in range(span.start, span.stop):
            objectives = [*span.earlier_objectives, *(fit.objective for fit in fits)]
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
        # The covariances of unions are spherical, whatever the shape.
        covariances=widened(fits[best].covariances, len(DIMS[shape]), X.shape[1]),
        seconds=choosing + seconds,
        cpu_seconds=cpu_choosing + cpu_seconds,
        chosen=chosen,
        choosing=choosing,
        gaussians=fits[best].gaussians,
        machine=machine_class(),
    )


def solver_of(
    science: Science, cell: Cell, X: Floats, annotations: Answers, chosen: Chosen | None = None
) -> Solver:
    """Prepare the solver of a cell of a model, or of the structure that the cell has chosen before.

    The same release fits a restart with the same bits again. A cube of format 2 has no Gaussians: a fit for
    its report starts as this release does, and its partition can differ from the stored one.
    """
    # Imported here, so that commands that only plan or read do not load numba.
    from sweep_clustering.kernels.problem.data import layers_from_annotations
    from sweep_clustering.kernels.solver.contract import Model
    from sweep_clustering.kernels.solver.prepare import prepare

    term, covariance = split_model(cell.model)
    structure = None if chosen is None else chosen.class_structure
    if chosen is not None and structure is None:
        covariance = chosen.covariance
    model = replace(Model.from_name(term, covariance, science.search(cell)), structure=structure)
    layers = layers_from_annotations(annotations, cell.p)
    if cell.design == CROWD and model.kind is UNION:
        # soft fits alone estimate two accuracies of each annotator; other models assume the median for all
        layers = layers_from_annotations(annotations, None, science.crowd.answers)
    seed = seeds.choice_seed(science.seed, cell.dataset, **_place(cell), model=cell.model)
    return prepare(model, X, layers, science.n_clusters, seed)


def stream_of(science: Science, cell: Cell, restart: int) -> np.random.SeedSequence:
    """Return the random stream of a restart of a cell."""
    return seeds.search_seed(science.seed, cell.dataset, **_place(cell), model=cell.model, restart=restart)


def _place(cell: Cell) -> dict[str, Any]:
    """Return the coordinates that the random streams of a cell depend on."""
    return {name: getattr(cell, name) for name in ("mixture", "p", "m", "replicate")}


class Timed(NamedTuple, Generic[T]):
    """Result of a call, and the elapsed and CPU seconds that it took."""

    result: T
    seconds: float
    cpu_seconds: float


def _timed(function: Callable[[], T]) -> Timed[T]:
    """Call a function and measure its time."""
    start, cpu_start = time.perf_counter(), cpu_time()
    result = function()
    return Timed(result, time.perf_counter() - start, cpu_time() - cpu_start)


def ask_batch(science: Science, path: AskedPath, earlier_answers: Answers, arrays: Arrays) -> Answers:
    """Ask the batch of a path that follows the earlier answers, and return the new ones.

    A batch is whole whatever the largest m, so that a path is a prefix of a longer one. If there are fewer
    pairs than questions, the model first takes the answers to the pairs that it could ask, and then asks the
    rest of the batch. A model without a solution and a lack of pairs are a `ValueError`.
    """
    # Imported here, so that commands that only plan or read do not load numba.
    from sweep_clustering.pipeline.asking.strategies import next_answers

    X, labels_true = arrays
    asking = present(science.asking)
    answers, stop = earlier_answers, len(earlier_answers) + asking.batch
    while len(answers) < stop:
        seed = seeds.path_seed(science.seed, **asdict(path), start=len(answers))
        batch = next_answers(
            X,
            present(labels_true),
            answers,
            n_clusters=science.n_clusters,
            p=path.p,
            strategy=ASKED_DESIGNS[path.design],
            count=stop - len(answers),
            seed=seed,
            covariance=asking.covariance,
            restarts=asking.restarts,
        )
        if not len(batch):
            raise ValueError(f"{path}: no pair to ask after {len(answers)} answers")
        answers = np.concatenate([answers, batch])
    return answers[len(earlier_answers) : stop]


# Calls of a method, which solves cells in the place of a model.


def method_calls(origin: str, methods: Iterable[Method], *, is_tried: bool = False) -> tuple[MethodCall, ...]:
    """Return the methods of a sweep as workers get them, with the text of their files.

    Parameters
    ----------
    origin : str
        Sweep file or cube, for messages.
    methods : iterable of Method
        Methods of its grid.
    is_tried : bool
        Whether every method is imported in another process, so that a run begins only if that works.

    Raises
    ------
    InputError
        If a file has another checksum, if code raises, or if names, arguments or options are wrong; with all
        problems of all methods.
    """
    calls, problems = list[MethodCall](), list[Problem]()
    with MethodProcess() as process:
        for method in methods:
            with collecting(problems):
                try:
                    source = method.source()
                    call = MethodCall(method.name, method.call, source, method.options, method.time_limit)
                    if is_tried:
                        process.load(call)
                    calls.append(call)
                except InputError:
                    raise
                except (ValueError, MethodFailed) as error:
                    expected = "code that is as it was, and can be imported"
                    problems.append(Problem(f"{origin}: method {method.name}", str(error), expected))
    raise_all(problems)
    return tuple(calls)


@cache
def _process() -> MethodProcess:
    """Return the process that runs methods for this one, and that this one ends and waits for at its exit."""
    process = MethodProcess()
    # multiprocessing started the worker, which therefore runs no functions of atexit.
    Finalize(None, process.close, exitpriority=0)
    return process


def run_method(
    science: Science, span: Span[Cell], method: MethodCall, X: Floats, annotations: Answers
) -> Solved:
    """Call a method for some restarts of a cell, and return the solution of the largest objective.

    Without objectives it is that of the lowest restart. Centroids are those of the method, or means;
    covariances are spherical and computed from the labels. A call that raises, dies, takes too long or breaks
    the contract is a `MethodFailed`.
    """
    from sweep_clustering.kernels.scores import cluster_gaussians

    cell, n_clusters = span.unit, science.n_clusters
    table, links = (cell.dataset, cell.mixture, science.seed), merged_links(annotations)
    best, answer, seconds, cpu_seconds = -1, None, 0.0, 0.0
    objectives = np.full(span.size, np.nan)
    for restart in range(span.start, span.stop):
        state = seeds.method_seed(
            science.seed, cell.dataset, **_place(cell), method=method.name, restart=restart
        )
        try:
            call = _process().solve(
                method, table, X, n_clusters=n_clusters, links=links, accuracy=cell.p, random_state=state
            )
        except Unsolved as unsolved:
            seconds, cpu_seconds = seconds + unsolved.seconds, cpu_seconds + unsolved.cpu_seconds
            continue
        seconds, cpu_seconds = seconds + call.seconds, cpu_seconds + call.cpu_seconds
        if call.solution.objective is not None:
            objectives[restart - span.start] = call.solution.objective
        if answer is None or objectives[restart - span.start] > objectives[best - span.start]:
            best, answer = restart, call.solution
    # NaN stays if there is no solution.
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
        machine=machine_class(),
    )


# The adaptive stop, which decides from the objectives of a cell whether it needs more restarts.
#
# The restarts of a cell are independent, so its optima are like species and its restarts like animals caught.
# There are two classical estimates of the probability that the next animal is of an unknown species. Both
# count every unknown optimum, so they bound the probability that the next restart finds a better one.


def optimum_counts(objectives: Sequence[float] | Floats) -> list[int]:
    """Return the number of restarts that found each distinct optimum, best optimum first.

    Objectives (nats) at most `SAME_OPTIMUM` below the largest of an optimum belong to it.
    """
    counts: list[int] = []
    top = np.inf
    for value in sorted(map(float, objectives), reverse=True):
        if not counts or value < top - SAME_OPTIMUM:
            counts.append(0)
            top = value
        counts[-1] += 1
    return counts


def unseen_mass(objectives: Sequence[float] | Floats, rule: str) -> float:
    """Estimate the probability that the next restart finds an optimum that none has found yet.

    There are at least two objectives, in nats.
    """
    counts = optimum_counts(objectives)
    n, w = sum(counts), len(counts)
    if rule == "good-turing":
        # The share of restarts whose optimum was found once (Good, The population frequencies of species and
        # the estimation of population parameters, Biometrika 40, 1953).
        return counts.count(1) / n
    # "boender-rinnooy-kan": a posterior mean under uniform priors (Boender and Rinnooy Kan, Bayesian stopping
    # rules for multistart global optimization methods, Mathematical Programming 37, 1987).
    return min(1.0, w * (w + 1) / (n * (n - 1)))


def is_enough(objectives: Sequence[float] | Floats, stop: Stop) -> bool:
    """Whether the rule is tested after these restarts, and ends the cell."""
    n_extra = len(objectives) - stop.r_min
    return n_extra >= 0 and n_extra % stop.step == 0 and unseen_mass(objectives, stop.rule) < stop.risk


def restarts_enough(objectives: Sequence[float] | Floats, stop: Stop | None, restarts: int) -> int | None:
    """Return the number of restarts after which a cell ends, or None if it needs more than these.

    A cell has at most `restarts` of them, and exactly so many without a rule to stop.
    """
    if stop is not None:
        for n in range(stop.r_min, min(len(objectives), restarts - 1) + 1, stop.step):
            if is_enough(objectives[:n], stop):
                return n
    return restarts if len(objectives) >= restarts else None


# The executors of tasks. Each must have the results of the serial executor.

Outcome = records.Results | BaseException

# Tasks that ended at about the same time.
TaskOutcomes = list[tuple[records.Task, Outcome]]

NextTask = Callable[[], records.Task | None]


class SerialExecutor:
    """The reference: the same tasks in a loop, in this process."""

    workers = 1

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        load_kernels()

    def results(self, next_task: NextTask) -> Iterator[TaskOutcomes]:
        """Run each task before asking `next_task` for another, until it has none.

        The caller may add tasks after a yield. Other executors may end tasks in any order, several together.
        """
        while (task := next_task()) is not None:
            yield [(task, run_task(task, self._sources[task.dataset]))]


def load_kernels() -> None:
    """Compile the kernels, or load them from the cache, so that the first restart does not wait for it."""
    from sweep_clustering.kernels.search.genetic import warm_up

    warm_up()
