"""JSON Schema of cluster.yaml, from which an editor completes and checks it."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Annotated, Union

from pydantic import Field, TypeAdapter

from pipeline.cluster.profiles import Address, Local
from pipeline.jobs.keys import CLASSES, job_queue
from sweeps.records import Terse

SCHEMA_NAME = "cluster.schema.json"
"""Stands beside cluster.yaml, in a checkout and in a wheel."""


def cluster_schema() -> str:
    """Profiles by name, each with the keys of its kind; queues have those of the installed dask-jobqueue."""
    kinds = (Local, Address, *map(job_queue, CLASSES))
    profile = Annotated[Union[kinds], Field(discriminator="kind")]  # type: ignore[valid-type]  # noqa: UP007
    schema = TypeAdapter(dict[str, profile]).json_schema(schema_generator=Terse)
    for record in schema["$defs"].values():
        # In Python a profile of a class needs no kind; in the file nothing else tells what it is.
        if "kind" in record["properties"]:
            record["required"] = ["kind", *(key for key in record.get("required", ()) if key != "kind")]
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Keys of dask-jobqueue {version('dask-jobqueue')}",
        "title": "Profiles of compute clusters",
    }
    return json.dumps({**about, **schema}, indent=1) + "\n"
