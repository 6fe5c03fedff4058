"""Cubes that were made to do harm: refused before anything is decoded, followed or waited for."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from cubes.small import SPEC, draw_inputs, fill, make_plan

from storage.cube.blocks import BlockStore
from storage.cube.growth import create, grow, open_cube
from storage.cube.manifest import ROOT_FILE, append_run, read_manifest
from storage.files import read_regular
from storage.provenance import RunRecord
from storage.runfolder.folder import RunFolder
from sweeps.errors import InputError

PLAN = make_plan("a", p=(0.8, 0.9), models=("likelihood", "posterior"))
HUGE = 10**15
Document = dict[str, Any]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    fill(path, [PLAN])
    return path


@pytest.fixture
def cube(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "tiny.zarr"))


def edit(cube: Path, change: Callable[[Document], object]) -> None:
    document = json.loads((cube / ROOT_FILE).read_bytes())
    change(document)
    (cube / ROOT_FILE).write_text(json.dumps(document))


def entry(document: Document, path: str) -> Document:
    found: Document = document["consolidated_metadata"]["metadata"][path]
    return found


def record(document: Document) -> Document:
    found: Document = document["attributes"]["datasets"]["a"]
    return found


PICKLE = [{"name": "numcodecs.pickle", "configuration": {}}]
CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}]

METADATA: dict[str, tuple[Callable[[Document], object], str]] = {
    "objects": (lambda d: entry(d, "a/labels").update(data_type="object"), 'a/labels: found type "object"'),
    "pickle": (lambda d: entry(d, "a/labels").update(codecs=PICKLE), "found codecs .*pickle"),
    "filter": (lambda d: entry(d, "a/X").update(codecs=PICKLE + CODECS), "found codecs .*pickle"),
    "codecs of another type": (lambda d: entry(d, "a/X").update(codecs="zstd"), "found codecs"),
    "huge": (lambda d: entry(d, "a/labels").update(shape=[2, 1, 2, 2, HUGE]), "a/labels: found shape"),
    "fractions": (lambda d: entry(d, "a/X").update(shape=[5.0, 2]), "a/X: found shape"),
    "huge chunks": (
        lambda d: entry(d, "a/X")["chunk_grid"]["configuration"].update(chunk_shape=[HUGE, 2]),
        "a/X: found chunk_grid",
    ),
    "covariances of another shape": (
        lambda d: entry(d, "a/covariances").update(shape=[2, 1, 2, 2, 2, 2, 2]),
        "a/covariances: found shape",
    ),
    "dims of another shape": (
        lambda d: entry(d, "a/covariances")["dimension_names"].append("feature"),
        "a/covariances: found dimension_names",
    ),
    "other chunks": (
        lambda d: entry(d, "a/status")["chunk_grid"]["configuration"].update(chunk_shape=[2, 1, 2, 2]),
        "a/status: found chunk_grid",
    ),
    "chunks of nothing": (
        lambda d: entry(d, "a/p")["chunk_grid"]["configuration"].update(chunk_shape=[0]),
        "a/p: found chunk_grid",
    ),
    "chunks elsewhere": (
        lambda d: entry(d, "a/X").update(chunk_key_encoding={"name": "v2"}),
        "a/X: found chunk_key_encoding",
    ),
    "fill": (lambda d: entry(d, "a/status").update(fill_value=1), "a/status: found fill_value 1"),
    "scaling": (lambda d: entry(d, "a/X")["attributes"].update(scale_factor=2), "a/X: found attributes"),
    "transformers": (lambda d: entry(d, "a/X").update(storage_transformers=[{}]), "storage transformers"),
    "keys": (lambda d: entry(d, "a/X").update(sharding=1), "a/X: found a key 'sharding'"),
    "no table": (lambda d: d["consolidated_metadata"]["metadata"].update({"a/X": 7}), "not a table"),
    "missing": (lambda d: d["consolidated_metadata"]["metadata"].pop("a/X"), "a/X: found no metadata"),
    "another": (
        lambda d: d["consolidated_metadata"]["metadata"].update({"a/more": entry(d, "a/X")}),
        "a/more: found an array",
    ),
    "outside": (
        lambda d: d["consolidated_metadata"]["metadata"].update({"../a": entry(d, "a")}),
        r"\.\./a: found a node",
    ),
    "root of another kind": (lambda d: d.update(node_type="array"), 'found node_type "array"'),
    "root of another format": (lambda d: d.update(zarr_format=3.0), "found zarr_format 3.0"),
    "root with more": (lambda d: d.update(hook="os.system"), "found a key 'hook'"),
    "metadata of another kind": (
        lambda d: d["consolidated_metadata"].update(kind=[3]),
        "found consolidated_metadata",
    ),
    "codec of another setting": (
        lambda d: entry(d, "a/X")["codecs"][1]["configuration"].update(level=99),
        "a/X: found codecs",
    ),
    "no metadata": (lambda d: d.pop("consolidated_metadata"), "no consolidated metadata"),
}


@pytest.mark.parametrize("what", METADATA)
def test_other_metadata_are_refused(cube: Path, what: str) -> None:
    change, said = METADATA[what]
    edit(cube, change)
    with pytest.raises(InputError, match=said):
        open_cube(cube)


MANIFEST: dict[str, tuple[Callable[[Document], object], str]] = {
    "huge samples": (lambda d: record(d).update(n_samples=HUGE), "n_samples: found 1000000000000000"),
    "huge replicates": (lambda d: record(d).update(replicates=HUGE), "replicates: found"),
    "huge chunk": (
        lambda d: record(d).update(n_samples=10**9),
        r"chunks of [\d,]+ bytes, expected",
    ),
    "many cells": (
        lambda d: record(d).update(replicates=10**6, m=list(range(1, 1001))),
        "a: found 4,000,000,001 cells, expected at most 100,000,000",
    ),
    "no number": (
        lambda d: record(d).update(p=[float("nan")]),
        r"p\[0\]: found nan, expected a finite",
    ),
    "negative": (lambda d: record(d).update(m=[-4]), r"m\[0\]: found -4, expected a whole number"),
    "twice": (
        lambda d: record(d).update(p=[0.8, 0.8]),
        r"p\[1\]: found 0\.8 again, expected each",
    ),
    "text": (lambda d: record(d).update(n_samples="5"), "n_samples: found '5', expected a whole number"),
    "truth": (lambda d: record(d).update(restarts=True), "restarts: found true"),
    "table": (lambda d: record(d).update(source={}), "source: found {}, expected a text"),
    "list": (lambda d: record(d).update(models="posterior"), "models: found 'posterior', expected a list"),
    "model": (
        lambda d: record(d).update(models=["__class__", "posterior"]),
        "expected a model with annotations, or such a method",
    ),
    "key": (lambda d: record(d).update(hook="os.system"), "unknown key 'hook'"),
    "name": (lambda d: record(d).update(name="../a"), "name: found '../a', expected a name of letters"),
    "parent": (
        lambda d: d["attributes"]["datasets"].update({"..": record(d) | {"name": ".."}}),
        r"data set \.\.: name: found '\.\.'",
    ),
    "empty": (lambda d: record(d).update(p=[]), "some of them empty"),
    "no record": (lambda d: d["attributes"]["datasets"].update(a=3), "data set a: found 3, expected a table"),
    "no data sets": (lambda d: d["attributes"].update(datasets=[]), "not a table of data sets"),
    "seed": (lambda d: d["attributes"]["spec"].update(seed=-1), "seed: found -1"),
    "spec": (lambda d: d["attributes"].update(spec=[]), r"spec: found \[\], expected a table"),
    "search": (
        lambda d: d["attributes"]["spec"]["search"].update(population=HUGE),
        "population: found 1000000000000000",
    ),
    "grid": (lambda d: d["attributes"]["spec"].update(grid=3), "grid: found 3, expected a table"),
    "data sets": (
        lambda d: d["attributes"]["spec"]["grid"].update(datasets=["a"]),
        r"spec grid.datasets\[0\]: found 'a', expected a table",
    ),
    "scale": (
        lambda d: d["attributes"]["spec"]["grid"]["datasets"][0].update(scale=3),
        r"datasets\[0\] scale: found 3, expected one of none",
    ),
    "counts": (lambda d: d["attributes"]["spec"]["grid"].update(m=["x"]), r"m\[0\]: found 'x'"),
    "stop": (lambda d: d["attributes"]["spec"].update(stop=None), "stop: found None, expected a table"),
    "runs": (lambda d: d["attributes"].update(runs=[3]), r"runs\[0\]: found 3, expected a table"),
    "fingerprint": (
        lambda d: d["attributes"].update(runs=[{"fingerprint": 3}]),
        r"runs\[0\] fingerprint: found 3, expected a table",
    ),
    "skipped": (
        lambda d: d["attributes"].update(runs=[{"skipped": [1]}]),
        r"runs\[0\] skipped: found \[1\], expected a table",
    ),
}


@pytest.mark.parametrize("what", MANIFEST)
def test_a_manifest_of_foreign_values_is_refused(cube: Path, what: str) -> None:
    change, said = MANIFEST[what]
    edit(cube, change)
    with pytest.raises(InputError, match=said):
        read_manifest(cube)


def test_all_that_is_wrong_is_said_at_once(cube: Path) -> None:
    edit(cube, lambda d: (entry(d, "a/X").update(shape=[1, 1]), entry(d, "a/p").update(data_type="object")))
    with pytest.raises(InputError) as caught:
        read_manifest(cube)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 200_000, "not JSON"),
        (b'{"a":' * 200_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b" " * (2**26 + 1), "67,108,865 bytes, expected at most 67,108,864"),
    ],
)
def test_a_root_that_is_no_manifest_is_refused(cube: Path, content: bytes, said: str) -> None:
    (cube / ROOT_FILE).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_manifest(cube)


def replaced(path: Path, how: str, target: Path) -> None:
    """Put a link to a copy elsewhere, or a pipe that never says anything, in the place of a file."""
    path.rename(target)
    if how == "link":
        path.symlink_to(target)
    else:
        os.mkfifo(path)


@pytest.mark.parametrize(("how", "said"), [("link", "a link"), ("pipe", "a pipe")])
@pytest.mark.parametrize("name", [ROOT_FILE, "a/p/c.0", "a/status/c.0.0.0.0"])
def test_links_and_pipes_in_the_place_of_files_are_refused(
    cube: Path, tmp_path: Path, name: str, how: str, said: str
) -> None:
    replaced(cube / name, how, tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"{name}: found {said}"):
        open_cube(cube)


@pytest.mark.parametrize("how", ["link", "pipe"])
def test_links_and_pipes_are_refused_where_results_are_read_later(
    cube: Path, tmp_path: Path, how: str
) -> None:
    replaced(cube / "a/labels/c.0.0.0.0.0", how, tmp_path / "elsewhere")
    labels = open_cube(cube)["a"]["labels"]
    with pytest.raises(InputError, match=r"c\.0\.0\.0\.0\.0: found a"):
        labels.load()
    block = next(block for block in PLAN.blocks() if not block.unsupervised)
    with pytest.raises(InputError, match=r"c\.0\.0\.0\.0\.0: found a"):
        BlockStore(cube).read(block)


@pytest.mark.parametrize("name", ["a", "a/labels", "a/unsupervised"])
def test_a_node_that_is_a_link_is_refused(cube: Path, tmp_path: Path, name: str) -> None:
    replaced(cube / name, "link", tmp_path / "elsewhere")
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
    (cube / f"{ROOT_FILE}.partial").symlink_to(elsewhere)  # where a writer without a lease makes its file
    with pytest.raises(Exception, match=r"zarr\.json\.partial"):
        append_run(cube, RunRecord())
    assert elsewhere.read_text() == "mine"


@pytest.mark.parametrize("name", ["log", "stop.json", "lease.1", "generation.1", "jobs"])
def test_a_run_directory_that_leads_elsewhere_is_refused(cube: Path, tmp_path: Path, name: str) -> None:
    run = RunFolder(cube).make()
    (run / name).symlink_to(tmp_path)
    for act in (lambda: read_manifest(cube), lambda: RunFolder(cube).make()):
        with pytest.raises(InputError, match=f"{name}: found a link, expected a file of the run"):
            act()


def test_a_run_directory_that_is_a_link_is_refused(cube: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.run").symlink_to(tmp_path)
    for act in (lambda: read_manifest(cube), lambda: RunFolder(cube).make()):
        with pytest.raises(InputError, match=r"tiny\.run: found a link"):
            act()


def test_a_directory_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found a directory, expected a file"):
        read_regular(tmp_path)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))


@pytest.mark.parametrize("change", ["metadata", "manifest", "both"])
def test_no_memory_is_taken_for_what_a_cube_claims_to_be(cube: Path, change: str) -> None:
    def claim(document: Document) -> None:
        if change != "manifest":
            for path in ("a/X", "a/labels", "a/labels_true"):
                entry(document, path)["shape"][-1 if path != "a/X" else 0] = HUGE
                chunks = entry(document, path)["chunk_grid"]["configuration"]["chunk_shape"]
                chunks[-1 if path != "a/X" else 0] = HUGE
        if change != "metadata":
            record(document)["n_samples"] = HUGE

    edit(cube, claim)
    code = "import sys; from pipeline.__main__ import main; main()"
    command = [sys.executable, "-c", code, "status", str(cube)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limited)
    assert done.returncode == 2, done.stderr
    assert str(HUGE) in done.stderr
    assert "Traceback" not in done.stderr


def test_what_zarr_itself_writes_with_a_filter_is_refused(cube: Path) -> None:
    """Not only what is written by hand: an array of the right name made with other codecs."""
    array = zarr.create_array(
        cube / "a" / "X", shape=(5, 2), chunks=(5, 2), dtype="float64", compressors=None, overwrite=True
    )
    array[...] = np.zeros((5, 2))
    made = json.loads((cube / "a" / "X" / ROOT_FILE).read_bytes())
    edit(cube, lambda d: d["consolidated_metadata"]["metadata"].update({"a/X": made}))
    with pytest.raises(InputError, match="a/X: found codecs"):
        open_cube(cube)
