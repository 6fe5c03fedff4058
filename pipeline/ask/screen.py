"""A question as lines of a terminal: two rows of the table side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from pipeline.fit.inputs import FitInputs
from sweeps.annotations.files import Samples

KEYS = "[y]es together   [n]o, apart   [s]kip   [u]ndo   [q]uit"
QUESTION = "Do these two belong together?"

WIDEST_NAME = 24
"""Of a column's name, in characters."""

BESIDE = 9
"""Lines of a screen that are not of the two rows: three of progress, two blank ones, question and keys, one
on a wrong key, and where the cursor stands."""


@dataclass(frozen=True)
class Rows:
    """What is shown of a table.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Features as they are in the file.
    feature_names : sequence of str
        One for each.
    names : sequence of str or None
        Name of every row.
    columns : dict of str to sequence of str
        Other columns to show, by name.
    samples : Samples, optional
        What rows are called in files.
    """

    values: NDArray[np.float64]
    feature_names: Sequence[str]
    names: Sequence[str] | None
    columns: dict[str, Sequence[str]]
    samples: Samples | None = None

    def key(self, sample: int) -> str:
        """What stands for a row in files: its name in the index column, else its number."""
        return str(sample + 1) if self.samples is None else self.samples.text(sample)

    def cell(self, sample: int) -> str:
        """The same for a cell of a spreadsheet."""
        return str(sample + 1) if self.samples is None else self.samples.cell(sample)

    def title(self, sample: int) -> str:
        """Number and name of a row."""
        name = f" {one_line(self.names[sample])}" if self.names else ""
        return f"row {one_line(self.key(sample))}{name}"


def rows_of(inputs: FitInputs, names: str | None, show: Sequence[str], aside: Sequence[str]) -> Rows:
    """What is to be shown of the table of a fit.

    Parameters
    ----------
    inputs : FitInputs
        With the texts of the columns `aside`.
    names : str or None
        Column of the names of rows.
    show : sequence of str
        Columns of texts to show.
    aside : sequence of str
        Columns that were left out of the features, in the order in which the table holds their texts.
    """
    table = inputs.table
    texts = dict(zip(aside, table.aside, strict=True))
    numbered = tuple(f"column {number + 1}" for number in range(table.X.shape[1]))
    return Rows(
        table.X,
        table.feature_names or numbered,
        texts[names] if names else None,
        {column: texts[column] for column in show},
        inputs.samples,
    )


def question_lines(rows: Rows, first: int, second: int, width: int = 80, height: int = 24) -> list[str]:
    """Two rows side by side: names, texts, then features, those that differ most first.

    Differences are in standard deviations of the feature. What does not fit is cut, or counted.

    Parameters
    ----------
    rows : Rows
        The table.
    first, second : int
        Samples from 0.
    width, height : int
        Of the terminal, in characters.
    """
    height = max(height - BESIDE, 4)
    widest = max(map(cell_len, [*rows.columns, *rows.feature_names]), default=0)
    left = min(widest, WIDEST_NAME, width // 3)
    cell = (width - left - 4) // 2

    def line(name: str, a: str, b: str) -> str:
        return f"{fitted(name, left)}  {fitted(a, cell)}  {fitted(b, cell)}".rstrip()

    lines = [line("", rows.title(first), rows.title(second))]
    for name, texts in rows.columns.items():
        for number, (a, b) in enumerate(zip(*_wrapped(texts, first, second, cell), strict=True)):
            lines.append(line("" if number else name, a, b))
    order, n_features = by_difference(rows.values, first, second), len(rows.feature_names)
    room = max(height - len(lines), 1)
    shown = order if n_features <= room else order[: max(room - 1, 1)]
    for feature in shown:
        a, b = (f"{rows.values[sample, feature]:.6g}" for sample in (first, second))
        lines.append(line(rows.feature_names[feature], a, b))
    if len(shown) < n_features:
        lines.append(fitted(f"and {n_features - len(shown)} features that differ less", width).rstrip())
    return lines


def by_difference(values: NDArray[np.float64], first: int, second: int) -> list[int]:
    """Features, those in which two samples differ most first, in standard deviations."""
    spread = values.std(axis=0)
    difference = np.abs(values[first] - values[second]) / np.where(spread > 0, spread, 1.0)
    order: list[int] = np.argsort(-difference, kind="stable").tolist()
    return order


MOST_LINES = 3
"""Of a text that is shown."""


def _wrapped(texts: Sequence[str], first: int, second: int, width: int) -> tuple[list[str], list[str]]:
    """Both texts in as many lines, `MOST_LINES` at most."""
    parts = [_cut(one_line(texts[sample]), width) for sample in (first, second)]
    longest = max(map(len, parts))
    a, b = ([*part, *[""] * (longest - len(part))] for part in parts)
    return a, b


def _cut(text: str, width: int) -> list[str]:
    lines: list[str] = []
    while text and len(lines) < MOST_LINES - 1 and cell_len(text) > width:
        taken = _prefix(text, width)
        space = taken.rfind(" ")
        taken = taken[: space + 1] if space > 0 and len(taken) < len(text) else taken
        lines.append(taken.rstrip())
        text = text[len(taken) :]
    return [*lines, text] if text or not lines else lines


def _prefix(text: str, width: int) -> str:
    """As many characters as fit, one at least."""
    used = 0
    for place, character in enumerate(text):
        used += cell_len(character)
        if used > width and place:
            return text[:place]
    return text


def fitted(text: str, width: int) -> str:
    """A text of just this width: blanks added, or its end cut and marked."""
    text = one_line(text)
    if cell_len(text) > width:
        return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width else ""
    return set_cell_size(text, width)


def one_line(text: str) -> str:
    """A text without line ends, tabs and what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
