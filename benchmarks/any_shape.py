"""Classes of any shape beside one Gaussian a class: `python -m benchmarks any_shape`.

Four tables are standardised, with as many pairs as samples, one in ten of them wrong. The benchmark also
draws the picture of the guide. Sonar is read from the clustering suite beside the checkout. Without the suite
only the other tables are drawn.
"""

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from checkout import ROOT, SHARED
from numpy.typing import NDArray
from quality import match_classes
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, make_circles
from suite import fit_any
from tables import Table

from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.solve import FitResult, fit
from sweep_clustering.pipeline.report.cell import draw_ellipses, in_a_plane
from sweep_clustering.sweeps.annotations.draw import draw_annotations

ACCURACY = 0.9
SEED = 0
SONAR = SHARED / "data" / "suite" / "uci"
PICTURE = ROOT / "docs" / "pictures" / "any-shape.png"
RESULTS = Table(
    "any_shape",
    ("data", "samples", "features", "k-means", "one Gaussian", "any shape", "what was chosen", "seconds"),
)
TABLES = (RESULTS,)

Data = tuple[NDArray[np.float64], NDArray[np.int16]]


def spiral(n: int = 400) -> Data:
    """Draw two arms."""
    rng, arm = np.random.default_rng(1), np.arange(n) % 2
    turn = 0.6 + 2.6 * np.pi * np.sqrt(rng.random(n))
    angle = turn + np.pi * arm
    X = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + rng.normal(scale=0.25, size=X.shape), arm.astype(np.int16)


def every_table() -> Iterator[tuple[str, Data]]:
    """Yield the tables by name."""
    yield "spiral", spiral()
    rings, ring = make_circles(400, factor=0.45, noise=0.08, random_state=0)
    yield "rings", (rings, ring.astype(np.int16))
    cancer = load_breast_cancer()
    yield "breast cancer", (cancer.data, cancer.target.astype(np.int16))
    if SONAR.is_dir():
        labels = np.loadtxt(SONAR / "sonar.labels0.gz", dtype=int)
        yield "sonar", (np.loadtxt(SONAR / "sonar.data.gz"), (labels - labels.min()).astype(np.int16))


def measure() -> dict[str, str]:
    """Fit the tables, draw the fits, and score them."""
    rows, pictures = [], []
    for name, (raw, truth) in every_table():
        X, n_clusters = (raw - raw.mean(axis=0)) / raw.std(axis=0), int(truth.max()) + 1
        pairs = draw_annotations(np.random.default_rng(SEED), truth, p=ACCURACY, m=len(X))
        layers = layers_from_annotations(pairs, ACCURACY)
        tuned = settings_of({"feature_weight": "effective", "proportions": "free"})
        options: Any = {"covariance": "auto", "settings": tuned, "restarts": 10, "seed": SEED}
        gaussian_fit = fit(X, layers, n_clusters=n_clusters, model="conditional", **options)
        union_fit = fit_any(X, layers, n_clusters, seed=SEED)
        plain = KMeans(n_clusters, n_init=10, random_state=SEED).fit_predict(X)
        scores = [
            f"{adjusted_rand(truth, labels):.2f}"
            for labels in (plain, gaussian_fit.best.labels, union_fit.best.labels)
        ]
        rows.append((name, *X.shape, *scores, union_fit.structure, f"{union_fit.seconds:.1f}"))
        pictures.append((name, X, truth, gaussian_fit, union_fit, scores))
    draw(pictures)
    return {RESULTS.name: RESULTS.markdown(rows)}


def draw(
    fits: list[tuple[str, NDArray[np.float64], NDArray[np.int16], FitResult, FitResult, list[str]]],
) -> None:
    """Draw classes, labels of one Gaussian a class, and labels of any shape with the components."""
    figure, grid = plt.subplots(len(fits), 3, figsize=(9, 2.9 * len(fits)), squeeze=False)
    for row, (name, X, truth, gaussian_fit, union_fit, scores) in zip(grid, fits, strict=True):
        solution = union_fit.solution
        assert solution is not None
        plane, ellipses = in_a_plane(X, solution)
        titles = (f"{name}: classes", f"one Gaussian a class, ARI {scores[1]}", f"any shape, ARI {scores[2]}")
        for axes, labels, title in zip(
            row, (truth, gaussian_fit.best.labels, union_fit.best.labels), titles, strict=True
        ):
            colours = [f"C{label}" for label in match_classes(labels, truth)[labels]]
            axes.scatter(*plane.T, s=7, c=colours, alpha=0.6, linewidths=0)
            axes.set(title=title, xticks=[], yticks=[])
            axes.title.set_fontsize(9)
        draw_ellipses(
            row[2], ellipses, [f"C{label}" for label in match_classes(union_fit.best.labels, truth)]
        )
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
