"""Which columns of a user's table are what: features, classes, names of the samples, none of them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeps.errors import InputError, Problem, did_you_mean
from sweeps.keywords import CATEGORIES, MISSING

Column = str | int
"""A column by its name in the header, or by its position from 0, negative from the end."""

NUMBERED = re.compile(r"-?\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class TableChoice:
    """What is made of the columns of a table.

    Parameters
    ----------
    columns : tuple of (str or int)
        The features, in this order; all columns that are nothing else where it is empty.
    drop : tuple of (str or int)
        Columns that are no features.
    index_column, label_column : str, int or None
        Names of the samples, each once; classes.
    missing : {"error", "drop"}
        Whether a row with an empty cell is a problem, or is left out.
    categories : {"error", "onehot"}
        Whether a feature of texts is a problem, or becomes a column of 0 and 1 for each of its texts.
    sheet : str, int or None
        Of a workbook, by name or position from 0; the first where it is left out.
    aside : tuple of str
        Columns that are no features, and whose texts are kept.
    as_options : bool
        Whether messages name the options of a command, and not the keys of a file.
    """

    columns: tuple[Column, ...] = ()
    drop: tuple[Column, ...] = ()
    index_column: Column | None = None
    label_column: Column | None = None
    missing: str = "error"
    categories: str = "error"
    sheet: Column | None = None
    aside: tuple[str, ...] = ()
    as_options: bool = False

    @property
    def named(self) -> tuple[Column, ...]:
        """All columns that are told, and the parts of those that may be several."""
        single = [each for each in (self.label_column, self.index_column) if each is not None]
        several = (*self.columns, *self.drop)
        return (*single, *several, *expanded(several, ()), *self.aside)

    def key(self, name: str) -> str:
        """How a message names one of these."""
        return f"--{name.replace('_', '-')}" if self.as_options else name

    def said(self, name: str, value: str) -> str:
        """How a message says that one of these has a value."""
        return f"{self.key(name)} {value}" if self.as_options else f'{name} = "{value}"'

    def problems(self, where: str) -> Iterator[Problem]:
        """What contradicts itself, whatever the table is."""
        for name, words in (("missing", MISSING), ("categories", CATEGORIES)):
            found = getattr(self, name)
            if found not in words:
                expected = f"one of {', '.join(words)}"
                yield Problem(f"{where}, {self.key(name)}", repr(found), expected, did_you_mean(found, words))
        if self.columns and self.drop:
            hint = f"what {self.key('columns')} does not name is no feature already"
            yield Problem(
                f"{where}, {self.key('drop')}", f"{self.key('columns')} as well", "one of them", hint
            )


def positions(names: Sequence[Column], header: Sequence[str], width: int, where: str) -> list[int]:
    """Columns of a list of names and positions, each once.

    Parameters
    ----------
    names : sequence of (str or int)
        A text that is no name of a column may hold several, separated by commas.
    header : sequence of str
        Names of all columns; empty if they have none.
    width : int
        Number of columns.
    where : str
        For messages.

    Raises
    ------
    InputError
        With every name that is none of the columns, or that comes twice.
    """
    found: list[int] = []
    problems: list[Problem] = []
    for name in expanded(names, header):
        try:
            place = position(name, header, width, where)
        except InputError as error:
            problems += error.problems
            continue
        if place in found:
            problems.append(Problem(where, f"{name!r} again", "each column once"))
        found.append(place)
    if problems:
        raise InputError(problems)
    return found


def expanded(names: Sequence[Column], header: Sequence[str]) -> Iterator[Column]:
    """Names one by one, where several stand in one text, between commas, that is no column itself."""
    for name in names:
        if isinstance(name, str) and "," in name and name not in header:
            yield from (part.strip() for part in next(csv.reader([name], skipinitialspace=True)))
        else:
            yield name


def position(name: Column, header: Sequence[str], width: int, where: str) -> int:
    """Position of one column.

    Raises
    ------
    InputError
        If there is no such column, or several have the name.
    """
    if isinstance(name, str) and header.count(name) == 1:
        return header.index(name)
    if isinstance(name, str) and not (NUMBERED.fullmatch(name) and name not in header):
        raise InputError([_no_such_name(name, header, width, where)])
    if not -width <= int(name) < width:
        expected = f"{-width} to {width - 1}"
        raise InputError([Problem(where, str(name), expected, "columns are counted from 0")])
    return int(name) % width


def _no_such_name(name: str, header: Sequence[str], width: int, where: str) -> Problem:
    if not header:
        hint = "the file has no header; give a position"
    elif name in header:
        hint = "several columns have that name; give a position"
    else:
        hint = did_you_mean(name, header)
    names = ", ".join(each or "''" for each in header[:20]) + (
        f" and {len(header) - 20} more" if len(header) > 20 else ""
    )
    return Problem(where, repr(name), f"one of {names or f'{-width} to {width - 1}'}", hint)
