"""Annotations as the estimator takes them: tables of links, of one annotator or of several."""

from __future__ import annotations

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


LINKS = "links"
"""Annotator of links that name nobody, as of link files of `sweep fit`."""

KINDS = {"must_link": MUST, "cannot_link": CANNOT}

LinkTables = ArrayLike | Mapping[str, ArrayLike]
"""Links of one annotator, or those of several by name."""

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
            self.annotators[layer.annotator]: np.column_stack([layer.pairs, layer_weights(layer)]).astype(
                float
            )
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
    ) -> Given:
        """Check links, and lay them out.

        Raises
        ------
        InputError
            With the problems of all links.
        """
        problems: list[Problem] = []
        found: dict[tuple[str, int], tuple[NDArray[np.int64], NDArray[np.float64], int]] = {}
        for where, kind, annotator, links in _tables(must_link, cannot_link, problems):
            with collecting(problems):
                found[annotator, kind] = self._links(where, links)
        if self.names is not None and any(len(pairs) or out for pairs, _, out in found.values()):
            repeated = self.names.repeated()
            problems += [repeated] if repeated else []
        if problems:
            raise InputError(problems)
        annotators = list(dict.fromkeys(name for name, _ in found))
        own = annotator_accuracy or {}
        layers = [
            Layer(kind, *found[name, kind][:2], own.get(name, accuracy), None, number)
            for number, name in enumerate(annotators)
            for kind in (MUST, CANNOT)
            if (name, kind) in found
        ]
        dropped = sum(out for _, _, out in found.values())
        return Given(layers, annotators, dropped, dropped + sum(len(layer.pairs) for layer in layers))

    def _links(self, where: str, links: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Pairs of places, the annotations each stands for, and the number of links left out."""
        unmasked(where, links)
        if self.names is None:
            return *_by_place(where, links, self.n_samples), 0
        first, second, weights = _columns(where, links)
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
        if self.names is None:
            table = _numbers("pairs", pairs)
            width, found = table.shape[1], f"shape {table.shape}"
        else:
            columns = _cells("pairs", pairs)
            width, found = len(columns), f"rows of {len(columns)}"
        if width != 2:
            raise InputError([Problem("pairs", found, "shape (n_pairs, 2)")])
        return self._links("pairs", pairs)[0]


def _tables(
    must_link: LinkTables | None, cannot_link: LinkTables | None, problems: list[Problem]
) -> Iterator[tuple[str, int, str, ArrayLike]]:
    """Where it is, kind, annotator and links of every table."""
    for name, links in (("must_link", must_link), ("cannot_link", cannot_link)):
        if isinstance(links, Mapping):
            for annotator, own in links.items():
                if isinstance(annotator, str) and annotator:
                    yield f"{name} of {annotator}", KINDS[name], annotator, own
                else:
                    problems.append(
                        Problem(name, f"annotator {annotator!r}", "a name, a text that is not empty")
                    )
        elif links is not None:
            yield name, KINDS[name], LINKS, links


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


def _columns(where: str, links: ArrayLike) -> tuple[Sequence[Any], Sequence[Any], NDArray[np.float64]]:
    """Labels of the first samples, of the second ones, and weights."""
    columns = _cells(where, links)
    if len(columns) == 2:
        return columns[0], columns[1], np.ones(len(columns[0]))
    try:
        weights = np.asarray(columns[2], dtype=np.float64)
    except (TypeError, ValueError):
        found = "weights that are no numbers"
        raise InputError([Problem(where, found, WEIGHTS, "the third column has the weights")]) from None
    return columns[0], columns[1], weights


def _cells(where: str, links: Any) -> list[Sequence[Any]]:
    """Two or three columns of a table whose cells may be labels of any kind."""
    if isinstance(links, pd.DataFrame) or (isinstance(links, np.ndarray) and links.ndim == 2):
        frame = pd.DataFrame(links)
        if frame.shape[1] not in (2, 3):
            raise InputError([Problem(where, f"shape {frame.shape}", SHAPES)])
        return [list(frame.iloc[:, column]) for column in range(frame.shape[1])]
    if isinstance(links, (str, bytes)) or not hasattr(links, "__len__"):
        raise _no_table(where, links, "labels")
    rows = list(links)
    if any(isinstance(row, (str, bytes)) or not hasattr(row, "__len__") for row in rows):
        raise _no_table(where, links, "labels")
    lengths = {len(row) for row in rows} or {2}
    if len(lengths) > 1 or not lengths <= {2, 3}:
        raise InputError([Problem(where, f"rows of {' and '.join(map(str, sorted(lengths)))} cells", SHAPES)])
    return [[row[column] for row in rows] for column in range(lengths.pop())]


def _weight_problems(where: str, weights: NDArray[np.float64]) -> Iterator[Problem]:
    right = (weights >= LEAST_WEIGHT) & (weights <= LARGEST_WEIGHT)
    return _row_problems(where, weights[:, None], ~right, WEIGHTS)


def _row_problems(
    where: str, cells: NDArray[np.float64], bad: NDArray[np.bool_], expected: str, hint: str = ""
) -> Iterator[Problem]:
    """The first bad row, with the number of those that follow."""
    rows = np.flatnonzero(bad)
    if len(rows):
        others = f", and {len(rows) - 1} more such rows" if len(rows) > 1 else ""
        found = ", ".join(f"{cell:.15g}" for cell in cells[rows[0]])
        yield Problem(f"{where}, row {rows[0]}", found + others, expected, hint)


def annotator_problems(
    given: Given,
    accuracy: float | None,
    annotator_accuracy: Mapping[str, float] | None,
    mentioned: Iterable[str],
    *,
    needs_all: bool,
) -> Iterator[Problem]:
    """Accuracies of annotators that are not there, and annotators whose accuracy is missing.

    Parameters
    ----------
    given : Given
        Annotations of the fit.
    accuracy : float or None
        Of annotators without one of their own; None if it is not known.
    annotator_accuracy : mapping or None
        By annotator.
    mentioned : iterable of str
        Names that must be there, if anybody is.
    needs_all : bool
        Whether the model needs the accuracy of each annotator.
    """
    own = annotator_accuracy or {}
    for name in mentioned:
        if given.annotators and name not in given.annotators:
            expected = f"one of {', '.join(given.annotators[:20])}"
            hint = did_you_mean(str(name), given.annotators)
            yield Problem("annotator_accuracy", f"annotator {name!r}", expected, hint)
    if needs_all and accuracy is None:
        for name in given.annotators:
            if name not in own:
                found, hint = (
                    f"nothing for annotator {name!r}",
                    "or accuracy, for all that have none of their own",
                )
                yield Problem("annotator_accuracy", found, "a number above 0, at most 1", hint)


def joined(before: Given, new: Given) -> Given:
    """Annotations with those added: one layer for each annotator and kind."""
    annotators = list(dict.fromkeys([*before.annotators, *new.annotators]))
    layers = []
    for number, name in enumerate(annotators):
        for kind in (MUST, CANNOT):
            own = [
                layer
                for given in (before, new)
                for layer in given.layers
                if layer.kind == kind and given.annotators[layer.annotator] == name
            ]
            if own:
                pairs = np.concatenate([layer.pairs for layer in own])
                weights = np.concatenate([layer_weights(layer) for layer in own])
                layers.append(Layer(kind, pairs, weights, own[0].accuracy, None, number))
    return Given(layers, annotators, before.dropped + new.dropped, before.total + new.total)
