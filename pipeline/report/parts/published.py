"""A table of published means, as somebody wrote it down."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeps.data.lines import read_lines, shortened, split_cells, to_number
from sweeps.errors import InputError, Problem, did_you_mean
from sweeps.models import BASELINES, MODEL_CODES

COLUMNS = ("p", "n_clusters", "m", "model", "metric", "value")
BOUNDS = {
    "p": (0.0, 1.0, "a number from 0 to 1"),
    "n_clusters": (1.0, math.inf, "a whole number, 1 or more"),
    "m": (0.0, math.inf, "a whole number, 0 or more"),
    "value": (0.0, math.inf, "a number, 0 or more"),
}
EXACT = 15
"""Digits of a value that is not printed as a decimal."""
METRICS = {"nmi": "nmi", "kl": "goldberger_kl"}
"""Scores by their names in a table of published values."""


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

    @property
    def place(self) -> tuple[object, ...]:
        """What it is the mean of."""
        return (round(self.p, 9), self.n_clusters, self.m, self.model, self.score)


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
        raise InputError([Problem(str(path), "nothing", f"a line of columns: {','.join(COLUMNS)}")])
    head, *body = [(line.where, split_cells(line.text)) for line in lines]
    names = head[1]
    problems = list(_head_problems(head[0], names))
    if problems:
        raise InputError(problems)
    if not body:
        problems.append(Problem(str(path), "no values", "a line for each published mean"))
    found: dict[tuple[object, ...], str] = {}
    published = []
    for where, cells in body:
        try:
            row = _row(where, names, cells)
        except InputError as error:
            problems += error.problems
            continue
        published.append(row)
        first = found.setdefault(row.place, where)
        if first != where:
            problems.append(Problem(where, f"the value of {first} again", "each value once"))
    if problems:
        raise InputError(shortened(path, problems))
    return published


def _head_problems(where: str, names: list[str]) -> Iterator[Problem]:
    for name in COLUMNS:
        if names.count(name) != 1:
            found = f"{names.count(name)} columns {name!r} of {', '.join(map(repr, names))}"
            yield Problem(where, found, f"one column {name!r}", did_you_mean(name, names))


def _row(where: str, names: list[str], cells: list[str]) -> Published:
    if len(cells) != len(names):
        raise InputError([Problem(where, f"{len(cells)} cells", f"{len(names)}, one for each column")])
    texts = dict(zip(names, cells, strict=True))
    problems = [*_number_problems(where, texts), *_word_problems(where, texts)]
    if not problems and (float(texts["m"]) == 0) != (texts["model"] in BASELINES):
        expected = "m = 0 for a model without annotations, and for no other"
        problems.append(Problem(where, f"m = {texts['m']} for {texts['model']}", expected))
    if problems:
        raise InputError(problems)
    value = texts["value"]
    return Published(
        float(texts["p"]),
        int(float(texts["n_clusters"])),
        int(float(texts["m"])),
        texts["model"],
        METRICS[texts["metric"]],
        float(value),
        len(value.partition(".")[2]) if "e" not in value.lower() else EXACT,
    )


def _number_problems(where: str, texts: dict[str, str]) -> Iterator[Problem]:
    for name, (low, high, kind) in BOUNDS.items():
        found = to_number(texts[name])
        whole = kind.startswith("a whole")
        if found is None or not low <= found <= high or math.isinf(found) or (whole and found % 1):
            yield Problem(f"{where}, {name}", repr(texts[name]), kind)


def _word_problems(where: str, texts: dict[str, str]) -> Iterator[Problem]:
    for name, known in (("model", list(MODEL_CODES)), ("metric", list(METRICS))):
        if texts[name] not in known:
            expected = "one of " + ", ".join(known)
            yield Problem(f"{where}, {name}", repr(texts[name]), expected, did_you_mean(texts[name], known))
