"""The root file: what it holds, what is refused, how runs are recorded."""

from __future__ import annotations

import json
import warnings
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
import zarr
from cubes.small import SPEC, draw_inputs, make_plan
from processes.crash import crash_everywhere

from storage.cube.growth import create, open_cube, render
from storage.cube.manifest import (
    MOST_CELLS,
    ROOT_FILE,
    append_run,
    layout_problems,
    plan_to_json,
    read_manifest,
    read_plans,
    size_problems,
)
from storage.provenance import RunRecord
from sweeps.errors import InputError, Problem
from sweeps.plan import DatasetPlan, MethodPlan

# Plans of a cube as its attributes hold them: they come back, and nothing else is taken for one.

OWN = {"n_annotations": 9, "annotations_checksum": "c0ffee"}
PLANS = {
    "a": make_plan("a", p=(0.9, 0.1 + 0.2), m=(4, 9), models=("posterior", "likelihood-common")),
    "b": make_plan("b", mixtures=4, mixture_chunk=2, scale="minmax"),
    "c": make_plan("c", models=(), p=(), m=(), has_labels=False),
    "d": make_plan("d", adaptive=True, baselines=()),
    "e": make_plan("e", held_out=True),
    "g": make_plan("g", **OWN),
    "h": make_plan("h", designs=("uniform", "active"), searches=("a", "b")),
    "f": make_plan("f", baselines=("ward",), methods=(MethodPlan("ward", 1),)),
}
REQUIRED = {field.name for field in fields(DatasetPlan) if field.default is MISSING} | {"scale"}


def stored(**plans: DatasetPlan) -> dict[str, Any]:
    records = {name: plan_to_json(plan) for name, plan in plans.items()}
    return json.loads(json.dumps(records))  # type: ignore[no-any-return]


def said(records: object) -> list[str]:
    problems: list[Problem] = []
    read_plans("cube", records, problems)
    return [str(problem) for problem in problems]


def test_plans_come_back_from_json_to_the_bit() -> None:
    problems: list[Problem] = []
    assert read_plans("cube", stored(**PLANS), problems) == PLANS
    assert problems == []
    # what only some need, older versions did not write
    assert plan_to_json(PLANS["a"]).keys() == REQUIRED
    own = {"d": "adaptive", "e": "held_out", "f": "methods", "g": "n_annotations", "h": "searches"}
    assert all(key in plan_to_json(PLANS[name]) for name, key in own.items())


def test_every_key_is_needed_and_checked() -> None:
    for key in REQUIRED:
        records = stored(a=PLANS["a"])
        del records["a"][key]
        assert any(f"data set a: {key}: found nothing, expected this key" in text for text in said(records))
        records["a"][key] = {"no": "value"}
        assert any("data set a" in text and key in text for text in said(records))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "b"}, "name: found 'b', expected 'a'"),
        ({"p": []}, "p, m and models: found some of them empty, expected all of them, or none"),
        ({"models": []}, "p, m and models: found some of them empty"),
        ({"n_samples": 0}, "n_samples: found 0"),
        ({"n_samples": True}, "n_samples: found true"),
        ({"restarts": 10**7}, "restarts: found 10000000"),
        ({"p": [0.9, 0.9 + 1e-12]}, "p"),
        ({"models": ["a/b"]}, "models"),
        ({"baselines": [""]}, "baselines"),
        ({"methods": [{"name": "a", "restarts": 0}]}, "methods[0] restarts: found 0"),
        ({"scale": "log"}, "scale: found 'log', expected one of none, standard, minmax"),
        ({"later": 1}, "unknown key 'later'"),
        ({"name": "../a"}, "name"),
        ({"feature_names": ["x"]}, "feature_names: found 1 names, expected none, or one for each of 2"),
        (
            OWN | {"n_annotations": 3},
            "n_annotations: found 3, expected a real data set with at least as many",
        ),
        (OWN | {"mixtures": 2, "mixture_chunk": 2}, "n_annotations: found 9, expected a real data set"),
        ({"mixtures": 2, "mixture_chunk": 2, "class_names": ["x"]}, "names: found some, expected none"),
    ],
)
def test_what_no_sweep_would_have_written(change: dict[str, Any], problem: str) -> None:
    records = stored(a=PLANS["a"], c=PLANS["c"])
    records["a"] |= change
    assert any(problem in text for text in said(records))
    assert all("data set a" in text for text in said(records))


# Metadata of a cube: what this version writes passes, anything else is named.

PLANS_OF_LAYOUT = [
    make_plan("a", p=(0.8, 0.9), m=(6, 4), models=("likelihood", "posterior")),
    make_plan("b", mixtures=4, mixture_chunk=2, has_labels=False),
    make_plan("c", models=("likelihood", "posterior-full"), baselines=("unsupervised-diagonal",)),
]
CUBE = Path("nowhere/tiny.zarr")
RENDERED = json.dumps(
    {
        path: entry
        for plan in PLANS_OF_LAYOUT
        for path, entry in render(plan, {}, draw_inputs(plan))[0].items()
    }
)


def metadata() -> dict[str, Any]:
    """What the root file of a cube holds, to be changed at will."""
    return json.loads(RENDERED)  # type: ignore[no-any-return]


def found(entries: object, cube: Path = CUBE) -> list[str]:
    return [str(problem) for problem in layout_problems(cube, PLANS_OF_LAYOUT, entries)]


@pytest.mark.parametrize(
    "path", ["a", "a/X", "a/annotations", "a/model", "b/unsupervised/labels", "c/covariances"]
)
def test_every_key_of_an_entry_counts(path: str) -> None:
    """Each changed, and each left out: one problem at least, and none about another entry."""
    assert found(metadata()) == []
    entry = metadata()[path]
    for key in entry:
        for change in ("other", None):
            entries = metadata()
            entries[path][key] = change
            if change is None:
                del entries[path][key]
            problems = found(entries)
            free = {"attributes", "storage_transformers"} if entry["node_type"] == "array" else set()
            # nothing is what these default to
            assert bool(problems) == (change is not None or key not in free), (path, key, change)
            assert all(text.startswith(f"{CUBE}/{path}: ") for text in problems)


def test_missing_and_unknown_entries_are_all_named(tmp_path: Path) -> None:
    entries = metadata()
    entries["a/extra"] = entries.pop("a/labels")
    entries["z"] = {"node_type": "group"}
    entries["b/X"] = 3
    assert sorted(found(entries)) == [
        f"{CUBE}/a/extra: found an array, expected no such variable",
        f"{CUBE}/a/labels: found no metadata, expected those of this variable or group",
        f"{CUBE}/b/X: found metadata that are not a table, expected zarr metadata",
        f"{CUBE}/z: found a node, expected no such variable",
    ]
    for nothing in (None, 3):
        assert found(nothing) == [f"{CUBE}: found no consolidated metadata, expected an entry for each node"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "X").symlink_to(tmp_path)
    (tmp_path / "b").write_text("")
    wrong = [("a/X", "a link"), ("b", "a file")]
    expected = [f"{tmp_path}/{path}: found {kind}, expected a directory of the cube" for path, kind in wrong]
    assert found(metadata(), tmp_path) == expected


@pytest.mark.parametrize(
    ("path", "dim", "length", "fits"),
    [
        ("a/p", 0, 1, True),  # a cube made with one accuracy that has grown since
        ("a/p", 0, 3, False),
        ("a/p", 0, 0, False),
        ("a/annotations", 3, 4, True),  # made for m = 4
        ("a/annotations", 3, 7, False),
        ("a/annotations", 3, True, False),
        ("a/annotations", 0, 2, False),
        ("a/labels", 4, 4, False),
        ("b/X", 0, 1, False),
    ],
)
def test_chunks_of_what_grows_may_be_those_at_creation(
    path: str, dim: int, length: object, fits: bool
) -> None:
    entries = metadata()
    entries[path]["chunk_grid"]["configuration"]["chunk_shape"][dim] = length
    problems = found(entries)
    assert len(problems) == (not fits)
    assert all(text.startswith(f"{CUBE}/{path}: found chunk_grid ") for text in problems)


ZSTD = {"level": 0, "checksum": False}
FALSE = [{"scale_factor": 2.0}, {"units": "nats", "missing_value": 1}, {"units": 3}, {"long_name": None}]


def test_codecs_and_attributes_are_those_that_this_version_writes() -> None:
    """Others would decode objects, or have xarray scale or mask values."""
    chains = {path: entry["codecs"] for path, entry in metadata().items() if "codecs" in entry}
    assert {tuple(codec["name"] for codec in chain[1:]) for chain in chains.values()} == {("zstd", "crc32c")}
    entries = metadata()
    entries["a/X"]["codecs"][2]["configuration"] = {}
    del entries["a/model"]["codecs"][0]["configuration"]  # it is empty
    assert found(entries) == []
    for wrong in (ZSTD | {"level": 99}, ZSTD | {"level": False}, ZSTD | {"more": 1}, {}, None):
        entries = metadata()
        entries["a/X"]["codecs"][1]["configuration"] = wrong
        (text,) = found(entries)
        assert text.startswith(f"{CUBE}/a/X: found codecs ")
    for attributes in (*FALSE, {"flag_values": "0 1"}, {"flag_values": [0, "1"]}, []):
        entries = metadata()
        entries["a/labels"]["attributes"] = attributes
        (text,) = found(entries)
        assert "expected only flag_meanings, flag_values, long_name, units" in text
    for wrong in (3, {"metadata": {"a": 3}}):
        entries = metadata()
        entries["a"]["consolidated_metadata"] = wrong
        (text,) = found(entries)
        assert text.startswith(f"{CUBE}/a: found a key 'consolidated_metadata'")


def test_plans_that_no_memory_holds_are_refused() -> None:
    grid = make_plan("a", replicates=MOST_CELLS // 2, replicate_chunk=1, baselines=(), models=("likelihood",))
    many = make_plan("a", replicates=50, n_features=3000, models=("likelihood", "posterior"))
    for plan in (grid, many):
        assert list(size_problems("", plan)) == []
    (problem,) = size_problems("cube, ", replace(grid, replicates=MOST_CELLS + 1))
    assert str(problem) == "cube, a: found 100,000,001 cells, expected at most 100,000,000"
    (problem,) = size_problems("", make_plan("a", replicates=10**4, n_samples=10**6))
    assert str(problem).startswith("a/labels: found chunks of 20,000,000,000 bytes")
    (problem,) = size_problems("", replace(many, models=("likelihood", "posterior-tied")))
    assert str(problem).startswith("a/covariances: found chunks of 14,400,000,000 bytes, expected at most")


PLAN = make_plan("a", p=(0.9, 0.1 + 0.2), mixtures=4, mixture_chunk=2)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    return path


def test_root_is_what_zarr_itself_would_consolidate(cube: Path) -> None:
    ours = zarr.open_group(cube, mode="r", use_consolidated=True).metadata.consolidated_metadata
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr says that the standard has no consolidated metadata yet
        zarr.consolidate_metadata(cube)
    theirs = zarr.open_group(cube, mode="r", use_consolidated=True).metadata.consolidated_metadata
    assert ours is not None
    assert ours.flattened_metadata.keys() == theirs.flattened_metadata.keys()
    for path, node in theirs.flattened_metadata.items():
        if isinstance(node, zarr.core.metadata.ArrayV3Metadata):
            assert ours.flattened_metadata[path].to_dict() == node.to_dict()
    assert (read_manifest(cube).plans, read_manifest(cube).spec) == ({"a": PLAN}, SPEC)


def test_runs_are_appended(cube: Path, tmp_path: Path) -> None:
    append_run(cube, RunRecord(commit="abc"))
    append_run(cube, RunRecord(commit="def", seconds=1.5))
    assert read_manifest(cube).runs == (RunRecord(commit="abc"), RunRecord(commit="def", seconds=1.5))
    assert open_cube(cube).attrs["runs"] == [{"commit": "abc"}, {"commit": "def", "seconds": 1.5}]

    def fresh(number: int) -> Path:
        path = tmp_path / f"{number}.zarr"
        create(path, [PLAN], draw_inputs, SPEC)
        append_run(path, RunRecord(run=1))
        return path

    def check(path: Path) -> None:
        assert [run.dump()["run"] for run in read_manifest(path).runs] in ([1], [1, 2])

    crash_everywhere(tmp_path, fresh, lambda path: append_run(path, RunRecord(run=2)), check)


def test_what_is_no_cube_is_said_with_what_is_there(tmp_path: Path, cube: Path) -> None:
    document = json.loads((cube / ROOT_FILE).read_bytes())
    attributes = document["attributes"]
    cases: dict[str, object] = {
        "{": "not JSON",
        "[]": "not a table",
        '{"zarr_format": 3, "node_type": "group", "attributes": {}}': "no sweep has written",
        '{"zarr_format": 3, "node_type": "group"}': "no sweep has written",
        json.dumps(document | {"attributes": attributes | {"format_version": 99}}): "format version 99",
    }
    for key in ("runs", "datasets", "spec"):
        fewer = {name: value for name, value in attributes.items() if name != key}
        cases[json.dumps(document | {"attributes": fewer})] = f"damaged manifest without {key}"
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    kinds = {"file": "a file", "none": "nothing", "folder": "a directory without zarr.json"}
    for name, what in kinds.items():
        with pytest.raises(InputError, match=f"{name}: found {what}, expected a cube"):
            read_manifest(tmp_path / name)
    for content, what in cases.items():
        (cube / ROOT_FILE).write_text(content)
        with pytest.raises(InputError, match=f"^{cube}: found .*{what}"):
            read_manifest(cube)
