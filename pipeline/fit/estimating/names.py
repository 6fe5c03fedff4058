"""What links call samples: labels of an index, or places from 0."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from sweeps.errors import InputError, Problem, did_you_mean

SHOWN = 10
"""Unknown labels that are told one by one."""

MOST_COMPARED = 5000
"""Labels among which one that is meant is looked for: it takes about 0.1 s for each unknown label."""

OUTSIDE = -1
"""Place of a label that no sample has."""


def unmasked(where: str, values: object) -> None:
    """Refuse a masked array: what stands below its mask would be taken as good.

    Raises
    ------
    InputError
        If any of its values is masked.
    """
    parts = values if isinstance(values, list | tuple) else [values]
    count = sum(int(np.ma.getmaskarray(each).sum()) for each in parts if isinstance(each, np.ma.MaskedArray))
    if count:
        raise InputError([Problem(where, f"{count:,} masked values", "none", "leave them out, or fill them")])


@dataclass(frozen=True, eq=False)
class Names:
    """Names of samples, in their order.

    Parameters
    ----------
    index : pandas.Index
        Of n_samples labels.
    source : str
        Where they are from, for messages.
    """

    index: pd.Index
    source: str

    @cached_property
    def labels(self) -> list[Hashable]:
        """The labels as Python has them; tuples of a MultiIndex."""
        return [plain(label) for label in self.index]

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def places(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """Place of each label, `OUTSIDE` of one that no sample has."""
        return np.array([self._place(plain(label)) for label in labels], dtype=np.int64)

    def _place(self, label: Any) -> int:
        try:
            return self._places.get(label, OUTSIDE)
        except TypeError:  # what cannot be hashed is no label
            return OUTSIDE

    def take(self, places: NDArray[np.integer]) -> NDArray[Any]:
        """Labels of places, in the shape of those; tuples if they are of a MultiIndex."""
        if isinstance(self.index, pd.MultiIndex):
            labels = np.empty(len(self.index), dtype=object)
            labels[:] = self.labels
        else:
            labels = np.asarray(self.index)
        taken: NDArray[Any] = labels[places]
        return taken

    def repeated(self) -> Problem | None:
        """What is wrong where links name samples by labels, and some have the same one."""
        again = self.index.duplicated()
        if not again.any():
            return None
        first = plain(self.index[np.flatnonzero(again)[0]])
        count = len(self.index[again].unique())
        others = f", and {count - 1} more labels that repeat" if count > 1 else ""
        rows = self.labels.count(first)
        return Problem(
            self.source, f"{first!r} on {rows} rows{others}", "a label of its own for each row",
            "links name rows by these labels; reset_index(drop=True) numbers the rows",
        )  # fmt: skip

    def unknown(self, where: str, cells: list[tuple[int, Any]], n_links: int) -> Iterator[Problem]:
        """Problems of labels that no sample has: how many, then each of them with the nearest there is.

        Parameters
        ----------
        where : str
            Name of the table.
        cells : list of tuple
            Row and label.
        n_links : int
            Rows of the table.
        """
        rows = {row for row, _ in cells}
        first: dict[str, tuple[int, Any]] = {}
        for row, label in cells:
            first.setdefault(repr(plain(label)), (row, plain(label)))
        such = ", ".join(repr(label) for label in self.labels[:3])
        found = f"{len(rows)} of {n_links} rows with labels that no row of X has"
        yield Problem(where, found, f"labels of {self.source}, such as {such}", self._remedy(first.values()))
        for text, (row, label) in list(first.items())[:SHOWN]:
            yield Problem(f"{where}, row {row}", text, f"a label of {self.source}", self._meant(label))
        if len(first) > SHOWN:
            yield Problem(where, f"{len(first) - SHOWN} more unknown labels", f"labels of {self.source}")

    def _remedy(self, unknown: Iterable[tuple[int, Any]]) -> str:
        if all(isinstance(label, int) for _, label in unknown) and not any(
            isinstance(label, int) for label in self.labels
        ):
            return "X.to_numpy() has no labels: there, links are places from 0"
        return 'where X is a part of a table on purpose, links_outside="drop" leaves these links out'

    def _meant(self, label: Any) -> str:
        known = {str(each): each for each in self.labels[:MOST_COMPARED]}
        if str(label) in known:  # 3 for '3', or the other way round
            return f"did you mean {known[str(label)]!r}, of type {type(known[str(label)]).__name__}?"
        return did_you_mean(str(label), known) if isinstance(label, str) else ""


def plain(label: Any) -> Any:
    """A label as Python has it, a tuple in place of a list."""
    if isinstance(label, (list, tuple)):
        return tuple(map(plain, label))
    if isinstance(label, np.datetime64):
        return pd.Timestamp(label)
    return label.item() if isinstance(label, np.generic) else label


def names_of(X: object, samples: ArrayLike | None, n_samples: int) -> Names | None:
    """Names of the rows of X: those given, else its index if it is a data frame.

    Parameters
    ----------
    X : object
        Of any kind of table.
    samples : array_like of shape (n_samples,), optional
        Names given beside it.
    n_samples : int
        Rows of X.

    Returns
    -------
    Names or None
        None if rows have no names, but places.

    Raises
    ------
    InputError
        If the names are not one for each row.
    """
    if samples is None:
        return Names(X.index, "the index of X") if isinstance(X, pd.DataFrame) else None
    expected = f"shape ({n_samples},), a name for each row of X"
    if isinstance(samples, (str, bytes)) or not (
        hasattr(samples, "__len__") or hasattr(samples, "__array__")
    ):
        raise InputError([Problem("samples", repr(samples), expected)])
    shape = np.shape(samples) if hasattr(samples, "shape") else (len(samples),)  # type: ignore[arg-type]
    if shape != (n_samples,):
        raise InputError([Problem("samples", f"shape {shape}", expected)])
    return Names(pd.Index(samples), "samples")


def same_names(one: Names | None, other: Names | None, n_samples: int) -> bool:
    """Whether rows are called the same; without names they are numbers from 0."""
    first, second = (list(range(n_samples)) if names is None else names.labels for names in (one, other))
    return first == second
