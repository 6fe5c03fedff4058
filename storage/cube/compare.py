"""Two computations of one cell must agree bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.cube.schema import ANSWERED, PENDING, VARIABLES
from sweeps.plan import Block, Cell

UNPROMISED = ("seconds", "cpu_seconds")
"""Variables whose bits are not promised: times are those of one run."""

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class CellMismatch(Exception):
    """A done cell has another result when computed again.

    Parameters
    ----------
    cell : Cell
        The first such cell of the block.
    values : dict of str to (array, array)
        By variable, what is stored and what is new.
    n_others : int
        Number of further cells of the block that differ.
    """

    def __init__(self, cell: Cell, values: Mapping[str, Pair], n_others: int = 0) -> None:
        self.cell = cell
        self.values = dict(values)
        self.n_others = n_others
        shown = "; ".join(_describe(name, *pair) for name, pair in self.values.items())
        others = f"; and {n_others} more cells of this block" if n_others else ""
        super().__init__(f"{cell}: computed again with another result: {shown}{others}")

    def __reduce__(self) -> tuple[type[CellMismatch], tuple[Cell, dict[str, Pair], int]]:
        return CellMismatch, (self.cell, self.values, self.n_others)


def compare_cells(
    block: Block,
    stored: Mapping[str, npt.NDArray[Any]],
    new: Mapping[str, npt.NDArray[Any]],
    annotations_known: npt.NDArray[np.bool_],
) -> None:
    """Compare the cells that are done with what was computed now.

    Parameters
    ----------
    block : Block
        Names the cells.
    stored, new : mapping of str to array
        In the layout of `BlockStore.write`. A cell that is pending in `new` says nothing.
    annotations_known : array of bool, shape (n_mixtures · n_replicates,)
        Where stored annotations belong to a done cell, of this block or of another model or search.

    Raises
    ------
    CellMismatch
        If one bit differs in anything but times.
    """
    both = np.isin(stored["status"], ANSWERED) & (new["status"] != PENDING)
    names = [name for name in stored if name not in (*UNPROMISED, "annotations")]
    differing = {name: differing_rows(stored[name], new[name]) & both for name in names}
    if not block.unsupervised:
        rows = differing_rows(stored["annotations"], new["annotations"]) & annotations_known
        differing["annotations"] = np.repeat(rows, len(block.models)) & np.isin(new["status"], ANSWERED)
    cells = np.any(list(differing.values()), axis=0)
    if cells.any():
        index = int(np.argmax(cells))
        shown = compress(differing, (where[index] for where in differing.values()))
        values = {name: (_item(block, stored, name, index), _item(block, new, name, index)) for name in shown}
        raise CellMismatch(list(block.cells())[index], values, int(cells.sum()) - 1)


def compare_set_back(
    block: Block,
    stored: Mapping[str, npt.NDArray[Any]],
    new: Mapping[str, npt.NDArray[Any]],
    waiting: npt.NDArray[np.bool_],
) -> None:
    """Compare what is left of cells that a repair made pending with what was computed now.

    Parameters
    ----------
    block, stored, new
        As for `compare_cells`. A row of fill values in `stored` was lost.
    waiting : array of bool, shape (n_cells,)
        Cells that are pending in the cube.

    Raises
    ------
    CellMismatch
        If one bit of what was not lost differs in anything but times.
    """
    again = np.asarray(waiting & np.isin(new["status"], ANSWERED))
    kept = {}
    for name, values in stored.items():
        lost = ~differing_rows(values, np.full_like(values, VARIABLES[name].fill))
        kept[name] = values.copy()
        kept[name][lost] = new[name][lost]
    kept["status"] = np.where(again, new["status"], PENDING)
    graphs = np.asarray(again.reshape(-1, len(block.models)).any(axis=1))
    compare_cells(block, kept, new, graphs)


def _item(block: Block, results: Mapping[str, npt.NDArray[Any]], name: str, index: int) -> npt.NDArray[Any]:
    row = index // len(block.models) if name == "annotations" else index
    return np.asarray(results[name][row])


def differing_rows(stored: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where two arrays have other bits, along their first axis: the one meaning of "the same bits"."""
    unequal = _unequal(stored, new).reshape(len(stored), -1)
    return np.asarray(unequal.any(axis=1))


def _unequal(stored: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if stored.dtype.kind != "f":
        return np.asarray(stored != new)
    # Bits, not ==, which takes 0.0 for -0.0; but every NaN is the same missing value.
    unequal = np.asarray(stored).view(np.uint64) != np.asarray(new).view(np.uint64)
    return np.asarray(unequal & ~(np.isnan(stored) & np.isnan(new)))


def _describe(name: str, stored: npt.NDArray[Any], new: npt.NDArray[Any]) -> str:
    where = np.argwhere(np.atleast_1d(_unequal(stored, new)))
    first = tuple(where[0]) if stored.ndim else ()
    place = "[" + ", ".join(map(str, first)) + "]" if first else ""
    count = f" ({len(where)} of {stored.size} values differ)" if stored.ndim else ""
    return f"{name}{place} stored {stored[first].item()!r}, new {new[first].item()!r}{count}"
