"""A sweep file to begin with, for a user's own tables: `sweep init`.

The columns of a table say what they are if their cells leave no doubt: `ColumnGuess` looks at them while the
table is read. If they do not, that is a problem, which names the options that decide it.
"""

import os
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from sweep_clustering.sweeps.data.builtin import DataSet
from sweep_clustering.sweeps.data.reading import load_table
from sweep_clustering.sweeps.data.table import FEWEST, Frame, NameSearch, TableChoice, is_empty
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, plural, raise_all, refused

# Names of columns that hold classes, in small letters.
CLASSES = (
    *("class", "classes", "label", "labels", "target", "y"),
    *("species", "category", "kind", "type", "group"),
)

# Rows of the smallest mean class by which a column of texts may hold classes.
ROWS_OF_CLASS = 5

TEXT = """\
# Written by sweep init. Change what does not suit, and see the work that it makes:
#     sweep plan {file}
name = "{name}"  # names the cube, results/{name}.zarr
seed = 1  # the same seed gives the same bits

{tables}
[grid]
p = [0.8, 0.9, 1.0]  # shares of the answers that are right
m = ["0.5N", "1N"]  # numbers of answers about pairs of rows; N is the number of rows
replicates = 5  # redraws of the answers
models = ["unsupervised", "posterior", "conditional"]  # the first sees no answers
methods = ["k-means"]  # of others, to compare with: sweep methods list
restarts = 5  # independent searches of a cell, of which the best one counts

[data]
scale = "standard"  # each feature has the standard deviation 1; "none" for features of one unit
"""


@dataclass
class ColumnGuess(NameSearch):
    """Guess by the cells of a table which columns are classes, names or features."""

    label: str | None = None
    choice: TableChoice = field(default_factory=TableChoice)
    notes: dict[str, str] = field(default_factory=dict)
    candidates: list[str] = field(default_factory=list)

    def look(self, table: Frame) -> None:
        """Look at all columns."""
        by_name, by_cells, drop = list[str | int](), list[str | int](), dict[str | int, str]()
        index: str | int | None = None
        has_gaps = False
        for place in range(table.width):
            header = table.header[place] if table.header else ""
            column = header if header and list(table.header).count(header) == 1 else place
            numbers = table.numbers([place])
            is_text = numbers.n_others[0] > numbers.is_empty.sum()
            cells = set(table.texts(place)) if is_text or header.lower() in CLASSES else set[str]()
            words = [cell for cell in cells if not is_empty(cell)]
            is_class = 2 <= len(words) <= table.n_rows / ROWS_OF_CLASS
            if column == self.label or str(place) == self.label:
                continue
            if is_class and header.lower() in CLASSES:
                by_name.append(column)
            elif is_text and len(words) == table.n_rows and index is None:
                index = column
            elif is_text:
                by_cells += [column] if is_class else []
                drop[column] = "holds texts"
            elif table.n_rows >= FEWEST and _tells_rows_apart(numbers.values):
                drop[column] = "tells rows apart"
            else:
                has_gaps |= bool(numbers.is_empty.any())
        self.candidates = [str(column) for column in (by_name or by_cells)]
        label: str | int | None = self.label
        if label is None and len(by_name or by_cells) == 1:
            (label,) = by_name or by_cells
            drop.pop(label, None)
        drop |= dict.fromkeys((column for column in by_name if column != label), "may hold classes, too")
        self.choice = TableChoice(
            drop=tuple(drop), index_column=index, label_column=label, missing="drop" if has_gaps else "error"
        )
        self.notes = {"drop": "; ".join(f"{column!r} {reason}" for column, reason in drop.items())}
        self.notes |= {"index_column": "names of the rows", "missing": "rows with an empty cell are left out"}


def _tells_rows_apart(values: np.ndarray[Any, Any]) -> bool:
    return bool((values == np.floor(values)).all()) and len(np.unique(values)) == len(values)


def sweep_file_of(
    paths: Sequence[Path], file: Path, *, label_column: str | None = None, n_clusters: int | None = None
) -> str:
    """Return the text of a sweep file for tables; everything that is not clear is one InputError."""
    problems, tables, names = list[Problem](), list[str](), list[str]()
    for path in paths:
        with collecting(problems):
            guess = ColumnGuess(frozenset(), label=label_column)
            try:
                data = load_table(path, TableChoice(search=guess), n_clusters=n_clusters or 1)
            except InputError:
                if not guess.notes:  # the file cannot be read at all
                    raise
            if guess.choice.label_column is None:
                options = ", ".join(map(repr, guess.candidates))
                fault = "no column that is clearly the class" + (f" ({options} may be)" if options else "")
                raise refused(path, fault, "--label-column COLUMN", "a sweep scores against true classes")
            data = load_table(path, guess.choice, n_clusters=n_clusters)
            names.append(_name_of(path.name.partition(".")[0], ("suite", *names)))
            tables.append("\n".join(_table_lines(path, names[-1], file, guess, data, n_clusters)))
    raise_all(problems)
    return TEXT.format(file=shlex.quote(str(file)), name=_name_of(file.stem, ()), tables="\n".join(tables))


def _name_of(text: str, taken_names: Sequence[str]) -> str:
    """Return a name of a data set that is close to a text, and none of the others."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_") or "table"
    further = (f"{name}-{number}" for number in count(2))
    return next(free for free in chain([name], further) if free not in taken_names)


def _table_lines(
    path: Path, name: str, file: Path, guess: ColumnGuess, data: DataSet, n_clusters: int | None
) -> Iterator[str]:
    """Yield the lines of one table, with the reason for each key."""
    choice, table = guess.choice, data.table
    sizes = np.bincount(table.labels_true) if table.labels_true is not None else np.zeros(0, int)
    classes = [f"{name} {size}" for name, size in zip(table.class_names, sizes.tolist(), strict=True)]
    class_list = textwrap.shorten(", ".join(classes), 80, placeholder=" …")
    reasons = guess.notes | {"label_column": f"{plural(len(classes), 'class', 'classes')}: {class_list}"}
    reasons["path"] = f"{plural(len(table.X), 'row')}, {plural(table.X.shape[1], 'feature')}"
    values: dict[str, Any] = {"name": name, "path": Path(os.path.relpath(path, file.parent)).as_posix()}
    for key in ("label_column", "index_column", "drop", "missing"):
        value = getattr(choice, key)
        if value not in (None, (), "error"):
            values[key] = list(value) if isinstance(value, tuple) else value
    values |= {"n_clusters": n_clusters} if n_clusters is not None else {}
    yield "[[grid.datasets]]"
    for key, value in values.items():
        line = (
            re.sub(r"\n *", " ", tomli_w.dumps({key: value}).strip()).replace(", ]", "]").replace("[ ", "[")
        )
        yield f"{line}  # {' '.join(reasons[key].split())}" if reasons.get(key) else line
    yield ""
