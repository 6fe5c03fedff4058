"""Units of work that go to a worker, and their results, also as records of the journal.

A `Task` is some spans of one data set. A `Span` is some restarts of a cell, or some batches of questions of a
path. It comes back `Solved`, `Answered` or `Failed`. Spans of both kinds are handed out, run, timed and
journalled in the same way, and so are their failures counted.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.structure import STRUCTURE, Structure
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.storage.cube.schema import VARIABLES, scored_shapes
from sweep_clustering.storage.runfolder.folder import FailedWork, FailureRecord
from sweep_clustering.sweeps import shapes
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.errors import cause_of, one_line, plain_lines, plural
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.file.spec import Crowd, Stop, SweepSpec
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, CODES, DIMS, ROWS, SCORED, from_rows, to_rows
from sweep_clustering.sweeps.words import chooses, holds_out, is_any, is_model, shape_of

if TYPE_CHECKING:
    from sweep_clustering.kernels.solver.contract import Choice

# Array of shape (n_answers, 3): columns i, j and kind, in the order of asking.
Answers = NDArray[np.int32]

# Codes in the place of a structure if there is none.
NO_STRUCTURE = (-1,) * len(STRUCTURE)

NO_ANSWERS: Answers = np.empty((0, 3), dtype=np.int32)

Unit = TypeVar("Unit", Cell, AskedPath)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Span(Generic[Unit]):
    """Restarts `start..stop-1` of a cell, or questions of a path.

    Parameters
    ----------
    unit : Cell or AskedPath
        Cell that has the restarts, or path that has the questions.
    start, stop : int
        First restart or question, and the one after the last. With an adaptive stop fewer restarts may be
        enough; a path has whole batches.
    earlier_objectives : tuple of float
        Objectives of the restarts before `start`, with an adaptive stop.
    chosen : Chosen or None
        Choice that the cell has made before, by held-out annotations.
    answers : ndarray of shape (n_answers, 3), or None
        Annotations of a cell of a design that asks, because a worker cannot draw these again. For a path,
        answers to the questions before `start`.
    step : int
        Number of units that are timed and run at once: a restart, or the questions of a batch.
    """

    unit: Unit
    start: int
    stop: int
    earlier_objectives: tuple[float, ...] = ()
    chosen: Chosen | None = None
    answers: Answers | None = field(default=None, compare=False, repr=False)
    step: int = 1

    @property
    def size(self) -> int:
        """Number of restarts, or of questions."""
        return self.stop - self.start

    def __str__(self) -> str:
        is_path = isinstance(self.unit, AskedPath)
        return f"{self.unit}, questions {self.start}..{self.stop - 1}" if is_path else str(self.unit)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The shape of covariances that a cell chose, or has, and how well it predicts held-out annotations.

    Parameters
    ----------
    covariance : str
        Shape, one of `sweeps.shapes.CANDIDATES` if the cell chose it.
    held_out, right : tuple of float
        Minus the mean log-probability of held-out annotations, in nats, and the share of them that were
        predicted, for each candidate, or for all of `sweeps.shapes.SCORED` if every model holds annotations
        out. NaN stands for shapes that were not tried, and for scores of too few annotations.
    structure : tuple of int
        Structure of classes of any shape, as `kernels.structure.Structure.codes`; all -1 otherwise. Its
        score is in the place of that of spherical covariances, which its classes have. If merged groups
        were compared, it is that of predictions beside the distances of the samples.
    base_rate : float
        Minus the mean log-probability, in nats, if only the share of must-links among held-out annotations
        is known; NaN for a cell without components.
    distance_rate : float
        The same, if only the distances of the samples are known; NaN if merged groups were not compared.
    """

    covariance: str
    held_out: tuple[float, ...]
    right: tuple[float, ...]
    structure: tuple[int, ...] = NO_STRUCTURE
    base_rate: float = np.nan
    distance_rate: float = np.nan

    @classmethod
    def of(cls, choice: Choice, has_all_shapes: bool) -> Chosen:
        """Return the part of a choice that cubes keep, with scores of all shapes if every model has them."""
        names, scores, base = SCORED if has_all_shapes else CANDIDATES, choice.by_shape, choice.base_rate
        if (skill := choice.skill) is not None and not choice.has_no_skill:
            scores = {choice.shape: skill.with_distance}
        return cls(
            covariance=choice.shape,
            held_out=tuple(scores[name].log_loss if name in scores else np.nan for name in names),
            right=tuple(scores[name].share_right if name in scores else np.nan for name in names),
            base_rate=np.nan if base is None else base.log_loss,
            structure=NO_STRUCTURE if choice.structure is None else choice.structure.codes,
            distance_rate=np.nan if skill is None else skill.distance.log_loss,
        )

    @property
    def class_structure(self) -> Structure | None:
        """Structure of classes of any shape, None for other models."""
        return Structure.from_codes(self.structure) if self.structure != NO_STRUCTURE else None

    def is_same(self, other: Chosen) -> bool:
        """Whether another choice has the same bits; NaN is the same missing value."""
        is_same_model = (self.covariance, self.structure) == (other.covariance, other.structure)
        scores, other_scores = (
            np.array([*choice.held_out, *choice.right, choice.base_rate, choice.distance_rate])
            for choice in (self, other)
        )
        return is_same_model and scores.tobytes() == other_scores.tobytes()

    def values(self) -> dict[str, Any]:
        """Return the values of a choice by the names of the variables of a cube."""
        scores = {"held_out": self.held_out, "held_out_right": self.right}
        rates = {"base_rate": self.base_rate, "distance_rate": self.distance_rate}
        return {"covariance_shape": CODES[self.covariance], "structure": self.structure, **scores, **rates}


@dataclass(frozen=True, slots=True)
class Asking:
    """Number of questions in a batch, with the restarts and covariances of the model that asks them."""

    batch: int
    restarts: int
    covariance: str


@dataclass(frozen=True, slots=True)
class Science:
    """Settings that every result of a data set depends on, besides coordinates and data."""

    seed: int
    searches: tuple[Search, ...]
    n_clusters: int
    stop: Stop | None = None
    methods: tuple[MethodCall, ...] = ()
    asking: Asking | None = None
    crowd: Crowd = field(default_factory=Crowd)

    @classmethod
    def of(cls, spec: SweepSpec, plan: DatasetPlan, methods: tuple[MethodCall, ...] = ()) -> Science:
        """Return the settings of a sweep for a data set, with methods as workers get them."""
        asking = Asking(spec.ask.batch.resolve(plan.n_samples), spec.ask.restarts, spec.ask.covariance)
        return cls(spec.seed, spec.search, plan.n_clusters, spec.stop, methods, asking, spec.crowd)

    def method(self, name: str) -> MethodCall | None:
        """Return the method of a name, None for a model."""
        return next((method for method in self.methods if method.name == name), None)

    def search(self, cell: Cell) -> Search:
        """Return the search of a cell of a model."""
        return next(search for search in self.searches if search.name == cell.search)

    def holds_out(self, cell: Cell) -> bool:
        """Whether a cell holds annotations out, before its first restart."""
        return holds_out(cell.model, self.searches[0].held_out)


@dataclass(frozen=True, slots=True)
class Task:
    """Spans of one data set that a worker runs in one go, and the seconds predicted for them."""

    science: Science
    dataset: str
    spans: tuple[Span[Any], ...]
    seconds: float

    def __str__(self) -> str:
        count = len({span.unit for span in self.spans}) - 1
        return f"{self.spans[0].unit} and {plural(count, 'other cell')}" if count else str(self.spans[0])


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Restarts of a cell that were run.

    Parameters
    ----------
    span : Span
        The restarts.
    objectives : ndarray of shape (stop - start,)
        Objective of each restart: in nats, or in the unit of a method; NaN without objective or solution.
    best_restart : int
        Restart of the largest objective, the lowest on ties; -1 if no restart has a solution.
    labels, centroids : ndarray of shape (n_samples,), (n_clusters, n_features)
        Solution of that restart.
    covariances : ndarray of shape (n_clusters, ...)
        Covariances of its clusters: the rest is no, one or two axes of n_features, by the model's shape.
    seconds, cpu_seconds : float
        Elapsed time in the solver, and CPU time.
    chosen : Chosen or None
        Choice of a cell that holds annotations out.
    choosing : float
        Part of `seconds` that the choice took; 0 if it was made before.
    gaussians : Gaussians or None
        Gaussians of the solution, if its classes are unions of some.
    machine : str
        Class of the machine that ran them; empty if an earlier release did.
    """

    span: Span[Cell]
    objectives: NDArray[np.float64]
    best_restart: int
    labels: NDArray[np.int16]
    centroids: NDArray[np.float64]
    covariances: NDArray[np.float64]
    seconds: float
    cpu_seconds: float
    chosen: Chosen | None = None
    choosing: float = 0.0
    gaussians: Gaussians | None = None
    machine: str = ""

    @property
    def has_solution(self) -> bool:
        """Whether there is a solution, which a method may not find."""
        return self.best_restart >= 0

    @property
    def shape(self) -> str:
        """Shape of the covariances."""
        return shape_of(self.span.unit.model) if self.chosen is None else self.chosen.covariance


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Answers to whole batches of questions, and the elapsed and CPU seconds that they took."""

    span: Span[AskedPath]
    answers: Answers
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """Span that raised: its cause, node, job and traceback, in words that can be logged, shown and stored.

    If `is_charged`, its unit is to blame. Units that share a task that was lost are not.
    """

    span: Span[Any]
    cause: str
    node: str
    job: str
    traceback: str
    is_charged: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "cause", one_line(self.cause))
        object.__setattr__(self, "traceback", plain_lines(self.traceback))

    def record(self, attempt: int) -> FailureRecord:
        """Return the record of a failure now; `attempt` counts those of its unit in this run, from 1."""
        span = self.span
        cell = span.unit if isinstance(span.unit, Cell) else None
        return FailureRecord(
            work=FailedWork(cell=cell, start=span.start, stop=span.stop, objectives=span.earlier_objectives),
            cause=self.cause,
            node=self.node,
            job=self.job,
            traceback=self.traceback,
            cell=str(span.unit),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            attempt=attempt,
        )


Success = Solved | Answered

# Results of a task that ended.
Results = Sequence[Solved | Answered | Failed]


class BatchLost(Exception):
    """A task is given up, because its worker died or came back with results of another task.

    Parameters
    ----------
    cause : str
        Description of what happened.
    node, job : str
        Node and job of the worker.
    """

    def __init__(self, cause: str, node: str = "", job: str = "") -> None:
        super().__init__(cause)
        self.node = node
        self.job = job


def checked_results(task: Task, outcome: Results | BaseException) -> Results:
    """Return the results of a task, or a failure for each span if there are none or those of another task."""
    if not isinstance(outcome, BaseException):
        stops = {(span.unit, span.start): span.stop for span in task.spans}
        for span in (result.span for result in outcome):
            # Each batch of a path comes back separately, and a path is alone in its task.
            start = task.spans[0].start if isinstance(span.unit, AskedPath) else span.start
            if not start <= span.start < span.stop <= stops.get((span.unit, start), 0):
                outcome = BatchLost("what came back was the answer to another batch")
                break
        else:
            return outcome
    cause, node, job = cause_of(outcome), "", ""
    if isinstance(outcome, BatchLost):
        node, job = outcome.node, outcome.job
    elif (last_worker := getattr(outcome, "last_worker", None)) is not None:  # KilledWorker of distributed
        node, job = last_worker.host, last_worker.name if isinstance(last_worker.name, str) else ""
    logger.warning("lost: %s: %s", task, cause)
    # A unit that was alone is charged, and once for all of its spans.
    is_alone = len({span.unit for span in task.spans}) == 1
    spans = enumerate(task.spans)
    return [Failed(span, cause, node, job, "", is_charged=is_alone and i == 0) for i, span in spans]


# Results as records of the journal, and back; records of another program or another sweep are refused.
# A record holds results of one kind. Solutions of cells of one data set stack into a few arrays, however many
# cells there are; the other kind is answers of paths of questions.

Arrays = Mapping[str, NDArray[Any]]

# Key of the header of a record with results of cells.
PARTIALS = "partials"

# Key of the header of a record with results of paths of questions.
PATHS = "paths"

# Characters of the class of a machine.
LONGEST_MACHINE = 200

# Key of a result for the lengths of the rows of its Gaussians.
LENGTHS = "gaussians"


def to_record(results: Sequence[Success]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return results of one kind as a record: a header of plain values, and arrays."""
    entries = []
    for result in results:
        unit = list(astuple(result.span.unit))
        while unit[-1] is None:  # design and search of cells are left out if the sweep names none
            unit.pop()
        best: dict[str, Any] = {}
        if isinstance(result, Solved):
            best = {"best_restart": result.best_restart}
            best |= {"machine": result.machine} if result.machine else {}
        if isinstance(result, Solved) and result.gaussians is not None:
            best[LENGTHS] = [len(row) for row in to_rows(result.gaussians).values()]
        entries.append(
            {
                "cell" if best else "path": unit,
                "start": result.span.start,
                "stop": result.span.stop,
                **best,
                "seconds": result.seconds,
                "cpu_seconds": result.cpu_seconds,
            }
        )
    solutions = [result for result in results if isinstance(result, Solved)]
    if not solutions:
        answers = [result.answers for result in results if isinstance(result, Answered)]
        return {PATHS: entries}, {"answers": np.concatenate(answers)}
    # Covariances of several shapes stack in the form of the widest, as in the cube.
    n_axes = max(result.covariances.ndim for result in solutions) - 1
    wide = [shapes.widened(result.covariances, n_axes, result.centroids.shape[1]) for result in solutions]
    arrays: dict[str, NDArray[Any]] = {
        "labels": np.stack([result.labels for result in solutions]),
        "centroids": np.stack([result.centroids for result in solutions]),
        "covariances": np.stack(wide),
        "objectives": np.concatenate([result.objectives for result in solutions]),
    }
    choices = [result.chosen.values() for result in solutions if result.chosen is not None]
    for name in choices[0] if choices else ():
        arrays[name] = np.array([values[name] for values in choices])
    unions = [to_rows(result.gaussians) for result in solutions if result.gaussians is not None]
    for name in ROWS if unions else ():
        arrays[name] = np.concatenate([rows[name] for rows in unions])
    return {PARTIALS: entries}, arrays


def from_record(
    header: Mapping[str, Any],
    arrays: Arrays,
    plans: Mapping[str, DatasetPlan] | None = None,
    sciences: Mapping[str, Science] | None = None,
) -> list[Any]:
    """Return the results in a record of `to_record` whose checksum is right.

    A record of anything else is a `ValueError`. So are results that a sweep with these plans and settings (by
    data set) cannot have; those of other data sets, which are not available this time, stay unchecked.
    """
    try:
        results: list[Success] = list((_answers_of if PATHS in header else _solutions_of)(header, arrays))
        for result in results:
            name = result.span.unit.dataset
            if name in (plans or {}):
                for problem in _problems(result, (plans or {})[name], (sciences or {}).get(name)):
                    raise ValueError(problem)
    except (LookupError, TypeError, ArithmeticError, AttributeError, ValueError) as error:
        raise ValueError(f"a record of other content ({type(error).__name__}: {error})") from error
    return results


def spans_of(header: Mapping[str, Any]) -> list[Span[Any]]:
    """Return the spans of the results in a record; a span without whole numbers is a `ValueError`."""
    unit: Any = AskedPath if PATHS in header else Cell
    kind, name = (PATHS, "path") if PATHS in header else (PARTIALS, "cell")
    spans = [Span(unit(*entry[name]), entry["start"], entry["stop"]) for entry in header[kind]]
    for span in spans:
        if not (type(span.start) is type(span.stop) is int and 0 <= span.start < span.stop):
            raise ValueError(f"{kind} {span.start!r} to {span.stop!r}")
    return spans


def _answers_of(header: Mapping[str, Any], arrays: Arrays) -> Iterator[Answered]:
    spans = spans_of(header)
    parts = np.split(arrays["answers"], np.cumsum([span.size for span in spans])[:-1])
    for span, entry, rows in zip(spans, header[PATHS], parts, strict=True):
        seconds = float(entry["seconds"])
        # A copy, because a view would keep the answers of all paths of the record in memory. A record of a
        # version that did not measure CPU time has none.
        yield Answered(span, rows.copy(), seconds, float(entry.get("cpu_seconds", seconds)))


def _solutions_of(header: Mapping[str, Any], arrays: Arrays) -> Iterator[Solved]:
    spans = spans_of(header)
    objectives = np.split(arrays["objectives"], np.cumsum([span.size for span in spans])[:-1])
    choices, unions = _choices([span.unit for span in spans], arrays), _gaussians(header, arrays)
    solutions = zip(*(arrays[name] for name in ("labels", "centroids", "covariances")), strict=True)
    rows = zip(spans, header[PARTIALS], objectives, choices, unions, solutions, strict=True)
    for span, entry, values, chosen, union, (labels, centroids, covariances) in rows:
        best = entry["best_restart"]
        # -1 stands for a method without a solution.
        if type(best) is not int or not (best == -1 or span.start <= best < span.stop):
            raise ValueError(f"restart {best!r} as the best of {span.start} to {span.stop - 1}")
        shape = shape_of(span.unit.model) if chosen is None else chosen.covariance
        yield Solved(
            span=span,
            objectives=values,
            best_restart=best,
            seconds=float(entry["seconds"]),
            cpu_seconds=float(entry["cpu_seconds"]),
            # Copies, because a view would keep the arrays of the whole batch in memory.
            labels=labels.copy(),
            centroids=centroids.copy(),
            covariances=shapes.narrowed(covariances, shape).copy(),
            chosen=chosen,
            gaussians=union,
            machine=one_line(entry.get("machine", ""), LONGEST_MACHINE),
        )


def _gaussians(header: Mapping[str, Any], arrays: Arrays) -> Iterator[Gaussians | None]:
    """Yield the Gaussians of the cells of a record; a version that did not keep them has none."""
    n_classes, n_features = arrays["centroids"].shape[1:]
    lengths = np.array([entry.get(LENGTHS, (0,) * len(ROWS)) for entry in header[PARTIALS]])
    parts = {
        name: np.split(arrays.get(name, np.empty(0)), np.cumsum(column)[:-1])
        for name, column in zip(ROWS, lengths.T, strict=True)
    }
    for index in range(len(lengths)):
        yield from_rows({name: parts[name][index] for name in ROWS}, n_features, n_classes)


def _choices(cells: Sequence[Cell], arrays: Arrays) -> list[Chosen | None]:
    """Return the choices of the cells of a record, whose arrays have rows of those that hold annotations out.

    If every model does so, there are scores of all shapes, and not of the candidates alone.
    """
    if "held_out" not in arrays:
        return [None] * len(cells)
    has_every = arrays["held_out"].shape[1:] == (len(SCORED),)
    places = [index for index, cell in enumerate(cells) if holds_out(cell.model, has_every)]
    columns = (arrays[name].tolist() for name in ("covariance_shape", "held_out", "held_out_right"))
    shape_of_code = {code: shape for shape, code in CODES.items()}
    # A record of a version that had no such classes has no structures and rates.
    structures = arrays.get("structure", np.full((len(places), len(STRUCTURE)), -1)).tolist()
    no_rate = np.full(len(places), np.nan)
    rates = np.stack([arrays.get(name, no_rate) for name in ("base_rate", "distance_rate")], axis=1).tolist()
    choices: dict[int, Chosen] = {}
    for index, structure, rate, code, *scores in zip(places, structures, rates, *columns, strict=True):
        options = CANDIDATES if chooses(cells[index].model) else (shape_of(cells[index].model),)
        if shape_of_code[code] not in options:
            raise ValueError(f"the shape {code} of {cells[index]}, expected one of {', '.join(options)}")
        if is_any(cells[index].model):
            Structure.from_codes(structure)  # it raises an error if the codes are wrong
        log_losses, right = (tuple(map(float, score)) for score in scores)
        choices[index] = Chosen(shape_of_code[code], log_losses, right, tuple(structure), *map(float, rate))
    return [choices.get(index) for index in range(len(cells))]


def _problems(result: Success, plan: DatasetPlan, science: Science | None) -> Iterator[str]:
    """Yield the reasons why a result cannot be one of a data set of this plan."""
    unit = result.span.unit
    if not (plan.has(unit) if isinstance(unit, Cell) else plan.has_path(unit)):
        yield f"{unit}, which is no {'cell' if isinstance(unit, Cell) else 'path'} of the sweep"
        return
    if not all(0 <= seconds < math.inf for seconds in (result.seconds, result.cpu_seconds)):
        yield f"{unit} that took {result.seconds} and {result.cpu_seconds} seconds"
    if isinstance(result, Solved):
        yield from _problems_of_cell(result, plan)
        return
    if result.answers.shape != (result.span.size, 3) or result.answers.dtype != np.int32:
        yield f"{result.span} with answers of {result.answers.dtype} {result.answers.shape}"
    asking = None if science is None else science.asking
    if asking is not None and (result.span.start % asking.batch or result.span.stop % asking.batch):
        yield f"{result.span}, which are no batches of {asking.batch}"
    samples, kinds = result.answers[:, :2], result.answers[:, 2]
    if not ((samples >= 0) & (samples < plan.n_samples)).all():
        yield f"{unit} with answers about none of {plan.n_samples} samples"
    if not np.isin(kinds, (MUST, CANNOT)).all():
        yield f"{unit} with answers that are neither {MUST} nor {CANNOT}"


def _problems_of_cell(result: Solved, plan: DatasetPlan) -> Iterator[str]:
    cell, span = result.span.unit, result.span
    if span.stop > plan.restarts_of(cell.model):
        yield f"{cell} with restart {span.stop - 1} of {plan.restarts_of(cell.model)}"
    if not result.has_solution and is_model(cell.model):
        yield f"{cell} without a solution, which a model always has"
    scores = {0} if result.chosen is None else {len(result.chosen.held_out), len(result.chosen.right)}
    n_shapes = len(scored_shapes(plan)) if holds_out(cell.model, plan.held_out) else 0
    if scores != {n_shapes}:
        yield f"{cell} with scores of {scores} shapes on held-out annotations, expected {n_shapes}"
    expected = {
        "objectives": (span.size,),
        "labels": (plan.n_samples,),
        "centroids": (plan.n_clusters, plan.n_features),
        "covariances": (plan.n_clusters, *(plan.n_features for _ in DIMS[result.shape])),
    }
    for name, shape in expected.items():
        values = getattr(result, name)
        dtype = np.dtype("float64" if name == "objectives" else VARIABLES[name].dtype)
        if values.shape != shape or values.dtype != dtype:
            yield f"{cell} with {name} of {values.dtype} {values.shape}, expected {dtype} {shape}"
    yield from _problems_of_gaussians(result, plan)
    low, high = (0, plan.n_clusters) if result.has_solution else (-1, 0)
    if result.labels.shape and not ((result.labels >= low) & (result.labels < high)).all():
        yield f"{cell} with labels that are none of {plan.n_clusters} clusters"


def _problems_of_gaussians(result: Solved, plan: DatasetPlan) -> Iterator[str]:
    cell, gaussians = result.span.unit, result.gaussians
    for room in plan.unions_of([cell.model], [cell.search]):
        if gaussians is None:
            yield f"{cell} without Gaussians, which the cube stores for it"
            return
        lengths = tuple(map(len, to_rows(gaussians).values()))
        if lengths[0] > room.components or lengths[-1] > room.entries:
            yield f"{cell} with rows of {lengths}, expected {room.components} and {room.entries} at most"
        structure = None if result.chosen is None else result.chosen.class_structure
        if structure is not None and structure != gaussians.structure:
            yield f"{cell} with {gaussians.structure}, which it did not choose"
