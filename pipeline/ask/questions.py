"""The next questions, what each would settle, and about how many are left.

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
from sweep_clustering.pipeline.fit.inputs import answered
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.annotations.rows import Annotation, Row, Skip
from sweep_clustering.sweeps.annotations.samples import Samples

# How many questions are left until a share of the labels is right: a simulation under the model.

# Courses of answers that are simulated.
RUNS = 20

# The figures reach from the short end of the courses, by this factor down, to the long end, by it up.
# Samples that depend on each other need fewer questions, and a model that is wrong more than it thinks.
SPREAD = 2.0

# With fewer, what is said comes from the features alone, which do not tell how wrong the model is.
LEAST_ANSWERS = 10

# A course ends after so many questions for each sample.
LONGEST = 20

# The most doubtful samples are asked about in one round: one of so many that are doubtful.
ROUNDS = 8

# But of all samples at least one of so many: large tables take no longer for what is a guess.
LEAST_ROUND = 500


class Outlook(NamedTuple):
    """Questions left.

    Parameters
    ----------
    low, high : int or None
        Between which they are likely to be; None if that cannot be said.
    reason : str
        Why it cannot be said, else empty.
    """

    low: int | None
    high: int | None
    reason: str = ""


def questions_left(belief: Belief, level: float, n_answers: int, seed: np.random.SeedSequence) -> Outlook:
    """Simulate answers until the expected share of right labels passes a level.

    The truth of each course is drawn from the memberships, each sample on its own. A question asks whether
    the most doubtful sample is in its likeliest cluster, an annotator of the belief's accuracy answers, and
    the memberships of that sample follow by Bayes' rule. The course ends when the doubt, the mean over
    samples of 1 less the largest membership, has fallen to the part of it that the level leaves. The figures
    are quantiles of `RUNS` courses at 0.05 and 0.95, widened by `SPREAD`.

    Parameters
    ----------
    belief : Belief
        Given all answers.
    level : float
        Share of the labels that is wanted, in (0, 1).
    n_answers : int
        Answers the belief stands on.
    seed : numpy.random.SeedSequence
        Of all randomness; it is not changed.
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
    # the claim of wrong labels at which the level is passed, as a part of the one there is
    part = brentq(lambda share: right_at(share).mean - level, 0.0, claimed) / claimed
    courses = [_course(belief, part, rng) for _ in range(RUNS)]
    if max(courses) >= LONGEST * n_samples:
        return Outlook(None, None, f"more than {LONGEST} for each row")
    low, high = np.quantile(courses, [0.05, 0.95])
    return Outlook(max(1, int(low / SPREAD)), max(1, int(np.ceil(high * SPREAD))))


def _course(belief: Belief, part: float, rng: np.random.Generator) -> int:
    """Questions of one simulated course, until no more than a part of the doubt is left."""
    # no membership is quite 0, so that no answer is impossible
    n_draws, n_samples = len(belief.draws), len(belief.X)
    shares = (belief.membership * n_draws + 0.5 / belief.n_clusters) / (n_draws + 0.5)
    truth = (shares.cumsum(axis=1) > rng.random((n_samples, 1))).argmax(axis=1)
    enough = part * float((1.0 - shares.max(axis=1)).sum())
    asked = 0
    while asked < LONGEST * n_samples:
        doubt = 1.0 - shares.max(axis=1)
        if doubt.sum() <= enough:
            break
        count = max(1, n_samples // LEAST_ROUND, int((doubt > 0.5 * doubt.max()).sum()) // ROUNDS)
        samples = np.argpartition(-doubt, count - 1)[:count]
        # each is asked whether it is in its likeliest cluster, and its shares change by the answer
        likeliest = shares[samples].argmax(axis=1)
        is_yes = (likeliest == truth[samples]) == (rng.random(count) < belief.accuracy)
        likely = np.where(is_yes, belief.accuracy, 1.0 - belief.accuracy)
        factors = np.repeat(1.0 - likely[:, None], belief.n_clusters, axis=1)
        factors[np.arange(count), likeliest] = likely
        changed = shares[samples] * factors
        shares[samples] = changed / changed.sum(axis=1, keepdims=True)
        asked += count
    return asked


# A pair that was skipped is not asked again before so many further answers.
SOON = 100

# Share of the draws from which on a sample counts as in a cluster.
SURE = 0.95

# Share of the draws below which a cluster is not named.
SLIGHT = 0.05

# Clusters that are named of one sample, at most.
NAMED = 3


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
        What the answer would settle, in words; clusters count from 1.
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
    samples: Samples,
) -> list[Question]:
    """Choose the next questions, best first, no pair twice.

    A pair that has been answered is not among them, but for the strategy "again"; neither is one that was
    skipped, before `SOON` further answers.

    Parameters
    ----------
    belief : Belief
        Given all answers.
    rows : sequence of Annotation or Skip
        Answers and skipped pairs so far, in the order of answering.
    strategy : str
        One of `sweeps.words.STRATEGIES`.
    count : int
        Questions wanted.
    seed : numpy.random.SeedSequence
        Of all randomness; it is not changed.
    samples : Samples
        What samples are called.

    Returns
    -------
    list of Question
        Fewer than wanted if no other pair is left.
    """
    answers = answered(rows)
    table = np.array([(each.first, each.second, each.kind) for each in answers], dtype=np.int32)
    left_out, table = skipped_lately(rows), table.reshape(-1, 3)
    pairs, scores = choose(belief, table, strategy=strategy, count=count, seed=seed, left_out=left_out)
    asked = Counter((pair_of(each), each.kind) for each in answers)
    questions = []
    for (i, j), share, score in zip(pairs.tolist(), belief.together(pairs), scores, strict=True):
        settles = _settles([(samples.text(sample), _clusters(belief, sample)) for sample in (i, j)])
        yes, no = (asked[(i, j), kind] for kind in (MUST, CANNOT))
        before = f"; asked before: {yes} yes, {no} no" if yes or no else ""
        questions.append(Question(i, j, float(share), float(score), settles + before))
    return questions


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


def _settles(pair: Sequence[tuple[str, list[str]]]) -> str:
    """What an answer would settle, in words, of the names of two samples and the clusters they may be in."""
    words = [f"{name} {'in' if more else 'is in'} {' or '.join([k, *more])}" for name, (k, *more) in pair]
    is_check = all(len(found) == 1 for _, found in pair)
    return f"{'a check: ' if is_check else ''}{'; '.join(words)}"


def _clusters(belief: Belief, sample: int) -> list[str]:
    """Clusters that a sample may be in, the likeliest first; a single one without its share."""
    shares = (belief.draws[:, sample, None] == np.arange(belief.n_clusters)).mean(axis=0)
    order = np.argsort(-shares, kind="stable")[:NAMED]
    if shares[order[0]] >= SURE:
        return [str(order[0] + 1)]
    return [f"{k + 1} ({shares[k]:.0%})" for k in order if shares[k] >= SLIGHT]
