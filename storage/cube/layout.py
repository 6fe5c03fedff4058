"""The metadata a cube must have, from its plans: any other could decode objects, or fill the memory."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from storage.cube.schema import ArraySpec, Role, array_specs, group_attributes, node_paths
from sweeps.errors import Problem
from sweeps.plan import DatasetPlan

CHUNK_KEYS: dict[str, Any] = {"name": "default", "configuration": {"separator": "."}}
"""Chunks of an array lie side by side: one directory to make durable, none to make while results come in."""

SERIALIZERS = {
    "string": {"name": "vlen-utf8"},
    "int8": {"name": "bytes"},  # one byte has no order
}
BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
COMPRESSION: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
CHECKSUM: dict[str, Any] = {"name": "crc32c"}
"""Outermost, so that a chunk that has changed is noticed before it is decompressed."""

MOST_CELLS = 10**8
"""Of a data set: the status of all its cells is held in memory, one byte each."""

MOST_CHUNK_BYTES = 2**32
"""A chunk is written and read whole, and several copies of it are in memory at once."""

ARRAY_KEYS = {"chunk_grid", "attributes", "storage_transformers"}
ROOT: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
INLINE: dict[str, Any] = {"kind": "inline", "must_understand": False}
NO_METADATA: dict[str, Any] = {**INLINE, "metadata": {}}
"""What zarr itself writes to a group below the root when it consolidates a cube again."""

ATTRIBUTES = {"long_name", "units", "flag_values", "flag_meanings"}
"""Others could make xarray scale, mask or convert values."""


def layout_problems(path: Path, plans: Iterable[DatasetPlan], metadata: object) -> Iterator[Problem]:
    """Find metadata of a cube that this version would not have written for these plans.

    Parameters
    ----------
    path : Path
        The cube.
    plans : iterable of DatasetPlan
        Its data sets.
    metadata : object
        What the root file holds as consolidated metadata: entries of groups and arrays by path.

    Yields
    ------
    Problem
        With the path of the entry. Of the cube itself, only the types of its directories are looked at.
    """
    if not isinstance(metadata, Mapping):
        yield Problem(str(path), "no consolidated metadata", "an entry for each node")
        return
    plans = list(plans)
    specs = {spec.path: spec for plan in plans for spec in array_specs(plan)}
    groups = {node: attributes for plan in plans for node, attributes in _groups(plan).items()}
    for key in sorted(metadata.keys() - specs.keys() - groups.keys()):
        yield Problem(f"{path}/{key}", f"{_kind(metadata[key])}", "no such variable")
    for key in sorted((specs.keys() | groups.keys()) - metadata.keys()):
        yield Problem(f"{path}/{key}", "no metadata", "those of this variable or group")
    for key in sorted(metadata.keys() & (specs.keys() | groups.keys())):
        expected = _array_entry(specs[key]) if key in specs else groups[key]
        yield from _entry_problems(f"{path}/{key}", metadata[key], expected, specs.get(key))
        yield from _directory_problems(path / key)


def root_problems(path: Path, document: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what of the root is not as this version writes it, attributes and entries of nodes aside."""
    for key in sorted(document.keys() - ROOT.keys() - {"attributes", "consolidated_metadata"}):
        yield Problem(str(path), f"a key {key[:60]!r}", "none of that name")
    for key, wanted in ROOT.items():
        if _text(document.get(key)) != _text(wanted):
            yield Problem(str(path), f"{key} {_text(document.get(key))}", _text(wanted))
    inline = document.get("consolidated_metadata")
    if isinstance(inline, Mapping):
        frame = {key: value for key, value in inline.items() if key != "metadata"}
        if _text(frame) != _text(INLINE):
            yield Problem(str(path), f"consolidated_metadata {_text(frame)}", _text(INLINE))


def size_problems(where: str, plan: DatasetPlan) -> Iterator[Problem]:
    """Find what of a plan is too large for memory: the status of all cells, or a chunk."""
    if plan.n_cells > MOST_CELLS:
        yield Problem(f"{where}{plan.name}", f"{plan.n_cells:,} cells", f"at most {MOST_CELLS:,}")
    for spec in array_specs(plan):
        n_bytes = math.prod(spec.chunks) * _itemsize(spec)
        if n_bytes > MOST_CHUNK_BYTES:
            found = f"chunks of {n_bytes:,} bytes"
            hint = "fewer replicates or mixtures at creation; both may grow"
            yield Problem(f"{where}{spec.path}", found, f"at most {MOST_CHUNK_BYTES:,}", hint)


def codecs(dtype: str) -> list[dict[str, Any]]:
    """The codecs of an array, from values to what stands in a chunk file."""
    return [SERIALIZERS.get(dtype, BYTES), COMPRESSION, CHECKSUM]


def _entry_problems(
    where: str, entry: object, expected: Mapping[str, Any], spec: ArraySpec | None
) -> Iterator[Problem]:
    if not isinstance(entry, Mapping):
        yield Problem(where, "metadata that are not a table", "zarr metadata")
        return
    known = expected.keys() | (ARRAY_KEYS if spec else {"consolidated_metadata"})
    for key in sorted(entry.keys() - known):
        yield Problem(where, f"a key {key[:60]!r}", f"one of {', '.join(sorted(known))}")
    for key, wanted in expected.items():
        found = _codecs(entry.get(key)) if key == "codecs" else entry.get(key)
        if _text(found) != _text(wanted):
            name = "type" if key == "data_type" else key
            yield Problem(where, f"{name} {_text(found)}", _text(wanted))
    if spec is not None:
        yield from _free_problems(where, entry, spec)
    elif entry.get("consolidated_metadata", NO_METADATA) not in (None, NO_METADATA):
        found = f"consolidated_metadata {_text(entry['consolidated_metadata'])}"
        yield Problem(where, found, "none: the root has them")


def _free_problems(where: str, entry: Mapping[str, Any], spec: ArraySpec) -> Iterator[Problem]:
    """Problems of keys that may have one of several values."""
    grid = entry.get("chunk_grid")
    if not _is_grid(grid, spec):
        yield Problem(where, f"chunk_grid {_text(grid)}", f"chunks of shape {_text(spec.chunks)}")
    attributes = entry.get("attributes", {})
    if not _are_attributes(attributes):
        yield Problem(where, f"attributes {_text(attributes)}", f"only {', '.join(sorted(ATTRIBUTES))}")
    if entry.get("storage_transformers"):
        yield Problem(where, "storage transformers", "none")


def _are_attributes(found: object) -> bool:
    if not isinstance(found, Mapping) or found.keys() - ATTRIBUTES:
        return False
    flags = found.get("flag_values", [])
    texts = (value for key, value in found.items() if key != "flag_values")
    return (
        all(isinstance(text, str) for text in texts)
        and isinstance(flags, list)
        and all(_is_length(flag, 0, 127) for flag in flags)
    )


def _is_grid(grid: object, spec: ArraySpec) -> bool:
    shape = grid.get("configuration", {}) if isinstance(grid, Mapping) else {}
    found = shape.get("chunk_shape") if isinstance(shape, Mapping) else None
    if grid != {"name": "regular", "configuration": {"chunk_shape": found}}:
        return False
    if not isinstance(found, list) or len(found) != len(spec.chunks):
        return False
    return all(_is_length(n, *pair) for n, pair in zip(found, _chunk_bounds(spec), strict=True))


def _chunk_bounds(spec: ArraySpec) -> Iterator[tuple[int, int]]:
    """Least and largest length of a chunk along each dimension.

    Coordinates and the longest row of annotations may have grown since; their chunks never do.
    """
    for dim, length in zip(spec.dims, spec.chunks, strict=True):
        grows = spec.variable.role is Role.COORDINATE or dim == "annotation"
        yield (1 if grows else length), length


def _is_length(value: object, least: int, most: int) -> bool:
    # JSON true is a bool, which Python takes for the whole number 1.
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _array_entry(spec: ArraySpec) -> dict[str, Any]:
    fill = spec.variable.fill
    return {
        "node_type": "array",
        "zarr_format": 3,
        "data_type": spec.variable.dtype,
        "shape": spec.shape,
        "dimension_names": spec.dims or None,
        "chunk_key_encoding": CHUNK_KEYS,
        "fill_value": "NaN" if isinstance(fill, float) else fill,
        "codecs": codecs(spec.variable.dtype),
    }


def _groups(plan: DatasetPlan) -> dict[str, dict[str, Any]]:
    return {
        node: {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": group_attributes(plan) if node == plan.name else {},
        }
        for node in node_paths(plan)
    }


def _directory_problems(path: Path) -> Iterator[Problem]:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # gone: reading from it is an error of its own
    if not stat.S_ISDIR(mode):
        yield Problem(
            str(path), "a link" if stat.S_ISLNK(mode) else "not a directory", "a directory of the cube"
        )


def _codecs(found: object) -> object:
    """Codecs as they are compared: a configuration that is empty may be left out."""
    if not isinstance(found, list):
        return found
    return [
        {key: value for key, value in codec.items() if key != "configuration" or value != {}}
        if isinstance(codec, Mapping)
        else codec
        for codec in found
    ]


def _itemsize(spec: ArraySpec) -> int:
    return 8 if spec.variable.dtype == "string" else np.dtype(spec.variable.dtype).itemsize


def _kind(entry: object) -> str:
    kind = entry.get("node_type") if isinstance(entry, Mapping) else None
    return "an array" if kind == "array" else "a node"


def _text(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else text[:197] + "..."
