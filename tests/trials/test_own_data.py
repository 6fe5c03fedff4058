"""A table with names and a file of annotations become a cube that grows and is repaired."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from cubes.rot import turn_bit
from cubes.small import result_files
from processes.sweeping import run, write_spec

from sweep_clustering.pipeline.check import verify
from sweep_clustering.pipeline.report.cell import read_cell
from sweep_clustering.pipeline.scoring.scores import scores
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import NAMES, read_manifest
from sweep_clustering.storage.damage import repair_cube
from sweep_clustering.sweeps import inputs
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.plan import find_cell
from sweep_clustering.sweeps.seeds import annotation_seed

SWEEP = """
name = "tiny"
seed = 3
[grid]
datasets = [
    {name = "named", path = "named.csv", index_column = "id", label_column = "kind", missing = "drop"},
    {name = "asked", path = "asked.csv", n_clusters = 2, annotations = "answers.txt"},
]
p = [0.8, 1.0]
m = [10, 24]
replicates = 2
models = ["unsupervised", "likelihood", "posterior", "conditional"]
restarts = 2
"""
GROWN = SWEEP.replace("24]", "24, 44]")


def write_names(folder: Path, width: str = "width", name: str = "row", kind: str = "a kind") -> None:
    rng = np.random.default_rng(0)
    lines = [f"{name} {n},{rng.normal() + 5 * (n % 2)!r},{rng.normal()!r},{kind}{n % 2}" for n in range(20)]
    lines[4] = f"{name} 4,,1,{kind}0"
    (folder / "named.csv").write_text(f"id,{width},height,kind\n" + "\n".join(lines) + "\n")


def make_cube(folder: Path, text: str = SWEEP) -> Path:
    assert run(write_spec(folder, text), folder / "results") == 0
    return folder / "results" / "tiny.zarr"


@pytest.fixture(scope="module")
def own_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two tables, one with 44 annotations in 40 lines, and with their cube."""
    folder = tmp_path_factory.mktemp("own")
    write_names(folder)
    rng = np.random.default_rng(0)
    np.savetxt(folder / "asked.csv", rng.normal(size=(24, 2)) + 4.0 * (np.arange(24) % 2)[:, None])
    lines = [f"{i + 1} {(i * 7) % 24 + 1} must {1 if i % 4 else 2} ann" for i in range(20)]
    lines += [f"{i + 1} {i + 2} cannot {3 if i in (1, 2) else 1} bob 0.9" for i in range(20)]
    (folder / "answers.txt").write_text("\n".join(lines))
    make_cube(folder)
    return folder


@pytest.fixture
def folder(own_sweep: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(own_sweep, tmp_path, dirs_exist_ok=True))


def test_names_are_coordinates_and_cells_hold_what_their_coordinates_draw_from_the_file(
    own_sweep: Path,
) -> None:
    cube = own_sweep / "results" / "tiny.zarr"
    tree = open_cube(cube)
    named, with_answers = tree["named"], tree["asked"]
    assert named["feature"].values.tolist() == ["width", "height"]
    assert named["sample"].values.tolist() == [f"row {n}" for n in range(20) if n != 4]
    assert named.attrs["class_names"] == ["a kind0", "a kind1"]
    assert np.isfinite(scores(tree, "named")["nmi"].values).all()
    cell = find_cell("named/p=0.8/m=10/replicate=0/posterior", read_manifest(cube).plans.values())
    drawn = read_cell(tree, cell)
    assert [drawn.feature(n) for n in range(2)] == ["width", "height"]
    assert drawn.class_names == ("a kind0", "a kind1")
    pool = with_answers["annotation_pool"].values
    text = [line.split() for line in (own_sweep / "answers.txt").read_text().splitlines()]
    counts = [int(w) // (2 if i == j else 1) for i, j, _, w, *_ in text]
    expected = [(int(i) - 1, int(j) - 1, int(kind == "cannot")) for i, j, kind, *_ in text]
    assert pool.tolist() == [list(row) for row, n in zip(expected, counts, strict=True) for _ in range(n)]
    for m, replicate in ((10, 0), (10, 1), (24, 0), (24, 1)):
        where = annotation_seed(3, "asked", mixture=None, p=None, m=m, replicate=replicate)
        rows = np.random.default_rng(where).choice(len(pool), size=m, replace=False)
        for p in (0.8, 1.0):
            held = with_answers["annotations"].sel(p=p, m=m, replicate=replicate).values
            assert np.array_equal(held[:m], pool[rows])
            assert (held[m:] == -1).all()
    assert with_answers.attrs["annotations"] == "drawn without replacement from the 44 of a file"
    assert "assume" in with_answers["p"].attrs["long_name"]
    assert verify(cube, sample=1000).good
    scores_of_file = scores(tree, "asked")
    assert set(scores_of_file) == {"annotation_agreement", "objective"}
    assert not np.isnan(scores_of_file["annotation_agreement"].values).any()


def test_a_cube_grows_and_is_repaired_with_the_names_and_answers_that_it_began_with_alone(
    folder: Path,
) -> None:
    cube, answers = folder / "results" / "tiny.zarr", folder / "answers.txt"
    before, same = result_files(cube), answers.read_text()
    for change in ({"width": "breadth"}, {"name": "sample"}, {"kind": "sort"}):
        write_names(folder, **change)
        with pytest.raises(InputError, match=r"as in the cube .name them as the cube does"):
            make_cube(folder, GROWN)
    write_names(folder)
    answers.write_text(other_answers := same.replace("must", "cannot", 1))
    with pytest.raises(InputError, match=r"data set asked, annotations_checksum: found '") as caught:
        make_cube(folder, GROWN)
    assert len(caught.value.problems) == 1
    answers.write_text("# other words\n" + same.replace("bob", "eve"))
    make_cube(folder, GROWN)
    assert result_files(cube).items() >= before.items()
    assert open_cube(cube)["named"]["labels"].sel(sample="row 7", m=44).shape == (2, 2, 3)
    pool = sorted(open_cube(cube)["asked"]["annotation_pool"].values.tolist())
    for rows in open_cube(cube)["asked"]["annotations"].sel(m=44).values.reshape(-1, 44, 3):
        assert sorted(rows.tolist()) == pool
    chunks = {
        name: cube / name for name in ("named/sample/c.0", "named/feature/c.0", "asked/annotation_pool/c.0.0")
    }
    whole = {file: file.read_bytes() for file in chunks.values()}
    for file in whole:
        turn_bit(file)
    answers.write_text(other_answers)
    (lost,) = repair_cube(cube, data_dir=None, dry_run=False).lost.items()
    assert lost[0] == "asked/annotation_pool/c.0.0"
    assert "annotations_checksum" in lost[1]
    answers.write_text(same)
    assert not repair_cube(cube, data_dir=None, dry_run=False).lost
    assert {file: file.read_bytes() for file in whole} == whole
    assert verify(cube, sample=10).good


def test_a_cube_without_names_stays_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder / "results")
    with monkeypatch.context() as patched:
        patched.setattr(inputs, "LONGEST_NAME", 0)
        cube = make_cube(folder)
    assert not any(getattr(read_manifest(cube).plans["named"], key) for key in NAMES)
    make_cube(folder, GROWN)
    assert read_manifest(cube).plans["named"].feature_names == ()
    assert set(open_cube(cube)["named"].coords) == {"p", "m", "m_over_n", "replicate", "model", "field"}


def test_every_problem_of_the_files_comes_before_anything_starts(folder: Path) -> None:
    shutil.rmtree(folder / "results")
    more = SWEEP.replace("24]", '"2N", 50]')
    with pytest.raises(InputError) as caught:
        make_cube(folder, more)
    assert [problem.value for problem in caught.value.problems] == ["2N = 48 annotations", "50 annotations"]
    (folder / "answers.txt").write_text("1 2 must 0.5 ann\n25 1 must 1 ann\n1 2 mus 1 ann\n1 1 must 3 ann\n")
    (folder / "asked.csv").write_text("1,2\n3,x\n")
    with pytest.raises(InputError) as caught:
        make_cube(folder, more)
    assert all(where in str(caught.value) for where in ("asked.csv", "txt, line 3", "txt, line 4"))
    assert not (folder / "results" / "tiny.zarr").exists()
