"""Link files: must-links or cannot-links as `i j weight` lines."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeps.errors import InputError, Problem
from sweeps.textfiles import Line, read_lines, shortened, split_cells, to_number

# The adjacency of a self pair counts both ends (model.md section 1), and so do link files.
SELF_PAIR_WEIGHT = 2.0
WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)


class _Link(NamedTuple):
    first: int
    second: int
    annotations: float


def read_links(path: Path, n_samples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read a link file.

    A line holds two sample numbers from 1 and a weight, separated by blanks, commas or tabs. Without a
    weight the line is one annotation. A self pair carries weight 2 per annotation. `#` begins a comment.
    Lines of the same pair, in either order, add up. An empty file is an empty annotation graph.

    Parameters
    ----------
    path : Path
        The file.
    n_samples : int
        Samples the numbers refer to.

    Returns
    -------
    pairs : array of shape (n_pairs, 2)
        Samples from 0, smaller first, each pair once, sorted.
    weights : array of shape (n_pairs,)
        Annotations of each pair.

    Raises
    ------
    InputError
        With every line that is not a link.
    """
    total: dict[tuple[int, int], float] = {}
    problems: list[Problem] = []
    for line in read_lines(path):
        link = _parse(line, n_samples)
        if isinstance(link, Problem):
            problems.append(link)
            continue
        pair = min(link.first, link.second), max(link.first, link.second)
        total[pair] = total.get(pair, 0.0) + link.annotations
    if problems:
        raise InputError(shortened(path, problems))
    pairs = sorted(total)
    weights = np.array([total[pair] for pair in pairs], dtype=np.float64)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), weights


def _parse(line: Line, n_samples: int) -> _Link | Problem:
    text = line.text.partition("#")[0].strip()
    cells = split_cells(text)
    if len(cells) not in (2, 3) or not all(WHOLE.fullmatch(cell) for cell in cells[:2]):
        return Problem(line.where, repr(text[:60]), "two sample numbers and a weight")
    numbers = [int(cell) for cell in cells[:2]]
    for number in numbers:
        if not 1 <= number <= n_samples:
            return Problem(line.where, f"sample {number}", f"1 to {n_samples}", "samples are counted from 1")
    is_self_pair = numbers[0] == numbers[1]
    unit = SELF_PAIR_WEIGHT if is_self_pair else 1.0
    weight = to_number(cells[2]) if len(cells) == 3 else unit
    if weight is None or not (math.isfinite(weight) and weight > 0):
        return Problem(line.where, f"weight {cells[2]}", "a finite number above 0")
    if is_self_pair and weight % 2 == 1:
        found = f"weight {weight:g} for the self pair of sample {numbers[0]}"
        return Problem(line.where, found, "an even weight", "a self pair carries weight 2 per annotation")
    return _Link(numbers[0] - 1, numbers[1] - 1, weight / unit)
