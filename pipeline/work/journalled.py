"""Results that a journal kept, compared with what the sweep could have computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.work.merge import from_record
from pipeline.work.records import Partial
from storage.cube.schema import VARIABLES, scored_shapes
from sweeps.plan import DatasetPlan
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
