"""The solver of clusters of one Gaussian each, a hybrid genetic search (docs/model.md, sections 2 to 9)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from sweep_clustering.kernels.choice import held_out
from sweep_clustering.kernels.choice.criteria import Criteria, criteria
from sweep_clustering.kernels.choice.held_out import below
from sweep_clustering.kernels.fits import Fit, Floats, assignment_costs
from sweep_clustering.kernels.problem.problem import Problem, build_problem
from sweep_clustering.kernels.search import genetic
from sweep_clustering.kernels.search.sampling import Length, run_chain
from sweep_clustering.kernels.solver.contract import Choice, Draws, Effort, Part, Solver
from sweep_clustering.kernels.structure import AUTO, CANDIDATES

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
            held_out.warm_up()

    def choose(
        self, streams: Sequence[SeedSequence] = (), *, predict: bool = False, part: Part | None = None
    ) -> Choice:
        """Choose the shape that predicts held-out annotations best, or measure how well one does."""
        is_open, shapes = self.model.is_open, CANDIDATES if self.model.is_open else (self.model.covariance,)
        shape, candidates, note = shapes[0], dict[str, held_out.HeldOut](), ""
        if is_open or predict:
            X, layers = part or (self.X, self.layers)
            choice = held_out.choose_covariance(
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

    def _choice_of(self, candidates: dict[str, held_out.HeldOut], notes: tuple[str, ...] = ()) -> Choice:
        shape = self.problem.covariance
        return Choice(shape, f"{shape} covariance", shape, shape, candidates, notes=notes)

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
                default_rng(below(stream, chain)),
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

    def relabelled(self, fit: Fit, samples: NDArray[np.int64], shares: Floats) -> Fit:
        """Return the fit of the partition in which some samples are in the cluster of their largest share."""
        labels = fit.labels.copy()
        labels[samples] = shares.argmax(axis=1)
        return genetic.fit_of(self.problem, labels, fit.local_searches, fit.evaluations, fit.caps_reached)

    def criteria(self, fit: Fit) -> Criteria:
        """Return the criteria of a fit, with the likelihood of the annotations."""
        return criteria(self.problem, self.layers, fit.labels)

    def salvage(self, done: Sequence[tuple[Any, Any]]) -> Choice | None:
        """Return the restarts that are done, or None."""
        fits = tuple(fit for _, fit in done)
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
