"""Strategies: from a belief and the answers so far to the pairs to ask next, best first.

`choose` takes pairs of a strategy by name that were not asked before, `next_answers` goes a batch further on
a path of questions that an oracle answers. `STRATEGIES` has them all; what each is for is said in
`sweeps.words`, which commands show before a compiler is loaded.
"""

from collections.abc import Callable, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.choice.held_out import below
from sweep_clustering.kernels.problem.problem import MUST, build_problem, layers_from_annotations
from sweep_clustering.kernels.search.genetic import run_restart
from sweep_clustering.kernels.unions.table import one_thread
from sweep_clustering.pipeline.asking.belief import ASKING, Belief, believe, model_for
from sweep_clustering.pipeline.methods.shipped.links import must_components
from sweep_clustering.sweeps import words
from sweep_clustering.sweeps.annotations.draw import answer_pairs

# Pairs to choose from: all of them, or where there are too many a sample of those that may matter.

# Of shape (n_pairs, 2): samples from 0.
Pairs = NDArray[np.integer]

# All pairs of 283 samples. More than that are sampled: 200 draws of so many pairs are 8 MB.
LARGEST = 40_000

# Every sample may come, also one that is in the same cluster in all draws.
LEAST_DOUBT = 1e-3


def draw_pool(belief: Belief, answers: Pairs, rng: np.random.Generator) -> Pairs:
    """Pairs to choose from, in random order, so that ties are broken at random.

    Parameters
    ----------
    belief : Belief
        What is known.
    answers : ndarray of shape (n_answers, 3)
        Annotations so far: pairs that were asked may be asked again.
    rng : numpy.random.Generator
        Of all randomness.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
        Each pair once, the lower sample first: all pairs if there are at most `LARGEST`. Else a sample of
        about that many: a half joins a sample drawn by its doubt with another one drawn so, a quarter with
        any other, a quarter joins any two; and the pairs that were asked.
    """
    n_samples = len(belief.X)
    if n_samples * (n_samples - 1) // 2 <= LARGEST:
        pairs = all_pairs(n_samples)
    else:
        doubt = 1.0 - belief.membership.max(axis=1) + LEAST_DOUBT
        doubtful = rng.choice(n_samples, size=(3, LARGEST // 2), p=doubt / doubt.sum())
        anyone = rng.integers(0, n_samples, size=(3, LARGEST // 4))
        ends = ((doubtful[0], doubtful[1]), (doubtful[2, : LARGEST // 4], anyone[0]), (anyone[1], anyone[2]))
        pairs = distinct(np.concatenate([answers[-LARGEST:, :2], *map(np.column_stack, ends)]))
    return pairs[rng.permutation(len(pairs))]


def all_pairs(n_samples: int) -> Pairs:
    """Every pair of two samples, the lower one first."""
    return np.column_stack(np.triu_indices(n_samples, 1))


def any_pairs(n_samples: int, most: int, rng: np.random.Generator) -> Pairs:
    """Every pair; of more than `most`, so many drawn uniformly, few of them twice or of one sample."""
    is_small = n_samples * (n_samples - 1) // 2 <= most
    return all_pairs(n_samples) if is_small else rng.integers(0, n_samples, size=(most, 2))


def distinct(pairs: Pairs) -> Pairs:
    """Each pair of two samples once, where it comes first, the lower sample first."""
    ordered = np.sort(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=1)
    ordered = ordered[ordered[:, 0] < ordered[:, 1]]
    _, first = np.unique(ordered, axis=0, return_index=True)
    return ordered[np.sort(first)]


# Pairs with what their answers would tell.

Floats = NDArray[np.float64]


class Scored(NamedTuple):
    """Pairs to ask, best first, and what each is worth.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Samples from 0, the first one lower; no pair twice.
    scores : ndarray of shape (n_pairs,)
        Information of each answer on who belongs together, in nats; for "information" beyond what the
        answers to the pairs before it tell.
    """

    pairs: Pairs
    scores: Floats


def answer_information(variance: Floats, accuracy: float) -> Floats:
    """Mutual information of an answer and of what is asked, nats: H(answer) - H(answer | together).

    Parameters
    ----------
    variance : ndarray
        s (1 - s) for a pair that belongs together with probability s.
    accuracy : float
        Probability that the answer is right.
    """
    less_likely = 0.5 * (1.0 - np.sqrt(np.maximum(1.0 - 4.0 * variance, 0.0)))
    yes = accuracy * less_likely + (1.0 - accuracy) * (1.0 - less_likely)
    return np.asarray(np.maximum(entropy(yes) - entropy(np.array(accuracy)), 0.0))


def entropy(p: Floats) -> Floats:
    """Of a yes or no, nats."""
    p = np.clip(p, 1e-15, 1.0 - 1e-15)
    return np.asarray(-(p * np.log(p) + (1.0 - p) * np.log1p(-p)))


def scored(belief: Belief, pairs: Pairs) -> Scored:
    """Pairs with what each answer tells, taken alone."""
    shares = belief.together(pairs)
    return Scored(pairs, answer_information(shares * (1.0 - shares), belief.accuracy))


def most_telling(belief: Belief, pairs: Pairs, count: int) -> Scored:
    """The pairs that tell the most, each taken alone."""
    found = scored(belief, pairs)
    best = np.argsort(-found.scores, kind="stable")[:count]
    return Scored(pairs[best], found.scores[best])


# Questions before there is any answer.

# Samples that are all asked against each other: of three answers, two check the third.
CLIQUE = 3

# Cliques drawn for each one needed, before any pairs are taken: few samples have few cliques.
TRIES = 10


def cold_start(belief: Belief, count: int, rng: np.random.Generator) -> Scored:
    """Small cliques of samples that are far from each other, all pairs of each.

    The samples of a clique are drawn as k-means++ draws its centres: each by its squared distance to the
    nearest one before it. The draws of a model without annotations play no part: where the features mislead
    it, it is sure of what is wrong.

    Parameters
    ----------
    belief : Belief
        Of the features alone.
    count : int
        Pairs.
    rng : numpy.random.Generator
        Of all randomness.
    """
    size = min(CLIQUE, len(belief.X))
    within = all_pairs(size)
    pairs: Pairs = np.empty((0, 2), dtype=np.int64)
    for _ in range(TRIES * (count // len(within) + 1)):
        if len(pairs) >= count:
            break
        pairs = distinct(np.concatenate([pairs, draw_spread(belief.X, size, rng)[within]]))
    if len(pairs) < count:
        pairs = distinct(np.concatenate([pairs, rng.permutation(all_pairs(len(belief.X)))]))
    return scored(belief, pairs[:count])


def draw_spread(X: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Samples far from each other: each is drawn by its squared distance to the nearest before it.

    Where all others lie on those drawn already, it is drawn uniformly from them.
    """
    chosen = [int(rng.integers(len(X)))]
    nearest = np.full(len(X), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, _squared_distances(X, chosen[-1]))
        nearest[chosen] = 0.0
        weights = nearest if nearest.any() else (~np.isin(np.arange(len(X)), chosen)).astype(float)
        chosen.append(int(rng.choice(len(X), p=weights / weights.sum())))
    return np.array(chosen)


# Strategies that others have used, to be measured against: far samples, and a committee that disagrees.

# Of the committee.
MEMBERS = 5


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
    pairs = distinct(np.array(found, dtype=np.int64))
    if len(pairs) < count:  # every sample was asked: any pairs
        pairs = distinct(np.concatenate([pairs, draw_pool(belief, answers, rng)]))
    return scored(belief, pairs[:count])


def committee(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The pairs on which fits to resampled answers are most divided (query by bagging).

    Every member is fitted to as many answers, drawn with replacement, by one restart of the search. Ties are
    broken at random.
    """
    members = []
    for _ in range(MEMBERS):
        drawn = answers[rng.integers(0, len(answers), size=len(answers))] if len(answers) else answers
        layers = layers_from_annotations(drawn, belief.accuracy) if len(drawn) else []
        shape: Any = {"n_clusters": belief.n_clusters, "covariance": belief.covariance}
        problem = build_problem(belief.X, layers, model=model_for(layers), settings=ASKING, **shape)
        members.append(run_restart(problem, ASKING, rng).labels)
    pairs = draw_pool(belief, answers, rng)
    votes = np.array([labels[pairs[:, 0]] == labels[pairs[:, 1]] for labels in members]).mean(axis=0)
    best = np.argsort(-entropy(votes), kind="stable")[:count]
    return scored(belief, pairs[best])


def _squared_distances(X: NDArray[np.float64], sample: int) -> NDArray[np.float64]:
    return np.asarray(np.square(X - X[sample]).sum(axis=1))


# Variance of an answer that never errs: draws are too few to know that a pair is certain.
LEAST_NOISE = 1e-3

# Pairs of the largest variance, among which the greedy choice is made: what it costs grows with them.
WIDEST = 10_000

# Sure samples of each cluster that doubtful ones are asked against, in turn.
ANCHORS = 5


# From a belief, the annotations so far (columns i, j, kind), how many pairs, and a random stream.
Strategy = Callable[[Belief, Pairs, int, np.random.Generator], Scored]


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
    return most_telling(belief, draw_pool(belief, answers, rng), count)


def information(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The pairs whose answers tell the most together, one after the other (docs/model.md, section 10).

    What an answer tells depends on the variance, over the draws, of whether the pair is together. Every pair
    taken lowers the variance of those that go with it, as if all were jointly normal, so that the next one
    asks for something else. Without answers it is the cold start.
    """
    if len(answers) == 0:
        return cold_start(belief, count, rng)
    return _in_turn(belief, draw_pool(belief, answers, rng), count)


def overall(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> Scored:
    """The pairs whose answers leave the least variance of all pairs, one after the other.

    As "information", but a pair counts by what its answer tells of others: of two answers that are equally
    hard to predict, that which decides on a hundred samples comes before that on a sample between two.
    """
    if len(answers) == 0:
        return cold_start(belief, count, rng)
    pool = draw_pool(belief, answers, rng)
    joined = belief.joined(any_pairs(len(belief.X), WIDEST, rng)).astype(np.float64)
    joined -= joined.mean(axis=0)
    with one_thread():
        return _in_turn(belief, pool, count, joined @ joined.T / len(joined))


def _in_turn(belief: Belief, pairs: Pairs, count: int, everyone: Floats | None = None) -> Scored:
    """Pairs one after the other: by their own variance, or by what they tell of everyone's.

    Parameters
    ----------
    belief : Belief
        What is known.
    pairs : ndarray of shape (n_pairs, 2)
        To choose from.
    count : int
        Pairs wanted.
    everyone : ndarray of shape (n_draws, n_draws), optional
        How draws agree on the pairs that are to be known: sums over these of products of their deviations.
    """
    shares = belief.joined(pairs).mean(axis=0)
    widest = np.argsort(-shares * (1.0 - shares), kind="stable")[: max(WIDEST, count)]
    pairs, shares = pairs[widest], shares[widest]
    variance = shares * (1.0 - shares)
    features = (belief.joined(pairs) - shares) / np.sqrt(len(belief.draws))
    # variance of an answer in units of what it says, p (1 - p) / (2 p - 1)²: infinite at p = 1/2
    p, slope = belief.accuracy, (2.0 * belief.accuracy - 1.0) ** 2
    noise = max(p * (1.0 - p) / slope, LEAST_NOISE) if slope > 0.0 else np.inf
    inverse = np.eye(len(features))
    told = np.zeros(len(pairs)) if everyone is None else np.einsum("ij,ij->j", features, everyone @ features)
    chosen, left = list[int](), list[float]()
    taken = np.zeros(len(pairs), dtype=bool)
    for _ in range(min(count, len(pairs))):
        worth = variance if everyone is None else told / (variance + noise)
        best = int(np.argmax(np.where(taken, -1.0, worth)))
        chosen.append(best)
        left.append(max(float(variance[best]), 0.0))
        taken[best] = True
        # no matrix products: their last bits depend on the number of threads
        direction = np.einsum("ij,j->i", inverse, features[:, best])
        scale = noise + float(np.einsum("i,i->", features[:, best], direction))
        inverse -= direction[:, None] * direction / scale
        along = np.einsum("i,ij->j", direction, features)
        variance -= np.square(along) / scale
        if everyone is not None:
            beyond = np.einsum("ij,j->i", everyone, features[:, best])
            own = float(np.einsum("i,i->", features[:, best], beyond)) / scale
            told += along / scale * (own * along - 2.0 * np.einsum("i,ij->j", beyond, features))
            both = direction[:, None] * beyond
            everyone = everyone + (own * direction[:, None] * direction - both - both.T) / scale
    return Scored(pairs[chosen], answer_information(np.array(left), belief.accuracy))


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
    first = most_telling(belief, doubtful, count)
    if len(first.pairs) == count:
        return first
    rest = information(belief, answers, 2 * count, rng)
    return scored(belief, distinct(np.concatenate([first.pairs, rest.pairs]))[:count])


# All strategies by name.
FUNCTIONS: tuple[Strategy, ...] = (
    overall,
    information,
    uncertain,
    anchors,
    again,
    farthest_first,
    committee,
    uniform,
)
STRATEGIES = dict(zip(words.STRATEGIES, FUNCTIONS, strict=True))


# Questions of a strategy without those that were asked before.

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
    by the strategy "again" alone.

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
    if strategy != "again":
        not_again |= set(map(tuple, np.sort(answers[:, :2], axis=1).tolist()))
    wanted = count
    while True:
        found = STRATEGIES[strategy](belief, answers, wanted, np.random.default_rng(seed))
        kept = [place for place, pair in enumerate(found.pairs.tolist()) if tuple(pair) not in not_again]
        if len(kept) >= count or len(found.pairs) < wanted:
            kept = kept[:count]
            return Scored(found.pairs[kept].reshape(-1, 2), found.scores[kept])
        wanted = 2 * wanted + (count - len(kept))


# A path of questions: batch after batch, each chosen given the answers before it, answered by an oracle.


def next_answers(
    X: NDArray[np.float64],
    labels_true: NDArray[np.integer],
    path: NDArray[np.int32],
    *,
    p: float,
    strategy: str,
    count: int,
    seed: np.random.SeedSequence,
    **fitted: Any,
) -> NDArray[np.int32]:
    """Choose the next batch of questions of a path, and answer them with accuracy `p`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    labels_true : ndarray of shape (n_samples,)
        What the oracle answers from.
    path : ndarray of shape (n_answers, 3), int32
        Annotations so far: columns i, j, kind; none is a cold start.
    p : float
        Accuracy of the oracle, and what the model is told.
    strategy : str
        One of `STRATEGIES`.
    count : int
        Length of the batch.
    seed : numpy.random.SeedSequence
        Of all randomness of this batch; it is not changed.
    **fitted
        Of the model that asks: `n_clusters`, `covariance` and `restarts`, as of `believe`.

    Returns
    -------
    ndarray of shape (count, 3), int32
        Columns i, j and kind, in the order of asking; fewer rows if there are not so many pairs. No pair
        comes twice in a batch.
    """
    layers = layers_from_annotations(path, p) if len(path) else []
    belief = believe(X, layers, accuracy=p, seed=seed, **fitted)
    rng = np.random.default_rng(below(seed, 3))
    return answer_pairs(rng, labels_true, STRATEGIES[strategy](belief, path, count, rng).pairs, p=p)
