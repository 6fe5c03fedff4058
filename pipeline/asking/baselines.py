"""Strategies that others have used, to be measured against: far samples, and a committee that disagrees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.problem.problem import MUST, build_problem, layers_from_annotations
from kernels.search.genetic import run_restart
from pipeline.asking.belief import ASKING, Belief, model_for
from pipeline.asking.pool import Pairs, distinct, draw_pool
from pipeline.asking.scored import Scored, entropy, scored
from pipeline.methods.shipped.links import must_components

MEMBERS = 5
"""Of the committee."""


def farthest_first(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The samples farthest from all that were asked, each against its nearest sample of every known group.

    After the "min-max" queries for constrained k-means (Mallapragada, Jin and Jain, 2008), for batches: the
    groups are what must-links join, and a sample is asked against at most K of them, the nearest first.
    """
    X, n_samples = belief.X, len(belief.X)
    groups = must_components(n_samples, answers[answers[:, 2] == MUST, :2].astype(np.int64))
    asked = [int(i) for i in np.unique(answers[:, :2])] or [int(rng.integers(n_samples))]
    nearest = np.full(n_samples, np.inf)
    for sample in asked:
        nearest = np.minimum(nearest, _squared_distances(X, sample))
    found: list[tuple[int, int]] = []
    while len(found) < count and len(asked) < n_samples:
        nearest[asked] = -1.0
        sample = int(nearest.argmax())
        distances = _squared_distances(X, sample)
        order = np.array(asked)[np.argsort(distances[asked], kind="stable")]
        _, first = np.unique(groups[order], return_index=True)
        found += [(sample, int(other)) for other in order[np.sort(first)][: belief.n_clusters]]
        asked.append(sample)
        nearest = np.minimum(nearest, distances)
    pairs = distinct(np.array(found, dtype=np.int64))[:count]
    if len(pairs) < count:  # every sample was asked: any pairs
        rest = draw_pool(belief, answers, rng)
        pairs = distinct(np.concatenate([pairs, rest]))[:count]
    return scored(belief, pairs)


def committee(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The pairs on which fits to resampled answers are most divided (query by bagging).

    Every member is fitted to as many answers, drawn with replacement, by one restart of the search. Ties are
    broken at random.
    """
    members = []
    for _ in range(MEMBERS):
        drawn = answers[rng.integers(0, len(answers), size=len(answers))] if len(answers) else answers
        layers = layers_from_annotations(drawn, belief.accuracy) if len(drawn) else []
        problem = build_problem(
            belief.X,
            layers,
            n_clusters=belief.n_clusters,
            model=model_for(layers),
            covariance=belief.covariance,
            settings=ASKING,
        )
        members.append(run_restart(problem, ASKING, rng).labels)
    pairs = draw_pool(belief, answers, rng)
    votes = np.array([labels[pairs[:, 0]] == labels[pairs[:, 1]] for labels in members]).mean(axis=0)
    best = np.argsort(-entropy(votes), kind="stable")[:count]
    return scored(belief, pairs[best])


def _squared_distances(X: NDArray[np.float64], sample: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.square(X - X[sample]).sum(axis=1)
    return found
