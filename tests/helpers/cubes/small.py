"""The tests of the storage layer use these tiny grids, inputs and results."""

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.structure import Structure
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.chunks import chunk_position
from sweep_clustering.storage.cube.growth import create
from sweep_clustering.storage.cube.schema import DONE, VARIABLES, room
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.file import spec as sweepfile
from sweep_clustering.sweeps.file.search import unions_of
from sweep_clustering.sweeps.plan import Block, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import (
    CANDIDATES,
    CODES,
    DIMS,
    ROWS,
    SCORED,
    to_rows,
    widened,
    widest_dims,
)
from sweep_clustering.sweeps.words import chooses, holds_out, is_any, shape_of


def make_spec(datasets: Iterable[str] = "ab", restarts: int = 3, **changes: Any) -> sweepfile.SweepSpec:
    """Return a sweep of data sets."""
    grid = {
        "datasets": [{"name": name, "scale": "none"} for name in datasets],
        "p": [0.9],
        "m": ["4"],
        "replicates": 2,
        "models": ["unsupervised", "likelihood"],
        "restarts": restarts,
    }
    search = {"generations": 10, "population": 10}
    return sweepfile.load("spec", {"name": "tiny", "seed": 7, "grid": grid, "search": search} | changes)


SPEC = make_spec()


def make_plan(name: str = "a", **changes: Any) -> DatasetPlan:
    """Return the plan of a real data set: one accuracy and count, two replicates, a model and a baseline."""
    sizes = {"n_samples": 5, "n_features": 2, "n_clusters": 2, "replicates": 2, "restarts": 3}
    grid = {"p": (0.9,), "m": (4,), "models": ("likelihood",), "baselines": ("unsupervised",)}
    source = {"checksum": "c0ffee", "source": "drawn", "has_labels": True, "mixtures": None, "name": name}
    values: dict[str, Any] = {**sizes, **grid, **source, **changes}
    values.setdefault("mixture_chunk", values["mixtures"] or 1)
    values.setdefault("replicate_chunk", values["replicates"])
    values.setdefault("model_chunk", max(1, len(values["models"])))
    return DatasetPlan(**values)


def with_unions(plan: DatasetPlan) -> DatasetPlan:
    """Return the plan with room for the Gaussians of models that choose what classes are made of."""
    return replace(plan, unions=unions_of(SPEC.search, plan))


def draw_inputs(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
    """Return X and true labels; those of a mixture do not depend on how many there are."""
    lead = () if plan.mixtures is None else (plan.mixtures,)
    rng = np.random.default_rng(zlib.crc32(plan.name.encode()))
    features = rng.standard_normal((*lead, plan.n_samples, plan.n_features))
    labels = np.broadcast_to(np.arange(plan.n_samples) % plan.n_clusters, (*lead, plan.n_samples))
    return features, labels.astype(np.int16) if plan.has_labels else None


def draw_cell(plan: DatasetPlan, cell: Cell) -> dict[str, np.ndarray]:
    """Return the results of one cell, a function of its coordinates alone."""
    rng = np.random.default_rng(zlib.crc32(str(cell).encode()))
    values = {
        "log_likelihood": rng.standard_normal(plan.restarts),
        "labels": rng.integers(0, plan.n_clusters, plan.n_samples).astype(np.int16),
        "centroids": rng.standard_normal((plan.n_clusters, plan.n_features)),
        "covariances": _covariances(plan, cell, rng),
        "best_restart": np.int32(rng.integers(plan.restarts)),
        "restarts_done": np.int32(plan.restarts),
        "seconds": rng.random(),
        "cpu_seconds": rng.random(),
        "status": np.int8(DONE),
    }
    block = plan.block_of(cell)
    models, unions = block.models, plan.unions_of(block.models, block.values("search"))
    if any(holds_out(model, plan.held_out) for model in models):
        values |= _choice(cell, rng, plan.held_out)
    if any(map(is_any, models)):
        values["structure"] = np.array(MADE_OF.codes if is_any(cell.model) else [-1] * len(MADE_OF.codes))
    if unions:
        gaussians = draw_gaussians(rng, plan.n_features, plan.n_clusters)
        values |= to_rows(gaussians, room(plan)) | {"base_rate": rng.random()}
    if unions and not plan.unions_of([cell.model], [cell.search]):
        values |= {name: np.full_like(values[name], VARIABLES[name].fill) for name in (*ROWS, "base_rate")}
    if not any(map(chooses, models)):
        values.pop("covariance_shape", None)
    return values | {"unseen_mass": rng.random()} if plan.adaptive else values


def _choice(cell: Cell, rng: np.random.Generator, every: bool) -> dict[str, np.ndarray]:
    """Return the choice of a cell, its scores, and fill values for what other models have."""
    shapes = SCORED if every else CANDIDATES
    code, scores = CODES[CANDIDATES[rng.integers(len(CANDIDATES))]], rng.random((2, len(shapes)))
    tried = CANDIDATES if chooses(cell.model) else (shape_of(cell.model),) if every else ()
    scores[:, [shape not in tried for shape in shapes]] = np.nan
    code = code if chooses(cell.model) else -1
    return {"covariance_shape": np.int8(code), "held_out": scores[0], "held_out_right": scores[1]}


MADE_OF = Structure(2, 2, "full")
"""What classes are made of in cells that choose it."""


def draw_gaussians(rng: np.random.Generator, n_features: int, n_clusters: int) -> Gaussians:
    """Return Gaussians of the structure `MADE_OF`."""
    many = MADE_OF.components * n_clusters
    class_of = np.arange(many, dtype=np.int16) % n_clusters
    means, axes = rng.standard_normal((many, 2)), rng.standard_normal((n_features, 2))
    matrices = np.eye(2) + rng.random((many, 1, 1))
    return Gaussians(MADE_OF, class_of, rng.random(many), means, matrices, axes[:, 0], axes)


def _covariances(plan: DatasetPlan, cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Return covariances in the form of the cell's node."""
    dims = DIMS[shape_of(cell.model)]
    form = dims if cell.p is None else widest_dims(map(shape_of, plan.models))
    drawn = rng.random((plan.n_clusters, *[plan.n_features] * len(dims)))
    return widened(drawn, len(form), plan.n_features)


def draw_block(plan: DatasetPlan, block: Block) -> dict[str, np.ndarray]:
    """Return the results of one block, all done, in the layout of `BlockStore.write`."""
    cells = [draw_cell(plan, cell) for cell in block.cells()]
    results = {name: np.stack([cell[name] for cell in cells]) for name in cells[0]}
    if not block.node.baseline:
        graphs = [(cell.mixture, cell.replicate) for cell in block.graph_cells()]
        results["annotations"] = np.stack([draw_annotations(plan, block, *graph) for graph in graphs])
    return results


def draw_annotations(
    plan: DatasetPlan, block: Block, mixture: int | None, replicate: int | None
) -> np.ndarray:
    """Return the annotations of one graph, the same for every model."""
    p, m = block.first.p, present(block.first.m)
    text = f"{block.dataset} {mixture} {p} {m} {replicate}"
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    pairs = rng.integers(0, plan.n_samples, (m, 2))
    return np.column_stack([pairs, rng.integers(0, 2, m)]).astype(np.int32)


def fill(path: Path, plans: Iterable[DatasetPlan]) -> None:
    """Write every block of some data sets."""
    store = BlockStore(path)
    for plan in plans:
        for block in plan.blocks():
            store.write(block, draw_block(plan, block))


def filled_cube(path: Path, plans: Iterable[DatasetPlan], spec: sweepfile.SweepSpec = SPEC) -> Path:
    """Make a cube with every block written."""
    create(path, plans, draw_inputs, spec)
    fill(path, plans)
    return path


def files(path: Path) -> dict[str, str]:
    """Return the sha256 of every file below a directory, by its relative name."""
    paths = [file for file in path.rglob("*") if file.is_file()]
    return {str(f.relative_to(path)): hashlib.sha256(f.read_bytes()).hexdigest() for f in paths}


def result_files(path: Path) -> dict[str, str]:
    """Return the sha256 of the chunk files of results, with status and annotations."""
    inputs = {"X", "labels_true", "p", "m", "m_over_n", "replicate", "mixture", "model", "field", "candidate"}
    inputs |= {"design", "search"}
    digests = {}
    for name, digest in files(path).items():
        array, _, file = name.rpartition("/")
        if chunk_position(file) is not None and array.rpartition("/")[2] not in inputs:
            digests[name] = digest
    return digests


def read_whole(path: Path) -> xr.DataTree:
    """Return a cube that xarray alone reads whole, without the tasks of dask, which take longer."""
    return xr.open_datatree(path, engine="zarr").load()
