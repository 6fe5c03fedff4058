"""Cells of cubes and raw scores are computed again, and damaged cubes are repaired and submitted."""

import csv
import hashlib
import json
import shutil
import tomllib
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import zarr
from cubes.rot import turn_bit
from processes.commandline import refuse, succeed, sweep
from processes.sweeping import TINY, assert_same_bits, run, tiny, write_spec
from scipy.stats import hypergeom

from sweep_clustering.pipeline.check import (
    CELLS,
    VerificationRecord,
    is_rounded,
    published_hash,
    read_records,
    statement,
    verify,
    verify_scores,
)
from sweep_clustering.pipeline.publish.bundle import write_bundle
from sweep_clustering.pipeline.report.write import write_export
from sweep_clustering.pipeline.scoring.raw import RAW, read_raw
from sweep_clustering.pipeline.scoring.scores import baseline_scores, scores
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.merge import CellResult
from sweep_clustering.pipeline.work.records import Solved, Span, from_record, to_record
from sweep_clustering.storage.cube.blocks import BlockStore, content_hash
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import ROOT_FILE, keep_causes, read_manifest
from sweep_clustering.storage.provenance import PROMISE, class_code, fingerprint, machine_class
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.methods import entry_of
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.plan import Cell

LIKE = """
name = "small"
seed = 3
[grid]
datasets = ["iris"]
p = [0.9]
m = ["0.5N"]
replicates = 2
models = ["unsupervised", "posterior"]
restarts = 3
[data]
scale = "standard"
"""
OWN = """
import numpy as np


def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, cut=0.0):
    labels = (X[:, 2] > cut).astype(int)
    labels[must_link[:, 1]] = labels[must_link[:, 0]]
    return labels
"""


@pytest.fixture(scope="module")
def scores_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a sweep, a method, and the scores of the method on the cells of the sweep."""
    folder = tmp_path_factory.mktemp("scores")
    (folder / "like.toml").write_text(LIKE)
    (folder / "own.py").write_text(OWN)
    printed = sweep("methods", "sweep", f"{folder}/own.py:cluster", "--like", folder / "like.toml")
    (folder / "own.toml").write_text(printed.stdout)
    assert run(folder / "own.toml", folder) == 0
    (path,) = write_export(folder / "small-own.zarr", folder / "export", "raw")
    return path.rename(folder / "scores.csv").parent


@pytest.fixture
def edit(scores_dir: Path, tmp_path: Path) -> Any:
    """Return a function that writes the file of scores with some texts replaced."""

    def change(*pairs: tuple[str, str]) -> Path:
        text = (scores_dir / "scores.csv").read_text()
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new, 1)
        (tmp_path / "changed.csv").write_text(text)
        return tmp_path / "changed.csv"

    return change


def outcome(path: Path, sent: Path, *more: object) -> Any:
    method = "--method", f"{sent}/own.py:cluster"
    return sweep("verify", path, "--sweep", sent / "like.toml", *(more or method))


def problems(path: Path, sent: Path, *more: object) -> list[str]:
    result = outcome(path, sent, *more)
    assert result.exit_code == 2
    assert result.stdout == ""
    return [line.strip().replace(f"{path}", "FILE") for line in result.stderr.splitlines()[1:]]


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in path.read_text().splitlines() if line[0] != "#"))


def test_the_sweep_of_a_method_has_the_cells_of_another_sweep(scores_dir: Path) -> None:
    like, method_sweep = load_sweep(scores_dir / "like.toml"), load_sweep(scores_dir / "own.toml")
    assert method_sweep == load_sweep(scores_dir / "like.toml", [entry_of(f"{scores_dir}/own.py:cluster")])
    assert method_sweep.name == "small-own"
    assert method_sweep.grid.models == ()
    assert [method.name for method in method_sweep.grid.methods] == ["own"]
    for key in ("seed", "search", "data"):
        assert getattr(method_sweep, key) == getattr(like, key)
    for key in ("datasets", "p", "m", "replicates"):
        assert getattr(method_sweep.grid, key) == getattr(like.grid, key)
    several = tomllib.loads(
        sweep("methods", "sweep", "ward", "genie", "--like", scores_dir / "like.toml").stdout
    )
    assert several["name"] == "small-ward-genie"
    assert len(several["grid"]["methods"]) == 2


def test_methods_are_named_in_words_and_in_tables(scores_dir: Path, tmp_path: Path) -> None:
    call = f"{scores_dir}/own.py:cluster"
    assert entry_of("ward") == {"call": "ward"}
    assert entry_of(call) == {"name": "own", "call": call}
    assert entry_of("sklearn.cluster:Birch") == {"name": "Birch", "call": "sklearn.cluster:Birch"}
    entry = {"name": "b", "call": f"{Path.cwd()}/own.py:f", "options": {"cut": 1}}
    assert entry_of('{name = "b", call = "own.py:f", options = {cut = 1}}') == entry
    searches = '[[search]]\nname = "a"\n[[search]]\nname = "b"\npopulation = 4\n'
    (tmp_path / "several.toml").write_text(LIKE.replace("[data]", f"{searches}[data]"))
    assert load_sweep(tmp_path / "several.toml", [{"call": "ward"}]).search_names == ()
    text = refuse("methods", "sweep", "{name = 3", f"{call}s", "warde", "--like", tmp_path / "none.toml")
    assert text.splitlines()[0] == "2 problems, nothing was started:"
    result = sweep("methods", "sweep", f"{call}s", "warde", "--like", scores_dir / "like.toml")
    assert "methods[0] call: found no 'clusters'" in result.stderr
    assert "methods[1] call: found 'warde'" in result.stderr


def test_the_scores_are_those_of_the_cube_and_are_computed_again(scores_dir: Path, monkeypatch: Any) -> None:
    raw_rows, expected = (
        rows(scores_dir / "scores.csv"),
        scores(open_cube(scores_dir / "small-own.zarr"), "iris"),
    )
    assert [row["replicate"] for row in raw_rows] == ["0", "1"]
    for row in raw_rows:
        for name in set(RAW) & set(expected):
            value = expected[name].sel(replicate=int(row["replicate"])).values.item()
            assert row[name] == ("" if np.isnan(value) else repr(value))
    result = outcome(scores_dir / "scores.csv", scores_dir)
    assert result.exit_code == 0
    assert result.stdout == f"{scores_dir}/scores.csv: 2 of 2 cells were computed again, and all are equal.\n"
    monkeypatch.chdir(scores_dir)
    sample = sweep("verify", "scores.csv", "--sweep", "own.toml", "--sample", 1)
    assert "1 of 2 cells was computed again, and is equal. If one cell was wrong, " in sample.stdout


def test_a_changed_score_is_found_with_both_values(scores_dir: Path, edit: Any) -> None:
    score = rows(scores_dir / "scores.csv")[1]["adjusted_rand"]
    result = outcome(edit((score, "0.99")), scores_dir)
    name = "iris/p=0.9/m=75/replicate=1/own"
    assert result.exit_code == 1
    assert "2 of 2 cells were computed again: 1 equal, 1 different.\n" in result.stdout
    assert f"different: {name}: adjusted_rand 0.99 in the file, {score} here\n" in result.stdout
    # rounding is no difference, and a file without one of the cells says so
    table = (scores_dir / "scores.csv").read_text().splitlines(keepends=True)
    almost = edit((score, repr(float(score) + 1e-13)), (table[-2], ""))
    assert outcome(almost, scores_dir).stdout.splitlines() == [
        f"{almost}: 1 of 1 cell was computed again, and is equal.",
        "not looked at: 1 cell in like.toml that the file lacks",
    ]
    as_json = ("--method", f"{scores_dir}/own.py:cluster", "--json")
    document = json.loads(outcome(edit((",done,", ",no solution,")), scores_dir, *as_json).stdout)
    differences = [check["differs"] for check in document["checks"] if check["differs"]]
    assert differences == [["no solution in the file, done here"]]
    failed = outcome(edit((",done,", ",failed,")), scores_dir).stdout
    assert failed.endswith("1 cell in the file without an answer\n")


def test_another_software_is_named_with_both_sides(scores_dir: Path, edit: Any) -> None:
    numba = fingerprint()["numba"]
    result = outcome(edit(('"numba": "', '"numba": "0.')), scores_dir)
    assert result.stdout.splitlines()[-2:] == [
        f"different software or processors: numba: 0.{numba} (in the file), {numba} (here)",
        PROMISE,
    ]


def test_software_that_a_file_does_not_name_is_said_where_scores_differ(scores_dir: Path, edit: Any) -> None:
    score, python = rows(scores_dir / "scores.csv")[0]["nmi"], f'"python": "{fingerprint()["python"]}", '
    assert "python" not in outcome(edit((python, "")), scores_dir).stdout
    result = outcome(edit((score, "0.5"), (python, "")), scores_dir)
    assert result.stdout.splitlines()[-2:] == ["not recorded, and perhaps other than here: python", PROMISE]


def test_a_file_of_another_sweep_or_method_is_refused_with_all_that_differs(
    scores_dir: Path, edit: Any, tmp_path: Path
) -> None:
    changes = {'"seed": 3': '"seed": 4', "scale standard": "scale none", ",own,": ",mine,", ",,0.9": ",,0.8"}
    raw_file = edit(*changes.items())
    lines = problems(raw_file, scores_dir)
    assert [line.split(", expected")[0] for line in lines] == [
        "FILE, head: settings.seed: found 4",
        f"FILE, head: data.iris: found {read_raw(raw_file).head.data['iris']!r}",
        "FILE, line 8: found 'iris/p=0.8/m=75/replicate=0/mine'",
    ]
    (tmp_path / "own.py").write_text(OWN.replace("0.0", "0.5"))
    entry = f'{{name = "own", call = "{tmp_path}/own.py:cluster", options = {{cut = 1}}}}'
    lines = problems(scores_dir / "scores.csv", scores_dir, "--method", entry)
    assert [line.split(":")[1] for line in lines] == [" methods.own.options.cut", " methods.own.code"]
    (first, *_) = problems(scores_dir / "scores.csv", scores_dir, "--data-dir", tmp_path)
    assert first.startswith("FILE, head: methods.own: found")


def test_what_is_no_file_of_scores_is_said_at_once(scores_dir: Path, edit: Any) -> None:
    table = (scores_dir / "scores.csv").read_text().splitlines(keepends=True)
    first = table[7]
    wrong = first.replace("0.9,75", "9,m").replace(",done,0", ",over,x0")
    rows_of_file = (table[8], first.replace(",own,", ",own,x,") + first + wrong)
    broken = edit(("# format: 1", "# format: 2"), ("# sweep: ", "# swap: "), rows_of_file)
    lines = problems(broken, scores_dir)
    for words in (
        "head: format: found 2, expected a whole number 1..1",
        "unknown key 'swap'",
        "sweep: missing key",
        "line 9: found 17 cells, expected 16",
        "line 10: found the cell of FILE, line 8 again",
        "line 11, p: found 9, expected an accuracy in (0, 1]",
        "line 11, m: found 'm', expected a whole number",
        "line 11, status: found 'over', expected one of",
        "line 11, nmi: found 'x0",
    ):
        assert any(words in line for line in lines), (words, lines)
    renamed = problems(edit((",nmi,", ",nmj,")), scores_dir)
    assert "found 0 columns 'nmi', expected one column 'nmi'" in renamed[0]
    assert "expected # key: JSON value" in problems(edit(("# data: {", "# data: ")), scores_dir)[0]
    for words, message in (
        ([], "--sweep: found nothing"),
        (["--sweep", scores_dir / "like.toml", "--checksums"], "--checksums: found with"),
    ):
        assert message in refuse("verify", scores_dir / "scores.csv", *words)
    text = refuse("verify", scores_dir / "small-own.zarr", "--sweep", scores_dir / "like.toml")
    assert "--sweep: found with" in text


def test_every_kind_of_cell_is_computed_again(tmp_path: Path) -> None:
    """The cells are of models, baselines, mixtures, and annotations that are asked for."""
    models = 'design = ["uniform", "active"]\nmodels = ["unsupervised-full", '
    document = TINY.replace('models = ["unsupervised", ', models)
    for many, few in (
        ("p = [0.8, 1.0]", "p = [0.8]"),
        ('"0.5N", "1N"', '"0.5N"'),
        ("replicates = 2", "replicates = 1"),
        ("restarts = 5", "restarts = 2"),
        ("[2, 3], count = 2", "[2], count = 1"),
    ):
        document = document.replace(many, few)
    document += "[ask]\nbatch = 50\nrestarts = 2\n"
    spec = write_spec(tmp_path, document)
    assert run(spec, tmp_path) == 0
    (path,) = write_export(tmp_path / "tiny.zarr", tmp_path / "export", "raw")
    raw = read_raw(path)
    verification = verify_scores(raw, load_sweep(spec), "tiny.toml", sample=1000)
    assert verification.lines() == [
        f"{path}: {len(raw.cells)} of {len(raw.cells)} cells were computed again, and all are equal."
    ]
    assert {raw_cell.cell.design for raw_cell in raw.cells} == {None, "uniform", "active"}
    full = baseline_scores(open_cube(tmp_path / "tiny.zarr"), "iris", "unsupervised-full")
    (baseline,) = (row for row in raw.cells if row.cell.dataset == "iris" and row.cell.p is None)
    assert baseline.scores["goldberger_kl"] == full["goldberger_kl"].values.item()
    with pytest.raises(InputError, match=r"head: settings\.seed"):
        verify_scores(raw, load_sweep(spec).model_copy(update={"seed": 1}), "tiny.toml", sample=1)


DAMAGED = (
    "iris/labels/c.0.0.0.0.0",
    "iris/annotations/c.1.1.0.0.0",
    "iris/status/c.0.1.0.0",
    "iris/unsupervised/log_likelihood/c.0",
    "iris/X/c.0.0",
    "mixtures_k2/X/c.0.0.0",
    "mixtures_k3/p/c.0",
)


@pytest.fixture
def cube(tiny_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run / "tiny.zarr", tmp_path / "tiny.zarr"))


FEW = tiny(99, datasets=["iris"], p=[0.8], m=["0.5N"], replicates=4, restarts=3)


@pytest.fixture(scope="module")
def few_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a cube of nine cells; it is for reading only."""
    folder = tmp_path_factory.mktemp("few")
    assert run(write_spec(folder, FEW), folder) == 0
    return folder


@pytest.fixture
def few_cells(few_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(few_run / "tiny.zarr", tmp_path / "tiny.zarr"))


@pytest.fixture
def noted_cube(tiny_run: Path, cube: Path) -> Path:
    """Return the cube with the folder of its run, which holds a digest of every file."""
    shutil.copytree(tiny_run / "tiny.run", cube.with_name("tiny.run"))
    return cube


def test_every_cell_is_reproduced_or_said(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verification = verify(cube, sample=1000)
    assert len(verification.checks) == len({check.cell for check in verification.checks}) == 85
    assert verification.lines() == [f"{cube}: 85 of 85 cells were computed again, and all are equal."]
    drawn = {
        seed: [check.cell for check in verify(cube, sample=5, seed=seed).checks] for seed in (None, 1, 2)
    }
    assert drawn[1] == [check.cell for check in verify(cube, sample=5, seed=1).checks]
    assert len(set(map(tuple, drawn.values()))) == 3
    assert len(set(drawn[None])) == 5
    monkeypatch.setattr(tasks, "run_cell", Mock(side_effect=MemoryError("none left")))
    counts = dict[str, int]()
    verification = verify(
        cube, sample=2, progress=lambda steps, title: counts.update({title: len(steps)}) or steps
    )
    assert counts["cells"] == 2
    assert not verification.good
    assert [check.cause for check in verification.checks] == ["MemoryError: none left"] * 2
    for path in cube.rglob("status"):
        zarr.open_array(path, mode="r+")[...] = 0
    with pytest.raises(InputError, match="no cell that is done"):
        verify(cube, sample=1)


def flip(path: Path, where: tuple[int, ...]) -> None:
    """Change a value of an array, a number by its last bit."""
    array = zarr.open_array(path, mode="r+")
    value = np.asarray(array[where])
    new_value = np.nextafter(value, 9) if value.dtype.kind == "f" else (value + 1) % 3
    array[where] = np.where(value == value, new_value, 0)


FLIPPED = {
    "iris/labels": (0, 0, 0, 1, 17),
    "iris/log_likelihood": (0, 0, 1, 1, 2),
    "iris/centroids": (0, 1, 0, 1, 2, 3),
    "iris/annotations": (1, 0, 0, 3, 0),
    "mixtures_k2/unsupervised/covariances": (1, 0),
}


def test_flipped_values_are_found_and_named_and_another_machine(cube: Path) -> None:
    for path, where in FLIPPED.items():
        flip(cube / path, where)
    result = sweep("verify", cube, "--sample", 1000, "--json")
    fields = json.loads(result.stdout)
    assert result.exit_code == 1
    assert not fields["good"]
    wrong = [check for check in fields["checks"] if check["differs"]]
    # both models see the annotations
    names = Counter(tuple(check["differs"]) for check in wrong)
    assert names == {(path.rpartition("/")[2],): 1 + (path == "iris/annotations") for path in FLIPPED}
    assert "iris/p=0.8/m=75/replicate=0/posterior" in [check["cell"] for check in wrong]
    document = json.loads((cube / ROOT_FILE).read_text())
    document["attributes"]["runs"][0]["fingerprint"]["machine"] = "an abacus"
    (cube / ROOT_FILE).write_text(json.dumps(document))
    zarr.open_array(cube / "iris/labels", mode="r+")[:] = 0
    lines = sweep("verify", cube, "--sample", 40).stdout
    for words in ("\ndifferent: iris/", "machine: an abacus (run 1), ", "promised only for equal software"):
        assert words in lines


def test_repaired_and_submitted_it_has_the_same_bits(tiny_run: Path, cube: Path, tmp_path: Path) -> None:
    files = sum(file.is_file() for file in cube.rglob("c*"))
    sentence = f"\n{files} files not checked for being in the right place"
    assert sentence in sweep("verify", cube, "--checksums").stdout  # there are no digests
    for key in DAMAGED:
        turn_bit(cube / key)
    before = (cube / DAMAGED[0]).read_bytes()
    would = succeed("repair", cube, "--dry-run")
    assert sweep("verify", cube, "--checksums").exit_code == 1
    with Lease.acquire(cube):
        held = sweep("repair", cube)
    assert held.exit_code == 1
    assert (cube / DAMAGED[0]).read_bytes() == before
    assert "is being written by" in held.stderr
    result = succeed("repair", cube)
    assert result.stdout.splitlines()[0] == f"{cube}: damaged files: 7"
    for key in ("iris/X/c.0.0", "mixtures_k2/X/c.0.0.0", "mixtures_k3/p/c.0"):
        assert f"\nmade again: {key}\n" in result.stdout
        assert f"\nwould be made again: {key}\n" in would.stdout
    assert "13 cells are set back, in these blocks:\n" in result.stdout
    assert result.stdout.splitlines()[-1] == f"  sweep submit SPEC --results {tmp_path}"
    again = sweep("repair", cube)
    assert again.stdout == f"{cube}: every file is as it was written, nothing to repair\n"
    assert run(write_spec(tmp_path), tmp_path) == 0
    assert_same_bits(tiny_run / "tiny.zarr", cube)


def test_what_cannot_be_made_again_and_what_is_no_cube_is_said(cube: Path, tmp_path: Path) -> None:
    root = cube / ROOT_FILE
    text = root.read_text()
    root.write_text(text.replace(json.loads(text)["attributes"]["datasets"]["iris"]["checksum"], "0" * 64))
    turn_bit(cube / "iris/X/c.0.0")
    result = sweep("repair", cube)
    assert result.exit_code == 1
    assert "cannot be made again: iris/X/c.0.0: data set iris, checksum: found '" in result.stdout
    (tmp_path / "other.zarr").mkdir()
    for name in ("none.zarr", "other.zarr"):
        assert sweep("repair", tmp_path / name).exit_code == 2
    assert not (tmp_path / "other.run").exists()


def test_whole_files_in_the_place_of_others_are_found(
    tiny_run: Path, noted_cube: Path, tmp_path: Path
) -> None:
    assert "not checked" not in sweep("verify", noted_cube, "--checksums").stdout
    swapped = {}  # two chunk files of each array, each of which is as good as the other
    for first, second in permutations(sorted(noted_cube.rglob("c.*")), 2):
        if first.parent == second.parent and second.read_bytes() != first.read_bytes():
            swapped[first.parent.name] = first, second
    assert {"labels", "log_likelihood", "centroids", "seconds", "annotations"} <= set(swapped)
    for first, second in swapped.values():
        first.rename(noted_cube / "first")
        second.rename(first)
        (noted_cube / "first").rename(second)
    document = json.loads(sweep("verify", noted_cube, "--checksums", "--json").stdout)
    keys = {str(file.relative_to(noted_cube)) for pair in swapped.values() for file in pair}
    assert not document["good"]
    assert {damage["key"] for damage in document["damaged"]} == keys
    assert sweep("repair", noted_cube).exit_code == 0
    assert run(write_spec(tmp_path), tmp_path) == 0
    assert_same_bits(tiny_run / "tiny.zarr", noted_cube)
    assert sweep("verify", noted_cube, "--checksums").exit_code == 0


def test_a_root_file_that_no_run_wrote_is_found_and_put_back(noted_cube: Path, tmp_path: Path) -> None:
    root = noted_cube / ROOT_FILE
    before = root.read_bytes()
    for content in (before.replace(b'"seed": 99', b'"seed": 98'), before[:100], None):
        assert content != before
        root.unlink()
        if content is not None:
            root.write_bytes(content)
        result = sweep("verify", noted_cube, "--checksums")
        assert result.exit_code == 1, result.output
        assert f"  {ROOT_FILE}: " in result.stdout
        text = refuse("submit", write_spec(tmp_path), "--results", tmp_path, "--workers", 0)
        assert "sweep repair puts it back" in text
        assert f"would be made again: {ROOT_FILE}" in sweep("repair", noted_cube, "--dry-run").stdout
        assert f"\nmade again: {ROOT_FILE}\n" in sweep("repair", noted_cube).stdout
        assert root.read_bytes() == before
        assert sweep("verify", noted_cube, "--checksums").exit_code == 0


def test_the_file_alone_says_which_cells_are_drawn(few_cells: Path, tmp_path: Path) -> None:
    """Times, runs, chunks and compression change no draw, but the last bit of any value does."""
    drawn = [check.cell for check in verify(few_cells, sample=5).checks]
    array = zarr.open_array(few_cells / "iris/seconds", mode="r+")
    array[...] = np.asarray(array) + 1.0
    keep_causes(few_cells, {"iris/unsupervised": "nothing"})
    assert [check.cell for check in verify(few_cells, sample=5).checks] == drawn
    (tmp_path / "grown").mkdir()
    for text in (FEW.replace("replicates = 4", "replicates = 1"), FEW):
        assert run(write_spec(tmp_path / "grown", text), tmp_path / "grown") == 0
    assert content_hash(tmp_path / "grown/tiny.zarr") == content_hash(few_cells)
    flip(few_cells / "iris/labels", (0, 0, 0, 1, 17))
    assert [check.cell for check in verify(few_cells, sample=5).checks] != drawn


@pytest.mark.parametrize(("n_all", "n", "chance"), [(6435, 40, ".87"), (85, 5, ".22"), (40, 38, "above .99")])
def test_the_probability_is_exact(n_all: int, n: int, chance: str) -> None:
    text = statement(["equal"] * n, n_all, CELLS)
    assert text.endswith(
        f" If 5 % of the cells were wrong, this would have been seen with probability {chance}."
    )
    probability = hypergeom(n_all, n_all * 5 // 100, n).sf(0)
    assert chance == ("above .99" if probability > 0.99 else f"{probability:.2f}"[1:])
    assert "probability" not in statement(["equal"] * n + ["different"], n_all, CELLS)
    assert statement(["equal"], 1, CELLS) == "1 of 1 cell was computed again, and is equal."


def test_rounding_is_told_from_other_solutions() -> None:
    labels, objectives = np.array([[0, 0, 1, 2]]), np.array([[-7.0, -9.0, np.nan]])
    row = {"labels": labels, "log_likelihood": objectives, "restarts_done": np.array([2])}
    for name, values, expected in (
        ("log_likelihood", objectives * (1.0 + 1e-12), True),
        ("log_likelihood", np.array([[-8.0, -7.0 - 1e-12, np.nan]]), True),
        ("log_likelihood", objectives * (1.0 + 1e-8), False),
        ("labels", np.array([[2, 2, 0, 1]]), True),
        ("labels", np.array([[2, 2, 0, 0]]), False),
        ("labels", np.array([[0, 1, 2, 2]]), False),
        ("restarts_done", np.array([3]), False),
    ):
        assert is_rounded(row, row | {name: values}) == expected, (name, values)


def test_a_cell_knows_the_class_of_its_machine(few_cells: Path, tmp_path: Path) -> None:
    """A difference counts as rounding only if a machine of another class computed the cell."""
    cube = few_cells
    manifest = read_manifest(cube)
    ((code, here),) = manifest.machines.items()
    assert here == machine_class()
    assert int(code) == class_code(here)
    node = open_cube(cube)["iris"]
    assert (node["machine"].values == int(code)).all()
    name, where = "iris/p=0.8/m=75/replicate=0/posterior", (0, 0, 0, 1)
    flip(cube / "iris/log_likelihood", (*where, 2))
    result = sweep("verify", cube, "--sample", 9)
    assert result.exit_code == 1
    assert f"different: {name}: log_likelihood\n" in result.stdout
    elsewhere = "abacus, numpy beads, 0badbead"
    store = BlockStore(cube)
    store.name_machines([elsewhere, here])
    assert read_manifest(cube).machines == {code: here, str(class_code(elsewhere)): elsewhere}
    zarr.open_array(cube / "iris/machine", mode="r+")[where] = class_code(elsewhere)
    result = succeed("verify", cube, "--sample", 9)
    assert result.stdout.splitlines()[0].endswith("computed again: 8 equal, 1 equal within rounding.")
    assert f"equal within rounding: {name}: log_likelihood (computed on {elsewhere})\n" in result.stdout
    assert content_hash(cube) == content_hash(Path(shutil.copytree(cube, tmp_path / "copy.zarr")))
    flip(cube / "iris/labels", (*where, 17))
    assert sweep("verify", cube, "--sample", 9).exit_code == 1


def test_restarts_on_several_machines_are_of_a_class_of_their_own() -> None:
    cell, solution = Cell("iris", None, 0.9, 75, 0, "posterior"), np.zeros(2, np.int16)
    parts = [
        Solved(
            Span(cell, at, at + 1),
            np.array([float(at)]),
            at,
            solution,
            *np.zeros((2, 2, 1)),
            0.1,
            0.1,
            machine=name,
        )
        for at, name in enumerate("ba")
    ]
    texts = set()
    for order in (parts, parts[::-1]):
        merged = CellResult(cell, 2)
        for part in order:
            merged.add(part)
        texts.add(merged.machine)
    assert texts == {"a and b"}
    (result,) = from_record(*to_record(parts[:1]))
    assert result.machine == "b"


# Records of verifications, for one file alone.


def records_of(paths: list[Path], *files: Path) -> dict[Path, list[VerificationRecord]]:
    return read_records(paths, {file: published_hash(file) for file in files})


@pytest.fixture(scope="module")
def record(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "ann.json"
    succeed("verify", tiny_run / "tiny.zarr", "--sample", 20, "--record", path, "--by", "Ann")
    return path


def test_a_record_says_who_computed_which_cells_again(tiny_run: Path, record: Path) -> None:
    ((file, (verification,)),) = records_of([record], tiny_run / "tiny.zarr").items()
    assert file == tiny_run / "tiny.zarr"
    assert verification.file == "tiny.zarr"
    assert verification.by == "Ann"
    assert verification.seed is None
    assert verification.n_cells == 85
    assert len(verification.cells) == 20
    result = sweep("verify", tiny_run / "tiny.zarr", "--sample", 20).stdout
    assert verification.statements == [result.strip().removeprefix(f"{tiny_run}/tiny.zarr: ")]
    assert verification.made_with == fingerprint(read_manifest(file).spec)


def record_problems(path: Path, content: Any, cube: Path) -> list[str]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError) as raised:
        records_of([path], cube)
    return [str(problem).replace(f"{path}", "FILE") for problem in raised.value.problems]


def test_a_record_of_another_file_and_one_that_lies_are_refused(
    tiny_run: Path, record: Path, tmp_path: Path
) -> None:
    values, path, cube = json.loads(record.read_text()), tmp_path / "record.json", tiny_run / "tiny.zarr"
    (problem,) = record_problems(path, values | {"sha256": "0" * 64}, cube)
    assert problem.startswith(f"FILE: sha256: found {'0' * 64}, expected the hash of one of {cube}")
    twice = values | {"cells": [*values["cells"], values["cells"][0]]}
    problems = record_problems(path, twice, cube)
    assert problems == ["FILE: cells: found 21 of 85 cells, expected those that the file draws"]
    for change in (
        {"n_cells": 19},
        {"cells": values["cells"][::-1]},
        {"seed": 1},
        {"cells": values["cells"][1:]},
    ):
        assert "those that the file draws" in record_problems(path, values | change, cube)[0]
    changed = values | {"format_version": 2, "cells": [{"cell": "a", "answer": "good"}], "key": 1}
    assert len(record_problems(path, changed, cube)) == 4
    assert "no JSON" in record_problems(path, "[", cube)[0]
    # a record beside a cube may be of its bundle, which has the same stem
    digest = published_hash(cube)
    path.write_text(json.dumps(values | {"sha256": "0" * 64, "file": "tiny.zip"}))
    assert read_records([], {cube: digest}, [path]) == {cube: []}
    path.write_text(json.dumps(values | {"sha256": "0" * 64}))
    with pytest.raises(InputError, match="a file that has changed since has another hash"):
        read_records([], {cube: digest}, [path])
    with pytest.raises(InputError, match=r"gone\.json: no such file"):
        read_records([tmp_path / "gone.json"], {cube: digest})


def test_options_of_a_record_are_checked_before_anything_is_computed(tiny_run: Path, record: Path) -> None:
    cube = tiny_run / "tiny.zarr"
    for options, words in (
        (["--record", "new.json"], ["--by: found nothing"]),
        (["--by", "Ann"], ["--record: found nothing"]),
        (["--record", record, "--by", "Ann"], [f"--record {record}: found a file"]),
        (["--record", "new.json", "--checksums"], ["--by: found nothing", "found --checksums as well"]),
    ):
        text = refuse("verify", cube, *options)
        assert all(word in text for word in words), text
    assert not Path("new.json").exists()


def test_an_outcome_is_said_though_its_record_cannot_be_written(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record = tmp_path / "file" / "new.json"
    result = sweep("verify", tiny_run / "tiny.zarr", "--sample", 1, "--record", record, "--by", "Ann")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tiny_run}/tiny.zarr: 1 of 85 cells was computed again, and is equal.")
    assert str(record) in result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("without_sections")
def test_a_bundle_is_verified_by_its_own_hash(tiny_run: Path, tmp_path: Path) -> None:
    """Neither a changed byte nor a forged value that its author packed again is missed."""
    bundle, record = tmp_path / "tiny.zip", tmp_path / "record.json"
    write_bundle(tiny_run / "tiny.zarr", bundle)
    result = succeed("verify", bundle, "--sample", 20, "--record", record, "--by", "Ann")
    assert result.stdout.startswith(
        f"{bundle}: 20 of 85 cells were computed again, and all are equal. If 5 % of"
    )
    by_file = records_of([record], bundle, tiny_run / "tiny.zarr")
    assert [(file.name, len(records)) for file, records in by_file.items()] == [
        ("tiny.zip", 1),
        ("tiny.zarr", 0),
    ]
    assert by_file[bundle][0].sha256 == hashlib.sha256(bundle.read_bytes()).hexdigest()
    with pytest.raises(InputError, match="sha256"):
        records_of([record], tiny_run / "tiny.zarr")
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "changed.zip").write_bytes(content)
    assert sweep("verify", tmp_path / "changed.zip").exit_code == 2
    cube = Path(shutil.copytree(tiny_run / "tiny.zarr", tmp_path / "tiny.zarr"))
    labels = zarr.open_array(cube / "iris/labels", mode="r+")
    labels[0, 0, 0, 1, 17] = (int(labels[0, 0, 0, 1, 17]) + 1) % 3
    forged = tmp_path / "forged.zip"
    write_bundle(cube, forged)
    result = sweep("verify", forged, "--sample", 100)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"{forged}: 85 of 85 cells were computed again: 84 equal, 1 different."
    assert lines[1].startswith("different: iris/p=0.8/m=75/replicate=0/posterior: labels, nmi 0.")
