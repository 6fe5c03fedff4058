"""Sweeps as files: the JSON Schema of a sweep file, and a resolved sweep written as one."""

from __future__ import annotations

import json
from typing import Any

import tomli_w

from sweeps.file.datasets import Mixtures, base_name
from sweeps.file.reading import SweepFile
from sweeps.file.search import HELD_OUT, NAME, Search
from sweeps.file.spec import SweepSpec
from sweeps.keytypes import Terse


def sweep_schema() -> str:
    """JSON Schema of the sweep file, from which an editor completes and checks it."""
    schema = SweepFile.model_json_schema(schema_generator=Terse)
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sweep file"}
    return json.dumps({**schema, **about}, indent=1) + "\n"


def as_file(spec: SweepSpec) -> dict[str, Any]:
    """Tables of a sweep file that gives this sweep, every default filled in."""
    searches = [_search(each) for each in spec.search]
    values = spec.dump() | {"search": searches if spec.search_names else searches[0]}
    grid = values["grid"]
    grid["datasets"] = [
        _mixture(entry) if isinstance(entry, Mixtures) else entry.model_dump(exclude_none=True)
        for entry in spec.grid.datasets
    ]
    grid["m"] = [int(text) if text.isdecimal() else text for text in grid["m"]]
    if spec.grid.methods:
        grid["methods"] = [each.as_file() for each in spec.grid.methods]
    # Without a model that uses annotations `p` and `m` are empty, and a file with an empty list is refused.
    values["grid"] = {key: value for key, value in grid.items() if value != []}
    return values


def as_toml(spec: SweepSpec) -> str:
    """Text of a sweep file that gives this sweep, every default filled in."""
    return tomli_w.dumps(as_file(spec))


def _search(search: Search) -> dict[str, Any]:
    # the method is for the reader: every key that goes by it is given, too
    name = {} if search.name is None else {NAME: search.name}
    return name | search.written() | vars(search.settings) | {HELD_OUT: search.held_out}


def _mixture(entry: Mixtures) -> dict[str, Any]:
    recipe = entry.model_dump(mode="json", exclude={"name", "scale"})
    name = base_name(entry.name, entry.n_clusters)
    return {"name": name, "mixture": recipe | {"n_clusters": [entry.n_clusters]}, "scale": entry.scale}
