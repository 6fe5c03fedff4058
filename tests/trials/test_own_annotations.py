"""A table without true labels and a file of annotations, from the sweep file to the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cubes.rot import turn_bit
from cubes.small import result_files
from processes.sweeping import run, write_spec

from pipeline.check.repair import repair_cube
from pipeline.check.verify import verify
from pipeline.scoring.scores import scores
from storage.cube.growth import open_cube
from sweeps.errors import InputError
from sweeps.seeds import annotation_seed

SWEEP = """
name = "tiny"
seed = 3
[grid]
datasets = [{name = "own", path = "own.csv", n_clusters = 2, annotations = "answers.txt"}]
p = [0.8, 1.0]
m = [10, "1N"]
replicates = 2
models = ["unsupervised", "likelihood", "posterior", "conditional"]
restarts = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sweep file with its table of 24 samples, and 40 lines that are 44 annotations."""
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "own.csv", rng.normal(size=(24, 2)) + 4.0 * (np.arange(24) % 2)[:, None])
    lines = [f"{i + 1} {(i * 7) % 24 + 1} must {1 if i % 4 else 2} ann" for i in range(20)]
    lines += [f"{i + 1} {i + 2} cannot {3 if i in (1, 2) else 1} bob 0.9" for i in range(20)]
    (tmp_path / "answers.txt").write_text("\n".join(lines))
    write_spec(tmp_path, SWEEP)
    return tmp_path


def test_cells_hold_what_their_coordinates_draw_from_the_file(folder: Path) -> None:
    assert run(folder / "tiny.toml", folder) == 0
    tree = open_cube(folder / "tiny.zarr")
    node = tree["own"]
    pool = node["annotation_pool"].values
    text = [line.split() for line in (folder / "answers.txt").read_text().splitlines()]
    counts = [int(w) // (2 if i == j else 1) for i, j, _, w, *_ in text]
    wanted = [(int(i) - 1, int(j) - 1, int(kind == "cannot")) for i, j, kind, *_ in text]
    assert pool.tolist() == [list(row) for row, n in zip(wanted, counts, strict=True) for _ in range(n)]
    for m in (10, 24):
        for replicate in (0, 1):
            where = annotation_seed(3, "own", mixture=None, p=None, m=m, replicate=replicate)
            rows = np.random.default_rng(where).choice(len(pool), size=m, replace=False)
            for p in (0.8, 1.0):
                drawn = node["annotations"].sel(p=p, m=m, replicate=replicate).values
                assert np.array_equal(drawn[:m], pool[rows])
                assert (drawn[m:] == -1).all()
    assert len(np.unique(node["annotations"].values.reshape(8, -1), axis=0)) == 4
    assert node.attrs["annotations"] == "drawn without replacement from the 44 of a file"
    assert "told" in node["p"].attrs["long_name"]
    assert verify(folder / "tiny.zarr", sample=1000).good
    found = scores(tree, "own")
    assert set(found) == {"annotation_agreement", "objective"}
    assert not np.isnan(found["annotation_agreement"].values).any()


def test_a_sweep_grows_and_is_repaired_with_the_file_that_it_began_with_alone(folder: Path) -> None:
    cube, answers = folder / "tiny.zarr", folder / "answers.txt"
    assert run(folder / "tiny.toml", folder) == 0
    before = result_files(cube)
    same = answers.read_text()
    other = same.replace("must", "cannot", 1)
    grown = write_spec(folder, SWEEP.replace('"1N"]', '"1N", 44]'))
    answers.write_text(other)
    with pytest.raises(InputError, match=r"data set own, annotations_checksum: found '") as caught:
        run(grown, folder)
    assert len(caught.value.problems) == 1
    answers.write_text("# other words\n" + same.replace("bob", "eve"))
    assert run(grown, folder) == 0
    assert result_files(cube).items() >= before.items()
    assert verify(cube, sample=1000).good
    node = open_cube(cube)["own"]
    pool = node["annotation_pool"].values
    for rows in node["annotations"].sel(m=44).values.reshape(-1, 44, 3):
        assert sorted(rows.tolist()) == sorted(pool.tolist())
    chunk = cube / "own/annotation_pool/c.0.0"
    whole = chunk.read_bytes()
    turn_bit(chunk)
    answers.write_text(other)
    refused = repair_cube(cube, data_dir=None, dry_run=False)
    assert "annotations_checksum" in refused.lost["own/annotation_pool/c.0.0"]
    answers.write_text(same)
    assert not repair_cube(cube, data_dir=None, dry_run=False).lost
    assert chunk.read_bytes() == whole


def test_every_problem_of_the_file_comes_before_anything_starts(folder: Path) -> None:
    answers = folder / "answers.txt"
    sweep = write_spec(folder, SWEEP.replace('"1N"]', '"2N", 50]'))
    with pytest.raises(InputError) as caught:
        run(sweep, folder)
    assert [problem.found for problem in caught.value.problems] == ["2N = 48 annotations", "50 annotations"]
    answers.write_text("1 2 must 0.5 ann\n25 1 must 1 ann\n1 2 mus 1 ann\n1 1 must 3 ann\n")
    (folder / "own.csv").write_text("1,2\n3,x\n")
    with pytest.raises(InputError) as caught:
        run(sweep, folder)
    assert all(where in str(caught.value) for where in ("own.csv", "txt, line 3", "txt, line 4"))
    assert not list(folder.glob("tiny.zarr*"))
