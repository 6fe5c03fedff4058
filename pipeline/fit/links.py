"""Annotations as the estimator takes them: tables of links, of one annotator or of several.

A `Reader` checks links of the samples there are, and lays them out as `Given`. Links call samples by the
labels of an index, of any kind; where rows have no names, places from 0 are their labels.
"""

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, inferred_accuracies, layer_weights
from sweep_clustering.kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweep_clustering.pipeline.common import plural
from sweep_clustering.sweeps.annotations.files import LINK_CELLS, header_problems, usual_names
from sweep_clustering.sweeps.annotations.nearness import verdict
from sweep_clustering.sweeps.data.table import exact_below
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean

# Rows and labels that are told one by one.
SHOWN = 10

# Labels among which one that is meant is looked for: it takes about 0.1 s for each unknown label.
MOST_COMPARED = 5000

# Place of a label that no sample has.
OUTSIDE = -1

# Annotator of links that name nobody, as of link files of `sweep fit`.
LINKS = "links"

# Links of one annotator, or those of several by name.
LinkTables = ArrayLike | Mapping[str, ArrayLike]

# Columns of links without names, by position.
PLACES = dict(zip("012", LINK_CELLS, strict=True))

# What may be done about a table whose columns are not known.
RENAME = "rename the columns, or give an array of links by to_numpy()"

# What may be done about links that count from 1.
FROM_1 = "places count from 0: links that count from 1 need samples=range(1, len(X) + 1)"

# What may be done about links of samples that are not there.
DROP = 'where X is a part of a table on purpose, links_outside="drop" leaves these links out'
NAME = (
    "counted from 0; if X is a part of a table, name its rows: by the index of a data frame, or by samples="
)


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
        raise InputError(
            [Problem(where, plural(count, "masked value"), "none", "leave them out, or fill them")]
        )


def names_of(X: object, samples: ArrayLike | None, n_samples: int) -> pd.Index | None:
    """Names of the rows of X: those given, else its index if it is a data frame; None if they have no names.

    Parameters
    ----------
    X : object
        Of any kind of table.
    samples : array_like of shape (n_samples,), optional
        Names given beside it.
    n_samples : int
        Rows of X.

    Raises
    ------
    InputError
        If the names are not one for each row.
    """
    if samples is None:
        return X.index if isinstance(X, pd.DataFrame) else None
    unmasked("samples", samples)
    with suppress(TypeError, ValueError):  # of what is no list, or a list of lists
        if len(names := pd.Index(samples)) == n_samples:
            return names
    found = f"shape {np.asarray(samples, dtype=object).shape}"
    raise InputError([Problem("samples", found, f"shape ({n_samples},), a name for each row of X")])


def plain(label: Any) -> Any:
    """A label as Python has it, a tuple in place of a list."""
    if isinstance(label, list | tuple):
        return tuple(map(plain, label))
    if isinstance(label, np.datetime64):
        return pd.Timestamp(label)
    return label.item() if isinstance(label, np.generic) else label


@dataclass(frozen=True)
class Given:
    """Annotations that were checked.

    Parameters
    ----------
    layers : list of Layer
        One for each annotator and kind that is given, be it empty; must-links first.
    annotators : list of str
        Names in the order of their numbers.
    dropped : int
        Rows of links left out, as they name samples that are not there.
    total : int
        Rows of links with those.
    """

    layers: list[Layer] = field(default_factory=list)
    annotators: list[str] = field(default_factory=list)
    dropped: int = 0
    total: int = 0

    def of_kind(self, kind: int) -> NDArray[np.float64] | dict[str, NDArray[np.float64]] | None:
        """Rows i, j, weight of a kind, as `fit` takes them: by annotator, unless none was named."""
        tables = {
            self.annotators[layer.annotator]: np.column_stack([1.0 * layer.pairs, layer_weights(layer)])
            for layer in self.layers
            if layer.kind == kind
        }
        return tables.get(LINKS) if self.annotators in ([], [LINKS]) else tables or None

    def agreement(self, labels: NDArray[np.integer]) -> dict[str, float | None]:
        """By annotator, the share of the annotations that agree with a partition; None if there are none."""
        shares = inferred_accuracies(self.layers, labels)
        return {self.annotators[who]: None if np.isnan(share) else share for who, share in shares.items()}


@dataclass(frozen=True)
class Reader:
    """Reads links of the samples there are.

    Parameters
    ----------
    n_samples : int
        Rows of X.
    names : pandas.Index or None
        What links call them; None if by their places.
    drop : bool
        Whether links of samples that are not there are left out, and no problem; only of names.
    """

    n_samples: int
    names: pd.Index | None = None
    drop: bool = False

    def read(
        self,
        must_link: LinkTables | None,
        cannot_link: LinkTables | None,
        accuracy: float | None = None,
        annotator_accuracy: Mapping[str, float] | None = None,
        before: Given | None = None,
    ) -> Given:
        """Check links, and lay them out; those before come first.

        Raises
        ------
        InputError
            With the problems of all links.
        """
        problems: list[Problem] = []
        before = before or Given()
        found: dict[tuple[str, int], list[tuple[NDArray[np.integer], NDArray[np.float64]]]] = {}
        for layer in before.layers:
            found[before.annotators[layer.annotator], layer.kind] = [(layer.pairs, layer_weights(layer))]
        dropped, total = before.dropped, before.total
        for where, kind, annotator, links in _tables(must_link, cannot_link, problems):
            with collecting(problems):
                pairs, weights, outside = self._links(where, _frame(where, links, (2, 3)))
                found.setdefault((annotator, kind), []).append((pairs, weights))
                dropped, total = dropped + outside, total + outside + len(pairs)
        if self.names is not None and total > before.total and self.names.has_duplicates:
            again = self.names[self.names.duplicated()].unique().tolist()
            expected = "a label of its own for each row, as links name rows by these labels"
            hint = "reset_index(drop=True) numbers the rows"
            problems.append(Problem("names of rows", f"labels that repeat: {again[:SHOWN]}", expected, hint))
        if problems:
            raise InputError(problems)
        annotators, own = list(dict.fromkeys(name for name, _ in found)), annotator_accuracy or {}
        layers = []
        for number, kind in itertools.product(range(len(annotators)), (MUST, CANNOT)):
            name = annotators[number]
            if (name, kind) in found:
                pairs, weights = map(np.concatenate, zip(*found[name, kind], strict=True))
                layers.append(Layer(kind, pairs, weights, own.get(name, accuracy), None, number))
        return Given(layers, annotators, dropped, total)

    @property
    def is_by_place(self) -> bool:
        """Whether links call samples by their places, as the usual index of a data frame does."""
        return self.names is None or self.names.equals(pd.RangeIndex(self.n_samples))

    def check_places(self, given: Given, X: NDArray[np.float64]) -> None:
        """Refuse links by places whose answers clearly speak for rows that are counted from 1.

        Raises
        ------
        InputError
            If they do: the rows would be wrong ones.
        """
        layers = [layer for layer in given.layers if len(layer.pairs)]
        if not self.is_by_place or not layers or min(int(each.pairs.min()) for each in layers) < 1:
            return
        pairs = np.concatenate([each.pairs for each in layers]).astype(np.int64)
        kinds = np.repeat([each.kind == MUST for each in layers], [len(each.pairs) for each in layers])
        if verdict(X, pairs, pairs - 1, kinds, usual=0).first_row == 1:
            found = "links whose answers fit rows that are counted from 1, and do not fit places from 0"
            hint = f"{FROM_1}; samples=range(len(X)) takes them as they are"
            raise InputError([Problem("must_link, cannot_link", found, "places from 0", hint)])

    def pairs(self, pairs: ArrayLike) -> NDArray[np.int64]:
        """Pairs of samples as a table of places, of shape (n_pairs, 2).

        Raises
        ------
        InputError
            If they are no such table, or name a sample that does not exist.
        """
        return self._links("pairs", _frame("pairs", pairs, (2,)))[0]

    def _links(self, where: str, table: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Pairs of places, the annotations each stands for, and the number of links left out."""
        problems: list[Problem] = []
        weights = np.ones(len(table))
        if table.shape[1] == 3:
            weights = pd.to_numeric(table.iloc[:, 2], errors="coerce").to_numpy(np.float64)
            wrong = np.flatnonzero(~((weights >= LEAST_WEIGHT) & (weights <= LARGEST_WEIGHT)))
            for row in wrong[:SHOWN]:
                problems.append(Problem(f"{where}, row {row}", f"weight {table.iloc[row, 2]}", WEIGHTS))
        if are_booleans := [str(table.columns[end]) for end in (0, 1) if _has_booleans(table.iloc[:, end])]:
            found = f"booleans in column {' and '.join(are_booleans)}"
            raise InputError([Problem(where, found, "labels of rows", "np.argwhere(mask) gives the places")])
        places = self._places(table)
        outside = places == OUTSIDE
        if outside.any() and not (self.drop and self.names is not None):
            ends = [list(map(plain, table.iloc[:, end].tolist())) for end in (0, 1)]
            unknown = [(int(row), ends[end][row]) for row, end in np.argwhere(outside)]
            problems += self._unknown(where, unknown)
        if problems:
            raise InputError(problems)
        inside = ~outside.any(axis=1)
        return places[inside], weights[inside], int((~inside).sum())

    def _places(self, table: pd.DataFrame) -> NDArray[np.int64]:
        """The two ends of each link as places, `OUTSIDE` for a label that no sample has.

        Whole numbers are looked up as arrays. Other labels are compared as Python does, one by one.
        """
        index = pd.RangeIndex(self.n_samples) if self.names is None else self.names
        columns = [table.iloc[:, end] for end in (0, 1)]
        if index.dtype.kind == "i" and index.is_unique:
            numbers = [whole for each in columns if (whole := _whole(each)) is not None]
            if len(numbers) == len(columns):
                return np.stack([index.get_indexer(each) for each in numbers], axis=1).astype(np.int64)
        known, is_float = self._known(), index.dtype.kind == "f"

        def place(label: Any, exact: int) -> int:
            if isinstance(label, float) and not is_float and not abs(label) < exact:
                return OUTSIDE  # NaN, or a whole number that may have been another one
            is_missing = not isinstance(label, tuple) and bool(np.any(pd.isna(label)))
            return known.get(label, OUTSIDE) if isinstance(label, Hashable) and not is_missing else OUTSIDE

        ends = []
        for each in columns:
            is_floats = isinstance(each.dtype, np.dtype) and each.dtype.kind == "f"
            exact = exact_below(each.dtype.type(0)) if is_floats else 2**53
            ends.append([place(plain(label), exact) for label in each.tolist()])
        return np.array(ends, dtype=np.int64).T

    def _known(self) -> dict[Hashable, int]:
        """Places of the samples by label."""
        index = range(self.n_samples) if self.names is None else map(plain, self.names)
        return {label: place for place, label in enumerate(index)}

    def _unknown(self, where: str, cells: list[tuple[int, Any]]) -> Iterator[Problem]:
        """Labels that no sample has: how many, then the first of them, each with the nearest there is."""
        some = list(itertools.islice(self._known(), MOST_COMPARED))
        expected, hint = f"labels of rows of X, such as {', '.join(map(repr, some[:3]))}", DROP
        if self.names is None:
            expected, hint = f"places 0 to {self.n_samples - 1}", NAME
        if self.is_by_place and self.n_samples in [label for _, label in cells if isinstance(label, int)]:
            hint = f"{FROM_1}; {hint}"
        found = f"{plural(len({row for row, _ in cells}), 'row')} with samples that X does not have"
        yield Problem(where, found, expected, hint)
        first: dict[str, tuple[int, Any]] = {}
        for row, label in cells:
            first.setdefault(repr(label), (row, label))
        by_text = {str(each): each for each in some}
        for text, (row, label) in itertools.islice(first.items(), SHOWN):
            meant = did_you_mean(label, by_text) if isinstance(label, str) else ""
            if str(label) in by_text:  # 3 for '3', or the other way round
                meant = f"did you mean {by_text[str(label)]!r} of type {type(by_text[str(label)]).__name__}?"
            yield Problem(f"{where}, row {row}", text, "a sample of X", meant)


def _whole(column: pd.Series) -> NDArray[np.int64] | None:
    """The labels of a column as whole numbers; None if any is none, or is beyond what floats hold exactly."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.kind not in "iuf":
        return None
    values = column.to_numpy()
    if values.dtype.kind == "f":
        exact = exact_below(values[:1].sum())
        values = values.astype(np.float64)
        is_whole = (np.abs(values) < exact) & (np.floor(values) == values)
        return values.astype(np.int64) if is_whole.all() else None
    return values.astype(np.int64) if np.can_cast(values.dtype, np.int64) else None


def _tables(
    must_link: LinkTables | None, cannot_link: LinkTables | None, problems: list[Problem]
) -> Iterator[tuple[str, int, str, ArrayLike]]:
    """Where it is, kind, annotator and links of every table."""
    for name, kind, links in (("must_link", MUST, must_link), ("cannot_link", CANNOT, cannot_link)):
        if links is not None and not isinstance(links, Mapping):
            yield name, kind, LINKS, links
            continue
        for annotator, own in (links or {}).items():
            if isinstance(annotator, str) and annotator:
                yield f"{name} of {annotator}", kind, annotator, own
            else:
                found, expected = f"annotator {annotator!r}", "a name, a text that is not empty"
                problems.append(Problem(name, found, expected))


def _frame(where: str, links: Any, widths: tuple[int, ...]) -> pd.DataFrame:
    """A table of one of these numbers of columns, whose cells may be labels of any kind."""
    unmasked(where, links)
    expected = f"shape {' or '.join(f'(n_links, {width})' for width in widths)}"
    links = list(links) if isinstance(links, Iterator) else links
    # pandas would fill short rows up, and take a text for a row of letters
    cells = [
        len(row) if isinstance(row, Sized) and not isinstance(row, str) else 1
        for row in (links if isinstance(links, list | tuple) else [])
    ]
    for number, count in enumerate(cells):
        if count != cells[0]:
            found = f"{plural(count, 'cell')} after rows of {cells[0]}"
            raise InputError([Problem(f"{where}, row {number}", found, expected)])
    try:
        table = links.to_pandas() if hasattr(links, "to_pandas") else pd.DataFrame(links)
        if not isinstance(table, pd.DataFrame):
            raise TypeError
    except (TypeError, ValueError, ImportError):
        raise InputError([Problem(where, f"a {type(links).__name__}, no table", expected)]) from None
    table = _by_name(where, table, widths)
    if table.shape == (0, 0):
        return pd.DataFrame(columns=range(2))
    if table.shape[1] not in widths:
        raise InputError([Problem(where, f"shape {table.shape}", expected)])
    return table


def _by_name(where: str, table: pd.DataFrame, widths: tuple[int, ...]) -> pd.DataFrame:
    """The columns i, j and weight, as files of links name them; a table without names as it is.

    Raises
    ------
    InputError
        With every column that is not known, comes twice or is missing.
    """
    if table.columns.equals(pd.RangeIndex(table.shape[1])):
        return table
    words = [str(name).strip().lower() for name in table.columns]
    columns = usual_names(words)
    if {name for name in columns if name} in ({*"01"}, {*"012"}):  # columns without names that were in a file
        columns = [PLACES.get(name, "") for name in columns]
    known = LINK_CELLS[: max(widths)]
    if problems := [*header_problems(where, words, columns, LINK_CELLS[:2], known, False)]:
        raise InputError([replace(each, hint=each.hint or RENAME) for each in problems])
    order = [columns.index(name) for name in known if name in columns]
    return table.iloc[:, order]


def _has_booleans(column: pd.Series) -> bool:
    """Whether any label is True or False, which Python takes for 1 and 0."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return True
    return column.dtype == object and any(isinstance(each, bool | np.bool_) for each in column)
