"""The root file: what it holds, what is refused, how runs are recorded."""

from __future__ import annotations

import json
import warnings
from dataclasses import MISSING, fields, replace
from functools import cache
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

PLANS = {
    "a": make_plan("a", p=(0.9, 0.1 + 0.2), m=(4, 9), models=("posterior", "likelihood-common")),
    "b": make_plan("b", mixtures=4, mixture_chunk=2, scale="minmax"),
    "c": make_plan("c", models=(), p=(), m=(), has_labels=False),
    "d": make_plan("d", adaptive=True, baselines=()),
    "e": make_plan("e", held_out=True),
    "g": make_plan("g", n_annotations=9, annotations_checksum="c0ffee"),
    "h": make_plan("h", designs=("uniform", "active"), searches=("a", "b")),
    "f": make_plan("f", baselines=("ward",), methods=(MethodPlan("ward", 1),)),
}


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
    required = {field.name for field in fields(DatasetPlan) if field.default is MISSING} | {"scale"}
    assert plan_to_json(PLANS["a"]).keys() == required
    own = {"d": "adaptive", "e": "held_out", "f": "methods", "g": "n_annotations", "h": "searches"}
    assert all(key in plan_to_json(PLANS[name]) for name, key in own.items())


@pytest.mark.parametrize("change", [{"n_annotations": 3}, {"mixtures": 2, "mixture_chunk": 2}])
def test_a_file_of_annotations_has_as_many_as_a_cell_draws_and_no_mixtures(change: dict[str, Any]) -> None:
    own = replace(PLANS["a"], **{"n_annotations": 9, "annotations_checksum": "c0ffee", **change})
    (text,) = said(stored(a=own))
    assert "n_annotations" in text
    assert "at least as many as the largest m" in text


REQUIRED = [*(field.name for field in fields(DatasetPlan) if field.default is MISSING), "scale"]


@pytest.mark.parametrize("key", REQUIRED)
def test_every_key_is_needed_and_checked(key: str) -> None:
    records = stored(a=PLANS["a"])
    del records["a"][key]
    missing = said(records)
    assert any(
        "data set a" in text and f"{key}: found nothing, expected this key" in text for text in missing
    )
    records = stored(a=PLANS["a"])
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
    ],
)
def test_what_no_sweep_would_have_written(change: dict[str, Any], problem: str) -> None:
    records = stored(a=PLANS["a"])
    records["a"] |= change
    assert any(problem in text for text in said(records))


def test_problems_of_all_data_sets_are_collected() -> None:
    records = stored(a=PLANS["a"], b=replace(PLANS["b"], restarts=0), c=PLANS["c"]) | {"d": 3}
    texts = said(records)
    assert len(texts) == 2
    assert "data set b" in texts[0]
    assert "data set d: found 3, expected a table" in texts[1]
    assert said([]) == ["cube: found not a table of data sets, expected one record for each"]


# Metadata of a cube: what this version writes passes, anything else is named.

PLANS_OF_LAYOUT = [
    make_plan("a", p=(0.8, 0.9), m=(6, 4), models=("likelihood", "posterior")),
    make_plan("b", mixtures=4, mixture_chunk=2, has_labels=False),
    make_plan("c", models=("likelihood", "posterior-full"), baselines=("unsupervised-diagonal",)),
]
CUBE = Path("nowhere/tiny.zarr")


@cache
def rendered() -> str:
    found: dict[str, Any] = {}
    for plan in PLANS_OF_LAYOUT:
        found |= render(plan, {}, draw_inputs(plan)).metadata
    return json.dumps(found)


def metadata() -> dict[str, Any]:
    """What the root file of a cube holds, to be changed at will."""
    return json.loads(rendered())  # type: ignore[no-any-return]


def found(entries: object) -> list[str]:
    return [str(problem) for problem in layout_problems(CUBE, PLANS_OF_LAYOUT, entries)]


def test_what_this_version_writes_has_no_problem() -> None:
    assert found(metadata()) == []


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/X",
        "a/annotations",
        "a/model",
        "b/unsupervised",
        "b/unsupervised/labels",
        "c/covariances",
        "c/unsupervised-diagonal/covariances",
    ],
)
def test_every_key_of_an_entry_counts(path: str) -> None:
    """Each changed, and each left out: one problem at least, and none about another entry."""
    entry = metadata()[path]
    for key in entry:
        for change in ("other", None):
            entries = metadata()
            if change is None:
                del entries[path][key]
            else:
                entries[path][key] = change
            said = found(entries)
            free = {"attributes", "storage_transformers"} if entry["node_type"] == "array" else set()
            if change is None and key in free:
                assert said == []  # nothing is what they default to
            else:
                assert said, (path, key, change)
                assert all(text.startswith(f"{CUBE}/{path}: ") for text in said)


def test_missing_and_unknown_entries_are_all_named() -> None:
    entries = metadata()
    entries["a/extra"] = entries.pop("a/labels")
    entries["z"] = {"node_type": "group"}
    entries["b/X"] = 3
    assert found(entries) == [
        f"{CUBE}/a/extra: found an array, expected no such variable",
        f"{CUBE}/z: found a node, expected no such variable",
        f"{CUBE}/a/labels: found no metadata, expected those of this variable or group",
        f"{CUBE}/b/X: found metadata that are not a table, expected zarr metadata",
    ]


@pytest.mark.parametrize("metadata", [None, 3])
def test_no_consolidated_metadata_at_all(metadata: object) -> None:
    assert found(metadata) == [f"{CUBE}: found no consolidated metadata, expected an entry for each node"]


def with_chunks(path: str, dim: int, length: object) -> dict[str, Any]:
    entries = metadata()
    entries[path]["chunk_grid"]["configuration"]["chunk_shape"][dim] = length
    return entries


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
    said = found(with_chunks(path, dim, length))
    assert (said == []) == fits
    if not fits:
        (text,) = said
        assert text.startswith(f"{CUBE}/{path}: found chunk_grid ")


@pytest.mark.parametrize(
    "attributes",
    [
        {"scale_factor": 2.0},
        {"units": "nats", "missing_value": 1},
        {"units": 3},
        {"long_name": None},
        {"flag_values": "0 1"},
        {"flag_values": [0, "1"]},
    ],
)
def test_attributes_that_xarray_would_act_on_are_refused(attributes: dict[str, object]) -> None:
    entries = metadata()
    entries["a/labels"]["attributes"] = attributes
    (text,) = found(entries)
    assert "expected only flag_meanings, flag_values, long_name, units" in text


def test_a_node_that_is_a_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "X").symlink_to(tmp_path)
    (tmp_path / "b").write_text("")
    said = [str(problem) for problem in layout_problems(tmp_path, PLANS_OF_LAYOUT, metadata())]
    assert said == [
        f"{tmp_path}/a/X: found a link, expected a directory of the cube",
        f"{tmp_path}/b: found not a directory, expected a directory of the cube",
    ]


def test_plans_that_no_memory_holds_are_refused() -> None:
    grid = make_plan("a", replicates=MOST_CELLS // 2, replicate_chunk=1, baselines=(), models=("likelihood",))
    assert list(size_problems("", grid)) == []
    (problem,) = size_problems("cube, ", replace(grid, replicates=MOST_CELLS + 1))
    assert str(problem) == "cube, a: found 100,000,001 cells, expected at most 100,000,000"
    wide = make_plan("a", replicates=10**4, n_samples=10**6)
    assert [problem.where for problem in size_problems("", wide)] == ["a/labels"]
    assert "chunks of 20,000,000,000 bytes" in str(next(size_problems("", wide)))
    many = make_plan("a", replicates=50, n_features=3000, models=("likelihood", "posterior"))
    assert list(size_problems("", many)) == []
    (problem,) = size_problems("", replace(many, models=("likelihood", "posterior-tied")))
    assert str(problem).startswith("a/covariances: found chunks of 14,400,000,000 bytes, expected at most")


def test_every_array_is_compressed_then_summed() -> None:
    stored = {path: entry["codecs"] for path, entry in metadata().items() if "codecs" in entry}
    assert {tuple(codec["name"] for codec in chain[1:]) for chain in stored.values()} == {("zstd", "crc32c")}
    names = {path: chain[0]["name"] for path, chain in stored.items()}
    assert (names["a/model"], names["a/labels"], names["a/status"]) == ("vlen-utf8", "bytes", "bytes")


ZSTD = {"level": 0, "checksum": False}


@pytest.mark.parametrize(
    "configuration",
    [
        ZSTD | {"level": 99},
        ZSTD | {"level": False},
        ZSTD | {"more": 1},
        {},
        None,
    ],
)
def test_the_whole_configuration_of_a_codec_counts(configuration: object) -> None:
    entries = metadata()
    entries["a/X"]["codecs"][1]["configuration"] = configuration
    (text,) = found(entries)
    assert text.startswith(f"{CUBE}/a/X: found codecs ")


def test_an_empty_configuration_may_be_left_out() -> None:
    entries = metadata()
    entries["a/X"]["codecs"][2]["configuration"] = {}
    assert "configuration" in entries["a/model"]["codecs"][0]
    del entries["a/model"]["codecs"][0]["configuration"]
    assert found(entries) == []


@pytest.mark.parametrize("value", [3, {"metadata": {"a": 3}}])
def test_a_group_below_the_root_holds_no_metadata_of_others(value: object) -> None:
    entries = metadata()
    entries["a"]["consolidated_metadata"] = value
    (text,) = found(entries)
    assert text.startswith(f"{CUBE}/a: found consolidated_metadata ")


PLAN = make_plan("a", p=(0.9, 0.1 + 0.2), mixtures=4, mixture_chunk=2)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    return path


def edit(cube: Path, change: Any) -> None:
    document = json.loads((cube / ROOT_FILE).read_bytes())
    change(document)
    (cube / ROOT_FILE).write_text(json.dumps(document))


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
    assert read_manifest(cube).plans == {"a": PLAN}


def test_runs_are_appended(cube: Path) -> None:
    append_run(cube, RunRecord(commit="abc"))
    append_run(cube, RunRecord(commit="def", seconds=1.5))
    assert read_manifest(cube).runs == (RunRecord(commit="abc"), RunRecord(commit="def", seconds=1.5))
    assert open_cube(cube).attrs["runs"] == [{"commit": "abc"}, {"commit": "def", "seconds": 1.5}]


def test_append_run_crashed_anywhere(tmp_path: Path) -> None:
    def fresh(number: int) -> Path:
        path = tmp_path / f"{number}.zarr"
        create(path, [PLAN], draw_inputs, SPEC)
        append_run(path, RunRecord(run=1))
        return path

    def check(path: Path) -> None:
        assert [run.dump()["run"] for run in read_manifest(path).runs] in ([1], [1, 2])
        open_cube(path)

    crash_everywhere(tmp_path, fresh, lambda path: append_run(path, RunRecord(run=2)), check)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "a directory without zarr.json"),
        ("{", "not JSON"),
        ("[]", "not a table"),
        ('{"zarr_format": 3, "node_type": "group", "attributes": {}}', "no sweep has written"),
        ('{"zarr_format": 3, "node_type": "group"}', "no sweep has written"),
    ],
)
def test_other_directories_are_refused(tmp_path: Path, content: str | None, found: str) -> None:
    if content is not None:
        (tmp_path / ROOT_FILE).write_text(content)
    with pytest.raises(InputError) as caught:
        read_manifest(tmp_path)
    (problem,) = caught.value.problems
    assert problem.where == str(tmp_path)
    assert found in problem.found


def test_files_and_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="found a file, expected a cube"):
        read_manifest(tmp_path / "file")
    with pytest.raises(InputError, match="found nothing, expected a cube"):
        read_manifest(tmp_path / "none")


def test_another_format_version_is_refused_with_both_said(cube: Path) -> None:
    assert read_manifest(cube).plans == {"a": PLAN}
    assert read_manifest(cube).spec == SPEC
    edit(cube, lambda root: root["attributes"].update(format_version=99))
    with pytest.raises(InputError, match="found format version 99, expected format version 2"):
        read_manifest(cube)
    edit(cube, lambda root: root["attributes"].update(format_version=2))
    for key in ("runs", "datasets", "spec"):
        edit(cube, lambda root, key=key: root["attributes"].pop(key))
        with pytest.raises(InputError, match=f"damaged manifest.*{key}"):
            read_manifest(cube)


def test_arrays_of_objects_are_refused_before_anything_is_decoded(cube: Path) -> None:
    edit(cube, lambda r: r["consolidated_metadata"]["metadata"]["a/model"].update(data_type="object"))
    with pytest.raises(InputError, match='a/model: found type "object", expected "string"'):
        open_cube(cube)
