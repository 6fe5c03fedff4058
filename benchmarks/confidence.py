"""Share of right labels beside the confidence of a fit: `python -m benchmarks confidence`, ten minutes.

Real data sets, standardised, and mixtures of the paper's kind have m = N uniform pairs of accuracy 0.8, 0.9
and 1. A label is right if its cluster is matched to its class, by the matching with the most right samples.
Standard errors are those over instances. The benchmark draws calibration.png of the documents.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from checkout import ROOT
from numpy.typing import NDArray
from quality import RAW, REAL, match_classes, mixtures, real_data
from tables import Table, mean_error

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.pipeline.fit.confidence import find_confidence
from sweep_clustering.sweeps.annotations.draw import draw_annotations

TABLE = Table(
    "confidence",
    (
        "data",
        "model",
        "features",
        "claimed",
        "correct",
        "claimed - correct",
        "correct where 0.95 or more is claimed",
        "fits whose chains disagree",
    ),
)
TABLES = (TABLE,)

MODELS = ("posterior", "conditional")
FEATURES = {
    "spherical": ("spherical", 1.0),
    "spherical, effective weight": ("spherical", "effective"),
    "full": ("full", 1.0),
}
ACCURACIES = (0.8, 0.9, 1.0)
MIXTURES = 3
RESTARTS = 3
HIGH_CONFIDENCE = 0.95
BINS = 10

Instance = tuple[NDArray[np.float64], NDArray[np.int16]]


class Fit(NamedTuple):
    """The confidence of each label of a fit, whether the label is right, and whether the chains disagree."""

    claimed: NDArray[np.float64]
    right: NDArray[np.bool_]
    disagrees: bool


def fits(instance: Instance, p: float, number: int) -> dict[tuple[str, str], Fit]:
    """Return the fits by model and features, on one drawing of annotations."""
    X, truth = instance
    n_clusters = int(truth.max()) + 1
    annotations = draw_annotations(np.random.default_rng([number, int(100 * p)]), truth, p=p, m=len(X))
    layers = layers_from_annotations(annotations, p)
    results = {}
    for model, (features, (covariance, weight)) in product(MODELS, FEATURES.items()):
        settings = settings_of({"feature_weight": weight})
        description = Model(model, covariance, settings)
        solver = prepare(description, X, layers, n_clusters, np.random.SeedSequence(number))
        runs = [solver.restart(np.random.SeedSequence(r)) for r in range(RESTARTS)]
        best = int(np.argmax([run.objective for run in runs]))
        confidence = find_confidence(solver, runs, best, number)
        is_right = match_classes(confidence.labels, truth)[confidence.labels] == truth
        results[model, features] = Fit(confidence.confidence, is_right, bool(list(confidence.notes())))
    return results


def rows(name: str, instances: list[dict[tuple[str, str], Fit]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each model and features: means over instances of equal weight."""
    for key in product(MODELS, FEATURES):
        group = [by_key[key] for by_key in instances]
        claimed = np.array([fit.claimed.mean() for fit in group])
        correct = np.array([fit.right.mean() for fit in group])
        is_sure = np.concatenate([fit.claimed >= HIGH_CONFIDENCE for fit in group])
        is_right = np.concatenate([fit.right for fit in group])
        yield (
            name,
            *key,
            f"{claimed.mean():.3f}",
            f"{correct.mean():.3f}",
            mean_error(claimed - correct),
            f"{is_right[is_sure].mean():.3f} of {100 * is_sure.mean():.0f} %",
            f"{sum(fit.disagrees for fit in group)} of {len(group)}",
        )


def draw(results: dict[str, list[dict[tuple[str, str], Fit]]]) -> None:
    """Draw the share of right labels by confidence: a panel for each model and kind of data."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    size = (8.4, 4.2 * len(results))
    figure, panels = plt.subplots(
        len(results), len(MODELS), figsize=size, squeeze=False, layout="constrained"
    )
    edges = np.linspace(0, 1, BINS + 1)
    for (name, instances), row in zip(results.items(), panels, strict=True):
        for model, panel in zip(MODELS, row, strict=True):
            panel.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="as claimed")
            for features, mark in zip(FEATURES, "osD", strict=True):
                claimed = np.concatenate([by_key[model, features].claimed for by_key in instances])
                is_right = np.concatenate([by_key[model, features].right for by_key in instances])
                bins = np.clip(np.digitize(claimed, edges) - 1, 0, BINS - 1)
                counts = np.bincount(bins, minlength=BINS)
                is_drawn = counts >= 20
                x = np.bincount(bins, claimed, BINS)[is_drawn] / counts[is_drawn]
                y = np.bincount(bins, is_right, BINS)[is_drawn] / counts[is_drawn]
                panel.plot(x, y, linewidth=1.2, marker=mark, markersize=4, label=features)
            panel.set(xlim=(0, 1), ylim=(0, 1), title=f"{model}, {name}", aspect="equal")
            panel.grid(alpha=0.3)
            panel.set_xlabel("confidence claimed")
        row[0].set_ylabel("share of labels that are right")
    panels[0, 0].legend(fontsize=8, frameon=False, loc="upper left")
    figure.savefig(ROOT / "docs" / "pictures" / "calibration.png", dpi=110)


def measure() -> dict[str, str]:
    """Measure on mixtures, and on real data if they are at hand."""
    instances = {f"{MIXTURES} mixtures, K = 2, 4, 6": list(enumerate(mixtures(MIXTURES)))}
    if RAW.is_dir():
        sets = [real_data(name) for name in REAL]
        instances = {"six real data sets": list(enumerate(sets))} | instances
    results = {
        name: [fits(instance, p, number) for p in ACCURACIES for number, instance in group]
        for name, group in instances.items()
    }
    draw(results)
    return {TABLE.name: TABLE.markdown(row for name, group in results.items() for row in rows(name, group))}
