"""A small cube in memory, in the layout of the real one, with random but self-consistent results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from cubes.small import make_plan

from storage.cube.blocks import BlockStore
from storage.cube.growth import create
from storage.cube.schema import (
    DONE,
    FAILED,
    PENDING,
    ArraySpec,
    array_specs,
    coordinate_values,
    result_names,
)
from sweeps.file.spec import SweepSpec, load
from sweeps.plan import Block, DatasetPlan
from sweeps.shapes import CANDIDATES, CODES
from sweeps.words import chooses, shape_of

FAILED_CELL, PENDING_CELL = 1, 2
"""Flat positions, in storage order, of the cells of each node that are not done."""


def plan(name: str, **changes: object) -> DatasetPlan:
    """Grid of 2 accuracies × 2 annotation counts × 3 replicates × 2 models, with a baseline."""
    sizes = {"n_samples": 24, "n_features": 2, "n_clusters": 3, "replicates": 3, "restarts": 4}
    chunks = {"mixture_chunk": 2, "replicate_chunk": 3, "model_chunk": 2}
    grid = {"p": (0.9, 0.8), "m": (12, 24), "models": ("likelihood", "posterior")}
    source = {"checksum": "0" * 64, "source": "drawn for a test"}
    return make_plan(name, **(sizes | chunks | grid | source | changes))


def arrays(plan: DatasetPlan, seed: int = 0) -> dict[str, np.ndarray]:
    """Every array of one data set by its path; one cell of each grid failed, one is pending."""
    rng = np.random.default_rng(seed)
    specs = {spec.path: spec for spec in array_specs(plan)}
    values = {path: _draw(rng, spec, plan) for path, spec in specs.items()}
    for node in {spec.node for spec in specs.values()}:
        status = values.get(f"{node}/status")
        if status is not None:
            _unfinish(node, specs, values, status)
    return values


def tree(*plans: DatasetPlan, chunked: bool = True) -> xr.DataTree:
    """Cube of several data sets, in dask arrays chunked as on disk, or in plain ones."""
    nodes: dict[str, xr.Dataset] = {"/": xr.Dataset()}
    for number, dataset in enumerate(plans):
        values = arrays(dataset, number)
        for spec in array_specs(dataset):
            node = nodes.setdefault(spec.node, xr.Dataset())
            name, value = spec.variable.name, values[spec.path]
            if name in coordinate_values(dataset):
                nodes[spec.node] = node.assign_coords({name: (spec.dims, value)})
            else:
                lazy = da.from_array(value, chunks=spec.chunks) if chunked else value
                nodes[spec.node] = node.assign({name: (spec.dims, lazy)})
    return xr.DataTree.from_dict(nodes)


def _draw(rng: np.random.Generator, spec: ArraySpec, plan: DatasetPlan) -> np.ndarray:
    name, shape, coordinates = spec.variable.name, spec.shape, coordinate_values(plan)
    if name in coordinates:
        return coordinates[name]
    if name in ("labels", "labels_true"):
        return rng.permuted(np.broadcast_to(np.arange(shape[-1]) % plan.n_clusters, shape), axis=-1).astype(
            "i2"
        )
    if name == "annotations":
        pairs = rng.integers(0, plan.n_samples, size=(*shape[:-1], 2))
        kinds = rng.integers(0, 2, size=(*shape[:-1], 1))
        drawn = np.concatenate([pairs, kinds], axis=-1).astype("i4")
        for position, m in enumerate(plan.m):
            drawn[..., position, :, m:, :] = -1
        return drawn
    if name in ("best_restart", "restarts_done"):
        return np.full(shape, 0 if name == "best_restart" else plan.restarts, dtype="i4")
    if "feature_2" in spec.dims:
        roots = rng.uniform(-1, 1, size=shape)
        return roots @ roots.swapaxes(-1, -2) + np.eye(plan.n_features)
    if name == "status":
        return np.full(shape, DONE, dtype="i1")
    if name in ("covariance_shape", "held_out", "held_out_right"):
        return _draw_choice(rng, spec, plan)
    return rng.uniform(0.5, 1.5, size=shape)


def _draw_choice(rng: np.random.Generator, spec: ArraySpec, plan: DatasetPlan) -> np.ndarray:
    """What held-out annotations said of cells, and fill values for shapes that were not tried."""
    values = rng.uniform(0.1, 0.9, size=spec.shape)
    if spec.variable.name == "covariance_shape":
        values = rng.choice([CODES[shape] for shape in CANDIDATES], size=spec.shape).astype("i1")
    lead = (slice(None),) * spec.dims.index("model")
    for number, model in enumerate(plan.models):
        if "candidate" not in spec.dims:
            tried = np.array(chooses(model))
        else:
            own = CANDIDATES if chooses(model) else (shape_of(model),) * plan.held_out
            tried = np.isin(coordinate_values(plan)["candidate"].astype(str), own)
        values[(*lead, number)] = np.where(tried, values[(*lead, number)], spec.variable.fill)
    return values


def _unfinish(node: str, specs: dict, values: dict[str, np.ndarray], status: np.ndarray) -> None:
    """Turn one cell into a failed and one into a pending one, where the node has so many."""
    for position, word in ((FAILED_CELL, FAILED), (PENDING_CELL, PENDING)):
        if position < status.size:
            cell = np.unravel_index(position, status.shape)
            for path, spec in specs.items():
                if spec.node == node and spec.variable.role.value == "result":
                    values[path][cell] = spec.variable.fill
            status[cell] = word


def sweep(spec: dict[str, Any]) -> SweepSpec:
    """The record of a sweep of which only some keys matter."""
    grid = {"models": ["unsupervised"], "restarts": 4, "p": [0.9, 0.8], **spec["grid"]}
    return load("spec", spec | {"grid": grid})


def write(path: Path, *plans: DatasetPlan, spec: dict[str, Any]) -> None:
    """Cube of several data sets on disk, written block by block; blocks hold what `tree` holds."""
    values = {plan.name: arrays(plan, number) for number, plan in enumerate(plans)}

    def inputs(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        found = values[plan.name]
        return found[f"{plan.name}/X"], found.get(f"{plan.name}/labels_true")

    create(path, plans, inputs, sweep(spec))
    store = BlockStore(path)
    for plan in plans:
        for block in plan.blocks():
            store.write(block, _block(plan, block, values[plan.name]))


def _block(plan: DatasetPlan, block: Block, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    def rows(name: str, region: tuple[slice, ...]) -> np.ndarray:
        array = values[f"{block.node.path}/{name}"]
        return array[region].reshape(-1, *array.shape[len(region) :])

    results = {name: rows(name, block.region) for name in result_names(plan, block.models)}
    if not block.unsupervised:
        results["annotations"] = rows("annotations", block.graph_region)[:, : block.first.m]
    return results
