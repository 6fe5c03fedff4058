"""A table of published means, written by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pandas as pd

from sweeps.data.lines import read_lines, shortened, split_cells, to_number
from sweeps.errors import InputError, Problem, did_you_mean
from sweeps.models import BASELINES, MODEL_CODES

MOST = sys.float_info.max
METRICS = {"nmi": "nmi", "kl": "goldberger_kl"}
"""Scores by their names in a table of published values."""
WORDS = {"model": tuple(MODEL_CODES), "metric": tuple(METRICS)}
BOUNDS = {"p": (0, 1), "n_clusters": (1, MOST), "m": (0, MOST), "value": (0, MOST)}
WHOLE = ["n_clusters", "m"]
COLUMNS = {
    "p": "a number from 0 to 1",
    "n_clusters": "a whole number, 1 or more",
    "m": "a whole number, 0 or more",
    "value": "a number, 0 or more",
    "model": f"one of {', '.join(WORDS['model'])}",
    "metric": f"one of {', '.join(WORDS['metric'])}",
}
"""What each column holds."""
EXACT = 15
"""Digits of a value that is not printed as a decimal."""


@dataclass(frozen=True)
class Published:
    """One published mean.

    Parameters
    ----------
    p : float
        Accuracy.
    n_clusters, m : int
        Clusters of the mixtures, annotations; 0 for a model without.
    model, score : str
        As the cube calls them.
    value : float
        The mean.
    digits : int
        Digits behind the point in print.
    """

    p: float
    n_clusters: int
    m: int
    model: str
    score: str
    value: float
    digits: int


def read_published(path: Path) -> list[Published]:
    """Read a table of published means.

    Parameters
    ----------
    path : Path
        CSV with the columns `COLUMNS`, in any order; metrics are those of `METRICS`.

    Returns
    -------
    list of Published

    Raises
    ------
    InputError
        With every line that is wrong.
    """
    lines = read_lines(path)
    if not lines:
        head = "p,n_clusters,m,model,metric,value"
        raise InputError([Problem(str(path), "nothing", f"a line of columns: {head}")])
    names, *rows = (split_cells(line.text) for line in lines)
    problems = [
        Problem(
            lines[0].where,
            f"{names.count(name)} columns {name!r} of {', '.join(map(repr, names))}",
            f"one column {name!r}",
            did_you_mean(name, names),
        )
        for name in COLUMNS
        if names.count(name) != 1
    ]
    if not problems and not rows:
        problems.append(Problem(str(path), "no values", "a line for each published mean"))
    if problems:
        raise InputError(problems)
    body = {line.where: cells for line, cells in zip(lines[1:], rows, strict=True)}
    whole = {where: cells for where, cells in body.items() if len(cells) == len(names)}
    texts = pd.DataFrame.from_dict(whole, orient="index", columns=names)[list(COLUMNS)]
    numbers = texts[list(BOUNDS)].map(to_number).astype(float)
    found = {where: [] if where in whole else [_length(where, body[where], names)] for where in body}
    for where, problem in _problems(texts, numbers):
        found[where].append(problem)
    if any(found.values()):
        raise InputError(shortened(path, chain.from_iterable(found.values())))
    return [
        Published(
            row.p,
            row.n_clusters,
            row.m,
            row.model,
            METRICS[row.metric],
            float(row.value),
            len(row.value.partition(".")[2]) if "e" not in row.value.lower() else EXACT,
        )
        for row in texts.assign(p=numbers["p"], **numbers[WHOLE].astype(int)).itertuples()
    ]


def _length(where: str, cells: list[str], names: list[str]) -> Problem:
    return Problem(where, f"{len(cells)} cells", f"{len(names)}, one for each column")


def _problems(texts: pd.DataFrame, numbers: pd.DataFrame) -> Iterator[tuple[str, Problem]]:
    """What is wrong with the lines that have every cell, by place of the line."""
    wrong = pd.DataFrame({name: ~numbers[name].between(*bounds) for name, bounds in BOUNDS.items()})
    wrong[WHOLE] |= numbers[WHOLE] % 1 != 0
    for name, known in WORDS.items():
        wrong[name] = ~texts[name].isin(known)
    for name, bad in wrong.items():
        for where, text in texts.loc[bad, name].items():
            hint = did_you_mean(text, WORDS.get(name, ()))
            yield where, Problem(f"{where}, {name}", repr(text), COLUMNS[name], hint)
    mixed = ~wrong.any(axis=1) & ((numbers["m"] == 0) != texts["model"].isin(BASELINES))
    for where, row in texts[mixed].iterrows():
        expected = "m = 0 for a model without annotations, and for no other"
        yield where, Problem(where, f"m = {row['m']} for {row['model']}", expected)
    places = texts[list(WORDS)].join(numbers.drop(columns="value").round({"p": 9}))
    for _, same in places[~wrong.any(axis=1) & ~mixed].groupby(list(places), sort=False):
        first, *others = same.index
        for where in others:
            yield where, Problem(where, f"the value of {first} again", "each value once")
