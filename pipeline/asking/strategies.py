"""Strategies: from a belief and the answers so far to the pairs to ask next, best first.

`choose` takes pairs of a strategy by name that were not asked before. `next_answers` asks and answers the
next batch of a path of questions. `STRATEGIES` has all strategies; `sweeps.words` describes them, because
commands show them before they load a compiler.
"""

from collections.abc import Callable, Set
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.choice import child_seed
from sweep_clustering.kernels.groups.fit import answers_of
from sweep_clustering.kernels.groups.merging import unsure_pairs
from sweep_clustering.kernels.problem.data import Floats, link
from sweep_clustering.kernels.problem.problem import MUST, build_problem, layers_from_annotations
from sweep_clustering.kernels.search.genetic import run_restart
from sweep_clustering.kernels.structure import AUTO, GROUPS
from sweep_clustering.kernels.unions.table import one_thread
from sweep_clustering.pipeline.asking.belief import ASKING, Belief, believe, model_for
from sweep_clustering.pipeline.methods.shipped.links import must_components
from sweep_clustering.sweeps import words
from sweep_clustering.sweeps.annotations.draw import N_NEIGHBOURS, answer_pairs, nearest_neighbours

# Pairs to choose from: all of them, or a sample if there are too many.

# Array of shape (n_pairs, 2): samples from 0.
Pairs = NDArray[np.integer]

# Largest number of pairs that are not sampled, those of 283 samples: 200 draws of so many are 8 MB.
LARGEST = 40_000

# Doubt of a sample that is in the same cluster in all draws, so that every sample may be drawn.
LEAST_DOUBT = 1e-3


def draw_pool(belief: Belief, answers: Pairs, rng: np.random.Generator) -> Pairs:
    """Return distinct pairs to choose from, in random order, so that ties are broken at random.

    These are all pairs if there are at most `LARGEST`. Else they are about so many, and the pairs of the
    answers, which may be asked again. In a half both samples are drawn by their doubt, in a quarter one of
    them is, and in a quarter none.
    """
    n_samples = len(belief.X)
    if n_samples * (n_samples - 1) // 2 <= LARGEST:
        pairs = all_pairs(n_samples)
    else:
        doubt = 1.0 - belief.membership.max(axis=1) + LEAST_DOUBT
        doubtful = rng.choice(n_samples, size=(3, LARGEST // 2), p=doubt / doubt.sum())
        picks = rng.integers(0, n_samples, size=(3, LARGEST // 4))
        ends = ((doubtful[0], doubtful[1]), (doubtful[2, : LARGEST // 4], picks[0]), (picks[1], picks[2]))
        pairs = distinct(np.concatenate([answers[-LARGEST:, :2], *map(np.column_stack, ends)]))
    return pairs[rng.permutation(len(pairs))]


def all_pairs(n_samples: int) -> Pairs:
    """Return every pair of two samples, the lower one first."""
    return np.column_stack(np.triu_indices(n_samples, 1))


def any_pairs(n_samples: int, limit: int, rng: np.random.Generator) -> Pairs:
    """Return every pair, or `limit` uniform draws if there are more; a few may repeat or have one sample."""
    is_small = n_samples * (n_samples - 1) // 2 <= limit
    return all_pairs(n_samples) if is_small else rng.integers(0, n_samples, size=(limit, 2))


def distinct(pairs: Pairs) -> Pairs:
    """Return the distinct pairs of two samples in their order, the lower sample first."""
    sorted_pairs = np.sort(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=1)
    sorted_pairs = sorted_pairs[sorted_pairs[:, 0] < sorted_pairs[:, 1]]
    _, first_places = np.unique(sorted_pairs, axis=0, return_index=True)
    return sorted_pairs[np.sort(first_places)]


# Information of the answers to pairs.


class ScoredPairs(NamedTuple):
    """Distinct pairs to ask, best first, and the information of their answers.

    Scores are nats about whether the samples of a pair belong together. For "information" they are the gain
    over the answers to the pairs before.
    """

    pairs: Pairs
    scores: Floats


def answer_information(variance: Floats, accuracy: float) -> Floats:
    """Return the mutual information of an answer and the truth in nats: H(answer) - H(answer | together).

    The variance is s (1 - s) for a pair that belongs together with probability s.
    """
    less_likely = 0.5 * (1.0 - np.sqrt(np.maximum(1.0 - 4.0 * variance, 0.0)))
    yes = accuracy * less_likely + (1.0 - accuracy) * (1.0 - less_likely)
    return np.asarray(np.maximum(entropy(yes) - entropy(np.array(accuracy)), 0.0))


def entropy(p: Floats) -> Floats:
    """Return the entropy of a yes or no in nats."""
    p = np.clip(p, 1e-15, 1.0 - 1e-15)
    return np.asarray(-(p * np.log(p) + (1.0 - p) * np.log1p(-p)))


def with_scores(belief: Belief, pairs: Pairs) -> ScoredPairs:
    """Return pairs with the information of their answers, without regard to other pairs."""
    shares = belief.share_together(pairs)
    return ScoredPairs(pairs, answer_information(shares * (1.0 - shares), belief.accuracy))


def most_telling(belief: Belief, pairs: Pairs, count: int) -> ScoredPairs:
    """Return the pairs whose answers have the most information, without regard to other pairs."""
    scores = with_scores(belief, pairs).scores
    best = np.argsort(-scores, kind="stable")[:count]
    return ScoredPairs(pairs[best], scores[best])


# Questions before there is any answer.

# Number of samples that are all asked against each other: two of three answers check the third.
CLIQUE = 3

# Number of cliques drawn for each that is needed, before other pairs are: few samples have few cliques.
TRIES = 10


def cold_start(belief: Belief, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return all pairs of small cliques of samples that are far from each other.

    The samples of a clique are drawn as k-means++ draws its centres. The draws of the belief play no part,
    because a model without annotations is sure of wrong labels if the features mislead it.
    """
    size = min(CLIQUE, len(belief.X))
    pairs_within = all_pairs(size)
    pairs: Pairs = np.empty((0, 2), dtype=np.int64)
    for _ in range(TRIES * (count // len(pairs_within) + 1)):
        if len(pairs) >= count:
            break
        pairs = distinct(np.concatenate([pairs, draw_spread(belief.X, size, rng)[pairs_within]]))
    if len(pairs) < count:
        pairs = distinct(np.concatenate([pairs, rng.permutation(all_pairs(len(belief.X)))]))
    return with_scores(belief, pairs[:count])


def draw_spread(X: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw samples one after the other, by their squared distance to the nearest sample before.

    If all others lie on the samples drawn before, one of them is drawn uniformly.
    """
    samples = [int(rng.integers(len(X)))]
    nearest = np.full(len(X), np.inf)
    while len(samples) < count:
        nearest = np.minimum(nearest, _squared_distances(X, samples[-1]))
        nearest[samples] = 0.0
        weights = nearest if nearest.any() else (~np.isin(np.arange(len(X)), samples)).astype(float)
        samples.append(int(rng.choice(len(X), p=weights / weights.sum())))
    return np.array(samples)


# Strategies of others, for comparison: far samples, and a committee that disagrees.

# Number of fits in the committee.
MEMBERS = 5


def farthest_first(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return the samples farthest from those of the answers, with the nearest sample of each group of these.

    This is a form of the "min-max" queries for constrained k-means (Mallapragada, Jin and Jain, 2008) for
    batches. Must-links join samples to groups, and a sample is asked against the nearest K of them.
    """
    X, n_samples = belief.X, len(belief.X)
    groups = must_components(n_samples, answers[answers[:, 2] == MUST, :2].astype(np.int64))
    samples = [int(i) for i in np.unique(answers[:, :2])] or [int(rng.integers(n_samples))]
    nearest = np.full(n_samples, np.inf)
    for sample in samples:
        nearest = np.minimum(nearest, _squared_distances(X, sample))
    questions: list[tuple[int, int]] = []
    while len(questions) < count and len(samples) < n_samples:
        nearest[samples] = -1.0
        sample = int(nearest.argmax())
        distances = _squared_distances(X, sample)
        order = np.array(samples)[np.argsort(distances[samples], kind="stable")]
        _, first_places = np.unique(groups[order], return_index=True)
        questions += [(sample, int(other)) for other in order[np.sort(first_places)][: belief.n_clusters]]
        samples.append(sample)
        nearest = np.minimum(nearest, distances)
    pairs = distinct(np.array(questions, dtype=np.int64))
    if len(pairs) < count:  # every sample has an answer, so any pairs follow
        pairs = distinct(np.concatenate([pairs, draw_pool(belief, answers, rng)]))
    return with_scores(belief, pairs[:count])


def committee(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return the pairs on which fits to resampled answers are most divided (query by bagging).

    Every member is one restart of the search with as many answers, drawn with replacement. Ties are broken at
    random.
    """
    members, k, shape = [], belief.n_clusters, belief.covariance
    for _ in range(MEMBERS):
        sample = answers[rng.integers(0, len(answers), size=len(answers))] if len(answers) else answers
        layers = layers_from_annotations(sample, belief.accuracy) if len(sample) else []
        problem = build_problem(
            belief.X, layers, model=model_for(layers), settings=ASKING, n_clusters=k, covariance=shape
        )
        members.append(run_restart(problem, ASKING, rng).labels)
    pairs = draw_pool(belief, answers, rng)
    votes = np.array([labels[pairs[:, 0]] == labels[pairs[:, 1]] for labels in members]).mean(axis=0)
    best = np.argsort(-entropy(votes), kind="stable")[:count]
    return with_scores(belief, pairs[best])


def _squared_distances(X: NDArray[np.float64], sample: int) -> NDArray[np.float64]:
    return np.asarray(np.square(X - X[sample]).sum(axis=1))


# Variance of an answer that never errs: there are too few draws to know that a pair is certain.
LEAST_NOISE = 1e-3

# Number of pairs of the largest variance from which the greedy choice is made: its cost grows with them.
WIDEST = 10_000

# Number of sure samples of each cluster that doubtful ones are asked against, in turn.
ANCHORS = 5


# Function of a belief, the answers so far (columns i, j, kind), the number of pairs, and a random stream.
Strategy = Callable[[Belief, Pairs, int, np.random.Generator], ScoredPairs]


def uniform(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return any pairs, as the baseline of all other strategies."""
    n_samples = len(belief.X)
    if n_samples * (n_samples - 1) // 2 < 8 * count:
        pairs = rng.permutation(all_pairs(n_samples))
    else:
        pairs = distinct(rng.integers(0, n_samples, size=(4 * count + 20, 2)))
    return with_scores(belief, pairs[:count])


def uncertain(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return the pairs whose answers are the hardest to predict, without regard to other pairs."""
    return most_telling(belief, draw_pool(belief, answers, rng), count)


def information(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Choose one pair after the other by the information of all their answers (docs/model.md, section 10).

    The information depends on the variance over the draws of whether a pair is together. Every pair that is
    chosen lowers the variance of correlated pairs, as if all were jointly normal, so that the next one asks
    for something else. Without answers it is the cold start.
    """
    if len(answers) == 0:
        return cold_start(belief, count, rng)
    return _in_turn(belief, draw_pool(belief, answers, rng), count)


def overall(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Choose one pair after the other so that the answers leave the least variance of all pairs.

    Unlike "information", it counts the information about other pairs. If two answers are equally hard to
    predict, one that decides about a hundred samples comes before one about a sample between two clusters.
    """
    if len(answers) == 0:
        return cold_start(belief, count, rng)
    pool = draw_pool(belief, answers, rng)
    deviations = belief.is_together(any_pairs(len(belief.X), WIDEST, rng)).astype(np.float64)
    deviations -= deviations.mean(axis=0)
    with one_thread:
        return _in_turn(belief, pool, count, deviations @ deviations.T / len(deviations))


def _in_turn(belief: Belief, pairs: Pairs, count: int, target: Floats | None = None) -> ScoredPairs:
    """Choose one pair after the other by its variance, or by its effect on the variance of target pairs.

    The target has a number for every two draws: the sum over these pairs of the products of their deviations.
    """
    shares = belief.is_together(pairs).mean(axis=0)
    widest = np.argsort(-shares * (1.0 - shares), kind="stable")[: max(WIDEST, count)]
    pairs, shares = pairs[widest], shares[widest]
    variance = shares * (1.0 - shares)
    features = (belief.is_together(pairs) - shares) / np.sqrt(len(belief.draws))
    # Variance of an answer in units of its effect, p (1 - p) / (2 p - 1)², which is infinite at p = 1/2.
    p, slope = belief.accuracy, (2.0 * belief.accuracy - 1.0) ** 2
    noise = max(p * (1.0 - p) / slope, LEAST_NOISE) if slope > 0.0 else np.inf
    inverse = np.eye(len(features))
    effect = np.zeros(len(pairs)) if target is None else np.einsum("ij,ij->j", features, target @ features)
    order, variances = list[int](), list[float]()
    is_chosen = np.zeros(len(pairs), dtype=bool)
    for _ in range(min(count, len(pairs))):
        worth = variance if target is None else effect / (variance + noise)
        best = int(np.argmax(np.where(is_chosen, -1.0, worth)))
        order.append(best)
        variances.append(max(float(variance[best]), 0.0))
        is_chosen[best] = True
        # There are no matrix products, because their last bits depend on the number of threads.
        direction = np.einsum("ij,j->i", inverse, features[:, best])
        scale = noise + float(np.einsum("i,i->", features[:, best], direction))
        inverse -= direction[:, None] * direction / scale
        projection = np.einsum("i,ij->j", direction, features)
        variance -= np.square(projection) / scale
        if target is not None:
            target_projection = np.einsum("ij,j->i", target, features[:, best])
            ratio = float(np.einsum("i,i->", features[:, best], target_projection)) / scale
            change = ratio * projection - 2.0 * np.einsum("i,ij->j", target_projection, features)
            effect += projection / scale * change
            cross_terms = direction[:, None] * target_projection
            target = target + (ratio * direction[:, None] * direction - cross_terms - cross_terms.T) / scale
    return ScoredPairs(pairs[order], answer_information(np.array(variances), belief.accuracy))


def anchors(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return the most doubtful samples, with sure ones of the clusters that they are most likely in."""
    membership = belief.membership
    certainty = membership.max(axis=1)
    shuffled = rng.permutation(len(certainty))
    by_doubt = shuffled[np.argsort(certainty[shuffled], kind="stable")]
    by_cluster = membership.argsort(axis=1, kind="stable")[:, ::-1]
    anchors_of = [
        [i for i in by_doubt[::-1] if belief.labels[i] == k][:ANCHORS] for k in range(belief.n_clusters)
    ]
    questions = [
        (sample, anchor)
        for rank in range(belief.n_clusters)
        for turn in range(ANCHORS)
        for place, sample in enumerate(by_doubt[: 2 * count])
        for anchor in anchors_of[by_cluster[sample, rank]][(place + turn) % ANCHORS :][:1]
    ]
    return with_scores(belief, distinct(np.array(questions, dtype=np.int64))[:count])


def repeats(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return pairs of answers that are in doubt, and then those of "information" if there are too few."""
    pairs = distinct(answers[:, :2])
    is_together = belief.is_together(pairs)
    doubtful = pairs[is_together.any(axis=0) & ~is_together.all(axis=0)]
    choice = most_telling(belief, doubtful, count)
    if len(choice.pairs) == count:
        return choice
    other_choice = information(belief, answers, 2 * count, rng)
    return with_scores(belief, distinct(np.concatenate([choice.pairs, other_choice.pairs]))[:count])


def merges(belief: Belief, answers: Pairs, count: int, rng: np.random.Generator) -> ScoredPairs:
    """Return random near pairs in turn with pairs that say where clusters are to be merged or split.

    Near pairs teach which distances matter, and are an honest sample of answers. Without answers all pairs
    are near (docs/model.md, section 10).
    """
    n_samples = len(belief.X)
    first = rng.integers(0, n_samples, size=2 * count + 20)
    neighbours = nearest_neighbours(belief.X, first, min(N_NEIGHBOURS, n_samples - 1))
    places = rng.integers(0, neighbours.shape[1], size=len(first))
    pairs: Pairs = np.column_stack([first, neighbours[np.arange(len(first)), places]])
    if len(answers):
        so_far = answers_of(link(layers_from_annotations(answers, belief.accuracy), n_samples))
        Z = belief.X if belief.Z is None else belief.Z
        with one_thread:
            unsure = unsure_pairs(Z, belief.labels, so_far, count, rng)
        in_turn = np.stack([pairs[: len(unsure)], unsure[: len(pairs)]], axis=1)
        pairs = np.concatenate([in_turn.reshape(-1, 2), pairs[len(unsure) :]])
    pairs = distinct(pairs)
    if len(pairs) < count:
        pairs = distinct(np.concatenate([pairs, uniform(belief, answers, count, rng).pairs]))
    return with_scores(belief, pairs[:count])


# All strategies by name.
FUNCTIONS = (overall, merges, information, uncertain, anchors, repeats, farthest_first, committee, uniform)
STRATEGIES: dict[str, Strategy] = dict(zip(words.STRATEGIES, FUNCTIONS, strict=True))


def fitting(belief: Belief) -> str:
    """Return the name of the strategy that fits a belief, for people who name none."""
    return "merges" if belief.has_many_classes else "overall"


# Questions of a strategy without those that have answers.

# Share of the random ones among the questions about few classes, if their number is open.
RANDOM_SHARE = 0.2

Pair = tuple[int, int]


def choose(
    belief: Belief,
    answers: Pairs,
    *,
    strategy: str | None,
    count: int,
    seed: np.random.SeedSequence,
    left_out: Set[Pair] = frozenset(),
) -> ScoredPairs:
    """Choose distinct pairs that have no answer, best first; fewer than `count` if there are no others.

    Somebody who is asked again gives the same answer, which is no second opinion, so that only the strategy
    "again" asks pairs of answers. The belief is that given all answers (columns i, j and kind). Pairs that
    are left out have the lower sample first. If there is no strategy, it is the one that fits the belief, and
    a share of the questions may be about random pairs, which come between the others.
    """
    count = min(count, len(belief.X) * (len(belief.X) - 1) // 2)
    if strategy is None and belief.has_random_questions:
        # The rest of a question is one by chance, so that even single questions are random now and then.
        n_random = int(count * RANDOM_SHARE + np.random.default_rng(child_seed(seed, 0)).random())
        asking = partial(choose, belief, answers, left_out=left_out)
        random = asking(strategy="uniform", count=n_random, seed=child_seed(seed, 1))
        left_out = left_out | set(map(tuple, random.pairs.tolist()))
        n_chosen = count - len(random.pairs)
        chosen = asking(strategy=fitting(belief), count=n_chosen, seed=seed, left_out=left_out)
        at = np.linspace(0, len(chosen.pairs), len(random.pairs) + 1, dtype=int)[1:]
        pairs = np.insert(chosen.pairs, at, random.pairs, axis=0)
        return ScoredPairs(pairs, np.insert(chosen.scores, at, random.scores))
    strategy, not_again = strategy or fitting(belief), set(left_out)
    if strategy != "again":
        not_again |= set(map(tuple, np.sort(answers[:, :2], axis=1).tolist()))
    size = count
    while True:
        pairs, scores = STRATEGIES[strategy](belief, answers, size, np.random.default_rng(seed))
        places = [place for place, pair in enumerate(pairs.tolist()) if tuple(pair) not in not_again]
        if len(places) >= count or len(pairs) < size:
            return ScoredPairs(pairs[places[:count]].reshape(-1, 2), scores[places[:count]])
        size = 2 * size + (count - len(places))


# A path of questions: an oracle answers batch after batch, and the answers count for the next batch.


def next_answers(
    X: NDArray[np.float64],
    labels_true: NDArray[np.integer],
    path: NDArray[np.int32],
    *,
    p: float,
    strategy: str,
    count: int,
    seed: np.random.SeedSequence,
    n_clusters: int,
    covariance: str,
    restarts: int,
) -> NDArray[np.int32]:
    """Choose the next batch of questions of a path, and return the answers of an oracle to distinct pairs.

    Answers before and after are rows of i, j and kind in the order of asking; none before is a cold start. If
    there are fewer pairs than `count`, there are fewer rows. The model takes the accuracy of the oracle, `p`,
    for that of the answers; its other parameters are those of `believe`. An open shape is that of merged
    groups for "merges".
    """
    layers = layers_from_annotations(path, p) if len(path) else []
    belief = believe(
        X,
        layers,
        n_clusters=n_clusters,
        accuracy=p,
        seed=seed,
        covariance=GROUPS if strategy == "merges" and covariance == AUTO else covariance,
        restarts=restarts,
    )
    rng = np.random.default_rng(child_seed(seed, 3))
    return answer_pairs(rng, labels_true, STRATEGIES[strategy](belief, path, count, rng).pairs, p=p)
