"""A metric that answers about pairs teach, and how distance predicts answers (docs/model.md, section 13).

`logistic` says how likely two rows of a squared distance are together; `full_metric` and `diagonal_metric`
give directions along which such a prediction is best. `minimise` is L-BFGS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Steps, and pairs of steps and gradients that L-BFGS remembers.
STEPS = 60
MEMORY = 10

# Halvings of a step that does not lower the function, and the share of the slope that a step must gain.
HALVINGS = 30
ARMIJO = 1e-4

# Relative gain of a step below which the search ends.
LEAST_GAIN = 1e-6

# Weight of the squared deviation of a full metric from the identity, in nats.
SHRINKAGE = 10.0

# Weight of the squared deviation of logarithms of weights of features from their mean, in nats.
WEIGHT_SHRINKAGE = 1.0

# Numbers that are computed together, so few that millions of pairs take no memory.
AT_ONCE = 2**22

# Logarithm of a slope at most: a longer step of the search overflows.
LARGEST_LOG = 30.0

# Answers that teach a metric: more of them take time, and change little.
MOST_PAIRS = 20_000


class Answers(NamedTuple):
    """Answers about pairs of two rows."""

    pairs: NDArray[np.int64]  # (n_answers, 2)
    signs: Floats  # (n_answers,): 1 if the answer is "together", else -1
    weights: Floats  # (n_answers,)
    accuracies: Floats  # (n_answers,)

    @property
    def odds(self) -> Floats:
        """Log odds, nats, that the rows of each pair belong together, by its answer alone."""
        return self.weights * self.signs * np.log(self.accuracies / (1.0 - self.accuracies))

    def select(self, places: NDArray[np.int64]) -> Answers:
        """Return some of the answers."""
        return Answers(self.pairs[places], self.signs[places], self.weights[places], self.accuracies[places])


class Logistic(NamedTuple):
    """Log odds that two rows belong together: `intercept` - `slope` times their squared distance."""

    intercept: float
    slope: float


def minimise(function: Callable[[Floats], tuple[float, Floats]], x: Floats, steps: int = STEPS) -> Floats:
    """Find a minimum by L-BFGS with halved steps."""
    value, gradient = function(x)
    moves, turns = list[Floats](), list[Floats]()
    for _ in range(steps):
        direction = -_inverse_hessian(gradient, moves, turns)
        slope = float(gradient @ direction)
        step = 1.0 if moves else min(1.0, 1.0 / max(float(np.abs(gradient).sum()), 1e-300))
        for _ in range(HALVINGS):
            next_value, next_gradient = function(x + step * direction)
            if next_value <= value + ARMIJO * step * slope:
                break
            step *= 0.5
        else:
            return x
        gain = value - next_value
        if step * direction @ (next_gradient - gradient) > 0.0:
            moves, turns = [*moves, step * direction][-MEMORY:], [*turns, next_gradient - gradient][-MEMORY:]
        x, value, gradient = x + step * direction, next_value, next_gradient
        if gain <= LEAST_GAIN * abs(value):
            break
    return x


def _inverse_hessian(gradient: Floats, moves: list[Floats], turns: list[Floats]) -> Floats:
    """Multiply a gradient by the inverse Hessian that the last steps tell."""
    product, shares = gradient.copy(), list[float]()
    for move, turn in zip(reversed(moves), reversed(turns), strict=True):
        shares.append(float(move @ product) / float(move @ turn))
        product -= shares[-1] * turn
    if moves:
        product *= float(moves[-1] @ turns[-1]) / float(turns[-1] @ turns[-1])
    for move, turn, share in zip(moves, turns, reversed(shares), strict=True):
        product += (share - float(turn @ product) / float(move @ turn)) * move
    return product


def _loss(answers: Answers, log_odds: Floats) -> tuple[float, Floats]:
    """Minus the log-likelihood of answers, and its gradient by the log odds of the pairs, eq. (74)."""
    shares = 0.5 * (1.0 + np.tanh(0.5 * log_odds))
    certainties = 2.0 * answers.accuracies - 1.0
    agreements = np.where(answers.signs > 0.0, shares, 1.0 - shares)
    likelihoods = np.maximum(1.0 - answers.accuracies + certainties * agreements, 1e-12)
    slopes = -answers.weights * answers.signs * certainties * shares * (1.0 - shares) / likelihoods
    return -float(answers.weights @ np.log(likelihoods)), slopes


def pair_squares(X: Floats, pairs: NDArray[np.int64]) -> Floats:
    """Return the squared distance of the two rows of each pair."""
    squares, step = np.empty(len(pairs)), max(AT_ONCE // X.shape[1], 1)
    for start in range(0, len(pairs), step):
        i, j = pairs[start : start + step].T
        squares[start : start + step] = np.square(X[i] - X[j]).sum(axis=1)
    return squares


def logistic(squares: Floats, answers: Answers) -> Logistic:
    """Fit how squared distance predicts answers; the slope is not below 0."""
    unit = max(float(np.average(squares, weights=answers.weights)), np.finfo(float).tiny)

    def loss(x: Floats) -> tuple[float, Floats]:
        slope = np.exp(min(x[1], LARGEST_LOG))
        value, by_odds = _loss(answers, x[0] - slope * squares / unit)
        by_slope = -slope * float(by_odds @ squares) / unit
        return value + 1e-3 * float(x @ x), np.array([by_odds.sum(), by_slope]) + 2e-3 * x

    intercept, slope = minimise(loss, np.zeros(2))
    return Logistic(float(intercept), float(np.exp(slope)) / unit)


def full_metric(X: Floats, answers: Answers) -> Floats:
    """Return directions L whose squared distance predicts the answers best, shrunk to the identity.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    answers : Answers
        Answers about pairs of rows.

    Returns
    -------
    ndarray of shape (n_features, n_features)
    """
    n_features, answers = X.shape[1], _sample(answers)
    differences = _differences(X, answers)
    start = logistic(np.square(differences).sum(axis=1), answers)
    # products of single precision take half of the time; the search has a coarser tolerance
    differences = differences.astype(np.float32)

    def loss(x: Floats) -> tuple[float, Floats]:
        axes = x[1:].reshape(n_features, n_features)
        rows = differences @ axes.astype(np.float32)
        squares = np.einsum("nd,nd->n", rows, rows).astype(np.float64)
        value, by_odds = _loss(answers, x[0] - start.slope * squares)
        excess = axes - np.eye(n_features)
        rows *= (-2.0 * start.slope * by_odds)[:, None].astype(np.float32)
        by_axes = differences.T @ rows + 2.0 * SHRINKAGE * excess
        gradient = np.append(by_odds.sum(), by_axes)
        return value + SHRINKAGE * float(np.square(excess).sum()), gradient

    x = np.append(start.intercept, np.eye(n_features))
    return minimise(loss, x)[1:].reshape(n_features, n_features)


def diagonal_metric(X: Floats, answers: Answers) -> Floats:
    """Return axes as `full_metric` does, from weights of the features alone, shrunk to their mean."""
    answers = _sample(answers)
    squared = _differences(X, answers)
    squared *= squared
    start = logistic(squared.sum(axis=1), answers)

    def loss(x: Floats) -> tuple[float, Floats]:
        weights = np.exp(np.minimum(x[1:], LARGEST_LOG))
        value, by_odds = _loss(answers, x[0] - squared @ weights)
        excess = x[1:] - x[1:].mean()
        gradient = np.append(by_odds.sum(), -weights * (by_odds @ squared) + 2.0 * WEIGHT_SHRINKAGE * excess)
        return value + WEIGHT_SHRINKAGE * float(excess @ excess), gradient

    x = np.append(start.intercept, np.full(X.shape[1], np.log(start.slope)))
    logs = minimise(loss, x)[1:]
    return np.diag(np.exp(0.5 * (logs - logs.mean())))


def _sample(answers: Answers) -> Answers:
    """Return every so many of the answers, `MOST_PAIRS` at most."""
    return answers.select(np.arange(len(answers.signs))[:: max(1, -(-len(answers.signs) // MOST_PAIRS))])


def _differences(X: Floats, answers: Answers) -> Floats:
    """Return the difference of each pair, in a unit of which two rows are √2 apart on average."""
    unit = np.sqrt(max(float(X.var(axis=0).sum()), np.finfo(float).tiny))
    differences = X[answers.pairs[:, 0]]
    differences -= X[answers.pairs[:, 1]]
    differences /= unit
    return differences
