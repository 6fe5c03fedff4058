"""Merged groups against the structure that was chosen, and numbers of classes, by held-out answers.

The distance of two rows predicts the answer about them before any class is known. `rank_with_groups`
therefore predicts each held-out answer by a logistic function of distances, with a candidate's probability
for the pair as one more term, and puts merged groups first if they gain clearly (docs/model.md, section 13).
`choose_cut` predicts them in the same way by the classes of each cut of one tree, and says which number of
classes, from 2 to thousands, is best and which are as good.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

from sweep_clustering.kernels import choice
from sweep_clustering.kernels.fits import Runner
from sweep_clustering.kernels.groups.fit import DEFAULT_ODDS, answers_of, leaves_of, tree_of
from sweep_clustering.kernels.groups.merging import cut, small_groups
from sweep_clustering.kernels.groups.metric import logistic, pair_squares
from sweep_clustering.kernels.groups.refinement import scatter_of
from sweep_clustering.kernels.problem.data import Floats, Layer, link
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import (
    AVERAGE,
    GENIE,
    LINEAR,
    MANY_CLASSES,
    METRIC,
    MOST_LEARNED,
    MOST_ROWS,
    NONE,
    ODDS,
    SIGNED,
    Structure,
    merged_structures,
    n_groups,
)
from sweep_clustering.kernels.unions.race import CLEAR, RACE, Ranking, joint_shares, without_weak_assumptions
from sweep_clustering.kernels.unions.table import Table, one_thread

# Standard errors that merged groups must be ahead of the structure that was chosen.
LEAD = 1.5

# The same for the answers alone, which leave out what features say.
SIGNED_LEAD = 3.0

# Standard errors that the best may be ahead of candidates of which the most compact is taken.
TIE = 0.5

# Structures of merged groups, the best first, that are tried with other accuracies if none is given.
TOP = 3

# Structures of merged groups, the best first, that linear functions start from; with many classes, one.
LINEAR_STARTS = 2

# Candidates that are averaged at most.
MEMBERS = 8

# Stream of the fits of folds, beside those of the choice of structures.
STREAM = choice.HELD_OUT + 4 + FOLDS

# Random pairs that structures are compared on, too, if answers are about other pairs, and the weight of all
# of them, in that of all answers.
N_RANDOM = 5_000
RANDOM_WEIGHT = 1.0

# Standard errors up to which the mean distance of pairs is that of random ones.
CERTAINTY = 3.0

# Pairs that are enough to look at their distances: of twice as many, every second one is looked at.
PAIRS_ENOUGH = 20_000

# Steps of Newton's method, and the least change of a coefficient.
NEWTON_STEPS = 12
LEAST_STEP = 1e-6

# Weight of half the squares of the coefficients, in nats.
RIDGE = 1e-3


def predict_answers(
    probabilities: Floats | None, distances: Floats, is_must: NDArray[np.bool_], weights: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """Predict answers by a logistic function of distances and of a candidate's probability for each pair.

    `probabilities` has the probability that the rows of each pair are of one class, or is None for distances
    alone. The result is the log-probability of each answer, in nats, and whether it was the likelier one.
    """
    columns = distances if probabilities is None else np.column_stack([distances, probabilities])
    deviations = columns.std(axis=0)
    columns = (columns - columns.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
    columns = np.column_stack([np.ones(len(columns)), columns])
    signs, x = np.where(is_must, 1.0, -1.0), np.zeros(columns.shape[1])

    def loss(x: Floats) -> float:
        return float(weights @ np.logaddexp(0.0, -signs * (columns @ x)) + 0.5 * RIDGE * x @ x)

    for _ in range(NEWTON_STEPS):
        shares = 0.5 * (1.0 + np.tanh(0.5 * columns @ x))
        slopes = columns.T @ (weights * (is_must - shares)) - RIDGE * x
        curvature = (columns * (weights * shares * (1.0 - shares))[:, None]).T @ columns
        step = np.linalg.solve(curvature + RIDGE * np.eye(len(x)), slopes)
        # a full step may lead beyond the minimum where nearly all answers are predicted
        while loss(x + step) > loss(x) and np.abs(step).max() > LEAST_STEP:
            step *= 0.5
        x = x + step
    if probabilities is not None and x[-1] < 0.0:
        return predict_answers(None, distances, is_must, weights)
    logs = -np.logaddexp(0.0, -signs * (columns @ x))
    return logs, logs > -np.log(2.0)


def are_random(X: Floats, annotations: choice.Annotations) -> bool:
    """Whether annotated pairs are about as far apart as random ones."""
    pairs = annotations.pairs[_places(len(annotations.pairs))]
    surprise = pair_squares(X, pairs) - 2.0 * X.var(axis=0, ddof=1).sum()
    return bool(abs(surprise.sum()) <= CERTAINTY * choice.error_of_sum(surprise - surprise.mean(), pairs))


class RandomPairs(NamedTuple):
    """Random pairs, and the probability that an answer about each would be a must-link, by its distance.

    They stand after the annotations beside which they count, if there are any.
    """

    annotations: choice.Annotations
    pairs: NDArray[np.int64]  # (n_pairs, 2)
    must_probabilities: Floats  # (n_pairs,)

    @property
    def folds(self) -> NDArray[np.int64]:
        """Fold whose fits predict each pair."""
        return np.arange(len(self.pairs)) % FOLDS

    @property
    def all_pairs(self) -> NDArray[np.int64]:
        """Annotated and random pairs."""
        return np.concatenate([self.annotations.pairs, self.pairs])

    @property
    def all_folds(self) -> NDArray[np.int64]:
        """Fold whose fits predict each annotated and random pair."""
        return np.append(self.annotations.folds, self.folds)

    def overall(self, probabilities: Floats, distances: Floats, score: choice.HeldOut) -> choice.HeldOut:
        """Predict the answers and the random pairs together, and take what is lost on these off all answers.

        Answers about near rows say nothing against a class of many rows that are far apart. `probabilities`
        and `distances` have the answers before the random pairs, and `score` is that of the answers alone.
        """
        must, answers = self.must_probabilities, self.annotations
        count, total = len(answers.folds), float(answers.weights.sum())
        if not len(must):
            return score
        # a random pair stands once as a must-link and once as a cannot-link
        rows = np.concatenate([np.arange(count), *2 * [count + np.arange(len(must))]])
        is_must = np.concatenate([answers.is_must, np.repeat([True, False], len(must))])
        shares = RANDOM_WEIGHT * total / len(must) * np.concatenate([must, 1.0 - must])
        weights = np.concatenate([answers.weights, shares])
        logs, _ = predict_answers(probabilities[rows], distances[rows], is_must, weights)
        return replace(score, log_probabilities=logs[:count] + float(shares @ logs[count:]) / total)


def random_pairs(table: Table, layers: Sequence[Layer], annotations: choice.Annotations) -> RandomPairs:
    """Draw pairs that stand for those that nobody asks about, as where pairs of near rows are asked about.

    There are none if the answers are about random pairs.
    """
    if are_random(table.X, annotations):
        return RandomPairs(annotations, np.empty((0, 2), np.int64), np.empty(0))
    answers = answers_of(table.links(layers))
    answers = answers.select(_places(len(answers.pairs)))
    relation = logistic(pair_squares(table.X, answers.pairs), answers)
    rng = np.random.default_rng(choice.child_seed(table.seed, STREAM, 1))
    first = rng.integers(len(table.X), size=N_RANDOM)
    second = (first + rng.integers(1, len(table.X), size=N_RANDOM)) % len(table.X)
    pairs = np.column_stack([first, second])
    probabilities = expit(relation.intercept - relation.slope * pair_squares(table.X, pairs))
    accuracy = float(np.average(answers.accuracies, weights=answers.weights))
    return RandomPairs(annotations, pairs, 1.0 - accuracy + (2.0 * accuracy - 1.0) * probabilities)


def _places(count: int) -> NDArray[np.int64]:
    """Return the places of all of so many pairs, or of every so many of them."""
    return np.arange(0, count, max(count // PAIRS_ENOUGH, 1))


class Prediction(NamedTuple):
    """A fit of merged groups without the answers of a fold, in little memory."""

    structure: Structure
    labels: NDArray[np.int16]  # (n_samples,)
    shares: Floats  # probability that the samples of each of these answers are of one class


class Contest:
    """Held-out answers, predicted by merged groups of each fold and by distances alone.

    Groups that are clearly behind others, or behind the `rival`, after some folds are tried no further. The
    rival is the probability that the pair of each annotation is of one class, by folds of another candidate.
    """

    def __init__(
        self,
        table: Table,
        layers: Sequence[Layer],
        random: RandomPairs,
        run: Runner,
        rival: Floats | None = None,
    ) -> None:
        self.table, self.random, self.run, self.rival = table, random, run, rival
        self.annotations = annotations = random.annotations
        sizes = len(table.X), table.X.shape[1], table.n_classes
        self.structures = merged_structures(*sizes, annotations.n_pairs)
        self.training = [choice.training_layers(layers, annotations, fold) for fold in range(FOLDS)]
        self.shares: dict[Structure, Floats] = {}
        self.skills: dict[Structure, choice.Skill] = {}
        self.spaces = list(dict.fromkeys(structure.subspace for structure in self.structures))
        self.pairs, self.folds = random.all_pairs, random.all_folds
        self.distances = np.zeros((len(self.folds), len(self.spaces)))
        self.axes: dict[tuple[int, int | str], Floats | None] = {}
        self.labels: dict[tuple[int, Structure], NDArray[np.int16]] = {}
        # an average of structures for many classes needs those that are behind
        self.add(self.structures, LINEAR_STARTS if table.n_classes <= MANY_CLASSES else MEMBERS)

    def add(self, structures: Sequence[Structure], n_leaders: int = 0) -> None:
        """Predict the answers by further structures; so many of the best with annotations see all folds."""
        folds = self.folds
        self.shares |= {structure: np.zeros(len(folds)) for structure in structures}
        is_tested = np.zeros(len(folds), bool)
        for race_folds in RACE:
            self.predict_folds(structures, race_folds)
            is_tested |= np.isin(folds, race_folds)
            structures = self.remaining_structures(structures, is_tested, n_leaders)
        self.skills |= {structure: self.skill(self.shares[structure]) for structure in structures}

    def remaining_structures(
        self, structures: Sequence[Structure], is_tested: NDArray[np.bool_], n_leaders: int
    ) -> Sequence[Structure]:
        """Return structures that are not clearly behind, and so many of the best with annotations."""
        if is_tested.all():
            return structures
        scores = {structure: self.predict(self.shares[structure], is_tested) for structure in structures}
        rivals = [*scores.values(), *([] if self.rival is None else [self.predict(self.rival, is_tested)])]
        best = min(rivals, key=lambda score: score.log_loss)
        candidates = [structure for structure in structures if structure.annotated]
        leaders = sorted(candidates, key=lambda structure: scores[structure].log_loss)[:n_leaders]
        return [
            structure
            for structure in structures
            if structure in leaders or not best.is_ahead(scores[structure], CLEAR)
        ]

    def predict_folds(self, structures: Sequence[Structure], folds: Sequence[int]) -> None:
        """Predict the answers of some folds by structures, and compute the distances of their pairs."""
        table = self.table
        used_spaces = {structure.subspace for structure in structures}
        keys = ((fold, space) for fold in folds for space in self.spaces)
        work = [key for key in keys if key[1] in used_spaces or key not in self.axes]

        def predictions_in(key: tuple[int, int | str]) -> tuple[Floats | None, list[Prediction]]:
            (fold, space), layers = key, self.training[key[0]]
            in_space = [structure for structure in structures if structure.subspace == space]
            starts = [
                self.labels[fold, structure.first] for structure in in_space if structure.first is not None
            ]
            if key in self.axes:
                axes = self.axes[key]
            else:
                axes = table.axes_in(space, layers, answers_of(table.links(layers)))
            if starts:
                fits = [
                    table.fit_linear(structure, layers, labels, axes)
                    for structure, labels in zip(in_space, starts, strict=True)
                ]
            else:
                fits = table.fit_groups(in_space, layers, self.stream(), axes) if in_space else []
            pairs = self.pairs[self.folds == fold]
            return axes, [Prediction(fit.structure, fit.labels, joint_shares(fit, pairs)) for fit in fits]

        for (fold, space), (axes, predictions) in zip(work, self.run(predictions_in, work), strict=True):
            is_tested = self.folds == fold
            if (fold, space) not in self.axes:
                self.axes[fold, space] = axes
                squares = pair_squares(table.place(axes), self.pairs[is_tested])
                self.distances[is_tested, self.spaces.index(space)] = squares
            for structure, labels, shares in predictions:
                self.shares[structure][is_tested] = shares
                self.labels[fold, structure._replace(proportions="free")] = labels

    def add_linear(self) -> None:
        """Predict the answers by linear functions that start from the best merged groups."""
        n_starts = LINEAR_STARTS if self.table.n_classes <= MANY_CLASSES else 1
        starts = [structure._replace(proportions="free") for structure in self.best_annotated(n_starts)]
        self.add([Structure(start.subspace, 1, LINEAR, first=start, odds=start.odds) for start in starts])

    def stream(self) -> Generator:
        """Return the stream of the small groups, which all folds and spaces share."""
        return np.random.default_rng(choice.child_seed(self.table.seed, STREAM))

    @property
    def ranked_structures(self) -> list[Structure]:
        """Merged groups, those that predict the answers best first."""
        return sorted(self.skills, key=lambda structure: self.skills[structure].overall.log_loss)

    @property
    def partitions(self) -> dict[Structure, list[NDArray[np.int16]]]:
        """Labels of the fits without each fold, by structures that answers take part in."""
        return {
            structure: [self.labels[fold, structure._replace(proportions="free")] for fold in range(FOLDS)]
            for structure in self.skills
            if structure.annotated
        }

    def best_annotated(self, count: int) -> list[Structure]:
        """Return the best structures that answers take part in."""
        return [structure for structure in self.ranked_structures if structure.annotated][:count]

    def predict(
        self,
        shares: Floats | None,
        is_tested: NDArray[np.bool_] | None = None,
        *,
        has_distances: bool = True,
    ) -> choice.HeldOut:
        """Predict the answers, or some, by distances and by a candidate's probability for each pair."""
        answers, count = self.annotations, len(self.annotations.folds)  # random pairs follow the answers
        rows = slice(count) if is_tested is None else np.flatnonzero(is_tested[:count])
        distances = self.distances[rows][:, : None if has_distances else 0]
        is_must, weights = answers.is_must[rows], answers.weights[rows]
        shares = None if shares is None else shares[rows]
        logs, right = predict_answers(shares, distances, is_must, weights)
        shares = np.full(len(logs), 0.5) if shares is None else shares
        units = None if answers.units is None else answers.units[rows]
        return choice.HeldOut(logs, right, weights, np.where(is_must, shares, 1.0 - shares), units)

    def skill(self, shares: Floats) -> choice.Skill:
        """Return how well a candidate predicts the answers, and how well distance alone does."""
        without_distance = self.predict(shares, has_distances=False)
        with_distance = self.predict(shares)
        overall = self.random.overall(shares, self.distances, with_distance)
        return choice.Skill(with_distance, without_distance, self.by_distance, overall)

    @cached_property
    def by_distance(self) -> choice.HeldOut:
        """Predictions by the distances alone, in all spaces."""
        return self.predict(None)


def rank_with_groups(table: Table, layers: Sequence[Layer], ranking: Ranking, run: Runner = map) -> Ranking:
    """Put merged groups before the chosen structure where they predict held-out answers clearly better."""
    annotations, simple = choice.list_annotations(layers, table.seed), ranking.structures[0]
    n_rows = len(table.X)
    max_classes = n_rows - 1 if n_rows <= MOST_ROWS else n_rows // 2
    if annotations.lack or table.n_classes > max_classes:
        return ranking

    random = random_pairs(table, layers, annotations)

    def shares_of(structure: Structure) -> Floats:
        score = ranking.candidates.get(structure)
        if score is None:
            return joint_shares(table.fit_features(structure), random.all_pairs)
        labels = ranking.partitions.get(structure) or FOLDS * [table.fit_features(structure).labels]
        first, second = np.stack(labels)[random.folds[:, None], random.pairs].T
        shares = np.where(annotations.is_must, score.agreements, 1.0 - score.agreements)
        return np.append(shares, first == second)

    shares = {simple: shares_of(simple)}
    contest = Contest(table, layers, random, run, shares[simple])
    if annotations.of_unknown_accuracy.any():
        other_odds = [odds for odds in ODDS if odds != DEFAULT_ODDS]
        contest.add([best._replace(odds=odds) for best in contest.best_annotated(TOP) for odds in other_odds])
    contest.add_linear()
    shares |= {structure: shares_of(structure) for structure in ranking.partitions if structure != simple}
    skills = contest.skills | {structure: contest.skill(value) for structure, value in shares.items()}
    partitions = {**ranking.partitions, **contest.partitions}
    scores = {structure: skills[structure].overall for structure in contest.ranked_structures}
    simple_score = skills[simple].overall
    structures = [
        structure
        for structure, score in without_weak_assumptions(scores).items()
        if structure.covariance != SIGNED or score.is_ahead(simple_score, SIGNED_LEAD)
    ]
    best = skills[structures[0]].overall if structures else simple_score
    if not best.is_ahead(simple_score, LEAD):
        return replace(ranking, skills=skills, partitions=partitions)
    as_good = [structure for structure in structures if not best.is_ahead(skills[structure].overall, TIE)]
    if len(as_good) > 1:
        # all answers together teach more than four fifths of them, but not a fit without them
        as_good.sort(key=lambda structure: (not structure.annotated, _scatter(table, structure, layers)))
    structures = [*as_good, *(structure for structure in structures if structure not in as_good)]
    candidates = {structure: skills[structure].with_distance for structure in structures}
    return replace(
        ranking,
        structures=(*structures, *ranking.structures),
        candidates={**candidates, **ranking.candidates},
        skills=skills,
        partitions=partitions,
        note="",
    )


def _scatter(table: Table, structure: Structure, layers: Sequence[Layer]) -> float:
    """Return the scatter of the features about the means of the classes."""
    fit = table.solve(structure, layers, np.random.default_rng(choice.child_seed(table.seed, STREAM)))
    return scatter_of(table.centered_X, np.unique(fit.labels, return_inverse=True)[1])


# Cuts of one tree of merged groups.

# Ratio of the number of classes of a cut to that of the one before it.
STEP = 1.15

# Standard errors within which numbers of classes predict equally well.
CUT_TIE = 1.0

# Share of the groups up to which a best cut asks for a tree of single rows.
NEARLY_ALL = 0.7


# Space and linkage of a tree, and the number of classes of a cut.
CutKey = tuple[tuple[int | str, str], int]

# Predictions by the cuts of some trees.
Rating = dict[CutKey, choice.HeldOut]


class Ratings(NamedTuple):
    """Predictions by cuts and distances, by cuts alone, and by cuts alone of random pairs, too."""

    with_distance: Rating
    without_distance: Rating
    overall: Rating


class Cut(NamedTuple):
    """The least and the largest number of classes that predict equally well; the largest is taken.

    Pairs of near rows say little of classes that are far apart, so that too few classes predict as well.
    If `is_by_share`, no number predicts clearly better than few classes, and the share of must-links among
    random pairs decides, which rules out fewer than `low`. If it is not `is_clear`, the answers alone are
    predicted as well by few classes, so that fits of few classes are to be compared. If it
    `is_by_nearest`, Genie's linkage made its tree.
    """

    low: int
    n_clusters: int
    is_by_share: bool = False
    is_clear: bool = True
    is_by_nearest: bool = False


class Share(NamedTuple):
    """Share of all pairs of rows that are of one class, or a bound that it is not above, with its error."""

    value: float
    error: float
    is_bound: bool = False

    @property
    def low(self) -> float:
        """Share of which fewer are clearly not all that are of one class."""
        return 0.0 if self.is_bound else self.value - CLEAR * self.error

    @property
    def high(self) -> float:
        """Share of which more are clearly not of one class; 1 if it is not less than one half."""
        high = self.value + CERTAINTY * self.error
        return high if high < 0.5 else 1.0


# Share of which nothing is known.
OPEN_SHARE = Share(0.5, math.inf)


def share_together(X: Floats, annotations: choice.Annotations) -> Share:
    """Estimate the share of pairs of one class from answers about random pairs (docs/model.md, section 13).

    If an accuracy is not known, the share of must-links is a bound: wrong answers bring it nearer to a half.
    It is open if an accuracy cannot be right, if labels of rows say the answers, or if the pairs are nearer
    to each other, or farther apart, than random ones, so that their share is not that of all pairs.
    """
    is_bound = bool(np.isnan(annotations.accuracies).any())
    weights, accuracies = annotations.weights, np.where(is_bound, 1.0, annotations.accuracies)
    total = float(weights @ (2.0 * accuracies - 1.0))
    if not total > 0.0 or annotations.units is not None or not are_random(X, annotations):
        return OPEN_SHARE
    excess = annotations.is_must - (1.0 - accuracies)
    value = float(weights @ excess) / total
    error = (
        choice.error_of_sum(weights * (excess - value * (2.0 * accuracies - 1.0)), annotations.pairs) / total
    )
    share = Share(value, error, is_bound)
    return OPEN_SHARE if share.high < 0.0 else share


def cut_counts(max_classes: int) -> list[int]:
    """Return the numbers of classes to try, up to `max_classes`."""
    counts, count = list[int](), 2
    while count <= max_classes:
        counts.append(count)
        count = max(count + 1, int(STEP * count))
    return counts


def choose_cut(
    X: Floats, layers: Sequence[Layer], seed: np.random.SeedSequence, n_few: int, run: Runner = map
) -> Cut | None:
    """Choose a number of classes by held-out answers.

    None is returned if no cut is clearly better than those into at most `n_few` classes.
    """
    annotations = choice.list_annotations(layers, seed)
    if annotations.lack:
        return None
    table, n_leaves, share = Table(X, 2, seed), n_groups(len(X), 1), share_together(X, annotations)

    def together(score: choice.HeldOut) -> float:
        """Return the share of the annotated pairs that a cut puts together."""
        probabilities = np.where(annotations.is_must, score.agreements, 1.0 - score.agreements)
        return float(np.average(probabilities, weights=annotations.weights))

    def best_cut(scores: Rating) -> Cut | None:
        shares = {key: together(score) for key, score in scores.items()}
        return _best_cut(scores, n_few, shares, share)

    def cut_of(ratings: Ratings) -> Cut | None:
        # without distances if these predict so well that they leave the number open
        best = best_cut(ratings.with_distance) or best_cut(ratings.without_distance)
        if not ratings.overall:
            return best
        overall = best_cut(ratings.overall)
        return None if overall is None else overall._replace(is_clear=best is not None)

    random = random_pairs(table, layers, annotations)
    ratings = rate_cuts(table, layers, random, n_leaves, run)
    chosen_cut = cut_of(ratings)
    is_coarse = chosen_cut is None or chosen_cut.n_clusters > NEARLY_ALL * n_leaves
    if is_coarse and n_leaves < len(X) <= MOST_ROWS:
        # single rows may be many classes, but few classes are found better by groups
        row_ratings = rate_cuts(table, layers, random, len(X), run)
        for fine, coarse in zip(row_ratings, ratings, strict=True):
            fine |= {
                key: score
                for key, score in coarse.items()
                if key[1] <= n_few and score.log_loss < fine[key].log_loss
            }
        chosen_cut = cut_of(row_ratings)
    return chosen_cut or _cut_of_share(share, n_few, len(X) // 2)


def _cut_of_share(share: Share, n_few: int, limit: int) -> Cut | None:
    """Return the number of classes of equal size of which random pairs have a share, if it is not few."""
    low = math.ceil(1.0 / (share.value + CERTAINTY * share.error))
    likely = round(1.0 / max(share.value, share.error))
    return Cut(low, min(max(low, likely), limit), is_by_share=True) if n_few < low <= limit else None


def rate_cuts(table: Table, layers: Sequence[Layer], random: RandomPairs, size: int, run: Runner) -> Ratings:
    """Predict held-out answers, and random pairs, by each cut of a tree of so many groups."""
    annotations, all_pairs, folds = random.annotations, random.all_pairs, random.all_folds
    spaces = (NONE if table.X.shape[1] <= MOST_LEARNED else MOST_LEARNED, METRIC)
    trees = [(space, AVERAGE) for space in spaces] + [(METRIC, linkage) for linkage in GENIE]
    counts = cut_counts(size - 1)
    is_joint = np.zeros((len(trees), len(counts), len(folds)), np.bool_)
    distances = np.zeros((len(folds), len(spaces)))

    def cut_fold(key: tuple[int, int | str]) -> tuple[NDArray[np.bool_], Floats]:
        fold, space = key
        training = choice.training_layers(layers, annotations, fold)
        answers = answers_of(link(training, len(table.X)))
        axes = table.axes_in(space, training, answers)
        pairs = all_pairs[folds == fold]
        i, j = pairs.T
        with one_thread:
            Z = table.place(axes)
            groups = small_groups(Z, size, np.random.default_rng(choice.child_seed(table.seed, STREAM)))
            pairs_of_trees = []
            for linkage in (linkage for tree_space, linkage in trees if tree_space == space):
                leaves = leaves_of(groups, linkage)
                merges = tree_of(Z, leaves, answers, linkage)
                classes = (cut(merges, count)[leaves] for count in counts)
                pairs_of_trees.append([labels[i] == labels[j] for labels in classes])
        return np.array(pairs_of_trees), pair_squares(Z, pairs)

    work = [(fold, space) for fold in range(FOLDS) for space in spaces]
    for (fold, space), (is_joint_in_fold, squares) in zip(work, run(cut_fold, work), strict=True):
        is_tested = folds == fold
        is_of_space = [tree_space == space for tree_space, _ in trees]
        is_joint[np.ix_(is_of_space, range(len(counts)), is_tested)] = is_joint_in_fold
        distances[is_tested, spaces.index(space)] = squares
    ratings, count = Ratings({}, {}, {}), len(annotations.folds)
    is_must, weights, no_distances = annotations.is_must, annotations.weights, distances[:, :0]
    for key, is_joint_in_cut in zip(product(trees, counts), is_joint.reshape(-1, len(folds)), strict=True):
        shares, agreements = is_joint_in_cut.astype(np.float64), 1.0 * (is_joint_in_cut[:count] == is_must)
        for rating, columns in ((ratings.with_distance, distances), (ratings.without_distance, no_distances)):
            logs, right = predict_answers(shares[:count], columns[:count], is_must, weights)
            rating[key] = choice.HeldOut(logs, right, weights, agreements, annotations.units)
        if len(random.pairs):
            ratings.overall[key] = random.overall(shares, no_distances, ratings.without_distance[key])
    return ratings


def _best_cut(scores: Rating, n_few: int, shares: Mapping[CutKey, float], limits: Share) -> Cut | None:
    """Return the best cut, if it is clearly better than those into few classes.

    A cut that puts clearly more pairs together than are of one class counts only where there is no other, and
    the largest number is taken that does not part clearly more. A tree of rows by their nearest ones counts
    if it predicts clearly better with fewer classes: it does so with hundreds of classes of a few rows, too,
    which teach nothing.
    """
    coarse = {key for key in scores if shares[key] > limits.high}
    keys = sorted(scores, key=lambda key: (key in coarse, scores[key].log_loss))
    best = next(key for key in keys if key[0][1] == AVERAGE)
    fewer = [key for key in keys if key[0][1] != AVERAGE and (key[1] < best[1] or best[1] <= n_few)]
    is_by_nearest = bool(fewer) and fewer[0] not in coarse and scores[fewer[0]].is_ahead(scores[best], LEAD)
    best = fewer[0] if is_by_nearest else best
    tree, n_clusters = best
    small = next(key for key in keys if key[1] <= n_few and (is_by_nearest or key[0][1] == AVERAGE))
    if n_clusters <= n_few or not scores[best].is_ahead(scores[small], LEAD):
        return None
    equal = {
        key[1]: shares[key]
        for key in (fewer if is_by_nearest else keys)
        if key[0] == tree and key not in coarse and not scores[best].is_ahead(scores[key], CUT_TIE)
    }
    low = min(equal, default=n_clusters)
    large = max((count for count, value in equal.items() if value >= limits.low), default=low)
    return Cut(low, large, is_by_nearest=is_by_nearest)
