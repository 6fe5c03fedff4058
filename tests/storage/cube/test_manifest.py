"""The root file: what it holds, what is refused, how runs are recorded."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import zarr
from cubes.small import SPEC, draw_inputs, make_plan
from processes.crash import crash_everywhere

from storage.cube.cube import create, open_cube
from storage.cube.manifest import ROOT_FILE, append_run, read_manifest
from storage.provenance import RunRecord
from sweeps.errors import InputError

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


def test_plans_and_spec_come_back_exactly(cube: Path) -> None:
    manifest = read_manifest(cube)
    assert manifest.plans == {"a": PLAN}
    assert manifest.spec == SPEC
    assert manifest.runs == ()


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
    edit(cube, lambda root: root["attributes"].update(format_version=99))
    with pytest.raises(InputError, match="found format version 99, expected format version 2"):
        read_manifest(cube)


@pytest.mark.parametrize("key", ["spec", "datasets", "runs"])
def test_a_damaged_manifest_is_refused(cube: Path, key: str) -> None:
    edit(cube, lambda root: root["attributes"].pop(key))
    with pytest.raises(InputError, match=f"damaged manifest.*{key}"):
        read_manifest(cube)


def test_fields_of_another_release_are_refused(cube: Path) -> None:
    edit(cube, lambda root: root["attributes"]["datasets"]["a"].pop("checksum"))
    with pytest.raises(InputError, match="data set a: checksum: found nothing, expected this key"):
        read_manifest(cube)


def test_arrays_of_objects_are_refused_before_anything_is_decoded(cube: Path) -> None:
    edit(cube, lambda r: r["consolidated_metadata"]["metadata"]["a/model"].update(data_type="object"))
    with pytest.raises(InputError, match='a/model: found type "object", expected "string"'):
        open_cube(cube)
