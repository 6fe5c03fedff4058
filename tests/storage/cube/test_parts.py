"""Several cubes are read as one, which equals the same sweep in one run."""

import shutil
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from cubes.small import files, result_files
from processes.commandline import refuse, succeed
from processes.sweeping import write_spec

import sweep_clustering.sweeps.file.spec as parts_room
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_parts
from sweep_clustering.sweeps.errors import InputError

SWEEP = """name = "tiny"
seed = 5
[grid]
datasets = ["iris", {name = "mix", mixture = {count = 5, n_samples = 40, n_features = 3, n_clusters = [2]}}]
p = [0.9, 0.8]
m = [10, 30]
replicates = 2
models = ["unsupervised", "likelihood"]
restarts = 2
[search]
population = 3
offspring = 2
generations = 1
"""
OF_TIME = ("seconds", "cpu_seconds")


def submit(folder: Path, *options: str, text: str = SWEEP) -> None:
    folder.mkdir(exist_ok=True)
    succeed("submit", write_spec(folder, text), "--results", folder, "--workers", "0", *options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of `whole` and its three `parts`: iris and mixture 2, mixtures 0 and 3, and 1 and 4."""
    there = tmp_path_factory.mktemp("several")
    submit(there / "whole")
    for number in (1, 2, 3):
        submit(there / "parts", "--part", f"{number}/3")
    return there


def parts(folder: Path) -> list[Path]:
    return sorted((folder / "parts").glob("*.zarr"))


def same_bits(tree: xr.DataTree, other_tree: xr.DataTree) -> int:
    """Compare all values of two trees except times, and return the number of arrays."""
    assert [node.path for node in tree.subtree] == [node.path for node in other_tree.subtree]
    count = 0
    for ours, theirs in zip(tree.subtree, other_tree.subtree, strict=True):
        assert set(ours.variables) == set(theirs.variables)
        for name in set(ours.variables) - set(OF_TIME):
            assert ours[name].dims == theirs[name].dims
            assert ours[name].dtype == theirs[name].dtype
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=f"{ours.path}/{name}")
            count += 1
    return count


def test_parts_opened_as_one_are_the_whole_bit_for_bit(folder: Path) -> None:
    whole, joined = open_cube(folder / "whole" / "tiny.zarr"), open_cube(parts(folder))
    assert same_bits(joined, whole) > 40
    assert bool((joined["mix_k2"]["status"] == 1).all())
    assert same_bits(open_cube(parts(folder)[::-1]), whole) > 40  # the order does not matter
    manifests = [read_parts(cubes).manifest for cubes in (parts(folder), folder / "whole" / "tiny.zarr")]
    assert manifests[0].plans == manifests[1].plans
    assert manifests[0].spec == manifests[1].spec


def test_nothing_is_read_before_it_is_asked_for(folder: Path) -> None:
    labels = open_cube(parts(folder))["mix_k2"]["labels"].variable
    assert labels.chunks is not None
    assert sum(labels.chunks[0]) == 5
    assert len(labels.chunks[0]) == 3


def test_parts_that_are_missing_are_said(folder: Path) -> None:
    first, _, last = parts(folder)
    with pytest.warns(UserWarning, match="1 of 3 parts are missing: 2"):
        tree = open_cube([first, last])
    assert tree["mix_k2"]["mixture"].values.tolist() == [1, 2, 4]
    assert "1 of 3 parts are missing: 2" in succeed("status", first, last).stdout


def test_commands_find_the_parts_of_a_sweep_file_and_read_them_as_one(folder: Path, tmp_path: Path) -> None:
    spec = folder / "parts" / write_spec(folder / "parts", SWEEP).name
    stdout = succeed("status", spec, "--results", folder / "parts").stdout
    total = next(line for line in stdout.splitlines() if line.startswith("total"))
    assert total.split() == ["total", "54", "54", "0", "0"]
    succeed("export", *parts(folder), "--out", tmp_path / "parts")
    succeed("export", folder / "whole" / "tiny.zarr", "--out", tmp_path / "whole")
    for name in ("labels-iris.csv", "labels-mix_k2.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    stderr = refuse("verify", spec, "--results", folder / "parts")
    assert "its parts are" in stderr
    succeed("submit", spec, "--results", folder / "parts", "--part", "2/3", "--workers", "0")


@pytest.mark.usefixtures("without_sections")
def test_a_report_of_parts_is_that_of_the_whole(folder: Path, tmp_path: Path) -> None:
    succeed("report", *parts(folder), "--out", tmp_path / "parts", "--json")
    succeed("report", folder / "whole" / "tiny.zarr", "--out", tmp_path / "whole", "--json")
    ours, theirs = ((tmp_path / name / "winners.csv").read_text() for name in ("parts", "whole"))
    assert ours == theirs


OTHERS = {
    "seed": (SWEEP.replace("seed = 5", "seed = 6"), ("seed: found 6, expected 5",)),
    "two at once": (
        SWEEP.replace("restarts = 2", "restarts = 3").replace("m = [10, 30]", "m = [10, 20]"),
        ("grid.restarts: found 3", "grid.m: found"),
    ),
    "name": (SWEEP.replace('"tiny"', '"other"'), ("name: found 'other', expected 'tiny'",)),
    "recipe": (SWEEP.replace("n_features = 3", "n_features = 4"), ("data set mix_k2, n_features: found 4",)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_parts_of_another_sweep_are_refused(folder: Path, tmp_path: Path, case: str) -> None:
    text, problems = OTHERS[case]
    submit(tmp_path, "--part", "2/3", text=text)
    stderr = refuse("report", parts(folder)[0], *tmp_path.glob("*.zarr"), "--out", tmp_path / "report")
    for problem in problems:
        assert problem in stderr
    assert not (tmp_path / "report").exists()


def test_cells_that_two_have_are_refused(folder: Path) -> None:
    first, second, _ = parts(folder)
    for cubes, message in (
        ([first, folder / "whole" / "tiny.zarr"], "data set iris: found there as well"),
        ([second, folder / "whole" / "tiny.zarr"], "data set mix_k2, mixtures 0, 3: found there as well"),
    ):
        stderr = refuse("status", *cubes)
        assert message in stderr


def test_another_version_is_refused(folder: Path, tmp_path: Path) -> None:
    first, second, _ = parts(folder)
    copy = tmp_path / second.name
    shutil.copytree(second, copy)
    root = copy / "zarr.json"
    version = str(read_parts(second).manifest.runs[-1].fingerprint["numba"])
    root.write_text(root.read_text().replace(f'"numba": "{version}"', '"numba": "0.1"'))
    with pytest.raises(InputError, match=r"version of numba: found '0\.1', expected"):
        open_cube([first, copy])


def test_what_is_no_cube_is_refused_with_all_others(tmp_path: Path) -> None:
    stderr = refuse("report", tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert "a.zarr: found no such directory" in stderr
    assert "b.zarr: found no such directory" in stderr
    with pytest.raises(InputError, match="at least one"):
        open_cube([])
    refuse("export", tmp_path, tmp_path / "b", "--scores")


def with_mixtures(count: int) -> str:
    return SWEEP.replace("count = 5", f"count = {count}").replace('"iris", ', "")


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two parts of four mixtures in `parts` and eight mixtures in `whole`."""
    there = tmp_path_factory.mktemp("halves")
    submit(there / "whole", text=with_mixtures(8))
    for number in (1, 2):
        submit(there / "parts", "--part", f"{number}/2", text=with_mixtures(4))
    return there


def mixtures_of(cube: Path) -> list[int]:
    return open_cube(cube)["mix_k2"]["mixture"].values.tolist()


def test_parts_grow_in_mixtures_and_keep_what_they_have(halves: Path, tmp_path: Path) -> None:
    shutil.copytree(halves / "parts", tmp_path / "parts")
    first, second = parts(tmp_path)
    assert mixtures_of(first) == [0, 2]
    assert mixtures_of(second) == [1, 3]
    before = result_files(first)
    # the last of them grows first
    for number, count in ((2, 6), (1, 8)):
        submit(tmp_path / "parts", "--part", f"{number}/2", text=with_mixtures(8))
        succeed("status", first, second)
        assert len(open_cube([first, second])["mix_k2"]["mixture"]) == count
    assert mixtures_of(first) == [0, 2, 4, 6]
    assert mixtures_of(second) == [1, 3, 5, 7]
    assert result_files(first).items() >= before.items()
    assert same_bits(open_cube([second, first]), open_cube(halves / "whole" / "tiny.zarr")) > 20
    joined, whole = read_parts([first, second]).manifest, read_parts(halves / "whole" / "tiny.zarr").manifest
    assert joined.plans == whole.plans
    assert joined.spec == whole.spec
    succeed("verify", second, "--sample", "10")


def test_growth_that_one_part_has_no_room_for_is_refused_before_any_of_them_grows(
    halves: Path, tmp_path: Path
) -> None:
    shutil.copytree(halves / "parts", tmp_path / "parts")
    spec = write_spec(tmp_path, with_mixtures(7))
    before = files(tmp_path / "parts")
    for number in (1, 2):
        stderr = refuse(
            "submit", spec, "--results", tmp_path / "parts", "--part", f"{number}/2", "--workers", 0
        )
        assert "tiny.part-2-of-2.zarr: data set mix_k2, mixtures: found 3" in stderr
        assert "expected a multiple of 2" in stderr
    assert files(tmp_path / "parts") == before


def test_parts_of_an_earlier_release_go_on_and_are_refused_whole_if_mixtures_are_added(
    tmp_path: Path,
) -> None:
    with patch("sweep_clustering.sweeps.file.spec.dealt", parts_room.dealt_in_ranges):
        for number in (1, 2):
            submit(tmp_path / "parts", "--part", f"{number}/2", text=with_mixtures(4))
    first, second = parts(tmp_path)
    assert mixtures_of(first) == [0, 1]
    assert mixtures_of(second) == [2, 3]
    submit(
        tmp_path / "parts", "--part", "1/2", text=with_mixtures(4).replace("replicates = 2", "replicates = 3")
    )
    assert open_cube(first)["mix_k2"].sizes["replicate"] == 3
    before = files(tmp_path / "parts")
    spec = write_spec(tmp_path, with_mixtures(8))
    for number in (1, 2):
        stderr = refuse(
            "submit", spec, "--results", tmp_path / "parts", "--part", f"{number}/2", "--workers", 0
        )
        for there in ("tiny.part-1-of-2: data set mix_k2", "tiny.part-2-of-2: data set mix_k2"):
            assert there in stderr
    assert files(tmp_path / "parts") == before
    assert mixtures_of(first) == [0, 1]
