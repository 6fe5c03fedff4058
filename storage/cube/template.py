"""A cube in memory: the metadata of every node, and the chunk files of coordinates and inputs.

Creating and growing both render the wanted state here, then make the disk equal to it. zarr encodes into a
store in memory, so that nothing is written before everything is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.storage import MemoryStore

from storage.cube.layout import CHECKSUM, CHUNK_KEYS, COMPRESSION
from storage.cube.manifest import to_json
from storage.cube.places import chunk_position
from storage.cube.schema import (
    FIELDS,
    INPUTS,
    ArraySpec,
    Role,
    array_specs,
    group_attributes,
    input_names,
    node_paths,
    scored_shapes,
)
from sweeps.plan import DatasetPlan

Features = npt.NDArray[np.floating[Any]]
Whole = npt.NDArray[np.integer[Any]]
Texts = npt.NDArray[np.object_]
InputArrays = (
    tuple[Features, Whole | None]
    | tuple[Features, Whole | None, Whole | None]
    | tuple[Features, Whole | None, Whole | None, Texts | None]
)
"""X, the true labels, annotations of a file, and names of the samples, as `INPUTS` names them.

None stands for what is not there. X and labels have a leading mixture axis where the plan has mixtures.
"""

CODECS = (COMPRESSION, CHECKSUM)
METADATA_FILE = "zarr.json"


@dataclass
class Template:
    """Wanted state of some nodes of a cube.

    Parameters
    ----------
    metadata : dict
        zarr metadata of each group and array, by path.
    coordinates, inputs : dict
        Chunk files by key.
    """

    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    coordinates: dict[str, bytes] = field(default_factory=dict)
    inputs: dict[str, bytes] = field(default_factory=dict)

    def metadata_files(self) -> dict[str, bytes]:
        """Metadata files by key."""
        return {f"{path}/{METADATA_FILE}": to_json(entry) for path, entry in self.metadata.items()}


def render(
    plan: DatasetPlan, committed: Mapping[str, Mapping[str, Any]], inputs: InputArrays | None
) -> Template:
    """Render the nodes of one data set.

    Parameters
    ----------
    plan : DatasetPlan
        Coordinates in order of arrival.
    committed : mapping
        Metadata of arrays that exist, by path: these keep all but their shape.
    inputs : InputArrays or None
        None leaves the chunks of inputs out.

    Returns
    -------
    Template
        Of `/<name>` and of `/<name>/<baseline>` for each baseline.
    """
    entries: dict[str, Buffer] = {}
    store = MemoryStore(entries)
    template = Template()
    template.metadata[plan.name] = _group(group_attributes(plan))
    template.metadata |= {path: _group({}) for path in node_paths(plan)[1:]}
    values = coordinate_values(plan)
    data = _input_values(plan, inputs) if inputs else {}
    for spec in array_specs(plan):
        array = _array(store, entries, spec, committed.get(spec.path))
        template.metadata[spec.path] = json.loads(entries[f"{spec.path}/{METADATA_FILE}"].to_bytes())
        if spec.variable.role is Role.COORDINATE:
            array[...] = values[spec.variable.name]
            template.coordinates |= _chunk_files(entries, spec.path)
        elif spec.variable.role is Role.INPUT and data:
            array[...] = data[spec.variable.name]
            template.inputs |= _chunk_files(entries, spec.path)
    return template


def coordinate_values(plan: DatasetPlan) -> dict[str, npt.NDArray[Any]]:
    """Values of every coordinate, in order of arrival."""
    counts = np.asarray(plan.m, dtype=np.int64)
    values = {
        "p": np.asarray(plan.p, dtype=np.float64),
        "m": counts,
        "m_over_n": counts / plan.n_samples,
        "replicate": np.arange(plan.replicates, dtype=np.int64),
        "mixture": np.arange(plan.mixtures or 0, dtype=np.int64),
        "model": np.asarray(plan.models, dtype=object),
        "field": np.asarray(FIELDS, dtype=object),
    }
    if plan.has_designs:
        values["design"] = np.asarray(plan.designs, dtype=object)
    if plan.searches:
        values["search"] = np.asarray(plan.searches, dtype=object)
    if plan.feature_names:
        values["feature"] = np.asarray(plan.feature_names, dtype=object)
    if shapes := scored_shapes(plan):
        values["candidate"] = np.asarray(shapes, dtype=object)
    return values


def chunk_counts(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Number of chunks along each dimension, from the metadata of an array."""
    lengths = entry["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(ceil(length / chunk) for length, chunk in zip(entry["shape"], lengths, strict=True))


def is_committed(key: str, committed: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a chunk file belongs to an array as it was committed."""
    path, _, name = key.rpartition("/")
    entry = committed.get(path)
    position = chunk_position(name)
    if entry is None or position is None or entry["node_type"] != "array":
        return False
    counts = chunk_counts(entry)
    return len(position) == len(counts) and all(i < n for i, n in zip(position, counts, strict=True))


def _array(
    store: MemoryStore, entries: dict[str, Buffer], spec: ArraySpec, committed: Mapping[str, Any] | None
) -> zarr.Array[Any]:
    # Chunk files that exist fix the chunk lengths: a grown array changes its shape alone.
    if committed is not None:
        content = to_json({**committed, "shape": list(spec.shape)})
        entries[f"{spec.path}/{METADATA_FILE}"] = default_buffer_prototype().buffer.from_bytes(content)
        return zarr.open_array(store, path=spec.path, mode="r+")
    return zarr.create_array(
        store,
        name=spec.path,
        shape=spec.shape,
        chunks=spec.chunks,
        dtype=spec.variable.dtype,
        fill_value=spec.variable.fill,
        dimension_names=spec.dims,
        attributes=spec.variable.attributes,
        chunk_key_encoding={"name": CHUNK_KEYS["name"], **CHUNK_KEYS["configuration"]},
        compressors=CODECS,
        config={"write_empty_chunks": True},
    )


def _input_values(plan: DatasetPlan, inputs: InputArrays) -> dict[str, npt.NDArray[Any]]:
    values = named(inputs)
    features, labels = values["X"], values.get("labels_true")
    shape: tuple[int, ...] = (plan.n_samples, plan.n_features)
    if plan.mixtures is not None:
        shape = (plan.mixtures, *shape)
    if features.shape != shape:
        raise ValueError(f"X of {plan.name} has shape {features.shape}, its plan says {shape}")
    if (labels is not None) != plan.has_labels or (labels is not None and labels.shape != shape[:-1]):
        raise ValueError(f"true labels of {plan.name} do not agree with its plan")
    pool = values.get("annotation_pool", np.empty((0, len(FIELDS))))
    if pool.shape != (plan.n_annotations, len(FIELDS)):
        raise ValueError(f"annotations of {plan.name} have shape {pool.shape}, not that of its plan")
    if plan.sample_names and len(values.get("sample", ())) != plan.n_samples:
        raise ValueError(f"names of the samples of {plan.name} do not agree with its plan")
    return {name: values[name] for name in input_names(plan)}


def named(inputs: InputArrays) -> dict[str, npt.NDArray[Any]]:
    """Inputs that are there, by name."""
    pairs = zip(INPUTS, inputs, strict=False)
    return {name: values for name, values in pairs if values is not None}


def _group(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}


def _chunk_files(entries: Mapping[str, Buffer], path: str) -> dict[str, bytes]:
    keys = [key for key in entries if key.rpartition("/")[0] == path and not key.endswith(METADATA_FILE)]
    return {key: entries[key].to_bytes() for key in keys}
