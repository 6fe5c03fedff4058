"""What classes are made of, as annotations speak for it: subspace, components, covariance, proportions.

A `Structure` says in which coordinates the components of `kernels.unions.soft` stand, how many each class
has and of which shape. `choose_structure` ranks structures, coarse to fine, by how well short fits predict
annotations that they have not seen (docs/model.md, section 12); `settle` fits the best of them.
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
    Kept,
    Table,
    union_criteria,
)

# Components of each class at first.
COARSE = (1, 4, 16)

# Candidates whose neighbours are tried, how often that is, and candidates that are looked at closely then.
TOP, TURNS = 5, 2

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


class Tried(NamedTuple):
    """What is kept of a fit, and the fit itself if others start from it.

    `said` has for each fold the probability that the samples of each held-out annotation are of one class,
    and the accuracies of these annotations.
    """

    kept: Kept
    solution: Gaussians | None
    said: dict[int, tuple[Floats, Floats]]


class Trials:
    """Candidates, and how well each predicts held-out annotations."""

    def __init__(self, table: Table, layers: Sequence[Layer], annotations: Annotations, run: Runner) -> None:
        self.table, self.layers, self.annotations, self.run = table, layers, annotations, run
        self.seen = [without(layers, annotations, annotations.folds == fold) for fold in range(FOLDS)]
        self.found: dict[tuple[Structure, int], HeldOut] = {}  # by number of starts
        # By fold, too: what a fit says of its held-out annotations, and those that others start from.
        self.predicted: dict[tuple[Structure, int, int], tuple[Floats, Floats]] = {}
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
        return self._predicted(self.rates, self.rates, np.ones(len(self.rates), bool))

    def ranked(self, starts: int) -> list[Structure]:
        """Candidates that stayed to the end, the best first."""
        scored = [(found.log_loss, each) for (each, number), found in self.found.items() if number == starts]
        return [each for _, each in sorted(scored, key=lambda one: one[0])]

    def add(self, candidates: Iterable[Structure], starts: int, firsts: Sequence[Structure] = ()) -> None:
        """Predict with candidates, each from the best of some starts; those clearly behind end early.

        Fits take memory as large as the table times K: only those of `firsts`, which others start from, stay.
        """
        running = [each for each in dict.fromkeys(candidates) if (each, starts) not in self.found]
        wanted = dict.fromkeys(  # each once, as candidates share them
            (each.subspace, each.components * self.table.n_classes, number)
            for each in running
            for number in range(starts if each.first is None else 0)
        )
        tuple(self.run(self.table.find_start, self.table.unseen(wanted)))
        tested = np.zeros(len(self.annotations.folds), bool)
        for folds in RACE:
            work: list[tuple[Structure, int]] = [
                (each, fold)
                for each in running
                for fold in (folds if each.annotated else (-1,))
                if (each, starts, max(fold, 0)) not in self.predicted
            ]
            done = self.run(lambda one: self._tried(one[0], one[1], starts, one[0] in firsts), work)
            for (each, fold), tried in zip(work, done, strict=True):
                self.predicted |= {(each, starts, own): said for own, said in tried.said.items()}
                if tried.solution is not None:
                    self.fits[each, starts, fold] = tried.solution
            tested |= np.isin(self.annotations.folds, folds)
            predicted = {each: self._predict(each, starts, tested) for each in running}
            # of as many starts alone: fits from fewer may be better by chance, and all others would end
            before = [each for (_, number), each in self.found.items() if number == starts]
            so_far = [*predicted.values(), *(_only(each, tested) for each in before)]
            best = min(so_far, key=lambda each: each.log_loss, default=None)
            running = [each for each in running if best is not None and not _is_behind(predicted[each], best)]
            running = sorted(running, key=lambda each: predicted[each].log_loss)[:LEFT]
        self.found |= {(each, starts): predicted[each] for each in running}

    def _fit(self, each: Structure, fold: int, starts: int) -> Gaussians:
        rng = np.random.default_rng(below(self.table.seed, HELD_OUT + 1 + FOLDS, starts))
        if not each.annotated:
            return self.table.of_features(each)
        layers = self.seen[fold]
        if each.first is not None:
            first = self.fits[each.first, starts, fold]
            return self.table.solve(each, layers, rng, steps=FOLD_STEPS, first=first)
        many, steps = each.components * self.table.n_classes, FOLD_STEPS if starts > 1 else COARSE_STEPS
        found = [
            self.table.solve(
                each, layers, rng, steps=steps, labels=self.table.start(each.subspace, many, number)
            )
            for number in range(starts)
        ]
        return max(found, key=lambda one: one.bound)

    def _tried(self, each: Structure, fold: int, starts: int, is_first: bool) -> Tried:
        fit = self._fit(each, fold, starts)
        said = {}
        for number in (fold,) if each.annotated else range(FOLDS):
            own = self.annotations.folds == number
            said[number] = alike(fit, self.annotations.pairs[own]), self._accuracies(fit, own)
        return Tried(Kept.of(fit), fit if is_first else None, said)

    def _predict(self, each: Structure, starts: int, tested: NDArray[np.bool_]) -> HeldOut:
        folds = self.annotations.folds
        together, accuracies = np.zeros((2, len(folds)))
        for fold in np.unique(folds[tested]).tolist():
            own = folds == fold
            together[own], accuracies[own] = self.predicted[each, starts, fold]
        must = accuracies * together + (1.0 - accuracies) * (1.0 - together)
        return self._predicted(must, together, tested)

    def _predicted(self, must: Floats, together: Floats, tested: NDArray[np.bool_]) -> HeldOut:
        """As sure of the fit as annotations bear out: the rest is how often they are must-links."""
        whole, must = self.annotations, np.clip(must, UNSURE, 1.0 - UNSURE)[tested]
        mixed = SURE[:, None] * must + (1.0 - SURE[:, None]) * self.rates[tested]
        is_must, weights = whole.is_must[tested], whole.weights[tested]
        told = np.where(is_must, mixed, 1.0 - mixed)
        sureness = int(np.argmax(np.log(told) @ weights))
        best, right = told[sureness], told[sureness] > 0.5
        if SURE[sureness] == 0.0:
            # One answer for all: the rates of folds may lie on both sides of one half, each on the wrong one.
            right = is_must == (weights @ is_must > 0.5 * weights.sum())
        agreeing = np.where(is_must, together[tested], 1.0 - together[tested])
        return HeldOut(np.log(best), right, weights, agreeing)

    def _accuracies(self, fit: Gaussians, tested: NDArray[np.bool_]) -> Floats:
        whole = self.annotations
        found, annotators = whole.accuracies[tested], whole.annotators[tested]
        unknown = np.isnan(found)
        for annotator in np.unique(annotators[unknown]).tolist():
            accuracy = fit.accuracies.get(annotator)
            if accuracy is None:  # the fit has not seen them
                seen = (whole.annotators == annotator) & ~tested
                weights, together = whole.weights[seen], alike(fit, whole.pairs[seen])
                right = np.where(whole.is_must[seen], together, 1.0 - together) @ weights
                accuracy = max((float(right) + 1.0) / (float(weights.sum()) + 2.0), 0.5)
            found[unknown & (annotators == annotator)] = accuracy
        return np.clip(found, UNSURE, 1.0 - UNSURE)


def alike(fit: Gaussians, pairs: NDArray[np.integer]) -> Floats:
    """Probability that the two samples of each pair are of one class."""
    found = np.empty(len(pairs))
    for start in range(0, len(pairs), AT_ONCE):
        i, j = pairs[start : start + AT_ONCE].T
        found[start : start + AT_ONCE] = (fit.classes[i] * fit.classes[j]).sum(axis=1)
    return found


def _only(found: HeldOut, kept: NDArray[np.bool_]) -> HeldOut:
    return HeldOut(
        found.log_probabilities[kept], found.right[kept], found.weights[kept], found.agreeing[kept]
    )


def _is_behind(found: HeldOut, best: HeldOut) -> bool:
    gain, error = best.gain_over(found)
    return gain > CLEAR * error


@dataclass(frozen=True, eq=False)
class Ranking:
    """Structures, the best first, and what spoke for them.

    Parameters
    ----------
    ranked : tuple of Structure
        The best first: where a fit of one falls short, the next is there.
    candidates : dict of Structure to HeldOut
        Those of them that predicted annotations.
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
        return {each: found for each, found in self.candidates.items() if found.log_loss <= COIN}


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
    annotations = list_annotations(layers, table.seed)
    counts = COARSE if components == AUTO else (int(components),)
    spaces = table.dims if subspace == AUTO else (subspace,)
    shapes = CANDIDATES if covariance == AUTO else (covariance,)
    is_whole = (components, subspace, covariance) == (AUTO, AUTO, AUTO)

    def allowed(candidates: Iterable[Structure]) -> list[Structure]:
        every = list(candidates)
        return [each for each in every if table.allows(each)] or every[:1]

    alone = [named_structure(subspace, components, shape) for shape in shapes]
    if annotations.n_pairs < LEAST_PAIRS:
        few = f"{annotations.n_pairs} annotated pairs are too few to choose by, {LEAST_PAIRS} are needed"
        few = few if annotations.n_pairs else "there are no annotations to choose by"
        if is_whole:  # annotations take part in the final fit
            alone = [each for each in unsupervised(table, shapes) if each.covariance != KMEANS]
        return _by_features(table, run, alone, few, annotated=True)
    trials = Trials(table, layers, annotations, run)
    inner = tuple(each for each in spaces if each != DISCRIMINATIVE)
    firsts_of = inner or table.dims
    grid = [Structure(space, many, shape) for space in firsts_of for shape in shapes for many in counts]
    open_to_doubles = subspace != AUTO
    trials.add(allowed(each for each in grid if open_to_doubles or not table.is_double(each)), 1)
    for _ in range(TURNS if components == AUTO else 0):
        near = (
            one._replace(components=many)
            for one in trials.ranked(1)[:TOP]
            for many in (one.components // 2, one.components * 2)
            if many >= 1
        )
        trials.add([each for each in near if table.allows(each)], 1)
    ranked, firsts = trials.ranked(1), list[Structure]()
    for one in ranked:
        if one.subspace not in [first.subspace for first in firsts] and len(firsts) < table.closely.firsts:
            firsts.append(one)
    starts = table.closely.starts
    trials.add([*ranked[: table.closely.top], *firsts], starts, firsts)
    if DISCRIMINATIVE in spaces or (subspace == AUTO and table.rank > LEAST_RANK):
        along = [
            (shape, many)
            for shape, many in ALONG
            if covariance in (AUTO, shape) and components in (AUTO, many)
        ] or [(shape, many) for shape in shapes for many in counts]
        kept = [one for one in firsts if (one, starts) in trials.found]
        led = [Structure(DISCRIMINATIVE, many, shape, first=one) for one in kept for shape, many in along]
        trials.add([each for each in led if components != AUTO or table.allows(each)], starts)
    if is_whole:
        trials.add(unsupervised(table, shapes), starts)
    best = trials.ranked(starts)
    if subspace == DISCRIMINATIVE:  # what it starts from is no candidate itself
        best = [one for one in best if one.subspace == DISCRIMINATIVE]
        if not best:
            note = "the annotations are predicted clearly worse along discriminative directions than without"
            return Ranking(tuple(alone), {}, trials.base_rate, note)
    candidates = {one: trials.found[one, starts] for one in best}
    base, leader = trials.base_rate, candidates[best[0]]
    bar = bar_of(base)
    if not _is_behind(bar.predictions, leader):
        losses = f"log loss {leader.log_loss:.3f} against {bar.predictions.log_loss:.3f}"
        why = f"no structure predicts the annotations better than {bar.words} ({losses})"
        every = unsupervised(table, shapes) if is_whole else alone
        chosen = _by_features(table, run, every, why, annotated=not is_whole)
        return replace(chosen, candidates=candidates, base_rate=base)
    choice = Ranking((), candidates, base)
    taken = fewest_components(choice.credible)
    return replace(choice, ranked=(taken, *(each for each in choice.credible if each != taken)))


def fewest_components(candidates: dict[Structure, HeldOut]) -> Structure:
    """The structure of the fewest components a class that the best is not ahead of; of these, the best."""
    best = min(candidates.values(), key=lambda each: each.log_loss)
    gains = {each: best.gain_over(found) for each, found in candidates.items()}
    as_good = [each for each, (gain, error) in gains.items() if gain <= TIMIDITY * error]
    return min(as_good, key=lambda each: (each.components, candidates[each].log_loss))


def unsupervised(table: Table, shapes: Sequence[str]) -> list[Structure]:
    """Structures of one component a class that do without annotations."""
    every = [Structure(NONE, 1, shape, annotated=False) for shape in (KMEANS, *shapes)]
    whole = [each for each in every if table.allows(each)] or every[:2]  # there has to be a candidate
    return whole + [each._replace(proportions="equal") for each in whole if each.covariance != KMEANS]


def _by_features(
    table: Table, run: Runner, every: Sequence[Structure], why: str, *, annotated: bool
) -> Ranking:
    """Rank structures by BIC of fits without annotations; they take part in the final fit if asked for."""
    ranked, note = list(every), why
    if len(every) > 1:
        for each in every:  # not at once in several threads
            for number in range(table.closely.starts if each.first is None else 0):
                table.start(each.subspace, each.components * table.n_classes, number)
        fits = run(table.of_features, every)
        scored = {each: union_criteria(fit, table.X).bic for each, fit in zip(every, fits, strict=True)}
        ranked.sort(key=lambda each: -scored[each])
        note = f"{why}: the features choose, by BIC: {ranked[0]}"
    return Ranking(tuple(each._replace(annotated=annotated) for each in ranked), {}, None, note)


def falls_short(fit: Gaussians, layers: Sequence[Layer], expected: HeldOut) -> str:
    """Why a fit to all annotations is worse than those to the folds; empty if it is not.

    A fit agrees with the annotations that it saw at least as well as others with those that they did not.
    """
    agreeing, weights = list[Floats](), list[Floats]()
    for layer in layers:
        pairs = np.asarray(layer.pairs).reshape(-1, 2)
        used = pairs[:, 0] != pairs[:, 1]
        together = alike(fit, pairs[used])
        agreeing.append(together if layer.kind == MUST else 1.0 - together)
        weights.append(layer_weights(layer)[used])
    found = float(np.average(np.concatenate(agreeing), weights=np.concatenate(weights)))
    gain, error = _gain(expected.agreeing, expected.weights)
    if found >= gain - CLEAR * error:
        return ""
    return f"agrees with {found:.3f} of the annotations, where its folds predicted {gain:.3f}"


def _gain(values: Floats, weights: Floats) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.square(weights * (values - mean)).sum()) / weights.sum())


def best_so_far(table: Table, layers: Sequence[Layer], done: Sequence[tuple[Any, Any]]) -> Gaussians:
    """The best of the fits that a choice had made when it was ended.

    Parameters
    ----------
    table : Table
        Features.
    layers : sequence of Layer
        Annotations that the model sees.
    done : sequence of tuple
        What was tried, and what was found: a structure and a fold, and a `Tried`; or a structure that
        features alone judge, and its `Gaussians`.

    Returns
    -------
    Gaussians
        By BIC, if features judge; else of the structure whose fits agree most, by the least that two standard
        errors leave of it, with annotations that they have not seen.
    """
    alone = [found for _, found in done if isinstance(found, Gaussians)]
    if alone:
        return max(alone, key=lambda one: union_criteria(one, table.X).bic)
    annotations = list_annotations(layers, table.seed)
    fits: dict[Structure, list[Kept]] = {}
    agreeing: dict[Structure, list[tuple[Floats, Floats]]] = {}
    for (structure, _), tried in done:
        fits.setdefault(structure, []).append(tried.kept)
        for fold, (together, _) in tried.said.items():
            own = annotations.folds == fold
            values = np.where(annotations.is_must[own], together, 1.0 - together)
            agreeing.setdefault(structure, []).append((values, annotations.weights[own]))

    def least(structure: Structure) -> float:
        values, weights = map(np.concatenate, zip(*agreeing[structure], strict=True))
        mean, error = _gain(values, weights)
        return mean - CLEAR * error

    return max(fits[max(agreeing, key=least)], key=lambda one: one.gaussians.bound).whole()
