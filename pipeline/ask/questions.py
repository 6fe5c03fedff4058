"""The next questions, the clusters between which each decides, and how many questions are left.

`next_questions` chooses by a strategy, without pairs asked before; `questions_left` simulates answers until a
share of the labels is right.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from sweep_clustering.pipeline.asking.belief import Belief, share_at
from sweep_clustering.pipeline.asking.strategies import Pair, choose
from sweep_clustering.pipeline.fit.inputs import annotations_of
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.rows import Annotation, Row, Samples, Skip

# Number of courses of answers that are simulated to estimate how many questions are left.
RUNS = 20

# The estimate reaches from the shortest courses divided by this factor to the longest ones multiplied by it:
# samples that depend on each other need fewer questions, and a model that is wrong more than it claims.
SPREAD = 2.0

# With fewer answers the estimate rests on the features alone, which do not show how wrong the model is.
LEAST_ANSWERS = 10

# A course ends after so many questions for each sample.
LONGEST = 20

# One round asks about one of so many doubtful samples, the most doubtful ones.
ROUNDS = 8

# It asks about at least one of so many of all samples, so that large tables take no longer.
LEAST_ROUND = 500

# Number of further answers before a skipped pair is asked again.
ANSWERS_BEFORE_REPEAT = 100

# Share of the draws from which on a sample counts as in a cluster.
SURE_SHARE = 0.95

# Share of the draws below which a cluster is not named.
SLIGHT_SHARE = 0.05

Seed = np.random.SeedSequence

# Most clusters that are named for one sample.
MOST_CLUSTERS = 3


class Outlook(NamedTuple):
    """Likely range of the number of questions left, or the reason why it is not known."""

    low: int | None
    high: int | None
    reason: str = ""


def questions_left(belief: Belief, level: float, n_answers: int, seed: Seed) -> Outlook:
    """Simulate answers until the expected share of right labels passes a level.

    The truth of each course is drawn from the memberships, each sample on its own. A question asks whether
    the most doubtful sample is in its likeliest cluster, an annotator of the belief's accuracy answers, and
    the memberships of that sample follow by Bayes' rule. The course ends when the doubt, the mean over
    samples of 1 less the largest membership, has fallen to the share of it that the level allows. The result
    has the quantiles of `RUNS` courses at 0.05 and 0.95, widened by `SPREAD`.
    """
    claimed, n_samples = belief.claimed_wrong, len(belief.X)
    right_at = partial(share_at, n_samples=n_samples, lines=belief.lines)
    if right_at(claimed).mean >= level:
        return Outlook(0, 0)
    if right_at(0.0).mean < level:
        return Outlook(None, None, f"{n_samples} rows never pass it: some doubt always stays")
    if n_answers < LEAST_ANSWERS:
        return Outlook(None, None, f"it cannot be estimated before {LEAST_ANSWERS} answers")
    rng = np.random.default_rng(seed)
    # the claim of wrong labels at which the level is passed, as a part of the present one
    doubt_share = brentq(lambda share: right_at(share).mean - level, 0.0, claimed) / claimed
    courses = [_course(belief, doubt_share, rng) for _ in range(RUNS)]
    if max(courses) >= LONGEST * n_samples:
        return Outlook(None, None, f"more than {LONGEST} for each row")
    low, high = np.quantile(courses, [0.05, 0.95])
    return Outlook(max(1, int(low / SPREAD)), max(1, int(np.ceil(high * SPREAD))))


def _course(belief: Belief, part: float, rng: np.random.Generator) -> int:
    """Return the number of questions of a simulated course, until no more than a part of the doubt is
    left.
    """
    # no membership is 0, so that no answer is impossible
    n_draws, n_samples = len(belief.draws), len(belief.X)
    shares = (belief.membership * n_draws + 0.5 / belief.n_clusters) / (n_draws + 0.5)
    truth = (shares.cumsum(axis=1) > rng.random((n_samples, 1))).argmax(axis=1)
    least_doubt = part * float((1.0 - shares.max(axis=1)).sum())
    n_questions = 0
    while n_questions < LONGEST * n_samples:
        doubt = 1.0 - shares.max(axis=1)
        if doubt.sum() <= least_doubt:
            break
        count = max(1, n_samples // LEAST_ROUND, int((doubt > 0.5 * doubt.max()).sum()) // ROUNDS)
        samples = np.argpartition(-doubt, count - 1)[:count]
        # the question is whether the sample is in its likeliest cluster, and its shares follow the answer
        likeliest = shares[samples].argmax(axis=1)
        is_yes = (likeliest == truth[samples]) == (rng.random(count) < belief.accuracy)
        likelihood = np.where(is_yes, belief.accuracy, 1.0 - belief.accuracy)
        factors = np.repeat(1.0 - likelihood[:, None], belief.n_clusters, axis=1)
        factors[np.arange(count), likeliest] = likelihood
        posterior = shares[samples] * factors
        shares[samples] = posterior / posterior.sum(axis=1, keepdims=True)
        n_questions += count
    return n_questions


@dataclass(frozen=True)
class Question:
    """A pair to ask about."""

    # The two samples, from 0.
    first: int
    second: int
    # The probability that they belong together, under the model.
    probability: float
    # The score by the measure of the strategy, in nats.
    information: float
    # The clusters between which the answer decides, in words; clusters count from 0.
    settles: str


def next_questions(
    belief: Belief, rows: Sequence[Row], *, strategy: str | None, count: int, seed: Seed, samples: Samples
) -> list[Question]:
    """Choose the next questions, best first, no pair twice; there are fewer if no other pair is left.

    A pair that has been answered is not among them, except for the strategy "again"; neither is one that was
    skipped, before `ANSWERS_BEFORE_REPEAT` further answers. The rows are in the order of answering, and the
    seed is not modified.
    """
    answers = annotations_of(rows)
    table = np.array([(row.first, row.second, row.kind) for row in answers], dtype=np.int32).reshape(-1, 3)
    skipped_pairs = recent_skips(rows)
    pairs, scores = choose(belief, table, strategy=strategy, count=count, seed=seed, left_out=skipped_pairs)
    counts = Counter((pair_of(row), row.kind) for row in answers)
    questions = []
    for (i, j), share, score in zip(pairs.tolist(), belief.share_together(pairs), scores, strict=True):
        settles = _settles([(samples.text(sample), _clusters(belief, sample)) for sample in (i, j)])
        yes, no = (counts[(i, j), kind] for kind in (MUST, CANNOT))
        history = f"; asked before: {yes} yes, {no} no" if yes or no else ""
        questions.append(Question(i, j, float(share), float(score), settles + history))
    return questions


def pair_of(row: Row) -> Pair:
    """Return the two samples of a row, the lower one first."""
    return min(row.first, row.second), max(row.first, row.second)


def recent_skips(rows: Sequence[Row]) -> set[Pair]:
    """Return the pairs that were skipped fewer than `ANSWERS_BEFORE_REPEAT` answers ago."""
    pairs: set[Pair] = set()
    n_later = 0
    for row in reversed(rows):
        if isinstance(row, Annotation):
            n_later += 1
        elif n_later < ANSWERS_BEFORE_REPEAT and isinstance(row, Skip):
            pairs.add(pair_of(row))
    return pairs


def _settles(samples: Sequence[tuple[str, list[str]]]) -> str:
    """Return in words between which clusters the answer on two samples decides, from their names and
    clusters.
    """
    words = [
        f"{name} {'in' if other_clusters else 'is in'} {' or '.join([cluster, *other_clusters])}"
        for name, (cluster, *other_clusters) in samples
    ]
    is_check = all(len(clusters) == 1 for _, clusters in samples)
    return f"{'a check: ' if is_check else ''}{'; '.join(words)}"


def _clusters(belief: Belief, sample: int) -> list[str]:
    """Return the clusters that a sample may be in, the likeliest first; a single one without its share."""
    shares = (belief.draws[:, sample, None] == np.arange(belief.n_clusters)).mean(axis=0)
    order = np.argsort(-shares, kind="stable")[:MOST_CLUSTERS]
    if shares[order[0]] >= SURE_SHARE:
        return [str(order[0])]
    return [f"{k} ({shares[k]:.0%})" for k in order if shares[k] >= SLIGHT_SHARE]
