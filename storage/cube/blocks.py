"""Blocks: the cells of one chunk position, written whole, status last.

`BlockStore` reads and writes them as tables of arrays by name. The leading axis of each array is the cells in
the order of `block.cells()`, or their annotation graphs. Cells that are done never change: new results are
compared with them bit for bit, and a difference is a `CellMismatch`.
"""

import hashlib
import json
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep_clustering.storage import provenance
from sweep_clustering.storage.cube.chunks import ANNOTATIONS, chunk_counts, chunk_name
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import ANSWERED, FAILED, INPUTS, PENDING, VARIABLES, result_names
from sweep_clustering.storage.files import PLAIN, Files, storage_errors, sync_directory
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.plan import Block, Cell, DatasetPlan

logger = logging.getLogger(__name__)

Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

# Variables whose bits are not promised: times are different in every run, and machines may be.
UNPROMISED = ("seconds", "cpu_seconds", "machine")

# Keys of a sweep file that results depend on, beside the coordinates of their cells.
SETTINGS = ("seed", "search", "stop", "ask", "crowd")


class BlockStore:
    """Blocks of one cube, which must not be `read_only` for the holder of the lease.

    It has the grid as it was when it was opened: open it again after the cube has grown.
    """

    def __init__(self, path: Path, *, read_only: bool = False, files: Files = PLAIN) -> None:
        self.path = path
        self._files = None if read_only else files
        manifest = read_manifest(path)
        self._plans, self._chunks, self._machines = manifest.plans, manifest.chunks, manifest.machines
        self._spec, self._made_with = manifest.spec, manifest.made_with
        self._nodes = {node.path: node for plan in self._plans.values() for node in plan.nodes}

    def statuses(self, block: Block) -> npt.NDArray[np.int8]:
        """Return the `schema` status of each cell, as int8 in the order of `block.cells()`."""
        self._check(block)
        return self._chunks.read(block, "status")

    def all_statuses(
        self, plan: DatasetPlan, blocks: Iterable[Block] | None = None
    ) -> Iterator[tuple[Block, npt.NDArray[np.int8]]]:
        """Yield the blocks of a data set, or some of them, with the status of each cell."""
        for block in plan.blocks() if blocks is None else blocks:
            yield block, self.statuses(block)

    def cells(self, plans: Iterable[DatasetPlan], state: int) -> Iterator[Cell]:
        """Yield the cells of some data sets whose `status` is `state`."""
        for plan in plans:
            for block, statuses in self.all_statuses(plan):
                # most blocks have no cell of a rare state, and their cells need not be named
                if (statuses == state).any():
                    yield from compress(block.cells(), statuses == state)

    def read(self, block: Block) -> Arrays:
        """Return all results of a block, in the layout of `write`; pending cells have fill values."""
        has_answers = np.isin(self.statuses(block), ANSWERED).any()
        return self._read(block, names=() if has_answers else ("status", ANNOTATIONS))

    def annotations(self, block: Block) -> tuple[npt.NDArray[np.int32], Bools]:
        """Return the annotations of a block with models that use them, and which of them are written.

        The arrays have the shapes (n_mixtures · n_replicates, m, 3) and (n_mixtures · n_replicates,).
        Annotations are written as soon as a cell of any model and search has been computed with them.
        """
        self._check(block)
        is_written = self._written_annotations(block)  # first: these annotations exist in the read below
        return self._chunks.read(block, ANNOTATIONS), is_written

    @property
    def made_here(self) -> bool:
        """Whether all runs had this software and class of machine: equal bits are promised then."""
        own_fingerprint = provenance.fingerprint(self._spec)
        return not any(
            provenance.software_differences([("there", fingerprint), ("here", own_fingerprint)])
            or provenance.unrecorded(fingerprint, own_fingerprint)
            for fingerprint in self._made_with
        )

    def write(self, block: Block, results: Mapping[str, npt.ArrayLike]) -> None:
        """Write a block: whole chunks of every array, made durable, then its status, made durable.

        Cells that are done or have no solution are compared, bit for bit except for times, and stay; if all
        are, no file is touched. Failed and pending cells may change. Results of cells whose new status is one
        of these two are dropped.

        Parameters
        ----------
        block : Block
            block of the cube
        results : mapping of str to array
            `log_likelihood` (n_cells, n_restarts), `labels` (n_cells, n_samples), `centroids` (n_cells,
            n_clusters, n_features), `covariances` (n_cells, n_clusters) and up to two axes of n_features,
            `best_restart`, `restarts_done`, `seconds`, `cpu_seconds`, `status` (n_cells,), and for supervised
            blocks `annotations` (n_mixtures · n_replicates, m, 3). The sweep may require more, see
            `schema.CONDITIONS`: `machine`, `unseen_mass`, `covariance_shape`, `base_rate` (n_cells,),
            `structure` (n_cells, n_parts), `held_out` and `held_out_right` (n_cells, n_candidates), and
            `sweeps.shapes.ROWS`.

        Raises
        ------
        CellMismatch
            If a cell that is done has other results now.
        StorageError
            If the file system refuses, or stored data are damaged: nothing is marked failed for it.
        LeaseLost
            If another process has taken the lease.
        ValueError
            If names, shapes or types are not those above, or the cube has no such block.
        """
        self._check(block)
        files, new_results = present(self._files), self._check_results(block, results)
        statuses = self.statuses(block)
        is_pending, is_done = statuses == PENDING, np.isin(statuses, ANSWERED)
        is_written = self._written_annotations(block)
        unfinished = ~np.isin(new_results["status"], ANSWERED)
        lacks_answers = unfinished.reshape(-1, block.per_graph).all(axis=1)
        for name in new_results.keys() - {"status"}:
            new_results[name][lacks_answers if name == ANNOTATIONS else unfinished] = VARIABLES[name].fill
        if is_pending.any() and self.has_status(block):
            try:
                compare_set_back(block, self._read(block), new_results, is_pending)
            except CellMismatch as mismatch:
                if self.made_here:
                    raise
                logger.warning("%s; %s", mismatch, provenance.PROMISE)
        if is_done.any() or is_written.any():
            stored_results = self.read(block)
            compare_cells(block, stored_results, new_results, is_written)
            for name in new_results:
                unchanged = is_written if name == ANNOTATIONS else is_done
                new_results[name][unchanged] = stored_results[name][unchanged]
            if is_written.all():
                new_results.pop(ANNOTATIONS, None)
        if is_done.all():
            return
        with storage_errors(self.path, sum(values.nbytes for values in new_results.values())):
            *results_first, status = (name for name in self._names(block) if name in new_results)
            for name in results_first:
                self._write(block, name, new_results[name])
            files.settle()
            # All results and their names are durable before the status says done.
            for name in results_first:
                sync_directory(self.path / block.node.path / name)
            self._write(block, status, new_results[status])
            sync_directory(self.path / block.node.path / status)

    def name_machines(self, texts: Iterable[str]) -> None:
        """Add classes of machines to the table of the root, by the codes that `write` takes."""
        new = {str(provenance.class_code(text)): text for text in texts}
        if new.keys() - self._machines.keys():
            manifest = read_manifest(self.path)
            self._machines = manifest.machines | new
            replace(manifest, machines=self._machines).commit(present(self._files))

    def has_status(self, block: Block) -> bool:
        """Whether the block was written: its status exists, whatever it says."""
        self._check(block)
        ((key,), *_) = self._chunks.layout(block, "status")
        return os.path.lexists(self.path / key)

    def clear(self, block: Block, name: str) -> None:
        """Put fill values in place of one array of a block, durably.

        Clear the status first: all of its cells are pending then. `write` compares the results that stay,
        unless they are fill values, with new ones.
        """
        self._check(block)
        with storage_errors(self.path):
            self._write(block, name, self._fill(block, name))
            sync_directory(self.path / block.node.path / name)

    def _written_annotations(self, block: Block) -> Bools:
        """Return which annotations belong to a cell with an answer, also one of another model or search."""
        is_written = np.zeros(block.n_graphs, dtype=bool)
        if not block.node.baseline:
            n, node = len(block.graph_region), self._nodes[block.node.path]
            for position in product(*(range(len(dim.chunks())) for dim in node.stored[n:])):
                has_answer = np.isin(self.statuses(node.block_at((*block.chunk[:n], *position))), ANSWERED)
                is_written |= has_answer.reshape(block.n_graphs, -1).any(axis=1)
        return is_written

    def _read(self, block: Block, names: Collection[str] = ()) -> Arrays:
        """Return some or all arrays as they are stored, and the others full of fill values."""
        return {
            name: self._chunks.read(block, name) if name in (names or [name]) else self._fill(block, name)
            for name in self._names(block)
        }

    def _write(self, block: Block, name: str, values: npt.NDArray[Any]) -> None:
        for key, content in self._chunks.contents(block, name, values).items():
            present(self._files).put(self.path / key, content)

    def _fill(self, block: Block, name: str) -> npt.NDArray[Any]:
        return np.full(self._shape(block, name), VARIABLES[name].fill, dtype=VARIABLES[name].dtype)

    def _shape(self, block: Block, name: str) -> tuple[int, ...]:
        _, outer_shape, inner_shape = self._chunks.layout(block, name)
        return (prod(outer_shape), *inner_shape)

    def _names(self, block: Block) -> tuple[str, ...]:
        """Return the names of the arrays of a block, the status last."""
        plan, searches = self._plans[block.dataset], block.values("search")
        *results, status = result_names(plan, block.models, searches)
        return (*results, *([] if block.node.baseline else [ANNOTATIONS]), status)

    def _check_results(self, block: Block, results: Mapping[str, npt.ArrayLike]) -> Arrays:
        """Return results in the types of the cube."""
        problems = []
        arrays = {}
        shapes = {name: self._shape(block, name) for name in self._names(block)}
        if results.keys() != shapes.keys():
            problems.append(f"variables {', '.join(results)}, expected {', '.join(shapes)}")
        for name in shapes.keys() & results.keys():
            values = np.asarray(results[name])
            with np.errstate(invalid="ignore"):
                arrays[name] = values.astype(VARIABLES[name].dtype)
            if values.shape != shapes[name]:
                problems.append(f"{name}: shape {values.shape}, expected {shapes[name]}")
            elif not np.array_equal(values, arrays[name], equal_nan=values.dtype.kind == "f"):
                problems.append(f"{name}: values that {VARIABLES[name].dtype} cannot hold")
        if problems:
            raise ValueError(f"results of block {block} do not fit the cube: {'; '.join(sorted(problems))}")
        return arrays

    def _check(self, block: Block) -> None:
        node = self._nodes.get(block.node.path)
        if node is None or not node.has_block(block):
            raise ValueError(f"{self.path} has no block {block}")


def content_hash(cube: Path) -> str:
    """Return a SHA-256 of what a cube holds: settings, inputs and all promised bits of cells with an answer.

    It depends neither on chunks, the order of growth and versions of compression, nor on times and runs.
    """
    manifest, store = read_manifest(cube), BlockStore(cube, read_only=True)
    settings = manifest.spec.dump()
    rows = [_row_hash(json.dumps({key: settings.get(key) for key in SETTINGS}, sort_keys=True), [])]
    for plan in manifest.plans.values():
        for name in INPUTS:
            if entry := manifest.metadata.get(path := f"{plan.name}/{name}"):
                positions = np.ndindex(*chunk_counts(entry))
                chunks = (manifest.chunks.load(f"{path}/{chunk_name(position)}") for position in positions)
                values = [present(chunk)[1] for chunk in chunks]
                rows.append(_row_hash(path, [np.concatenate(values)]))
        for block in plan.blocks():
            arrays = store.read(block)
            names = sorted(arrays.keys() - {ANNOTATIONS, *UNPROMISED})
            for position, cell in enumerate(block.cells()):
                if arrays["status"][position] in ANSWERED:
                    graph = [] if block.node.baseline else [arrays[ANNOTATIONS][position // block.per_graph]]
                    rows.append(_row_hash(str(cell), [*(arrays[name][position] for name in names), *graph]))
    return hashlib.sha256(b"".join(sorted(rows))).hexdigest()


def _row_hash(name: str, values: Iterable[npt.NDArray[Any]]) -> bytes:
    texts = (
        json.dumps(array.tolist()).encode() if array.dtype == "O" else array.tobytes() for array in values
    )
    return hashlib.sha256(b"\0".join([name.encode(), *texts])).digest()


def failed_cells(cube: Path, plans: Iterable[DatasetPlan]) -> tuple[Cell, ...]:
    """Return the cells that the cube marks as failed."""
    return tuple(BlockStore(cube, read_only=True).cells(plans, FAILED))


@dataclass(eq=False)
class CellMismatch(Exception):
    """A done cell has another result when computed again."""

    cell: Cell  # the first such cell of the block
    values: dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]  # stored and new, by variable
    n_others: int = 0  # further cells of the block that differ

    def __str__(self) -> str:
        texts = []
        for name, (stored_values, new_values) in self.values.items():
            first = tuple(map(int, np.argwhere(_unequal(stored_values, new_values))[0]))
            values = f"stored {stored_values[first].item()!r}, new {new_values[first].item()!r}"
            texts.append(f"{name}{list(first) or ''} {values}")
        suffix = f"; and {self.n_others} more cells of this block" if self.n_others else ""
        return f"{self.cell}: computed again with another result: {'; '.join(texts)}{suffix}"


def compare_cells(block: Block, stored_arrays: Arrays, new_arrays: Arrays, is_written: Bools) -> None:
    """Raise CellMismatch if a bit of a done cell differs in anything except times.

    A cell that is pending in `new_arrays` is not compared. `is_written` marks the stored annotations that
    belong to a done cell, in this block or in the block of another model or search.
    """
    rows_by_name = {}
    for name in (name for name in stored_arrays if name not in UNPROMISED):
        rows = differing_rows(stored_arrays[name], new_arrays[name])
        if name == ANNOTATIONS:
            rows = np.repeat(rows & is_written, block.per_graph) & np.isin(new_arrays["status"], ANSWERED)
        else:
            rows &= np.isin(stored_arrays["status"], ANSWERED) & (new_arrays["status"] != PENDING)
        rows_by_name[name] = rows
    cells = np.any(list(rows_by_name.values()), axis=0)
    if cells.any():
        index = int(np.argmax(cells))
        values = {}
        for name in (name for name in rows_by_name if rows_by_name[name][index]):
            row = index // block.per_graph if name == ANNOTATIONS else index
            values[name] = np.asarray(stored_arrays[name][row]), np.asarray(new_arrays[name][row])
        raise CellMismatch(list(block.cells())[index], values, int(cells.sum()) - 1)


def compare_set_back(block: Block, stored_arrays: Arrays, new_arrays: Arrays, is_pending: Bools) -> None:
    """Raise CellMismatch if the results that a repair left of pending cells differ from new ones.

    A row of fill values in `stored_arrays` was lost, and is not compared.
    """
    is_new = np.asarray(is_pending & np.isin(new_arrays["status"], ANSWERED))
    arrays = {}
    for name, values in stored_arrays.items():
        is_lost = ~differing_rows(values, np.full_like(values, VARIABLES[name].fill))
        arrays[name] = values.copy()
        arrays[name][is_lost] = new_arrays[name][is_lost]
    arrays["status"] = np.where(is_new, new_arrays["status"], PENDING)
    compare_cells(block, arrays, new_arrays, np.asarray(is_new.reshape(-1, block.per_graph).any(axis=1)))


def differing_rows(stored_values: npt.NDArray[Any], new_values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where two arrays have other bits, along their first axis: the one meaning of "the same bits"."""
    unequal = _unequal(stored_values, new_values).reshape(len(stored_values), -1)
    return np.asarray(unequal.any(axis=1))


def _unequal(stored_values: npt.NDArray[Any], new_values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if stored_values.dtype.kind != "f":
        return np.asarray(stored_values != new_values)
    # Bits, because == takes 0.0 for -0.0; yet every NaN is the same missing value.
    unequal = np.asarray(stored_values).view(np.uint64) != np.asarray(new_values).view(np.uint64)
    return np.asarray(unequal & ~(np.isnan(stored_values) & np.isnan(new_values)))
