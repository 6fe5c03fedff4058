"""Results as records of the journal, and back; records of another program or another sweep are refused.

A record holds results of one kind. Solutions of cells of one data set stack into a few arrays, however many
cells there are; the other kind is answers of paths of questions.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.structure import STRUCTURE, Structure
from sweep_clustering.pipeline.work.records import Answered, Chosen, Done, Science, Solved, Span
from sweep_clustering.storage.cube.schema import VARIABLES, scored_shapes
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import (
    CANDIDATES,
    CODES,
    DIMS,
    ROWS,
    SCORED,
    from_rows,
    narrowed,
    to_rows,
    widened,
)
from sweep_clustering.sweeps.words import chooses, holds_out, is_any, is_model, shape_of

Arrays = Mapping[str, NDArray[Any]]

# Key of the header of a record with results of cells.
PARTIALS = "partials"

# Key of the header of a record with results of paths of questions.
PATHS = "paths"

# Key of a result for the lengths of the rows of its Gaussians.
LENGTHS = "gaussians"


def to_record(results: Sequence[Done]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return results of one kind as a record: a header of plain values, and arrays."""
    entries = []
    for done in results:
        unit = list(astuple(done.span.unit))
        while unit[-1] is None:  # design and search of cells are left out if the sweep names none
            unit.pop()
        best: dict[str, Any] = {"best_restart": done.best_restart} if isinstance(done, Solved) else {}
        if isinstance(done, Solved) and done.gaussians is not None:
            best[LENGTHS] = [len(row) for row in to_rows(done.gaussians).values()]
        entries.append(
            {
                "cell" if best else "path": unit,
                "start": done.span.start,
                "stop": done.span.stop,
                **best,
                "seconds": done.seconds,
                "cpu_seconds": done.cpu_seconds,
            }
        )
    solved = [done for done in results if isinstance(done, Solved)]
    if not solved:
        answers = [done.answers for done in results if isinstance(done, Answered)]
        return {PATHS: entries}, {"answers": np.concatenate(answers)}
    # Covariances of several shapes stack in the form of the widest, as in the cube.
    n_axes = max(done.covariances.ndim for done in solved) - 1
    wide = [widened(done.covariances, n_axes, done.centroids.shape[1]) for done in solved]
    arrays: dict[str, NDArray[Any]] = {
        "labels": np.stack([done.labels for done in solved]),
        "centroids": np.stack([done.centroids for done in solved]),
        "covariances": np.stack(wide),
        "objectives": np.concatenate([done.objectives for done in solved]),
    }
    choices = [done.chosen.values() for done in solved if done.chosen is not None]
    for name in choices[0] if choices else ():
        arrays[name] = np.array([values[name] for values in choices])
    unions = [to_rows(done.gaussians) for done in solved if done.gaussians is not None]
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
        results: list[Done] = list((_answered if PATHS in header else _solved)(header, arrays))
        for done in results:
            name = done.span.unit.dataset
            if name in (plans or {}):
                for problem in _problems(done, (plans or {})[name], (sciences or {}).get(name)):
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


def _answered(header: Mapping[str, Any], arrays: Arrays) -> Iterator[Answered]:
    spans = spans_of(header)
    parts = np.split(arrays["answers"], np.cumsum([span.size for span in spans])[:-1])
    for span, entry, rows in zip(spans, header[PATHS], parts, strict=True):
        seconds = float(entry["seconds"])
        # A copy, because a view would keep the answers of all paths of the record in memory. A record of a
        # version that did not measure CPU time has none.
        yield Answered(span, rows.copy(), seconds, float(entry.get("cpu_seconds", seconds)))


def _solved(header: Mapping[str, Any], arrays: Arrays) -> Iterator[Solved]:
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
            covariances=narrowed(covariances, shape).copy(),
            chosen=chosen,
            gaussians=union,
        )


def _gaussians(header: Mapping[str, Any], arrays: Arrays) -> Iterator[Gaussians | None]:
    """Yield the Gaussians of the cells of a record; a version that did not keep them has none."""
    n_classes, n_features = arrays["centroids"].shape[1:]
    lengths = np.array([entry.get(LENGTHS, (0,) * len(ROWS)) for entry in header[PARTIALS]])
    parts = {
        name: np.split(arrays.get(name, np.empty(0)), np.cumsum(column)[:-1])
        for name, column in zip(ROWS, lengths.T, strict=True)
    }
    for at in range(len(lengths)):
        yield from_rows({name: parts[name][at] for name in ROWS}, n_features, n_classes)


def _choices(cells: Sequence[Cell], arrays: Arrays) -> list[Chosen | None]:
    """Return the choices of the cells of a record, whose arrays have rows of those that hold annotations out.

    If every model does so, there are scores of all shapes, and not of the candidates alone.
    """
    if "held_out" not in arrays:
        return [None] * len(cells)
    has_every = arrays["held_out"].shape[1:] == (len(SCORED),)
    places = [at for at, cell in enumerate(cells) if holds_out(cell.model, has_every)]
    columns = (arrays[name].tolist() for name in ("covariance_shape", "held_out", "held_out_right"))
    shapes = {code: shape for shape, code in CODES.items()}
    # A record of a version that had no such classes has no structures and rates.
    structures = arrays.get("structure", np.full((len(places), len(STRUCTURE)), -1)).tolist()
    missing = np.full(len(places), np.nan)
    rates = np.stack([arrays.get(name, missing) for name in ("base_rate", "distance_rate")], axis=1).tolist()
    choices: dict[int, Chosen] = {}
    for at, structure, rate, code, *scores in zip(places, structures, rates, *columns, strict=True):
        allowed = CANDIDATES if chooses(cells[at].model) else (shape_of(cells[at].model),)
        if shapes[code] not in allowed:
            raise ValueError(f"the shape {code} of {cells[at]}, expected one of {', '.join(allowed)}")
        if is_any(cells[at].model):
            Structure.of(structure)  # it raises an error if the codes are wrong
        log_losses, right = (tuple(map(float, score)) for score in scores)
        choices[at] = Chosen(shapes[code], log_losses, right, tuple(structure), *map(float, rate))
    return [choices.get(at) for at in range(len(cells))]


def _problems(done: Done, plan: DatasetPlan, science: Science | None) -> Iterator[str]:
    """Yield the reasons why a result cannot be one of a data set of this plan."""
    unit = done.span.unit
    if not (plan.has(unit) if isinstance(unit, Cell) else plan.has_path(unit)):
        yield f"{unit}, which is no {'cell' if isinstance(unit, Cell) else 'path'} of the sweep"
        return
    if not all(0 <= seconds < math.inf for seconds in (done.seconds, done.cpu_seconds)):
        yield f"{unit} that took {done.seconds} and {done.cpu_seconds} seconds"
    if isinstance(done, Solved):
        yield from _problems_of_cell(done, plan)
        return
    if done.answers.shape != (done.span.size, 3) or done.answers.dtype != np.int32:
        yield f"{done.span} with answers of {done.answers.dtype} {done.answers.shape}"
    asking = None if science is None else science.asking
    if asking is not None and (done.span.start % asking.batch or done.span.stop % asking.batch):
        yield f"{done.span}, which are no batches of {asking.batch}"
    samples, kinds = done.answers[:, :2], done.answers[:, 2]
    if not ((samples >= 0) & (samples < plan.n_samples)).all():
        yield f"{unit} with answers about none of {plan.n_samples} samples"
    if not np.isin(kinds, (MUST, CANNOT)).all():
        yield f"{unit} with answers that are neither {MUST} nor {CANNOT}"


def _problems_of_cell(done: Solved, plan: DatasetPlan) -> Iterator[str]:
    cell, span = done.span.unit, done.span
    if span.stop > plan.restarts_of(cell.model):
        yield f"{cell} with restart {span.stop - 1} of {plan.restarts_of(cell.model)}"
    if not done.solved and is_model(cell.model):
        yield f"{cell} without a solution, which a model always has"
    scores = {0} if done.chosen is None else {len(done.chosen.held_out), len(done.chosen.right)}
    n_shapes = len(scored_shapes(plan)) if holds_out(cell.model, plan.held_out) else 0
    if scores != {n_shapes}:
        yield f"{cell} with scores of {scores} shapes on held-out annotations, expected {n_shapes}"
    shapes = {
        "objectives": (span.size,),
        "labels": (plan.n_samples,),
        "centroids": (plan.n_clusters, plan.n_features),
        "covariances": (plan.n_clusters, *(plan.n_features for _ in DIMS[done.shape])),
    }
    for name, shape in shapes.items():
        values = getattr(done, name)
        dtype = np.dtype("float64" if name == "objectives" else VARIABLES[name].dtype)
        if values.shape != shape or values.dtype != dtype:
            yield f"{cell} with {name} of {values.dtype} {values.shape}, expected {dtype} {shape}"
    yield from _problems_of_gaussians(done, plan)
    low, high = (0, plan.n_clusters) if done.solved else (-1, 0)
    if done.labels.shape and not ((done.labels >= low) & (done.labels < high)).all():
        yield f"{cell} with labels that are none of {plan.n_clusters} clusters"


def _problems_of_gaussians(done: Solved, plan: DatasetPlan) -> Iterator[str]:
    cell, gaussians = done.span.unit, done.gaussians
    for room in plan.unions_of([cell.model], [cell.search]):
        if gaussians is None:
            yield f"{cell} without Gaussians, which the cube stores for it"
            return
        lengths = tuple(map(len, to_rows(gaussians).values()))
        if lengths[0] > room.components or lengths[-1] > room.entries:
            yield f"{cell} with rows of {lengths}, expected {room.components} and {room.entries} at most"
        structure = None if done.chosen is None else done.chosen.class_structure
        if structure is not None and structure != gaussians.structure:
            yield f"{cell} with {gaussians.structure}, which it did not choose"
