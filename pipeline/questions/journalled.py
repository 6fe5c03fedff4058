"""Answers in the journal: its second kind of record, checked against what the sweep could have asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.questions.records import Asking, PathPart
from sweeps.annotations.draw import CANNOT, MUST
from sweeps.plan import AskedPath, DatasetPlan

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
        wrong = next((problem for part in parts for problem in _problems(part, plans, asking)), None)
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


def _problems(
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
