"""The next questions: chosen by a strategy, without those asked before, and what each would settle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.asking.belief import Belief
from pipeline.asking.unasked import Pair, choose
from pipeline.fit.inputs import answered
from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.files import Annotation, Row, Samples, Skip

SOON = 100
"""A pair that was skipped is not asked again before so many further answers."""

SURE = 0.95
"""Share of the draws from which on a sample counts as in a cluster."""

SLIGHT = 0.05
"""Share of the draws below which a cluster is not named."""

NAMED = 3
"""Clusters that are named of one sample, at most."""


@dataclass(frozen=True)
class Question:
    """A pair to ask about.

    Parameters
    ----------
    first, second : int
        The two samples, from 0.
    together : float
        Probability that they belong together, given the model.
    information : float
        Score by the measure of the strategy, in nats.
    settles : str
        What the answer would settle, in words; samples and clusters count from 1.
    """

    first: int
    second: int
    together: float
    information: float
    settles: str


def next_questions(
    belief: Belief,
    rows: Sequence[Row],
    *,
    strategy: str,
    count: int,
    seed: np.random.SeedSequence,
    samples: Samples | None = None,
) -> list[Question]:
    """Choose the next questions, best first, no pair twice.

    A pair that has been answered is not among them, but for the strategies of
    `pipeline.asking.unasked.REPEATING`; neither is one that was skipped, before `SOON` further answers.

    Parameters
    ----------
    belief : Belief
        Given all answers.
    rows : sequence of Annotation or Skip
        Answers and skipped pairs so far, in the order of answering.
    strategy : str
        One of `pipeline.asking.names.NAMES`.
    count : int
        Questions wanted.
    seed : numpy.random.SeedSequence
        Of all randomness; it is not changed.
    samples : Samples, optional
        What samples are called; by their numbers from 1 without it.

    Returns
    -------
    list of Question
        Fewer than wanted if no other pair is left.
    """
    answers = answered(rows)
    table = np.array([(each.first, each.second, each.kind) for each in answers], dtype=np.int32)
    chosen = choose(
        belief,
        table.reshape(-1, 3),
        strategy=strategy,
        count=count,
        seed=seed,
        left_out=skipped_lately(rows),
    )
    together = belief.together(chosen.pairs).tolist()
    told = _Telling(belief, Counter((pair_of(each), each.kind) for each in answers), samples)
    return [
        Question(i, j, share, score, told.settles(i, j))
        for (i, j), share, score in zip(chosen.pairs.tolist(), together, chosen.scores.tolist(), strict=True)
    ]


def pair_of(row: Row) -> Pair:
    """The two samples, the lower one first."""
    return min(row.first, row.second), max(row.first, row.second)


def skipped_lately(rows: Sequence[Row]) -> set[Pair]:
    """Pairs that were skipped fewer than `SOON` answers ago."""
    found: set[Pair] = set()
    later = 0
    for row in reversed(rows):
        if isinstance(row, Annotation):
            later += 1
        elif later < SOON and isinstance(row, Skip):
            found.add(pair_of(row))
    return found


class _Telling:
    """Says in words what an answer would settle."""

    def __init__(self, belief: Belief, asked: Counter[tuple[Pair, int]], samples: Samples | None) -> None:
        self.membership: NDArray[np.float64] = belief.membership
        self.asked = asked
        self.samples = samples

    def name(self, sample: int) -> str:
        return str(sample + 1) if self.samples is None else self.samples.text(sample)

    def settles(self, first: int, second: int) -> str:
        places = self._places(first), self._places(second)
        if all(len(each) == 1 for each in places):
            (a,), (b,) = places
            text = (
                f"a check: both are in {a}"
                if a == b
                else f"a check: {self.name(first)} is in {a}, {self.name(second)} in {b}"
            )
        else:
            text = "; ".join(map(self._sample, (first, second), places))
        yes, no = (self.asked[(first, second), kind] for kind in (MUST, CANNOT))
        return f"{text}; asked before: {yes} yes, {no} no" if yes or no else text

    def _places(self, sample: int) -> list[str]:
        """Clusters that the sample may be in, the likeliest first; a single one without its share."""
        shares = self.membership[sample]
        order = np.argsort(-shares, kind="stable")[:NAMED]
        if shares[order[0]] >= SURE:
            return [str(order[0] + 1)]
        return [f"{k + 1} ({shares[k]:.0%})" for k in order if shares[k] >= SLIGHT]

    def _sample(self, sample: int, places: list[str]) -> str:
        where = f"is in {places[0]}" if len(places) == 1 else f"in {' or '.join(places)}"
        return f"{self.name(sample)} {where}"
