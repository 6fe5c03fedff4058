"""The root file: what it holds, what is refused, how runs are recorded."""

from __future__ import annotations

import json
import warnings
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import zarr
from cubes.small import SPEC, draw_inputs, make_plan
from processes.crash import crash_everywhere

from storage.cube.growth import create, open_cube, render
from storage.cube.manifest import ROOT_FILE, append_run, layout_problems, plan_to_json, read_manifest
from storage.provenance import RunRecord
from sweeps.errors import InputError
from sweeps.plan import DatasetPlan, MethodPlan

OWN = {"n_annotations": 9, "annotations_checksum": "c0ffee"}
PLAN = make_plan("a", p=(0.9, 0.1 + 0.2), m=(4, 9), models=("posterior", "likelihood-common"))
DRAWN = make_plan("b", mixtures=4, mixture_chunk=2, scale="minmax")
REQUIRED = {field.name for field in fields(DatasetPlan) if field.default is MISSING} | {"scale"}


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN, DRAWN], draw_inputs, SPEC)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A cube whose root file is to be replaced, and what that was."""
    path = tmp_path_factory.mktemp("made") / "tiny.zarr"
    create(path, [PLAN, DRAWN], draw_inputs, SPEC)
    return path, (path / ROOT_FILE).read_bytes()


def said(made: tuple[Path, bytes], plan: dict[str, Any]) -> list[str]:
    """What is wrong with a cube whose first data set has these fields."""
    path, content = made
    document = json.loads(content)
    document["attributes"]["datasets"]["a"] = plan
    (path / ROOT_FILE).write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        read_manifest(path)
    return [str(problem).removeprefix(f"{path}: ") for problem in caught.value.problems]


def test_plans_come_back_to_the_bit_and_only_some_fields_are_left_out(cube: Path) -> None:
    found = read_manifest(cube)
    assert (found.plans, found.spec) == ({"a": PLAN, "b": DRAWN}, SPEC)
    # what only some need, older versions did not write
    assert plan_to_json(PLAN).keys() == REQUIRED
    ward = {"methods": (MethodPlan("ward", 1),), "baselines": ("ward",)}
    for own in ({"adaptive": True}, {"held_out": True}, OWN, {"searches": ("a", "b")}, ward):
        assert plan_to_json(make_plan(**own)).keys() == REQUIRED | own.keys()


def test_every_key_is_needed_and_checked(made: tuple[Path, bytes]) -> None:
    for key in REQUIRED:
        record = json.loads(json.dumps(plan_to_json(PLAN)))
        del record[key]
        assert f"data set a: {key}: found nothing, expected this key" in said(made, record)
        assert all(
            "data set a" in text and key in text for text in said(made, record | {key: {"no": "value"}})
        )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "b"}, "name: found 'b', expected 'a'"),
        ({"p": []}, "p, m and models: found some of them empty, expected all of them, or none"),
        ({"n_samples": True}, "n_samples: found true"),
        ({"methods": [{"name": "a", "restarts": 0}]}, "methods[0] restarts: found 0"),
        ({"scale": "log"}, "scale: found 'log', expected one of none, standard, minmax"),
        ({"later": 1}, "unknown key 'later'"),
        ({"feature_names": ["x"]}, "feature_names: found 1 names, expected none, or one for each of 2"),
        (OWN | {"n_annotations": 3}, "n_annotations: found 3, expected a real data set with at least"),
        (OWN | {"mixtures": 2, "mixture_chunk": 2}, "n_annotations: found 9, expected a real data set"),
        ({"mixtures": 2, "mixture_chunk": 2, "class_names": ["x"]}, "names: found some, expected none"),
    ],
)
def test_what_no_sweep_would_have_written(
    made: tuple[Path, bytes], change: dict[str, Any], problem: str
) -> None:
    found = said(made, json.loads(json.dumps(plan_to_json(PLAN))) | change)
    assert any(problem in text for text in found)
    assert all("data set a" in text for text in found)


# Metadata of a cube: what this version writes passes, anything else is named.

PLANS_OF_LAYOUT = [
    make_plan("a", p=(0.8, 0.9), m=(6, 4), models=("likelihood", "posterior")),
    make_plan("b", mixtures=4, mixture_chunk=2, has_labels=False),
    make_plan("c", models=("likelihood", "posterior-full"), baselines=("unsupervised-diagonal",)),
]
CUBE = Path("nowhere/tiny.zarr")
RENDERED = json.dumps(render(PLANS_OF_LAYOUT, {}, draw_inputs)[0])


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
    entries["b/X"] = 3
    assert found(entries) == [
        f"{CUBE}/a/extra: found a node, expected no such variable",
        f"{CUBE}/a/labels: found no metadata, expected those of this variable or group",
        f"{CUBE}/b/X: found metadata that are not a table, expected zarr metadata",
    ]
    (tmp_path / "a").symlink_to(tmp_path)
    assert found(metadata(), tmp_path) == [f"{tmp_path}/a: found a link, expected a directory of the cube"]


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


FALSE = [{"scale_factor": 2.0}, {"units": 3}, {"flag_values": "0 1"}, {"flag_values": [0, "1"]}, []]


def test_codecs_and_attributes_are_those_that_this_version_writes() -> None:
    """Others would decode objects, or have xarray scale or mask values."""
    entries = metadata()
    entries["a"]["consolidated_metadata"] = None
    assert found(entries) == []
    cases: list[tuple[str, str, object, str]] = [
        *(("a/labels", "attributes", wrong, "attributes ") for wrong in FALSE),
        ("a", "consolidated_metadata", {"metadata": {"a": 3}}, "a key 'cons"),
        ("a/X", "codecs", [*metadata()["a/X"]["codecs"], {"name": "crc32c"}], "codecs "),
    ]
    for path, key, value, words in cases:
        entries = metadata()
        entries[path][key] = value
        (text,) = found(entries)
        assert text.startswith(f"{CUBE}/{path}: found {words}")


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
    assert read_manifest(cube).plans == {"a": PLAN, "b": DRAWN}


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
        "{": "found a zarr.json that is not JSON",
        "[]": "not a table",
        '{"zarr_format": 3, "node_type": "group", "attributes": {}}': "no sweep has written",
        json.dumps(document | {"attributes": attributes | {"format_version": 99}}): "found format version 99",
        json.dumps(document | {"zarr_format": 2}): "found zarr_format 2, expected 3",
    }
    for key in ("runs", "datasets", "spec"):
        fewer = {name: value for name, value in attributes.items() if name != key}
        cases[json.dumps(document | {"attributes": fewer})] = key
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name, what in {"file": "a file", "none": "nothing", "folder": r"no zarr\.json"}.items():
        with pytest.raises(InputError, match=f"{name}: found {what}.*, expected a cube"):
            read_manifest(tmp_path / name)
    for content, what in cases.items():
        (cube / ROOT_FILE).write_text(content)
        with pytest.raises(InputError, match=f"^{cube}: .*{what}"):
            read_manifest(cube)
