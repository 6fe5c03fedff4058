"""What a page is made of: sections of text, tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sweeps.words import SHAPE_CODES, is_model, shape_of

Item = TypeVar("Item")

METHODS = "methods"
"""Group of what is no model."""
MOST_SHAPES = 2
"""Whose models share a panel, or a table; each of more shapes has its own."""


@dataclass(frozen=True)
class Value:
    """One entry of a table.

    Parameters
    ----------
    text : str
        As shown.
    order : float, str or None
        What sorting goes by; None for a missing one, which stays last either way.
    kind : str
        Class of the entry in the style sheet, such as "good".
    """

    text: str
    order: float | str | None
    kind: str = ""

    @property
    def numeric(self) -> bool:
        """Whether it stands under others as a number does."""
        return not isinstance(self.order, str)


@dataclass(frozen=True)
class Table:
    """A table that can be sorted by any column.

    Parameters
    ----------
    title : str
        Above it.
    columns : tuple of str
        Heads.
    rows : tuple of tuple of Value
        As long as `columns`.
    groups : tuple of tuple of (str, int)
        Rows of heads above `columns`, each with the number of columns it spans.
    note : str
        Below it.
    pinned : bool
        Whether the first column stays in sight where the table is wider than the page.
    folded : bool
        Whether it is shown when asked for; printing shows it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    groups: tuple[tuple[tuple[str, int], ...], ...] = ()
    note: str = ""
    pinned: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure.

    Parameters
    ----------
    name : str
        Of its files, without suffix.
    caption : str
        What it shows.
    svg : str
        For the page; colours are variables of the style sheet.
    """

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Section:
    """A chapter of the page; one without tables and pictures says why there are none."""

    key: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


NOTHING = Value("-", None)


def words(text: object) -> Value:
    """Entry of text."""
    return Value(str(text), str(text))


def number(value: float | None, form: str = ",.0f") -> Value:
    """Entry of a number; a dash where there is none."""
    if value is None or math.isnan(value):
        return NOTHING
    return Value(format(value, form), float(value))


def mean_and_error(mean: float, se: float, digits: int = 4) -> Value:
    """Entry of a mean with its standard error, which a single cell does not have."""
    if math.isnan(mean):
        return NOTHING
    error = "" if math.isnan(se) else f" ± {se:.{digits}f}"
    return Value(f"{mean:.{digits}f}{error}", mean)


def spans(heads: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Neighbours that are equal as one head over several columns."""
    found: list[tuple[str, int]] = []
    for head in heads:
        if found and found[-1][0] == head:
            found[-1] = (head, found[-1][1] + 1)
        else:
            found.append((head, 1))
    return tuple(found)


def spread(values: Sequence[Item], most: int) -> list[Item]:
    """At most so many of the values, evenly spread, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    step = (len(values) - 1) / (most - 1)
    return [values[round(position * step)] for position in range(most)]


def shape_groups(models: Iterable[str]) -> dict[str, list[str]]:
    """Models that share a panel, or a table, by what is said of them there: their shape, or nothing.

    Parameters
    ----------
    models : iterable of str
        Of a cube, in any order.

    Returns
    -------
    dict of str to list of str
        Names in order: all under "" if they are of few shapes, otherwise those of each shape; methods are a
        group of their own.
    """
    found = sorted(set(models))
    groups = {_group(model): [other for other in found if _group(other) == _group(model)] for model in found}
    if len(groups) <= MOST_SHAPES:
        return {"": found}
    return {group: groups[group] for group in (*SHAPE_CODES, METHODS) if group in groups}


def _group(model: str) -> str:
    return shape_of(model) if is_model(model) else METHODS
