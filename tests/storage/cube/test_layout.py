"""Metadata of a cube: what this version writes passes, anything else is named."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cubes.small import draw_inputs, make_plan

from storage.cube.layout import MOST_CELLS, codecs, layout_problems, size_problems
from storage.cube.template import render

PLANS = [
    make_plan("a", p=(0.8, 0.9), m=(6, 4), models=("likelihood", "posterior")),
    make_plan("b", mixtures=4, mixture_chunk=2, has_labels=False),
    make_plan("c", models=("likelihood", "posterior-full"), baselines=("unsupervised-diagonal",)),
]
CUBE = Path("nowhere/tiny.zarr")


@cache
def rendered() -> str:
    found: dict[str, Any] = {}
    for plan in PLANS:
        found |= render(plan, {}, draw_inputs(plan)).metadata
    return json.dumps(found)


def metadata() -> dict[str, Any]:
    """What the root file of a cube holds, to be changed at will."""
    return json.loads(rendered())  # type: ignore[no-any-return]


def found(entries: object) -> list[str]:
    return [str(problem) for problem in layout_problems(CUBE, PLANS, entries)]


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


@pytest.mark.parametrize("metadata", [None, [], "text", 3])
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
    "attributes", [{"scale_factor": 2.0}, {"_FillValue": 0}, {"units": "nats", "missing_value": 1}]
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
    said = [str(problem) for problem in layout_problems(tmp_path, PLANS, metadata())]
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
    assert [codecs(dtype)[0]["name"] for dtype in ("string", "int8")] == ["vlen-utf8", "bytes"]


ZSTD = {"level": 0, "checksum": False}


@pytest.mark.parametrize(
    "configuration",
    [
        ZSTD | {"level": 99},
        ZSTD | {"level": "0"},
        ZSTD | {"level": False},
        ZSTD | {"checksum": 0},
        ZSTD | {"more": 1},
        {"level": 0},
        {},
        None,
        [],
        3,
    ],
)
def test_the_whole_configuration_of_a_codec_counts(configuration: object) -> None:
    entries = metadata()
    entries["a/X"]["codecs"][1]["configuration"] = configuration
    (text,) = found(entries)
    assert text.startswith(f"{CUBE}/a/X: found codecs ")


@pytest.mark.parametrize("codec", [None, 3, "zstd", [], {}, {"name": None}, {"name": "crc32c", "more": 1}])
def test_what_is_no_codec_is_a_problem(codec: object) -> None:
    entries = metadata()
    entries["a/X"]["codecs"][2] = codec
    (text,) = found(entries)
    assert text.startswith(f"{CUBE}/a/X: found codecs ")
    entries["a/X"]["codecs"] = codec
    assert len(found(entries)) == 1


def test_an_empty_configuration_may_be_left_out() -> None:
    entries = metadata()
    entries["a/X"]["codecs"][2]["configuration"] = {}
    assert "configuration" in entries["a/model"]["codecs"][0]
    del entries["a/model"]["codecs"][0]["configuration"]
    assert found(entries) == []


@pytest.mark.parametrize(
    "attributes", [{"units": 3}, {"long_name": None}, {"flag_values": "0 1"}, {"flag_values": [0, "1"]}]
)
def test_attributes_of_other_types_are_refused(attributes: dict[str, object]) -> None:
    entries = metadata()
    entries["a/status"]["attributes"] |= attributes
    (text,) = found(entries)
    assert text.startswith(f"{CUBE}/a/status: found attributes ")


@pytest.mark.parametrize("value", [3, [], {"kind": "inline"}, {"metadata": {"a": 3}}])
def test_a_group_below_the_root_holds_no_metadata_of_others(value: object) -> None:
    entries = metadata()
    entries["a"]["consolidated_metadata"] = value
    (text,) = found(entries)
    assert text.startswith(f"{CUBE}/a: found consolidated_metadata ")
