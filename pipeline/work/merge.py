"""Merging of restarts into cells (`CellResult`), and of cells into blocks (`BlockResult`)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.work.records import Chosen, Solved, Span
from sweep_clustering.pipeline.work.tasks import restarts_enough, unseen_mass
from sweep_clustering.storage.cube.blocks import differing_rows
from sweep_clustering.storage.cube.schema import ANSWERED, DONE, FAILED, NO_SOLUTION, PENDING
from sweep_clustering.storage.provenance import class_code
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.file.spec import Stop
from sweep_clustering.sweeps.plan import Block, Cell
from sweep_clustering.sweeps.shapes import ROWS, Room, to_rows, widened
from sweep_clustering.sweeps.words import chooses


class Mismatch(RuntimeError):
    """A restart, or a choice, computed twice gave two values: a result cannot be trusted."""


@dataclass(eq=False)
class CellResult:
    """Restarts of one cell so far, and the best of them.

    Parameters
    ----------
    restarts : int
        Number of restarts that are planned.
    stop : Stop or None
        Rule by which fewer are enough.

    Attributes
    ----------
    is_run : ndarray of shape (restarts,)
        Whether the result of a restart is there.
    end : int or None
        Number of restarts that the cell ends with, None while some are missing.
    chosen : Chosen or None
        Choice of a cell that holds annotations out, once it is made.
    machines : set of str
        Classes of the machines that ran its restarts.
    """

    cell: Cell
    restarts: int
    stop: Stop | None = None
    objectives: NDArray[np.float64] = field(init=False)
    is_run: NDArray[np.bool_] = field(init=False)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    best: Solved | None = None
    has_failed: bool = False
    end: int | None = field(init=False, default=None)
    chosen: Chosen | None = field(init=False, default=None)
    machines: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.objectives = np.full(self.restarts, np.nan)
        self.is_run = np.zeros(self.restarts, dtype=bool)

    @property
    def status(self) -> int:
        """Pending, done, failed, or without a solution."""
        if self.has_failed:
            return FAILED
        if self.end is None:
            return PENDING
        return DONE if self.best is not None and self.best.has_solution else NO_SOLUTION

    @property
    def unseen_mass(self) -> float:
        """Estimated probability that one more restart finds something new, NaN without an adaptive stop."""
        return np.nan if self.stop is None else unseen_mass(self._first(), self.stop.rule)

    @property
    def machine(self) -> str:
        """Class of the machine, or those of several machines, that ran its restarts."""
        return " and ".join(sorted(self.machines - {""}))

    @property
    def n_run(self) -> int:
        """Number of restarts whose results are there."""
        return int(self.is_run.sum())

    @property
    def n_left(self) -> int:
        """Number of restarts that are still to be run; with an adaptive stop, the largest possible one."""
        return 0 if self.has_failed else sum(span.size for span in self.missing_spans())

    def add(self, result: Solved) -> None:
        """Take some restarts; another objective or choice than before is a `Mismatch`."""
        if self.chosen is not None and (result.chosen is None or not self.chosen.is_same(result.chosen)):
            raise Mismatch(
                f"cell {self.cell}: {result.chosen} now, {self.chosen} before: held-out annotations must say"
                " the same of a cell wherever it runs"
            )
        self.chosen = result.chosen
        start, stop = result.span.start, result.span.stop
        is_repeat = self.is_run[start:stop].copy()
        is_mismatch = is_repeat & differing_rows(self.objectives[start:stop], result.objectives)
        if is_mismatch.any():
            restart = start + int(np.argmax(is_mismatch))
            raise Mismatch(
                f"cell {self.cell}, restart {restart}: objective {result.objectives[restart - start]!r} now, "
                f"{self.objectives[restart]!r} before: a restart must give the same bits wherever it runs"
            )
        if not is_repeat.all():
            self.machines.add(result.machine)
            self.seconds += result.seconds
            self.cpu_seconds += result.cpu_seconds
        self.objectives[start:stop] = result.objectives
        self.is_run[start:stop] = True
        self.end = restarts_enough(self._first(), self.stop, self.restarts)
        if self.best is None or _rank(result) < _rank(self.best):
            self.best = result

    def missing_spans(self) -> Iterator[Span[Cell]]:
        """Yield the spans of restarts that are still to be run."""
        if self.stop is not None:
            objectives = self._first()
            if self.end is None:
                yield Span(self.cell, len(objectives), self.restarts, tuple(objectives.tolist()), self.chosen)
            return
        # Starts and ends of gaps, as if there were results before the first restart and after the last.
        edges = np.flatnonzero(np.diff(self.is_run, prepend=True, append=True)).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            yield Span(self.cell, start, stop, chosen=self.chosen)

    def _first(self) -> NDArray[np.float64]:
        """Return the objectives of the restarts before the first that is missing."""
        return self.objectives[: self.restarts if self.is_run.all() else int(self.is_run.argmin())]


class Rank(NamedTuple):
    """Place of a solution: by objective, then those without, then no solution, then by restart."""

    is_unsolved: bool
    cost: float
    restart: int


def _rank(result: Solved) -> Rank:
    if not result.has_solution:
        return Rank(True, 0.0, result.span.start)
    objective = float(result.objectives[result.best_restart - result.span.start])
    return Rank(False, np.inf if np.isnan(objective) else -objective, result.best_restart)


@dataclass(eq=False)
class BlockResult:
    """Cells of one block that are not done in the cube yet, in storage order."""

    block: Block
    cells: dict[Cell, CellResult]
    _unsettled: list[CellResult] = field(init=False)

    def __post_init__(self) -> None:
        self._unsettled = list(reversed(self.cells.values()))

    @property
    def is_complete(self) -> bool:
        """Whether every cell is done or failed."""
        while self._unsettled and self._unsettled[-1].status != PENDING:
            self._unsettled.pop()
        return not self._unsettled

    def into(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Write the finished cells into arrays with one row for each cell of the block, and return them."""
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
                "machine": class_code(result.machine) if result.machine else -1,
                "unseen_mass": result.unseen_mass,
                **({} if result.chosen is None else result.chosen.values()),
            }
            if not chooses(cell.model):
                row.pop("covariance_shape", None)
            if best.gaussians is not None and ROWS[0] in arrays:
                lengths = (arrays[name].shape[1] for name in (ROWS[0], ROWS[-1]))
                row |= to_rows(best.gaussians, Room(*lengths))
            for name in row.keys() & arrays.keys():
                arrays[name][position] = row[name]
        return arrays
