"""Criteria for the number of clusters and how often they find it: `python -m benchmarks clusters`.

Mixtures have K = 2 to 6 spherical Gaussians, N = 200 and D = 10. Those of docs/model.md, eq. (25), overlap
heavily, and others are far apart. K = 2 to 8 are fitted each, with the model "conditional" and an unknown
accuracy, and with "unsupervised" without annotations. A second table has the estimates of the accuracy at the
true K.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tables import Table, mean_error

from sweep_clustering.kernels.choice import estimated_accuracy
from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.counts import Candidate, choose_clusters, finalists_of, share_allowed
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

CLUSTERS = (2, 3, 4, 5, 6)
COUNTS = range(2, 9)
DRAWS = 8
RESTARTS = 3
KINDS = {
    "overlapping": partial(draw_mixture, center=(-1.0, 1.0), variance=(0.0, 5.0)),
    "apart": partial(draw_mixture, center=(-5.0, 5.0), variance=(0.5, 1.5)),
}
CONDITIONS = [(0, 1.0), *product((100, 200, 400), (0.8, 0.9, 1.0))]
CRITERIA = ("BIC", "ICL", "least log loss", "1 s.e., fewest", "1 s.e., then BIC")

HITS = Table("clusters/hits", ("mixtures", "m", "p", *CRITERIA, "K taken - K"))
ACCURACY = Table(
    "clusters/accuracy",
    ("mixtures", "m", "p", "agreeing - p", "held out - p", "halfway - p", "root mean square of each"),
)
TABLES = (HITS, ACCURACY)


class Differences(NamedTuple):
    """Differences of one instance: K by each criterion less the true K, and estimates less p."""

    errors: list[int]
    agreement: float
    estimate: float


def instance(kind: str, n_clusters: int, draw: int, m: int, p: float) -> Differences:
    """Choose among all K on one mixture; the mixture is the same for all m and p."""
    rng = np.random.default_rng([31, n_clusters, draw])
    X, truth = KINDS[kind](rng, n_clusters=n_clusters)
    drawing = np.random.default_rng([32, n_clusters, draw, m, int(100 * p)])
    layers = layers_from_annotations(draw_annotations(drawing, truth, p=p, m=m), None) if m else []
    choice = choose_clusters(
        COUNTS,
        lambda count: fit(
            X,
            layers,
            n_clusters=count,
            model="conditional" if m else "unsupervised",
            restarts=RESTARTS,
            settings=settings_of({"method": "strong"}),
            seed=0,
            predict_annotations=m > 0,
        ),
        max_share=share_allowed(X, layers, seed=0),
    )
    candidates = choice.candidates
    choices = [max(candidates, key=lambda candidate: candidate.criteria.bic)]
    choices.append(max(candidates, key=lambda candidate: candidate.criteria.icl))
    if m > 0:
        choices += [finalists_of(candidates, 0.0)[0], finalists_of(candidates, 1.0)[0]]
    choices.append(choice.chosen)
    errors = [candidate.n_clusters - n_clusters for candidate in choices]
    if m == 0:
        return Differences(errors, np.nan, np.nan)
    true = next(candidate for candidate in candidates if candidate.n_clusters == n_clusters)
    return Differences(errors, *(estimate - p for estimate in accuracies(true)))


def accuracies(true: Candidate) -> tuple[float, float]:
    """Return the share of annotations that a solution agrees with, and the estimate from held-out ones."""
    assert true.held_out is not None
    estimate, agreement = estimated_accuracy(true.held_out), true.result.scores["annotation_agreement"]
    assert estimate is not None
    assert agreement is not None
    return agreement, estimate.value


def rows() -> Iterator[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """Yield a row of each table for each kind, m and p."""
    for kind, (m, p) in product(KINDS, CONDITIONS):
        instances = [instance(kind, k, draw, m, p) for k, draw in product(CLUSTERS, range(DRAWS))]
        errors = np.array([differences.errors for differences in instances]).T
        hits = [mean_error((line == 0).astype(float)) for line in errors]
        blank = ["-"] * (len(CRITERIA) - len(hits) + 1) if m == 0 else []
        labels = (kind, str(m), f"{p:g}" if m else "-")
        row = (*labels, *hits[:2], *blank[:-1], *hits[2:], mean_error(errors[-1].astype(float)))
        agreement, estimate = (
            np.array([getattr(differences, name) for differences in instances])
            for name in Differences._fields[1:]
        )
        shares = [agreement, estimate, 0.5 * (agreement + estimate)]
        squares = ", ".join(map(root, shares))
        yield row, (*labels, *map(mean_error, shares), squares) if m else None


def root(values: NDArray[np.float64]) -> str:
    """Return the root mean square."""
    return f"{np.sqrt(np.mean(np.square(values))):.3f}"


def measure() -> dict[str, str]:
    """Measure on all mixtures."""
    hits, accuracy = zip(*rows(), strict=True)
    return {
        HITS.name: HITS.markdown(hits),
        ACCURACY.name: ACCURACY.markdown(row for row in accuracy if row is not None),
    }
