"""The JSON Schema of cluster.yaml: the shipped one is this one, and takes what the reader takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import yaml
from checkout import ROOT

from pipeline.cluster.schema import SCHEMA_NAME, cluster_schema

SHIPPED = (ROOT / SCHEMA_NAME).read_text(encoding="utf-8")
PROFILES = (ROOT / "cluster.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wrong() -> Callable[[str], list[str]]:
    """Keys, or tables, that the schema finds wrong."""
    generated = json.loads(cluster_schema())
    jsonschema.Draft202012Validator.check_schema(generated)

    def found(text: str) -> list[str]:
        errors = jsonschema.Draft202012Validator(generated).iter_errors(yaml.safe_load(text))
        # Of the kinds of profiles the one that fits best.
        return [str(jsonschema.exceptions.best_match([error]).message) for error in errors]

    return found


def test_the_shipped_schema_is_the_one_that_is_generated() -> None:
    shipped, generated = json.loads(SHIPPED), json.loads(cluster_schema())
    if shipped["$comment"] != generated["$comment"]:
        pytest.skip(f"{shipped['$comment']}, and another one is installed")
    assert cluster_schema() == SHIPPED, f"write what cluster_schema() gives to {SCHEMA_NAME}"


def test_the_first_line_of_the_shipped_profiles_names_the_schema_beside_them() -> None:
    assert PROFILES.splitlines()[0] == f"# yaml-language-server: $schema={SCHEMA_NAME}"


def test_the_shipped_profiles_and_their_commented_examples_are_taken(
    wrong: Callable[[str], list[str]],
) -> None:
    assert wrong(PROFILES) == []
    examples = re.sub(r"^( *)# ( *\w+:)", r"\1\2", PROFILES, flags=re.MULTILINE)
    assert set(yaml.safe_load(examples)) == {"local", "lab", "slurm"}
    assert wrong(examples) == []


@pytest.mark.parametrize(
    "text",
    [
        "a: {kind: local, wokers: 3}",
        "a: {kind: local, workers: 0}",
        "a: {kind: local, workers: }",
        "a: {workers: 3}",
        "a: {kind: slrum}",
        "a: {kind: address}",
        "a: {kind: slurm, cores: 2}",
        "a: {kind: pbs, cores: 2, memory: 4GB, head: {cores: 1}}",
        "a: {kind: slurm, cores: 2, memory: 4GB, walltime: 36000}",
    ],
)
def test_what_the_reader_refuses_is_refused(text: str, wrong: Callable[[str], list[str]]) -> None:
    assert wrong(text) != []


def test_every_key_has_a_description() -> None:
    records: dict[str, Any] = json.loads(cluster_schema())["$defs"]
    keys = {
        (name, key): about for name, record in records.items() for key, about in record["properties"].items()
    }
    assert len(keys) > 100
    assert [key for key, about in keys.items() if not about.get("description")] == []
    assert "null" not in cluster_schema()
