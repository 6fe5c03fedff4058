"""A fit without options on the clustering suite, and its alarms: `python -m benchmarks no_options [--write]`.

The sets of `suite`, in the units that they come in, K told and the accuracy not; as many pairs as samples.
Good fits should be silent, and fits to answers that say nothing should not: answers at random, and right ones
whose rows are counted from the wrong end by one. Takes ten minutes.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from suite import SUITE, drawn, published
from tables import Table, show

from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import choose_model, settings_of
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.sweeps.data.reading import scale

# What the answers are: right with a probability, or of the next row.
ANSWERS: dict[str, float] = {"0.8": 0.8, "0.9": 0.9, "1": 1.0, "at random": 0.5, "of the next row": 1.0}
NEXT = "of the next row"
GOOD = 0.9
SETTINGS = settings_of({})

TABLE = Table(
    "no_options",
    ("answers right", "sets", "ARI", "good fits", "of them with an alarm", "others", "of them with one"),
)
TABLES = (TABLE,)


@dataclass(frozen=True)
class Row:
    """ARI on one set, and the alarms."""

    name: str
    answers: str
    ari: float
    alarms: tuple[str, ...]
    choice: str


def read(folder: Path, name: str) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Features as they are and classes, in an order that says nothing; noise points are no samples."""
    X = np.loadtxt(folder / f"{name}.data.gz", ndmin=2)
    labels = np.loadtxt(folder / f"{name}.labels0.gz", dtype=int)
    order = np.random.default_rng(len(X)).permutation(np.flatnonzero(labels > 0))
    return X[order], (labels[order] - 1).astype(np.int16)


def measured(task: tuple[Path, str, str]) -> Row:
    """One fit."""
    folder, name, answers = task
    X, truth = read(folder, name)
    layers = [replace(layer, accuracy=None) for layer in drawn(truth, len(X), ANSWERS[answers])]
    if answers == NEXT:
        layers = [replace(layer, pairs=(layer.pairs + 1) % len(X)) for layer in layers]
    model, covariance, how = choose_model(None, None, None, SETTINGS, annotated=True)
    found = fit(
        scale(X, how),
        [Layer(each.kind, each.pairs, None, None, None, 0) for each in layers],
        n_clusters=int(truth.max()) + 1,
        model=model,
        covariance=covariance,
        restarts=10,
        settings=SETTINGS,
        seed=0,
    )
    return Row(name, answers, adjusted_rand(truth, found.best.labels), found.alarms, found.choice)


def rows(found: list[Row]) -> Iterator[tuple[object, ...]]:
    """A row for each kind of answers."""
    for answers in ANSWERS:
        some = [row for row in found if row.answers == answers]
        good, others = [[row for row in some if (row.ari >= GOOD) == is_good] for is_good in (True, False)]
        counts = [(len(each), sum(bool(row.alarms) for row in each)) for each in (good, others)]
        yield answers, len(some), f"{np.mean([row.ari for row in some]):.3f}", *counts[0], *counts[1]


@click.command()
@click.option("--suite", type=click.Path(path_type=Path), default=SUITE, help="Folder of the sets.")
@click.option("--write", is_flag=True, help="Into the documents.")
def main(suite: Path, write: bool) -> None:
    """Measure on the sets of a folder."""
    if not (suite / "published.csv").is_file():
        click.echo(f"{suite}: found no published.csv, expected the clustering suite", err=True)
        sys.exit(2)
    found = []
    with ProcessPoolExecutor(2) as pool:
        for row in pool.map(measured, product([suite], published(suite), ANSWERS)):
            found.append(row)
            said = "; ".join(text.partition(":")[0][:60] for text in row.alarms)
            click.echo(f"{row.name:20} {row.answers:15} {row.ari:6.3f}  {row.choice[:60]}  {said}", err=True)
    show({TABLE.name: TABLE.markdown(rows(found))}, write=write)
