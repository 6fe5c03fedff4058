"""Strategies: from a belief and the answers so far to the pairs to ask next, best first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeline.asking.baselines import committee, farthest_first
from pipeline.asking.belief import Belief
from pipeline.asking.cold import cold_start
from pipeline.asking.pool import Pairs, all_pairs, distinct, draw_pool
from pipeline.asking.scored import Scored, answer_information, scored

LEAST_NOISE = 1e-3
"""Variance of an answer that never errs: draws are too few to know that a pair is certain."""

WIDEST = 10_000
"""Pairs of the largest variance, among which the greedy choice is made: what it costs grows with them."""

ANCHORS = 5
"""Sure samples of each cluster that doubtful ones are asked against, in turn."""


Strategy = Callable[[Belief, Pairs, int, np.random.Generator], Scored]
"""From a belief, the annotations so far (columns i, j, kind), how many pairs, and a random stream."""


def uniform(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """Any pairs: what all others are measured against."""
    n_samples = len(belief.X)
    if n_samples * (n_samples - 1) // 2 < 8 * count:
        pairs = rng.permutation(all_pairs(n_samples))
    else:
        pairs = distinct(rng.integers(0, n_samples, size=(4 * count + 20, 2)))
    return scored(belief, pairs[:count])


def uncertain(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The pairs whose answers are the hardest to predict, each taken alone."""
    pairs = draw_pool(belief, answers, rng)
    return _best(belief, pairs, count)


def information(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The pairs whose answers tell the most together, one after the other (docs/model.md, section 10).

    What an answer tells depends on the variance, over the draws, of whether the pair is together. Every pair
    taken lowers the variance of those that go with it, as if all were jointly normal, so that the next one
    asks for something else. Without answers it is the cold start.
    """
    if len(answers) == 0:
        return cold_start(belief, count, rng)
    pairs = draw_pool(belief, answers, rng)
    shares = belief.joined(pairs).mean(axis=0)
    widest = np.argsort(-shares * (1.0 - shares), kind="stable")[: max(WIDEST, count)]
    pairs, shares = pairs[widest], shares[widest]
    variance = shares * (1.0 - shares)
    features = (belief.joined(pairs) - shares) / np.sqrt(len(belief.draws))
    noise = answer_noise(belief.accuracy)
    inverse = np.eye(len(features))
    chosen, left = list[int](), list[float]()
    taken = np.zeros(len(pairs), dtype=bool)
    for _ in range(min(count, len(pairs))):
        best = int(np.argmax(np.where(taken, -1.0, variance)))
        chosen.append(best)
        left.append(max(float(variance[best]), 0.0))
        taken[best] = True
        # no matrix products: their last bits depend on the number of threads
        direction = np.einsum("ij,j->i", inverse, features[:, best])
        scale = noise + float(np.einsum("i,i->", features[:, best], direction))
        inverse -= direction[:, None] * direction / scale
        variance -= np.square(np.einsum("i,ij->j", direction, features)) / scale
    return Scored(pairs[chosen], answer_information(np.array(left), belief.accuracy))


def answer_noise(accuracy: float) -> float:
    """Variance of an answer, in units of what it says: p (1 - p) / (2 p - 1)², infinite at p = 1/2."""
    slope = (2.0 * accuracy - 1.0) ** 2
    return max(accuracy * (1.0 - accuracy) / slope, LEAST_NOISE) if slope > 0.0 else np.inf


def anchors(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The most doubtful samples, each against a sure one of the cluster that it is most likely in."""
    membership = belief.membership
    sure = membership.max(axis=1)
    shuffled = rng.permutation(len(sure))
    by_doubt = shuffled[np.argsort(sure[shuffled], kind="stable")]
    by_cluster = membership.argsort(axis=1, kind="stable")[:, ::-1]
    anchors_of = [
        [i for i in by_doubt[::-1] if belief.labels[i] == k][:ANCHORS] for k in range(belief.n_clusters)
    ]
    found = [
        (sample, anchor)
        for rank in range(belief.n_clusters)
        for turn in range(ANCHORS)
        for place, sample in enumerate(by_doubt[: 2 * count])
        for anchor in anchors_of[by_cluster[sample, rank]][(place + turn) % ANCHORS :][:1]
    ]
    return scored(belief, distinct(np.array(found, dtype=np.int64))[:count])


def again(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """Pairs that were asked, those whose answers are in doubt; then, if they are too few, "information"."""
    asked = distinct(answers[:, :2])
    joined = belief.joined(asked)
    doubtful = asked[joined.any(axis=0) & ~joined.all(axis=0)]
    first = _best(belief, doubtful, count)
    if len(first.pairs) == count:
        return first
    rest = information(belief, answers, 2 * count, rng)
    return scored(belief, distinct(np.concatenate([first.pairs, rest.pairs]))[:count])


def _best(belief: Belief, pairs: Pairs, count: int) -> Scored:
    """The pairs that tell the most, each taken alone."""
    all_of_them = scored(belief, pairs)
    best = np.argsort(-all_of_them.scores, kind="stable")[:count]
    return Scored(pairs[best], all_of_them.scores[best])


STRATEGIES: dict[str, Strategy] = {
    "information": information,
    "uncertain": uncertain,
    "anchors": anchors,
    "again": again,
    "farthest-first": farthest_first,
    "committee": committee,
    "uniform": uniform,
}
"""All strategies by name."""
