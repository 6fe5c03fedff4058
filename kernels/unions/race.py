"""What classes are made of, as annotations speak for it: subspace, components, covariance, proportions.

A `Structure` says in which coordinates the components of `kernels.unions.soft` stand, how many each class
has and of which shape. `choose_structure` ranks structures, coarse to fine, by how well short fits predict
annotations that they have not seen (docs/model.md, section 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.choice.held_out import (
    COIN,
    HELD_OUT,
    LEAST_PAIRS,
    UNSURE,
    Annotations,
    HeldOut,
    bar_of,
    below,
    list_annotations,
    without,
)
from sweep_clustering.kernels.fits import Gaussians, Runner
from sweep_clustering.kernels.problem.data import MUST, Floats, Layer, layer_weights
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import (
    AUTO,
    CANDIDATES,
    DISCRIMINATIVE,
    KMEANS,
    NONE,
    Structure,
    named_structure,
)
from sweep_clustering.kernels.unions.table import (
    COARSE_STEPS,
    FOLD_STEPS,
    CompactGaussians,
    Table,
    union_criteria,
)

# Components of each class at first.
COARSE = (1, 4, 16)

# Candidates whose neighbours are tried, and how often that is.
TOP = 5
TURNS = 2

# What is fitted along discriminative directions.
ALONG = (("full", 1), ("spherical", 4), ("tied", 1))

# Rank above which directions are looked for.
LEAST_RANK = 3

# Standard errors by which a candidate is behind the best, and the bar behind a candidate.
CLEAR = 2.0

# Standard errors that the best must be ahead of one with fewer components to be preferred to it.
TIMIDITY = 0.75

# Folds, in turn: who is behind after the first of them is tried no further, and neither are more than these.
LEFT = 10
RACE = ((0, 1), tuple(range(2, FOLDS)))

# Shares of a prediction that are due to the fit: it is never worse than the base rate.
SURE = np.linspace(0.0, 1.0, 21)

# Pairs whose shares are multiplied together: few enough that millions take no memory.
AT_ONCE = 2**16

# Predictions of the annotations of each fold, from the others.


class FoldPrediction(NamedTuple):
    """Probability that the samples of each held-out annotation are of one class, and accuracies of these."""

    together: Floats
    accuracies: Floats


class Tried(NamedTuple):
    """What is kept of a fit, its predictions by fold, and the fit itself if others start from it."""

    kept: CompactGaussians
    gaussians: Gaussians | None
    predictions: dict[int, FoldPrediction]


class Trials:
    """Candidates, and how well each predicts held-out annotations."""

    def __init__(self, table: Table, layers: Sequence[Layer], annotations: Annotations, run: Runner) -> None:
        self.table, self.layers, self.annotations, self.run = table, layers, annotations, run
        self.layers_of = [without(layers, annotations, annotations.folds == fold) for fold in range(FOLDS)]
        self.scores: dict[tuple[Structure, int], HeldOut] = {}  # by number of starts
        # by number of starts and fold; fits are those that others start from
        self.predictions: dict[tuple[Structure, int, int], FoldPrediction] = {}
        self.fits: dict[tuple[Structure, int, int], Gaussians] = {}
        self.rates = np.zeros(len(annotations.folds))
        for fold in range(FOLDS):
            tested = annotations.folds == fold
            weights = annotations.weights[~tested]
            must = weights @ annotations.is_must[~tested]
            self.rates[tested] = (must + 1.0) / (weights.sum() + 2.0)

    @property
    def base_rate(self) -> HeldOut:
        """Predictions by how often the annotations of the other folds are must-links."""
        return self._score(self.rates, self.rates, np.ones(len(self.rates), bool))

    def ranked(self, starts: int) -> list[Structure]:
        """Return the candidates that stayed to the end, the best first."""
        losses = {structure: score.log_loss for (structure, n), score in self.scores.items() if n == starts}
        return sorted(losses, key=lambda structure: losses[structure])

    def add(self, candidates: Iterable[Structure], starts: int, firsts: Sequence[Structure] = ()) -> None:
        """Predict with candidates, each from the best of some starts; those clearly behind end early.

        Fits take memory as large as the table times K: only those of `firsts`, which others start from, stay.
        """
        running = [
            structure for structure in dict.fromkeys(candidates) if (structure, starts) not in self.scores
        ]
        keys = dict.fromkeys(  # without repetition, as candidates share starts
            (structure.subspace, structure.components * self.table.n_classes, number)
            for structure in running
            for number in range(starts if structure.first is None else 0)
        )
        tuple(self.run(self.table.find_start, self.table.missing_starts(keys)))
        tested = np.zeros(len(self.annotations.folds), bool)
        for folds in RACE:
            work: list[tuple[Structure, int]] = [
                (structure, fold)
                for structure in running
                for fold in (folds if structure.annotated else (-1,))
                if (structure, starts, max(fold, 0)) not in self.predictions
            ]
            results = self.run(lambda pair: self._try(pair, starts, pair[0] in firsts), work)
            for (structure, fold), tried in zip(work, results, strict=True):
                for number, prediction in tried.predictions.items():
                    self.predictions[structure, starts, number] = prediction
                if tried.gaussians is not None:
                    self.fits[structure, starts, fold] = tried.gaussians
            tested |= np.isin(self.annotations.folds, folds)
            scores = {structure: self._score_of(structure, starts, tested) for structure in running}
            # of as many starts alone: fits from fewer may be better by chance, and all others would end
            before = [score for (_, number), score in self.scores.items() if number == starts]
            rivals = [*scores.values(), *(_selected(score, tested) for score in before)]
            best = min(rivals, key=lambda score: score.log_loss, default=None)
            if best is not None:
                running = [structure for structure in running if not _is_behind(scores[structure], best)]
            running = sorted(running, key=lambda structure: scores[structure].log_loss)[:LEFT]
        self.scores |= {(structure, starts): scores[structure] for structure in running}

    def _fit(self, structure: Structure, fold: int, starts: int) -> Gaussians:
        rng = np.random.default_rng(below(self.table.seed, HELD_OUT + 1 + FOLDS, starts))
        if not structure.annotated:
            return self.table.fit_features(structure)
        layers = self.layers_of[fold]
        if structure.first is not None:
            first = self.fits[structure.first, starts, fold]
            return self.table.solve(structure, layers, rng, steps=FOLD_STEPS, first=first)
        many, steps = structure.components * self.table.n_classes, FOLD_STEPS if starts > 1 else COARSE_STEPS
        labels = [self.table.start(structure.subspace, many, number) for number in range(starts)]
        fits = [self.table.solve(structure, layers, rng, steps=steps, labels=start) for start in labels]
        return max(fits, key=lambda fit: fit.bound)

    def _try(self, pair: tuple[Structure, int], starts: int, is_first: bool) -> Tried:
        structure, fold = pair
        fit, predictions = self._fit(structure, fold, starts), {}
        for number in (fold,) if structure.annotated else range(FOLDS):
            tested = self.annotations.folds == number
            together = alike(fit, self.annotations.pairs[tested])
            predictions[number] = FoldPrediction(together, self._accuracies(fit, tested))
        return Tried(CompactGaussians.of(fit), fit if is_first else None, predictions)

    def _score_of(self, structure: Structure, starts: int, tested: NDArray[np.bool_]) -> HeldOut:
        folds = self.annotations.folds
        together, accuracies = np.zeros((2, len(folds)))
        for fold in np.unique(folds[tested]).tolist():
            prediction = self.predictions[structure, starts, fold]
            together[folds == fold], accuracies[folds == fold] = prediction
        must = accuracies * together + (1.0 - accuracies) * (1.0 - together)
        return self._score(must, together, tested)

    def _score(self, must: Floats, together: Floats, tested: NDArray[np.bool_]) -> HeldOut:
        """Return predictions as sure of the fit as annotations bear out; the rest is the base rate."""
        whole, must = self.annotations, np.clip(must, UNSURE, 1.0 - UNSURE)[tested]
        mixed = SURE[:, None] * must + (1.0 - SURE[:, None]) * self.rates[tested]
        is_must, weights = whole.is_must[tested], whole.weights[tested]
        probabilities = np.where(is_must, mixed, 1.0 - mixed)
        sureness = int(np.argmax(np.log(probabilities) @ weights))
        best, right = probabilities[sureness], probabilities[sureness] > 0.5
        if SURE[sureness] == 0.0:
            # One answer for all: the rates of folds may lie on both sides of one half, each on the wrong one.
            right = is_must == (weights @ is_must > 0.5 * weights.sum())
        agreeing = np.where(is_must, together[tested], 1.0 - together[tested])
        return HeldOut(np.log(best), right, weights, agreeing)

    def _accuracies(self, fit: Gaussians, tested: NDArray[np.bool_]) -> Floats:
        whole = self.annotations
        accuracies, annotators = whole.accuracies[tested], whole.annotators[tested]
        unknown = np.isnan(accuracies)
        for annotator in np.unique(annotators[unknown]).tolist():
            accuracy = fit.accuracies.get(annotator)
            if accuracy is None:  # no annotation of theirs took part in the fit
                others = (whole.annotators == annotator) & ~tested
                weights, together = whole.weights[others], alike(fit, whole.pairs[others])
                right = np.where(whole.is_must[others], together, 1.0 - together) @ weights
                accuracy = max((float(right) + 1.0) / (float(weights.sum()) + 2.0), 0.5)
            accuracies[unknown & (annotators == annotator)] = accuracy
        return np.clip(accuracies, UNSURE, 1.0 - UNSURE)


def alike(fit: Gaussians, pairs: NDArray[np.integer]) -> Floats:
    """Return the probability that the two samples of each pair are of one class."""
    together = np.empty(len(pairs))
    for start in range(0, len(pairs), AT_ONCE):
        i, j = pairs[start : start + AT_ONCE].T
        together[start : start + AT_ONCE] = (fit.classes[i] * fit.classes[j]).sum(axis=1)
    return together


def _selected(score: HeldOut, tested: NDArray[np.bool_]) -> HeldOut:
    return HeldOut(
        score.log_probabilities[tested], score.right[tested], score.weights[tested], score.agreeing[tested]
    )


def _is_behind(score: HeldOut, best: HeldOut) -> bool:
    gain, error = best.gain_over(score)
    return gain > CLEAR * error


@dataclass(frozen=True, eq=False)
class Ranking:
    """Structures, the best first, and what spoke for them.

    Parameters
    ----------
    ranked : tuple of Structure
        The best first: where a fit of one falls short, the next is there.
    candidates : dict of Structure to HeldOut
        Candidates that predicted annotations.
    base_rate : HeldOut or None
        Predictions by how often annotations are must-links; None where annotations were not asked.
    note : str
        Why the features chose; empty if annotations did.
    """

    ranked: tuple[Structure, ...]
    candidates: dict[Structure, HeldOut]
    base_rate: HeldOut | None
    note: str = ""

    @property
    def credible(self) -> dict[Structure, HeldOut]:
        """Candidates that predict annotations no worse than a coin."""
        return {structure: score for structure, score in self.candidates.items() if score.log_loss <= COIN}


# Rounds, coarse to fine: each adds candidates to those that the rounds before it left.


class Choices(NamedTuple):
    """What a race is about: a table, and what is named, or "auto" where it is open."""

    table: Table
    components: int | str
    subspace: int | str
    covariance: str

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of components at first."""
        return COARSE if self.components == AUTO else (int(self.components),)

    @property
    def spaces(self) -> tuple[int | str, ...]:
        """Coordinates to try."""
        return self.table.dims if self.subspace == AUTO else (self.subspace,)

    @property
    def shapes(self) -> tuple[str, ...]:
        """Shapes to try."""
        return CANDIDATES if self.covariance == AUTO else (self.covariance,)

    @property
    def is_whole(self) -> bool:
        """Whether everything is open."""
        return (self.components, self.subspace, self.covariance) == (AUTO, AUTO, AUTO)

    @property
    def plain(self) -> list[Structure]:
        """The structure of each shape with what is named, and of what is open the simplest."""
        return [named_structure(self.subspace, self.components, shape) for shape in self.shapes]

    def firsts(self, trials: Trials) -> list[Structure]:
        """Return the best candidate of each of the best coordinates, which directions start from."""
        best = dict[int | str, Structure]()
        for structure in trials.ranked(1):
            best.setdefault(structure.subspace, structure)
        return list(best.values())[: self.table.close_look.firsts]


def _coarse(choices: Choices, trials: Trials) -> None:
    """Try all shapes and coordinates with few numbers of components."""
    table = choices.table
    spaces = tuple(space for space in choices.spaces if space != DISCRIMINATIVE) or table.dims
    grid = [
        Structure(space, many, shape)
        for space in spaces
        for shape in choices.shapes
        for many in choices.counts
        if choices.subspace != AUTO or not table.is_duplicate(Structure(space, many, shape))
    ]
    trials.add([structure for structure in grid if table.allows(structure)] or grid[:1], 1)


def _neighbours(choices: Choices, trials: Trials) -> None:
    """Try the best candidates with half and twice as many components."""
    for _ in range(TURNS if choices.components == AUTO else 0):
        near = (
            structure._replace(components=many)
            for structure in trials.ranked(1)[:TOP]
            for many in (structure.components // 2, structure.components * 2)
            if many >= 1
        )
        trials.add([structure for structure in near if choices.table.allows(structure)], 1)


def _closely(choices: Choices, trials: Trials) -> None:
    """Try the best candidates, and those that directions start from, again from several starts."""
    closely, firsts = choices.table.close_look, choices.firsts(trials)
    trials.add([*trials.ranked(1)[: closely.top], *firsts], closely.starts, firsts)


def _along_directions(choices: Choices, trials: Trials) -> None:
    """Try directions along which the classes of the best fits differ."""
    table, starts = choices.table, choices.table.close_look.starts
    if choices.subspace not in (AUTO, DISCRIMINATIVE):
        return
    if choices.subspace == AUTO and table.rank <= LEAST_RANK:
        return
    along = [
        (shape, many)
        for shape, many in ALONG
        if choices.covariance in (AUTO, shape) and choices.components in (AUTO, many)
    ] or [(shape, many) for shape in choices.shapes for many in choices.counts]
    firsts = [first for first in choices.firsts(trials) if (first, starts) in trials.scores]
    led = [Structure(DISCRIMINATIVE, many, shape, first=first) for first in firsts for shape, many in along]
    is_named = choices.components != AUTO
    trials.add([structure for structure in led if is_named or table.allows(structure)], starts)


def _without_annotations(choices: Choices, trials: Trials) -> None:
    """Try k-means and single Gaussians that do without annotations, where everything is open."""
    if choices.is_whole:
        trials.add(unsupervised(choices.table, choices.shapes), choices.table.close_look.starts)


ROUNDS = (_coarse, _neighbours, _closely, _along_directions, _without_annotations)


def choose_structure(
    table: Table,
    layers: Sequence[Layer],
    *,
    run: Runner = map,
    components: int | str = AUTO,
    subspace: int | str = AUTO,
    covariance: str = AUTO,
) -> Ranking:
    """Rank structures by how well they predict held-out annotations, coarse to fine.

    Where none predicts them better than how often they are must-links, and than a coin, by two standard
    errors, the features choose by BIC: of structures without annotations, if components and subspace are
    open too.

    Parameters
    ----------
    table : Table
        Features.
    layers : sequence of Layer
        Annotations.
    run : callable
        As `map`; calls may run at once.
    components, subspace, covariance : int or str
        The one there is, or "auto".

    Raises
    ------
    ValueError
        If there are more components than the samples allow.
    """
    choices = Choices(table, components, subspace, covariance)
    annotations = list_annotations(layers, table.seed)
    if annotations.n_pairs < LEAST_PAIRS:
        few = f"{annotations.n_pairs} annotated pairs are too few to choose by, {LEAST_PAIRS} are needed"
        few = few if annotations.n_pairs else "there are no annotations to choose by"
        alone = choices.plain
        if choices.is_whole:  # annotations take part in the final fit
            every = unsupervised(table, choices.shapes)
            alone = [structure for structure in every if structure.covariance != KMEANS]
        return _by_features(table, run, alone, few, annotated=True)
    trials = Trials(table, layers, annotations, run)
    for add_candidates in ROUNDS:
        add_candidates(choices, trials)
    return _judged(choices, trials)


def _judged(choices: Choices, trials: Trials) -> Ranking:
    """Rank what the rounds have left, if the best of it beats the base rate and a coin."""
    table, base, best = choices.table, trials.base_rate, trials.ranked(choices.table.close_look.starts)
    if choices.subspace == DISCRIMINATIVE:  # what it starts from is no candidate itself
        best = [structure for structure in best if structure.subspace == DISCRIMINATIVE]
        if not best:
            note = "the annotations are predicted clearly worse along discriminative directions than without"
            return Ranking(tuple(choices.plain), {}, base, note)
    candidates = {structure: trials.scores[structure, table.close_look.starts] for structure in best}
    leader, bar = candidates[best[0]], bar_of(base)
    if not _is_behind(bar.predictions, leader):
        losses = f"log loss {leader.log_loss:.3f} against {bar.predictions.log_loss:.3f}"
        why = f"no structure predicts the annotations better than {bar.words} ({losses})"
        is_whole = choices.is_whole
        every = unsupervised(table, choices.shapes) if is_whole else choices.plain
        ranking = _by_features(table, trials.run, every, why, annotated=not is_whole)
        return replace(ranking, candidates=candidates, base_rate=base)
    ranking = Ranking((), candidates, base)
    first = fewest_components(ranking.credible)
    return replace(ranking, ranked=(first, *(other for other in ranking.credible if other != first)))


def fewest_components(candidates: dict[Structure, HeldOut]) -> Structure:
    """Return the structure of the fewest components that the best is not ahead of; of several, the best."""
    best = min(candidates.values(), key=lambda score: score.log_loss)
    gains = {structure: best.gain_over(score) for structure, score in candidates.items()}
    as_good = [structure for structure, (gain, error) in gains.items() if gain <= TIMIDITY * error]
    return min(as_good, key=lambda structure: (structure.components, candidates[structure].log_loss))


def unsupervised(table: Table, shapes: Sequence[str]) -> list[Structure]:
    """Return structures of one component a class that do without annotations."""
    every = [Structure(NONE, 1, shape, annotated=False) for shape in (KMEANS, *shapes)]
    whole = [structure for structure in every if table.allows(structure)]
    whole = whole or every[:2]  # there has to be a candidate
    equal = [structure._replace(proportions="equal") for structure in whole if structure.covariance != KMEANS]
    return whole + equal


def _by_features(
    table: Table, run: Runner, every: Sequence[Structure], why: str, *, annotated: bool
) -> Ranking:
    """Rank structures by BIC of fits without annotations; they take part in the final fit if asked for."""
    ranked, note = list(every), why
    if len(every) > 1:
        for structure in every:  # not at once in several threads
            for number in range(table.close_look.starts if structure.first is None else 0):
                table.start(structure.subspace, structure.components * table.n_classes, number)
        fits = run(table.fit_features, every)
        bic = {
            structure: union_criteria(fit, table.X).bic for structure, fit in zip(every, fits, strict=True)
        }
        ranked.sort(key=lambda structure: -bic[structure])
        note = f"{why}: the features choose, by BIC: {ranked[0]}"
    return Ranking(tuple(structure._replace(annotated=annotated) for structure in ranked), {}, None, note)


# What fits are worth beside what their folds predicted.


def falls_short(fit: Gaussians, layers: Sequence[Layer], expected: HeldOut) -> str:
    """Return why a fit to all annotations is worse than those to the folds; empty if it is not.

    A fit agrees with the annotations that it saw at least as well as others with those that they did not.
    """
    agreeing, weights = list[Floats](), list[Floats]()
    for layer in layers:
        pairs = np.asarray(layer.pairs).reshape(-1, 2)
        used = pairs[:, 0] != pairs[:, 1]
        together = alike(fit, pairs[used])
        agreeing.append(together if layer.kind == MUST else 1.0 - together)
        weights.append(layer_weights(layer)[used])
    share = float(np.average(np.concatenate(agreeing), weights=np.concatenate(weights)))
    mean, error = _mean(expected.agreeing, expected.weights)
    if share >= mean - CLEAR * error:
        return ""
    return f"agrees with {share:.3f} of the annotations, where its folds predicted {mean:.3f}"


def _mean(values: Floats, weights: Floats) -> tuple[float, float]:
    """Return a weighted mean and its error."""
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.square(weights * (values - mean)).sum()) / weights.sum())


def best_so_far(table: Table, layers: Sequence[Layer], done: Sequence[tuple[Any, Any]]) -> Gaussians:
    """Return the best of the fits that a race had made when it was ended.

    Parameters
    ----------
    table : Table
        Features of the race.
    layers : sequence of Layer
        Annotations of the race.
    done : sequence of tuple
        Arguments and results of calls: a structure and a fold with a `Tried`, or a structure that features
        alone judge with its `Gaussians`.

    Returns
    -------
    Gaussians
        The best by BIC, if features judge; else a fit of the structure whose fits agree most, by the least
        that two standard errors leave of it, with annotations that they have not seen.
    """
    alone = [fit for _, fit in done if isinstance(fit, Gaussians)]
    if alone:
        return max(alone, key=lambda fit: union_criteria(fit, table.X).bic)
    annotations = list_annotations(layers, table.seed)
    fits: dict[Structure, list[CompactGaussians]] = {}
    agreeing: dict[Structure, list[tuple[Floats, Floats]]] = {}
    for (structure, _), tried in done:
        fits.setdefault(structure, []).append(tried.kept)
        for fold, prediction in tried.predictions.items():
            tested = annotations.folds == fold
            together = prediction.together
            values = np.where(annotations.is_must[tested], together, 1.0 - together)
            agreeing.setdefault(structure, []).append((values, annotations.weights[tested]))

    def least(structure: Structure) -> float:
        values, weights = map(np.concatenate, zip(*agreeing[structure], strict=True))
        mean, error = _mean(values, weights)
        return mean - CLEAR * error

    return max(fits[max(agreeing, key=least)], key=lambda kept: kept.gaussians.bound).whole()
