"""The solvers of each kind of clusters, and one around either that makes results obey hard links.

`docs/model.md`, sections 2 to 9, has clusters of one Gaussian each, section 12 the classes that are unions of
Gaussians, or stand in a subspace, and section 6 the hard links.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray
from scipy.special import entr

from sweep_clustering.kernels.choice import (
    HELD_OUT,
    LEAST_PAIRS,
    Criteria,
    HeldOut,
    child_seed,
    choose_covariance,
    criteria,
    list_annotations,
    some_rows,
    warm_up,
)
from sweep_clustering.kernels.fits import Fit, Floats, Gaussians, Runner, assignment_costs
from sweep_clustering.kernels.problem.data import MUST, Layer, layer_weights
from sweep_clustering.kernels.problem.hard import group_samples, has_hard_links
from sweep_clustering.kernels.problem.problem import Problem, build_problem
from sweep_clustering.kernels.search import genetic
from sweep_clustering.kernels.search.sampling import Length, run_chain
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.solver.contract import UNSUPERVISED, Choice, Draws, Effort, Model, Part, Solver
from sweep_clustering.kernels.structure import (
    ANY,
    AUTO,
    CANDIDATES,
    FIRST_ODDS,
    KMEANS,
    MANY_CLASSES,
    MERGED_KINDS,
    NONE,
    ODDS,
    ONE_GAUSSIAN,
    SIGNED,
    UNION,
    Structure,
    merged_structures,
    named_structure,
    part_size,
)
from sweep_clustering.kernels.unions import race, soft
from sweep_clustering.kernels.unions.contest import MEMBERS, rank_with_groups
from sweep_clustering.kernels.unions.table import FOLD_STEPS, Table, as_fit

# Clusters of one Gaussian each: a hybrid genetic search.

# Number of chains that draws come from.
CHAINS = 4

# Nats below the best fit, up to which another fit starts a chain.
REACH = 10.0


class Clusters(Solver):
    """Solver that runs the genetic search, with a shape of covariances that is named or chosen."""

    def set_up(self) -> None:
        """Lay out the problem, with the simplest shape if the shape is open."""
        is_auto = self.model.covariance == AUTO
        self.problem = self._problem(CANDIDATES[0] if is_auto else self.model.covariance)
        self._choice = self._choice_of({})

    def _problem(self, covariance: str) -> Problem:
        return build_problem(
            self.X,
            self.layers,
            n_clusters=self.n_clusters,
            model=self.model.term,
            covariance=covariance,
            settings=self.model.settings,
        )

    @property
    def feature_weight(self) -> float:
        """Weight of the features in the objective, a number even if the setting is "effective"."""
        return self.problem.data.feature_weight

    @property
    def features_used(self) -> NDArray[np.int64]:
        """Numbers of the features in which the Gaussians have a density."""
        return self.problem.dims

    def warm_up(self, *, predict: bool = False) -> None:
        """Load or compile the search, and the predictions of annotations if they are needed."""
        genetic.warm_up()
        if (predict or self.model.is_open) and len(self.problem.data.annotated):
            warm_up()

    def choose(
        self, streams: Sequence[SeedSequence] = (), *, predict: bool = False, part: Part | None = None
    ) -> Choice:
        """Choose the shape that predicts held-out annotations best, or measure how well one does."""
        is_open, shapes = self.model.is_open, CANDIDATES if self.model.is_open else (self.model.covariance,)
        shape, candidates, note = shapes[0], dict[str, HeldOut](), ""
        if is_open or predict:
            X, layers = part or (self.X, self.layers)
            choice = choose_covariance(
                X,
                layers,
                n_clusters=self.n_clusters,
                model=self.model.term,
                settings=self.model.settings,
                seed=self.seed,
                candidates=shapes,
            )
            shape, candidates, note = choice.covariance, choice.candidates, choice.note
        if shape != self.problem.covariance:
            self.problem = self._problem(shape)
        self._choice = self._choice_of(candidates, (note,) if note and is_open else ())
        return self._choice

    def _choice_of(self, candidates: dict[str, HeldOut], notes: tuple[str, ...] = ()) -> Choice:
        shape = self.problem.covariance
        return Choice(shape, Structure(NONE, 1, shape).words, shape, shape, candidates, notes=notes)

    def restart(self, stream: SeedSequence, start: NDArray[np.int16] | None = None) -> Fit:
        """Run the search once; the first solution may come from a partition."""
        return genetic.run_restart(self.problem, self.model.settings, default_rng(stream), start)

    def draws(self, fits: Sequence[Fit], best: int, stream: SeedSequence, effort: Effort) -> Draws:
        """Run chains from the best distinct fits in turn (docs/model.md, section 9)."""
        starts, labels = distinct_fits(fits, best), fits[best].labels
        length = Length(effort.burn_in, max(2, effort.n_draws // CHAINS), effort.thin)
        chains = [
            run_chain(
                self.problem,
                starts[chain % len(starts)].labels,
                labels,
                length,
                default_rng(child_seed(stream, chain)),
            )
            for chain in range(CHAINS)
        ]
        return Draws(
            labels=np.array([chain.labels for chain in chains]),
            objectives=np.array([chain.objectives for chain in chains]),
            starts=min(len(starts), CHAINS),
        )

    def evidence(self, fit: Fit, samples: NDArray[np.int64]) -> Floats:
        """Return the log-densities of some samples, up to a constant."""
        return -assignment_costs(self.X[samples], fit.centroids, fit.covariances, self.features_used)

    def relabel(self, fit: Fit, samples: NDArray[np.int64], shares: Floats) -> Fit:
        """Return the fit of the partition in which some samples are in the cluster of their largest share."""
        labels = fit.labels.copy()
        labels[samples] = shares.argmax(axis=1)
        return genetic.fit_of(self.problem, labels, fit.local_searches, fit.evaluations, fit.caps_reached)

    def criteria(self, fit: Fit) -> Criteria:
        """Return the criteria of a fit, with the likelihood of the annotations."""
        return criteria(self.problem, self.layers, fit.labels)

    def salvage(self, calls: Sequence[tuple[Any, Any]]) -> Choice | None:
        """Return the restarts that are done, or None."""
        fits = tuple(fit for _, fit in calls)
        return replace(self._choice, fits=fits, is_interrupted=True) if fits else None


def distinct_fits(fits: Sequence[Fit], best: int) -> list[Fit]:
    """Return the solution, then other fits within reach, best first, without clones (model.md, section 3)."""
    starts = [fits[best]]
    for fit in sorted(fits, key=lambda fit: -fit.objective):
        is_near = fit.objective >= fits[best].objective - REACH
        are_clones = (
            abs(fit.objective - start.objective) <= genetic.CLONE
            and (np.sort(fit.sizes) == np.sort(start.sizes)).all()
            for start in starts
        )
        if is_near and not any(are_clones):
            starts.append(fit)
    return starts


# Classes that are unions of Gaussians, or stand in a subspace.

# Restarts on the part of a large table that are fitted to all rows.
REFINED = 2

# Restarts that merge groups: they differ little, and by chance. A large table has one.
MERGES = 3

# Standard errors behind the best at which a candidate has the weight exp(-1/2) in an average, and the least
# weight.
SPREAD = 2.0
LEAST_WEIGHT = 0.02

# Standard errors that a candidate that knows the answers must be ahead to be averaged with features alone.
VOTING_LEAD = 1.0

# Divisor of the log-probabilities that speak for a structure: predictions of held-out annotations share their
# fits, so that they are not independent.
DEPENDENCE = 3.0


class Unions(Solver):
    """Solver that makes soft fits of a structure, which is named or chosen."""

    def set_up(self) -> None:
        """Find the principal components."""
        if self.model.term == UNSUPERVISED:
            self.layers = ()
        self.table = Table(self.X, self.n_clusters, self.seed)
        settings, covariance = self.model.settings, self.model.covariance
        shape = "spherical" if covariance in (ANY, AUTO) else covariance
        plain = named_structure(settings.subspace, settings.components, shape)
        self.structure = self.model.structure or plain
        self.ranking = race.Ranking((self.structure,), {}, None)

    def warm_up(self, *, predict: bool = False) -> None:
        """Load or compile the soft fit, and the merging of groups."""
        soft.warm_up()
        if self.model.has_groups:
            tiny = Table(np.arange(6.0)[:, None], 2, self.seed)
            structures = [structure for structure in merged_structures(6, 1, 2) if structure.subspace == NONE]
            tiny.fit_groups(structures, [Layer(MUST, np.array([[0, 1]]))], default_rng(0))

    @cached_property
    def part(self) -> tuple[Table, Sequence[Layer]] | None:
        """Some rows of a large table, with the annotations among them; None if the table is not large."""
        limit = part_size(self.n_clusters)
        if not self.table.is_large or len(self.X) < 2 * limit:
            return None
        rng = default_rng(child_seed(self.seed, HELD_OUT + 3 + FOLDS))
        return self._part_of(some_rows(self.X, self.layers, limit, rng))

    def _part_of(self, part: Part) -> tuple[Table, Sequence[Layer]]:
        return Table(part[0], self.n_clusters, self.seed, self.table), part[1]

    def choose(
        self, streams: Sequence[SeedSequence] = (), *, predict: bool = False, part: Part | None = None
    ) -> Choice:
        """Rank structures, and fit them with the streams until a fit is as good as its folds predicted.

        With a part, structures predict even if nothing is open, because draws from several fits need that.
        """
        self.ranking = self._rank(predict, None if part is None else self._part_of(part))
        self.structure = self.ranking.structures[0]
        notes = list(self._notes())
        fits, alarms = tuple[Fit, ...](), list[str]()
        if self.ranking.note and self.ranking.base_rate is not None:
            alarms.append(self.ranking.note)
        self.table.lay_out(self.layers)
        if self.part is not None:
            self.part[0].release()
        annotations = list_annotations(self.layers, self.seed)
        for structure in self.ranking.structures if streams else ():
            fits = self._fits(structure, streams, notes)
            best = max(fits, key=lambda fit: fit.objective)
            expected, self.structure = self.ranking.candidates.get(structure), structure
            reason = "" if expected is None else race.falls_short(_gaussians(best), annotations, expected)
            if not reason:
                break
            notes.append(f"not taken: {structure}, whose fit {reason}")
        else:
            if streams:
                alarms.append(
                    f"every structure fell short of its folds: {structure} is taken, whose fit {reason};"
                    " see K and the rows"
                )
        self.table.release()
        return self._choice(fits, tuple(note for note in notes if note not in alarms), tuple(alarms))

    def _rank(self, predict: bool, part: tuple[Table, Sequence[Layer]] | None) -> race.Ranking:
        """Rank structures by the annotations of a part, or of all rows."""
        settings, table = self.model.settings, self.table
        components, subspace, shape = settings.components, settings.subspace, self.model.covariance
        if shape == ANY:
            components, subspace, shape = AUTO, AUTO, AUTO
        if table.n_classes > (distinct := table.distinct(NONE)):
            raise ValueError(f"n_clusters is {table.n_classes}, but X has only {distinct} distinct rows")
        if not isinstance(subspace, str):
            subspace = min(subspace, table.rank)
        is_open = AUTO in (components, subspace, shape) or part is not None
        if not is_open and not (predict and list_annotations(self.layers, self.seed).n_pairs >= LEAST_PAIRS):
            return race.Ranking((named_structure(subspace, components, shape),), {}, None)
        basis = part or self.part or (table, self.layers)
        table.release()
        has_groups = self.model.has_groups and self.model.covariance == ANY and bool(self.layers)
        if has_groups and table.n_classes > MANY_CLASSES:
            ranking = race.choose_by_features(basis[0], self.run)
        else:
            ranking = race.choose_structure(
                *basis,
                run=self.run,
                components=components,
                subspace=subspace,
                covariance=shape,
                odds=ODDS if has_groups else FIRST_ODDS,
            )
        table.too_costly = basis[0].too_costly
        basis[0].release()
        return rank_with_groups(*basis, ranking, self.run) if has_groups else ranking

    def _notes(self) -> list[str]:
        subspace, rank, ranking = self.model.settings.subspace, self.table.rank, self.ranking
        notes = [ranking.note] if ranking.note else []
        if not isinstance(subspace, str) and subspace > rank:
            notes.insert(0, f"features have {rank} principal components, not {subspace}: all are used")
        notes += self.table.cost_notes()
        if self.part is not None:
            notes.append(f"structures were compared on {len(self.part[0].X):,} of the {len(self.X):,} rows")
        return notes

    def _fits(
        self, structure: Structure, streams: Sequence[SeedSequence], notes: list[str]
    ) -> tuple[Fit, ...]:
        """Fit a structure with each stream; with a part, only the best of its fits are fitted to all rows."""
        if structure.covariance in MERGED_KINDS:
            streams = streams[: MERGES if self.part is None else 1]
        if self.part is None or structure.covariance in (KMEANS, *MERGED_KINDS):
            return tuple(self.run(lambda stream: self._fit(structure, stream), streams))
        table, layers = self.part
        coarse = list(self.run(lambda stream: table.solve(structure, layers, default_rng(stream)), streams))
        order = sorted(range(len(coarse)), key=lambda number: (-coarse[number].bound, number))[:REFINED]
        fits = tuple(self.run(lambda number: self.refine(coarse[number], streams[number]), order))
        notes.append(f"the best {len(fits)} of {len(coarse)} restarts on these rows were fitted to all rows")
        return fits

    def _fit(self, structure: Structure, stream: SeedSequence) -> Fit:
        return as_fit(self.table.centered_X, self.table.solve(structure, self.layers, default_rng(stream)))

    def refine(self, coarse: Gaussians, stream: SeedSequence) -> Fit:
        """Fit a structure to all rows, starting from its fit to some of them."""
        rng, Z, table = default_rng(child_seed(stream, 1)), self.table.place(coarse.axes), self.table
        if coarse.structure.first is None:
            labels = coarse.log_densities(Z).argmax(axis=1)
            fine = table.solve(coarse.structure, self.layers, rng, steps=FOLD_STEPS, labels=labels)
        else:
            first = replace(coarse, classes=coarse.predict(Z))
            fine = table.solve(coarse.structure, self.layers, rng, steps=FOLD_STEPS, first=first)
        return as_fit(self.table.centered_X, fine)

    def _choice(
        self, fits: tuple[Fit, ...], notes: tuple[str, ...], alarms: tuple[str, ...], *, is_cut: bool = False
    ) -> Choice:
        is_any, structure, ranking = self.model.covariance == ANY, self.structure, self.ranking
        return Choice(
            name=str(structure),
            words=structure.words,
            covariance=structure.covariance,
            shape="spherical" if is_any else self.model.covariance,
            candidates={str(candidate): score for candidate, score in ranking.candidates.items()},
            base_rate=ranking.base_rate,
            structure=structure if is_any else None,
            fits=fits,
            notes=notes,
            alarms=alarms,
            skill=ranking.skills.get(structure),
            has_no_skill=bool(ranking.note) and ranking.base_rate is not None,
            is_interrupted=is_cut,
        )

    def average(self, choice: Choice, streams: Sequence[SeedSequence]) -> Choice:
        """Average the fit with candidates that predict about as well (section 13)."""
        skills, partitions, chosen = self.ranking.skills, self.ranking.partitions, self.structure
        is_whole = all(len(parts[0]) == len(self.X) for parts in partitions.values())
        # beside features alone, candidates that know the answers vote if they are some way ahead
        features = skills[chosen].overall if chosen in skills and not chosen.annotated else None
        rivals = {
            structure: skills[structure].overall
            for structure in partitions
            # the answers alone know nothing about the other rows
            if structure in skills and structure.covariance != SIGNED
            # groups are merged again if folds were fitted to a part of the rows
            if is_whole or structure.covariance in MERGED_KINDS
            if structure.annotated == chosen.annotated
            or (features and skills[structure].overall.is_ahead(features, VOTING_LEAD))
        }
        if rivals and features:
            rivals[chosen] = features
        if chosen not in rivals:
            return choice
        leaders, weights = sorted(rivals, key=lambda structure: rivals[structure].log_loss)[:MEMBERS], {}
        for rival in leaders:
            gain, error = rivals[leaders[0]].gain_over(rivals[rival])
            weights[rival] = float(np.exp(-0.5 * (gain / (SPREAD * error)) ** 2)) if error else 1.0
        weights = {rival: weight for rival, weight in weights.items() if weight > LEAST_WEIGHT}
        best = sorted(choice.fits, key=lambda fit: -fit.objective)[:MERGES]
        members = [(fit.labels, 1.0 / len(best)) for fit in best]
        if is_whole:
            partitions = {chosen: (best[0].labels,), **partitions}
            members += [
                (labels, weights[rival] / len(partitions[rival]))
                for rival in weights
                for labels in partitions[rival]
            ]
        else:
            structures = [rival for rival in weights if rival != chosen]
            refits = self.run(lambda rival: self._fit(rival, streams[0]).labels, structures)
            members += [(labels, weights[rival]) for rival, labels in zip(structures, refits, strict=True)]
        shares = self.table.average(members, default_rng(child_seed(streams[0], 2)))
        from scipy.optimize import linear_sum_assignment  # slow to load, and not every fit is an average

        # the classes have the numbers that they have in the best restart, whose Gaussians predict other rows
        overlaps = np.zeros((self.n_clusters, self.n_clusters))
        np.add.at(overlaps, best[0].labels, shares)
        order = linear_sum_assignment(overlaps, maximize=True)[1]
        fit = self.relabel(best[0], np.arange(len(self.X)), shares[:, order])
        words, count = f"an average of {len(members)} fits", len({*weights, chosen})
        n_voters = sum(rival.annotated != chosen.annotated for rival in weights)
        voters = f", {n_voters} of which know the answers" if n_voters else ""
        words = words if count == 1 else f"{words} of {count} structures{voters}; in the one that was chosen"
        return replace(choice, fits=(fit,), words=f"{words}, {choice.words}", n_averaged=len(members))

    def restart(self, stream: SeedSequence, start: NDArray[np.int16] | None = None) -> Fit:
        """Fit the structure from one random start; partitions are ignored."""
        return self._fit(self.structure, stream)

    def draws(self, fits: Sequence[Fit], best: int, stream: SeedSequence, effort: Effort) -> Draws:
        """Draw the class of each sample by its shares in the solution, or in fits of credible structures."""
        if effort.members > 1:
            return Draws(self._draw_from_many(default_rng(stream), effort)[None], is_numbered=False)
        solution = _gaussians(fits[best])
        labels = draw_partitions(solution.classes, max(2, effort.n_draws), default_rng(child_seed(stream, 0)))
        return Draws(labels[None], membership=solution.classes)

    def _draw_from_many(self, rng: Generator, effort: Effort) -> NDArray[np.int16]:
        """Draw partitions from fits of random structures to annotations of random weights (section 10).

        A single fit is sure of things that another denies. Structures are drawn by how well they predicted
        held-out annotations.
        """
        scores = self.ranking.credible_scores
        structures = list(scores) or list(self.ranking.structures)
        logs = np.array([score.log_probabilities @ score.weights for score in scores.values()])
        odds = np.exp((logs - logs.max()) / DEPENDENCE) if scores else np.ones(len(structures))
        partitions = []
        for place in rng.choice(len(structures), size=effort.members, p=odds / odds.sum()):
            resampled = [
                replace(layer, weights=layer_weights(layer) * rng.exponential(size=len(layer.pairs)))
                for layer in self.layers
            ]
            member = self.table.solve(structures[place], resampled, rng, steps=FOLD_STEPS)
            partitions.append(draw_partitions(member.classes, effort.n_draws // effort.members, rng))
        return np.concatenate(partitions)

    def evidence(self, fit: Fit, samples: NDArray[np.int64]) -> Floats:
        """Return the logarithms of the shares."""
        return np.asarray(np.log(np.maximum(_gaussians(fit).classes[samples], np.finfo(float).tiny)))

    def relabel(self, fit: Fit, samples: NDArray[np.int64], shares: Floats) -> Fit:
        """Return the fit with other shares: their densities, entropy and agreement change the bound."""
        union = _gaussians(fit)
        classes = union.classes.copy()
        classes[samples] = shares
        logs = union.class_densities(union.place(self.X[samples]))
        gain = ((shares - union.classes[samples]) * logs).sum()
        gain += entr(shares).sum() - entr(union.classes[samples]).sum()
        links = self.table.links(self.layers if union.structure.annotated else ())
        links = links.assume(union.structure.odds)
        first, second = links.pairs.T
        coin = (0.5, 0.5)
        estimates = np.array([coin, *(union.accuracies.get(number, coin) for number in links.annotators)])
        right, wrong = estimates[links.sources + 1].T
        is_must = links.signed > 0.0
        odds = np.log(np.where(is_must, right, wrong) / (1.0 - np.where(is_must, wrong, right)))
        pulls = links.signed * np.where(links.sources < 0, links.odds, odds)
        new_shares, old_shares = ((p[first] * p[second]).sum(axis=1) for p in (classes, union.classes))
        features, annotations, prior = union.terms
        terms = features + float(gain), annotations + float(pulls @ (new_shares - old_shares)), prior
        return as_fit(self.table.centered_X, replace(union, classes=classes, terms=terms))

    def criteria(self, fit: Fit) -> Criteria:
        """Return the criteria of a fit, by the likelihood of the features in its coordinates."""
        values = self.table.criteria(_gaussians(fit))
        is_kept = any(
            not structure.annotated and structure.covariance not in MERGED_KINDS
            for structure in self.ranking.candidates
        )
        if not is_kept:
            return values
        table = self.table if self.part is None else self.part[0]
        fits = map(table.fit_features, race.unsupervised(table, CANDIDATES))
        return replace(values, icl_of_features=max(table.criteria(fit).icl for fit in fits))

    def salvage(self, calls: Sequence[tuple[Any, Any]]) -> Choice | None:
        """Return the restarts that are done, else the best fit of the comparison of structures, or None."""
        results = [pair for pair in calls if isinstance(pair[1], Fit | Gaussians | race.Trial)]
        fits = [result for _, result in results if isinstance(result, Fit)]
        alarms = list[str]()
        if not fits:  # restarts on a part come before those on all rows
            coarse = [result for argument, result in results if isinstance(argument, SeedSequence)]
            fits = [as_fit(self.table.centered_X, gaussians.predict_for(self.X)) for gaussians in coarse]
        if fits:
            self.structure = _gaussians(fits[-1]).structure
            fits = [fit for fit in fits if _gaussians(fit).structure == self.structure]
        elif results:
            table, layers = self.part or (self.table, self.layers)
            best = race.best_so_far(table, layers, results)
            # a fit to a part has no shares of the other rows
            best = best if len(best.classes) == len(self.X) else best.predict_for(self.X)
            self.ranking, self.structure = race.Ranking((), {}, None), best.structure
            fits = [as_fit(self.table.centered_X, best)]
            folds = [len(result.predictions) for _, result in results if isinstance(result, race.Trial)]
            n_fits = sum(folds) + len(results) - len(folds)
            count = f"{n_fits:,} fit{'' if n_fits == 1 else 's'}"
            training = ", most of which saw four fifths of the annotations" if folds else ""
            alarms.append(f"interrupted while structures were compared: the best of {count}{training}")
        return self._choice(tuple(fits), (), tuple(alarms), is_cut=True) if fits else None


def _gaussians(fit: Fit) -> Gaussians:
    """Return the Gaussians of a fit, which is known to have some."""
    if fit.gaussians is None:
        raise TypeError("a fit without Gaussians")
    return fit.gaussians


def draw_partitions(classes: NDArray[np.float64], n_draws: int, rng: Generator) -> NDArray[np.int16]:
    """Return random partitions by the shares of the classes, as an array of shape (n_draws, n_samples)."""
    bounds = np.cumsum(classes, axis=1)[:, :-1]  # without the last bound, which is 1 up to rounding
    partitions = np.empty((n_draws, len(bounds)), np.int16)
    for partition in partitions:
        partition[:] = (rng.random(len(bounds))[:, None] >= bounds).sum(axis=1)
    return partitions


# Hard links.

# Place of the random stream of draws that are repaired.
STREAM = 1_000

# Weight of a sample's cluster in a draw: more than all evidence of the solution.
VOTE = 1e12

# Most rounds of swaps that make a draw likelier.
DRAW_ROUNDS = 1

# Largest evidence of a sample for or against a cluster, nats.
MOST_EVIDENCE = 1e6


class Hard(Solver):
    """Another solver, whose fits and draws are repaired so that they obey the hard links.

    The other solver sees hard links as annotations of a high accuracy (`kernels.problem.data.HARD`), so that
    few of them are left to repair.
    """

    def __init__(self, inner: Solver, layers: Sequence[Layer]) -> None:
        self.inner = inner
        super().__init__(inner.model, inner.X, layers, inner.n_clusters, inner.seed, inner.run)

    def set_up(self) -> None:
        """Group the samples."""
        self.groups = group_samples(self.layers, self.n_clusters)

    @property
    def feature_weight(self) -> float:
        """Weight of the features in the objective."""
        return self.inner.feature_weight

    @property
    def features_used(self) -> NDArray[np.int64]:
        """Numbers of the features in which the Gaussians have a density."""
        return self.inner.features_used

    def warm_up(self, *, predict: bool = False) -> None:
        """Load the kernels of the other solver, or compile them."""
        self.inner.warm_up(predict=predict)

    def choose(
        self, streams: Sequence[SeedSequence] = (), *, predict: bool = False, part: Part | None = None
    ) -> Choice:
        """Choose as the other solver does, and repair its fits."""
        return self._repair_fits(self.inner.choose(streams, predict=predict, part=part))

    def average(self, choice: Choice, streams: Sequence[SeedSequence]) -> Choice:
        """Average as the other solver does, and repair the average."""
        average = self.inner.average(choice, streams)
        return choice if average is choice else self._repair_fits(average)

    def restart(self, stream: SeedSequence, start: NDArray[np.int16] | None = None) -> Fit:
        """Fit once, and repair the fit."""
        return self.repair(self.inner.restart(stream, start))

    def repair(self, fit: Fit) -> Fit:
        """Return the fit in which each group is in the cluster that its samples speak for together."""
        return self.inner.relabel(fit, self.groups.samples, self._shares(fit))

    def _shares(self, fit: Fit) -> Floats:
        """Return the shares of the clusters in the linked samples; the largest obeys the links."""
        evidence = self._evidence(fit)
        labels = self.groups.assign(evidence)
        shares = np.exp(evidence - evidence.max(axis=1, keepdims=True))[self.groups.group_of]
        shares /= shares.sum(axis=1, keepdims=True)
        is_other = shares.argmax(axis=1) != labels
        shares[is_other] = np.eye(self.n_clusters)[labels[is_other]]
        return np.asarray(shares)

    def _evidence(self, fit: Fit) -> Floats:
        evidence = self.inner.evidence(fit, self.groups.samples)
        best = evidence.max(axis=1, keepdims=True)
        return self.groups.sums(np.maximum(evidence - best, -MOST_EVIDENCE))

    def draws(self, fits: Sequence[Fit], best: int, stream: SeedSequence, effort: Effort) -> Draws:
        """Draw as the other solver does, and repair each draw.

        If draws are independent, a group is drawn by the evidence of its samples. Otherwise it is put where
        most of its samples are.
        """
        draws, groups = self.inner.draws(fits, best, stream, effort), self.groups
        rng, unit = default_rng(child_seed(stream, STREAM)), np.eye(self.n_clusters)
        evidence = self._evidence(fits[best])
        shares = np.exp(evidence - evidence.max(axis=1, keepdims=True))
        labels, membership = draws.labels.copy(), draws.membership
        for partition in labels.reshape(-1, labels.shape[-1]):
            if membership is not None:  # the largest of such sums is a draw
                values = evidence + rng.gumbel(size=evidence.shape)
            else:  # clusters of draws have numbers of their own
                votes = groups.sums(unit[partition[groups.samples]])
                values = VOTE * votes + shares @ (unit[fits[best].labels].T @ unit[partition])
            partition[groups.samples] = groups.assign(values, DRAW_ROUNDS)
        if membership is not None:
            membership = membership.copy()
            membership[groups.samples] = unit[np.concatenate(labels)[:, groups.samples]].mean(axis=0)
        return replace(draws, labels=labels, membership=membership)

    def criteria(self, fit: Fit) -> Criteria:
        """Return the criteria by which fits of other numbers of clusters compare."""
        return self.inner.criteria(fit)

    def salvage(self, calls: Sequence[tuple[Any, Any]]) -> Choice | None:
        """Return the best that there is after Ctrl-C, repaired."""
        choice = self.inner.salvage(calls)
        return None if choice is None else self._repair_fits(choice)

    def _repair_fits(self, choice: Choice) -> Choice:
        return replace(choice, fits=tuple(map(self.repair, choice.fits)))


# The solver of each kind of clusters.
SOLVERS: dict[str, type[Solver]] = {ONE_GAUSSIAN.name: Clusters, UNION.name: Unions}


def prepare(
    model: Model, X: Floats, layers: Sequence[Layer], n_clusters: int, seed: SeedSequence, run: Runner = map
) -> Solver:
    """Prepare the solver of a model for some data; `Solver` describes the parameters.

    Raises
    ------
    ValueError
        If the problem admits no solution; some solvers only see that when they choose.
    """
    solver = SOLVERS[model.kind.name](model, X, layers, n_clusters, seed, run)
    return Hard(solver, layers) if has_hard_links(layers) else solver
