"""Restarts become cells, cells become blocks: a `CellResult` takes them, a `BlockResult` lays them out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.work.records import Chosen, Solved, Span
from sweep_clustering.pipeline.work.tasks import restarts_enough, unseen_mass
from sweep_clustering.storage.cube.blocks import differing_rows
from sweep_clustering.storage.cube.schema import ANSWERED, DONE, FAILED, NO_SOLUTION, PENDING
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.file.spec import Stop
from sweep_clustering.sweeps.plan import Block, Cell
from sweep_clustering.sweeps.shapes import widened
from sweep_clustering.sweeps.unions import ROWS, Room, to_rows
from sweep_clustering.sweeps.words import chooses


class Mismatch(RuntimeError):
    """A restart, or a choice, computed twice gave two values: a result cannot be trusted."""


@dataclass(eq=False)
class CellResult:
    """Restarts of one cell so far, and the best of them.

    Parameters
    ----------
    cell : Cell
        Which.
    restarts : int
        How many are planned.
    stop : Stop or None
        When fewer are enough.

    Attributes
    ----------
    end : int or None
        Number of restarts the cell ends with, None while some are missing.
    chosen : Chosen or None
        Of a cell that holds annotations out, once it is known.
    """

    cell: Cell
    restarts: int
    stop: Stop | None = None
    objectives: NDArray[np.float64] = field(init=False)
    known: NDArray[np.bool_] = field(init=False)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    best: Solved | None = None
    failed: bool = False
    end: int | None = field(init=False, default=None)
    chosen: Chosen | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.objectives = np.full(self.restarts, np.nan)
        self.known = np.zeros(self.restarts, dtype=bool)

    @property
    def status(self) -> int:
        """Pending, done, failed, or without a solution."""
        if self.failed:
            return FAILED
        if self.end is None:
            return PENDING
        return DONE if self.best is not None and self.best.solved else NO_SOLUTION

    @property
    def unseen_mass(self) -> float:
        """Estimated probability that one more restart finds something new, NaN without an adaptive stop."""
        return np.nan if self.stop is None else unseen_mass(self._first(), self.stop.rule)

    @property
    def n_known(self) -> int:
        """Number of restarts that are known."""
        return int(self.known.sum())

    @property
    def left(self) -> int:
        """Number of restarts that are still to be run: at most, with an adaptive stop."""
        return 0 if self.failed else sum(span.size for span in self.missing())

    def add(self, done: Solved) -> None:
        """Take some restarts.

        Raises
        ------
        Mismatch
            If a restart that is known already has another objective now, or the cell another shape.
        """
        if self.chosen is not None and (done.chosen is None or not self.chosen.is_same(done.chosen)):
            raise Mismatch(
                f"cell {self.cell}: {done.chosen} now, {self.chosen} before: held-out annotations must say"
                " the same of a cell wherever it runs"
            )
        self.chosen = done.chosen
        start, stop = done.span.start, done.span.stop
        seen = self.known[start:stop].copy()
        other = seen & differing_rows(self.objectives[start:stop], done.objectives)
        if other.any():
            which = start + int(np.argmax(other))
            raise Mismatch(
                f"cell {self.cell}, restart {which}: objective {done.objectives[which - start]!r} now, "
                f"{self.objectives[which]!r} before: a restart must give the same bits wherever it runs"
            )
        if not seen.all():
            self.seconds += done.seconds
            self.cpu_seconds += done.cpu_seconds
        self.objectives[start:stop] = done.objectives
        self.known[start:stop] = True
        self.end = restarts_enough(self._first(), self.stop, self.restarts)
        if self.best is None or _rank(done) < _rank(self.best):
            self.best = done

    def missing(self) -> Iterator[Span[Cell]]:
        """Restarts still to be run."""
        if self.stop is not None:
            known = self._first()
            if self.end is None:
                yield Span(self.cell, len(known), self.restarts, tuple(known.tolist()), self.chosen)
            return
        # where it changes whether a restart is known, with known ones on either side
        edges = np.flatnonzero(np.diff(self.known, prepend=True, append=True)).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            yield Span(self.cell, start, stop, chosen=self.chosen)

    def _first(self) -> NDArray[np.float64]:
        """Objectives of the restarts before the first that is missing."""
        return self.objectives[: self.restarts if self.known.all() else int(self.known.argmin())]


def _rank(done: Solved) -> tuple[bool, float, int]:
    """Order of solutions: larger objective first, one without after those with one, then lower restart."""
    if not done.solved:
        return True, 0.0, done.span.start
    objective = float(done.objectives[done.best_restart - done.span.start])
    return False, np.inf if np.isnan(objective) else -objective, done.best_restart


@dataclass(eq=False)
class BlockResult:
    """Cells of one block that are being computed.

    Parameters
    ----------
    block : Block
        Which.
    cells : dict of Cell to CellResult
        Those not done in the cube yet, in storage order.
    """

    block: Block
    cells: dict[Cell, CellResult]
    _unsettled: list[CellResult] = field(init=False)

    def __post_init__(self) -> None:
        self._unsettled = list(reversed(self.cells.values()))

    @property
    def complete(self) -> bool:
        """Whether every cell is done or failed; a cell that was found so is not looked at again."""
        while self._unsettled and self._unsettled[-1].status != PENDING:
            self._unsettled.pop()
        return not self._unsettled

    def into(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Lay the finished cells over `arrays`, whose leading axis is the cells of the block."""
        for position, cell in enumerate(self.block.cells()):
            result = self.cells.get(cell)
            if result is None:
                continue
            arrays["status"][position] = result.status
            if result.status not in ANSWERED:
                continue
            best = present(result.best)
            arrays["log_likelihood"][position, : result.restarts] = result.objectives
            n_axes = arrays["covariances"].ndim - 2
            row = {
                "labels": best.labels,
                "centroids": best.centroids,
                "covariances": widened(best.covariances, n_axes, best.centroids.shape[1]),
                "best_restart": best.best_restart,
                "restarts_done": result.end,
                "seconds": result.seconds,
                "cpu_seconds": result.cpu_seconds,
                "unseen_mass": result.unseen_mass,
                **({} if result.chosen is None else result.chosen.values()),
            }
            if not chooses(cell.model):  # the shape of a model that has its own is not chosen
                row.pop("covariance_shape", None)
            if best.gaussians is not None and ROWS[0] in arrays:
                lengths = (arrays[name].shape[1] for name in (ROWS[0], ROWS[-1]))
                row |= to_rows(best.gaussians, Room(*lengths))
            for name in row.keys() & arrays.keys():
                arrays[name][position] = row[name]
        return arrays
