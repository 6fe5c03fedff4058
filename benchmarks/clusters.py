"""How often a criterion finds the number of clusters: `python -m benchmarks clusters`.

Mixtures of K = 2 to 6 spherical Gaussians, N = 200, D = 10: those of docs/model.md, eq. (25), which overlap
heavily, and others far apart. K = 2 to 8 are fitted each, with the model "conditional", its accuracy unknown,
and "unsupervised" without annotations. Beside it, what is estimated of the accuracy at the true K.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tables import Table, mean_error

from sweep_clustering.kernels.choice import estimated_accuracy
from sweep_clustering.kernels.problem.problem import layers_from_annotations
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.counts import Candidate, choose, choose_clusters, within
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

CLUSTERS, TRIED, DRAWS, RESTARTS = (2, 3, 4, 5, 6), range(2, 9), 8, 3
KINDS = {
    "overlapping": {"center": (-1.0, 1.0), "variance": (0.0, 5.0)},
    "apart": {"center": (-5.0, 5.0), "variance": (0.5, 1.5)},
}
CONDITIONS = [(0, 1.0), *product((100, 200, 400), (0.8, 0.9, 1.0))]
CRITERIA = ("BIC", "ICL", "least log loss", "1 s.e., fewest", "1 s.e., then BIC")

HITS = Table("clusters/hits", ("mixtures", "m", "p", *CRITERIA, "K taken - K"))
ACCURACY = Table(
    "clusters/accuracy",
    ("mixtures", "m", "p", "agreeing - p", "held out - p", "halfway - p", "root mean square of each"),
)
TABLES = (HITS, ACCURACY)


class Found(NamedTuple):
    """What one instance gives: K by each criterion less the true one, and estimates less p."""

    errors: list[int]
    agreeing: float
    estimate: float


def instance(kind: str, n_clusters: int, draw: int, m: int, p: float) -> Found:
    """Choose among all K tried, on one mixture; the mixture is the same for all m and p."""
    rng = np.random.default_rng([31, n_clusters, draw])
    X, truth = draw_mixture(rng, n_clusters=n_clusters, **KINDS[kind])
    drawing = np.random.default_rng([32, n_clusters, draw, m, int(100 * p)])
    layers = layers_from_annotations(draw_annotations(drawing, truth, p=p, m=m), None) if m else []
    choice = choose_clusters(
        TRIED,
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
    )
    every = choice.candidates
    taken = [max(every, key=lambda each: each.criteria.bic), max(every, key=lambda each: each.criteria.icl)]
    if m == 0:
        return Found(
            [each.n_clusters - n_clusters for each in (*taken, choose(every).chosen)], np.nan, np.nan
        )
    taken += [within(every, 0.0)[0], within(every, 1.0)[0], choose(every).chosen]
    true = next(each for each in every if each.n_clusters == n_clusters)
    return Found([each.n_clusters - n_clusters for each in taken], *(each - p for each in accuracies(true)))


def accuracies(true: Candidate) -> tuple[float, float]:
    """Share of the annotations that the solution agrees with, and the estimate from those held out."""
    assert true.held_out is not None
    estimate, agreeing = estimated_accuracy(true.held_out), true.result.scores["annotation_agreement"]
    assert estimate is not None
    assert agreeing is not None
    return agreeing, estimate.value


def rows() -> Iterator[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """A row of each table for each kind, m and p."""
    for kind, (m, p) in product(KINDS, CONDITIONS):
        found = [instance(kind, k, draw, m, p) for k, draw in product(CLUSTERS, range(DRAWS))]
        errors = np.array([each.errors for each in found]).T
        hits = [mean_error((line == 0).astype(float)) for line in errors]
        blank = ["-"] * (len(CRITERIA) - len(hits) + 1) if m == 0 else []
        told = (kind, str(m), f"{p:g}" if m else "-")
        row = (*told, *hits[:2], *blank[:-1], *hits[2:], mean_error(errors[-1].astype(float)))
        agreeing, estimate = (np.array([getattr(each, name) for each in found]) for name in Found._fields[1:])
        shares = [agreeing, estimate, 0.5 * (agreeing + estimate)]
        squares = ", ".join(map(root, shares))
        yield row, (*told, *map(mean_error, shares), squares) if m else None


def root(values: NDArray[np.float64]) -> str:
    """Root mean square."""
    return f"{np.sqrt(np.mean(np.square(values))):.3f}"


def measure() -> dict[str, str]:
    """All mixtures."""
    hits, accuracy = zip(*rows(), strict=True)
    return {
        HITS.name: HITS.markdown(hits),
        ACCURACY.name: ACCURACY.markdown(row for row in accuracy if row is not None),
    }
