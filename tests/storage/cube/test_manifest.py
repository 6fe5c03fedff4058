"""The root file of a cube holds its layout and its runs, and a wrong one is refused."""

import json
import re
import warnings
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import zarr
from cubes.small import SPEC, draw_inputs, make_plan, with_unions

from sweep_clustering.storage import provenance
from sweep_clustering.storage.cube import manifest as module
from sweep_clustering.storage.cube.growth import create, open_cube, render
from sweep_clustering.storage.cube.schema import TOLD_TEXT, array_specs, coordinate_values, result_names
from sweep_clustering.storage.provenance import RunRecord, fingerprint, run_record
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file import search
from sweep_clustering.sweeps.plan import DatasetPlan, MethodPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, Room

OWN = {"n_annotations": 9, "annotations_checksum": "c0ffee"}
PLAN = make_plan("a", p=(0.9, 0.1 + 0.2), m=(4, 9), models=("posterior", "likelihood-common"))
DRAWN = make_plan("b", mixtures=4, mixture_chunk=2, scale="minmax")
REQUIRED = {field.name for field in fields(DatasetPlan) if field.default is MISSING} | {"scale"}


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN, DRAWN], draw_inputs, SPEC)
    return path


def problems_of(cube: Path, plan: dict[str, Any]) -> list[str]:
    """Return the problems of a cube whose first data set has these fields."""
    document = json.loads((cube / module.ROOT_FILE).read_bytes())
    document["attributes"]["datasets"]["a"] = plan
    (cube / module.ROOT_FILE).write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        module.read_manifest(cube)
    return [str(problem).removeprefix(f"{cube}: ") for problem in caught.value.problems]


def test_plans_come_back_to_the_bit_and_only_some_fields_are_left_out(cube: Path) -> None:
    manifest = module.read_manifest(cube)
    assert manifest.plans == {"a": PLAN, "b": DRAWN}
    assert manifest.spec == SPEC
    # older versions did not write the keys that only some plans need
    assert module.plan_to_json(PLAN).keys() == REQUIRED
    ward = {"methods": (MethodPlan("ward", 1),), "baselines": ("ward",)}
    for extra in ({"adaptive": True}, {"held_out": True}, OWN, {"searches": ("a", "b")}, ward):
        assert module.plan_to_json(make_plan(**extra)).keys() == REQUIRED | extra.keys()


REFUSED: list[tuple[dict[str, Any], str]] = [
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
]


def test_every_key_is_needed_and_checked_and_what_no_sweep_would_have_written(cube: Path) -> None:
    record = json.loads(json.dumps(module.plan_to_json(PLAN)))
    for key in REQUIRED:
        fewer = {name: value for name, value in record.items() if name != key}
        assert f"data set a: {key}: missing key" in problems_of(cube, fewer)
        wrong = problems_of(cube, record | {key: {"no": "value"}})
        assert all("data set a" in text and key in text for text in wrong)
    for change, problem in REFUSED:
        messages = problems_of(cube, record | change)
        assert any(problem in text for text in messages), messages
        assert all("data set a" in text for text in messages)


# Metadata of a cube: what this version writes passes, anything else is named.

PLANS_OF_LAYOUT = [
    make_plan("a", p=(0.8, 0.9), m=(6, 4), models=("likelihood", "posterior")),
    make_plan("b", mixtures=4, mixture_chunk=2, has_labels=False),
    make_plan("c", models=("likelihood", "posterior-full"), baselines=("unsupervised-diagonal",)),
]
CUBE = Path("nowhere/tiny.zarr")
RENDERED = json.dumps(render(PLANS_OF_LAYOUT, {}, draw_inputs)[0])


def metadata() -> dict[str, Any]:
    """Return a copy of the content of the root file of a cube."""
    return json.loads(RENDERED)  # type: ignore[no-any-return]


def layout(entries: object, cube: Path = CUBE) -> list[str]:
    return [str(problem) for problem in module.layout_problems(cube, PLANS_OF_LAYOUT, entries)]


@pytest.mark.parametrize(
    "path", ["a", "a/X", "a/annotations", "a/model", "b/unsupervised/labels", "c/covariances"]
)
def test_every_key_of_an_entry_counts(path: str) -> None:
    """If a key is changed or left out there are problems, and none about another entry."""
    assert layout(metadata()) == []
    entry = metadata()[path]
    for key in entry:
        for change in ("other", None):
            entries = metadata()
            entries[path][key] = change
            if change is None:
                del entries[path][key]
            problems = layout(entries)
            free = {"attributes", "storage_transformers"} if entry["node_type"] == "array" else set()
            # nothing is what these default to
            assert bool(problems) == (change is not None or key not in free), (path, key, change)
            assert all(text.startswith(f"{CUBE}/{path}: ") for text in problems)


# Others would decode objects, or have xarray scale or mask values.
FOREIGN = [{"scale_factor": 2.0}, {"units": 3}, {"flag_values": "0 1"}, {"flag_values": [0, "1"]}, []]


def test_missing_and_unknown_entries_are_all_named(tmp_path: Path) -> None:
    for attributes in FOREIGN:
        (text,) = layout(metadata() | {"a/labels": metadata()["a/labels"] | {"attributes": attributes}})
        assert text.startswith(f"{CUBE}/a/labels: found attributes ")
    entries = metadata()
    entries["a/extra"] = entries.pop("a/labels")
    entries["b/X"] = 3
    assert layout(entries) == [
        f"{CUBE}/a/extra: found a node, expected no such variable",
        *(
            f"{CUBE}/{path}: found no metadata, expected a table of those of this variable or group"
            for path in ("a/labels", "b/X")
        ),
    ]
    (tmp_path / "a").symlink_to(tmp_path)
    assert layout(metadata(), tmp_path) == [f"{tmp_path}/a: found a link, expected a directory of the cube"]


def test_chunks_of_what_grows_may_be_those_at_creation() -> None:
    cases: list[tuple[str, int, object, bool]] = [
        ("a/p", 0, 1, True),  # a cube made with one accuracy that has grown since
        *(("a/p", 0, 3, False), ("a/p", 0, 0, False)),
        ("a/annotations", 3, 4, True),  # made for m = 4
        *(("a/annotations", 3, 7, False), ("a/annotations", 3, True, False), ("a/annotations", 0, 2, False)),
        *(("a/labels", 4, 4, False), ("b/X", 0, 1, False)),
    ]
    for path, dim, length, fits in cases:
        entries = metadata()
        entries[path]["chunk_grid"]["configuration"]["chunk_shape"][dim] = length
        problems = layout(entries)
        assert len(problems) == (not fits), (path, dim, length)
        assert all(text.startswith(f"{CUBE}/{path}: found chunk_grid ") for text in problems)


def test_root_is_what_zarr_itself_would_consolidate(cube: Path) -> None:
    ours = zarr.open_group(cube, mode="r", use_consolidated=True).metadata.consolidated_metadata
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr says that the standard has no consolidated metadata yet
        zarr.consolidate_metadata(cube)
    theirs = zarr.open_group(cube, mode="r", use_consolidated=True).metadata.consolidated_metadata
    assert ours.flattened_metadata.keys() == theirs.flattened_metadata.keys()
    for path, node in theirs.flattened_metadata.items():
        if isinstance(node, zarr.core.metadata.ArrayV3Metadata):
            assert ours.flattened_metadata[path].to_dict() == node.to_dict()
    assert module.read_manifest(cube).plans == {"a": PLAN, "b": DRAWN}


def test_runs_are_appended(cube: Path) -> None:
    module.append_run(cube, RunRecord(commit="abc"))
    module.append_run(cube, RunRecord(commit="def", seconds=1.5))
    assert module.read_manifest(cube).runs == (RunRecord(commit="abc"), RunRecord(commit="def", seconds=1.5))
    assert open_cube(cube).attrs["runs"] == [{"commit": "abc"}, {"commit": "def", "seconds": 1.5}]


def test_what_is_no_cube_is_said_with_what_is_there(tmp_path: Path, cube: Path) -> None:
    document = json.loads((cube / module.ROOT_FILE).read_bytes())
    attributes = document["attributes"]
    cases: dict[str, object] = {
        "[]": "no sweep has written",
        '{"zarr_format": 3, "node_type": "group", "attributes": {}}': "no sweep has written",
        json.dumps(document | {"attributes": attributes | {"format_version": 99}}): "found format version 99",
    }
    for key in ("runs", "datasets", "spec"):
        fewer = {name: value for name, value in attributes.items() if name != key}
        cases[json.dumps(document | {"attributes": fewer})] = key
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name, phrase in {"file": "a file", "none": "nothing", "folder": r"no zarr\.json"}.items():
        with pytest.raises(InputError, match=f"{name}: found {phrase}.*, expected a cube"):
            module.read_manifest(tmp_path / name)
    for content, phrase in cases.items():
        (cube / module.ROOT_FILE).write_text(content)
        with pytest.raises(InputError, match=f"^{cube}: .*{phrase}"):
            module.read_manifest(cube)


def test_gaussians_are_of_format_3_and_as_long_as_those_of_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, cube = with_unions(make_plan("a", models=("conditional-any",))), tmp_path / "tiny.zarr"
    create(cube, [plan], draw_inputs, SPEC)
    assert module.read_manifest(cube).plans == {"a": plan}
    document = json.loads((cube / module.ROOT_FILE).read_bytes())
    attributes = document["attributes"]
    assert attributes["format_version"] == 3
    entry = attributes["datasets"]["a"]
    (union,) = entry["unions"]
    longer_rows = {"a": {**entry, "unions": [union | {"entries": union["entries"] + 1}]}}
    cases = {
        "found format version 2, expected format version 3": {"format_version": 2},
        "found format version 6, expected format version 2 or 3 or 4 or 5": {"format_version": 6},
        "data set a: unions: found": {"datasets": longer_rows},
    }
    for message, change in cases.items():
        (cube / module.ROOT_FILE).write_text(json.dumps(document | {"attributes": attributes | change}))
        with pytest.raises(InputError, match=message):
            module.read_manifest(cube)
    # an earlier release has shorter rows than this one
    (cube / module.ROOT_FILE).write_text(json.dumps(document))
    longer = Room(union["components"] + 1, union["entries"] + 9)
    monkeypatch.setattr(search, "room_for", lambda *_: longer)
    assert module.read_manifest(cube).plans == {"a": plan}


def test_a_record_says_what_bits_depend_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = run_record({"ecoli": ("no file", "no network")})
    assert RunRecord.model_validate(json.loads(json.dumps(record.dump()))) == record
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record.started)
    keys = {"sweep", "python", "numba", "numpy", "scipy", "libc", "cpu", "machine"}
    assert set(record.fingerprint) == keys
    assert fingerprint() == record.fingerprint
    # a wheel knows what it was built from
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "storage" / "provenance.py"))
    assert run_record({}).commit == ""
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "commit.txt").write_text("0123abc-dirty\n")
    assert run_record({}).commit == "0123abc-dirty"


# Variables against the table they are promised in.

RESULTS = result_names(make_plan(), ["likelihood"])
GRID = {"p": (0.9, 0.8), "m": (4, 9), "replicates": 4, "replicate_chunk": 2, "model_chunk": 1}
GRID |= {"models": ("likelihood", "posterior")}

# Type, fill value, and length and chunk along each dimension; those of CELL are fewer in baselines.
PROMISED = """
mixture int64 -1 mixture:6/6
p float64 nan p:2/2
m int64 -1 m:2/2
m_over_n float64 nan m:2/2
replicate int64 -1 replicate:4/4
model string '' model:2/2
field string '' field:3/3
X float64 nan mixture:6/3 sample:5/5 feature:2/2
labels_true int16 -1 mixture:6/3 sample:5/5
log_likelihood float64 nan CELL restart:3/3
labels int16 -1 CELL sample:5/5
centroids float64 nan CELL cluster:2/2 feature:2/2
covariances float64 nan CELL cluster:2/2
best_restart int32 -1 CELL
restarts_done int32 0 CELL
seconds float64 nan CELL
cpu_seconds float64 nan CELL
status int8 0 CELL
annotations int32 -1 mixture:6/3 p:2/1 m:2/1 replicate:4/2 annotation:9/9 field:3/3
"""


def specs_by_path(**changes: object) -> dict:
    return {spec.path: spec for spec in array_specs(make_plan(**GRID | changes))}


def test_arrays_are_those_promised() -> None:
    expected, arrays = {}, {}
    for name, _, form in (row.partition(" ") for row in PROMISED.strip().splitlines()):
        expected[f"a/{name}"] = form.replace("CELL", "mixture:6/3 p:2/1 m:2/1 replicate:4/2 model:2/1")
        if "CELL" in form:
            expected[f"a/unsupervised/{name}"] = form.replace("CELL", "mixture:6/3")
    for path, spec in specs_by_path(mixtures=6, mixture_chunk=3).items():
        parts = zip(spec.dims, spec.shape, spec.chunks, strict=True)
        words = [f"{dim}:{length}/{chunk}" for dim, length, chunk in parts]
        arrays[path] = " ".join([spec.variable.dtype, repr(spec.variable.fill), *words])
    assert arrays == expected
    assert coordinate_values(make_plan(**GRID))["m_over_n"].tolist() == [4 / 5, 9 / 5]
    alone = specs_by_path(models=(), p=(), m=(), has_labels=False)
    assert set(alone) == {"a/X"} | {f"a/unsupervised/{name}" for name in RESULTS}
    pooled = specs_by_path(n_annotations=9, annotations_checksum="c0ffee")
    assert pooled.keys() - specs_by_path().keys() == {"a/annotation_pool"}
    assert pooled["a/annotation_pool"].dims == ("pooled", "field")
    assert pooled["a/annotation_pool"].chunks == (9, 3)
    assert pooled["a/p"].variable.text == TOLD_TEXT


SCORES = {"held_out", "held_out_right"}


@pytest.mark.parametrize(
    ("last", "held_out", "axes", "more"),
    [
        *(("posterior-common", False, 0, set()), ("posterior-diagonal", False, 1, set())),
        *(("posterior-auto", held_out, 2, SCORES | {"covariance_shape"}) for held_out in (False, True)),
        ("posterior-tied", True, 2, SCORES),
    ],
)
def test_a_node_has_what_its_models_need(last: str, held_out: bool, axes: int, more: set[str]) -> None:
    baselines = ("unsupervised", "unsupervised-diagonal", "unsupervised-full")
    changes = {"models": ("likelihood", last), "held_out": held_out, "baselines": baselines}
    specs, plan = specs_by_path(**changes), make_plan(**GRID | changes)
    for n, node in [(axes, "a"), *((n, f"a/{model}") for n, model in enumerate(baselines))]:
        assert specs[f"{node}/covariances"].dims[-1 - n :] == ("cluster", "feature", "feature_2")[: 1 + n]
    *names, status = result_names(plan, plan.models)
    assert {*names, status} == {*RESULTS, *more}
    assert status == "status"
    # blocks of other models have fewer, and baselines none
    fewer = more - {"covariance_shape"} if held_out else set()
    assert set(result_names(plan, ["likelihood"])) == {*RESULTS, *fewer}
    assert result_names(plan, ["unsupervised"]) == RESULTS
    assert {path for path in specs if "held_out" in path or "shape" in path} == {f"a/{name}" for name in more}
    candidates = (*(CANDIDATES if more else ()), *(("common",) if held_out else ()))
    assert tuple(coordinate_values(plan).get("candidate", ())) == candidates
    assert all(specs[f"a/{name}"].shape[4:] == (len(candidates),) for name in more & SCORES)
    if "covariance_shape" in more:
        attributes = specs["a/covariance_shape"].variable.attributes
        assert attributes["flag_values"] == [0, 1, 2, 3, 4]
        assert attributes["flag_meanings"] == "spherical common diagonal tied full"
