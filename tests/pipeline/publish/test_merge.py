"""Merged cubes of several people have the files of one run, and foreign ones are refused."""

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import zarr
from processes.commandline import refuse, succeed, sweep
from processes.sweeping import assert_same_bits

from sweep_clustering.storage.cube.blocks import UNPROMISED, BlockStore
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.provenance import class_code

SWEEP = """name = "shared"
seed = 5
[grid]
datasets = ["iris", {name = "mix", mixture = {count = 3, n_samples = 30, n_features = 3, n_clusters = [2]}}]
p = [0.9, 0.8]
m = [10, 20]
replicates = 2
models = ["unsupervised", "likelihood", "posterior-full"]
methods = ["k-means", "pckmeans"]
restarts = 2
[search]
generations = 3
"""
Change = Callable[[dict[str, Any]], object]


def submit(folder: Path, name: str, change: Change = lambda document: None) -> Path:
    """Run the sweep with some change in a folder of its own, and return its cube."""
    document = tomllib.loads(SWEEP)
    change(document)
    results = folder / name
    results.mkdir()
    (results / "shared.toml").write_text(tomli_w.dumps(document))
    succeed("submit", results / "shared.toml", "--results", results, "--workers", "0")
    return results / f"{document['name']}.zarr"


def grid(**values: object) -> Change:
    """Change values of the grid, and leave out those that are empty."""

    def change(document: dict[str, Any]) -> None:
        filled_values = {key: value for key, value in (document["grid"] | values).items() if value != []}
        document["grid"] = filled_values

    return change


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    return submit(folder, "whole")


def contents(cube: Path) -> dict[str, bytes]:
    """Return the files of a cube without times and history."""
    files = {path.relative_to(cube).as_posix(): path for path in cube.rglob("*") if path.is_file()}
    return {
        key: path.read_bytes()
        for key, path in files.items()
        if not (key.split("/")[-2:-1] and key.split("/")[-2] in UNPROMISED) and key != "zarr.json"
    }


def assert_same_files(first: Path, second: Path) -> None:
    ours, theirs = contents(first), contents(second)
    assert ours.keys() == theirs.keys()
    assert [key for key in ours if ours[key] != theirs[key]] == []
    roots = [json.loads((cube / "zarr.json").read_text()) for cube in (first, second)]
    for root in roots:
        assert root["attributes"].pop("runs")
    assert roots[0] == roots[1]


HALVES: dict[str, tuple[Change, Change]] = {
    "models and methods": (
        grid(models=["unsupervised", "likelihood"], methods=["k-means"]),
        grid(models=["posterior-full"], methods=["pckmeans"]),
    ),
    "a method and all else": (grid(methods=["k-means"]), grid(models=[], methods=["pckmeans"])),
    "p": (grid(p=[0.9]), grid(p=[0.8])),
    "m": (grid(m=[10]), grid(m=[20])),
    "data sets": (grid(datasets=["iris"]), lambda document: document["grid"]["datasets"].pop(0)),
    "replicates and mixtures": (grid(replicates=1), lambda document: None),
    "the same": (lambda document: None, lambda document: None),
}


@pytest.mark.slow
@pytest.mark.parametrize("half", HALVES)
def test_two_halves_have_the_files_of_one_run(folder: Path, whole: Path, tmp_path: Path, half: str) -> None:
    cubes = [submit(tmp_path, name, change) for name, change in zip("ab", HALVES[half], strict=True)]
    succeed("merge", *cubes, "--out", tmp_path / "both.zarr")
    assert_same_files(tmp_path / "both.zarr", whole)
    assert_same_bits(tmp_path / "both.zarr", whole)
    assert len(read_manifest(tmp_path / "both.zarr").runs) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "both.zarr"]


@pytest.mark.slow
def test_halves_of_two_machines_keep_the_class_of_each_cell(tmp_path: Path) -> None:
    cubes = [submit(tmp_path, name, grid(p=[p], datasets=["iris"])) for name, p in (("a", 0.9), ("b", 0.8))]
    (here,), elsewhere = read_manifest(cubes[0]).machines.values(), "abacus, numpy beads, 0badbead"
    BlockStore(cubes[1]).name_machines([elsewhere])
    for path in cubes[1].rglob("machine"):
        zarr.open_array(path, mode="r+")[...] = class_code(elsewhere)
    succeed("merge", *cubes, "--out", tmp_path / "both.zarr")
    tree = open_cube(tmp_path / "both.zarr")
    classes = {int(code): text for code, text in tree.attrs["machines"].items()}
    assert classes == {class_code(here): here, class_code(elsewhere): elsewhere}
    for p, text in ((0.9, here), (0.8, elsewhere)):
        assert (tree["iris"]["machine"].sel(p=p).values == class_code(text)).all()


@pytest.fixture(scope="module")
def small(folder: Path) -> Path:
    """Return the cube of a part of the whole, which takes less time."""
    change = grid(datasets=["iris"], p=[0.9], m=[10], methods=[], models=["likelihood"])
    return submit(folder, "small", change)


@pytest.mark.usefixtures("without_sections")
def test_a_bundle_and_a_cube_become_one_that_grows(folder: Path, small: Path, tmp_path: Path) -> None:
    assert sweep("bundle", small, "--out", tmp_path / "small.zip").exit_code == 0
    second = submit(
        tmp_path, "other", grid(datasets=["iris"], p=[0.8, 0.9], m=[10], methods=["pckmeans"], models=[])
    )
    shared = tmp_path / "shared.zarr"
    merged = succeed("merge", tmp_path / "small.zip", second, "--out", shared)
    assert merged.stdout == f"{shared}: 6 of 8 cells are done, from 2 cubes\n"
    document = tomllib.loads(SWEEP)
    document["grid"] |= {
        "datasets": ["iris"],
        "p": [0.9, 0.8],
        "m": [10],
        "methods": ["pckmeans"],
        "models": ["likelihood"],
    }
    (tmp_path / "shared.toml").write_text(tomli_w.dumps(document))
    grown = succeed("submit", tmp_path / "shared.toml", "--results", tmp_path, "--workers", "0")
    assert "8 of 8 cells done" in grown.output
    assert sweep("verify", shared, "--sample", "4").exit_code == 0


REFUSED: dict[str, tuple[Change, str]] = {
    "seed": (lambda document: document.update(seed=6), "b.zarr: seed: found 6, expected 5, as in a.zarr"),
    "restarts": (grid(restarts=3), "b.zarr: grid.restarts: found 3, expected 2, as in a.zarr"),
    "search": (
        lambda document: document["search"].update(generations=4),
        "b.zarr: search.generations: found 4, expected 3, as in a.zarr",
    ),
    "scale": (
        lambda document: document.update(data={"scale": "standard"}),
        "b.zarr: data set iris, scale: found 'standard', expected 'none', as in a.zarr",
    ),
    "design": (grid(design=["near"]), "b.zarr: grid.design: found near, expected uniform, as in a.zarr"),
}


def test_names_that_no_command_takes_again_are_refused(small: Path, tmp_path: Path) -> None:
    for command, suffix in (("merge", ".zarr"), ("bundle", ".zip")):
        problems = refuse(command, small, "--out", tmp_path / "new.tar")
        assert f"--out: found {tmp_path}/new.tar, expected a name that ends with {suffix}" in problems
    assert list(tmp_path.iterdir()) == []


def refusal(tmp_path: Path, *cubes: Path) -> list[str]:
    """Return the problems of a merge without the folder, and check that nothing is written."""
    before = sorted(tmp_path.iterdir())
    problems = refuse("merge", *cubes, "--out", tmp_path / "both.zarr")
    assert sorted(tmp_path.iterdir()) == before
    return [line.strip() for line in problems.replace(f"{tmp_path}/", "").splitlines()[1:]]


@pytest.mark.parametrize("name", REFUSED)
def test_cubes_of_other_sweeps_are_refused_with_the_differences(
    small: Path, tmp_path: Path, name: str
) -> None:
    change, message = REFUSED[name]

    def both(document: dict[str, Any]) -> None:
        grid(datasets=["iris"], p=[0.8], m=[10], methods=[], models=["likelihood"])(document)
        change(document)

    shutil.copytree(small, tmp_path / "a.zarr")
    shutil.copytree(submit(tmp_path, "other", both), tmp_path / "b.zarr")
    problems = refusal(tmp_path, tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert problems[0].startswith(message)
    assert all(problem.startswith("b.zarr: ") for problem in problems)


def test_other_solvers_and_values_are_refused_in_one_report(small: Path, tmp_path: Path) -> None:
    for name in ("a.zarr", "b.zarr", "c.zarr"):
        shutil.copytree(small, tmp_path / name)
    root = tmp_path / "b.zarr" / "zarr.json"
    document = json.loads(root.read_text())
    versions = document["attributes"]["runs"][0]["fingerprint"]
    versions |= {"numba": "0.1", "solver of likelihood": "77"}
    root.write_text(json.dumps(document))
    cubes = [tmp_path / name for name in ("a.zarr", "b.zarr", "c.zarr")]
    first, second, *_ = refusal(tmp_path, *cubes)
    assert first.startswith("b.zarr: last run, version of numba: found '0.1', expected ")
    assert (
        second == "b.zarr: last run, version of solver of likelihood: found '77', expected '1', as in a.zarr"
    )
    store = BlockStore(cubes[2])
    block = next(read_manifest(cubes[2]).plans["iris"].blocks())
    values = store.read(block)
    store.clear(block, "status")
    store.clear(block, "labels")
    values["labels"][0, 0] ^= 1
    values["status"][:] = DONE
    store.write(block, values)
    (problem,) = refusal(tmp_path, cubes[0], cubes[2])
    assert problem == (
        "c.zarr: cell iris/p=0.9/m=10/replicate=0/likelihood: found other labels, expected the values of the"
        " cubes before it"
    )


def test_what_is_there_is_never_replaced(small: Path, tmp_path: Path) -> None:
    (tmp_path / "both.zarr").mkdir()
    (problem,) = refusal(tmp_path, small)
    assert problem == "both.zarr: found something there already, expected a name not in use"
    (tmp_path / "both.zarr").rmdir()
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    (problem,) = refusal(tmp_path, small, tmp_path / "cut.zip")
    assert problem.startswith("cut.zip: found a broken file")


def test_numbers_of_annotations_that_are_equal_are_written_in_one_way(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "a.zarr")
    change = grid(datasets=["iris"], p=[0.9], m=[20, "0.066667N"], methods=[], models=["likelihood"])
    cube = submit(tmp_path, "other", change)
    (problem,) = refusal(tmp_path, tmp_path / "a.zarr", cube)
    assert problem.startswith("data set iris: m: found 10, 20, 0.066667N, two of which are 10")
