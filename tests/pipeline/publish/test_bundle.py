"""Bundles have the same content everywhere, and bad ones are refused."""

import hashlib
import json
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr
from processes.commandline import refuse, succeed, sweep
from processes.sweeping import assert_same_bits, write_spec

from sweep_clustering.pipeline.publish.bundle import MANIFEST, SCORES, check_bundle, write_bundle
from sweep_clustering.pipeline.scoring.raw import stored_scores
from sweep_clustering.storage.archive import Archive, write_zip
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.sweeps.errors import InputError, present

pytestmark = pytest.mark.usefixtures("without_sections_module")

SWEEP = """name = "small"
seed = 5
[grid]
datasets = ["iris", {name = "mix", mixture = {count = 2, n_samples = 30, n_features = 3, n_clusters = [2]}}]
p = [0.9, 0.8]
m = [10]
replicates = 2
models = ["unsupervised", "likelihood"]
restarts = 2
[search]
generations = 3
"""


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secret-folder")
    succeed("submit", write_spec(folder, SWEEP), "--results", folder, "--workers", "0")
    return folder / "small.zarr"


@pytest.fixture(scope="module")
def bundle(cube: Path) -> Path:
    return write_bundle(cube, cube.with_name("small.zip"))


def members(path: Path) -> dict[str, bytes]:
    archive = Archive(path)
    return {name: archive.read(name) for name in archive.sizes}


def test_the_cube_of_a_bundle_is_that_of_the_run(cube: Path, bundle: Path) -> None:
    assert_same_bits(cube, bundle)
    check_bundle(bundle)
    assert len(present(stored_scores(bundle)).cells) == 2 * 2 + 1 + 2 * (2 * 2 + 1)
    assert read_manifest(bundle).plans.keys() == {"iris", "mix_k2"}
    succeed("export", bundle, "--format", "raw", "--out", cube.with_name("raw"))
    assert (cube.parent / "raw" / "scores.csv").read_bytes() == Archive(bundle).read(SCORES)


@pytest.mark.filterwarnings("ignore")  # xarray's own, of stores without consolidated metadata
def test_xarray_alone_opens_the_cube_in_a_bundle_without_unpacking(bundle: Path) -> None:
    tree = xr.open_datatree(f"zip::zip://small.zarr.zip::{bundle}", engine="zarr", chunks={})
    assert tree["iris"]["labels"].shape == (2, 1, 2, 1, 150)
    assert int(tree["iris"]["status"].sum()) == 4


def test_the_same_cube_gives_the_same_bytes_without_a_trace_of_the_machine(
    cube: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(cube, tmp_path / "other.zarr")  # the copy lacks the folder of its run
    (tmp_path / "other.zarr" / "private.txt").write_text("not of the cube")
    monkeypatch.chdir(tmp_path)
    Path("another-name.zip").touch()
    result = succeed("bundle", "other.zarr", "--out", "another-name.zip", "--force")
    assert result.stdout == "another-name.zip\n"
    assert (tmp_path / "another-name.zip").read_bytes() == bundle.read_bytes()
    content = bundle.read_bytes()
    for trace in (socket.gethostname(), "secret-folder", str(Path.home()), "private.txt", "other.zarr"):
        assert f'{trace}"'.encode() not in content
        assert f"/{trace}".encode() not in content
    assert b"secret-folder" not in content


def test_scores_are_in_csv_and_parquet(bundle: Path, tmp_path: Path) -> None:
    files = members(bundle)
    for name in (SCORES, "scores.parquet"):
        (tmp_path / name).write_bytes(files[name])
    text = pd.read_csv(tmp_path / SCORES, comment="#")
    table = pd.read_parquet(tmp_path / "scores.parquet")
    assert list(text.columns) == list(table.columns)
    assert text["nmi"].tolist() == table["nmi"].tolist()


def test_nothing_is_overwritten_and_nothing_is_left_behind(cube: Path, bundle: Path, tmp_path: Path) -> None:
    before = bundle.read_bytes()
    problems = refuse("bundle", cube)
    assert f"{bundle}: found something there already, expected a new name (--force overwrites it)" in (
        problems
    )
    assert sweep("bundle", tmp_path / "none.zarr", "--out", tmp_path / "b.zip").exit_code == 2
    assert list(tmp_path.iterdir()) == []
    assert bundle.read_bytes() == before
    assert [path.name for path in cube.parent.iterdir() if path.name.startswith(".")] == []


def manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, bytes]], None]:
    """Change the manifest."""

    def of_members(content: dict[str, bytes]) -> None:
        document = json.loads(content[MANIFEST])
        change(document)
        content[MANIFEST] = json.dumps(document).encode()

    return of_members


BAD: dict[str, tuple[Callable[[dict[str, bytes]], Any], str]] = {
    "newer": (
        manifest(lambda document: document.update(format_version=2, purpose="unknown")),
        "member manifest.json: found 'sweep bundle' 2, expected 'sweep bundle' of format version 1",
    ),
    "another format": (lambda content: content.update({MANIFEST: b"[]"}), "found no table, expected"),
    "no JSON": (lambda content: content.update({MANIFEST: b"{"}), "manifest.json: found no JSON"),
    "no manifest": (lambda content: content.pop(MANIFEST), "found no member manifest.json"),
    "other bytes": (
        lambda content: content.update({SCORES: content[SCORES].replace(b"iris", b"irIs", 1)}),
        " bytes with sha256 ",
    ),
    "more": (
        lambda content: content.update({"more.exe": b""}),
        "member more.exe: found a member, expected a member that the manifest lists",
    ),
    "less": (lambda content: content.pop("small.zarr.zip"), "member small.zarr.zip: found nothing"),
    "not listed": (
        manifest(lambda document: document["files"].pop(SCORES)),
        "member scores.csv: found a member, expected a member that the manifest lists",
    ),
    "wrong type": (manifest(lambda document: document.update(files=3)), "files: found 3, expected a table"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bundle_that_is_not_as_its_manifest_says_is_refused(
    bundle: Path, tmp_path: Path, fault: str
) -> None:
    change, message = BAD[fault]
    content = members(bundle)
    change(content)
    path = tmp_path / "bad.zip"
    write_zip(path, content.items())
    with pytest.raises(InputError) as caught:
        check_bundle(path)
    (problem,) = map(str, caught.value.problems)
    assert message in problem
    assert problem in refuse("report", path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "verify", "merge", "board", "cite", "compare", "export"])
def test_the_hashes_of_a_bundle_are_checked_once(
    cube: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    names, parts = list[str](), Archive.parts

    def noted(archive: Archive, name: str) -> Iterator[bytes]:
        names.append(name)
        return parts(archive, name)

    monkeypatch.setattr(Archive, "parts", noted)
    options = {"verify": ["--sample", 1], "compare": [cube], "merge": ["--out", tmp_path / "merged.zarr"]}
    options |= {name: ["--out", tmp_path / name] for name in ("report", "board", "export")}
    succeed(command, bundle, *options.get(command, []))
    assert names.count("small.zarr.zip") == 1
    names.clear()
    for refusing in ("repair", "open"):
        assert sweep(refusing, bundle).exit_code == 2
    assert names == []


def test_scores_that_do_not_follow_from_the_cells_are_found(bundle: Path, tmp_path: Path) -> None:
    content = members(bundle)
    lines = content[SCORES].decode().splitlines(keepends=True)
    columns = next(line for line in lines if not line.startswith("#")).strip().split(",")
    values = lines[-1].strip().split(",")
    honest, values[columns.index("adjusted_rand")] = values[columns.index("adjusted_rand")], "0.999"
    content[SCORES] = "".join([*lines[:-2], ",".join(values) + "\n"]).encode()
    listing = {"size": len(content[SCORES]), "sha256": hashlib.sha256(content[SCORES]).hexdigest()}
    manifest(lambda document: document["files"].update({SCORES: listing}))(content)
    forged = tmp_path / "forged.zip"
    write_zip(forged, content.items())
    result = sweep("verify", forged, "--sample", 100)
    assert result.exit_code == 1
    first, *differences = result.stdout.splitlines()
    assert first == f"{forged}: 15 of 15 cells were computed again: 13 equal, 2 different."
    assert sorted(line.split(": ", 2)[2] for line in differences) == [
        f"adjusted_rand 0.999 in scores.csv, {honest} here",
        "nothing in scores.csv, done here",
    ]
    result = sweep("verify", bundle, "--sample", 100)
    assert result.stdout == f"{bundle}: 15 of 15 cells were computed again, and all are equal.\n"


def test_a_cube_in_a_zip_is_read_but_not_changed(cube: Path, bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        inner = Path(archive.extract("small.zarr.zip", tmp_path))
    assert_same_bits(cube, inner)
    for command in ("repair", "open"):
        assert "found a bundle, which is only read, expected a cube in a folder" in refuse(command, bundle)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(bundle.read_bytes()[:-1000])
    assert f"{broken}: found a broken file" in refuse("report", broken)
    assert sorted(tmp_path.iterdir()) == [broken, inner]
