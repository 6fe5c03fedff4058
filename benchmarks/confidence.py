"""How right labels are against how sure a fit is: `python -m benchmarks confidence`, ten minutes.

Real data sets, standardised, and mixtures of the paper's kind; m = N uniform pairs of accuracy 0.8, 0.9, 1.
A label counts as right if its cluster is matched to its class, by the matching with the most samples right.
Standard errors are those over instances. Draws calibration.png of the documents.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from checkout import ROOT
from numpy.typing import NDArray
from quality import RAW, REAL, real_data
from scipy.optimize import linear_sum_assignment
from tables import Table, mean_error

from sweep_clustering.kernels.problem.problem import layers_from_annotations
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.pipeline.fit.confidence import find_confidence
from sweep_clustering.sweeps.annotations.draw import draw_annotations
from sweep_clustering.sweeps.inputs import draw_mixture

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
MIXTURES, RESTARTS = 3, 3
SURE = 0.95
BINS = 10

Instance = tuple[NDArray[np.float64], NDArray[np.int16]]


class Fit(NamedTuple):
    """Of one fit: the confidence of each label, whether it is right, and whether the chains disagree."""

    claimed: NDArray[np.float64]
    right: NDArray[np.bool_]
    disagrees: bool


def fits(instance: Instance, p: float, number: int) -> dict[tuple[str, str], Fit]:
    """By model and features, on one drawing of annotations."""
    X, truth = instance
    n_clusters = int(truth.max()) + 1
    annotations = draw_annotations(np.random.default_rng([number, int(100 * p)]), truth, p=p, m=len(X))
    layers = layers_from_annotations(annotations, p)
    found = {}
    for model, (features, (covariance, weight)) in product(MODELS, FEATURES.items()):
        settings = settings_of({"feature_weight": weight})
        asked = Model(model, covariance, settings)
        solver = prepare(asked, X, layers, n_clusters, np.random.SeedSequence(number))
        runs = [solver.restart(np.random.SeedSequence(r)) for r in range(RESTARTS)]
        best = int(np.argmax([run.objective for run in runs]))
        confidence = find_confidence(solver, runs, best, number)
        right = matched(confidence.labels, truth, n_clusters)
        found[model, features] = Fit(confidence.confidence, right, bool(list(confidence.notes())))
    return found


def matched(labels: NDArray[np.int16], truth: NDArray[np.int16], n_clusters: int) -> NDArray[np.bool_]:
    """Which labels are right, if each cluster stands for one class."""
    counts = np.zeros((n_clusters, n_clusters))
    np.add.at(counts, (labels, truth), 1)
    _, class_of = linear_sum_assignment(-counts)
    right: NDArray[np.bool_] = class_of[labels] == truth
    return right


def rows(name: str, found: list[dict[tuple[str, str], Fit]]) -> Iterator[tuple[str, ...]]:
    """A row for each model and features: means over instances, which count alike."""
    for key in product(MODELS, FEATURES):
        some = [each[key] for each in found]
        claimed, correct = (np.array([each[k].mean() for each in some]) for k in (0, 1))
        sure = np.concatenate([each.claimed >= SURE for each in some])
        right = np.concatenate([each.right for each in some])
        yield (
            name,
            *key,
            f"{claimed.mean():.3f}",
            f"{correct.mean():.3f}",
            mean_error(claimed - correct),
            f"{right[sure].mean():.3f} of {100 * sure.mean():.0f} %",
            f"{sum(each.disagrees for each in some)} of {len(some)}",
        )


def draw(given: dict[str, list[dict[tuple[str, str], Fit]]]) -> None:
    """Share of right labels by what was claimed: a panel for each model and kind of data."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    size = (8.4, 4.2 * len(given))
    figure, panels = plt.subplots(len(given), len(MODELS), figsize=size, squeeze=False, layout="constrained")
    edges = np.linspace(0, 1, BINS + 1)
    for (name, found), row in zip(given.items(), panels, strict=True):
        for model, panel in zip(MODELS, row, strict=True):
            panel.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="as claimed")
            for features, mark in zip(FEATURES, "osD", strict=True):
                claimed = np.concatenate([each[model, features].claimed for each in found])
                right = np.concatenate([each[model, features].right for each in found])
                place = np.clip(np.digitize(claimed, edges) - 1, 0, BINS - 1)
                counts = np.bincount(place, minlength=BINS)
                some = counts >= 20
                x = np.bincount(place, claimed, BINS)[some] / counts[some]
                y = np.bincount(place, right, BINS)[some] / counts[some]
                panel.plot(x, y, linewidth=1.2, marker=mark, markersize=4, label=features)
            panel.set(xlim=(0, 1), ylim=(0, 1), title=f"{model}, {name}", aspect="equal")
            panel.grid(alpha=0.3)
            panel.set_xlabel("confidence claimed")
        row[0].set_ylabel("share of labels that are right")
    panels[0, 0].legend(fontsize=8, frameon=False, loc="upper left")
    figure.savefig(ROOT / "docs" / "pictures" / "calibration.png", dpi=110)


def measure() -> dict[str, str]:
    """Mixtures, and real data where they are at hand."""
    mixtures = [
        draw_mixture(np.random.default_rng([7, number]), n_clusters=(2, 4, 6)[number % 3])
        for number in range(MIXTURES)
    ]
    instances = {f"{MIXTURES} mixtures, K = 2, 4, 6": list(enumerate(mixtures))}
    if RAW.is_dir():
        sets = [real_data(name) for name in REAL]
        instances = {"six real data sets": list(enumerate(sets))} | instances
    given = {
        name: [fits(each, p, n) for p in ACCURACIES for n, each in some] for name, some in instances.items()
    }
    draw(given)
    return {TABLE.name: TABLE.markdown(row for name, found in given.items() for row in rows(name, found))}
