"""Candidate structures equal plain formulas, and the right one is chosen where the answer is known."""

import math
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier, Event, Lock
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from solving.answers import answered, layers_of
from threadpoolctl import threadpool_info, threadpool_limits

from sweep_clustering.kernels import structure
from sweep_clustering.kernels.choice import (
    COIN,
    HELD_OUT,
    HeldOut,
    bar_of,
    child_seed,
    list_annotations,
    training_layers,
)
from sweep_clustering.kernels.fits import CACHED, Gaussians, place, project, squared_norms, variances_of
from sweep_clustering.kernels.problem.data import MUST, Layer, estimate_accuracies, label_layers
from sweep_clustering.kernels.settings import FOLDS, UNLABELLED, Settings, settings_of
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import REFINED, Unions, prepare
from sweep_clustering.kernels.unions import race
from sweep_clustering.kernels.unions import race as structures
from sweep_clustering.kernels.unions import table as tables
from sweep_clustering.kernels.unions.soft import first_labels, fit_components
from sweep_clustering.sweeps.errors import present

Table_ = tuple[NDArray[Any], NDArray[np.int64]]


def rings(n_samples: int = 240) -> Table_:
    """Return two rings, one around the other."""
    rng = np.random.default_rng(3)
    labels = np.arange(n_samples) % 2
    angles = rng.uniform(0, 2 * math.pi, n_samples)
    radii = 1.0 + 2.0 * labels + 0.1 * rng.normal(size=n_samples)
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)]), labels


def blobs(n_samples: int = 150, n_dims: int = 4, apart: float = 6.0) -> Table_:
    """Return three round classes."""
    rng = np.random.default_rng(4)
    labels = np.arange(n_samples) % 3
    centers = apart * np.eye(3, n_dims)
    return centers[labels] + rng.normal(size=(n_samples, n_dims)), labels


def draw_layers(labels: NDArray[Any], count: int, accuracy: float, level: float | None) -> list[Layer]:
    rng = np.random.default_rng(8)
    pairs = rng.integers(len(labels), size=(count, 2))
    return answered(pairs, labels, rng, right=accuracy, accuracy=level)


def table_of(X: NDArray[Any], n_classes: int) -> tables.Table:
    return tables.Table(X, n_classes, SeedSequence(0))


def unions_of(X: NDArray[Any], layers: Sequence[Layer], n_clusters: int = 3) -> Unions:
    """Return the solver of full covariances in two principal components."""
    model = Model("conditional", "full", settings_of({"subspace": 2}))
    return Unions(model, X, layers, n_clusters, SeedSequence(0))


def solve_table(table: tables.Table, structure: race.Structure, layers: list[Layer]) -> Gaussians:
    return table.solve(structure, layers, np.random.default_rng(0))


@pytest.mark.parametrize("shape", ["spherical", "diagonal", "tied", "full"])
def test_densities_and_bic_are_those_of_the_mixture(shape: str) -> None:
    X, _ = blobs()
    table = table_of(X, 3)
    union = solve_table(table, race.Structure(race.NONE, 1, shape, annotated=False), [])
    Z = union.place(X)
    logs = union.log_densities(Z)
    for g, mean in enumerate(union.means):
        component = union.covariances[0 if shape == "tied" else g]
        matrix = component if component.ndim == 2 else np.diag(component)
        expected = np.log(union.weights[g]) + multivariate_normal(mean, matrix).logpdf(Z)
        np.testing.assert_allclose(logs[:, g], expected)
    mixture = GaussianMixture(3, covariance_type={"diagonal": "diag"}.get(shape, shape)).fit(X)
    free = (mixture.bic(X) + 2 * len(X) * mixture.score(X)) / math.log(len(X))
    expected_bic = np.logaddexp.reduce(logs, axis=1).sum() - 0.5 * free * math.log(len(X))
    assert tables.union_criteria(union, union.place(X)).bic == pytest.approx(expected_bic)


def test_a_class_whose_proportion_is_nothing_has_a_finite_density_and_no_new_sample() -> None:
    X, _ = blobs()
    union = solve_table(table_of(X, 3), race.Structure(race.NONE, 1, "spherical", annotated=False), [])
    emptied = replace(union, weights=np.array([0.0, 0.4, 0.6]))
    assert np.isfinite(emptied.class_densities(X)).all()
    assert set(emptied.predict(X).argmax(axis=1)) == {1, 2}


def test_a_new_sample_has_the_classes_of_the_densities_whatever_the_other_rows() -> None:
    X, labels = rings()
    union = solve_table(
        table_of(X, 2), race.Structure(race.NONE, 8, "spherical"), draw_layers(labels, 240, 0.95, 0.95)
    )
    classes = union.predict(X)
    densities = np.exp(union.log_densities(X))
    for c in range(2):
        class_densities = densities[:, union.class_of == c].sum(axis=1)
        np.testing.assert_allclose(classes[:, c], class_densities / densities.sum(axis=1))
    assert (classes[7:9] == union.predict(X[7:9])).all()
    assert adjusted_rand_score(labels, classes.argmax(axis=1)) > 0.95


def test_equal_proportions_are_of_classes() -> None:
    X, labels = rings()
    X, labels = X[(labels == 0) | (np.arange(240) < 60)], labels[(labels == 0) | (np.arange(240) < 60)]
    layers = draw_layers(labels, 200, 0.95, 0.95)
    for proportions in ("equal", "free"):
        union = solve_table(table_of(X, 2), race.Structure(race.NONE, 4, "spherical", proportions), layers)
        sums = np.bincount(union.class_of, union.weights)
        is_equal = np.allclose(sums, 0.5)
        assert sums.sum() == pytest.approx(1.0)
        assert is_equal == (proportions == "equal")


def test_discriminative_directions_are_those_of_fishers_criterion() -> None:
    rng = np.random.default_rng(1)
    X, labels = blobs(n_dims=6, apart=2.0)
    X = X @ rng.normal(size=(6, 6))
    center, shares = X.mean(axis=0), np.eye(3)[labels]
    axes = tables.discriminative(X - center, shares)
    assert axes.shape == (6, 2)
    np.testing.assert_allclose(((X - center) @ axes).var(axis=0), 1.0)
    moved = X - center
    means = np.array([moved[labels == c].mean(axis=0) for c in range(3)])
    between = sum(50 * np.outer(mean, mean) for mean in means)
    within = moved.T @ moved - between
    within = 0.9 * within + 0.1 * np.trace(within) / 6 * np.eye(6)

    def ratio(axis: NDArray[Any]) -> float:
        return float(axis @ between @ axis / (axis @ within @ axis))

    largest = np.sort(np.linalg.eigvals(np.linalg.solve(within, between)).real)[::-1]
    # a little is added to the sizes of the classes
    np.testing.assert_allclose([ratio(axis) for axis in axes.T], largest[:2], rtol=1e-3)


def slow_log_loss(trials: race.Trials, structure: race.Structure, layers: list[Layer]) -> float:
    """Return the log loss by a loop over annotations and shares of surety."""
    whole, best = trials.annotations, math.inf
    for sure in np.linspace(0, 1, 21):
        total = 0.0
        for a, (i, j) in enumerate(whole.pairs.tolist()):
            classes = trials.fits[structure, 3, int(whole.folds[a])].classes
            together, train = float(classes[i] @ classes[j]), whole.folds != whole.folds[a]
            right = wrong = float(whole.accuracies[a])
            if math.isnan(right):
                alike = (classes[whole.pairs[train, 0]] * classes[whole.pairs[train, 1]]).sum(axis=1)
                columns = whole.annotators[train], whole.is_must[train], whole.weights[train]
                estimates = estimate_accuracies(*columns, alike)
                right, wrong = estimates.accuracies[whole.annotators[a]].tolist()
            must = min(max(right * together + (1 - wrong) * (1 - together), 1e-3), 1 - 1e-3)
            rate = (whole.is_must[train].sum() + 1) / (train.sum() + 2)
            probability = sure * must + (1 - sure) * rate
            total -= math.log(probability if whole.is_must[a] else 1 - probability)
        best = min(best, total / len(whole.pairs))
    return best


@pytest.mark.parametrize("level", [0.9, None])
def test_predictions_of_held_out_annotations_are_those_of_a_plain_loop(level: float | None) -> None:
    X, labels = rings(100)
    layers = draw_layers(labels, 100, 0.9, level)
    if not level:
        layers += [replace(layer, annotator=1) for layer in draw_layers(labels, 30, 0.3, level)]
    table = table_of(X, 2)
    trials = race.Trials(table, layers, list_annotations(layers, table.seed), map)
    candidates = [race.Structure(race.NONE, 8, "spherical"), race.Structure(race.NONE, 1, "diagonal")]
    trials.add(candidates, 3, candidates)
    base, share = trials.base_rate.log_loss, float(np.average(trials.annotations.is_must))
    # all folds have one answer, whichever side of one half their rates are on
    assert trials.base_rate.share_right == pytest.approx(max(share, 1.0 - share))
    for candidate in [candidate for candidate in candidates if (candidate, 3) in trials.scores]:
        assert trials.scores[candidate, 3].log_loss == pytest.approx(slow_log_loss(trials, candidate, layers))
        assert trials.scores[candidate, 3].log_loss <= base + 1e-12
    assert trials.ranked_structures(3)[0] == candidates[0]
    # a fold's fit has not seen its annotations
    for fold, links in enumerate(trials.links):
        training = {tuple(pair) for pair in links.pairs.tolist()}
        tested = {
            tuple(sorted(pair))
            for pair in trials.annotations.pairs[trials.annotations.folds == fold].tolist()
        }
        assert not training & tested


@pytest.mark.parametrize("shape", ["spherical", "diagonal", "tied", "full"])
def test_fits_that_share_their_first_steps_are_those_of_each_fold_alone(shape: str) -> None:
    X, labels = rings(100)
    layers = draw_layers(labels, 100, 0.9, None)
    table, structure = table_of(X, 2), race.Structure(race.NONE, 1 if shape == "tied" else 4, shape)
    trials = race.Trials(table, layers, list_annotations(layers, table.seed), map)
    trials.add([structure], 2, [structure])
    key = child_seed(table.seed, HELD_OUT + 1 + FOLDS, 2)
    for fold in (0, 1):
        rng = np.random.default_rng(key)
        training = training_layers(layers, trials.annotations, fold)
        alone = [
            fit_components(
                table.coordinates(race.NONE),
                training,
                n_classes=2,
                components=structure.components,
                covariance=shape,
                rng=rng,
                labels=table.start(race.NONE, 2 * structure.components, number),
                steps=tables.FOLD_STEPS,
                min_rise=tables.FOLD_RISE * len(X),
            )
            for number in range(2)
        ]
        best = max(alone, key=lambda fit: fit.bound)
        shared = trials.fits[structure, 2, fold]
        assert shared.bound == best.bound
        assert shared.accuracies == best.accuracies
        np.testing.assert_array_equal(shared.classes, best.classes)


def test_directions_of_a_fold_start_from_the_fit_to_the_same_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = rings(100)
    layers, table = draw_layers(labels, 100, 0.9, 0.9), table_of(X, 2)
    trials = race.Trials(table, layers, list_annotations(layers, table.seed), map)
    first = race.Structure(race.NONE, 4, "spherical")
    along = race.Structure(race.DISCRIMINATIVE, 1, "full", first=first)
    trials.add([first], 2, [first])
    solve, calls = table.solve, list[Any]()

    def note_call(candidate: race.Structure, links: Any, rng: Any, **options: Any) -> Gaussians:
        calls.append((links, rng.random(), options))
        return solve(candidate, links, rng, **options)

    monkeypatch.setattr(table, "solve", note_call)
    trials.add([along], 2)
    key = child_seed(table.seed, HELD_OUT + 1 + FOLDS, 2)
    steps = {"steps": tables.FOLD_STEPS, "rise": tables.FOLD_RISE}
    assert calls
    for fold, (links, number, options) in enumerate(calls):
        assert links is trials.links[fold]
        assert number == np.random.default_rng(key).random()
        assert options == steps | {"first": trials.fits[first, 2, fold]}


def test_every_other_start_finds_classes_along_directions_of_little_variance() -> None:
    rng, classes = np.random.default_rng(2), np.arange(200) % 2
    X = np.column_stack([rng.normal(scale=10.0, size=200), 0.5 * classes + rng.normal(scale=0.05, size=200)])
    table = tables.Table(X @ np.array([[0.8, -0.6], [0.6, 0.8]]), 2, SeedSequence(0))
    scores = [adjusted_rand_score(classes, table.start(race.NONE, 2, number)) for number in range(2)]
    assert scores[0] < 0.1
    assert scores[1] == 1.0
    tied, rng = race.Structure(2, 1, "tied", annotated=False), np.random.default_rng(0)
    fits = [table.solve(tied, (), rng) for _ in range(6)]
    best = max(fits, key=lambda fit: fit.bound)
    assert adjusted_rand_score(classes, best.labels) == 1.0


def many_classes(n_samples: int) -> Table_:
    """Return forty round classes in 160 dimensions, with so few rows that features alone blur them."""
    rng = np.random.default_rng(6)
    labels = np.arange(n_samples) % 40
    return 0.36 * rng.normal(size=(40, 160))[labels] + rng.normal(size=(n_samples, 160)), labels


def test_starts_of_many_features_and_few_rows_see_principal_components() -> None:
    X, labels = many_classes(1600)
    table = table_of(X, 40)
    assert table.dims == (2, 5, 10, 20, 40, race.NONE)
    for is_white in (False, True):
        coordinates = table.start_coordinates(race.NONE, is_white)
        assert coordinates.shape == (1600, 40)
        spread = 1.0 if is_white else table.coordinates(40).std(axis=0)
        np.testing.assert_allclose(coordinates.std(axis=0), spread)
    plain_labels = first_labels(table.coordinates(race.NONE), 40, np.random.default_rng(0))
    there = [adjusted_rand_score(labels, table.start(race.NONE, 40, number)) for number in range(2)]
    assert min(there) > adjusted_rand_score(labels, plain_labels) + 0.05
    # features as they are, of enough rows a class or not more of them than principal components
    assert table_of(X, 2).start_coordinates(race.NONE, False).shape == (1600, 160)
    assert table_of(X[:, :30], 40).start_coordinates(race.NONE, True).shape == (1600, 30)
    assert table_of(X[:, :60], 40).dims == (2, 5, 10, 20, race.NONE)


def test_a_part_has_the_principal_components_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = many_classes(4000)
    X[:, 3] = np.arange(4000) == 7  # no sample of the part differs in it, or one alone
    monkeypatch.setattr(structure, "PART_OF_CLASS", 10)
    monkeypatch.setattr(structure, "PART", 400)
    table = table_of(X, 40)
    part, _ = present(unions_of(X, (), 40).part)
    assert len(part.X) == 400
    assert np.array_equal(part.coordinates(40), place(part.X, table.center, table.axes(40)))
    assert np.isfinite(part.start_coordinates(table.rank, True)).all()
    rows = [np.flatnonzero((row == X).all(axis=1))[0] for row in part.X]
    alone = table_of(part.X, 40)
    agree = [adjusted_rand_score(labels[rows], whole.start(race.NONE, 40, 0)) for whole in (part, alone)]
    assert agree[0] > agree[1] + 0.1


@pytest.mark.parametrize("column", [0, 11])
def test_distinct_rows_are_counted_wherever_they_differ(column: int) -> None:
    X = np.zeros((30, 12))
    X[:, column] = np.arange(30) % 7
    assert table_of(X, 2).distinct(race.NONE) == len(np.unique(X, axis=0)) == 7
    X[:, column] = np.arange(30)
    assert table_of(X, 2).distinct(race.NONE) == 30


def test_rows_that_are_equal_along_discriminative_directions_are_fitted_all_the_same() -> None:
    X = np.repeat(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 4), 10, axis=0)
    X = np.column_stack([X, np.tile(np.arange(8.0), 20) * 1e-9])
    first, table = race.Structure(race.NONE, 1, "spherical"), tables.Table(X, 2, SeedSequence(0))
    candidate = race.Structure(race.DISCRIMINATIVE, 16, "spherical", first=first)
    pairs = np.array([[0, 1], [40, 41], [0, 20]])
    union = table.solve(candidate, [Layer(MUST, pairs, None, 0.9)], np.random.default_rng(0))
    assert len(union.class_of) == 32
    assert np.isfinite(union.bound)
    np.testing.assert_allclose(union.classes.sum(axis=1), 1.0)


def test_rings_take_many_components_and_blobs_one() -> None:
    X, labels = rings()
    layers = draw_layers(labels, 240, 0.9, 0.9)
    table = table_of(X, 2)
    choice = race.choose_structure(table, layers)
    assert choice.structures[0].components >= 4
    assert not choice.note
    union = solve_table(table, choice.structures[0], layers)
    assert adjusted_rand_score(labels, union.labels) > 0.95
    X, labels = blobs()
    layers = draw_layers(labels, 150, 0.9, 0.9)
    table = table_of(X, 3)
    choice = race.choose_structure(table, layers)
    assert choice.base_rate is not None
    assert choice.candidates[choice.structures[0]].log_loss < choice.base_rate.log_loss - 0.2
    assert any(not structure.annotated for structure in choice.candidates)
    assert adjusted_rand_score(labels, solve_table(table, choice.structures[0], layers).labels) > 0.95


@pytest.mark.parametrize("seed", range(4))
def test_no_structure_that_a_coin_beats_is_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    layers = layers_of(rng.integers(60, size=(120, 2)), rng.random(120) < 0.5)
    table = tables.Table(X, 2, SeedSequence(seed))
    choice = race.choose_structure(table, layers, components=2, subspace=race.NONE)
    assert choice.base_rate is not None
    if choice.note:
        losses = [
            min(structure.log_loss for structure in choice.candidates.values()),
            bar_of(choice.base_rate).predictions.log_loss,
        ]
        assert f"({'log loss {:.3f} against {:.3f}'.format(*losses)})" in choice.note
    else:
        assert all(choice.candidates[structure].log_loss <= COIN for structure in choice.structures)


def answers_of(right: Sequence[float]) -> HeldOut:
    """Return predictions that give these probabilities to the answers."""
    values = np.array(right)
    return HeldOut(np.log(values), values > 0.5, np.ones(len(values)), values)


def test_the_bar_is_the_better_of_the_base_rate_and_a_coin() -> None:
    balanced, skewed = answers_of([0.52, 0.46] * 50), answers_of([0.7, 0.7, 0.3] * 30)
    assert bar_of(skewed).predictions is skewed
    assert bar_of(skewed).words == "how often they are must-links"
    assert balanced.log_loss > COIN
    assert bar_of(balanced).predictions.log_loss == pytest.approx(COIN)
    assert bar_of(balanced).words == "a coin"


def test_a_candidate_that_a_coin_beats_is_not_credible() -> None:
    good, bad = race.Structure(race.NONE, 4, "full"), race.Structure(race.NONE, 1, "full")
    choice = race.Ranking((), {good: answers_of([0.6]), bad: answers_of([0.4993])}, None)
    assert list(choice.credible_scores) == [good]


def test_a_structure_between_the_base_rate_and_a_coin_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """All candidates are clearly ahead of the base rate, and worse than a coin."""
    X, labels = blobs()
    table, layers = table_of(X, 3), draw_layers(labels, 150, 0.9, 0.9)

    def lower_answers(trials: race.Trials, must: Any, together: Any, tested: NDArray[np.bool_]) -> HeldOut:
        return answers_of(np.full(int(tested.sum()), 0.498 if must is not trials.rates else 0.49))

    monkeypatch.setattr(race.Trials, "_score", lower_answers)
    choice = race.choose_structure(table, layers, components=1, subspace=race.NONE)
    assert choice.note.startswith(
        "no structure predicts the annotations better than a coin (log loss 0.697 against 0.693)"
    )
    assert not choice.credible_scores


def test_a_structure_barely_ahead_is_not_called_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = blobs()
    table, layers = table_of(X, 3), draw_layers(labels, 150, 0.9, 0.9)

    def close_answers(trials: race.Trials, must: Any, together: Any, tested: NDArray[np.bool_]) -> HeldOut:
        values = np.tile([0.26, 0.9999], int(tested.sum()) // 2 + 1)[: int(tested.sum())]
        return answers_of(np.full(len(values), 0.3) if must is trials.rates else values)

    monkeypatch.setattr(race.Trials, "_score", close_answers)
    note = race.choose_structure(table, layers, components=1, subspace=race.NONE).note
    assert note.startswith("no structure predicts the annotations clearly better than a coin")


def test_linear_algebra_is_on_one_thread_until_the_last_of_few_has_left() -> None:
    def numbers() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    n_callers, n_within, together, left = tables.AT_ONCE + 2, 0, list[int](), Event()
    lock, all_within = Lock(), Barrier(tables.AT_ONCE)

    def call(number: int) -> set[int]:
        nonlocal n_within
        with tables.one_thread:
            with lock:
                n_within += 1
                together.append(n_within)
            if number < tables.AT_ONCE:
                all_within.wait(60)
                assert number == 0 or left.wait(60)
            limits = numbers()
            with lock:
                n_within -= 1
        left.set()
        return limits

    # the main thread sets a number, too, which threadpoolctl 3.8 then leaves to that thread alone
    with threadpool_limits(2), ThreadPoolExecutor(n_callers) as pool:
        assert numbers() == {2}
        assert list(pool.map(call, range(n_callers))) == [{1}] * n_callers
        assert max(together) == tables.AT_ONCE
        with suppress(ZeroDivisionError), tables.one_thread:
            raise ZeroDivisionError
        assert numbers() == {2}


def test_the_choice_is_the_same_in_any_number_of_threads() -> None:
    X, labels = blobs(90, 6)
    layers = draw_layers(labels, 90, 0.85, None)
    alone = race.choose_structure(table_of(X, 3), layers)
    with ThreadPoolExecutor(3) as pool:

        def run(task: Callable[[Any], Any], work: Iterable[Any]) -> list[Any]:
            return list(pool.map(task, work))

        beside = race.choose_structure(table_of(X, 3), layers, run=run)
    assert alone.structures == beside.structures
    for candidate, predictions in alone.candidates.items():
        assert (predictions.log_probabilities == beside.candidates[candidate].log_probabilities).all()


def test_annotations_that_say_nothing_leave_the_choice_to_the_features() -> None:
    X, labels = blobs()
    layers = draw_layers(labels, 150, 0.5, 0.9)
    table = table_of(X, 3)
    choice = race.choose_structure(table, layers)
    assert "no structure predicts the annotations clearly better" in choice.note
    assert "the features choose, by BIC" in choice.note
    assert not any(structure.annotated for structure in choice.structures)
    assert adjusted_rand_score(labels, solve_table(table, choice.structures[0], layers).labels) > 0.95


def test_few_annotations_leave_the_choice_to_the_features_and_take_part() -> None:
    X, labels = blobs()
    choice = race.choose_structure(table_of(X, 3), draw_layers(labels, 12, 1.0, 0.95))
    assert "12 annotated pairs are too few" in choice.note
    assert all(structure.annotated and structure.covariance != race.KMEANS for structure in choice.structures)
    assert not choice.candidates


@pytest.mark.parametrize("count", [0, 12, 150])
def test_where_everything_is_too_dear_spherical_gaussians_are_fitted(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "DEAREST", 1.0)
    X, labels = blobs()
    choice = race.choose_structure(table_of(X, 3), draw_layers(labels, count, 1.0, 0.95))
    assert {structure.covariance for structure in choice.structures} <= {race.KMEANS, "spherical"}
    assert any(structure.covariance == "spherical" for structure in choice.structures)


def test_what_is_named_is_what_is_fitted() -> None:
    X, labels = blobs()
    layers = draw_layers(labels, 150, 0.9, 0.9)
    choice = race.choose_structure(table_of(X, 3), layers, components=2, subspace=3, covariance="full")
    assert choice.structures == (race.Structure(3, 2, "full"),)
    choice = race.choose_structure(table_of(X, 3), layers, subspace=race.DISCRIMINATIVE)
    assert all(
        structure.subspace == race.DISCRIMINATIVE and structure.first for structure in choice.structures
    )


def test_a_fit_that_agrees_less_than_its_folds_predicted_is_named() -> None:
    X, labels = blobs()
    layers = draw_layers(labels, 150, 0.95, 0.95)
    table = table_of(X, 3)
    annotations = list_annotations(layers, table.seed)
    good = solve_table(table, race.Structure(race.NONE, 1, "spherical"), layers)
    together = structures.joint_shares(good, annotations.pairs)
    agreeing = np.where(annotations.is_must, together, 1.0 - together)
    expected = HeldOut(np.log(np.full(len(agreeing), 0.9)), agreeing > 0.5, annotations.weights, agreeing)
    assert not structures.falls_short(good, annotations, expected)
    bad = tables.hard_classes(X, np.minimum(np.arange(len(X)), 2), 3)  # all rows but two are in one class
    assert "where its folds predicted" in structures.falls_short(bad, annotations, expected)


def test_the_best_must_be_ahead_of_one_with_fewer_components() -> None:
    def answers_with_logs(*logs: float) -> HeldOut:
        shape = np.ones(len(logs))
        return HeldOut(np.array(logs), shape > 0.0, shape, shape)

    many, some, one = (race.Structure(race.NONE, components, "full") for components in (16, 4, 1))
    predictions = {
        many: answers_with_logs(-0.3, -0.5, -0.4, -0.3),
        some: answers_with_logs(-0.2, -0.6, -0.5, -0.3),
        one: answers_with_logs(-0.8, -0.9, -0.8, -0.9),
    }
    assert structures.fewest_components(predictions) == some
    assert (
        structures.fewest_components(predictions | {some: answers_with_logs(-0.5, -0.7, -0.6, -0.5)}) == many
    )


def test_a_lucky_start_does_not_end_all_that_are_looked_at_closely() -> None:
    X, y = blobs()
    table, layers = table_of(X, 3), draw_layers(y, 150, 0.9, 0.9)
    trials = race.Trials(table, layers, list_annotations(layers, table.seed), map)
    one, other = race.Structure(race.NONE, 1, "spherical"), race.Structure(race.NONE, 1, "diagonal")
    trials.add([one], 1)
    score = trials.scores[one, 1]
    sure = np.zeros_like(score.log_probabilities)
    trials.scores[one, 1] = HeldOut(sure, score.right, score.weights, score.agreements)
    trials.add([one, other], 3)
    assert trials.ranked_structures(3)


def test_large_tables_are_compared_on_a_part_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(900) % 3
    X = rng.standard_normal((900, 2)) * [1.0, 0.2] + np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0]])[labels]
    layers = draw_layers(labels, 900, 1.0, 0.95)
    assert unions_of(X, layers).part is None
    monkeypatch.setattr(tables, "LARGE", 1000)
    monkeypatch.setattr(structure, "PART", 300)
    solver = unions_of(X, layers)
    part, between = present(solver.part)
    assert len(part.X) == 300
    assert part.n_classes == 3
    assert {tuple(row) for row in part.X.tolist()} <= {tuple(row) for row in X.tolist()}
    # annotations whose samples are both there, and what each of them says
    for layer, some in zip(layers, between, strict=True):
        annotated_rows = {tuple(X[pair].ravel().tolist()) for pair in layer.pairs}
        assert 40 <= len(some.pairs) <= len(layer.pairs)
        assert {tuple(part.X[pair].ravel().tolist()) for pair in some.pairs} <= annotated_rows
        assert some.kind == layer.kind
        assert some.accuracy == layer.accuracy
    again, _ = present(unions_of(X, layers).part)
    assert np.array_equal(part.X, again.X)
    assert unions_of(X[:500], ()).part is None  # less than twice as many rows
    streams = [SeedSequence(0, spawn_key=(number,)) for number in range(4)]
    choice = solver.choose(streams)
    assert len(choice.fits) == REFINED
    assert choice.notes == (
        "structures were compared on 300 of the 900 rows",
        "the best 2 of 4 restarts on these rows were fitted to all rows",
    )
    best = max(choice.fits, key=lambda fit: fit.objective)
    assert best.labels.shape == (900,)
    assert adjusted_rand_score(labels, best.labels) > 0.95
    # directions of the part lead to those of all rows
    first = race.Structure(race.NONE, 1, "diagonal")
    along = race.Structure(race.DISCRIMINATIVE, 1, "full", first=first)
    coarse = solve_table(part, along, between)
    fine = solver.refine(coarse, SeedSequence(1))
    assert present(fine.gaussians).structure == along
    assert adjusted_rand_score(labels, fine.labels) > 0.95


def test_a_fit_that_is_kept_has_its_classes_but_for_rounding() -> None:
    X, y = blobs()
    fit = table_of(X, 3).solve(
        race.Structure(race.NONE, 1, "diagonal"), draw_layers(y, 100, 0.9, 0.9), np.random.default_rng(0)
    )
    compact = tables.CompactGaussians.from_gaussians(fit)
    assert len(compact.gaussians.classes) == 0
    assert compact.gaussians.bound == fit.bound
    assert np.abs(compact.to_gaussians().classes - fit.classes).max() < 2e-6
    assert np.array_equal(compact.to_gaussians().labels, fit.labels)


def test_accuracies_of_answers_are_tried_if_none_is_given() -> None:
    X, labels = blobs(apart=3.0)
    odds = dict[float | None, set[float]]()
    for accuracy in (None, 0.9):
        layers, table = draw_layers(labels, 150, 0.9, accuracy), tables.Table(X, 3, SeedSequence(0))
        trials = race.Trials(table, layers, list_annotations(layers, table.seed), map)
        choices = structures.Choices(table, 1, race.NONE, structure.AUTO, structure.ODDS)
        for add_candidates in structures.ROUNDS:
            add_candidates(choices, trials)
        odds[accuracy] = {candidate.odds for candidate, _ in trials.scores} - {0.0}
    assert odds[None]
    assert odds[None] <= set(structure.ODDS)  # those that were clearly behind after two folds are not here
    assert not odds[0.9]


@pytest.mark.parametrize(
    ("has_groups", "odds"), [(False, structure.FIRST_ODDS), (True, structure.ODDS)], ids=["any", "groups"]
)
def test_merged_groups_stand_beside_answers_that_are_nearly_certain(
    has_groups: bool, odds: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, labels = blobs(apart=3.0)
    tried = dict[str, Any]()
    choose = race.choose_structure
    monkeypatch.setattr(
        race,
        "choose_structure",
        lambda *args, **options: choose(*args, **tried.setdefault("options", options)),
    )
    model = replace(Model.from_name("conditional-any", "any", Settings()), has_groups=has_groups)
    prepare(model, X, draw_layers(labels, 60, 1.0, None), 3, SeedSequence(0)).solve([SeedSequence(1)])
    assert tried["options"]["odds"] == odds


def test_an_assumed_accuracy_must_be_ahead_of_the_estimate() -> None:
    estimated, assumed = race.Structure(race.NONE, 1, "full"), race.Structure(race.NONE, 1, "full", odds=3.0)
    likely = [0.6, 0.7, 0.5] * 20
    for gain, candidates in ((0.2, [assumed, estimated]), (0.0, [estimated])):
        predictions = answers_of([probability + gain for probability in likely])
        rivals = {assumed: predictions, estimated: answers_of(likely)}
        assert list(structures.without_weak_assumptions(rivals)) == candidates


def test_several_annotators_are_estimated() -> None:
    X, labels = blobs(apart=3.0)
    layers = draw_layers(labels, 150, 0.9, None)
    layers += [replace(layer, annotator=1) for layer in draw_layers(labels, 60, 0.7, None)]
    ranking = race.choose_structure(tables.Table(X, 3, SeedSequence(0)), layers)
    assert {candidate.odds for candidate in ranking.candidates} == {0.0}


@pytest.mark.parametrize("shape", [(7, 3), (2_000, 100), (70_000, 1)])
def test_norms_and_variances_in_blocks_have_the_bits_of_numpy(shape: tuple[int, int]) -> None:
    Z = np.random.default_rng(0).normal(2.0, 3.0, size=shape)
    np.testing.assert_array_equal(squared_norms(Z), np.square(Z).sum(axis=1))
    if shape[1] > 1 or len(Z) < CACHED:  # numpy adds a single long column in another order
        np.testing.assert_array_equal(variances_of(Z), Z.var(axis=0))
    np.testing.assert_allclose(variances_of(Z), Z.var(axis=0), rtol=1e-12)


def test_weights_of_features_give_the_coordinates_of_their_matrix() -> None:
    rng = np.random.default_rng(0)
    X, axes = rng.normal(size=(50, 8)), np.diag(rng.random(8))
    np.testing.assert_array_equal(project(X, axes), np.einsum("nf,fd->nd", X, axes))
    axes[0, 1] = 1.0
    np.testing.assert_array_equal(project(X, axes), np.einsum("nf,fd->nd", X, axes))


def test_a_fit_holds_few_copies_of_its_table() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 60)) + 0.5 * rng.integers(2, size=20_000)[:, None]
    layers, streams = [Layer(MUST, np.array([[0, 1]]))], [SeedSequence(0, spawn_key=(r,)) for r in range(2)]
    model = replace(Model.from_name("conditional-any", "any", Settings()), has_groups=True)
    prepare(model, X[:100], layers, 2, SeedSequence(0)).solve(streams)  # this loads the kernels
    tracemalloc.start()
    prepare(model, X, layers, 2, SeedSequence(0)).solve(streams)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.5 * X.nbytes


def test_a_table_that_released_its_arrays_gives_the_same_fit() -> None:
    X, labels = blobs()
    layers, table = draw_layers(labels, 100, 0.9, 0.9), tables.Table(X, 3, SeedSequence(0))
    fits = []
    for _ in range(2):
        fits.append(table.solve(race.Structure(2, 1, "diagonal"), layers, np.random.default_rng(0)))
        table.release()
    np.testing.assert_array_equal(*(fit.classes for fit in fits))


@pytest.mark.parametrize(("n_distinct", "is_allowed"), [(3, False), (4, True), (5, True)])
def test_each_component_needs_a_distinct_row(n_distinct: int, is_allowed: bool) -> None:
    table = table_of(np.repeat(np.arange(n_distinct) ** 2.0, 50)[:, None], 2)
    assert table.allows(race.Structure(race.NONE, 2, "spherical")) == is_allowed


def test_the_best_restarts_on_a_part_are_fitted_to_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = rings(400)
    monkeypatch.setattr(tables, "LARGE", 1000)
    monkeypatch.setattr(structure, "PART", 150)
    monkeypatch.setattr(structure, "PART_OF_CLASS", 10)
    solver = unions_of(X, draw_layers(labels, 200, 0.9, 0.9), 6)
    bounds, refined = list[float](), list[float]()
    part, refine = present(solver.part)[0], solver.refine
    solve = part.solve

    def note_bound(*arguments: Any) -> Gaussians:
        gaussians = solve(*arguments)
        bounds.append(gaussians.bound)
        return gaussians

    def note_refined(coarse: Gaussians, stream: SeedSequence) -> Any:
        refined.append(coarse.bound)
        return refine(coarse, stream)

    monkeypatch.setattr(part, "solve", note_bound)
    monkeypatch.setattr(solver, "refine", note_refined)
    solver.choose([SeedSequence(0, spawn_key=(number,)) for number in range(5)])
    assert len(set(bounds)) > REFINED
    assert refined == sorted(bounds, reverse=True)[:REFINED]


@pytest.mark.parametrize(("n_annotators", "n_odds"), [(1, 2), (2, 1)])
def test_accuracies_are_assumed_for_a_single_annotator_alone(
    n_annotators: int, n_odds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, labels = blobs(60, 2)
    layers = [
        replace(layer, pairs=layer.pairs[number::n_annotators], annotator=number)
        for layer in draw_layers(labels, 100, 0.9, None)
        for number in range(n_annotators)
    ]
    monkeypatch.setattr(race, "TIMIDITY", -100.0)  # no assumption is left out
    parts = {"components": 1, "subspace": race.NONE, "covariance": "spherical"}
    ranking = race.choose_structure(table_of(X, 3), layers, odds=(2.0,), **parts)
    assert len({structure.odds for structure in ranking.candidates}) == n_odds


def test_k_means_has_a_mean_for_each_class_and_one_variance_as_parameters() -> None:
    X, _ = blobs(60, 2)
    table, kmeans = table_of(X, 3), race.Structure(race.NONE, 1, structure.KMEANS, annotated=False)
    assert table.criteria(solve_table(table, kmeans, [])).parameters == 3 * 2 + 1


def test_labels_choose_a_structure_that_is_barely_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = blobs()
    rows = np.where(np.arange(150) < 40, labels, UNLABELLED)

    def close_answers(trials: race.Trials, must: Any, together: Any, tested: NDArray[np.bool_]) -> HeldOut:
        values = np.tile([0.26, 0.9999], int(tested.sum()) // 2 + 1)[: int(tested.sum())]
        return answers_of(np.full(len(values), 0.3) if must is trials.rates else values)

    monkeypatch.setattr(race.Trials, "_score", close_answers)
    layers = label_layers(rows, 0.9, 0)
    choice = race.choose_structure(table_of(X, 3), layers, components=1, subspace=race.NONE)
    assert choice.note == ""
    assert choice.credible_scores
