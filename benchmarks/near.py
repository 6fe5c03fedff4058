"""Near pairs and few classes: `python -m benchmarks near [--write]`.

Tables are those of scikit-learn, standardised, and docstrings and functions of the standard library with
modules as classes. There are N or 4 N pairs of a row and one of its 20 nearest neighbours, nine of ten
answers are right, and this accuracy is given. The run takes half an hour on one quiet core.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import click
import numpy as np
import sources
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.preprocessing import StandardScaler
from tables import Table, show
from texts import COLUMNS, Data, Row, draw_layers, score_fits, score_k_means

RESULTS = Table("near", COLUMNS)
TABLES = (RESULTS,)


def standardised(name: str) -> Data:
    """Return a table of scikit-learn, with features of deviation one, or with pixels from 0 to 1."""
    data = getattr(datasets, f"load_{name}")()
    X: NDArray[np.float64] = data.data / 16.0
    return X if name == "digits" else StandardScaler().fit_transform(X), data.target.astype(np.int64)


READ: dict[str, Callable[[], Data]] = {
    **{name: partial(standardised, name) for name in ("iris", "wine", "breast_cancer", "digits")},
    "docstrings": partial(sources.docstrings, 100),
    "functions": partial(sources.functions, 150),
}


def rows() -> Iterator[Row]:
    """Fit each table with each set of pairs, with K and without."""
    for (name, read), factor in product(READ.items(), (1, 4)):
        X, labels = read()
        layers = draw_layers(X, labels, "near", factor * len(X))
        pairs = "N" if factor == 1 else f"{factor} N"
        scores = score_fits(X, labels, layers, has_open_k=True)
        row = (name, len(X), int(labels.max()) + 1, pairs, score_k_means(X, labels), *scores)
        click.echo(f"{row}", err=True)
        yield row


@click.command()
@click.option("--write", is_flag=True, help="Put the table into the documents.")
def main(write: bool) -> None:
    """Measure on all tables."""
    show({RESULTS.name: RESULTS.markdown(rows())}, write=write)
