"""Sweeps that choose pairs in several ways: the same bits wherever and however often they are run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import sabotage
from processes.sweeping import assert_same_bits, kill_when, run, start, write_spec

import pipeline.work.tasks
from pipeline.check.verify import verify
from pipeline.monitor.status import read_status
from pipeline.monitor.why import explain, failed_causes
from pipeline.report.write import write_report
from pipeline.work.journalled import is_of_paths, written_paths
from pipeline.work.records import Asking, PathPart
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, FAILED
from storage.runfolder.folder import RunFolder
from storage.runfolder.journal import replay
from storage.runfolder.records import read_failures
from sweeps.annotations.draw import answer_pairs

SPEC = """
name = "tiny"
seed = 5
[grid]
datasets = ["iris"]
p = [0.8, 0.95]
m = [M]
replicates = 2
models = ["unsupervised", "likelihood", "conditional"]
methods = ["pckmeans"]
restarts = 2
design = [DESIGNS]
[search]
population = 3
offspring = 2
generations = 1
[ask]
batch = 12
restarts = 1
covariance = "spherical"
"""
DESIGNS = '"uniform", "active", "biased"'
ACTIVE = "iris/p=0.8/design=active/replicate=0"
CELL = "iris/p=0.8/m=30/design=active/replicate=0/conditional"


def spec(folder: Path, m: str = "20, 30", designs: str = DESIGNS) -> Path:
    folder.mkdir(exist_ok=True)
    text = SPEC.replace("M]", f"{m}]").replace("DESIGNS", designs)
    # a table on asking is refused where no design asks
    return write_spec(folder, text if "active" in designs else text.partition("[ask]")[0])


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    assert run(spec(folder), folder) == 0
    return folder / "tiny.zarr"


def journalled(cube: Path) -> list[PathPart]:
    """Answers that the journal of the newest generation holds."""
    manifest = read_manifest(cube)
    asking = {name: Asking.of(manifest.spec, plan) for name, plan in manifest.plans.items()}
    generations = RunFolder(cube).generations()
    records = replay(generations[-1].journal) if generations else ()
    return [
        part
        for header, arrays in records
        if is_of_paths(header)
        for part in written_paths(header, arrays, manifest.plans, asking)
    ]


def test_the_cube_holds_prefixes_of_paths(reference: Path) -> None:
    node = open_cube(reference)["iris"]
    assert node["labels"].dims == ("p", "m", "design", "replicate", "model", "sample")
    assert node["annotations"].dims == ("p", "m", "design", "replicate", "annotation", "field")
    assert node["design"].values.tolist() == ["uniform", "active", "biased"]
    found = node["annotations"].load()
    asked = found.sel(design="active")
    assert (asked.sel(m=20)[..., :20, :] == asked.sel(m=30)[..., :20, :]).all()
    assert (asked.sel(m=30) >= 0).all()
    assert (asked.sel(m=20)[..., 20:, :] == -1).all()
    drawn = found.sel(design="uniform")
    assert not (drawn.sel(m=20)[..., :20, :] == drawn.sel(m=30)[..., :20, :]).all()
    # questions are about two samples, and twelve of a batch about different pairs
    pairs = asked.sel(m=30).values[..., :12, :2].reshape(-1, 12, 2)
    assert (pairs[..., 0] < pairs[..., 1]).all()
    assert all(len({tuple(pair) for pair in batch.tolist()}) == 12 for batch in pairs)


def test_local_workers_give_the_bits_of_the_serial_run(reference: Path, tmp_path: Path) -> None:
    assert run(spec(tmp_path), tmp_path, workers=2) == 0
    assert_same_bits(reference, tmp_path / "tiny.zarr")
    assert journalled(tmp_path / "tiny.zarr") == []


def test_cells_and_paths_are_verified(reference: Path) -> None:
    found = verify(reference, sample=100)
    assert found.good
    assert len(found.checks) == 73
    assert len(found.paths) == 3, "one for every ten of 24 cells whose pairs were asked for"


def test_a_changed_answer_is_found(reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = lambda rng, labels, pairs, p: answer_pairs(rng, labels, pairs, p=1.0)  # noqa: E731
    monkeypatch.setattr("pipeline.asking.strategies.answer_pairs", other)
    found = verify(reference, sample=30)
    assert all(check.good for check in found.checks)
    assert not any(check.good for check in found.paths)
    assert "annotations from question" in found.lines()[-1]


def test_grown_by_m_and_a_design_it_is_as_made_at_once(reference: Path, tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    assert run(spec(tmp_path, "20", '"uniform", "biased"'), tmp_path) == 0
    assert run(spec(tmp_path, "20"), tmp_path) == 0
    assert run(spec(tmp_path, "20, 30"), tmp_path) == 0
    ordered = tmp_path / "ordered"
    # designs stand in the order of arrival: that of the reference is another one
    assert run(spec(ordered, designs='"uniform", "biased", "active"'), ordered) == 0
    assert_same_bits(ordered / "tiny.zarr", cube)
    for name in ("labels", "annotations"):
        one, other = (open_cube(path)["iris"][name].sel(design="active") for path in (reference, cube))
        assert np.array_equal(one, other)
    assert read_manifest(cube).plans["iris"].designs == ("uniform", "biased", "active")


def test_one_design_that_asks_is_an_attribute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run(spec(tmp_path, designs='"active"'), tmp_path) == 0
    node = open_cube(tmp_path / "tiny.zarr")["iris"]
    assert node["labels"].dims == ("p", "m", "replicate", "model", "sample")
    assert node.attrs["design"] == "active"
    assert verify(tmp_path / "tiny.zarr", sample=5).good
    assert explain(tmp_path / "tiny.zarr", CELL).state == "done"


@pytest.mark.parametrize("moment", [1, 3, 6])
def test_killed_during_its_paths_it_resumes_with_the_same_bits(
    reference: Path, tmp_path: Path, moment: int
) -> None:
    cube, file = tmp_path / "tiny.zarr", spec(tmp_path)
    kill_when(lambda: cube.exists() and len(journalled(cube)) >= moment, file, tmp_path, "--workers", "2")
    before = {(part.path, part.start) for part in journalled(cube)}
    asked: list[PathPart] = []
    real = pipeline.work.tasks.run_path

    def spied(task: Any, source: Any) -> Any:
        results = real(task, source)
        asked.extend(result for result in results if isinstance(result, PathPart))
        return results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.work.tasks.run_path", spied)
        assert run(file, tmp_path) == 0
    assert_same_bits(reference, cube)
    assert len(before) >= min(moment, 1)
    assert not before & {(part.path, part.start) for part in asked}, "what was journalled is not asked again"


def test_a_path_that_fails_marks_its_cells(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube, real = tmp_path / "tiny.zarr", pipeline.work.tasks.ask_batch

    def failing(asking: Any, path: Any, known: Any, arrays: Any) -> Any:
        if str(path) == ACTIVE and len(known) >= 24:
            raise ArithmeticError("nothing to ask with")
        return real(asking, path, known, arrays)

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.work.tasks.ask_batch", failing)
        assert run(spec(tmp_path), tmp_path) == 3
    node = open_cube(cube)["iris"]
    failed = node["status"].to_dataframe().query(f"status == {FAILED}").reset_index()
    assert set(map(tuple, failed[["p", "m", "design", "replicate"]].to_numpy().tolist())) == {
        (0.8, 30, "active", 0)
    }
    assert (node["status"].sel(m=20) == DONE).all()
    assert "nothing to ask with" in failed_causes(cube)[CELL]
    found = explain(cube, CELL)
    assert found.state == "failed"
    assert [record.cell for record in found.failures] == [ACTIVE] * 2
    assert "24 of 30 answers" in "\n".join(found.lines())
    assert len(read_failures(RunFolder(cube))) == 2
    assert run(spec(tmp_path), tmp_path) == 3, "not tried again unless asked to"
    assert run(spec(tmp_path), tmp_path, retry_failed=True) == 0
    assert_same_bits(reference, cube)


@pytest.mark.parametrize("fault", ["killed", "raises"])
def test_questions_that_end_their_worker_cost_their_cells_alone(tmp_path: Path, fault: str) -> None:
    cube = tmp_path / "tiny.zarr"
    environment = sabotage.environment([(ACTIVE, fault)])
    process = start(spec(tmp_path, "20"), tmp_path, "--workers", "2", environment=environment)
    _, log = process.communicate(timeout=300)
    assert process.returncode == 3, log
    node = open_cube(cube)["iris"]
    failed = node["status"].to_dataframe().query(f"status == {FAILED}").reset_index()
    assert len(failed) == 3
    assert set(map(tuple, failed[["p", "design", "replicate"]].to_numpy().tolist())) == {(0.8, "active", 0)}
    cause = failed_causes(cube)[CELL.replace("m=30", "m=20")]
    assert ("no such luck" if fault == "raises" else "orker") in cause


def test_retried_from_the_cube_alone(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is gone: annotations of the largest m that is written are the beginning of the path."""
    cube = tmp_path / "tiny.zarr"
    assert run(spec(tmp_path, "20"), tmp_path) == 0
    shutil.rmtree(RunFolder(cube).path)
    started: list[int] = []
    real = pipeline.work.tasks.ask_batch

    def spied(asking: Any, path: Any, known: Any, arrays: Any) -> Any:
        started.append(len(known))
        return real(asking, path, known, arrays)

    monkeypatch.setattr("pipeline.work.tasks.ask_batch", spied)
    assert run(spec(tmp_path, "20, 30"), tmp_path) == 0
    assert_same_bits(reference, cube)
    assert sorted(started) == [12] * 4 + [24] * 4


@pytest.mark.usefixtures("page_alone")
def test_reports_are_of_one_design_and_tables_of_all(reference: Path, tmp_path: Path) -> None:
    report = write_report(reference, tmp_path / "report", cell=CELL)
    assert set(report.cells["design"].dropna()) == {"uniform", "active", "biased"}
    assert set(report.summary["design"].dropna()) == {"uniform", "active", "biased"}
    assert (report.summary.loc[report.summary["p"].notna(), "n_cells"] == 2).all()
    assert "What follows is of uniform" in report.text
    assert CELL in report.page.read_text()


def test_status_counts_questions(reference: Path) -> None:
    status = read_status(reference)
    assert status.to_dict()["complete"]
    state = json.loads(RunFolder(reference).last_run.state.read_text())
    assert (state["asked"], state["questions"]) == (4 * 36 - 2 * 24, 4 * 36 - 2 * 24)
