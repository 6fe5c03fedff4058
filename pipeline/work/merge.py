"""Partial results become cells, cells become blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.work.records import Chosen, Partial, Work
from pipeline.work.tasks import missing_ranges, restarts_enough, unseen_mass
from storage.cube.blocks import differing_rows
from storage.cube.schema import ANSWERED, DONE, FAILED, NO_SOLUTION, PENDING
from sweeps.errors import given
from sweeps.file.spec import Stop
from sweeps.plan import Block, Cell
from sweeps.shapes import CANDIDATES, CODES, SCORED, narrowed, widened, widest_dims
from sweeps.words import chooses, holds_out, shape_of

SOLUTION = ("labels", "centroids", "covariances")
"""Arrays of a partial result that describe its best restart."""


CHOICE = ("covariance_shape", "held_out", "held_out_right")
"""Arrays of partial results of cells that hold annotations out."""


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
    best: Partial | None = None
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

    def add(self, partial: Partial) -> None:
        """Take a partial result.

        Raises
        ------
        Mismatch
            If a restart that is known already has another objective now, or the cell another shape.
        """
        self._take_choice(partial)
        start, stop = partial.work.start, partial.work.stop
        seen = self.known[start:stop].copy()
        other = seen & differing_rows(self.objectives[start:stop], partial.objectives)
        if other.any():
            which = start + int(np.argmax(other))
            raise Mismatch(
                f"cell {self.cell}, restart {which}: objective {partial.objectives[which - start]!r} now, "
                f"{self.objectives[which]!r} before: a restart must give the same bits wherever it runs"
            )
        if not seen.all():
            self.seconds += partial.seconds
            self.cpu_seconds += partial.cpu_seconds
        self.objectives[start:stop] = partial.objectives
        self.known[start:stop] = True
        self.end = restarts_enough(self._first(), self.stop, self.restarts)
        if self.best is None or _rank(partial) < _rank(self.best):
            self.best = partial

    def missing(self) -> Iterator[Work]:
        """Restarts still to be run."""
        if self.stop is not None:
            known = self._first()
            if self.end is None:
                yield Work(self.cell, len(known), self.restarts, tuple(known.tolist()), self.chosen)
            return
        done = np.flatnonzero(self.known).tolist()
        for start, stop in missing_ranges(self.restarts, done):
            yield Work(self.cell, start, stop, chosen=self.chosen)

    def _take_choice(self, partial: Partial) -> None:
        if self.chosen is not None and (partial.chosen is None or not self.chosen.is_same(partial.chosen)):
            raise Mismatch(
                f"cell {self.cell}: {partial.chosen} now, {self.chosen} before: held-out annotations must say"
                " the same of a cell wherever it runs"
            )
        self.chosen = partial.chosen

    def _first(self) -> NDArray[np.float64]:
        """Objectives of the restarts before the first that is missing."""
        return self.objectives[: self.restarts if self.known.all() else int(self.known.argmin())]


def _rank(partial: Partial) -> tuple[bool, float, int]:
    """Order of solutions: larger objective first, one without after those with one, then lower restart."""
    if not partial.solved:
        return True, 0.0, partial.work.start
    objective = float(partial.objectives[partial.best_restart - partial.work.start])
    return False, np.inf if np.isnan(objective) else -objective, partial.best_restart


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
            best = given(result.best)
            arrays["log_likelihood"][position, : result.restarts] = result.objectives
            arrays["labels"][position] = best.labels
            arrays["centroids"][position] = best.centroids
            arrays["covariances"][position] = _widened(best, arrays["covariances"].ndim - 2)
            arrays["best_restart"][position] = best.best_restart
            arrays["restarts_done"][position] = result.end
            arrays["seconds"][position] = result.seconds
            arrays["cpu_seconds"][position] = result.cpu_seconds
            if "unseen_mass" in arrays:
                arrays["unseen_mass"][position] = result.unseen_mass
            if result.chosen is not None:
                for name, values in zip(CHOICE, _choice_values(result.chosen), strict=True):
                    if name != CHOICE[0] or chooses(cell.model):
                        arrays[name][position] = values
        return arrays


def _widened(partial: Partial, n_axes: int) -> NDArray[np.float64]:
    return widened(partial.covariances, n_axes, partial.centroids.shape[1])


def to_record(partials: list[Partial]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Partial results of one data set as a journal record: a header of plain values, and arrays.

    Solutions of one data set stack: four arrays, however many cells. Covariances of several shapes
    do so in the form of the widest, as in the cube. A choice adds three arrays.
    """
    entries = [
        {
            "cell": _coordinates(partial.work.cell),
            "start": partial.work.start,
            "stop": partial.work.stop,
            "best_restart": partial.best_restart,
            "seconds": partial.seconds,
            "cpu_seconds": partial.cpu_seconds,
        }
        for partial in partials
    ]
    n_axes = max(partial.covariances.ndim for partial in partials) - 1
    arrays = {name: np.stack([getattr(partial, name) for partial in partials]) for name in SOLUTION[:-1]}
    arrays["covariances"] = np.stack([_widened(partial, n_axes) for partial in partials])
    arrays["objectives"] = np.concatenate([partial.objectives for partial in partials])
    choices = [_choice_values(partial.chosen) for partial in partials if partial.chosen is not None]
    if choices:
        arrays |= {
            name: np.array(values) for name, values in zip(CHOICE, zip(*choices, strict=True), strict=True)
        }
    return {"partials": entries}, arrays


def _coordinates(cell: Cell) -> list[Any]:
    """Coordinates of a cell for a record; design and search are left out where the sweep names none."""
    values = list(astuple(cell))
    while values[-1] is None:
        values.pop()
    return values


def from_record(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> list[Partial]:
    """Read back what `to_record` made.

    Raises
    ------
    ValueError
        If the record holds anything else.
    """
    try:
        return _partials(header["partials"], arrays)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"a record of other content ({type(error).__name__}: {error})") from error


def _partials(entries: list[dict[str, Any]], arrays: dict[str, NDArray[Any]]) -> list[Partial]:
    for entry in entries:
        numbers = entry["start"], entry["best_restart"], entry["stop"]
        if not all(type(number) is int for number in numbers):
            raise ValueError(f"a record of restarts {numbers}, expected whole numbers")
        # -1: a method found no solution
        if not (0 <= numbers[0] < numbers[2] and (numbers[1] == -1 or numbers[0] <= numbers[1] < numbers[2])):
            raise ValueError(
                f"a record of restart {numbers[1]} as the best of {numbers[0]} to {numbers[2] - 1}"
            )
    ends = list(accumulate((entry["stop"] - entry["start"] for entry in entries), initial=0))
    lengths = {"objectives": ends[-1], **dict.fromkeys(SOLUTION, len(entries))}
    for name, length in lengths.items():
        if arrays[name].ndim == 0 or len(arrays[name]) != length:
            raise ValueError(f"a record with {name} of shape {arrays[name].shape}, expected {length} rows")
    cells = [Cell(*entry["cell"]) for entry in entries]
    choices = _choices(cells, arrays)
    shapes = [
        shape_of(cell.model) if chosen is None else chosen.covariance
        for cell, chosen in zip(cells, choices, strict=True)
    ]
    form = arrays["centroids"].shape[:2] + arrays["centroids"].shape[2:] * len(widest_dims(shapes))
    if arrays["covariances"].shape != form:
        raise ValueError(f"a record with covariances of shape {arrays['covariances'].shape}, expected {form}")
    return [
        Partial(
            work=Work(cells[position], entry["start"], entry["stop"]),
            objectives=arrays["objectives"][ends[position] : ends[position + 1]],
            best_restart=entry["best_restart"],
            seconds=float(entry["seconds"]),
            cpu_seconds=float(entry["cpu_seconds"]),
            # copies: a view would keep the arrays of the whole batch in memory
            labels=arrays["labels"][position].copy(),
            centroids=arrays["centroids"][position].copy(),
            covariances=narrowed(arrays["covariances"][position], shapes[position]).copy(),
            chosen=choices[position],
        )
        for position, entry in enumerate(entries)
    ]


def _choice_values(chosen: Chosen) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    """What a cube holds of a choice, in the order of `CHOICE`."""
    return CODES[chosen.covariance], chosen.held_out, chosen.right


def _choices(cells: Sequence[Cell], arrays: Mapping[str, NDArray[Any]]) -> list[Chosen | None]:
    """Choices of the cells of a record: its arrays have a row for each that holds annotations out.

    If every model does so, there are scores of all shapes, and not of the candidates alone.
    """
    if CHOICE[1] not in arrays and not any(chooses(cell.model) for cell in cells):
        return [None] * len(cells)
    codes, held_out, right = (arrays[name] for name in CHOICE)
    if codes.dtype.kind != "i" or not held_out.dtype == right.dtype == np.float64:
        raise ValueError(f"a record of choices of {codes.dtype}, {held_out.dtype} and {right.dtype}")
    every = held_out.shape[1:] == (len(SCORED),)
    with_one = [cell for cell in cells if holds_out(cell.model, every)]
    form = len(with_one), len(SCORED if every else CANDIDATES)
    if codes.shape != form[:1] or not held_out.shape == right.shape == form:
        found = ", ".join(str(arrays[name].shape) for name in CHOICE)
        raise ValueError(f"a record of choices of shapes {found}, expected {form[0]} rows")
    shapes = {code: shape for shape, code in CODES.items()}
    for cell, code in zip(with_one, codes.tolist(), strict=True):
        allowed = CANDIDATES if chooses(cell.model) else (shape_of(cell.model),)
        if shapes.get(code) not in allowed:
            raise ValueError(f"a record of the shape {code} of {cell}, expected one of {', '.join(allowed)}")
    rows = (
        Chosen(shapes[code], tuple(losses), tuple(shares))
        for code, losses, shares in zip(codes.tolist(), held_out.tolist(), right.tolist(), strict=True)
    )
    return [next(rows) if holds_out(cell.model, every) else None for cell in cells]
