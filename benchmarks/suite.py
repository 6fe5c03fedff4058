"""Classes of any shape on the standard clustering suite: `python -m benchmarks suite [--write]`.

Sets of at most 3,600 samples, standardised, noise points left out, K told; pairs of samples drawn uniformly,
right with the accuracy that is told. Constants of the choice were set on every second set, in the order of
their names as published, at p = .9; the other half was not used for that. A setting takes an hour.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from quality import SHARED
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from tables import Table, show

from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.pipeline.fit.solve import fit

LARGEST, DRAW, RESTARTS = 3600, 1, 10
SUITE = SHARED / "data" / "suite"
# Behind the best partition without annotations by more than this is a loss.
LOSS = 0.03
# Accuracy and annotations per sample.
SETTINGS = {"p09": (0.9, 1.0), "p08": (0.8, 1.0), "p1": (1.0, 1.0), "half": (0.9, 0.5)}

COLUMNS = ("sets", "any shape", "one Gaussian", "unsupervised", "published", "behind unsupervised", "seconds")
OVERALL = {name: Table(f"suite/{name}", ("half", *COLUMNS)) for name in SETTINGS}
EACH = Table(
    "suite/sets", ("set", "N", "D", "K", "any shape", "one Gaussian", "unsupervised", "what was chosen")
)
TABLES = (*OVERALL.values(), EACH)


@dataclass(frozen=True)
class Row:
    """ARI on one set, and what it took."""

    name: str
    size: tuple[int, int, int]
    any_shape: float
    one: float
    unsupervised: float
    chosen: str
    seconds: float


def published(folder: Path) -> dict[str, float]:
    """The best published ARI of each set, with hindsight, in the order of the file."""
    best: dict[str, float] = {}
    with (folder / "published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = f"{row['battery']}/{row['dataset']}"
            if int(row["n"]) <= LARGEST and (folder / f"{name}.data.gz").exists():
                best[name] = max(best.get(name, -1.0), float(row["ari"]))
    return best


def read(folder: Path, name: str) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Standardised features and classes; noise points are no samples."""
    X = np.loadtxt(folder / f"{name}.data.gz", ndmin=2)
    labels = np.loadtxt(folder / f"{name}.labels0.gz", dtype=int)
    X, labels = X[labels > 0], labels[labels > 0] - 1
    deviation = X.std(axis=0)
    kept = deviation > 1e-12
    return ((X - X.mean(axis=0))[:, kept] / deviation[kept]), labels.astype(np.int16)


def drawn(labels: NDArray[np.int16], m: int, p: float) -> list[Layer]:
    """Pairs of two samples, uniform."""
    rng, n = np.random.default_rng(DRAW), len(labels)
    pairs = np.empty((0, 2), int)
    while len(pairs) < m:
        more = rng.integers(n, size=(2 * m, 2))
        pairs = np.concatenate([pairs, more[more[:, 0] != more[:, 1]]])[:m]
    together = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) ^ (rng.random(m) >= p)
    return [Layer(MUST, pairs[together], None, p), Layer(CANNOT, pairs[~together], None, p)]


def measured(folder: Path, setting: tuple[float, float], name: str) -> Row:
    """Both models and the best of three without annotations on one set."""
    (p, share), (X, truth) = setting, read(folder, name)
    return compared(name, X, truth, drawn(truth, int(share * len(X)), p))


def compared(name: str, X: NDArray[np.float64], truth: NDArray[np.int16], layers: list[Layer]) -> Row:
    """Both models and the best of three without annotations on one table with its annotations."""
    k = int(truth.max()) + 1
    chosen = fit(
        X,
        layers,
        n_clusters=k,
        model="conditional-any",
        restarts=RESTARTS,
        seed=0,
        settings=settings_of({}),
    )
    one = fit(
        X,
        layers,
        n_clusters=k,
        model="conditional",
        covariance="auto",
        restarts=RESTARTS,
        seed=0,
        settings=settings_of({"feature_weight": "effective", "proportions": "free"}),
    )
    alone = [KMeans(k, n_init=10, random_state=0).fit_predict(X)]
    for shape in ("full", "diag"):
        mixture = GaussianMixture(k, covariance_type=shape, n_init=3, reg_covar=1e-4, random_state=0)
        alone.append(mixture.fit_predict(X))
    return Row(
        name,
        (*X.shape, k),
        adjusted_rand(truth, chosen.best.labels),
        adjusted_rand(truth, one.best.labels),
        max(adjusted_rand(truth, labels) for labels in alone),
        chosen.structure,
        chosen.cpu_seconds,
    )


def overall(rows: list[Row], best: dict[str, float]) -> Iterator[tuple[object, ...]]:
    """Means of both halves and of all, and which sets are lost."""
    for half, some in {"tuned on": rows[0::2], "not seen": rows[1::2], "both": rows}.items():
        means, lost, seconds = summary(some)
        yield half, len(some), *means, f"{np.mean([best[row.name] for row in some]):.3f}", lost, seconds


def summary(rows: Sequence[Row]) -> tuple[list[str], str, str]:
    """Mean ARI of both models and of the best without annotations, tables that are lost, seconds."""
    lost = [row for row in rows if row.any_shape < row.unsupervised - LOSS]
    names = ", ".join(f"{row.name} ({row.any_shape:.2f}, {row.unsupervised:.2f})" for row in lost)
    means = [np.mean([getattr(row, name) for row in rows]) for name in ("any_shape", "one", "unsupervised")]
    return [f"{mean:.3f}" for mean in means], names or "none", f"{sum(row.seconds for row in rows):.0f}"


@click.command()
@click.option("--setting", "names", type=click.Choice(tuple(SETTINGS)), multiple=True, help="Default: all.")
@click.option("--suite", type=click.Path(path_type=Path), default=SUITE, help="Folder of the sets.")
@click.option("--write", is_flag=True, help="Into the documents.")
def main(names: tuple[str, ...], suite: Path, write: bool) -> None:
    """Measure on the sets of a folder."""
    if not (suite / "published.csv").is_file():
        click.echo(f"{suite}: found no published.csv, expected the clustering suite", err=True)
        sys.exit(2)
    best = published(suite)
    for name in names or tuple(SETTINGS):
        with ProcessPoolExecutor(2) as pool:
            rows = []
            for row in pool.map(partial(measured, suite, SETTINGS[name]), best):
                rows.append(row)
                click.echo(
                    f"{name} {row.name:22} {row.any_shape:.3f} {row.one:.3f} {row.unsupervised:.3f}"
                    f" {row.seconds:.1f} s, {row.chosen}",
                    err=True,
                )
        found = {OVERALL[name].name: OVERALL[name].markdown(overall(rows, best))}
        if name == "p09":
            each = [
                (
                    row.name,
                    *row.size,
                    *(f"{value:.3f}" for value in (row.any_shape, row.one, row.unsupervised)),
                    row.chosen,
                )
                for row in rows
            ]
            found[EACH.name] = EACH.markdown(each)
        show(found, write=write)
