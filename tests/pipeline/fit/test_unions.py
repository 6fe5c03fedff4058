"""Fits of classes of any shape choose structures, refuse bad options, and predict new samples."""

import json
import math
import re
import shlex
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from solving.answers import layers_of

from sweep_clustering import AnnotatedClustering
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.kernels.structure import NONE, Structure
from sweep_clustering.kernels.unions import race, table
from sweep_clustering.pipeline.commands.main import main
from sweep_clustering.pipeline.fit.counts import choose_clusters
from sweep_clustering.pipeline.fit.solve import FitResult, fit, to_json

DEFAULT = settings_of({})


def links(y: NDArray[np.integer], m: int, p: float, seed: int = 0) -> tuple[NDArray[np.int64], Any]:
    """Return pairs without replacement, and whether each is said to be together."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(len(y), 1)
    some = rng.choice(len(i), m, replace=False)
    pairs = np.column_stack([i[some], j[some]])
    return pairs, (y[pairs[:, 0]] == y[pairs[:, 1]]) ^ (rng.random(m) > p)


def rings(n: int = 240, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    y, angle = np.arange(n) % 2, rng.uniform(0, 2 * np.pi, n)
    radius = 1.0 + 2.0 * y + 0.1 * rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


@pytest.fixture(scope="module")
def ring_fit() -> tuple[NDArray[np.float64], NDArray[np.int64], AnnotatedClustering]:
    X, y = rings()
    pairs, together = links(y, len(y), 0.9)
    estimator = AnnotatedClustering(2, model="conditional-any", accuracy=0.9, restarts=3, random_state=0)
    return X, y, estimator.fit(X, must_link=pairs[together], cannot_link=pairs[~together])


def test_rings_are_found_and_new_samples_on_them(ring_fit: Any) -> None:
    _X, y, estimator = ring_fit
    assert adjusted_rand_score(y, estimator.labels_) > 0.95
    more, its = rings(seed=1)
    assert adjusted_rand_score(its, estimator.predict(more)) > 0.9
    solution = estimator.solution_
    whole = -solution.class_densities(solution.place(more))
    np.testing.assert_array_equal(estimator.predict(more), whole.argmin(axis=1))
    one_row = -solution.class_densities(solution.place(more[[7]]))
    assert whole[[7]].tobytes() == one_row.tobytes(), "no bit of a row depends on the others"
    # the density of a class is the sum of its components', recomputed plainly
    union, Z = solution.union, solution.place(more[:5])
    for row, costs in zip(Z, whole, strict=False):
        density = np.zeros(2)
        for g, (mean, c) in enumerate(zip(union.means, union.class_of, strict=True)):
            cov = union.covariances[min(g, len(union.covariances) - 1)]
            cov = np.diag(cov) if cov.ndim == 1 else cov
            d = row - mean
            peak = union.weights[g] / math.sqrt(np.linalg.det(2 * np.pi * cov))
            density[c] += peak * math.exp(-0.5 * d @ np.linalg.solve(cov, d))
        assert costs == pytest.approx(-np.log(density))
    assert estimator.score(more) == pytest.approx(-whole.min(axis=1).mean())
    assert estimator.covariances_.shape == (2,)
    assert "components" not in estimator.notes_
    assert next(iter(estimator.held_out_)) == estimator.structure_


def test_breast_cancer_with_wrong_pairs_is_not_lost() -> None:
    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    result = fit(
        X,
        layers_of(*links(data.target, len(X), 0.9), accuracy=0.9),
        n_clusters=2,
        model="conditional-any",
        restarts=3,
        settings=DEFAULT,
        seed=0,
        labels_true=data.target,
    )
    assert adjusted_rand_score(data.target, result.best.labels) > 0.8
    assert result.scores["annotation_agreement"] > 0.85
    json.dumps(to_json(result), allow_nan=False)


def test_sets_of_threads_change_no_bit() -> None:
    X, y = rings(120)
    pairs, together = links(y, 120, 0.9)
    estimators = [
        AnnotatedClustering(2, model="conditional-any", restarts=3, n_jobs=jobs, random_state=3).fit(
            X, must_link=pairs[together], cannot_link=pairs[~together]
        )
        for jobs in (1, 2)
    ]
    assert estimators[0].objective_ == estimators[1].objective_
    assert estimators[0].structure_ == estimators[1].structure_
    assert (estimators[0].labels_ == estimators[1].labels_).all()


def test_named_parts_are_taken_and_the_rest_is_chosen() -> None:
    X, y = rings(120)
    wide = np.column_stack([X, np.random.default_rng(0).standard_normal((120, 2))])
    annotations = layers_of(*links(y, 120, 0.95), accuracy=0.95)

    def structure(**parts: Any) -> Structure:
        chosen = {name: parts.pop(name) for name in ("components", "subspace") if name in parts}
        result = fit(
            wide,
            annotations,
            n_clusters=2,
            model="conditional",
            restarts=2,
            seed=0,
            settings=settings_of(chosen),
            **parts,
        )
        assert result.solution is not None
        return result.solution.structure

    named = structure(components=4, subspace=3, covariance="diagonal")
    assert named.components == 4
    assert named.subspace == 3
    assert named.covariance == "diagonal"
    named = structure(components=4, covariance="full", predict_annotations=True)
    assert named.components == 4
    assert named.subspace == "none"
    assert named.covariance == "full"
    assert structure(components="auto", subspace=2, covariance="full").subspace == 2
    assert structure(components=2, subspace="auto").components == 2
    assert structure(subspace="discriminative", covariance="full").subspace == "discriminative"


def test_fit_that_falls_short_of_its_folds_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rings(120)
    annotations = layers_of(*links(y, 120, 0.9), accuracy=0.9)
    whole = settings_of({})
    first = fit(X, annotations, n_clusters=2, model="conditional-any", restarts=2, settings=whole, seed=0)
    refused = first.structure
    short = race.falls_short

    def judge_short(union: Any, layers: Any, expected: Any) -> str:
        return short(union, layers, expected) or (
            "fell short" if not calls.append(1) and len(calls) == 1 else ""
        )

    calls: list[int] = []
    monkeypatch.setattr(race, "falls_short", judge_short)
    second = fit(X, annotations, n_clusters=2, model="conditional-any", restarts=2, settings=whole, seed=0)
    assert second.structure == list(first.held_out)[1] != refused
    assert any(refused in note and "fell short" in note for note in second.notes)


def test_annotations_that_say_nothing_leave_the_choice_to_the_features() -> None:
    X, y = rings(120)
    pairs, _ = links(y, 120, 1.0)
    by_chance = np.random.default_rng(5).random(120) < 0.5
    result = fit(
        X,
        layers_of(pairs, by_chance, accuracy=0.9),
        n_clusters=2,
        model="conditional-any",
        restarts=2,
        settings=DEFAULT,
        seed=0,
    )
    assert any("no structure predicts the annotations clearly better than" in note for note in result.alarms)
    assert result.solution is not None
    assert not result.solution.structure.annotated


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["--model", "posterior", "--accuracy", "0.9", "--components", "2"], {"--model"}),
        (["--components", "2", "--covariance", "common"], {"--covariance"}),
        (["--subspace", "none", "--components", "0"], {"--components"}),
        (["--subspace", "half"], {"--subspace"}),
        (["--subspace", "9", "--components", "150"], {"--subspace", "--components"}),
        (["--model", "conditional-any", "--components", "3"], {"--components"}),
        (["--covariance", "any", "--feature-weight", "0.5"], {"--feature-weight"}),
    ],
)
def test_what_has_no_place_is_refused(tmp_path: Path, options: list[str], where: set[str]) -> None:
    np.savetxt(tmp_path / "x.csv", rings(40)[0], delimiter=",", header="a,b", comments="")
    result = CliRunner().invoke(main, ["fit", str(tmp_path / "x.csv"), "-k", "2", *options])
    assert result.exit_code == 2
    assert all(f"{option}: found" in result.stderr for option in where)


def test_command_and_estimator_find_the_same(tmp_path: Path) -> None:
    X, y = rings(80)
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b", comments="", fmt="%.17g")
    pairs, together = links(y, 80, 0.9)
    for name, some in (("must", together), ("cannot", ~together)):
        np.savetxt(tmp_path / name, pairs[some] + 1, fmt="%d")
    files = ["--must-link", str(tmp_path / "must"), "--cannot-link", str(tmp_path / "cannot")]
    arguments = ["fit", str(tmp_path / "x.csv"), "-k", "2", "--model", "conditional-any", "--restarts", "2"]
    run = CliRunner().invoke(main, [*arguments, *files, "--confidence", "--json"], catch_exceptions=False)
    document = json.loads(run.stdout)
    estimator = AnnotatedClustering(2, model="conditional-any", restarts=2, confidence=True, random_state=0)
    estimator.fit(X, must_link=pairs[together], cannot_link=pairs[~together])
    assert document["objective"] == estimator.objective_
    assert document["labels"] == estimator.labels_.tolist()
    assert document["structure"]["text"] == estimator.structure_
    assert np.array(document["membership"]) == pytest.approx(estimator.membership_)
    assert len(document["components"]["weights"]) == len(estimator.solution_.union.weights)
    drawn = (estimator.label_draws_[:, :, None] == np.arange(2)).mean(axis=0)
    assert np.abs(drawn - estimator.membership_).max() < 0.1


def test_commands_that_are_shown_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = rings(60)
    np.savetxt("x.csv", X, delimiter=",", header="a,b", comments="")
    pairs, together = links(y, 60, 1.0)
    np.savetxt("must", pairs[together] + 1, fmt="%d")
    np.savetxt("cannot", pairs[~together] + 1, fmt="%d")
    command = "fit x.csv -k 2 --must-link must --cannot-link cannot --restarts 1"
    for _ in range(4):  # a fit, the questions after it, these in a file, and the fit of the answers
        result = CliRunner().invoke(main, shlex.split(command))
        assert result.exit_code == 0, result.output
        lines = result.output.replace("\\\n", "").splitlines()
        typed = [line.strip().removeprefix("sweep ") for line in lines if line.strip().startswith("sweep")]
        command = next((line_typed for line_typed in typed if line_typed.startswith("fit")), typed[0])
        assert not {"--model", "--covariance", "--scale"} & set(command.split())


KINDS = ("repeats", "constant", "whole numbers", "wide", "one feature", "tiny", "one class")


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_all_kinds_have_a_solution(kind: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((30, 3))
    X, k = {
        "repeats": (np.repeat(X[:5], 6, axis=0), 3),
        "constant": (np.column_stack([X, np.ones(30), X[:, 0]]), 2),
        "whole numbers": (rng.integers(0, 3, size=(60, 4)).astype(float), 3),
        "wide": (rng.standard_normal((20, 200)), 2),
        "one feature": (X[:, :1], 2),
        "tiny": (X[:4] * 1e-8, 2),
        "one class": (X, 1),
    }[kind]
    pairs = rng.integers(len(X), size=(30, 2))
    must = rng.random(30) < 0.5
    estimator = AnnotatedClustering(k, model="conditional-any", restarts=1, confidence=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator.fit(X, must_link=pairs[must], cannot_link=pairs[~must])
    assert np.isfinite(estimator.objective_)
    assert estimator.membership_.sum(axis=1) == pytest.approx(1.0)
    assert estimator.predict(X).max() < k
    assert estimator.notes_


def test_questions_are_asked_about_classes_of_any_shape(ring_fit: Any) -> None:
    X, _, estimator = ring_fit
    questions = estimator.query(5)
    assert len(questions.pairs) == 5
    assert ((questions.together > 0) & (questions.together < 1)).all()
    # near the boundary, not between rings: no spherical cluster of the plane would say so
    assert (estimator.predict(X) == estimator.labels_).mean() > 0.95


def ended_after(count: int) -> Any:
    """Return a runner that ends by Ctrl-C after so many fits of all calls together."""
    fits = list[Any]()

    def run(function: Any, numbers: Any) -> list[Any]:
        def run_one(number: Any) -> Any:
            if len(fits) == count:
                raise KeyboardInterrupt
            result = function(number)
            fits.extend([] if result is None else [result])  # starts are found too, which are no fits
            return result

        return [run_one(number) for number in numbers]

    return run


@pytest.mark.parametrize("salvage", [False, True])
def test_ctrl_c_among_numbers_of_clusters_ends_an_estimator_and_not_a_command(salvage: bool) -> None:
    X, _y = rings(60)
    tried = list[int]()

    def fit_some(n_clusters: int) -> FitResult:
        tried.append(n_clusters)
        if len(tried) == 3:
            raise KeyboardInterrupt
        options: Any = {"n_clusters": n_clusters, "restarts": 1, "settings": DEFAULT, "seed": 0}
        return fit(X, (), model="unsupervised", **options)

    if salvage:
        choice = choose_clusters((2, 3, 4, 5), fit_some, salvage=True)
        assert [candidate.n_clusters for candidate in choice.candidates] == [2, 3]
        assert choice.reason.endswith("interrupted: larger numbers were not tried to the end")
    else:
        with pytest.raises(KeyboardInterrupt):
            choose_clusters((2, 3, 4, 5), fit_some)
    assert tried == [2, 3, 4]


@pytest.mark.parametrize("model", ["conditional-any", "unsupervised"])
def test_ctrl_c_among_structures_keeps_the_best_fit_so_far(model: str) -> None:
    X, y = rings()
    annotations = layers_of(*links(y, len(y), 0.95), accuracy=0.95)
    options: Any = {"n_clusters": 2, "restarts": 2, "settings": DEFAULT, "seed": 0, "salvage": True}
    options |= {"model": model, "covariance": "any"}
    with pytest.raises(KeyboardInterrupt):
        fit(X, annotations, run=ended_after(0), **options)
    many = 20 if model == "conditional-any" else 4
    result = fit(X, annotations, run=ended_after(many), **options)
    assert result.interrupted
    assert len(result.restart_objectives) == 1
    [count] = re.findall(r"the best of (\d+) fits", result.alarms[0])
    assert ("annotations" in result.alarms[0]) == (model == "conditional-any")
    # fits to two folds are made together, and later those to the three others
    assert int(count) == many or (model == "conditional-any" and 2 * many <= int(count) <= 3 * many)
    if model == "conditional-any":  # a ring is several components
        assert adjusted_rand_score(y, result.best.labels) > 0.8
        assert "predicts" not in result.choice


def test_candidates_left_out_for_their_cost_are_named_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "DEAREST", 3e4)
    monkeypatch.setattr(table, "SECONDS", 1.0)
    X, y = rings()
    X = np.column_stack([X, np.random.default_rng(0).standard_normal((len(X), 4))])
    annotations = layers_of(*links(y, 200, 0.95), accuracy=0.95)
    settings = settings_of({"subspace": "none", "components": 2})
    options: Any = {"n_clusters": 2, "restarts": 1, "settings": settings, "seed": 0, "model": "conditional"}
    result = fit(X, annotations, covariance="auto", **options)
    [note] = [note_text for note_text in result.notes if note_text.startswith("left out for their cost")]
    # 240 rows x 4 Gaussians x 6 features squared are 34,560 operations, in 30 steps of 3 starts in 5 folds
    assert note.endswith(f"(about {34_560 * 30 * 3 * 5 / 60:.2g} min of a core): 2 full")
    assert result.words
    assert result.choice == f"{result.words}; {result.foresight}"
    named = fit(X, annotations, covariance="full", **options)
    assert named.covariance == "full"
    assert not any("cost" in note_text for note_text in named.notes)


def test_equal_costs_of_candidates_are_said_once() -> None:
    costs = dict.fromkeys((Structure(NONE, 1, "tied"), Structure(NONE, 1, "full")), 90.0)
    [note] = table.Table.cost_notes(SimpleNamespace(too_costly=costs))  # type: ignore[arg-type]
    assert note.startswith("left out for their cost (about 1.5 min each of a core): 2 structures, as ")


@pytest.mark.filterwarnings("ignore:as many clusters as rows", "ignore:the clusters agree with")
def test_as_many_classes_as_rows_have_densities_that_do_not_overflow() -> None:
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(40, 6)), rng.permutation(40).reshape(-1, 2)
    fit = AnnotatedClustering(40, random_state=0).fit(X, must_link=pairs[:10], cannot_link=pairs[10:])
    assert fit.predict(X).tolist() == fit.labels_.tolist()
    assert np.isfinite(fit.transform(rng.normal(size=(3, 6)))).all()
