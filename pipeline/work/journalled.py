"""Results that a journal kept, compared with what the sweep could have computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.work.merge import from_record
from pipeline.work.records import Asking, Partial, PathPart
from storage.cube.schema import VARIABLES, scored_shapes
from sweeps.annotations.draw import CANNOT, MUST
from sweeps.plan import AskedPath, DatasetPlan
from sweeps.shapes import DIMS
from sweeps.words import holds_out, is_model


def written_partials(
    header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], plans: Mapping[str, DatasetPlan]
) -> list[Partial]:
    """Partial results of a record of the journal.

    Parameters
    ----------
    header, arrays
        Of the record; its checksum is right, so that only another program, or another sweep, can have written
        anything else than `to_record` made.
    plans : mapping of str to DatasetPlan
        Grids by data set. Results of other data sets, which are not available this time, stay unchecked.

    Raises
    ------
    ValueError
        If they are none, or not of these grids.
    """
    partials = from_record(header, dict(arrays))
    try:
        wrong = next((problem for partial in partials for problem in _problems(partial, plans)), None)
    except TypeError as error:  # of a list in the place of a name
        raise ValueError(f"a record of other content ({error})") from error
    if wrong is not None:
        raise ValueError(f"a record of {wrong}")
    return partials


def _problems(partial: Partial, plans: Mapping[str, DatasetPlan]) -> Iterator[str]:
    cell, work = partial.work.cell, partial.work
    plan = plans.get(cell.dataset)
    if plan is None:
        return
    if not plan.has(cell):
        yield f"{cell}, which is no cell of the sweep"
        return
    if work.stop > plan.restarts_of(cell.model):
        yield f"{cell} with restart {work.stop - 1} of {plan.restarts_of(cell.model)}"
    if not partial.solved and is_model(cell.model):
        yield f"{cell} without a solution, which a model always has"
    if not all(0 <= seconds < math.inf for seconds in (partial.seconds, partial.cpu_seconds)):
        yield f"{cell} that took {partial.seconds} and {partial.cpu_seconds} seconds"
    scores = 0 if partial.chosen is None else len(partial.chosen.held_out)
    wanted = len(scored_shapes(plan)) if holds_out(cell.model, plan.held_out) else 0
    if scores != wanted:
        yield f"{cell} with scores of {scores} shapes on held-out annotations, expected {wanted}"
        return
    shapes = {
        "objectives": (work.stop - work.start,),
        "labels": (plan.n_samples,),
        "centroids": (plan.n_clusters, plan.n_features),
        "covariances": (plan.n_clusters, *(plan.n_features for _ in DIMS[partial.shape])),
    }
    for name, shape in shapes.items():
        values = getattr(partial, name)
        dtype = np.dtype("float64" if name == "objectives" else VARIABLES[name].dtype)
        if values.shape != shape or values.dtype != dtype:
            yield f"{cell} with {name} of {values.dtype} {values.shape}, expected {dtype} {shape}"
    low, high = (0, plan.n_clusters) if partial.solved else (-1, 0)
    if partial.labels.shape and not ((partial.labels >= low) & (partial.labels < high)).all():
        yield f"{cell} with labels that are none of {plan.n_clusters} clusters"


# Answers in the journal: its second kind of record, checked against what the sweep could have asked.

PATHS = "paths"
"""Key of the header that tells this kind of record from results of batches."""


def is_of_paths(header: Mapping[str, Any]) -> bool:
    """Whether a record of the journal holds answers."""
    return PATHS in header


def paths_to_record(parts: Sequence[PathPart]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Parts of paths as a record: a header of plain values, and their answers one after the other."""
    entries = [
        {
            "path": list(astuple(part.path)),
            "start": part.start,
            "stop": part.stop,
            "seconds": part.seconds,
            "cpu_seconds": part.cpu_seconds,
        }
        for part in parts
    ]
    return {PATHS: entries}, {"answers": np.concatenate([part.answers for part in parts])}


def written_paths(
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    plans: Mapping[str, DatasetPlan],
    asking: Mapping[str, Asking],
) -> list[PathPart]:
    """Parts of paths of a record of the journal.

    Parameters
    ----------
    header, arrays
        Of the record; its checksum is right, so that only another program, or another sweep, can have written
        anything else than `paths_to_record` made.
    plans, asking : mapping
        Grid and questions by data set. Answers about other data sets, which are not available this time,
        stay unchecked.

    Raises
    ------
    ValueError
        If they are none, or not of these paths.
    """
    try:
        parts = list(_parts(header[PATHS], arrays["answers"]))
        wrong = next((problem for part in parts for problem in _path_problems(part, plans, asking)), None)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"a record of other content ({type(error).__name__}: {error})") from error
    if wrong is not None:
        raise ValueError(f"a record of {wrong}")
    return parts


def _parts(entries: list[dict[str, Any]], answers: NDArray[Any]) -> Iterator[PathPart]:
    for entry in entries:
        numbers = entry["start"], entry["stop"]
        if not all(type(number) is int for number in numbers) or not 0 <= numbers[0] < numbers[1]:
            raise ValueError(f"a record of answers {numbers[0]!r} to {numbers[1]!r}")
    ends = list(accumulate((entry["stop"] - entry["start"] for entry in entries), initial=0))
    if answers.dtype != np.int32 or answers.shape != (ends[-1], 3):
        found = f"{answers.dtype} {answers.shape}"
        raise ValueError(f"a record with answers of {found}, expected int32 {(ends[-1], 3)}")
    for position, entry in enumerate(entries):
        # a copy: a view would keep the answers of all the paths of a record in memory
        rows = answers[ends[position] : ends[position + 1]].copy()
        seconds = float(entry["seconds"])
        # a record of a version that did not measure it has none
        cpu_seconds = float(entry.get("cpu_seconds", seconds))
        yield PathPart(AskedPath(*entry["path"]), entry["start"], rows, seconds, cpu_seconds)


def _path_problems(
    part: PathPart, plans: Mapping[str, DatasetPlan], asking: Mapping[str, Asking]
) -> Iterator[str]:
    path = part.path
    plan = plans.get(path.dataset)
    if plan is None:
        return
    if not plan.has_path(path):
        yield f"{astuple(path)}, which is no path of the sweep"
        return
    batch = asking[path.dataset].batch
    if part.start % batch or part.stop % batch:
        yield f"{path} with answers {part.start} to {part.stop - 1}, which are no batches of {batch}"
    samples, kinds = part.answers[:, :2], part.answers[:, 2]
    if not ((samples >= 0) & (samples < plan.n_samples)).all():
        yield f"{path} with answers about none of {plan.n_samples} samples"
    if not np.isin(kinds, (MUST, CANNOT)).all():
        yield f"{path} with answers that are neither {MUST} nor {CANNOT}"
    if not all(0 <= seconds < math.inf for seconds in (part.seconds, part.cpu_seconds)):
        yield f"{path} that took {part.seconds} and {part.cpu_seconds} seconds"
