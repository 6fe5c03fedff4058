"""Computing random cells of a cube again, to compare them bit by bit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from pipeline.work.merge import BlockResult, CellResult
from pipeline.work.records import Batch, Failure, Science, Work
from pipeline.work.tasks import cell_annotations, run_batch
from storage.cube.blocks import BlockStore
from storage.cube.compare import UNPROMISED, differing_rows
from storage.cube.cube import open_cube
from storage.cube.manifest import Manifest, read_manifest
from storage.cube.schema import DONE
from storage.provenance import fingerprint
from sweeps.errors import InputError, Problem
from sweeps.inputs.load import RealSource
from sweeps.plan import Block, Cell


@dataclass(frozen=True)
class CellCheck:
    """One cell computed again.

    Parameters
    ----------
    cell : str
        Which.
    differs : tuple of str
        Variables with other bits than in the cube; empty when the cell is reproduced.
    cause : str
        Why it could not be computed; empty when it could.
    """

    cell: str
    differs: tuple[str, ...]
    cause: str = ""

    @property
    def good(self) -> bool:
        """Whether the cell was reproduced."""
        return not self.differs and not self.cause


@dataclass(frozen=True)
class Verification:
    """Cells computed again, and where the cube was made.

    Parameters
    ----------
    cube : Path
        The cube.
    checks : tuple of CellCheck
        In the order they were drawn.
    here : dict
        Fingerprint of this machine and its software.
    there : tuple of dict
        Other fingerprints the cube was made with: bits are promised for equal ones alone.
    """

    cube: Path
    checks: tuple[CellCheck, ...]
    here: dict[str, str]
    there: tuple[dict[str, str], ...]

    @property
    def good(self) -> bool:
        """Whether every cell was reproduced."""
        return all(check.good for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "cube": str(self.cube), "good": self.good}

    def lines(self) -> list[str]:
        """Summary for people."""
        wrong = [check for check in self.checks if not check.good]
        lines = [
            f"{self.cube}: {len(self.checks) - len(wrong)} of {len(self.checks)} cells have the same bits"
        ]
        lines += [f"DIFFERS {check.cell}: {check.cause or ', '.join(check.differs)}" for check in wrong]
        if wrong and self.there:
            lines.append(f"computed here with {_shown(self.here)}")
            lines += [f"in the cube, also  {_shown(other)}" for other in self.there]
            lines.append("equal bits are promised only for equal software and CPU model")
        return lines


def verify(path: Path, *, sample: int, seed: int = 0) -> Verification:
    """Compute random cells again from their coordinates and the inputs in the cube.

    Parameters
    ----------
    path : Path
        The cube.
    sample : int
        How many cells, drawn without replacement from those that are done.
    seed : int
        Of the choice of cells.

    Returns
    -------
    Verification

    Raises
    ------
    InputError
        If there is no cube, or nothing in it is done.
    """
    manifest = read_manifest(path)
    store = BlockStore(path, read_only=True)
    done = list(store.cells(manifest.plans.values(), DONE))
    if not done:
        raise InputError([Problem(str(path), "no cell that is done", "at least one")])
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(done), size=min(sample, len(done)), replace=False)
    tree = open_cube(path)
    checks = tuple(_check(manifest, store, tree, *done[position]) for position in drawn)
    here = fingerprint()
    others = {tuple(run.fingerprint.items()) for run in manifest.runs if run.fingerprint != here}
    return Verification(path, checks, here, tuple(dict(other) for other in sorted(others)))


def _check(manifest: Manifest, store: BlockStore, tree: xr.DataTree, block: Block, cell: Cell) -> CellCheck:
    plan = manifest.plans[cell.dataset]
    spec, stop = manifest.spec, manifest.spec.stop
    science = Science(spec.seed, spec.search, plan.n_clusters, stop)
    source = _source(tree, cell)
    (result,) = run_batch(Batch(science, cell.dataset, (Work(cell, 0, plan.restarts),), 0.0), source)
    if isinstance(result, Failure):
        return CellCheck(str(cell), (), result.cause)
    merged = CellResult(cell, plan.restarts, stop)
    merged.add(result)
    stored = store.read(block)
    position = block.position(cell)
    fresh = BlockResult(block, {cell: merged}).into({name: values.copy() for name, values in stored.items()})
    if not block.unsupervised:
        fresh["annotations"][position // len(block.models)] = cell_annotations(
            science.seed, cell, source.labels_true
        )
    rows = {name: position // len(block.models) if name == "annotations" else position for name in stored}
    differs = [
        name
        for name, row in rows.items()
        if name not in UNPROMISED and differing_rows(stored[name], fresh[name])[row]
    ]
    return CellCheck(str(cell), tuple(differs))


def _source(tree: xr.DataTree, cell: Cell) -> RealSource:
    """Inputs of a cell as the cube holds them."""
    node = tree[cell.dataset].to_dataset()
    where = {} if cell.mixture is None else {"mixture": cell.mixture}
    labels = node["labels_true"].sel(where).values if "labels_true" in node else None
    return RealSource(np.ascontiguousarray(node["X"].sel(where).values), labels)


def _shown(record: dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in record.items())
