"""Annotations as the estimator takes them: tables of links, of one annotator or of several.

`names_of` says what links call samples, and a `Reader` checks links of these and lays them out as `Given`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from kernels.problem.data import CANNOT, MUST, Layer, inferred_accuracies, layer_weights
from kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweeps.errors import InputError, Problem, collecting, did_you_mean

# What links call samples: labels of an index, or places from 0.

# Unknown labels that are told one by one.
SHOWN = 10

# Labels among which one that is meant is looked for: it takes about 0.1 s for each unknown label.
MOST_COMPARED = 5000

# Place of a label that no sample has.
OUTSIDE = -1


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

    def places(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """Place of each label, `OUTSIDE` of one that no sample has."""
        known = {label: place for place, label in enumerate(self.labels)}
        found = []
        for label in map(plain, labels):
            try:
                found.append(known.get(label, OUTSIDE))
            except TypeError:  # what cannot be hashed is no label
                found.append(OUTSIDE)
        return np.array(found, dtype=np.int64)

    def take(self, places: NDArray[np.integer]) -> NDArray[Any]:
        """Labels of places, in the shape of those; tuples if they are of a MultiIndex."""
        labels = np.asarray(self.index)
        if isinstance(self.index, pd.MultiIndex):
            labels = np.empty(len(self.index), dtype=object)
            labels[:] = self.labels
        return np.asarray(labels[places])

    def repeated(self) -> Problem | None:
        """What is wrong where links name samples by labels, and some have the same one."""
        again = self.index[self.index.duplicated()].unique()
        if not len(again):
            return None
        first, more = plain(again[0]), len(again) - 1
        found = f"{first!r} on {self.labels.count(first)} rows"
        found += f", and {more} more labels that repeat" if more else ""
        remedy = "links name rows by these labels; reset_index(drop=True) numbers the rows"
        return Problem(self.source, found, "a label of its own for each row", remedy)

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
        first: dict[str, tuple[int, Any]] = {}
        for row, label in cells:
            first.setdefault(repr(plain(label)), (row, plain(label)))
        such, expected = ", ".join(map(repr, self.labels[:3])), f"labels of {self.source}"
        found = f"{len({row for row, _ in cells})} of {n_links} rows with labels that no row of X has"
        remedy = 'where X is a part of a table on purpose, links_outside="drop" leaves these links out'
        are_places = all(isinstance(label, int) for _, label in first.values())
        if are_places and not any(isinstance(label, int) for label in self.labels):
            remedy = "X.to_numpy() has no labels: there, links are places from 0"
        yield Problem(where, found, f"{expected}, such as {such}", remedy)
        known = {str(each): each for each in self.labels[:MOST_COMPARED]}
        for text, (row, label) in list(first.items())[:SHOWN]:
            meant = did_you_mean(label, known) if isinstance(label, str) else ""
            if str(label) in known:  # 3 for '3', or the other way round
                meant = f"did you mean {known[str(label)]!r}, of type {type(known[str(label)]).__name__}?"
            yield Problem(f"{where}, row {row}", text, f"a label of {self.source}", meant)
        if len(first) > SHOWN:
            yield Problem(where, f"{len(first) - SHOWN} more unknown labels", expected)


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
    given: Any = samples
    shape = getattr(given, "shape", (len(given),) if _is_list(given) else None)
    if shape != (n_samples,):
        found = repr(samples) if shape is None else f"shape {shape}"
        expected = f"shape ({n_samples},), a name for each row of X"
        raise InputError([Problem("samples", found, expected)])
    return Names(pd.Index(given), "samples")


def same_names(one: Names | None, other: Names | None, n_samples: int) -> bool:
    """Whether rows are called the same; without names they are numbers from 0."""
    first, second = (list(range(n_samples)) if names is None else names.labels for names in (one, other))
    return first == second


# Annotator of links that name nobody, as of link files of `sweep fit`.
LINKS = "links"

# Links of one annotator, or those of several by name.
LinkTables = ArrayLike | Mapping[str, ArrayLike]

SHAPES = "shape (n_links, 2) or (n_links, 3)"


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
        with_pairs = [layer for layer in self.layers if len(layer.pairs)]
        shares = inferred_accuracies(with_pairs, labels)
        found = {name: shares.get(number, np.nan) for number, name in enumerate(self.annotators)}
        return {name: None if np.isnan(share) else share for name, share in found.items()}


@dataclass(frozen=True)
class Reader:
    """Reads links of the samples there are.

    Parameters
    ----------
    n_samples : int
        Rows of X.
    names : Names or None
        What links call them; None if by their places.
    drop : bool
        Whether links of samples that are not there are left out, and no problem; only of names.
    """

    n_samples: int
    names: Names | None = None
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
                pairs, weights, outside = self._links(where, links)
                found.setdefault((annotator, kind), []).append((pairs, weights))
                dropped, total = dropped + outside, total + outside + len(pairs)
        if self.names is not None and total > before.total and (repeated := self.names.repeated()):
            problems.append(repeated)
        if problems:
            raise InputError(problems)
        annotators, own = list(dict.fromkeys(name for name, _ in found)), annotator_accuracy or {}
        layers = []
        for name, kind in itertools.product(annotators, (MUST, CANNOT)):
            if (name, kind) in found:
                pairs, weights = map(np.concatenate, zip(*found[name, kind], strict=True))
                number = annotators.index(name)
                layers.append(Layer(kind, pairs, weights, own.get(name, accuracy), None, number))
        return Given(layers, annotators, dropped, total)

    def _links(self, where: str, links: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Pairs of places, the annotations each stands for, and the number of links left out."""
        unmasked(where, links)
        if self.names is None:
            return *_by_place(where, links, self.n_samples), 0
        first, second, *third = _cells(where, links)
        try:
            weights = np.asarray(third[0] if third else np.ones(len(first)), dtype=np.float64)
        except (TypeError, ValueError):
            found = "weights that are no numbers"
            raise InputError([Problem(where, found, WEIGHTS, "the third column has the weights")]) from None
        problems = list(_weight_problems(where, weights))
        places = np.column_stack([self.names.places(first), self.names.places(second)])
        outside = places == OUTSIDE
        if outside.any() and not self.drop:
            cells = [(int(row), (first, second)[end][row]) for row, end in np.argwhere(outside)]
            problems += self.names.unknown(where, cells, len(places))
        if problems:
            raise InputError(problems)
        inside = ~outside.any(axis=1)
        return places[inside], weights[inside], int((~inside).sum())

    def pairs(self, pairs: ArrayLike) -> NDArray[np.int64]:
        """Pairs of samples as a table of places, of shape (n_pairs, 2).

        Raises
        ------
        InputError
            If they are no such table, or name a sample that does not exist.
        """
        unmasked("pairs", pairs)
        width = _numbers("pairs", pairs).shape[1] if self.names is None else len(_cells("pairs", pairs))
        if width != 2:
            raise InputError([Problem("pairs", f"rows of {width}", "shape (n_pairs, 2)")])
        return self._links("pairs", pairs)[0]


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


def _by_place(where: str, links: ArrayLike, n_samples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    table = _numbers(where, links)
    samples, weights = table[:, :2], table[:, 2] if table.shape[1] == 3 else np.ones(len(table))
    in_range = (samples >= 0) & (samples < n_samples) & (np.floor(samples) == samples)
    hint = "samples are counted from 0"
    if (samples >= n_samples).any():
        hint += "; if X is a part of a table, name its rows: by the index of a data frame, or by samples="
    problems = [
        *_row_problems(where, samples, ~in_range.all(axis=1), f"whole numbers 0 to {n_samples - 1}", hint),
        *_weight_problems(where, weights),
    ]
    if problems:
        raise InputError(problems)
    return samples.astype(np.int64), weights


def _numbers(where: str, links: ArrayLike) -> NDArray[np.float64]:
    try:
        table = np.asarray(links, dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_table(where, links, "numbers") from None
    if table.shape == (0,):
        return table.reshape(0, 2)
    if table.ndim != 2 or table.shape[1] not in (2, 3):
        raise InputError([Problem(where, f"shape {table.shape}", SHAPES)])
    return table


def _no_table(where: str, links: object, cells: str) -> InputError:
    return InputError([Problem(where, f"a {type(links).__name__} that makes no table of {cells}", SHAPES)])


def _cells(where: str, links: Any) -> list[Sequence[Any]]:
    """Two or three columns of a table whose cells may be labels of any kind."""
    if isinstance(links, pd.DataFrame) or (isinstance(links, np.ndarray) and links.ndim == 2):
        frame = pd.DataFrame(links)
        if frame.shape[1] not in (2, 3):
            raise InputError([Problem(where, f"shape {frame.shape}", SHAPES)])
        return [list(frame.iloc[:, column]) for column in range(frame.shape[1])]
    rows = list(links) if _is_list(links) else []
    if not _is_list(links) or not all(map(_is_list, rows)):
        raise _no_table(where, links, "labels")
    lengths = {len(row) for row in rows} or {2}
    if len(lengths) > 1 or not lengths <= {2, 3}:
        raise InputError([Problem(where, f"rows of {' and '.join(map(str, sorted(lengths)))} cells", SHAPES)])
    return [[row[column] for row in rows] for column in range(lengths.pop())]


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def _row_problems(
    where: str, cells: NDArray[np.float64], bad: NDArray[np.bool_], expected: str, hint: str = ""
) -> Iterator[Problem]:
    """The first bad row, with the number of those that follow."""
    rows = np.flatnonzero(bad)
    if len(rows):
        others = f", and {len(rows) - 1} more such rows" if len(rows) > 1 else ""
        found = ", ".join(f"{cell:.15g}" for cell in np.atleast_1d(cells[rows[0]]))
        yield Problem(f"{where}, row {rows[0]}", found + others, expected, hint)


def _weight_problems(where: str, weights: NDArray[np.float64]) -> Iterator[Problem]:
    is_good = (weights >= LEAST_WEIGHT) & (weights <= LARGEST_WEIGHT)
    return _row_problems(where, weights, ~is_good, WEIGHTS)
