"""Classes of any shape on the standard clustering suite: `python -m benchmarks suite [--write]`.

Sets of at most 3,600 samples are standardised and lose their noise points. K is given. Pairs of samples are
drawn uniformly, and an answer is right with the accuracy that the model is given. Constants of the choice
were set on every second set at p = .9, in the order of the published names. The other half was not used for
that. A setting takes an hour.
"""

import csv
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np
from checkout import SHARED
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from tables import Table, fail, show

from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import MODEL_ANY, settings_of
from sweep_clustering.pipeline.fit.solve import FitResult, fit

LARGEST = 3600  # samples
DRAW = 1
RESTARTS = 10
SUITE = SHARED / "data" / "suite"
# A set is lost if the best partition without annotations is ahead by more ARI than this.
LOSS = 0.03
# Accuracy and annotations per sample.
SETTINGS = {"p09": (0.9, 1.0), "p08": (0.8, 1.0), "p1": (1.0, 1.0), "half": (0.9, 0.5)}

COLUMNS = ("sets", "any shape", "one Gaussian", "unsupervised", "published", "behind unsupervised", "seconds")
OVERALL = {name: Table(f"suite/{name}", ("half", *COLUMNS)) for name in SETTINGS}
BY_SET = Table(
    "suite/sets", ("set", "N", "D", "K", "any shape", "one Gaussian", "unsupervised", "what was chosen")
)
TABLES = (*OVERALL.values(), BY_SET)


@dataclass(frozen=True)
class Row:
    """ARI of each model on one set, and the cost of a fit."""

    name: str
    size: tuple[int, int, int]
    any_shape: float
    gaussian: float
    unsupervised: float
    structure: str
    seconds: float

    def __str__(self) -> str:
        aris = f"{self.any_shape:.3f} {self.gaussian:.3f} {self.unsupervised:.3f}"
        return f"{aris} {self.seconds:.1f} s, {self.structure}"


def best_published(folder: Path) -> dict[str, float]:
    """Return the best published ARI of each set, with hindsight, in the order of the file."""
    if not (folder / "published.csv").is_file():
        fail(f"{folder}: found no published.csv, expected the clustering suite")
    best: dict[str, float] = {}
    with (folder / "published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = f"{row['battery']}/{row['dataset']}"
            if int(row["n"]) <= LARGEST and (folder / f"{name}.data.gz").exists():
                best[name] = max(best.get(name, -1.0), float(row["ari"]))
    return best


def read(folder: Path, name: str) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Return standardised features and classes, without noise points."""
    X = np.loadtxt(folder / f"{name}.data.gz", ndmin=2)
    labels = np.loadtxt(folder / f"{name}.labels0.gz", dtype=int)
    X, labels = X[labels > 0], labels[labels > 0] - 1
    deviation = X.std(axis=0)
    is_varied = deviation > 1e-12
    return ((X - X.mean(axis=0))[:, is_varied] / deviation[is_varied]), labels.astype(np.int16)


def draw_layers(labels: NDArray[np.int16], m: int, p: float) -> list[Layer]:
    """Draw pairs of two samples uniformly, with answers."""
    rng, n = np.random.default_rng(DRAW), len(labels)
    pairs = np.empty((0, 2), int)
    while len(pairs) < m:
        new_pairs = rng.integers(n, size=(2 * m, 2))
        pairs = np.concatenate([pairs, new_pairs[new_pairs[:, 0] != new_pairs[:, 1]]])[:m]
    is_must = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) ^ (rng.random(m) >= p)
    return [Layer(MUST, pairs[is_must], None, p), Layer(CANNOT, pairs[~is_must], None, p)]


def measure_set(folder: Path, setting: tuple[float, float], name: str) -> Row:
    """Compare both models and the best of three without annotations on one set."""
    (p, share), (X, truth) = setting, read(folder, name)
    return compare(name, X, truth, draw_layers(truth, int(share * len(X)), p))


def fit_any(
    X: NDArray[np.float64],
    layers: Sequence[Layer],
    n_clusters: int,
    seed: int = 0,
    restarts: int = RESTARTS,
) -> FitResult:
    """Fit classes of any shape with the shipped settings."""
    settings = settings_of({})
    return fit(
        X, layers, n_clusters=n_clusters, model=MODEL_ANY, restarts=restarts, settings=settings, seed=seed
    )


def compare(name: str, X: NDArray[np.float64], truth: NDArray[np.int16], layers: list[Layer]) -> Row:
    """Compare both models and the best of three without annotations on a table with its annotations."""
    k = int(truth.max()) + 1
    union_fit = fit_any(X, layers, k)
    gaussian_fit = fit(
        X,
        layers,
        n_clusters=k,
        model="conditional",
        covariance="auto",
        restarts=RESTARTS,
        seed=0,
        settings=settings_of({"feature_weight": "effective", "proportions": "free"}),
    )
    partitions = [KMeans(k, n_init=10, random_state=0).fit_predict(X)]
    for shape in ("full", "diag"):
        mixture = GaussianMixture(k, covariance_type=shape, n_init=3, reg_covar=1e-4, random_state=0)
        partitions.append(mixture.fit_predict(X))
    return Row(
        name,
        (*X.shape, k),
        adjusted_rand(truth, union_fit.best.labels),
        adjusted_rand(truth, gaussian_fit.best.labels),
        max(adjusted_rand(truth, labels) for labels in partitions),
        union_fit.structure,
        union_fit.cpu_seconds,
    )


def overall_rows(rows: list[Row], best: dict[str, float]) -> Iterator[tuple[object, ...]]:
    """Yield the means of both halves and of all sets, and the sets that are lost."""
    for half, part in {"tuned on": rows[0::2], "not seen": rows[1::2], "both": rows}.items():
        means, losses, seconds = summary(part)
        yield half, len(part), *means, f"{np.mean([best[row.name] for row in part]):.3f}", losses, seconds


def summary(rows: Sequence[Row]) -> tuple[list[str], str, str]:
    """Return mean ARI of each model, tables that are lost, and seconds."""
    losses = [row for row in rows if row.any_shape < row.unsupervised - LOSS]
    names = ", ".join(f"{row.name} ({row.any_shape:.2f}, {row.unsupervised:.2f})" for row in losses)
    means = [
        np.mean([getattr(row, name) for row in rows]) for name in ("any_shape", "gaussian", "unsupervised")
    ]
    return [f"{mean:.3f}" for mean in means], names or "none", f"{sum(row.seconds for row in rows):.0f}"


@click.command()
@click.option("--setting", "names", type=click.Choice(tuple(SETTINGS)), multiple=True, help="Default: all.")
@click.option("--suite", type=click.Path(path_type=Path), default=SUITE, help="Folder of the sets.")
@click.option("--write", is_flag=True, help="Put the tables into the documents.")
def main(names: tuple[str, ...], suite: Path, write: bool) -> None:
    """Measure on the sets of a folder."""
    best = best_published(suite)
    for name in names or tuple(SETTINGS):
        with ProcessPoolExecutor(2) as pool:
            rows = []
            for row in pool.map(partial(measure_set, suite, SETTINGS[name]), best):
                rows.append(row)
                click.echo(f"{name} {row.name:22} {row}", err=True)
        texts = {OVERALL[name].name: OVERALL[name].markdown(overall_rows(rows, best))}
        if name == "p09":
            cells = [
                (
                    row.name,
                    *row.size,
                    *(f"{value:.3f}" for value in (row.any_shape, row.gaussian, row.unsupervised)),
                    row.structure,
                )
                for row in rows
            ]
            texts[BY_SET.name] = BY_SET.markdown(cells)
        show(texts, write=write)
