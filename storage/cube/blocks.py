"""Blocks: the cells of one chunk position, written whole, status last."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import compress
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from storage.cube.chunks import status_chunks
from storage.cube.manifest import ROOT_FILE, read_manifest
from storage.cube.places import Place, Places, chunk_name
from storage.cube.schema import ANSWERED, FAILED, FIELDS, NO_SOLUTION, PENDING, VARIABLES, result_names
from storage.cube.store import DurableStore
from storage.errors import storage_errors
from storage.files import PLAIN, Files, sync_directory
from storage.provenance import fingerprint
from sweeps.errors import given
from sweeps.plan import Block, Cell, DatasetPlan

__all__ = ["BlockStore", "CellMismatch", "failed_cells", "unsolved_cells"]


# Two computations of one cell must agree bit for bit.

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


logger = logging.getLogger(__name__)

Arrays = dict[str, npt.NDArray[Any]]


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
        self._files = files
        self._manifest = manifest = read_manifest(path)
        self._plans = manifest.plans
        self._runs = manifest.runs
        self._places = {name: Places(plan) for name, plan in self._plans.items()}
        with storage_errors(path):
            store = DurableStore(path, chunks=manifest.chunks, read_only=read_only, files=files)
            self._root = zarr.open_group(store, mode="r" if read_only else "r+", use_consolidated=True)
        self._arrays: dict[str, zarr.Array[Any]] = {}

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
        place = self._place(block)
        with self._reading():
            return self._read_array(block, place, "status")

    def all_statuses(
        self, plan: DatasetPlan, blocks: Iterable[Block] | None = None
    ) -> Iterator[tuple[Block, npt.NDArray[np.int8]]]:
        """State of each cell of a data set, from one reading of the status arrays.

        Parameters
        ----------
        plan : DatasetPlan
            As `growth.align` gives it.
        blocks : iterable of Block, optional
            Some of its blocks; all by default.

        Yields
        ------
        (Block, array of int8, shape (n_cells,))
            In the order of `blocks`.
        """
        whole: dict[str, npt.NDArray[Any]] = {}
        for block in plan.blocks() if blocks is None else blocks:
            place = self._place(block)
            if place.node not in whole:
                metadata = self._manifest.metadata[f"{place.node}/status"]
                whole[place.node] = np.empty(metadata["shape"], np.int8)
                for region, values in status_chunks(self._manifest, place.node):
                    whole[place.node][region] = values
            yield block, whole[place.node][place.region].reshape(-1)

    def cells(self, plans: Iterable[DatasetPlan], state: int) -> Iterator[tuple[Block, Cell]]:
        """Cells of some data sets whose `status` is `state`, each with its block."""
        for plan in plans:
            for block, statuses in self.all_statuses(plan):
                found = statuses == state
                if found.any():
                    yield from ((block, cell) for cell in compress(block.cells(), found))

    def read(self, block: Block) -> Arrays:
        """All results of a block, in the layout of `write`; what is not done yet reads as fill values."""
        place = self._place(block)
        statuses = self.statuses(block)
        with self._reading():
            if np.isin(statuses, ANSWERED).any():
                results = {name: self._read_array(block, place, name) for name in self._names(block)}
            else:
                results = self._unwritten(block, place) | {"status": statuses}
            if not block.unsupervised:
                results["annotations"] = self._read_annotations(block, place)
        return results

    def annotations(self, block: Block) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Annotations of a block with models that use them, and which of them are written.

        Returns
        -------
        annotations : array of int32, shape (n_mixtures · n_replicates, m, 3)
            Fill values where nothing is written yet.
        known : array of bool, shape (n_mixtures · n_replicates,)
            Whether a cell of any model and search has been computed with them.
        """
        place = self._place(block)
        known = self._annotations_known(block, place)
        with self._reading():
            return self._read_annotations(block, place), known

    @property
    def made_here(self) -> bool:
        """Whether all runs had this software and model of CPU: equal bits are promised then."""
        return all(run.fingerprint == fingerprint() for run in self._runs)

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
            with one that predicts held-out annotations `held_out` and `held_out_right` (n_cells,
            n_candidates), and for supervised blocks `annotations` (n_mixtures · n_replicates, m, 3).

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
        place = self._place(block)
        new = self._checked(block, place, results)
        _drop_unfinished(new, len(block.models))
        statuses = self.statuses(block)
        done = np.isin(statuses, ANSWERED)
        known = self._annotations_known(block, place)
        if (statuses == PENDING).any() and self.has_status(block):
            self._compare_set_back(block, place, new, statuses == PENDING)
        if done.any() or known.any():
            self._keep_done(block, new, done, known)
        if done.all():
            return
        with storage_errors(self.path, sum(values.nbytes for values in new.values())):
            self._write_files(block, place, new)

    def has_status(self, block: Block) -> bool:
        """Whether the block was written: its status is there, whatever it says."""
        place = self._place(block)
        chunks = self._array(place.node, "status").chunks
        position = tuple(part.start // length for part, length in zip(place.region, chunks, strict=True))
        return os.path.lexists(self.path / place.node / "status" / chunk_name(position))

    def set_back(self, block: Block) -> None:
        """Make all cells of a block pending, durably, whatever its status was.

        Its results stay, and `write` compares what of them is not a fill value with what is computed then.
        """
        place = self._place(block)
        with storage_errors(self.path):
            self._write_array(place, "status", np.full(block.n_cells, PENDING, dtype=np.int8))
            sync_directory(self.path / place.node / "status")

    def clear(self, block: Block, name: str) -> None:
        """Put fill values in place of one array of a block that is pending, durably."""
        place = self._place(block)
        with storage_errors(self.path):
            if name == "annotations":
                graphs = block.n_cells // len(block.models)
                self._write_annotations(place, np.full((graphs, block.m or 0, len(FIELDS)), -1))
            else:
                self._write_array(place, name, self._unwritten(block, place)[name])
            sync_directory(self.path / place.node / name)

    def _compare_set_back(
        self, block: Block, place: Place, new: Arrays, waiting: npt.NDArray[np.bool_]
    ) -> None:
        with self._reading():
            stored = {name: self._read_array(block, place, name) for name in self._names(block)}
            if not block.unsupervised:
                stored["annotations"] = self._read_annotations(block, place)
        try:
            compare_set_back(block, stored, new, waiting)
        except CellMismatch as mismatch:
            if self.made_here:
                raise
            logger.warning("%s; bits are promised only for equal software and CPU model", mismatch)

    def _keep_done(
        self, block: Block, new: Arrays, done: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]
    ) -> None:
        stored = self.read(block)
        compare_cells(block, stored, new, known)
        for name in self._names(block):
            new[name][done] = stored[name][done]
        if not block.unsupervised:
            new["annotations"][known] = stored["annotations"][known]
        if known.all():
            del new["annotations"]

    def _write_files(self, block: Block, place: Place, new: Arrays) -> None:
        names = [name for name in (*self._names(block), "annotations") if name in new and name != "status"]
        for name in names:
            if name == "annotations":
                self._write_annotations(place, new[name])
            else:
                self._write_array(place, name, new[name])
        self._files.settle()
        # All results are durable, names included, before the status says done.
        for name in names:
            sync_directory(self.path / place.node / name)
        self._write_array(place, "status", new["status"])
        sync_directory(self.path / place.node / "status")

    def _write_array(self, place: Place, name: str, values: npt.NDArray[Any]) -> None:
        self._array(place.node, name)[place.region] = values.reshape(place.shape + values.shape[1:])

    def _write_annotations(self, place: Place, rows: npt.NDArray[Any]) -> None:
        array = self._array(place.node, "annotations")
        # Whole chunks: the last one is filled up to the end of the array.
        length = min(ceil(rows.shape[1] / array.chunks[-2]) * array.chunks[-2], array.shape[-2])
        padded = np.full((len(rows), length, len(FIELDS)), VARIABLES["annotations"].fill, dtype=array.dtype)
        padded[:, : rows.shape[1]] = rows
        shape = place.shape[: len(place.graphs)]
        array[(*place.graphs, slice(0, length))] = padded.reshape(*shape, length, len(FIELDS))

    def _read_annotations(self, block: Block, place: Place) -> npt.NDArray[Any]:
        array, m = self._array(place.node, "annotations"), given(block.m)
        values = np.asarray(array[(*place.graphs, slice(0, m))])
        return values.reshape(-1, m, len(FIELDS))

    def _annotations_known(self, block: Block, place: Place) -> npt.NDArray[np.bool_]:
        if block.unsupervised:
            return np.zeros(1, dtype=bool)
        with self._reading():
            statuses = np.asarray(self._array(place.node, "status")[place.graphs])
        solvers = tuple(range(-place.solvers, 0))
        known: npt.NDArray[np.bool_] = np.isin(statuses, ANSWERED).any(axis=solvers).reshape(-1)
        return known

    def _read_array(self, block: Block, place: Place, name: str) -> npt.NDArray[Any]:
        values = np.asarray(self._array(place.node, name)[place.region])
        return values.reshape(block.n_cells, *values.shape[len(place.region) :])

    def _unwritten(self, block: Block, place: Place) -> Arrays:
        return {
            name: np.full(shape, VARIABLES[name].fill, dtype=VARIABLES[name].dtype)
            for name, shape in self._shapes(block, place).items()
        }

    def _shapes(self, block: Block, place: Place) -> dict[str, tuple[int, ...]]:
        arrays = {name: self._array(place.node, name) for name in self._names(block)}
        return {name: (block.n_cells, *array.shape[len(place.region) :]) for name, array in arrays.items()}

    def _array(self, node: str, name: str) -> zarr.Array[Any]:
        path = f"{node}/{name}"
        if path not in self._arrays:
            # Chunks of fill values are written too: one that is missing has been lost.
            with zarr.config.set({"array.write_empty_chunks": True}):
                array = self._root[path]
            if not isinstance(array, zarr.Array):
                raise TypeError(f"{path} is no array")
            self._arrays[path] = array
        return self._arrays[path]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        # To zarr a missing chunk is one never written: a vanished cube would read as pending.
        with storage_errors(self.path):
            os.stat(self.path / ROOT_FILE)
            yield

    def _checked(self, block: Block, place: Place, results: Mapping[str, npt.ArrayLike]) -> Arrays:
        shapes = self._shapes(block, place)
        if block.m is not None:
            shapes["annotations"] = (block.n_cells // len(block.models), block.m, len(FIELDS))
        problems = [f"{name}: unknown" for name in results if name not in shapes]
        problems += [f"{name}: missing" for name in shapes if name not in results]
        checked = {}
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

    def _names(self, block: Block) -> tuple[str, ...]:
        return result_names(self._plans[block.dataset], block.models)

    def _place(self, block: Block) -> Place:
        places = self._places.get(block.dataset)
        place = None if places is None else places.locate(block)
        if place is None:
            raise ValueError(f"{self.path} has no block {block}")
        return place


def failed_cells(cube: Path, plans: Iterable[DatasetPlan]) -> tuple[Cell, ...]:
    """Cells that the cube marks as failed."""
    return tuple(cell for _, cell in BlockStore(cube, read_only=True).cells(plans, FAILED))


def unsolved_cells(cube: Path, plans: Iterable[DatasetPlan]) -> tuple[Cell, ...]:
    """Cells whose method found no solution."""
    return tuple(cell for _, cell in BlockStore(cube, read_only=True).cells(plans, NO_SOLUTION))


def _drop_unfinished(results: Arrays, n_models: int) -> None:
    done = np.isin(results["status"], ANSWERED)
    for name in results.keys() - {"status", "annotations"}:
        results[name][~done] = VARIABLES[name].fill
    if "annotations" in results:
        results["annotations"][~done.reshape(-1, n_models).any(axis=1)] = VARIABLES["annotations"].fill
