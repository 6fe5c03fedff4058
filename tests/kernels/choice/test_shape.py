"""The shape chosen is that which made the data; the simplest unless another is clearly better."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.choice.held_out import LEAST_PAIRS, HeldOut
from kernels.choice.shape import Choice, choose_covariance, simplest_of_the_best
from kernels.problem.problem import CANNOT, MUST, Layer
from kernels.settings import CANDIDATES, settings_of

SETTINGS = settings_of({"method": "strong"})


def draw(shape: str, seed: int, n_samples: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clusters whose covariances tell them apart."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_samples) % 2
    X = rng.normal(size=(n_samples, 2))
    if shape == "spherical":
        X[labels == 1] = X[labels == 1] * 1.5 + 2.0
    elif shape == "diagonal":
        X[labels == 0] *= [4.0, 0.3]
        X[labels == 1] *= [0.3, 4.0]
    elif shape == "tied":
        X = X * [6.0, 0.5] + np.where(labels, 1.5, -1.5)[:, None] * [0, 1]
        X = X @ np.array([[1.0, 1.0], [-1.0, 1.0]])
    else:
        turned = X * [4.0, 0.3] @ np.array([[1.0, 1.0], [-1.0, 1.0]])
        X = np.where(labels[:, None] == 1, turned, turned * [1, -1])
    return X, labels


def layers_of(labels: np.ndarray, m: int, seed: int, accuracy: float | None = 0.9) -> list[Layer]:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, len(labels), size=(m, 2))
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    kinds = np.where(together ^ (rng.random(m) < 0.1), MUST, CANNOT)
    return [Layer(kind, pairs[kinds == kind], None, accuracy) for kind in (MUST, CANNOT)]


def choose(X: np.ndarray, layers: list[Layer], model: str = "conditional", seed: int = 0) -> Choice:
    return choose_covariance(
        X, layers, n_clusters=2, model=model, settings=SETTINGS, seed=np.random.SeedSequence(seed)
    )


@pytest.mark.parametrize("model", ["conditional", "posterior", "likelihood"])
@pytest.mark.parametrize("shape", CANDIDATES)
def test_the_shape_that_made_the_data_is_chosen(shape: str, model: str) -> None:
    chosen = []
    for seed in range(3):
        X, labels = draw(shape, seed)
        choice = choose(X, layers_of(labels, 200, seed), model)
        assert list(choice.candidates) == list(CANDIDATES)
        chosen.append(choice.covariance)
    # what is spherical is diagonal too, and so on: such a choice costs little
    more = {"spherical": "diagonal", "diagonal": "full", "tied": "full", "full": "full"}
    assert sum(each in (shape, more[shape]) for each in chosen) >= 2


def test_same_seed_same_choice_and_accuracies_may_be_unknown() -> None:
    X, labels = draw("full", 1)
    layers = layers_of(labels, 150, 1, None)
    one, two, other = choose(X, layers), choose(X, layers), choose(X, layers, seed=9)
    for name in CANDIDATES:
        same = one.candidates[name].log_probabilities, two.candidates[name].log_probabilities
        np.testing.assert_array_equal(*same)
    assert one.covariance == two.covariance == "full"
    assert other.candidates["full"].log_loss != one.candidates["full"].log_loss


def test_too_few_annotations_are_said_and_mean_spherical() -> None:
    X, labels = draw("full", 2)
    few = layers_of(labels, LEAST_PAIRS - 1, 2)
    choice = choose(X, few)
    assert (choice.covariance, choice.candidates) == ("spherical", {})
    assert str(LEAST_PAIRS) in choice.note
    # repeats of a pair tell nothing more
    many = [Layer(each.kind, np.repeat(each.pairs, 5, axis=0), None, 0.9) for each in few]
    assert choose(X, many).candidates == {}
    assert "sees no annotations" in choose(X, layers_of(labels, 100, 2), "unsupervised").note


def test_a_simpler_candidate_wins_within_half_a_standard_error() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=400)

    def candidates(gain: float) -> dict[str, HeldOut]:
        noise = rng.normal(size=400)
        noise -= noise.mean()
        better = base + gain * noise.std() / 20 + noise
        flat = np.ones(400)
        return {
            "spherical": HeldOut(base, flat > 0, flat),
            "diagonal": HeldOut(base - 1.0, flat > 0, flat),
            "full": HeldOut(better, flat > 0, flat),
        }

    assert simplest_of_the_best(candidates(0.4)) == "spherical"
    assert simplest_of_the_best(candidates(0.6)) == "full"
    assert simplest_of_the_best(candidates(-0.1)) == "spherical"


@pytest.mark.parametrize("shape", [*CANDIDATES, "common"])
def test_one_candidate_is_scored_as_among_all(shape: str) -> None:
    X, labels = draw("full", 1)
    given = {"n_clusters": 2, "model": "conditional", "settings": SETTINGS}
    layers, seed = layers_of(labels, 150, 1), np.random.SeedSequence(0)
    alone = choose_covariance(X, layers, **given, seed=seed, candidates=(shape,))
    assert alone.covariance == shape
    assert list(alone.candidates) == [shape]
    if shape in CANDIDATES:
        among = choose(X, layers).candidates[shape]
        np.testing.assert_array_equal(alone.candidates[shape].log_probabilities, among.log_probabilities)
    few = choose_covariance(X, layers_of(labels, 5, 1), **given, seed=seed, candidates=(shape,))
    assert (few.covariance, few.candidates) == (shape, {})
