"""Questions of a strategy without those that were asked before."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from pipeline.asking.belief import Belief
from pipeline.asking.pool import Pairs
from pipeline.asking.scored import Scored
from pipeline.asking.strategies import STRATEGIES

REPEATING = frozenset({"again"})
"""Strategies that may ask what has been answered before."""

Pair = tuple[int, int]


def choose(
    belief: Belief,
    answers: Pairs,
    *,
    strategy: str,
    count: int,
    seed: np.random.SeedSequence,
    left_out: Set[Pair] = frozenset(),
) -> Scored:
    """Choose pairs, best first, none twice, and none that has been answered.

    Who is asked the same twice says the same twice, which is no second opinion: an answered pair comes again
    by strategies of `REPEATING` alone.

    Parameters
    ----------
    belief : Belief
        Given all answers.
    answers : ndarray of shape (n_answers, 3)
        Columns i, j, kind.
    strategy : str
        One of `STRATEGIES`.
    count : int
        Pairs wanted.
    seed : numpy.random.SeedSequence
        Of all randomness; it is not changed.
    left_out : set of (int, int)
        Other pairs that are not to be asked, the lower sample first.

    Returns
    -------
    Scored
        Fewer than wanted if no other pair is left.
    """
    not_again = set(left_out)
    if strategy not in REPEATING:
        not_again |= set(map(tuple, np.sort(answers[:, :2], axis=1).tolist()))
    wanted = count
    while True:
        found = STRATEGIES[strategy](belief, answers, wanted, np.random.default_rng(seed))
        kept = [place for place, pair in enumerate(found.pairs.tolist()) if tuple(pair) not in not_again]
        if len(kept) >= count or len(found.pairs) < wanted:
            kept = kept[:count]
            return Scored(found.pairs[kept].reshape(-1, 2), found.scores[kept])
        wanted = 2 * wanted + (count - len(kept))
