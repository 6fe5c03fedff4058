"""The solver of a model: of its kind of clusters, and around it one that makes results obey hard links.

`docs/model.md`, section 6, has the hard links.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from sweep_clustering.kernels.choice.criteria import Criteria
from sweep_clustering.kernels.choice.held_out import below
from sweep_clustering.kernels.fits import Fit, Floats, Runner
from sweep_clustering.kernels.problem.data import Layer
from sweep_clustering.kernels.problem.hard import group_samples, has_hard_links
from sweep_clustering.kernels.solver.clusters import Clusters
from sweep_clustering.kernels.solver.contract import Choice, Draws, Effort, Model, Part, Solver
from sweep_clustering.kernels.solver.unions import Unions
from sweep_clustering.kernels.structure import ONE_GAUSSIAN, UNION

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
        return self._repaired(self.inner.choose(streams, predict=predict, part=part))

    def restart(self, stream: SeedSequence, start: NDArray[np.int16] | None = None) -> Fit:
        """Fit once, and repair the fit."""
        return self.repair(self.inner.restart(stream, start))

    def repair(self, fit: Fit) -> Fit:
        """Return the fit in which each group is in the cluster that its samples speak for together."""
        return self.inner.relabelled(fit, self.groups.samples, self._shares(fit))

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
        rng, unit = default_rng(below(stream, STREAM)), np.eye(self.n_clusters)
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

    def salvage(self, done: Sequence[tuple[Any, Any]]) -> Choice | None:
        """Return the best that there is after Ctrl-C, repaired."""
        choice = self.inner.salvage(done)
        return None if choice is None else self._repaired(choice)

    def _repaired(self, choice: Choice) -> Choice:
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
