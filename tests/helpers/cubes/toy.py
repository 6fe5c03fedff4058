"""A small cube in memory has the layout of the real one, with random but self-consistent results."""

from itertools import product
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
import zarr
from cubes.small import make_plan

from sweep_clustering.storage.cube import schema
from sweep_clustering.storage.cube.growth import create
from sweep_clustering.sweeps.file.spec import SweepSpec, load
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, CODES
from sweep_clustering.sweeps.words import chooses, shape_of

FAILED_CELL, PENDING_CELL = 1, 2
"""Flat positions, in storage order, of the cells of each node that are not done."""


def plan(name: str, **changes: object) -> DatasetPlan:
    """Return a grid of 2 accuracies × 2 annotation counts × 3 replicates × 2 models, with a baseline."""
    sizes = {"n_samples": 24, "n_features": 2, "n_clusters": 3, "replicates": 3, "restarts": 4}
    chunks = {"mixture_chunk": 2, "replicate_chunk": 3, "model_chunk": 2}
    grid = {"p": (0.9, 0.8), "m": (12, 24), "models": ("likelihood", "posterior")}
    source = {"checksum": "0" * 64, "source": "drawn for a test"}
    return make_plan(name, **(sizes | chunks | grid | source | changes))


def arrays(plan: DatasetPlan, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the arrays of one data set by path; one cell of each grid failed, one is pending."""
    rng, specs = np.random.default_rng(seed), schema.array_specs(plan)
    values = {spec.path: _draw(rng, spec, plan) for spec in specs}
    for node, (place, word) in product(
        plan.nodes, ((FAILED_CELL, schema.FAILED), (PENDING_CELL, schema.PENDING))
    ):
        status = values[f"{node.path}/status"]
        if place < status.size:
            cell = np.unravel_index(place, status.shape)
            for spec in specs:
                if spec.node == node.path and spec.variable.role is schema.Role.RESULT:
                    values[spec.path][cell] = spec.variable.fill
            status[cell] = word
    return values


def tree(*plans: DatasetPlan, chunked: bool = True) -> xr.DataTree:
    """Return a cube of several data sets, in dask arrays chunked as on disk, or in plain ones."""
    nodes: dict[str, xr.Dataset] = {"/": xr.Dataset()}
    for number, dataset in enumerate(plans):
        values = arrays(dataset, number)
        for spec in schema.array_specs(dataset):
            node, value = nodes.setdefault(spec.node, xr.Dataset()), values[spec.path]
            if spec.variable.role is schema.Role.COORDINATE:
                nodes[spec.node] = node.assign_coords({spec.variable.name: (spec.dims, value)})
            else:
                value = da.from_array(value, chunks=spec.chunks) if chunked else value
                nodes[spec.node] = node.assign({spec.variable.name: (spec.dims, value)})
    return xr.DataTree.from_dict(nodes)


def _draw(rng: np.random.Generator, spec: schema.ArraySpec, plan: DatasetPlan) -> np.ndarray:
    name, shape, coordinates = spec.variable.name, spec.shape, schema.coordinate_values(plan)
    if name in coordinates:
        return coordinates[name]
    if name in ("labels", "labels_true"):
        labels = np.arange(shape[-1], dtype="i2") % plan.n_clusters
        return rng.permuted(np.broadcast_to(labels, shape), axis=-1)
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
        return np.full(shape, schema.DONE, dtype="i1")
    if name in ("covariance_shape", "held_out", "held_out_right"):
        return _draw_choice(rng, spec, plan)
    return rng.uniform(0.5, 1.5, size=shape)


def _draw_choice(rng: np.random.Generator, spec: schema.ArraySpec, plan: DatasetPlan) -> np.ndarray:
    """Return scores of held-out annotations, and fill values for shapes that were not tried."""
    values = rng.uniform(0.1, 0.9, size=spec.shape)
    if spec.variable.name == "covariance_shape":
        values = rng.choice([CODES[shape] for shape in CANDIDATES], size=spec.shape).astype("i1")
    lead = (slice(None),) * spec.dims.index("model")
    for number, model in enumerate(plan.models):
        if "candidate" not in spec.dims:
            tried = np.array(chooses(model))
        else:
            candidates = CANDIDATES if chooses(model) else (shape_of(model),) * plan.held_out
            tried = np.isin(schema.coordinate_values(plan)["candidate"].astype(str), candidates)
        values[(*lead, number)] = np.where(tried, values[(*lead, number)], spec.variable.fill)
    return values


def sweep(spec: dict[str, Any]) -> SweepSpec:
    """Return the record of a sweep of which only some keys matter."""
    grid = {"models": ["unsupervised"], "restarts": 4, "p": [0.9, 0.8], **spec["grid"]}
    return load("spec", spec | {"grid": grid})


def write(path: Path, *plans: DatasetPlan, spec: dict[str, Any]) -> None:
    """Write a cube of several data sets with the content of `tree`."""
    values = {name: array for place, plan in enumerate(plans) for name, array in arrays(plan, place).items()}

    def inputs(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        return values[f"{plan.name}/X"], values.get(f"{plan.name}/labels_true")

    create(path, plans, inputs, sweep(spec))
    for array in (array for plan in plans for array in schema.array_specs(plan)):
        if array.variable.role in (schema.Role.RESULT, schema.Role.ANNOTATION):
            zarr.open_array(path / array.path, mode="r+")[...] = values[array.path]
