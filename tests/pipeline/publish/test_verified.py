"""Records of verifications: written by `sweep verify --record`, and read for one file alone."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import zarr
from processes.commandline import sweep

from sweep_clustering.pipeline.publish.bundle import write_bundle
from sweep_clustering.pipeline.publish.verified import read_records
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.provenance import fingerprint
from sweep_clustering.sweeps.errors import InputError


@pytest.fixture(scope="module")
def record(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "ann.json"
    said = sweep("verify", finished / "tiny.zarr", "--sample", 20, "--record", path, "--by", "Ann")
    assert said.exit_code == 0, said.output
    return path


def test_a_record_says_who_computed_which_cells_again(finished: Path, record: Path) -> None:
    ((file, (read,)),) = read_records([record], [finished / "tiny.zarr"]).items()
    assert file == finished / "tiny.zarr"
    assert (read.file, read.by, read.seed, read.n_cells, len(read.cells)) == (
        "tiny.zarr",
        "Ann",
        None,
        85,
        20,
    )
    said = sweep("verify", finished / "tiny.zarr", "--sample", 20).stdout
    assert read.statements == [said.strip().removeprefix(f"{finished}/tiny.zarr: ")]
    assert read.made_with == fingerprint(read_manifest(file).spec)


def problems(path: Path, content: Any, cube: Path) -> list[str]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError) as raised:
        read_records([path], [cube])
    return [str(problem).replace(f"{path}", "FILE") for problem in raised.value.problems]


def test_a_record_of_another_file_and_one_that_lies_are_refused(
    finished: Path, record: Path, tmp_path: Path
) -> None:
    values, path, cube = json.loads(record.read_text()), tmp_path / "record.json", finished / "tiny.zarr"
    (problem,) = problems(path, values | {"sha256": "0" * 64}, cube)
    assert problem.startswith(f"FILE: sha256: found {'0' * 64}, expected the hash of one of {cube}")
    twice = values | {"cells": [*values["cells"], values["cells"][0]]}
    said = problems(path, twice, cube)
    assert said == ["FILE: cells: found 21 of 85 cells, expected those that the file draws"]
    for change in (
        {"n_cells": 19},
        {"cells": values["cells"][::-1]},
        {"seed": 1},
        {"cells": values["cells"][1:]},
    ):
        assert "those that the file draws" in problems(path, values | change, cube)[0]
    changed = values | {"format_version": 2, "cells": [{"cell": "a", "answer": "good"}], "key": 1}
    assert len(problems(path, changed, cube)) == 4
    assert "no JSON" in problems(path, "[", cube)[0]


def test_options_of_a_record_are_checked_before_anything_is_computed(finished: Path, record: Path) -> None:
    cube = finished / "tiny.zarr"
    for options, words in (
        (["--record", "new.json"], ["--by: found nothing"]),
        (["--by", "Ann"], ["--record: found nothing"]),
        (["--record", record, "--by", "Ann"], [f"--record {record}: found a file"]),
        (["--record", "new.json", "--checksums"], ["--by: found nothing", "found --checksums as well"]),
    ):
        said = sweep("verify", cube, *options)
        assert said.exit_code == 2
        assert all(word in said.stderr for word in words), said.stderr
    assert not Path("new.json").exists()


@pytest.mark.slow
def test_a_bundle_is_verified_by_its_own_hash(finished: Path, tmp_path: Path) -> None:
    """Neither a changed byte nor a forged value that its author packed again is missed."""
    bundle, record = tmp_path / "tiny.zip", tmp_path / "record.json"
    write_bundle(finished / "tiny.zarr", bundle)
    said = sweep("verify", bundle, "--sample", 20, "--record", record, "--by", "Ann")
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith(
        f"{bundle}: 20 of 85 cells were computed again, and all are equal. If 5 % of"
    )
    read = read_records([record], [bundle, finished / "tiny.zarr"])
    assert [(file.name, len(records)) for file, records in read.items()] == [
        ("tiny.zip", 1),
        ("tiny.zarr", 0),
    ]
    assert read[bundle][0].sha256 == hashlib.sha256(bundle.read_bytes()).hexdigest()
    with pytest.raises(InputError, match="sha256"):
        read_records([record], [finished / "tiny.zarr"])
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "changed.zip").write_bytes(content)
    assert sweep("verify", tmp_path / "changed.zip").exit_code == 2
    cube = Path(shutil.copytree(finished / "tiny.zarr", tmp_path / "tiny.zarr"))
    labels = zarr.open_array(cube / "iris/labels", mode="r+")
    labels[0, 0, 0, 1, 17] = (int(labels[0, 0, 0, 1, 17]) + 1) % 3
    forged = tmp_path / "forged.zip"
    write_bundle(cube, forged)
    said = sweep("verify", forged, "--sample", 100)
    assert said.exit_code == 1
    lines = said.stdout.splitlines()
    assert lines[0] == f"{forged}: 85 of 85 cells were computed again: 84 equal, 1 different."
    assert lines[1] == "different: iris/p=0.8/m=75/replicate=0/posterior: labels"
