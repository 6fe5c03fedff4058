"""JSON Schema of cluster.yaml, from which an editor completes and checks it."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Annotated, Any, Union

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from pipeline.cluster.profiles import Address, Local
from pipeline.jobs.keys import CLASSES, job_queue

SCHEMA_NAME = "cluster.schema.json"
"""Stands beside cluster.yaml, in a checkout and in a wheel."""


class _Terse(GenerateJsonSchema):
    """Without what is of no use to an editor: titles that repeat the key, and null, which no key may be."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def cluster_schema() -> str:
    """Profiles by name, each with the keys of its kind; queues have those of the installed dask-jobqueue."""
    kinds = (Local, Address, *map(job_queue, CLASSES))
    profile = Annotated[Union[kinds], Field(discriminator="kind")]  # type: ignore[valid-type]  # noqa: UP007
    schema = TypeAdapter(dict[str, profile]).json_schema(schema_generator=_Terse)
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
