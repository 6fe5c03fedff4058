"""What a worker does with a batch."""

from __future__ import annotations

import dataclasses
import shutil
import signal
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from cubes.small import make_plan
from hypothesis import given
from hypothesis import strategies as st
from processes.sweeping import TINY, assert_same_bits, restarts_run, run, write_spec
from solving.blobs import far_clusters

import kernels.choice.held_out
import kernels.search.genetic
import pipeline.asking.strategies
import pipeline.work.tasks
from kernels.choice.held_out import choose_covariance, held_out, list_annotations
from kernels.partition.objective import objective_terms
from kernels.problem.problem import build_problem, layers_from_annotations
from kernels.scores import cluster_gaussians
from kernels.settings import CANDIDATES
from pipeline.check.verify import verify
from pipeline.common import SAME_OPTIMUM
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import MethodFailed
from pipeline.run.signals import Stopped
from pipeline.work import tasks as executor
from pipeline.work.merge import CellResult
from pipeline.work.records import (
    NO_ANSWERS,
    Asking,
    Batch,
    Failure,
    Partial,
    PathBatch,
    PathFailure,
    PathPart,
    Science,
    Work,
)
from pipeline.work.tasks import (
    SerialExecutor,
    ask_batch,
    check_calls,
    load_kernels,
    method_calls,
    optimum_counts,
    restarts_enough,
    run_batch,
    run_method,
    run_path,
    unseen_mass,
)
from pipeline.work.timing import Timing, make_batches
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE
from sweeps.errors import InputError
from sweeps.file.methods import Method, checksum
from sweeps.file.search import Search
from sweeps.file.spec import RULES, Stop
from sweeps.inputs import RealSource, Source, cell_annotations
from sweeps.plan import AskedPath, Cell
from sweeps.seeds import choice_seed, method_seed, path_seed
from sweeps.shapes import DIMS, SCORED
from sweeps.words import MODEL_CODES, split_model

# Calls of a method as restarts of a cell: seeds, links, the best call, and what a method does not say.

CODE = """
import numpy as np
from pipeline import NoSolution, Solution

def echo(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, mode="plain"):
    labels = np.random.default_rng(random_state).integers(n_clusters, size=len(X))
    if mode == "seed":
        return Solution(labels, objective=random_state)
    if mode == "odd" and random_state % 2:
        raise NoSolution("odd")
    if mode == "links":
        found = [must_link.tolist(), cannot_link.tolist(), [each.tolist() for each in weights], accuracy]
        raise ValueError(repr(found))
    if mode == "own":
        rest = np.full((n_clusters - 1, X.shape[1]), np.nan)
        return Solution(np.zeros(len(X)), centroids=np.vstack([X[:1], rest]))
    return labels
"""

CELL = Cell("iris", None, 0.9, 5, 1, "mine")
ANNOTATIONS = np.array([[0, 1, 0], [1, 0, 0], [2, 3, 1], [4, 4, 0], [0, 1, 1]], dtype=np.int32)
X = np.random.default_rng(0).standard_normal((12, 2))
CALLING = Science(seed=3, searches=(Search(),), n_clusters=3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """File of the method."""
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def method(file: Path, **options: object) -> Method:
    return Method(
        name="mine",
        call="mine.py:echo",
        restarts=4,
        code=checksum(file.read_bytes()),
        path=str(file),
        options=options,
    )


def called(file: Path, start: int, stop: int, cell: Cell = CELL, **options: object) -> Partial:
    (call,) = method_calls("a.toml", [method(file, **options)])
    return run_method(CALLING, Work(cell, start, stop), call, X, ANNOTATIONS)


def seeds(cell: Cell = CELL) -> list[int]:
    grid = {"mixture": cell.mixture, "p": cell.p, "m": cell.m, "replicate": cell.replicate}
    return [method_seed(3, cell.dataset, **grid, method="mine", restart=restart) for restart in range(4)]


def test_the_call_of_the_largest_objective_is_kept(file: Path) -> None:
    found = called(file, 0, 4, mode="seed")
    assert found.objectives.tolist() == seeds()
    assert found.best_restart == int(np.argmax(seeds()))
    rng = np.random.default_rng(max(seeds()))
    assert found.labels.tolist() == rng.integers(3, size=12).tolist()


def test_without_objectives_it_is_the_first(file: Path) -> None:
    found = called(file, 1, 4)
    assert found.best_restart == 1
    assert np.isnan(found.objectives).all()
    assert found.labels.dtype == np.int16


def test_a_baseline_has_seeds_without_annotations(file: Path) -> None:
    cell = Cell("iris", None, None, None, None, "mine")
    found = called(file, 0, 4, cell, mode="seed")
    assert found.objectives.tolist() == seeds(cell) != seeds()


def test_calls_without_a_solution_are_passed_over(file: Path) -> None:
    found = called(file, 0, 4, mode="odd")
    even = [restart for restart, seed in enumerate(seeds()) if seed % 2 == 0]
    odd = [restart for restart in range(4) if restart not in even]
    assert found.best_restart == (even[0] if even else -1)
    none = called(file, odd[0], odd[0] + 1, mode="odd")
    assert (none.solved, none.best_restart, none.labels.tolist()) == (False, -1, [-1] * 12)
    assert np.isnan(none.centroids).all()
    assert none.seconds >= 0


def test_links_are_pairs_with_the_number_of_their_annotations(file: Path) -> None:
    with pytest.raises(MethodFailed) as raised:
        called(file, 0, 1, mode="links")
    assert raised.value.cause == "ValueError: [[[0, 1]], [[0, 1], [2, 3]], [[2.0], [1.0, 1.0]], 0.9]"


def test_clusters_are_described_by_means_and_one_variance(file: Path) -> None:
    found = called(file, 0, 1)
    _, centroids, variances = cluster_gaussians(X, found.labels, 3)
    assert np.array_equal(found.centroids, centroids, equal_nan=True)
    assert np.array_equal(found.covariances, variances, equal_nan=True)
    own = called(file, 0, 1, mode="own")
    assert np.array_equal(own.centroids[0], X[0])
    assert np.isnan(own.centroids[1:]).all()
    assert np.isnan(own.covariances[1:]).all()


def test_a_file_that_changed_since_is_an_error_that_names_the_method(file: Path) -> None:
    old = method(file)
    file.write_text(CODE + "#")
    with pytest.raises(InputError, match=r"a\.toml: method mine: found .*mine\.py with sha256"):
        method_calls("a.toml", [old, old])


def test_what_cannot_be_called_is_said_of_all_methods_at_once() -> None:
    calls = [
        MethodCall("good", "ward", None, {}, 1.0),
        MethodCall("option", "sklearn.cluster:KMeans", None, {"n_inits": 1}, 1.0),
        MethodCall("class", "sklearn.cluster:DBSCAN", None, {}, 1.0),
        MethodCall("file", "a.py:f", "import no_such_module", {}, 1.0),
        MethodCall("name", "a.py:f", "def g(): ...", {}, 1.0),
    ]
    check_calls("a.toml", calls[:1])
    with pytest.raises(InputError) as raised:
        check_calls("a.toml", calls)
    found = [str(problem) for problem in raised.value.problems]
    assert len(found) == 4
    for text, words in zip(found, ("n_init", "n_clusters", "no_such_module", "'f'"), strict=True):
        assert words in text


# Batches of questions on a worker: functions of the answers before, whole, and kept if a later one fails.

BLOBS, OF_BLOBS = far_clusters()
FAR = RealSource(BLOBS, OF_BLOBS.astype(np.int16))
ASKING = Asking(seed=5, n_clusters=int(OF_BLOBS.max()) + 1, batch=8, restarts=1, covariance="spherical")
PATH = AskedPath("blobs", None, 0.9, 1, "active")


def ask(known: np.ndarray = NO_ANSWERS, batches: int = 1, asking: Asking = ASKING) -> list[Any]:
    return run_path(PathBatch(asking, PATH, known, batches, 1.0), FAR)


def test_batches_of_one_task_are_those_of_several() -> None:
    (whole,) = ask(batches=3)
    answers = NO_ANSWERS
    for _ in range(3):
        (part,) = ask(answers)
        assert (part.start, part.stop) == (len(answers), len(answers) + 8)
        answers = np.concatenate([answers, part.answers])
    assert whole.answers.dtype == np.int32
    assert np.array_equal(whole.answers, answers)
    assert whole.seconds > 0


def test_a_path_depends_on_its_coordinates() -> None:
    (one,) = ask()
    other = AskedPath("blobs", None, 0.9, 2, "active")
    (found,) = run_path(PathBatch(ASKING, other, NO_ANSWERS, 1, 1.0), FAR)
    assert not np.array_equal(one.answers, found.answers)


def test_a_batch_of_more_questions_than_pairs_goes_on_with_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, tuple[int, ...]]] = []

    def three_at_most(X: Any, labels: Any, path: Any, **options: Any) -> np.ndarray:
        asked.append((len(path), options["count"], options["seed"].spawn_key))
        return np.zeros((min(3, options["count"]), 3), dtype=np.int32)

    monkeypatch.setattr(pipeline.asking.strategies, "next_answers", three_at_most)
    answers = ask_batch(ASKING, PATH, NO_ANSWERS, FAR.arrays(None))
    assert answers.shape == (8, 3)
    where = {"mixture": None, "p": 0.9, "replicate": 1, "design": "active"}
    keys = [path_seed(5, "blobs", **where, start=start).spawn_key for start in (0, 3, 6)]
    assert asked == [(0, 8, keys[0]), (3, 5, keys[1]), (6, 2, keys[2])]


def test_what_was_answered_before_a_batch_that_raises_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.asking.strategies.next_answers

    def until_sixteen(X: Any, labels: Any, path: Any, **options: Any) -> np.ndarray:
        if len(path) >= 16:
            raise ValueError("no more")
        return real(X, labels, path, **options)

    monkeypatch.setattr(pipeline.asking.strategies, "next_answers", until_sixteen)
    part, failure = ask(batches=4)
    assert isinstance(part, PathPart)
    assert part.stop == 16
    assert isinstance(failure, PathFailure)
    assert (failure.start, failure.stop, failure.cause) == (16, 24, "ValueError: no more")
    assert "until_sixteen" in failure.traceback
    record = failure.record(2)
    assert (record.cell, record.attempt) == ("blobs/p=0.9/design=active/replicate=1", 2)


def test_no_pair_to_ask_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.asking.strategies, "next_answers", lambda *args, **options: NO_ANSWERS)
    (failure,) = ask()
    assert "no pair to ask after 0 answers" in failure.cause


# The adaptive stop of restarts: the rules, and that nothing but the rule decides how many are run.

FULL = TINY.replace("restarts = 5", "restarts = 12").replace("replicates = 2", "replicates = 1")
STOP = "[stop]\nrisk = 0.2\nr_min = 4\nstep = 3\n"
RULE = Stop(rule="boender-rinnooy-kan", risk=0.2, r_min=4, step=3)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cube with every restart."""
    folder = tmp_path_factory.mktemp("full")
    assert run(write_spec(folder, FULL), folder) == 0
    return folder / "tiny.zarr"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cube of the same sweep with an adaptive stop."""
    folder = tmp_path_factory.mktemp("stopped")
    assert run(write_spec(folder, FULL + STOP), folder) == 0
    return folder / "tiny.zarr"


def test_objectives_within_a_millionth_are_one_optimum() -> None:
    assert optimum_counts([-3.0, -1.0, -3.0 - 0.5 * SAME_OPTIMUM, -1.0]) == [2, 2]
    assert optimum_counts([-1.0, -1.0 - 1.5 * SAME_OPTIMUM]) == [1, 1]
    # No chain: the third is too far from the best of the optimum, however close to the second.
    assert optimum_counts([0.0, -0.7 * SAME_OPTIMUM, -1.4 * SAME_OPTIMUM]) == [2, 1]
    assert optimum_counts([]) == []


@pytest.mark.parametrize(
    ("objectives", "kan", "turing"),
    [
        ([1.0] * 10, 2 / 90, 0.0),
        ([1.0] * 9 + [0.0], 6 / 90, 0.1),
        ([1.0] * 5 + [0.0] * 5, 6 / 90, 0.0),
        ([1.0, 2.0, 3.0, 3.0], 12 / 12, 0.5),
        ([1.0, 2.0, 3.0], 1.0, 1.0),
    ],
)
def test_estimates_by_hand(objectives: list[float], kan: float, turing: float) -> None:
    assert unseen_mass(objectives, "boender-rinnooy-kan") == pytest.approx(kan)
    assert unseen_mass(objectives, "good-turing") == pytest.approx(turing)


@pytest.mark.parametrize("rule", RULES)
def test_the_estimate_is_near_the_truth(rule: str) -> None:
    """Mean over draws from known optima, against the mass of those not drawn."""
    rng = np.random.default_rng(4)
    shares = np.array([0.5, 0.25, 0.15, 0.06, 0.04])
    errors = []
    for _ in range(2000):
        drawn = rng.choice(len(shares), size=20, p=shares)
        errors.append(unseen_mass(drawn.astype(float), rule) - (1 - shares[np.unique(drawn)].sum()))
    bias = np.mean(errors)
    assert abs(bias) < 0.05
    assert bias > -0.001  # on the safe side


@given(
    st.lists(st.integers(0, 4).map(float), max_size=30),
    st.sampled_from(RULES),
    st.floats(0.01, 0.9),
    st.integers(2, 12),
    st.integers(1, 6),
)
def test_a_cell_ends_at_the_first_test_it_passes(
    objectives: list[float], rule: str, risk: float, r_min: int, step: int
) -> None:
    stop, restarts = Stop(rule=rule, risk=risk, r_min=r_min, step=step), 25
    tested = [n for n in range(r_min, restarts, step) if n <= len(objectives)]
    passed = [n for n in tested if unseen_mass(objectives[:n], rule) < risk]
    expected = passed[0] if passed else restarts if len(objectives) >= restarts else None
    assert restarts_enough(objectives, stop, restarts) == expected
    assert restarts_enough(objectives, None, restarts) == (restarts if len(objectives) >= restarts else None)


def test_a_stopped_cell_is_the_beginning_of_the_full_one(full: Path, stopped: Path) -> None:
    ends = set()
    for node in ("iris", "iris/unsupervised", "mixtures_k2", "mixtures_k3", "mixtures_k3/unsupervised"):
        whole, part = open_cube(full)[node].to_dataset(), open_cube(stopped)[node].to_dataset()
        assert "unseen_mass" not in whole
        assert (part["status"] == DONE).all()
        every = whole["log_likelihood"].values.reshape(-1, 12)
        some = part["log_likelihood"].values.reshape(-1, 12)
        done, estimates = part["restarts_done"].values.ravel(), part["unseen_mass"].values.ravel()
        for objectives, kept, n, estimate in zip(every, some, done, estimates, strict=True):
            assert n == restarts_enough(objectives, RULE, 12)
            assert kept[:n].tobytes() == objectives[:n].tobytes()
            assert np.isnan(kept[n:]).all()
            assert estimate == unseen_mass(objectives[:n], RULE.rule)
        best = np.nanargmax(some, axis=1).reshape(part["best_restart"].shape)
        assert np.array_equal(part["best_restart"].values, best)
        ends |= set(done.tolist())
    assert {4, 12} <= ends


@pytest.mark.parametrize(
    "options", [{"batch_restarts": 1}, pytest.param({"workers": 2}, marks=pytest.mark.slow)]
)
def test_no_result_depends_on_schedule_or_batch(
    tmp_path: Path, stopped: Path, options: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    assert run(write_spec(tmp_path, FULL + STOP), tmp_path, **options) == 0
    assert_same_bits(stopped, tmp_path / "tiny.zarr")
    nodes = [node for node in open_cube(stopped).subtree if "restarts_done" in node.data_vars]
    done = sum(int(node.to_dataset(inherit=False)["restarts_done"].sum()) for node in nodes)
    total = 12 * sum(plan.n_cells for plan in read_manifest(stopped).plans.values())
    assert restarts_run(caplog.text) == done
    assert f"the adaptive stop made {total - done} restarts unnecessary" in caplog.text


def test_a_cell_is_never_split() -> None:
    cell = Cell("a", None, 0.8, 10, 0, "likelihood")
    work = [
        dataclasses.replace(Work(cell, 1, 12, (-1.0,)), cell=dataclasses.replace(cell, replicate=r))
        for r in range(5)
    ]
    science = Science(1, (Search(),), 3, RULE)
    for seconds in (1, 7, 25):
        batches = list(make_batches(science, work, Timing({}), seconds=seconds))
        assert [item for batch in batches for item in batch.work] == work


def test_what_the_pilot_found_counts(full: Path) -> None:
    """A work that begins after known restarts ends where the whole would have."""
    manifest, tree = read_manifest(full), open_cube(full)
    source = _source(tree)
    cell = Cell("iris", None, 0.8, 75, 0, "likelihood")
    science = Science(99, manifest.spec.search, 3, RULE.model_copy(update={"risk": 0.7}))
    (whole,) = run_batch(Batch(science, "iris", (Work(cell, 0, 12),), 0.0), source)
    assert isinstance(whole, Partial)
    assert 4 <= whole.work.stop < 12
    for known in (1, 3):
        rest = Work(cell, known, 12, tuple(whole.objectives[:known].tolist()))
        (part,) = run_batch(Batch(science, "iris", (rest,), 0.0), source)
        assert isinstance(part, Partial)
        assert (part.work.start, part.work.stop) == (known, whole.work.stop)
        assert part.objectives.tobytes() == whole.objectives[known:].tobytes()
        result = CellResult(cell, 12, science.stop)
        result.add(
            dataclasses.replace(
                whole, work=Work(cell, 0, known), objectives=whole.objectives[:known], best_restart=0
            )
        )
        assert list(result.missing()) == [rest]
        assert result.status != DONE
        result.add(part)
        assert (result.status, result.end, list(result.missing())) == (DONE, whole.work.stop, [])


def test_stopped_and_submitted_again_it_ends_with_the_same_bits(
    tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = pipeline.work.tasks._run, []

    def interrupted(science: Science, work: Work, source: Source) -> Partial:
        begun.append(work)
        if len(begun) > 40:
            raise Stopped(signal.SIGTERM)
        return real(science, work, source)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.work.tasks, "_run", interrupted)
        assert run(write_spec(tmp_path, FULL + STOP), tmp_path) == 128 + signal.SIGTERM
    assert run(write_spec(tmp_path, FULL + STOP), tmp_path) == 0
    assert_same_bits(stopped, tmp_path / "tiny.zarr")


def test_verify_stops_where_the_cube_did(tmp_path: Path, stopped: Path) -> None:
    assert verify(stopped, sample=8).good


@pytest.mark.parametrize(
    "text", [FULL, FULL + STOP.replace("0.2", "0.3"), FULL + STOP.replace("r_min = 4", "r_min = 5")]
)
def test_another_stop_is_no_growth(tmp_path: Path, stopped: Path, text: str) -> None:
    shutil.copytree(stopped, tmp_path / "tiny.zarr")
    with pytest.raises(InputError, match="stop"):
        run(write_spec(tmp_path, text), tmp_path)


def test_a_cell_that_fails_leaves_the_others(
    tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pipeline.work.tasks._run

    def fails(science: Science, work: Work, source: Source) -> Partial:
        if work.cell.dataset == "iris" and work.cell.m == 75 and work.stop > 1:
            raise ArithmeticError("made to fail")
        return real(science, work, source)

    monkeypatch.setattr(pipeline.work.tasks, "_run", fails)
    spec = write_spec(tmp_path, FULL + STOP)
    assert run(spec, tmp_path) == 3
    monkeypatch.undo()
    assert run(spec, tmp_path, retry_failed=True) == 0
    assert_same_bits(stopped, tmp_path / "tiny.zarr")


def _source(tree: object) -> Source:
    from pipeline.check.verify import _source as source_of

    return source_of(tree, Cell("iris", None, None, None, None, "unsupervised"))  # type: ignore[arg-type]


SEARCH = Search(population=3, offspring=2, generations=2)
SCIENCE = Science(11, (SEARCH,), 3)
RNG = np.random.default_rng(3)
LABELS = np.repeat(np.arange(3, dtype=np.int16), 10)
SOURCE = RealSource(RNG.normal(size=(30, 2)) + 2.0 * LABELS[:, np.newaxis], LABELS)
CELLS = [
    Cell("blobs", None, None, None, None, "unsupervised"),
    Cell("blobs", None, 0.9, 40, 0, "likelihood"),
    Cell("blobs", None, 0.9, 40, 1, "posterior"),
]


def solve(*work: Work, science: Science = SCIENCE) -> list[Partial]:
    results = run_batch(Batch(science, "blobs", work, 1.0), SOURCE)
    assert all(isinstance(result, Partial) for result in results)
    return [result for result in results if isinstance(result, Partial)]


def test_every_split_of_the_restarts_gives_the_same_bits() -> None:
    whole = solve(*(Work(cell, 0, 4) for cell in CELLS))
    for cell, result in zip(CELLS, whole, strict=True):
        parts = solve(Work(cell, 2, 4), Work(cell, 0, 1), Work(cell, 1, 2))
        objectives = np.concatenate([parts[1].objectives, parts[2].objectives, parts[0].objectives])
        assert np.array_equal(objectives, result.objectives)
        best = next(part for part in parts if part.best_restart == result.best_restart)
        for name in ("labels", "centroids", "covariances"):
            assert np.array_equal(getattr(best, name), getattr(result, name))


EVERY_MODEL = [
    Cell("blobs", None, *((None,) * 3 if model.startswith("unsupervised") else (0.9, 40, 0)), model)
    for model in MODEL_CODES
]


@pytest.mark.parametrize("cell", EVERY_MODEL, ids=lambda cell: cell.model)
def test_the_solution_has_the_objective_that_is_reported(cell: Cell) -> None:
    (result,) = solve(Work(cell, 0, 3))
    annotations = cell_annotations(SCIENCE.seed, cell, LABELS, None)
    term, covariance = split_model(cell.model)
    assert (result.chosen is not None) == (covariance == "auto")
    covariance = result.shape
    layers = layers_from_annotations(annotations, cell.p)
    problem = build_problem(SOURCE.X, layers, n_clusters=3, model=term, covariance=covariance)
    assert result.covariances.shape == (3, *(SOURCE.X.shape[1] for _ in DIMS[covariance]))
    assert len(np.unique(result.covariances, axis=0)) == (1 if covariance in ("common", "tied") else 3)
    assert sum(objective_terms(problem, result.labels)) == result.objectives.max()
    assert result.objectives[result.best_restart] == result.objectives.max()
    assert result.seconds > 0


CHOOSING = Cell("blobs", None, 0.9, 40, 1, "posterior-auto")


def test_a_cell_chooses_its_shape_from_its_coordinates() -> None:
    (result,) = solve(Work(CHOOSING, 0, 2))
    assert result.chosen is not None
    choice = choose_covariance(
        SOURCE.X,
        layers_from_annotations(cell_annotations(SCIENCE.seed, CHOOSING, LABELS, None), 0.9),
        n_clusters=3,
        model="posterior",
        settings=SEARCH,
        seed=choice_seed(
            SCIENCE.seed, "blobs", mixture=None, p=0.9, m=40, replicate=1, model="posterior-auto"
        ),
    )
    assert result.chosen.covariance == choice.covariance
    assert result.chosen.held_out == tuple(choice.candidates[shape].log_loss for shape in CANDIDATES)
    assert result.chosen.right == tuple(choice.candidates[shape].share_right for shape in CANDIDATES)
    assert 0 < result.choosing < result.seconds
    (again,) = solve(Work(replace(CHOOSING, replicate=2), 0, 1))
    assert again.chosen is not None
    assert again.chosen.held_out != result.chosen.held_out


def test_a_cell_that_has_chosen_does_not_choose_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = solve(Work(CHOOSING, 0, 4))
    (first,) = solve(Work(CHOOSING, 0, 1))

    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError("chosen again")

    monkeypatch.setattr(kernels.choice.held_out, "choose_covariance", refused)
    (rest,) = solve(Work(CHOOSING, 1, 4, chosen=first.chosen))
    assert np.array_equal(np.concatenate([first.objectives, rest.objectives]), whole.objectives)
    assert rest.chosen == first.chosen == whole.chosen
    assert rest.choosing == 0


def test_too_few_annotations_choose_the_simplest_shape_without_scores() -> None:
    (result,) = solve(Work(replace(CHOOSING, m=10), 0, 1))
    assert result.chosen is not None
    assert result.shape == "spherical"
    assert np.isnan([result.chosen.held_out, result.chosen.right]).all()
    assert result.covariances.shape == (3,)


ASKED = replace(SCIENCE, searches=(replace(SEARCH, held_out=True),))


# every shape of one term, and every term of one shape
@pytest.mark.parametrize(
    "cell",
    [
        cell
        for cell in EVERY_MODEL
        if split_model(cell.model)[0] == "conditional" or split_model(cell.model)[1] == "spherical"
    ],
    ids=lambda cell: cell.model,
)
def test_every_model_is_scored_on_annotations_that_it_has_not_seen(cell: Cell) -> None:
    (plain,) = solve(Work(cell, 0, 2))
    (result,) = solve(Work(cell, 0, 2), science=ASKED)
    for name in ("objectives", "labels", "centroids", "covariances"):
        assert np.array_equal(getattr(plain, name), getattr(result, name))
    if cell.p is None:
        assert result.chosen is None
        assert result.choosing == 0
        return
    assert result.chosen is not None
    term, covariance = split_model(cell.model)
    tried = CANDIDATES if covariance == "auto" else (covariance,)
    assert result.chosen.covariance == (plain.shape if covariance == "auto" else covariance)
    where = {"mixture": None, "p": 0.9, "m": 40, "replicate": 0, "model": cell.model}
    layers = layers_from_annotations(cell_annotations(SCIENCE.seed, cell, LABELS, None), 0.9)
    seed = choice_seed(SCIENCE.seed, "blobs", **where)  # type: ignore[arg-type]
    annotations = list_annotations(layers, seed)
    for shape, loss, share in zip(SCORED, result.chosen.held_out, result.chosen.right, strict=True):
        if shape not in tried:
            assert np.isnan([loss, share]).all()
            continue
        given = {"n_clusters": 3, "model": term, "covariance": shape, "settings": SEARCH, "seed": seed}
        found = held_out(SOURCE.X, layers, annotations, **given)  # type: ignore[arg-type]
        assert (loss, share) == (found.log_loss, found.share_right)
    if plain.chosen is not None:
        assert plain.chosen.held_out == result.chosen.held_out[: len(CANDIDATES)]
    assert 0 < result.choosing < result.seconds


def test_a_cell_with_too_few_annotations_has_no_scores() -> None:
    for m, is_scored in ((19, False), (200, True)):
        (result,) = solve(Work(replace(CELLS[1], m=m), 0, 1), science=ASKED)
        assert result.chosen is not None
        assert result.chosen.covariance == result.shape == "spherical"
        scores = np.array([result.chosen.held_out, result.chosen.right])
        assert (~np.isnan(scores)).sum() == 2 * is_scored


def test_models_of_a_cell_see_the_same_annotations() -> None:
    one, other = (Cell("blobs", None, 0.9, 40, 0, model) for model in ("likelihood", "posterior"))
    assert np.array_equal(cell_annotations(1, one, LABELS, None), cell_annotations(1, other, LABELS, None))
    assert cell_annotations(1, CELLS[0], LABELS, None).shape == (0, 3)


def test_annotations_of_a_file_are_drawn_whatever_the_models_are_told() -> None:
    pool = np.column_stack([np.arange(60) % 30, np.arange(60) % 7, np.arange(60) % 2]).astype(np.int32)
    one, told, other = (
        Cell("blobs", None, p, 40, r, "likelihood") for p, r in ((0.9, 0), (0.6, 0), (0.9, 1))
    )
    drawn = cell_annotations(1, one, None, pool)
    assert len(np.unique(drawn, axis=0)) == len(drawn) == 40
    assert {*map(tuple, drawn.tolist())} <= {*map(tuple, pool.tolist())}
    assert np.array_equal(drawn, cell_annotations(1, told, LABELS, pool))
    assert not np.array_equal(drawn, cell_annotations(1, other, None, pool))
    assert cell_annotations(1, CELLS[0], None, pool).shape == (0, 3)


def test_models_and_methods_see_the_annotations_of_the_source() -> None:
    pool = np.array([(i, (i + 3) % 30, 0) for i in range(30)] * 2, dtype=np.int32)
    cell = Cell("blobs", None, 0.9, 50, 0, "posterior")
    without_labels = RealSource(SOURCE.X, None, pool)
    (result,) = run_batch(Batch(SCIENCE, "blobs", (Work(cell, 0, 2),), 0.0), without_labels)
    assert isinstance(result, Partial)
    layers = layers_from_annotations(cell_annotations(SCIENCE.seed, cell, None, pool), 0.9)
    problem = build_problem(SOURCE.X, layers, n_clusters=3, model="posterior", covariance="spherical")
    assert sum(objective_terms(problem, result.labels)) == result.objectives.max()


def test_a_cell_that_raises_costs_that_cell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = kernels.search.genetic.run_restart

    def picky(problem: object, settings: object, rng: np.random.Generator) -> object:
        if run_restart_calls.pop(0):
            raise RuntimeError("this kernel broke")
        return solve(problem, settings, rng)  # type: ignore[arg-type]

    run_restart_calls = [False, True, False]
    monkeypatch.setattr(kernels.search.genetic, "run_restart", picky)
    first, second, third = run_batch(
        Batch(SCIENCE, "blobs", tuple(Work(cell, 0, 1) for cell in CELLS), 1.0), SOURCE
    )
    assert isinstance(first, Partial)
    assert isinstance(third, Partial)
    assert isinstance(second, Failure)
    assert second.cause == "RuntimeError: this kernel broke"
    assert "picky" in second.traceback
    assert second.node


# The serial executor, and how far a compilation is.


def test_tasks_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "load_kernels", lambda compiled: None)
    monkeypatch.setattr(executor, "run_task", lambda task, source: [f"{task.dataset} of {source}"])
    work = (Work(Cell("a", None, 0.9, 4, 0, "likelihood"), 0, 1),)
    batch = Batch(Science(1, (Search(),), make_plan().n_clusters), "a", work, 0.0)
    tasks = deque([batch, batch])
    serial = SerialExecutor({"a": "data"})  # type: ignore[dict-item]
    assert serial.workers == 1
    ended = []
    for found in serial.results(lambda: tasks.popleft() if tasks else None):
        ended.append((found, len(tasks)))  # the next is asked for only now
    assert ended == [([(batch, ["a of data"])], 1), ([(batch, ["a of data"])], 0)]


def test_functions_are_counted_while_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def warm_up() -> None:
        @numba.njit
        def one(x: int) -> int:
            return x + 1

        @numba.njit
        def two(x: int) -> int:
            return one(x) + 1

        two(1)

    monkeypatch.setattr("kernels.search.genetic.warm_up", warm_up)
    counts: list[int] = []
    load_kernels(counts.append)
    assert counts == [1, 2]
    load_kernels()
    warm_up()  # nobody listens any more
    assert counts == [1, 2]
