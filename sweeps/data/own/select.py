"""From the columns of a table to samples: features, classes, names, and rows that are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.data.classes import Encoded, encode_classes
from sweeps.data.lines import MOST_LINES, PROBLEMS_SHOWN, counted, to_number
from sweeps.data.own.choice import TableChoice, position, positions
from sweeps.data.own.columns import Columns, Numbers, check_size, is_empty
from sweeps.data.own.notes import column_notes, dropped_note
from sweeps.data.tables import LabelledTable, SampleRows
from sweeps.errors import InputError, Problem, collecting

MOST_TEXTS = 100
"""Different texts of a column that becomes as many columns."""


@dataclass
class _Roles:
    """Positions of the columns by what they are; `label` and `index` may be none."""

    features: list[int]
    label: int | None
    index: int | None
    aside: list[int]


def select(table: Columns, choice: TableChoice, problems: list[Problem]) -> LabelledTable:
    """Take samples out of a table.

    Parameters
    ----------
    table : Columns
        The table.
    choice : TableChoice
        What its columns are.
    problems : list of Problem
        What was found wrong with it before.

    Returns
    -------
    LabelledTable
        Finite features, of the rows that are kept.

    Raises
    ------
    InputError
        With these problems, and all that are found here.
    """
    check_size(table.path, table.n_rows, 1, MOST_LINES)
    check_size(table.path, 1, table.width, MOST_LINES)
    roles = _roles(table, choice, problems)
    check_size(f"{table.path}, features", table.n_rows, len(roles.features), MOST_LINES)
    numbers = Numbers(
        np.empty((table.n_rows, 0)), np.zeros(0, np.intp), np.zeros(table.n_rows, dtype=np.bool_)
    )
    if roles.features:
        numbers = table.numbers(roles.features)
    kept = np.ones(table.n_rows, dtype=np.bool_)
    if choice.missing == "drop":
        kept = _complete(table, roles, numbers)
        if not kept.any():
            where = f"{table.path}, {choice.key('missing')}"
            hint = "drop the columns that are empty in most rows"
            problems.append(Problem(where, "no row without an empty cell", "one at least", hint))
            raise InputError(problems)
    rows = np.flatnonzero(kept)
    X, names, places, encoded = np.empty((len(rows), 0)), list[str](), list[int](), None
    with collecting(problems):
        X, names, places = _features(table, choice, roles.features, numbers, rows)
    if roles.label is not None:
        label = roles.label
        with collecting(problems):
            encoded = _classes(table, label, rows)
    of_rows = SampleRows(table.n_rows)
    with collecting(problems):
        of_rows = _rows(table, choice, roles.index, rows)
    if problems:
        raise InputError(problems)
    codes, class_names = encoded or (None, ())
    aside = tuple(_picked(table.texts(column), rows) for column in roles.aside)
    notes = [
        *dropped_note(of_rows, choice),
        *column_notes(X, names, table.header, places, choice),
    ]
    feature_names = tuple(names) if table.header else ()
    return LabelledTable(X, codes, class_names, feature_names, aside, of_rows, tuple(notes))


def _roles(table: Columns, choice: TableChoice, problems: list[Problem]) -> _Roles:
    """What each column is, by its position."""

    def found(name: str, of: str) -> int | None:
        told = getattr(choice, of)
        if told is not None:
            with collecting(problems):
                return position(told, table.header, table.width, f"{table.path}, {name}")
        return None

    label = found(choice.key("label_column"), "label_column")
    index = found(choice.key("index_column"), "index_column")
    if label is not None and label == index:
        where, of = f"{table.path}, {choice.key('index_column')}", choice.key("label_column")
        problems.append(Problem(where, f"{table.named(label)}, which is {of} as well", "another column"))
    aside: list[int] = []
    for name in choice.aside:
        with collecting(problems):
            aside.append(position(name, table.header, table.width, f"{table.path}, column left out"))
    dropped: list[int] = []
    with collecting(problems):
        where = f"{table.path}, {choice.key('drop')}"
        dropped = positions(choice.drop, table.header, table.width, where)
    others = {label, index, *aside, *dropped}
    features = [column for column in range(table.width) if column not in others]
    if choice.columns:
        where = f"{table.path}, {choice.key('columns')}"
        with collecting(problems):
            features = positions(choice.columns, table.header, table.width, where)
            words = {index: "index_column", label: "label_column"}
            for column in features:
                if column in words:
                    expected = "features alone"
                    found_ = f"{table.named(column)}, which is {choice.key(words[column])}"
                    problems.append(Problem(where, found_, expected))
    return _Roles(features, label, index, aside)


def _complete(table: Columns, roles: _Roles, numbers: Numbers) -> NDArray[np.bool_]:
    """Rows without an empty cell among features and class."""
    kept = ~numbers.is_empty
    if roles.label is not None:
        for row, cell in enumerate(table.texts(roles.label)):
            number = to_number(cell)
            if not cell or (number is not None and number != number):
                kept[row] = False
    return kept


def _features(
    table: Columns, choice: TableChoice, places: Sequence[int], numbers: Numbers, rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], list[str], list[int]]:
    """Numbers, and the name and the column of each."""
    if not places:
        beside = " beside the classes" if choice.label_column is not None else ""
        raise InputError([Problem(str(table.path), f"no column{beside}", "at least one feature")])
    # a table may take half of the memory: one that is whole is used as it is
    is_whole = len(rows) == len(numbers.values)
    values = numbers.values if is_whole else numbers.values[rows]
    # rows are left out for empty cells alone: of a column that is all texts otherwise none is a number
    n_texts = numbers.n_others if is_whole else np.isnan(values).sum(axis=0)
    problems = list[Problem]()
    names = [table.header[place] if table.header else table.named(place) for place in places]
    encoded: dict[int, tuple[NDArray[np.float64], list[str]]] = {}
    for column in np.flatnonzero(n_texts == len(rows)).tolist() if len(rows) > 1 else ():
        # one problem for the column, not one for each cell
        values[:, column] = 0.0
        with collecting(problems):
            if choice.categories != "onehot":
                raise InputError([_text_column_problem(table, choice, places[column], rows)])
            width = len(places) + sum(part.shape[1] for part, _ in encoded.values())
            encoded[column] = _one_hot(table, places[column], names[column], rows, width)
    wrong = ~np.isfinite(values)
    first = np.flatnonzero(wrong.any(axis=1))[: PROBLEMS_SHOWN + 1]
    cells = [(int(rows[first[i]]), places[j]) for i, j in np.argwhere(wrong[first])[: PROBLEMS_SHOWN + 1]]
    problems += counted(
        range(len(cells)), lambda i: _cell_problem(table, choice, *cells[i]), int(np.count_nonzero(wrong))
    )
    if problems:
        raise InputError(problems)
    if not encoded:
        return np.ascontiguousarray(values), names, list(places)
    parts = [encoded.get(i, (values[:, i : i + 1], names[i : i + 1])) for i in range(len(places))]
    X = np.ascontiguousarray(np.hstack([part for part, _ in parts]))
    origins = [place for place, (_, of_part) in zip(places, parts, strict=True) for _ in of_part]
    return X, [name for _, of_part in parts for name in of_part], origins


def _one_hot(
    table: Columns, place: int, name: str, rows: NDArray[np.intp], width: int
) -> tuple[NDArray[np.float64], list[str]]:
    """A column of 0 and 1 for each text of a column, in sorted order, beside `width` others."""
    cells = _picked(table.texts(place), rows)
    wrong = [row for row, cell in zip(rows.tolist(), cells, strict=True) if is_empty(cell)]
    if wrong:
        raise InputError(
            counted(wrong, lambda row: Problem(table.where(row, place), table.shown(row, place), "a text"))
        )
    different = sorted(set(cells))
    if len(different) > MOST_TEXTS or len(different) == len(cells):
        found = f"{len(different)} different texts in {len(cells)} rows"
        expected = f"at most {MOST_TEXTS}, and not another one in each row"
        hint = "names of samples are no feature: drop it, or name it as index_column"
        raise InputError([Problem(f"{table.path}, {table.named(place)}", found, expected, hint)])
    check_size(f"{table.path}, features", len(cells), width + len(different), MOST_LINES)
    code = {text: number for number, text in enumerate(different)}
    codes = np.fromiter(map(code.__getitem__, cells), np.intp, len(cells))
    part = np.zeros((len(cells), len(different)))
    part[np.arange(len(cells)), codes] = 1.0
    return part, [f"{name}={text}" for text in different]


def _text_column_problem(table: Columns, choice: TableChoice, place: int, rows: NDArray[np.intp]) -> Problem:
    example = repr(table.cell(int(rows[0]), place)[:60])
    hint = _comma_hint(table.cell(int(rows[0]), place)) or (
        f"name it as {choice.key('label_column')} if it holds the classes, or as {choice.key('index_column')}"
        f" if it holds names; else {choice.key('drop')} it, or {choice.said('categories', 'onehot')}"
    )
    return Problem(f"{table.path}, {table.named(place)}", f"no number, first {example}", "numbers", hint)


def _cell_problem(table: Columns, choice: TableChoice, row: int, place: int) -> Problem:
    cell = table.cell(row, place)
    hint = f"{choice.said('missing', 'drop')} leaves out such rows" if is_empty(cell) else _comma_hint(cell)
    return Problem(table.where(row, place), table.shown(row, place), "a finite number", hint)


def _comma_hint(cell: str) -> str:
    """What to know of a cell that is a number but for its decimal comma; nothing of any other."""
    is_one = "," in cell and to_number(cell.replace(",", ".", 1)) is not None
    return "decimal commas are read in text whose cells are separated by semicolons" if is_one else ""


def _classes(table: Columns, label: int, rows: NDArray[np.intp]) -> Encoded:
    where: Callable[[int], str] = lambda i: table.where(int(rows[i]), label)  # noqa: E731
    return encode_classes(_picked(table.texts(label), rows), where)


def _rows(table: Columns, choice: TableChoice, index: int | None, rows: NDArray[np.intp]) -> SampleRows:
    """What the samples are in the file; names that do not tell its rows apart are refused, or not taken."""
    kept = None if len(rows) == table.n_rows else rows
    if index is None:
        names = table.index if len(set(table.index)) == table.n_rows else ()
        return SampleRows(table.n_rows, kept, names)
    names = tuple(table.texts(index))
    counts = Counter(names)
    wrong = [row for row, name in enumerate(names) if not name or counts[name] > 1]
    if wrong:
        expected = f"another name in each row, as {choice.key('index_column')}"
        raise InputError(
            counted(wrong, lambda row: Problem(table.where(row, index), _twice(names[row]), expected))
        )
    return SampleRows(table.n_rows, kept, names)


def _twice(name: str) -> str:
    return f"{name[:60]!r}, more than once" if name else "an empty cell"


def _picked(cells: Sequence[str], rows: NDArray[np.intp]) -> tuple[str, ...]:
    return tuple(cells) if len(rows) == len(cells) else tuple(cells[row] for row in rows.tolist())
