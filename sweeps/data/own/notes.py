"""What to know of the columns of a table before they are used as features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sweeps.data.own.choice import TableChoice
from sweeps.data.tables import SampleRows

SHOWN = 12
"""Features, and rows, that are named."""

SHORTEST = 5
"""Rows from which on a column that counts them is no chance."""

FEWEST = 20
"""Rows from which on whole numbers that are all different are no chance."""


def column_notes(
    X: NDArray[np.float64],
    names: Sequence[str],
    header: Sequence[str],
    places: Sequence[int],
    choice: TableChoice,
) -> Iterator[str]:
    """Features that count or name the rows, and what all features are.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Features, unscaled.
    names : sequence of str
        One for each.
    header : sequence of str
        Names of the columns of the table; empty if it has none.
    places : sequence of int
        Column of the table that each comes from.
    choice : TableChoice
        What was told.

    Yields
    ------
    str
        A sentence.
    """
    for column, name in enumerate(names):
        kind = _kind(X[:, column])
        if kind:
            told = f" ({name!r})" if header and name else ""
            remedy = f"{choice.key('index_column')} or {choice.key('drop')}"
            yield f"column {places[column] + 1}{told} {kind}: it tells rows apart, not clusters ({remedy})"
    if not header and choice.named:
        yield f"features used: {_listed(places)}"
    elif header:
        more = ", …" if len(names) > SHOWN else ""
        shown = (repr(name) if "," in name else name for name in names[:SHOWN])
        yield f"features used: {', '.join(shown)}{more} ({len(names)})"


def dropped_note(rows: SampleRows, choice: TableChoice) -> Iterator[str]:
    """Rows that are left out, by their numbers from 1, and by their names if they have some."""
    if rows.kept is None:
        return
    out = np.setdiff1d(np.arange(rows.n_rows), rows.kept).tolist()
    shown = [f"{rows.names[row]} (row {row + 1})" if rows.names else str(row + 1) for row in out[:SHOWN]]
    more = ", …" if len(out) > SHOWN else ""
    yield (
        f"{len(out)} of {rows.n_rows} rows have an empty cell and are left out"
        f" ({choice.said('missing', 'drop')}): {', '.join(shown)}{more}"
    )


def _kind(values: NDArray[np.float64]) -> str:
    """What a column that is no measurement looks like; nothing of any other."""
    n = len(values)
    if n < SHORTEST or (values != np.floor(values)).any() or len(np.unique(values)) < n:
        return ""
    least = values.min()
    if least in (0, 1) and values.max() == least + n - 1:
        return f"is {least:.0f} to {least + n - 1:.0f}, a number of the row"
    return "is another whole number in each row" if n >= FEWEST else ""


def _listed(places: Sequence[int]) -> str:
    first, last = places[0] + 1, places[-1] + 1
    if list(places) == list(range(first - 1, last)) and len(places) > 2:
        return f"columns {first} to {last} ({len(places)})"
    more = ", …" if len(places) > SHOWN else ""
    return f"columns {', '.join(str(place + 1) for place in places[:SHOWN])}{more} ({len(places)})"
