"""A sweep with every axis has the bits of one run in one process, whatever happens to it.

Designs that draw and one that asks, searches, methods, a chosen shape, mixtures, one's own table with names.
"""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import xarray as xr
from checkout import ROOT
from processes import sabotage
from processes.killing import kill_family, workers_of
from processes.sweeping import assert_same_bits, run, start, wait_until, write_spec

from sweep_clustering.pipeline.check import verify
from sweep_clustering.pipeline.monitor.status import explain, failed_causes, read_status
from sweep_clustering.pipeline.report.compare import write_comparison
from sweep_clustering.pipeline.scoring.tables import cell_table
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Science, Solved, Span, from_record
from sweep_clustering.storage.cube.blocks import UNPROMISED, BlockStore
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE, FAILED
from sweep_clustering.storage.runfolder.folder import RunFolder, read_failures
from sweep_clustering.storage.runfolder.journal import replay
from sweep_clustering.sweeps.annotations.draw import answer_pairs
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.inputs import Source

SPEC = """
name = "tiny"
seed = 5
[grid]
datasets = [
    { name = "own", path = "own.csv", index_column = "id", label_column = "kind", missing = "drop" },
    { name = "drawn", mixture = { n_clusters = [3], count = 2, n_samples = 24, n_features = 2 } },
]
p = [0.8]
m = [M]
design = [DESIGNS]
replicates = 1
models = ["unsupervised", "conditional-auto"]
methods = [METHODS]
restarts = 2
[ask]
batch = 8
restarts = 1
covariance = "spherical"
"""
CODE = """
import numpy as np
from sweep_clustering import Solution


def ahead(X, n_clusters, must_link, cannot_link, **more):
    return np.arange(len(X)) % n_clusters


def nearest(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    rng = np.random.default_rng(random_state)
    distances = ((X[:, None] - X[rng.choice(len(X), n_clusters, replace=False)]) ** 2).sum(axis=2)
    return Solution(distances.argmin(axis=1), objective=-distances.min(axis=1).sum())
"""
QUICK = {"method": '"published"', "population": "3", "offspring": "2", "generations": "1"}
# "longer" is "quick" with more generations: from the same stream it is never worse
SEARCHES = {
    "quick": QUICK,
    "longer": QUICK | {"generations": "3"},
    "prior": QUICK | {"covariance_prior": "2.0"},
}
METHODS = (
    '{ name = "ahead", call = "mine.py:ahead", uses = "nothing" }',
    '{ name = "nearest", call = "mine.py:nearest", uses = "nothing", restarts = 2 }',
)
DESIGNS = '"uniform", "active", "biased"'
N_INPUTS = 3
N_CELLS = N_INPUTS * (2 * 3 * 3 + 3 + 2)
PATHS = N_INPUTS
ACTIVE = "own/p=0.8/design=active/replicate=0"
CELL = "own/p=0.8/m=20/design=active/replicate=0/search=longer/conditional-auto"


def spec(
    folder: Path,
    *,
    searches: tuple[str, ...] = tuple(SEARCHES),
    m: str = "10, 20",
    designs: str = DESIGNS,
    methods: tuple[str, ...] = METHODS,
) -> Path:
    """Write the sweep file at some stage of its growth, with the files that it names."""
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "tests" / "golden" / "sweeps" / "own.csv", folder)
    (folder / "mine.py").write_text(CODE)
    text = SPEC.replace("M]", f"{m}]").replace("DESIGNS", designs).replace("METHODS", ", ".join(methods))
    for name in searches:
        head = "[search]" if len(searches) == 1 else f'[[search]]\nname = "{name}"'
        text += "\n".join([head, *(f"{key} = {value}" for key, value in SEARCHES[name].items()), ""])
    return write_spec(folder, text)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    assert run(spec(folder), folder) == 0
    return folder / "tiny.zarr"


def answers(cube: Path) -> set[tuple[str, int]]:
    """Return paths and first questions of the answers in the journal of the newest generation."""
    if not cube.exists():
        return set()
    return {
        (str(result.span.unit), result.span.start)
        for generation in RunFolder(cube).generations()[-1:]
        for header, arrays in replay(generation.journal)
        if "paths" in header
        for result in from_record(header, arrays)
    }


def count_done(cube: Path) -> int:
    store = BlockStore(cube, read_only=True)
    return sum(1 for _ in store.cells(read_manifest(cube).plans.values(), DONE))


@pytest.fixture
def computed_work(monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, int]], list[str]]:
    """Return what a serial run computes: the first question of each batch with its path, and cells."""
    questions: list[tuple[str, int]] = []
    solved: list[str] = []
    ask, solve = tasks.ask_batch, tasks.run_cell

    def spied_ask(asking: Any, path: Any, known: Any, arrays: Any) -> Any:
        questions.append((str(path), len(known)))
        return ask(asking, path, known, arrays)

    def spied_solve(science: Science, work: Span, source: Source) -> Solved:
        solved.append(str(work.unit))
        return solve(science, work, source)

    monkeypatch.setattr(tasks, "ask_batch", spied_ask)
    monkeypatch.setattr(tasks, "run_cell", spied_solve)
    return questions, solved


def test_the_cube_has_every_axis(reference: Path) -> None:
    tree = xr.open_datatree(reference, engine="zarr", chunks={})
    drawn, table = tree["drawn_k3"], tree["own"]
    assert drawn["labels"].dims == ("mixture", "p", "m", "design", "replicate", "search", "model", "sample")
    assert drawn["annotations"].dims == ("mixture", "p", "m", "design", "replicate", "annotation", "field")
    chunks = drawn["labels"].encoding["preferred_chunks"]
    assert chunks["search"] == 1
    assert chunks["model"] == 1
    assert drawn["unsupervised"]["status"].dims == ("mixture", "search")
    assert table["ahead"]["status"].dims == (), "a method does not search"
    assert table["feature"].values.tolist() == ["length", "width"]
    assert table["sample"].values.tolist()[:2] == ["row 0", "row 1"]
    assert count_done(reference) == N_CELLS
    best = table["unsupervised"]["log_likelihood"]
    assert (best.sel(search="longer") >= best.sel(search="quick")).all(), "the same stream, for longer"
    # fewer annotations are the first of more if the design asks, and others if it draws
    annotations = table["annotations"].load()
    active = annotations.sel(design="active")
    assert (active.sel(m=20) >= 0).all()
    assert (active.sel(m=10)[..., 10:, :] == -1).all()
    assert (active.sel(m=10)[..., :10, :] == active.sel(m=20)[..., :10, :]).all()
    uniform = annotations.sel(design="uniform")
    assert not (uniform.sel(m=10)[..., :10, :] == uniform.sel(m=20)[..., :10, :]).all()
    # questions are about two samples, and those of a batch about different pairs
    pairs = active.sel(m=20).values[..., :8, :2].reshape(-1, 8, 2)
    assert (pairs[..., 0] < pairs[..., 1]).all()
    assert all(len({tuple(pair) for pair in batch.tolist()}) == 8 for batch in pairs)


def test_questions_are_counted(reference: Path) -> None:
    state = json.loads(RunFolder(reference).last_run.state.read_text())
    # Those of the batches that were timed, before anything was predicted, are among them.
    assert state["asked"] == state["questions"] == PATHS * 24
    assert read_status(reference).to_dict()["complete"]


def test_every_cell_and_path_is_verified(reference: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verification = verify(reference, sample=N_CELLS, run_methods=True)
    assert verification.good
    assert len(verification.checks) == N_CELLS
    assert verification.left_out == 0
    assert verification.paths
    honest = lambda rng, labels, pairs, p: answer_pairs(rng, labels, pairs, p=1.0)  # noqa: E731
    monkeypatch.setattr("sweep_clustering.pipeline.asking.strategies.answer_pairs", honest)
    changed = verify(reference, sample=10)
    assert {check.answer for check in changed.checks} == {"equal"}
    assert {check.answer for check in changed.paths} == {"different"}


@pytest.mark.usefixtures("undrawn")
def test_a_search_has_the_bits_scores_and_name_of_a_sweep_of_its_own(reference: Path, tmp_path: Path) -> None:
    """Streams do not depend on the search, so that differences between searches are paired."""
    assert run(spec(tmp_path, searches=("prior",)), tmp_path) == 0
    alone = tmp_path / "tiny.zarr"
    tree, single = open_cube(reference), open_cube(alone)
    assert [node.path for node in tree.subtree] == [node.path for node in single.subtree]
    for node in single.subtree:
        here, there = tree[node.path].to_dataset(), node.to_dataset()
        here = here.sel(search="prior", drop=True) if "search" in here.dims else here
        for key in set(there.data_vars) - set(UNPROMISED):
            assert here[key].dims == there[key].dims
            assert here[key].values.tobytes() == there[key].values.tobytes(), (node.path, key)
    cells = cell_table(tree, read_manifest(reference).plans)
    single_cells = cell_table(single, read_manifest(alone).plans)
    here = cells[(cells["search"] == "prior") | cells["search"].isna()]
    keys = ["dataset", "mixture", "p", "m", "design", "replicate", "model"]
    pairs = here.merge(single_cells, on=keys, suffixes=("", "_alone"))
    assert len(pairs) == len(single_cells) == len(here)
    # the divergence depends on the prior, which is another one in each search
    for score in ("objective", "nmi", "goldberger_kl", "relative_nmi"):
        np.testing.assert_array_equal(pairs[score], pairs[f"{score}_alone"])
    comparison = write_comparison(alone, reference, tmp_path / "compared", ["nmi"])
    assert set(comparison.pairs["search"].dropna()) == {"prior"}
    assert (comparison.pairs["difference"].dropna() == 0).all()


@pytest.mark.slow
def test_workers_and_batches_of_another_length_give_the_same_bits(reference: Path, tmp_path: Path) -> None:
    assert run(spec(tmp_path), tmp_path, workers=2, batch_restarts=3) == 0
    assert_same_bits(reference, tmp_path / "tiny.zarr")
    assert answers(tmp_path / "tiny.zarr") == set()


def test_grown_along_every_axis_without_its_run_folder(
    reference: Path, tmp_path: Path, computed_work: tuple[list[tuple[str, int]], list[str]]
) -> None:
    """The annotations of the largest written m are then the beginning of the path."""
    cube = tmp_path / "tiny.zarr"
    small = {"searches": ("quick", "longer"), "m": "10", "designs": '"uniform", "active"'}
    assert run(spec(tmp_path, **small, methods=METHODS[:1]), tmp_path) == 0  # type: ignore[arg-type]
    before = count_done(cube)
    shutil.rmtree(RunFolder(cube).path)
    questions, solved = computed_work
    questions.clear()
    solved.clear()
    assert run(spec(tmp_path), tmp_path) == 0
    assert_same_bits(reference, cube)
    assert sorted(known for _, known in questions) == [8] * PATHS + [16] * PATHS
    assert len(set(solved)) == N_CELLS - before, "what is done is not done again"
    with pytest.raises(InputError, match="search: found one, expected also quick, longer, prior"):
        run(spec(tmp_path, searches=("quick",)), tmp_path)


@pytest.mark.slow
def test_a_worker_and_then_the_driver_killed(
    reference: Path, tmp_path: Path, computed_work: tuple[list[tuple[str, int]], list[str]]
) -> None:
    """Journalled results are neither asked nor solved again."""
    cube, file = tmp_path / "tiny.zarr", spec(tmp_path)
    environment = sabotage.environment([("", "paced")], pace=0.02)
    process = start(file, tmp_path, "--workers", "2", environment=environment)
    try:
        wait_until(lambda: answers(cube), process)
        victim, *_ = workers_of(process.pid)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(victim) and count_done(cube) > N_CELLS // 4, process)
    finally:
        kill_family(process.pid)
        process.communicate()
    questions_before, n_done = answers(cube), count_done(cube)
    assert run(file, tmp_path) == 0
    assert_same_bits(reference, cube)
    questions, solved = computed_work
    assert not questions_before & set(questions)
    assert len(set(solved)) <= N_CELLS - n_done


def test_a_path_that_fails_marks_its_cells_until_it_is_tried_again(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube, real = tmp_path / "tiny.zarr", tasks.ask_batch
    file = spec(tmp_path, searches=("longer",), designs='"active"', methods=METHODS[:1])
    cell = CELL.replace("/search=longer", "")

    def fail_late(asking: Any, path: Any, known: Any, arrays: Any) -> Any:
        if str(path) == ACTIVE and len(known) >= 16:
            raise ArithmeticError("nothing to ask with")
        return real(asking, path, known, arrays)

    with monkeypatch.context() as patch:
        patch.setattr("sweep_clustering.pipeline.work.tasks.ask_batch", fail_late)
        assert run(file, tmp_path) == 3
    node = open_cube(cube)["own"]
    assert node.attrs["design"] == "active", "one alone is no dimension"
    failed = node["status"].to_dataframe().query(f"status == {FAILED}").reset_index()
    assert set(map(tuple, failed[["m", "replicate"]].to_numpy().tolist())) == {(20, 0)}
    assert (node["status"].sel(m=10) == DONE).all()
    assert "nothing to ask with" in failed_causes(cube)[cell]
    explanation = explain(cube, cell)
    assert explanation.state == "failed"
    assert [record.cell for record in explanation.failures] == [ACTIVE] * 2
    assert f"answers of {ACTIVE}" in "\n".join(explanation.lines())
    assert len(read_failures(RunFolder(cube))) == 2
    assert run(file, tmp_path) == 3, "not tried again unless asked to"
    assert run(file, tmp_path, retry_failed=True) == 0
    node, whole = (open_cube(path)["own"].to_dataset().load() for path in (cube, reference))
    assert (node["status"] == DONE).all()
    assert np.array_equal(node["annotations"], whole["annotations"].sel(design="active"))
    assert np.array_equal(node["labels"], whole["labels"].sel(design="active", search="longer"))


@pytest.mark.slow
def test_questions_that_end_their_worker_cost_their_cells_alone(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    environment = sabotage.environment([(ACTIVE, "kill_self")])
    process = start(spec(tmp_path, m="10"), tmp_path, "--workers", "2", environment=environment)
    _, log = process.communicate(timeout=300)
    assert process.returncode == 3, log
    failed = [cell for cell in failed_causes(cube) if "replicate=0" in cell]
    assert len(failed) == 3
    assert all("orker" in cause for cause in failed_causes(cube).values())
