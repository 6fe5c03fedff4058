"""A worker's task runs restarts of models and methods and asks questions, until a rule stops it."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes.sweeping import TINY, assert_same_bits, restarts_run, run, write_spec
from solving.blobs import far_clusters

import sweep_clustering.kernels.choice
import sweep_clustering.kernels.search.genetic
import sweep_clustering.pipeline.asking.strategies
from sweep_clustering.kernels.choice import choose_covariance, held_out, list_annotations
from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.kernels.scores import cluster_gaussians
from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.run.signals import StopSignal
from sweep_clustering.pipeline.work import records, tasks
from sweep_clustering.pipeline.work.merge import CellResult
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.methods import Method, checksum
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.file.spec import RULES, Stop
from sweep_clustering.sweeps.inputs import RealSource, Source, cell_annotations
from sweep_clustering.sweeps.plan import AskedPath, Cell
from sweep_clustering.sweeps.seeds import choice_seed, method_seed, path_seed
from sweep_clustering.sweeps.shapes import CANDIDATES, DIMS, SCORED
from sweep_clustering.sweeps.words import MODEL_CODES, is_any, split_model

SEARCH = Search(population=3, offspring=2, generations=2)
SCIENCE = records.Science(11, (SEARCH,), 3)
ASKED = replace(SCIENCE, searches=(replace(SEARCH, held_out=True),))
RNG = np.random.default_rng(3)
LABELS = np.repeat(np.arange(3, dtype=np.int16), 10)
SOURCE = RealSource(RNG.normal(size=(30, 2)) + 2.0 * LABELS[:, np.newaxis], LABELS)
BASELINE = Cell("blobs", None, None, None, None, "unsupervised")
CELL = Cell("blobs", None, 0.9, 40, 0, "likelihood")
CHOOSING = replace(CELL, replicate=1, model="posterior-auto")
SOLUTION = ("labels", "centroids", "covariances")


def solve(
    *spans: records.Span[Cell], science: records.Science = SCIENCE, source: Source = SOURCE
) -> list[records.Solved]:
    results = tasks.run_task(records.Task(science, "blobs", spans, 1.0), source)
    assert all(isinstance(result, records.Solved) for result in results), results
    return results  # type: ignore[return-value]


def place_of(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in ("mixture", "p", "m", "replicate")}


def test_every_split_of_the_restarts_gives_the_same_bits() -> None:
    for cell in (BASELINE, CELL, replace(CELL, replicate=1, model="posterior")):
        (whole,) = solve(records.Span(cell, 0, 4))
        parts = solve(records.Span(cell, 2, 4), records.Span(cell, 0, 1), records.Span(cell, 1, 2))
        objectives = np.concatenate([parts[1].objectives, parts[2].objectives, parts[0].objectives])
        assert objectives.tobytes() == whole.objectives.tobytes()
        best = next(part for part in parts if part.best_restart == whole.best_restart)
        assert all(np.array_equal(getattr(best, name), getattr(whole, name)) for name in SOLUTION)
    # annotations of a path are those that are sent
    answers = np.column_stack([np.arange(40) % 30, np.arange(40) % 7, np.arange(40) % 2]).astype(np.int32)
    (result,) = solve(records.Span(CELL, 0, 2, answers=answers))
    about = {"n_clusters": 3, "model": "likelihood", "covariance": "spherical"}
    problem = build_problem(SOURCE.X, layers_from_annotations(answers, 0.9), **about)
    assert sum(objective_terms(problem, result.labels)) == result.objectives.max()


@pytest.mark.parametrize("model", [model for model in MODEL_CODES if not is_any(model)])
def test_a_solution_has_the_objective_and_the_scores_that_are_reported(model: str) -> None:
    """Its scores come from held-out annotations that it has not seen, which change no restart."""
    cell = replace(BASELINE if model.startswith("unsupervised") else CELL, model=model)
    (result,), (scored,) = (solve(records.Span(cell, 0, 3), science=science) for science in (SCIENCE, ASKED))
    names = ("objectives", *SOLUTION)
    assert all(np.array_equal(getattr(result, name), getattr(scored, name)) for name in names)
    term, covariance = split_model(cell.model)
    assert (result.chosen is not None) == (covariance == "auto")
    shape, drawn = result.shape, cell_annotations(SCIENCE.seed, cell, SOURCE, SCIENCE.crowd)
    layers = layers_from_annotations(drawn, cell.p)
    problem = build_problem(SOURCE.X, layers, n_clusters=3, model=term, covariance=shape)
    assert result.covariances.shape == (3, *(SOURCE.X.shape[1] for _ in DIMS[shape]))
    assert len(np.unique(result.covariances, axis=0)) == (1 if shape in ("common", "tied") else 3)
    best = result.objectives.max()
    assert sum(objective_terms(problem, result.labels)) == result.objectives[result.best_restart] == best
    if cell.p is None:
        assert scored.chosen is None
        assert scored.choosing == 0
        assert result.seconds > 0
        return
    assert scored.chosen is not None
    assert scored.shape == shape
    assert 0 < scored.choosing < scored.seconds
    if covariance != "auto" and (term, covariance) != ("conditional", "full"):
        return  # one fixed shape stands for the others
    seed = choice_seed(SCIENCE.seed, "blobs", **place_of(cell), model=cell.model)
    annotations = list_annotations(layers, seed)
    options: dict[str, Any] = {"n_clusters": 3, "model": term, "settings": SEARCH, "seed": seed}
    tried = CANDIDATES if covariance == "auto" else (covariance,)
    for shape_tried, loss, share in zip(SCORED, scored.chosen.held_out, scored.chosen.right, strict=True):
        if shape_tried not in tried:
            assert np.isnan([loss, share]).all()
            continue
        scores = held_out(SOURCE.X, layers, annotations, covariance=shape_tried, **options)
        assert loss == scores.log_loss
        assert share == scores.share_right
    if result.chosen is not None:
        choice = choose_covariance(SOURCE.X, layers, **options)
        assert result.chosen.covariance == choice.covariance
        assert result.chosen.held_out == scored.chosen.held_out[: len(CANDIDATES)]


def test_a_cell_chooses_a_shape_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,), (first,) = solve(records.Span(CHOOSING, 0, 4)), solve(records.Span(CHOOSING, 0, 1))
    (few,) = solve(records.Span(replace(CHOOSING, m=10), 0, 1))
    scored = [solve(records.Span(replace(CELL, m=m), 0, 1), science=ASKED)[0] for m in (19, 200)]
    for result, is_scored in zip((few, *scored), (0, 0, 1), strict=True):
        assert result.shape == "spherical"
        assert result.covariances.shape == (3,)
        chosen: Any = result.chosen
        assert np.isfinite([chosen.held_out, chosen.right]).sum() == 2 * is_scored
    monkeypatch.setattr(sweep_clustering.kernels.choice, "choose_covariance", None)
    (later,) = solve(records.Span(CHOOSING, 1, 4, chosen=first.chosen))
    assert np.array_equal(np.concatenate([first.objectives, later.objectives]), whole.objectives)
    assert later.chosen == first.chosen
    assert later.choosing == 0
    assert whole.chosen.is_same(first.chosen)


def test_a_cell_that_raises_costs_that_cell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run_restart = sweep_clustering.kernels.search.genetic.run_restart
    breaks = [False, True, False]

    def break_at_times(*arguments: Any) -> Any:
        if breaks.pop(0):
            raise RuntimeError("this kernel broke")
        return run_restart(*arguments)

    monkeypatch.setattr(sweep_clustering.kernels.search.genetic, "run_restart", break_at_times)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    spans = tuple(records.Span(replace(CELL, replicate=number), 0, 1) for number in range(3))
    results: list[Any] = list(tasks.run_task(records.Task(SCIENCE, "blobs", spans, 1.0), SOURCE))
    assert [type(result) for result in results] == [records.Solved, records.Failed, records.Solved]
    assert results[1].span == spans[1]
    assert results[1].cause == "RuntimeError: this kernel broke"
    assert "break_at_times" in results[1].traceback
    assert results[1].job == "7"


# Questions: functions of the answers before, whole batches, and kept if a later one fails.

BLOBS, OF_BLOBS = far_clusters()
FAR = RealSource(BLOBS, OF_BLOBS.astype(np.int16))
ASKING = records.Science(5, (Search(),), int(OF_BLOBS.max()) + 1, asking=records.Asking(8, 1, "spherical"))
PATH = AskedPath("blobs", None, 0.9, 1, "active")


def ask(earlier: np.ndarray = records.NO_ANSWERS, batches: int = 1, path: AskedPath = PATH) -> list[Any]:
    start = len(earlier)
    span = records.Span(path, start, start + 8 * batches, answers=earlier, step=8)
    return tasks.run_task(records.Task(ASKING, "blobs", (span,), 1.0), FAR)


def test_answers_depend_on_the_path_and_on_those_before() -> None:
    parts = ask(batches=3)
    assert [(part.span.start, part.span.stop) for part in parts] == [(0, 8), (8, 16), (16, 24)]
    (again,) = ask(np.concatenate([part.answers for part in parts[:2]]))
    assert again.answers.dtype == np.int32
    assert again.answers.tolist() == parts[2].answers.tolist()
    assert not np.array_equal(ask(path=replace(PATH, replicate=2))[0].answers, parts[0].answers)


def test_too_few_pairs_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int, tuple[int, ...]]] = []

    def three_at_most(X: Any, labels: Any, path: Any, **options: Any) -> np.ndarray:
        calls.append((len(path), options["count"], options["seed"].spawn_key))
        if len(path) >= 16:
            raise ValueError("no more")
        return np.zeros((min(3, options["count"]), 3), dtype=np.int32)

    monkeypatch.setattr(sweep_clustering.pipeline.asking.strategies, "next_answers", three_at_most)
    *parts, failed = ask(batches=4)
    coordinates = {"mixture": None, "p": 0.9, "replicate": 1, "design": "active"}
    keys = [path_seed(5, "blobs", **coordinates, start=start).spawn_key for start in (0, 3, 6)]
    assert calls[:3] == [(0, 8, keys[0]), (3, 5, keys[1]), (6, 2, keys[2])]
    assert [type(part) for part in parts] == [records.Answered, records.Answered], (
        "what was answered before is kept"
    )
    assert failed.span.start == 16
    assert failed.span.stop == 24
    assert failed.cause == "ValueError: no more"
    assert "three_at_most" in failed.traceback
    strategies = sweep_clustering.pipeline.asking.strategies
    monkeypatch.setattr(strategies, "next_answers", lambda *args, **options: records.NO_ANSWERS)
    (failed,) = ask()
    assert "no pair to ask after 0 answers" in failed.cause


# Calls of a method: seeds, links, the best call, and what a method does not say.

CODE = """
import numpy as np
from sweep_clustering import NoSolution, Solution

def echo(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, mode="plain"):
    labels = np.random.default_rng(random_state).integers(n_clusters, size=len(X))
    if mode == "seed":
        return Solution(labels, objective=random_state)
    if mode == "odd" and random_state % 2:
        raise NoSolution("odd")
    if mode == "links":
        values = [must_link.tolist(), cannot_link.tolist(), [array.tolist() for array in weights], accuracy]
        raise ValueError(repr(values))
    if mode == "own":
        rest = np.full((n_clusters - 1, X.shape[1]), np.nan)
        return Solution(np.zeros(len(X)), centroids=np.vstack([X[:1], rest]))
    return labels
"""
CALLED = Cell("iris", None, 0.9, 5, 1, "mine")
LINKS = np.array([[0, 1, 0], [1, 0, 0], [2, 3, 1], [4, 4, 0], [0, 1, 1]], dtype=np.int32)
X = np.random.default_rng(0).standard_normal((12, 2))


def test_calls_of_a_method_become_restarts(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(CODE)
    code = checksum(file.read_bytes())
    echo = Method(name="mine", call="mine.py:echo", restarts=4, code=code, path=str(file))

    def call_method(start: int, stop: int, cell: Cell = CALLED, **options: object) -> Any:
        method = echo.model_copy(update={"options": options})
        science = records.Science(3, (Search(),), 3, methods=tasks.method_calls("a.toml", [method]))
        task = records.Task(science, "iris", (records.Span(cell, start, stop, answers=LINKS),), 1.0)
        (result,) = tasks.run_task(task, RealSource(X, None))
        return result

    seeds = [method_seed(3, "iris", **place_of(CALLED), method="mine", restart=r) for r in range(4)]
    best = call_method(0, 4, mode="seed")
    assert best.objectives.tolist() == seeds
    assert best.best_restart == int(np.argmax(seeds))
    assert best.labels.tolist() == np.random.default_rng(max(seeds)).integers(3, size=12).tolist()
    first = call_method(1, 4)  # the first call is kept without objectives
    assert first.best_restart == 1
    assert first.labels.dtype == np.int16
    assert np.isnan(first.objectives).all()
    alone = Cell("iris", None, None, None, None, "mine")
    of_baseline = [method_seed(3, "iris", **place_of(alone), method="mine", restart=r) for r in range(4)]
    assert call_method(0, 4, alone, mode="seed").objectives.tolist() == of_baseline != seeds
    odd, even = ([restart for restart in range(4) if seeds[restart] % 2 == parity] for parity in (1, 0))
    assert call_method(0, 4, mode="odd").best_restart == even[0], "calls without a solution are passed over"
    none = call_method(odd[0], odd[0] + 1, mode="odd")
    assert not none.has_solution
    assert none.best_restart == -1
    assert none.labels.tolist() == [-1] * 12
    assert np.isnan(none.centroids).all()
    failed = call_method(0, 1, mode="links")  # pairs with the number of their annotations
    assert failed.cause == "ValueError: [[[0, 1]], [[0, 1], [2, 3]], [[2.0], [1.0, 1.0]], 0.9]"
    assert "in echo" in failed.traceback
    _, centroids, variances = cluster_gaussians(X, first.labels, 3)
    np.testing.assert_array_equal(first.centroids, centroids)
    np.testing.assert_array_equal(first.covariances, variances)
    with_centroids = call_method(0, 1, mode="own")
    assert np.array_equal(with_centroids.centroids[0], X[0])
    assert np.isnan([*with_centroids.centroids[1:, 0], *with_centroids.covariances[1:]]).all()
    # all methods that cannot be called are named at once
    (broken := tmp_path / "broken.py").write_text("import nothing_such")
    faulty = {"call": "broken.py:f", "path": str(broken), "code": checksum(broken.read_bytes())}
    changes: tuple[dict[str, object], ...] = {}, faulty, {"call": "mine.py:gone"}, {"options": {"speed": 1}}
    with pytest.raises(InputError) as raised:
        tasks.method_calls("a.toml", [echo.model_copy(update=change) for change in changes], is_tried=True)
    words, problems = ("nothing_such", "'gone'", "speed"), map(str, raised.value.problems)
    assert all(word in problem for problem, word in zip(problems, words, strict=True))
    file.write_text(CODE + "#")
    with pytest.raises(InputError, match=r"a\.toml: method mine: found .*mine\.py with sha256"):
        tasks.method_calls("a.toml", [echo, echo])


# The adaptive stop of restarts: the rules, and that nothing but the rule decides how many are run.

SMALL = TINY.replace("[2, 3]", "[3]").replace(', "iris"]', "]").replace("[0.8, 1.0]", "[0.8]")
SMALL = SMALL.replace('"0.5N", "1N"', '"0.5N"').replace("restarts = 5", "restarts = 12")
STOP = "[stop]\nrisk = 0.2\nr_min = 4\nstep = 3\n"
RULE = Stop(rule="boender-rinnooy-kan", risk=0.2, r_min=4, step=3)


def test_objectives_within_a_millionth_are_one_optimum() -> None:
    assert tasks.optimum_counts([-3.0, -1.0, -3.0 - 0.5 * SAME_OPTIMUM, -1.0]) == [2, 2]
    # No chain: the third is too far from the best of the optimum, however close to the second.
    assert tasks.optimum_counts([0.0, -0.7 * SAME_OPTIMUM, -1.4 * SAME_OPTIMUM]) == [2, 1]
    # the share of optima that were not seen, by hand
    for objectives, kan, turing in (
        ([1.0] * 10, 2 / 90, 0.0),
        ([1.0] * 5 + [0.0] * 5, 6 / 90, 0.0),
        ([1.0, 2.0, 3.0, 3.0], 12 / 12, 0.5),
        ([1.0, 2.0, 3.0], 1.0, 1.0),
    ):
        assert tasks.unseen_mass(objectives, "boender-rinnooy-kan") == pytest.approx(kan)
        assert tasks.unseen_mass(objectives, "good-turing") == pytest.approx(turing)


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
    whole = restarts if len(objectives) >= restarts else None
    tested = [n for n in range(r_min, restarts, step) if n <= len(objectives)]
    passed = [n for n in tested if tasks.unseen_mass(objectives[:n], rule) < risk]
    assert tasks.restarts_enough(objectives, stop, restarts) == (passed[0] if passed else whole)
    assert tasks.restarts_enough(objectives, None, restarts) == whole


def test_a_span_after_known_restarts_ends_where_the_whole_would_have() -> None:
    science = replace(SCIENCE, stop=Stop(rule="good-turing", risk=0.7, r_min=4, step=3))
    (whole,) = solve(records.Span(CELL, 0, 12), science=science)
    assert 4 <= whole.span.stop < 12
    for n_known in (1, 3):
        remaining = records.Span(CELL, n_known, 12, tuple(whole.objectives[:n_known].tolist()))
        (part,) = solve(remaining, science=science)
        assert part.span.start == n_known
        assert part.span.stop == whole.span.stop
        assert part.objectives.tobytes() == whole.objectives[n_known:].tobytes()
        result = CellResult(CELL, 12, science.stop)
        before = {"objectives": whole.objectives[:n_known], "best_restart": 0}
        result.add(replace(whole, span=records.Span(CELL, 0, n_known), **before))
        assert list(result.missing_spans()) == [remaining]
        assert result.end is None
        result.add(part)
        assert result.status == DONE
        assert result.end == whole.span.stop
        assert list(result.missing_spans()) == []


def test_no_result_depends_on_batches_stops_or_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small, solve = tmp_path / "small", tasks.run_cell
    small.mkdir()
    spec = write_spec(tmp_path, SMALL + STOP)
    begun: list[records.Span[Cell]] = []

    def solve_some(science: records.Science, span: records.Span[Cell], source: Source) -> records.Solved:
        begun.append(span)
        if len(begun) == 8:
            raise StopSignal(signal.SIGTERM)
        if span.unit.replicate == 1 and span.stop > 1:
            raise ArithmeticError("made to fail")
        return solve(science, span, source)

    monkeypatch.setattr(tasks, "run_cell", solve_some)
    assert run(spec, tmp_path) == 128 + signal.SIGTERM
    assert run(spec, tmp_path) == 3
    monkeypatch.undo()
    assert run(spec, tmp_path, retry_failed=True) == 0
    assert run(write_spec(small, SMALL + STOP), small, batch_restarts=1) == 0
    assert_same_bits(small / "tiny.zarr", tmp_path / "tiny.zarr")
    ends, total = list[int](), 12 * sum(p.n_cells for p in read_manifest(small / "tiny.zarr").plans.values())
    for name in ("mixtures_k3", "mixtures_k3/unsupervised"):
        node = open_cube(small / "tiny.zarr")[name].to_dataset()
        columns = (node[column].values.ravel() for column in ("restarts_done", "unseen_mass"))
        rows = node["log_likelihood"].values.reshape(-1, 12)
        for objectives, n_done, estimate in zip(rows, *columns, strict=True):
            assert tasks.restarts_enough(objectives[:n_done], RULE, 12) == n_done
            assert np.isnan(objectives[n_done:]).all()
            assert estimate == tasks.unseen_mass(objectives[:n_done], RULE.rule)
            ends.append(int(n_done))
    assert {4, 12} <= set(ends)
    assert restarts_run(caplog.text) == sum(ends)
    assert f"the adaptive stop made {total - sum(ends)} restarts unnecessary" in caplog.text
