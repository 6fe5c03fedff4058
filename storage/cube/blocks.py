"""Blocks: the cells of one chunk position, written whole, status last.

`BlockStore` reads and writes them. Cells that are done are never changed: what is computed again is compared,
bit for bit, and another value is a `CellMismatch`. To all methods a block is a table of arrays by name; the
leading axis of each is the cells in the order of `block.cells()`, of annotations their graphs.
"""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep_clustering.storage.cube.chunks import ANNOTATIONS
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import ANSWERED, FAILED, PENDING, VARIABLES, result_names
from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.storage.files import PLAIN, Files, sync_directory
from sweep_clustering.storage.provenance import PROMISE, fingerprint, unrecorded
from sweep_clustering.sweeps.errors import given
from sweep_clustering.sweeps.plan import Block, Cell, DatasetPlan

logger = logging.getLogger(__name__)

Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

# Variables whose bits are not promised: times are those of one run.
UNPROMISED = ("seconds", "cpu_seconds")


class BlockStore:
    """Blocks of one cube.

    It sees the grid as it was when it was opened: open it again after the cube has grown.

    Parameters
    ----------
    path : Path
        The cube.
    read_only : bool
        For those who do not hold the lease.
    files : Files
        Of the holder of the lease.

    Raises
    ------
    InputError
        If this is no cube.
    StorageError
        If it cannot be read.
    """

    def __init__(self, path: Path, *, read_only: bool = False, files: Files = PLAIN) -> None:
        self.path = path
        self._files = None if read_only else files
        manifest = read_manifest(path)
        self._plans, self._chunks = manifest.plans, manifest.chunks
        self._spec, self._made_with = manifest.spec, manifest.made_with
        self._nodes = {node.path: node for plan in self._plans.values() for node in plan.nodes}

    def statuses(self, block: Block) -> npt.NDArray[np.int8]:
        """State of each cell.

        Parameters
        ----------
        block : Block
            A block of the cube.

        Returns
        -------
        array of int8, shape (n_cells,)
            `schema.PENDING`, `DONE`, `FAILED` or `NO_SOLUTION`, in the order of `block.cells()`.
        """
        self._check(block)
        return self._chunks.read(block, "status")

    def all_statuses(
        self, plan: DatasetPlan, blocks: Iterable[Block] | None = None
    ) -> Iterator[tuple[Block, npt.NDArray[np.int8]]]:
        """State of each cell of some blocks of a data set, of all of them by default, as `statuses` gives it.

        Parameters
        ----------
        plan : DatasetPlan
            As `growth.align` gives it.
        blocks : iterable of Block, optional
            Some of its blocks.
        """
        for block in plan.blocks() if blocks is None else blocks:
            yield block, self.statuses(block)

    def cells(self, plans: Iterable[DatasetPlan], state: int) -> Iterator[Cell]:
        """Cells of some data sets whose `status` is `state`."""
        for plan in plans:
            for block, statuses in self.all_statuses(plan):
                # of a state that is rare most blocks have none, and their cells need not be named
                if (statuses == state).any():
                    yield from compress(block.cells(), statuses == state)

    def read(self, block: Block) -> Arrays:
        """All results of a block, in the layout of `write`; what is not done yet reads as fill values."""
        answered = np.isin(self.statuses(block), ANSWERED).any()
        return self._read(block, only=() if answered else ("status", ANNOTATIONS))

    def annotations(self, block: Block) -> tuple[npt.NDArray[np.int32], Bools]:
        """Annotations of a block with models that use them, and which of them are written.

        Returns
        -------
        annotations : array of int32, shape (n_mixtures · n_replicates, m, 3)
            Fill values where nothing is written yet.
        known : array of bool, shape (n_mixtures · n_replicates,)
            Whether a cell of any model and search has been computed with them.
        """
        self._check(block)
        known = self._known(block)  # first: what is known then is there now
        return self._chunks.read(block, ANNOTATIONS), known

    @property
    def made_here(self) -> bool:
        """Whether all runs had this software and model of CPU: equal bits are promised then."""
        here = fingerprint(self._spec)
        return all(made.items() <= here.items() and not unrecorded(made, here) for made in self._made_with)

    def write(self, block: Block, results: Mapping[str, npt.ArrayLike]) -> None:
        """Write a block: whole chunks of every array, made durable, then its status, made durable.

        Cells that are done already, or were found to have no solution, are compared, bit for bit but for
        times, and stay; if all are, no file is touched. Failed and pending cells may change. Results of
        cells whose new status is one of these two are dropped.

        Parameters
        ----------
        block : Block
            A block of the cube.
        results : mapping of str to array
            Leading axis: cells in the order of `block.cells()`. `log_likelihood` (n_cells, n_restarts),
            `labels` (n_cells, n_samples), `centroids` (n_cells, n_clusters, n_features), `covariances`
            (n_cells, n_clusters) with no, one or two axes of n_features behind as the node has them,
            `best_restart`, `restarts_done`, `seconds`, `cpu_seconds`, `status` (n_cells,), in an adaptive
            sweep `unseen_mass` (n_cells,), with a model that chooses its shape `covariance_shape` (n_cells,),
            with one of classes of any shape `structure` (n_cells, n_parts), with one that predicts held-out
            annotations `held_out` and `held_out_right` (n_cells, n_candidates), with classes that are unions
            of Gaussians `sweeps.unions.ROWS` and, if they predict, `base_rate`, and for supervised blocks
            `annotations` (n_mixtures · n_replicates, m, 3).

        Raises
        ------
        CellMismatch
            If a cell that is done has other results now: names the cell, the variables, and both values.
        StorageError
            If the file system refuses, or what is stored is damaged: nothing is marked failed for it.
        LeaseLost
            If another process has taken the lease.
        ValueError
            If names, shapes or types are not those above, or the block is not one of the cube.
        """
        self._check(block)
        files, new = given(self._files), self._checked(block, results)
        statuses = self.statuses(block)
        waiting, done, known = statuses == PENDING, np.isin(statuses, ANSWERED), self._known(block)
        unfinished = ~np.isin(new["status"], ANSWERED)
        alone = unfinished.reshape(-1, block.per_graph).all(axis=1)
        for name in new.keys() - {"status"}:
            new[name][alone if name == ANNOTATIONS else unfinished] = VARIABLES[name].fill
        if waiting.any() and self.has_status(block):
            try:
                compare_set_back(block, self._read(block), new, waiting)
            except CellMismatch as mismatch:
                if self.made_here:
                    raise
                logger.warning("%s; %s", mismatch, PROMISE)
        if done.any() or known.any():
            stored = self.read(block)
            compare_cells(block, stored, new, known)
            for name in new:
                kept = known if name == ANNOTATIONS else done
                new[name][kept] = stored[name][kept]
            if known.all():
                new.pop(ANNOTATIONS, None)
        if done.all():
            return
        with storage_errors(self.path, sum(values.nbytes for values in new.values())):
            *results_first, status = (name for name in self._names(block) if name in new)
            for name in results_first:
                self._write(block, name, new[name])
            files.settle()
            # All results are durable, names included, before the status says done.
            for name in results_first:
                sync_directory(self.path / block.node.path / name)
            self._write(block, status, new[status])
            sync_directory(self.path / block.node.path / status)

    def has_status(self, block: Block) -> bool:
        """Whether the block was written: its status is there, whatever it says."""
        self._check(block)
        ((key,), *_) = self._chunks.layout(block, "status")
        return os.path.lexists(self.path / key)

    def clear(self, block: Block, name: str) -> None:
        """Put fill values in place of one array of a block, durably.

        Of the status first: all of its cells are pending then, whatever it was. Results that stay are
        compared by `write`, where they are not fill values, with what is computed then.
        """
        self._check(block)
        with storage_errors(self.path):
            self._write(block, name, self._fill(block, name))
            sync_directory(self.path / block.node.path / name)

    def _known(self, block: Block) -> Bools:
        """Annotations that belong to a cell with an answer, of this block or of another model or search."""
        known = np.zeros(block.n_graphs, dtype=bool)
        if not block.node.baseline:
            n, node = len(block.graph_region), self._nodes[block.node.path]
            for beside in product(*(range(len(dim.chunks())) for dim in node.stored[n:])):
                answered = np.isin(self.statuses(node.block_at((*block.chunk[:n], *beside))), ANSWERED)
                known |= answered.reshape(block.n_graphs, -1).any(axis=1)
        return known

    def _read(self, block: Block, only: Collection[str] = ()) -> Arrays:
        """Some or all arrays as they are stored, others full of what reads where nothing is written."""
        return {
            name: self._chunks.read(block, name) if name in (only or [name]) else self._fill(block, name)
            for name in self._names(block)
        }

    def _write(self, block: Block, name: str, values: npt.NDArray[Any]) -> None:
        for key, content in self._chunks.contents(block, name, values).items():
            given(self._files).put(self.path / key, content)

    def _fill(self, block: Block, name: str) -> npt.NDArray[Any]:
        return np.full(self._shape(block, name), VARIABLES[name].fill, dtype=VARIABLES[name].dtype)

    def _shape(self, block: Block, name: str) -> tuple[int, ...]:
        _, leading, rest = self._chunks.layout(block, name)
        return (prod(leading), *rest)

    def _names(self, block: Block) -> tuple[str, ...]:
        """Arrays of a block, the status last."""
        plan, searches = self._plans[block.dataset], block.values("search")
        *results, status = result_names(plan, block.models, searches)
        return (*results, *([] if block.node.baseline else [ANNOTATIONS]), status)

    def _checked(self, block: Block, results: Mapping[str, npt.ArrayLike]) -> Arrays:
        """Results in the types of the cube."""
        problems = []
        checked = {}
        shapes = {name: self._shape(block, name) for name in self._names(block)}
        if results.keys() != shapes.keys():
            problems.append(f"variables {', '.join(results)}, expected {', '.join(shapes)}")
        for name in shapes.keys() & results.keys():
            values = np.asarray(results[name])
            with np.errstate(invalid="ignore"):
                checked[name] = values.astype(VARIABLES[name].dtype)
            if values.shape != shapes[name]:
                problems.append(f"{name}: shape {values.shape}, expected {shapes[name]}")
            elif not np.array_equal(values, checked[name], equal_nan=values.dtype.kind == "f"):
                problems.append(f"{name}: values that {VARIABLES[name].dtype} cannot hold")
        if problems:
            raise ValueError(f"results of block {block} do not fit the cube: {'; '.join(sorted(problems))}")
        return checked

    def _check(self, block: Block) -> None:
        node = self._nodes.get(block.node.path)
        if node is None or not node.has_block(block):
            raise ValueError(f"{self.path} has no block {block}")


def failed_cells(cube: Path, plans: Iterable[DatasetPlan]) -> tuple[Cell, ...]:
    """Cells that the cube marks as failed."""
    return tuple(BlockStore(cube, read_only=True).cells(plans, FAILED))


# Two computations of one cell must agree bit for bit.


@dataclass(eq=False)
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

    cell: Cell
    values: dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]
    n_others: int = 0

    def __str__(self) -> str:
        shown = []
        for name, (stored, new) in self.values.items():
            first = tuple(map(int, np.argwhere(_unequal(stored, new))[0]))
            place = str(list(first)) if first else ""
            shown.append(f"{name}{place} stored {stored[first].item()!r}, new {new[first].item()!r}")
        others = f"; and {self.n_others} more cells of this block" if self.n_others else ""
        return f"{self.cell}: computed again with another result: {'; '.join(shown)}{others}"


def compare_cells(block: Block, stored: Arrays, new: Arrays, annotations_known: Bools) -> None:
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
    differing = {}
    for name in (name for name in stored if name not in UNPROMISED):
        rows = differing_rows(stored[name], new[name])
        if name == ANNOTATIONS:
            rows = np.repeat(rows & annotations_known, block.per_graph) & np.isin(new["status"], ANSWERED)
        else:
            rows &= np.isin(stored["status"], ANSWERED) & (new["status"] != PENDING)
        differing[name] = rows
    cells = np.any(list(differing.values()), axis=0)
    if cells.any():
        index = int(np.argmax(cells))
        values = {}
        for name in (name for name in differing if differing[name][index]):
            row = index // block.per_graph if name == ANNOTATIONS else index
            values[name] = np.asarray(stored[name][row]), np.asarray(new[name][row])
        raise CellMismatch(list(block.cells())[index], values, int(cells.sum()) - 1)


def compare_set_back(block: Block, stored: Arrays, new: Arrays, waiting: Bools) -> None:
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
    compare_cells(block, kept, new, np.asarray(again.reshape(-1, block.per_graph).any(axis=1)))


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
