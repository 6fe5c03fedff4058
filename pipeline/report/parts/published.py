"""A table of published means, written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.data.lines import Line, read_lines, shortened, split_cells, to_number
from sweeps.errors import InputError, Problem, collecting, did_you_mean, not_one_of
from sweeps.words import BASELINES, MODEL_CODES

METRICS = {"nmi": "nmi", "kl": "goldberger_kl"}
"""Scores by their names in a table of published values."""
WORDS: dict[str, Iterable[str]] = {"model": MODEL_CODES, "metric": METRICS}
NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "p": ("a number from 0 to 1", lambda p: 0 <= p <= 1),
    "n_clusters": ("a whole number, 1 or more", lambda k: k >= 1 and k % 1 == 0),
    "m": ("a whole number, 0 or more", lambda m: m >= 0 and m % 1 == 0),
    "value": ("a number, 0 or more", lambda value: 0 <= value < math.inf),
}
COLUMNS = (*NUMBERS, *WORDS)
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
    names = _names(lines)
    problems: list[Problem] = []
    found: dict[tuple[Any, ...], tuple[str, Published]] = {}
    for line in lines[1:]:
        with collecting(problems):
            mean = _mean(line, names)
            place = round(mean.p, 9), mean.n_clusters, mean.m, mean.model, mean.score
            if place in found:
                again = f"the value of {found[place][0]} again"
                raise InputError([Problem(line.where, again, "each value once")])
            found[place] = line.where, mean
    if problems:
        raise InputError(shortened(path, problems))
    return [mean for _, mean in found.values()]


def _names(lines: Sequence[Line]) -> list[str]:
    names = split_cells(lines[0].text)
    listed = ", ".join(map(repr, names))
    problems = [
        Problem(
            lines[0].where,
            f"{names.count(name)} columns {name!r} of {listed}",
            f"one column {name!r}",
            did_you_mean(name, names),
        )
        for name in COLUMNS
        if names.count(name) != 1
    ]
    if not problems and len(lines) == 1:
        problems.append(Problem(str(lines[0].path), "no values", "a line for each published mean"))
    if problems:
        raise InputError(problems)
    return names


def _mean(line: Line, names: list[str]) -> Published:
    cells = split_cells(line.text)
    if len(cells) != len(names):
        expected = f"{len(names)}, one for each column"
        raise InputError([Problem(line.where, f"{len(cells)} cells", expected)])
    row = dict(zip(names, cells, strict=True))
    numbers = {name: number for name in NUMBERS if (number := to_number(row[name])) is not None}
    problems = [
        Problem(f"{line.where}, {name}", repr(row[name]), expected)
        for name, (expected, allowed) in NUMBERS.items()
        if name not in numbers or not allowed(numbers[name])
    ]
    problems += [
        not_one_of(f"{line.where}, {name}", row[name], known)
        for name, known in WORDS.items()
        if row[name] not in known
    ]
    if not problems and (numbers["m"] == 0) != (row["model"] in BASELINES):
        expected = "m = 0 for a model without annotations, and for no other"
        problems.append(Problem(line.where, f"m = {row['m']} for {row['model']}", expected))
    if problems:
        raise InputError(problems)
    p, n_clusters, m, value = numbers.values()
    digits = EXACT if "e" in row["value"].lower() else len(row["value"].partition(".")[2])
    return Published(p, int(n_clusters), int(m), row["model"], METRICS[row["metric"]], value, digits)
