"""Cubes that were made to do harm are refused before anything is decoded, followed or waited for."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cubes.small import SPEC, draw_inputs, filled_cube, make_plan

from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import grow, open_cube
from sweep_clustering.storage.cube.manifest import ROOT_FILE, append_run, read_manifest
from sweep_clustering.storage.files import read_regular
from sweep_clustering.storage.provenance import RunRecord
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.sweeps.errors import InputError

PLAN = make_plan("a", p=(0.8, 0.9), models=("likelihood", "posterior"))
HUGE = 10**15
Document = dict[str, Any]


@pytest.fixture(scope="module")
def good_cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_cube(tmp_path_factory.mktemp("good") / "tiny.zarr", [PLAN])


@pytest.fixture
def cube(good_cube: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good_cube, tmp_path / "tiny.zarr"))


def edit(cube: Path, change: Callable[[Document], object]) -> None:
    document = json.loads((cube / ROOT_FILE).read_bytes())
    change(document)
    (cube / ROOT_FILE).write_text(json.dumps(document))


def entry(document: Document, path: str) -> Document:
    metadata: Document = document["consolidated_metadata"]["metadata"][path]
    return metadata


PICKLE = [{"name": "numcodecs.pickle", "configuration": {}}]
CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}]


def update(*path: str, **changes: object) -> Callable[[Document], None]:
    """Change an array of the cube, or with a path of keys the attributes of the root."""

    def change(document: Document) -> None:
        place = entry(document, path[0]) if "/" in path[0] else document["attributes"]
        for key in path["/" in path[0] :]:
            place = place[int(key)] if key.isdecimal() else place[key]
        place.update(changes)

    return change


X, LABELS, GRID = "a/X", "a/labels", ("chunk_grid", "configuration")
A, SPEC_OF_CUBE = ("datasets", "a"), ("spec",)
CHANGES: list[tuple[Callable[[Document], object], str]] = [
    # arrays that zarr would decode into anything, or take all memory for
    (update(LABELS, data_type="object"), 'a/labels: found type "object"'),
    (update(LABELS, codecs=PICKLE), "found codecs .*pickle"),
    (update(X, codecs=PICKLE + CODECS), "found codecs .*pickle"),
    (update(X, codecs="zstd"), "found codecs"),
    (update(X, "codecs", "1", "configuration", level=99), "a/X: found codecs"),
    (update(LABELS, shape=[2, 1, 2, 2, HUGE]), "a/labels: found shape"),
    (update(X, shape=[5.0, 2]), "a/X: found shape"),
    (update(X, *GRID, chunk_shape=[HUGE, 2]), "a/X: found chunk_grid"),
    (update("a/p", *GRID, chunk_shape=[0]), "a/p: found chunk_grid"),
    (update("a/status", *GRID, chunk_shape=[2, 1, 2, 2]), "a/status: found chunk_grid"),
    (update("a/covariances", shape=[2, 1, 2, 2, 2, 2, 2]), "a/covariances: found shape"),
    (update("a/covariances", dimension_names=["p"]), "a/covariances: found dimension_names"),
    (update(X, chunk_key_encoding={"name": "v2"}), "a/X: found chunk_key_encoding"),
    (update("a/status", fill_value=1), "a/status: found fill_value 1"),
    (update(X, "attributes", scale_factor=2), "a/X: found attributes"),
    (update(X, storage_transformers=[{}]), "found storage_transformers"),
    (update(X, sharding=1), "a/X: found a key 'sharding'"),
    (lambda d: d["consolidated_metadata"]["metadata"].update({X: 7}), "a/X: found no metadata"),
    (lambda d: d["consolidated_metadata"]["metadata"].pop(X), "a/X: found no metadata"),
    (
        lambda d: d["consolidated_metadata"]["metadata"].update({"../a": entry(d, "a")}),
        r"\.\./a: found a node",
    ),
    (lambda d: d["consolidated_metadata"].update(kind=[3]), r"consolidated_metadata: found kind \[3\]"),
    (lambda d: d.pop("consolidated_metadata"), "no consolidated metadata"),
    (lambda d: d.update(node_type="array"), 'found node_type "array"'),
    (lambda d: d.update(zarr_format=3.0), "found zarr_format 3.0"),
    (lambda d: d.update(hook="os.system"), "found a key 'hook'"),
    # plans and sweeps that no sweep would have written
    (update(*A, n_samples=HUGE), "n_samples: found 1000000000000000"),
    (update(*A, n_samples=10**9), r"chunks of [\d,]+ bytes, expected"),
    (update(*A, replicates=10**6, m=list(range(1, 1001))), "a: found 4,000,000,001 cells, expected at most"),
    (update(*A, p=[float("nan")]), r"p\[0\]: found nan, expected an accuracy"),
    (update(*A, m=[-4]), r"m\[0\]: found -4, expected a whole number"),
    (update(*A, p=[0.8, 0.8]), r"p\[1\]: found 0\.8 again, expected each"),
    (update(*A, n_samples="5"), "n_samples: found '5', expected a whole number"),
    (update(*A, source={}), "source: found {}, expected a text"),
    (update(*A, models="posterior"), "models: found 'posterior', expected a list"),
    (update(*A, models=["__class__", "posterior"]), "expected of .'conditional"),
    (update(*A, name="../a"), "name: found '../a', expected a name of the letters"),
    (update(*A, name="b/../a"), r"name: found 'b/\.\./a', expected a name of the letters"),
    (update("datasets", a=3), "datasets.a: found 3, expected a table"),
    (update("datasets", **{"..": {"name": ".."}}), r"data set \.\.: name: found '\.\.'"),
    (lambda d: d["attributes"].update(datasets=[]), r"datasets: found \[\], expected a table"),
    (lambda d: d["attributes"].update(spec=[]), r"spec: found \[\], expected a table"),
    (update(*SPEC_OF_CUBE, seed=-1), "seed: found -1"),
    (update(*SPEC_OF_CUBE, "search", population=HUGE), "population: found 1000000000000000"),
    (update(*SPEC_OF_CUBE, grid=3), "grid: found 3, expected a table"),
    (update(*SPEC_OF_CUBE, "grid", datasets=["a"]), r"spec grid.datasets\[0\]: found 'a', expected a table"),
    (update(*SPEC_OF_CUBE, "grid", m=["x"]), r"m\[0\]: found 'x'"),
    (update(*SPEC_OF_CUBE, stop=None), "stop: found None, expected a table"),
    (lambda d: d["attributes"].update(runs=3), "runs: found 3, expected a list"),
    (lambda d: d["attributes"].update(runs=[3]), r"runs\[0\]: found 3, expected a table"),
    (lambda d: d["attributes"].update(runs=[{"fingerprint": 3}]), r"runs\[0\].fingerprint: found 3"),
    (lambda d: d["attributes"].update(runs=[{"skipped": [1]}]), r"runs\[0\].skipped: found \[1\]"),
]


def test_metadata_and_manifests_of_others_are_refused(cube: Path) -> None:
    good = (cube / ROOT_FILE).read_bytes()
    for change, message in CHANGES:
        edit(cube, change)
        with pytest.raises(InputError, match=message):
            open_cube(cube)
        (cube / ROOT_FILE).write_bytes(good)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 200_000, "not JSON"),
        (b'{"a":' * 200_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b" " * (2**26 + 1), "67,108,865 bytes, expected at most 67,108,864"),
    ],
)
def test_a_root_that_is_no_manifest_is_refused(cube: Path, content: bytes, message: str) -> None:
    (cube / ROOT_FILE).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_manifest(cube)


def replace_file(path: Path, how: str, target: Path) -> None:
    """Put a link to a copy elsewhere, or a pipe that never says anything, in the place of a file."""
    path.rename(target)
    if how == "link":
        path.symlink_to(target)
    else:
        os.mkfifo(path)


@pytest.mark.parametrize("how", ["link", "pipe"])
def test_links_and_pipes_in_the_place_of_files_are_refused(cube: Path, tmp_path: Path, how: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    for name in (ROOT_FILE, "a/p/c.0", "a/status/c.0.0.0.0"):
        replace_file(cube / name, how, elsewhere)
        with pytest.raises(InputError, match=f"{name}: found a {how}"):
            open_cube(cube)
        elsewhere.replace(cube / name)
    labels = open_cube(cube)["a"]["labels"]
    replace_file(cube / "a/labels/c.0.0.0.0.0", how, elsewhere)
    block = next(block for block in PLAN.blocks() if not block.node.baseline)
    for reader in (labels.load, lambda: BlockStore(cube).read(block)):
        with pytest.raises(InputError, match=rf"c\.0\.0\.0\.0\.0: found a {how}"):
            reader()
    with pytest.raises(InputError, match="found a directory, expected a file"):
        read_regular(tmp_path)


@pytest.mark.parametrize("name", ["a", "a/labels", "a/unsupervised"])
def test_a_node_that_is_a_link_is_refused(cube: Path, tmp_path: Path, name: str) -> None:
    replace_file(cube / name, "link", tmp_path / "elsewhere")
    for act in (
        lambda: open_cube(cube),
        lambda: grow(cube, [PLAN], draw_inputs, SPEC),
        lambda: append_run(cube, RunRecord()),
    ):
        with pytest.raises(InputError, match=f"{name}: found a link, expected a directory of the cube"):
            act()


def test_nothing_is_written_through_a_link(cube: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (cube / f"{ROOT_FILE}.partial").symlink_to(elsewhere)  # a writer without a lease makes its file there
    with pytest.raises(Exception, match=r"zarr\.json\.partial"):
        append_run(cube, RunRecord())
    assert elsewhere.read_text() == "mine"


@pytest.mark.parametrize("name", ["log", "lease.1", "generation.1", "generation.1/journal", ""])
def test_a_run_directory_that_leads_elsewhere_is_refused(cube: Path, tmp_path: Path, name: str) -> None:
    run = RunFolder(cube).make()
    if not name:
        run.rmdir()
    if "/" in name:
        (run / "generation.1").mkdir()
    (run / name).symlink_to(tmp_path)
    expected = "a file of the run" if name else "the directory of a run"
    for act in (lambda: read_manifest(cube), lambda: RunFolder(cube).make()):
        with pytest.raises(InputError, match=f"{(run / name).name}: found a link, expected {expected}"):
            act()


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))


@pytest.mark.parametrize("change", ["metadata", "both"])
def test_no_memory_is_taken_for_what_a_cube_claims_to_be(cube: Path, change: str) -> None:
    def claim(document: Document) -> None:
        for path in ("a/X", "a/labels", "a/labels_true"):
            of_samples = -1 if path != "a/X" else 0
            entry(document, path)["shape"][of_samples] = HUGE
            entry(document, path)["chunk_grid"]["configuration"]["chunk_shape"][of_samples] = HUGE
        if change == "both":
            update(*A, n_samples=HUGE)(document)

    edit(cube, claim)
    code = "import sys; from sweep_clustering.__main__ import main; main()"
    command = [sys.executable, "-c", code, "status", str(cube)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit_memory)
    assert process.returncode == 2, process.stderr
    assert str(HUGE) in process.stderr
    assert "Traceback" not in process.stderr
