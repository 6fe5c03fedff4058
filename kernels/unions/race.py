"""The race of structures: subspace, components, covariance and proportions that predict annotations best.

`choose_structure` ranks structures, coarse to fine, by how well short fits (`kernels.unions.soft`) predict
annotations that they have not seen (docs/model.md, section 12).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels import choice
from sweep_clustering.kernels.fits import Gaussians, Runner
from sweep_clustering.kernels.problem.data import Floats, Layer, link
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import (
    AUTO,
    CANDIDATES,
    DISCRIMINATIVE,
    FIRST_ODDS,
    KMEANS,
    NONE,
    Structure,
    named_structure,
)
from sweep_clustering.kernels.unions.table import COARSE_STEPS, FOLD_RISE, FOLD_STEPS, CompactGaussians, Table

# Numbers of components of each class at first.
COARSE = (1, 4, 16)

# Candidates whose neighbours are tried.
TOP = 5

# Times that neighbours are tried.
TURNS = 2

# Shapes and numbers of components along discriminative directions.
DIRECTION_SHAPES = (("full", 1), ("spherical", 4), ("tied", 1))

# Rank above which discriminative directions are tried.
LEAST_RANK = 3

# Standard errors by which a candidate is behind the best, or the bar behind a candidate.
CLEAR = 2.0

# Standard errors by which the best must be ahead of one with fewer components, and an assumed accuracy of all
# that estimate it.
TIMIDITY = 0.75

# Most candidates that are tried on further folds.
LIMIT = 10

# Candidates that are tried with each accuracy of answers if none is given.
ASSUMED = 3

# Folds in turn: candidates that are behind after the first of them are tried no further.
RACE = ((0, 1), tuple(range(2, FOLDS)))

# Shares of the fit in a prediction; the rest is the base rate, so that no prediction is worse than that.
SHARES = np.linspace(0.0, 1.0, 21)

# Pairs that are computed together, so few that millions of pairs take no memory.
AT_ONCE = 2**16


class FoldPrediction(NamedTuple):
    """Probability that the samples of each held-out annotation are of one class, and that it is a must-link.

    `labels` are those of all samples in the fit that predicts.
    """

    shares: Floats
    must_shares: Floats
    labels: NDArray[np.int16]


class Trial(NamedTuple):
    """The best fit in little memory, predictions by fold, and the fits by fold if others start from them."""

    compact: CompactGaussians
    gaussians: dict[int, Gaussians]
    predictions: dict[int, FoldPrediction]


class Trials:
    """Candidates, and their predictions of held-out annotations."""

    def __init__(
        self, table: Table, layers: Sequence[Layer], annotations: choice.Annotations, run: Runner
    ) -> None:
        self.table, self.layers, self.annotations, self.run = table, layers, annotations, run
        training = [choice.training_layers(layers, annotations, fold) for fold in range(FOLDS)]
        self.links = [link(layers_of_fold, len(table.X)) for layers_of_fold in training]
        self.scores: dict[tuple[Structure, int], choice.HeldOut] = {}  # by number of starts
        # by number of starts and fold; the fits are those that others start from
        self.predictions: dict[tuple[Structure, int, int], FoldPrediction] = {}
        self.fits: dict[tuple[Structure, int, int], Gaussians] = {}
        self.rates = np.zeros(len(annotations.folds))
        for fold in range(FOLDS):
            is_tested = annotations.folds == fold
            weights = annotations.weights[~is_tested]
            must_weight = weights @ annotations.is_must[~is_tested]
            self.rates[is_tested] = (must_weight + 1.0) / (weights.sum() + 2.0)

    @property
    def base_rate(self) -> choice.HeldOut:
        """Predictions by how often the annotations of the other folds are must-links."""
        return self._score(self.rates, self.rates, np.ones(len(self.rates), bool))

    def ranked_structures(self, starts: int) -> list[Structure]:
        """Return the candidates that stayed to the end, the best first."""
        losses = {structure: score.log_loss for (structure, n), score in self.scores.items() if n == starts}
        return sorted(losses, key=lambda structure: losses[structure])

    def add(self, candidates: Iterable[Structure], starts: int, parents: Sequence[Structure] = ()) -> None:
        """Predict with candidates, each from the best of some starts, until they are clearly behind."""
        entrants = [
            structure for structure in dict.fromkeys(candidates) if (structure, starts) not in self.scores
        ]
        self.table.find_starts(entrants, starts, self.run)
        is_tested = np.zeros(len(self.annotations.folds), bool)
        for folds in RACE:
            work = [
                (structure, folds)
                for structure in entrants
                if (structure, starts, folds[0]) not in self.predictions
            ]
            # a fit takes as much memory as the table times K: only those that others start from stay
            results = self.run(lambda pair: self._trial(pair[0], pair[1], starts, pair[0] in parents), work)
            for (structure, _), trial in zip(work, results, strict=True):
                for number, prediction in trial.predictions.items():
                    self.predictions[structure, starts, number] = prediction
                for fold, fit in trial.gaussians.items():
                    self.fits[structure, starts, fold] = fit
            is_tested |= np.isin(self.annotations.folds, folds)
            scores = {structure: self._score_of(structure, starts, is_tested) for structure in entrants}
            # rivals have as many starts: fits from fewer may be better by chance, and all others would end
            earlier_scores = [score for (_, number), score in self.scores.items() if number == starts]
            rivals = [*scores.values(), *(_selected(score, is_tested) for score in earlier_scores)]
            best = min(rivals, key=lambda score: score.log_loss, default=None)
            if best is not None:
                entrants = [
                    structure for structure in entrants if not best.is_ahead(scores[structure], CLEAR)
                ]
            entrants = sorted(entrants, key=lambda structure: scores[structure].log_loss)[:LIMIT]
        self.scores |= {(structure, starts): scores[structure] for structure in entrants}

    def _fits(self, structure: Structure, folds: Sequence[int], starts: int) -> dict[int, Gaussians]:
        """Return the best fit without the annotations of each fold; all folds share the first steps."""
        if not structure.annotated:
            return dict.fromkeys(range(FOLDS), self.table.fit_features(structure))
        key = choice.child_seed(self.table.seed, choice.HELD_OUT + 1 + FOLDS, starts)
        rngs, fits = {fold: np.random.default_rng(key) for fold in folds}, dict[int, Gaussians]()
        if structure.first is not None:
            for fold, rng in rngs.items():
                first, links = self.fits[structure.first, starts, fold], self.links[fold]
                fits[fold] = self.table.solve(
                    structure, links, rng, steps=FOLD_STEPS, rise=FOLD_RISE, first=first
                )
            return fits
        steps, count = FOLD_STEPS if starts > 1 else COARSE_STEPS, structure.components * self.table.n_classes
        for number in range(starts):
            beginning = self.table.begin(structure, self.table.start(structure.subspace, count, number))
            for fold, rng in rngs.items():
                fit = self.table.finish(structure, beginning, self.links[fold], rng, steps, FOLD_RISE)
                if fold not in fits or fit.bound > fits[fold].bound:
                    fits[fold] = fit
        return fits

    def _trial(self, structure: Structure, folds: Sequence[int], starts: int, is_first: bool) -> Trial:
        fits, predictions = self._fits(structure, folds, starts), dict[int, FoldPrediction]()
        for fold, fit in fits.items():
            is_tested = self.annotations.folds == fold
            shares = joint_shares(fit, self.annotations.pairs[is_tested])
            predictions[fold] = FoldPrediction(shares, self._must_shares(fit, is_tested, shares), fit.labels)
        best = max(fits.values(), key=lambda fit: fit.bound)
        return Trial(CompactGaussians.from_gaussians(best), fits if is_first else {}, predictions)

    def _score_of(self, structure: Structure, starts: int, is_tested: NDArray[np.bool_]) -> choice.HeldOut:
        folds = self.annotations.folds
        shares, must_shares = np.zeros((2, len(folds)))
        for fold in np.unique(folds[is_tested]).tolist():
            prediction = self.predictions[structure, starts, fold]
            shares[folds == fold], must_shares[folds == fold] = prediction.shares, prediction.must_shares
        return self._score(must_shares, shares, is_tested)

    def _score(self, must_shares: Floats, shares: Floats, is_tested: NDArray[np.bool_]) -> choice.HeldOut:
        """Return predictions that mix the fit and the base rate in the best shares for the annotations."""
        must_shares = np.clip(must_shares, choice.UNSURE, 1.0 - choice.UNSURE)[is_tested]
        mixtures = SHARES[:, None] * must_shares + (1.0 - SHARES[:, None]) * self.rates[is_tested]
        is_must, weights = self.annotations.is_must[is_tested], self.annotations.weights[is_tested]
        probabilities = np.where(is_must, mixtures, 1.0 - mixtures)
        sureness = int(np.argmax(np.log(probabilities) @ weights))
        best, right = probabilities[sureness], probabilities[sureness] > 0.5
        if SHARES[sureness] == 0.0:
            # a single answer for all: rates of folds may lie on both sides of one half, each on the wrong one
            right = is_must == (weights @ is_must > 0.5 * weights.sum())
        agreements = np.where(is_must, shares[is_tested], 1.0 - shares[is_tested])
        units = None if self.annotations.units is None else self.annotations.units[is_tested]
        return choice.HeldOut(np.log(best), right, weights, agreements, units)

    def _must_shares(self, fit: Gaussians, is_tested: NDArray[np.bool_], shares: Floats) -> Floats:
        is_training = self.annotations.of_unknown_accuracy & ~is_tested
        training_shares = joint_shares(fit, self.annotations.pairs[is_training])
        return choice.must_probabilities(self.annotations, is_tested, shares, is_training, training_shares)


def joint_shares(fit: Gaussians, pairs: NDArray[np.integer]) -> Floats:
    """Return the probability that the two samples of each pair are of one class."""
    probabilities = np.empty(len(pairs))
    for start in range(0, len(pairs), AT_ONCE):
        i, j = pairs[start : start + AT_ONCE].T
        probabilities[start : start + AT_ONCE] = (fit.classes[i] * fit.classes[j]).sum(axis=1)
    return probabilities


def _selected(score: choice.HeldOut, is_tested: NDArray[np.bool_]) -> choice.HeldOut:
    return replace(
        score,
        log_probabilities=score.log_probabilities[is_tested],
        right=score.right[is_tested],
        weights=score.weights[is_tested],
        agreements=score.agreements[is_tested],
        units=None if score.units is None else score.units[is_tested],
    )


@dataclass(frozen=True, eq=False)
class Ranking:
    """Structures from the best on, and the predictions of candidates.

    Parameters
    ----------
    structures : tuple of Structure
        Structures from the best on; if a fit of one falls short, the next is used.
    candidates : dict of Structure to HeldOut
        Predictions by each candidate.
    base_rate : HeldOut or None
        Predictions by how often annotations are must-links; None if annotations had no part in the choice.
    note : str
        Reason why the features chose; empty if annotations did.
    skills : mapping of Structure to Skill
        Predictions beside distance, if merged groups were compared.
    partitions : mapping of Structure to sequence of ndarray of shape (n_samples,), int16
        Labels to average: those of the fits without each fold, by candidates that answers take part in, or
        those of the fit to the features, by candidates that do without answers, where classes are many.
    """

    structures: tuple[Structure, ...]
    candidates: dict[Structure, choice.HeldOut]
    base_rate: choice.HeldOut | None
    note: str = ""
    skills: Mapping[Structure, choice.Skill] = field(default_factory=dict)
    partitions: Mapping[Structure, Sequence[NDArray[np.int16]]] = field(default_factory=dict)

    @property
    def credible_scores(self) -> dict[Structure, choice.HeldOut]:
        """Candidates that predict annotations no worse than a coin."""
        return {
            structure: score for structure, score in self.candidates.items() if score.log_loss <= choice.COIN
        }


# Rounds from coarse to fine, each of which adds candidates.


class Choices(NamedTuple):
    """The table of a race, and the parts of structures: a name, or "auto" if the part is open."""

    table: Table
    components: int | str
    subspace: int | str
    covariance: str
    odds: Sequence[float]

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
    def is_open(self) -> bool:
        """Whether everything is open."""
        return (self.components, self.subspace, self.covariance) == (AUTO, AUTO, AUTO)

    @property
    def plain_structures(self) -> list[Structure]:
        """The structure of each shape with the parts that are named, and the simplest of the open ones."""
        return [named_structure(self.subspace, self.components, shape) for shape in self.shapes]

    def parents(self, trials: Trials) -> list[Structure]:
        """Return the best candidate of each of the best coordinates, which directions start from."""
        best = dict[int | str, Structure]()
        for structure in trials.ranked_structures(1):
            best.setdefault(structure.subspace, structure)
        return list(best.values())[: self.table.close_look.parents]


def _add_coarse(choices: Choices, trials: Trials) -> None:
    """Try all shapes and coordinates with few numbers of components."""
    table = choices.table
    spaces = tuple(space for space in choices.spaces if space != DISCRIMINATIVE) or table.dims
    grid = [
        Structure(space, count, shape)
        for space in spaces
        for shape in choices.shapes
        for count in choices.counts
        if choices.subspace != AUTO or not table.is_duplicate(Structure(space, count, shape))
    ]
    trials.add([structure for structure in grid if table.allows(structure)] or grid[:1], 1)


def _add_neighbours(choices: Choices, trials: Trials) -> None:
    """Try the best candidates with half and twice as many components."""
    for _ in range(TURNS if choices.components == AUTO else 0):
        neighbours = (
            structure._replace(components=count)
            for structure in trials.ranked_structures(1)[:TOP]
            for count in (structure.components // 2, structure.components * 2)
            if count >= 1
        )
        trials.add([structure for structure in neighbours if choices.table.allows(structure)], 1)


def _look_closely(choices: Choices, trials: Trials) -> None:
    """Try the best candidates, and those that directions start from, again from several starts."""
    look, parents = choices.table.close_look, choices.parents(trials)
    trials.add([*trials.ranked_structures(1)[: look.top], *parents], look.starts, parents)


def _add_directions(choices: Choices, trials: Trials) -> None:
    """Try directions along which the classes of the best fits differ."""
    table, starts = choices.table, choices.table.close_look.starts
    if choices.subspace not in (AUTO, DISCRIMINATIVE):
        return
    if choices.subspace == AUTO and table.rank <= LEAST_RANK:
        return
    shapes = [
        (shape, count)
        for shape, count in DIRECTION_SHAPES
        if choices.covariance in (AUTO, shape) and choices.components in (AUTO, count)
    ] or [(shape, count) for shape in choices.shapes for count in choices.counts]
    parents = [parent for parent in choices.parents(trials) if (parent, starts) in trials.scores]
    candidates = [
        Structure(DISCRIMINATIVE, n, shape, first=parent) for parent in parents for shape, n in shapes
    ]
    is_named = choices.components != AUTO
    trials.add([structure for structure in candidates if is_named or table.allows(structure)], starts)


def _add_assumptions(choices: Choices, trials: Trials) -> None:
    """Try the best candidates again with each accuracy of answers in place of an estimate of it.

    A low estimate confirms itself. Several annotators are estimated, because they differ.
    """
    starts, annotations = choices.table.close_look.starts, trials.annotations
    if len(np.unique(annotations.annotators[annotations.of_unknown_accuracy])) == 1:
        best = trials.ranked_structures(starts)[:ASSUMED]
        trials.add([structure._replace(odds=odds) for structure in best for odds in choices.odds], starts)


def _add_unsupervised(choices: Choices, trials: Trials) -> None:
    """Try k-means and single Gaussians that do without annotations, if everything is open."""
    if choices.is_open:
        trials.add(unsupervised(choices.table, choices.shapes), choices.table.close_look.starts)


ROUNDS = (_add_coarse, _add_neighbours, _look_closely, _add_directions, _add_assumptions, _add_unsupervised)


def choose_structure(
    table: Table,
    layers: Sequence[Layer],
    *,
    run: Runner = map,
    components: int | str = AUTO,
    subspace: int | str = AUTO,
    covariance: str = AUTO,
    odds: Sequence[float] = FIRST_ODDS,
) -> Ranking:
    """Rank structures by how well they predict held-out annotations, coarse to fine.

    If no structure predicts them better than a coin and the share of must-links do, by two standard errors,
    the features choose by BIC. Candidates are then structures without annotations, if everything is open.

    Parameters
    ----------
    table : Table
        Features.
    layers : sequence of Layer
        Annotations.
    run : callable
        Function that works as `map` does; its calls may run at the same time.
    components, subspace, covariance : int or str
        Parts of the structures, or "auto".
    odds : sequence of float
        Log odds, nats, to try for answers whose accuracy is not given.

    Raises
    ------
    ValueError
        If there are more components than the samples allow.
    """
    choices = Choices(table, components, subspace, covariance, odds)
    annotations = choice.list_annotations(layers, table.seed)
    if annotations.lack:
        structures = choices.plain_structures
        if choices.is_open:  # annotations then take part in the final fit
            structures = unsupervised(table, choices.shapes)
            structures = [structure for structure in structures if structure.covariance != KMEANS]
        return _by_features(table, run, structures, annotations.lack, is_annotated=True)
    trials = Trials(table, layers, annotations, run)
    for add_candidates in ROUNDS:
        add_candidates(choices, trials)
    return _ranking(choices, trials)


def _ranking(choices: Choices, trials: Trials) -> Ranking:
    """Rank the candidates of all rounds, by the features if the best does not beat the bar."""
    table, base, starts = choices.table, trials.base_rate, choices.table.close_look.starts
    structures = trials.ranked_structures(starts)
    if choices.subspace == DISCRIMINATIVE:  # the first fits are no candidates
        structures = [structure for structure in structures if structure.subspace == DISCRIMINATIVE]
        if not structures:
            note = "the annotations are predicted clearly worse along discriminative directions than without"
            return Ranking(tuple(choices.plain_structures), {}, base, note)
    candidates = {structure: trials.scores[structure, starts] for structure in structures}
    candidates = without_weak_assumptions(candidates)
    structures = list(candidates)
    bar, is_labelled = choice.bar_of(base), trials.annotations.are_of_labels
    leader, is_open = candidates[structures[0]], choices.is_open
    # few labels leave a wide margin, but they cannot be of other rows as pairs can be
    margin = 0.0 if is_labelled else CLEAR
    if not leader.is_ahead(bar.predictions, margin):
        losses = f"log loss {leader.log_loss:.3f} against {bar.predictions.log_loss:.3f}"
        better = "clearly better" if leader.is_ahead(bar.predictions, 0.0) else "better"
        reason = f"no structure predicts the annotations {better} than {bar.words} ({losses})"
        structures = unsupervised(table, choices.shapes) if is_open else choices.plain_structures
        if is_labelled:  # labels take part in the final fit
            structures = [structure for structure in structures if structure.covariance != KMEANS]
        ranking = _by_features(table, trials.run, structures, reason, is_annotated=is_labelled or not is_open)
        return replace(ranking, candidates=candidates, base_rate=base)
    partitions = {
        structure: [trials.predictions[structure, starts, fold].labels for fold in range(FOLDS)]
        for structure in candidates
        if structure.annotated
    }
    ranking = Ranking((), candidates, base, partitions=partitions)
    first = fewest_components(ranking.credible_scores)
    return replace(ranking, structures=tuple(dict.fromkeys((first, *ranking.credible_scores))))


def without_weak_assumptions(candidates: dict[Structure, choice.HeldOut]) -> dict[Structure, choice.HeldOut]:
    """Leave out assumed accuracies that predict hardly better than the best structure with an estimate."""
    best = next(iter(score for structure, score in candidates.items() if not structure.odds), None)
    return {
        structure: score
        for structure, score in candidates.items()
        if best is None or not structure.odds or score.is_ahead(best, TIMIDITY)
    }


def fewest_components(candidates: dict[Structure, choice.HeldOut]) -> Structure:
    """Return the structure of the fewest components, and the best of these, that is as good as the best."""
    best = min(candidates.values(), key=lambda score: score.log_loss)
    gains = {structure: best.gain_over(score) for structure, score in candidates.items()}
    as_good = [structure for structure, (gain, error) in gains.items() if gain <= TIMIDITY * error]
    return min(as_good, key=lambda structure: (structure.components, candidates[structure].log_loss))


def unsupervised(table: Table, shapes: Sequence[str]) -> list[Structure]:
    """Return structures of one component a class that do without annotations."""
    structures = [Structure(NONE, 1, shape, annotated=False) for shape in (KMEANS, *shapes)]
    affordable = [structure for structure in structures if table.allows(structure)] or structures[:2]
    gaussians = [structure for structure in affordable if structure.covariance != KMEANS]
    return affordable + [structure._replace(proportions="equal") for structure in gaussians]


def choose_by_features(table: Table, run: Runner = map) -> Ranking:
    """Rank structures without annotations, for merged groups to be compared with."""
    reason = f"each of {table.n_classes} classes has few annotations"
    ranking = _by_features(table, run, unsupervised(table, CANDIDATES), reason, is_annotated=False)
    partitions = {structure: (table.fit_features(structure).labels,) for structure in ranking.structures}
    return replace(ranking, partitions=partitions)


def _by_features(
    table: Table, run: Runner, candidates: Sequence[Structure], reason: str, *, is_annotated: bool
) -> Ranking:
    """Rank structures by BIC of fits without annotations, which may take part in the final fit."""
    order, note = list(candidates), reason
    if len(candidates) > 1:
        table.find_starts(candidates, table.close_look.starts, run)
        fits = run(table.fit_features, candidates)
        bic = {structure: table.criteria(fit).bic for structure, fit in zip(candidates, fits, strict=True)}
        order.sort(key=lambda structure: -bic[structure])
        note = f"{reason}: the features choose, by BIC: {order[0]}"
    return Ranking(tuple(structure._replace(annotated=is_annotated) for structure in order), {}, None, note)


# Fits to all annotations, compared with the predictions of folds.


def falls_short(fit: Gaussians, annotations: choice.Annotations, expected: choice.HeldOut) -> str:
    """Return why a fit to all annotations is worse than those to the folds; empty if it is not.

    A good fit agrees with its annotations as well as fits to folds do with those that they have not seen.
    """
    probabilities = joint_shares(fit, annotations.pairs)
    agreements = np.where(annotations.is_must, probabilities, 1.0 - probabilities)
    share = float(np.average(agreements, weights=annotations.weights))
    mean = float(np.average(expected.agreements, weights=expected.weights))
    error = expected.error_of(expected.weights * (expected.agreements - mean)) / expected.weights.sum()
    if share >= mean - CLEAR * error:
        return ""
    return f"agrees with {share:.3f} of the annotations, where its folds predicted {mean:.3f}"


def best_so_far(table: Table, layers: Sequence[Layer], calls: Sequence[tuple[Any, Any]]) -> Gaussians:
    """Return the best fit of a race that was interrupted.

    Parameters
    ----------
    table : Table
        Features of the race.
    layers : sequence of Layer
        Annotations of the race.
    calls : sequence of tuple
        Arguments and results of calls: a structure and a fold with a `Trial`, or a structure with its
        `Gaussians` if the features choose.

    Returns
    -------
    Gaussians
        Best fit by BIC if the features choose. Otherwise a fit of the structure whose fits agree most, less
        two standard errors, with annotations that they have not seen.
    """
    feature_fits = [fit for _, fit in calls if isinstance(fit, Gaussians)]
    if feature_fits:
        return max(feature_fits, key=lambda fit: table.criteria(fit).bic)
    annotations = choice.list_annotations(layers, table.seed)
    fits: dict[Structure, list[CompactGaussians]] = {}
    agreements: dict[Structure, list[tuple[Floats, Floats]]] = {}
    for (structure, _), trial in calls:
        fits.setdefault(structure, []).append(trial.compact)
        for fold, prediction in trial.predictions.items():
            is_tested = annotations.folds == fold
            values = np.where(annotations.is_must[is_tested], prediction.shares, 1.0 - prediction.shares)
            agreements.setdefault(structure, []).append((values, annotations.weights[is_tested]))

    def lower_bound(structure: Structure) -> float:
        values, weights = map(np.concatenate, zip(*agreements[structure], strict=True))
        mean = float(np.average(values, weights=weights))
        error = float(np.sqrt(np.square(weights * (values - mean)).sum()) / weights.sum())
        return mean - CLEAR * error

    return max(fits[max(agreements, key=lower_bound)], key=lambda fit: fit.gaussians.bound).to_gaussians()
