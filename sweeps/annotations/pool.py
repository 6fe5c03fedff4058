"""Annotations of one's own as cells draw them: single ones, without replacement, from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.annotations.draw import MOST_ANNOTATIONS
from sweeps.annotations.files import read_annotations
from sweeps.annotations.links import Annotation
from sweeps.annotations.samples import Samples
from sweeps.data.lines import shortened
from sweeps.errors import InputError, Problem

Pool = NDArray[np.int32]

HINT = "a cell draws single annotations; a line of weight w stands for w of them, of a self pair for w / 2"


def read_pool(path: Path, samples: Samples | int) -> Pool:
    """Read an annotation file as the single annotations that cells of a sweep draw from.

    A line stands for as many annotations as its weight says. Those of all annotators are taken together, and
    what a line says of its own accuracy is not used: every model and method of a cell is told the same `p`.

    Parameters
    ----------
    path : Path
        The file, see `sweeps.annotations.files.read_annotations`.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.

    Returns
    -------
    ndarray of shape (n_annotations, 3), int32
        Columns i, j and kind, samples from 0, in the order of the lines.

    Raises
    ------
    InputError
        With every problem of every line; a part of an annotation is one, and so are more than
        `MOST_ANNOTATIONS`.
    """
    lines = read_annotations(path, samples)
    problems = list(_count_problems(path, lines))
    if problems:
        raise InputError(shortened(path, problems))
    rows = np.array([(line.first, line.second, line.kind) for line in lines], dtype=np.int32).reshape(-1, 3)
    return np.repeat(rows, [int(line.count) for line in lines], axis=0)


def _count_problems(path: Path, lines: Sequence[Annotation]) -> Iterator[Problem]:
    for line in lines:
        if line.count != int(line.count):
            found, expected = f"weight {line.weight:g}", "a whole number of annotations"
            yield Problem(f"{path}, line {line.line}", found, expected, HINT)
    total = sum(int(line.count) for line in lines)
    if total > MOST_ANNOTATIONS:
        yield Problem(str(path), f"{total:,} annotations", f"at most {MOST_ANNOTATIONS:,}", HINT)


def pool_checksum(pool: Pool) -> str:
    """Sha256 over the annotations in their order, little-endian: comments and names do not change it."""
    return hashlib.sha256(np.ascontiguousarray(pool, dtype="<i4").tobytes()).hexdigest()


def draw_from(rng: np.random.Generator, pool: Pool, m: int) -> Pool:
    """Draw annotations of a file without replacement.

    Parameters
    ----------
    rng : numpy.random.Generator
        Stream of this annotation graph.
    pool : ndarray of shape (n_annotations, 3), int32
        Columns i, j and kind.
    m : int
        How many, at most `n_annotations`.

    Returns
    -------
    ndarray of shape (m, 3), int32
        In random order.

    Raises
    ------
    ValueError
        If there are fewer than `m`.
    """
    return pool[rng.choice(len(pool), size=m, replace=False)]
