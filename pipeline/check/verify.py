"""Whether a cube holds what was computed: `verify` computes cells again from coordinates and inputs."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from pipeline.methods.loading import MethodCall
from pipeline.work.merge import BlockResult, CellResult
from pipeline.work.records import Failed, Science, Span, Task
from pipeline.work.tasks import ask_batch, method_calls, run_task
from storage.cube.blocks import UNPROMISED, BlockStore, differing_rows
from storage.cube.growth import open_cube
from storage.cube.manifest import Manifest, read_manifest
from storage.cube.schema import ANSWERED
from storage.provenance import fingerprint
from sweeps.errors import InputError, Problem, cause_of, given
from sweeps.inputs import RealSource, cell_annotations
from sweeps.plan import AskedPath, Cell
from sweeps.words import SHIPPED, asks, is_model

# A path is as much work as some hundreds of restarts: one is asked again for so many cells.
CELLS_PER_PATH = 10


@dataclass(frozen=True)
class CellCheck:
    """One cell, or one path of questions, computed again.

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
    left_out : int
        Cells of methods whose code was not to be run.
    paths : tuple of CellCheck
        Paths of questions asked again, each batch given the answers in the cube before it.
    """

    cube: Path
    checks: tuple[CellCheck, ...]
    here: dict[str, str]
    there: tuple[dict[str, str], ...]
    left_out: int = 0
    paths: tuple[CellCheck, ...] = ()

    @property
    def good(self) -> bool:
        """Whether every cell, and every path, was reproduced."""
        return all(check.good for check in (*self.checks, *self.paths))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "cube": str(self.cube), "good": self.good}

    def lines(self) -> list[str]:
        """Summary for people."""
        cells, paths = (sum(check.good for check in checks) for checks in (self.checks, self.paths))
        wrong = [check for check in (*self.checks, *self.paths) if not check.good]
        lines = [f"{self.cube}: {cells} of {len(self.checks)} cells have the same bits"]
        if self.paths:
            lines.append(f"asked again: {paths} of {len(self.paths)} paths have the same answers")
        if self.left_out:
            lines.append(f"not looked at: {self.left_out:,} cells of methods of one's own; see --run-methods")
        lines += [f"DIFFERS {check.cell}: {check.cause or ', '.join(check.differs)}" for check in wrong]
        if wrong and self.there:
            made = [("computed here with", self.here), *(("in the cube, also", each) for each in self.there)]
            lines += [f"{place} {', '.join(map(' '.join, each.items()))}" for place, each in made]
            lines.append("equal bits are promised only for equal software and CPU model")
        return lines


def verify(path: Path, *, sample: int, seed: int = 0, run_methods: bool = False) -> Verification:
    """Compute random cells again from their coordinates and the inputs in the cube.

    Annotations that were asked for are taken from the cube. Of the paths they belong to, one for every
    `CELLS_PER_PATH` cells is asked again.

    Parameters
    ----------
    path : Path
        The cube.
    sample : int
        How many cells, drawn without replacement from those that are done.
    seed : int
        Of the choice of cells.
    run_methods : bool
        Whether cells of methods other than shipped ones are drawn, too: their code is named by the cube, and
        a cube may come from anywhere.

    Returns
    -------
    Verification

    Raises
    ------
    InputError
        If there is no cube, or nothing in it is done, or the file of a method has changed.
    """
    manifest = read_manifest(path)
    store = BlockStore(path, read_only=True)
    methods = manifest.spec.grid.methods
    foreign = set() if run_methods else {each.name for each in methods if each.call not in SHIPPED}
    calls = method_calls(str(path), [each for each in methods if each.name not in foreign])
    found = [cell for state in ANSWERED for cell in store.cells(manifest.plans.values(), state)]
    done = [cell for cell in found if cell.model not in foreign]
    if not done:
        hint = f"--run-methods runs the code of {', '.join(sorted(foreign))}" if found else ""
        raise InputError([Problem(str(path), "no cell that is done", "at least one", hint)])
    rng = np.random.default_rng(seed)
    drawn = [done[at] for at in rng.choice(len(done), size=min(sample, len(done)), replace=False)]
    tree = open_cube(path)
    checks = tuple(_check(manifest, calls, store, tree, cell) for cell in drawn)
    asked = [cell for cell in drawn if asks(cell.design)]
    longest = {AskedPath.of(cell): cell for cell in sorted(asked, key=lambda cell: cell.m or 0)}
    few = list(longest.values())[: -(-len(asked) // CELLS_PER_PATH)]
    paths = tuple(_check_path(manifest, store, tree, cell) for cell in few)
    here = fingerprint()
    others = {tuple(run.fingerprint.items()) for run in manifest.runs if run.fingerprint != here}
    there = tuple(dict(other) for other in sorted(others))
    return Verification(path, checks, here, there, len(found) - len(done), paths)


def _check(
    manifest: Manifest, calls: tuple[MethodCall, ...], store: BlockStore, tree: xr.DataTree, cell: Cell
) -> CellCheck:
    plan, spec = manifest.plans[cell.dataset], manifest.spec
    block = plan.block_of(cell)
    stop = spec.stop if is_model(cell.model) else None
    science = replace(Science.of(spec, plan, calls), stop=stop)
    source, restarts, stored = _source(tree, cell), plan.restarts_of(cell.model), store.read(block)
    asked = stored["annotations"][block.graph(cell)] if asks(cell.design) else None
    result: Any
    (result,) = run_task(Task(science, cell.dataset, (Span(cell, 0, restarts, answers=asked),), 0.0), source)
    if isinstance(result, Failed):
        return CellCheck(str(cell), (), result.cause)
    merged = CellResult(cell, restarts, stop)
    merged.add(result)
    fresh = BlockResult(block, {cell: merged}).into({name: values.copy() for name, values in stored.items()})
    if not block.node.baseline and asked is None:
        fresh["annotations"][block.graph(cell)] = cell_annotations(
            science.seed, cell, source.labels_true, source.pool
        )
    differs = []
    for name in (name for name in stored if name not in UNPROMISED):
        row = block.graph(cell) if name == "annotations" else block.position(cell)
        if differing_rows(stored[name], fresh[name])[row]:
            differs.append(name)
    return CellCheck(str(cell), tuple(differs))


def _check_path(manifest: Manifest, store: BlockStore, tree: xr.DataTree, cell: Cell) -> CellCheck:
    """Ask the questions again whose answers a cell has, batch by batch."""
    plan, path = manifest.plans[cell.dataset], AskedPath.of(cell)
    block = plan.block_of(cell)
    stored = store.read(block)["annotations"][block.graph(cell)]
    science, arrays = Science.of(manifest.spec, plan), _source(tree, cell).arrays(cell.mixture)
    batch = given(science.asking).batch
    name = f"{path}, {len(stored)} questions"
    for start in range(0, len(stored), batch):
        try:
            answers = ask_batch(science, path, stored[:start], arrays)
        except Exception as error:
            return CellCheck(name, (), cause_of(error))
        there = stored[start : start + batch]
        differs = (answers[: len(there)] != there).any(axis=1)
        if differs.any():
            return CellCheck(name, (f"annotations from question {start + int(np.argmax(differs))} on",))
    return CellCheck(name, ())


def _source(tree: xr.DataTree, cell: Cell) -> RealSource:
    """Inputs of a cell as the cube holds them."""
    node = tree[cell.dataset].to_dataset()
    where = {} if cell.mixture is None else {"mixture": cell.mixture}
    labels = node["labels_true"].sel(where).values if "labels_true" in node else None
    pool = node["annotation_pool"].values if "annotation_pool" in node else None
    return RealSource(np.ascontiguousarray(node["X"].sel(where).values), labels, pool)
