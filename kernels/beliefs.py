"""Classes of annotated rows, given the features: one row at a time, and all rows together by messages.

Changing one row at a time raises the bound, but ends where linked rows would have to change together: with
few right answers a row, many rows are on the wrong side of their links. `escape` starts once more from the
beliefs of loopy belief propagation, which is exact where links form no cycle, and keeps the better partition
by the same bound (docs/model.md, section 12).
"""

import math

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.interrupt import Flag, new_flag
from sweep_clustering.kernels.jit import by_pointer, jit, jit_inner
from sweep_clustering.kernels.problem.data import Floats, Ways

# Passes over the rows of answers: those of messages, and those that change one row at a time.
MESSAGE_PASSES = 50
PASSES = 5

# Largest change of a message that ends the passes.
TOLERANCE = 1e-2

# Reach of the answers, below which chains of answers carry nothing far, and a fit is left as it is.
LEAST_REACH = 0.75

# Share of the annotated rows whose largest class must differ, or a fit is left as it is.
LEAST_OTHERS = 0.03

# Largest log odds, nats: messages of more would be as good as 0.
SUREST = 20.0

# Factors of a product after which it is brought back to 1.
FACTORS = 12

# Most numbers in all messages, 80 MB: with more, rows are changed one at a time alone.
MOST_MESSAGES = 10_000_000


by_pointer(Ways)


def settle(logs: Floats, ways: Ways, odds: Floats, classes: Floats) -> None:
    """Change the shares of rows with answers, one row at a time, until they agree with the features.

    Parameters
    ----------
    logs : ndarray of shape (n_samples, n_classes)
        Log-density of each class in each row with its weight, nats, up to a constant for each row.
    ways : Ways
        Annotated pairs.
    odds : ndarray of shape (n_pairs,)
        Gain in log-likelihood, nats, if the rows of a pair are of one class.
    classes : ndarray of shape (n_samples, n_classes)
        Share of each class in each row; changed in place, for rows that have pairs.
    """
    _settle(logs, ways, odds, classes, np.empty(logs.shape[1]), new_flag())


def propagate(logs: Floats, ways: Ways, odds: Floats) -> Floats:
    """Return the share of each class in each row by belief propagation: exact where pairs form no cycle.

    Parameters are those of `settle`.
    """
    n_ways, n_classes = len(ways.partners), logs.shape[1]
    reverse, first = np.empty(n_ways, np.int32), np.full(len(odds), -1, np.int32)
    messages, work = np.ones((n_ways, n_classes)), np.empty(n_classes)
    classes, features = np.empty_like(logs), np.empty_like(logs)
    _propagate(logs, ways, reverse, first, gains(odds), messages, classes, features, work, new_flag())
    return classes


def escape(logs: Floats, ways: Ways, odds: Floats, classes: Floats) -> float:
    """Replace the classes of annotated rows by those from belief propagation if their bound is higher.

    Parameters are those of `settle`. Returns the gain in nats, or 0.
    """
    is_annotated, n_classes = np.diff(ways.row_start) > 0, logs.shape[1]
    if reach(odds, n_classes, int(is_annotated.sum())) < LEAST_REACH:
        return 0.0
    if len(ways.partners) * n_classes > MOST_MESSAGES:
        return 0.0
    new_classes = propagate(logs, ways, odds)
    is_different = is_annotated & (new_classes.argmax(axis=1) != classes.argmax(axis=1))
    if is_different.sum() < LEAST_OTHERS * is_annotated.sum():
        return 0.0
    settle(logs, ways, odds, new_classes)
    gain = bound_of_rows(logs, ways, odds, new_classes) - bound_of_rows(logs, ways, odds, classes)
    if not gain > 0.0:  # not a number if a density is none
        return 0.0
    classes[is_annotated] = new_classes[is_annotated]
    return gain


def reach(odds: Floats, n_classes: int, n_rows: int) -> float:
    """Return the mean over rows of the sum of λ² over the answers of a row.

    A pair passes the share λ = (e^odds - 1) / (e^odds - 1 + K) of the knowledge of one row on to the other.
    Random links carry it far if this sum is above 1, or less where features help.
    """
    factors = gains(odds)
    return 2.0 * float(np.square(factors / (factors + n_classes)).sum()) / max(n_rows, 1)


def gains(odds: Floats) -> Floats:
    """Return exp(odds) - 1 of each pair, within limits."""
    return np.asarray(np.expm1(np.clip(odds, -SUREST, SUREST)))


def bound_of_rows(logs: Floats, ways: Ways, odds: Floats, classes: Floats) -> float:
    """Return what the classes of annotated rows add to the bound, nats; parameters are those of `settle`."""
    return float(_bound(logs, ways, odds, classes))


@jit
def _settle(logs: Floats, ways: Ways, odds: Floats, classes: Floats, field: Floats, stop: Flag) -> None:
    """Set the shares of rows with answers, one row at a time, given those of all others."""
    for _ in range(PASSES):
        for row in range(len(logs)):
            if stop[0] != 0:
                return
            if ways.row_start[row] == ways.row_start[row + 1]:
                continue
            for c in range(len(field)):
                field[c] = logs[row, c]
            for place in range(ways.row_start[row], ways.row_start[row + 1]):
                gain, shares = odds[ways.entries[place]], classes[ways.partners[place]]
                for c in range(len(field)):
                    field[c] += gain * shares[c]
            normalise(field, classes[row])


@jit_inner
def normalise(logs: Floats, shares: Floats) -> None:
    """Set shares whose logarithms are these, up to a constant."""
    largest, total = logs[0], 0.0
    for c in range(len(logs)):
        largest = max(largest, logs[c])
    for c in range(len(logs)):
        shares[c] = math.exp(logs[c] - largest)
        total += shares[c]
    for c in range(len(logs)):
        shares[c] /= total


@jit
def _propagate(
    logs: Floats,
    ways: Ways,
    reverse: NDArray[np.int32],
    first: NDArray[np.int32],
    factors: Floats,
    messages: Floats,
    classes: Floats,
    features: Floats,
    cavity: Floats,
    stop: Flag,
) -> None:
    """Set the classes of all rows to their beliefs.

    The message of a pair to a row says for each class how much likelier its answer is, in units of the mean
    over classes: with `factors`, exp(odds) - 1, and the shares of the other row without this pair, it is 1 +
    factor × share.
    """
    n_classes = logs.shape[1]
    for place in range(len(ways.entries)):
        other = first[ways.entries[place]]
        if other < 0:
            first[ways.entries[place]] = place
        else:
            reverse[place], reverse[other] = other, place
    for row in range(len(logs)):  # all rows have beliefs, also if the first pass is interrupted
        normalise(logs[row], features[row])
        for c in range(n_classes):
            classes[row, c] = features[row, c]
    for _ in range(MESSAGE_PASSES):
        change = 0.0
        for row in range(len(logs)):
            if stop[0] != 0:
                return
            belief, begin, end = classes[row], ways.row_start[row], ways.row_start[row + 1]
            for c in range(n_classes):
                belief[c] = features[row, c]
            for place in range(begin, end):
                for c in range(n_classes):
                    belief[c] *= messages[place, c]
                if (place - begin) % FACTORS == FACTORS - 1 or place == end - 1:
                    scale(belief, 1.0)
            for place in range(begin, end):
                for c in range(n_classes):
                    cavity[c] = belief[c] / messages[place, c]
                scale(cavity, 1.0)
                for c in range(n_classes):
                    cavity[c] = 1.0 + factors[ways.entries[place]] * cavity[c]
                scale(cavity, float(n_classes))
                target = reverse[place]
                for c in range(n_classes):
                    change = max(change, abs(cavity[c] - messages[target, c]))
                    messages[target, c] = cavity[c]
        if change < TOLERANCE:
            return


@jit_inner
def scale(values: Floats, total: float) -> None:
    """Scale values to a total; all are equal afterwards if they were 0."""
    old_total = 0.0
    for c in range(len(values)):
        old_total += values[c]
    for c in range(len(values)):
        values[c] = values[c] * (total / old_total) if old_total > 0.0 else total / len(values)


@jit
def _bound(logs: Floats, ways: Ways, odds: Floats, classes: Floats) -> float:
    """Return what the classes of rows with answers add to the bound, nats."""
    bound = 0.0
    for row in range(len(logs)):
        if ways.row_start[row] == ways.row_start[row + 1]:
            continue
        for c in range(logs.shape[1]):
            share = classes[row, c]
            if share > 0.0:
                field = logs[row, c] - math.log(share)
                for place in range(ways.row_start[row], ways.row_start[row + 1]):
                    # a pair counts with both of its rows
                    field += 0.5 * odds[ways.entries[place]] * classes[ways.partners[place], c]
                bound += share * field
    return bound
