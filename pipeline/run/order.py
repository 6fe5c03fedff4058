"""In which order cells are run: some draws of every block first, then more of them, wave after wave.

So that a page of a run that has only begun is a coarse picture of the whole grid. Within a wave data sets
take turns. No result depends on the order. Every wave but the last writes each block once more, so there are
as many as may cost little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import ceil
from typing import TypeVar

from sweeps.plan import Block, Cell

SHARE = 0.02
"""Of the time that is left, what all additional writes of blocks may take of the driver's."""

T = TypeVar("T")

WRITE_SECONDS = 0.05
"""Of a block, before one was written: some ten files, each of which the disk has to confirm."""


def draws_of(block: Block) -> int:
    """Number of draws in a block: mixtures, and redraws of the annotation graph for each."""
    return block.n_cells // len(block.models)


def with_draws(block: Block) -> Iterator[tuple[Cell, int]]:
    """Cells of a block in storage order, each with the rank of its draw.

    Mixtures vary before redraws of the annotations: they are what means are taken over.
    """
    mixtures = 1 if block.mixtures is None else block.mixtures[1] - block.mixtures[0]
    replicates = draws_of(block) // mixtures
    for position, cell in enumerate(block.cells()):
        mixture, replicate = divmod(position // len(block.models), replicates)
        yield cell, replicate * mixtures + mixture


def in_turns(kinds: Iterable[Iterator[T]]) -> Iterator[T]:
    """One of each, then the next of each, until none has any left: no data set waits for the one before."""
    waiting = deque(kinds)
    while waiting:
        kind = waiting.popleft()
        for each in kind:
            yield each
            waiting.append(kind)
            break


def next_wave(handed: int, draws: int, *, blocks: int, left: float, write_seconds: float | None) -> range:
    """Ranks of the draws to be run next, in every block.

    Parameters
    ----------
    handed : int
        Draws of each block that were handed out before.
    draws : int
        Most draws in any block; more than `handed`.
    blocks : int
        Number of blocks that a wave writes.
    left : float
        Seconds until the end of the run, as predicted.
    write_seconds : float or None
        What writing a block took in this run, None before the first.

    Returns
    -------
    range
        From `handed` on. The first wave is one draw, each of the others at least as long as all before it.
    """
    cost = blocks * (WRITE_SECONDS if write_seconds is None else write_seconds)
    more = int(SHARE * left / cost) if cost > 0 else draws
    if more < 1:
        return range(handed, draws)
    if handed == 0:
        return range(1)
    growth = max(2.0, (draws / handed) ** (1 / (more + 1)))
    return range(handed, min(draws, ceil(handed * growth)))
