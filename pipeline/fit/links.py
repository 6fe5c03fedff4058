"""Annotations for the estimator: tables of links by one annotator or by several, and annotation frames.

A `Reader` checks them and returns `Annotations`. Links name samples by the labels of any index, or by places
from 0 if rows have no names. A frame has the columns of an annotation file and is read as one. A `LinkScorer`
reads them in the same way, to judge fits by links that these have not seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import validation

from sweep_clustering.kernels.problem.data import (
    CANNOT,
    HARD,
    MUST,
    Layer,
    inferred_accuracies,
    label_layers,
    layer_weights,
)
from sweep_clustering.kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweep_clustering.pipeline.fit.inputs import annotator_layers
from sweep_clustering.pipeline.fit.solve import weighted_agreement
from sweep_clustering.sweeps.annotations.files import LINK_CELLS, PairFile, header_problems, usual_names
from sweep_clustering.sweeps.annotations.labels import RowLabels
from sweep_clustering.sweeps.annotations.numbering import verdict
from sweep_clustering.sweeps.annotations.rows import DROPPED_ROW, LINKS, AnnotationRows, Samples
from sweep_clustering.sweeps.data.columns import NO_CELL, frame_columns
from sweep_clustering.sweeps.data.table import SampleRows, exact_below, identity, text_of
from sweep_clustering.sweeps.errors import Problem, collecting, did_you_mean, plural, raise_all, refused

# Most rows and labels that get a problem of their own.
MOST_SHOWN = 10

# Most labels that an unknown label is compared with: it takes about 0.1 s for each unknown label.
MOST_COMPARED = 5000

# Place of a label that no sample has.
NO_ROW = -1

# Links of one annotator, or those of several by name.
LinkTables = ArrayLike | Mapping[str, ArrayLike]

# Data frames of annotations of any library.
Frames = Any

# Columns of links without names, by position.
PLACES = dict(zip("012", LINK_CELLS, strict=True))

# Remedy for a table with unknown columns.
RENAME = "rename the columns, or give an array of links by to_numpy()"

# Remedy for links that count from 1.
FROM_1 = "places count from 0: links that count from 1 need samples=range(1, len(X) + 1)"

# Remedies for links of samples that X does not have: if rows have names, and if they have none.
DROP = 'where X is a part of a table on purpose, links_outside="drop" leaves these links out'
NAME = (
    "counted from 0; if X is a part of a table, name its rows: by the index of a data frame, or by samples="
)


def check_unmasked(location: str, values: object) -> None:
    """Raise an InputError for masked values: those below the mask would be taken as good."""
    arrays = values if isinstance(values, list | tuple) else [values]
    masks = (np.ma.getmaskarray(array) for array in arrays if isinstance(array, np.ma.MaskedArray))
    if count := sum(int(mask.sum()) for mask in masks):
        raise refused(location, plural(count, "masked value"), "none", "leave them out, or fill them")


def names_of(X: object, samples: ArrayLike | None, n_samples: int) -> pd.Index | None:
    """Return the names of the rows of X: `samples`, else the index of a data frame, else None."""
    if samples is None:
        return X.index if isinstance(X, pd.DataFrame) else None
    check_unmasked("samples", samples)
    with suppress(TypeError, ValueError):  # for no list, or a list of lists
        if len(names := pd.Index(samples)) == n_samples:
            return names
    shape = f"shape {np.asarray(samples, dtype=object).shape}"
    raise refused("samples", shape, f"shape ({n_samples},), a name for each row of X")


def plain(label: Any) -> Any:
    """Return a label as an object of Python, with a tuple in place of a list."""
    if isinstance(label, list | tuple):
        return tuple(map(plain, label))
    if isinstance(label, np.datetime64):
        return pd.Timestamp(label)
    return label.item() if isinstance(label, np.generic) else label


@dataclass(frozen=True)
class Annotations:
    """Annotations that were checked."""

    layers: list[Layer] = field(default_factory=list)  # one for each annotator and kind, must-links first
    annotators: list[str] = field(default_factory=list)  # names in the order of their numbers
    n_dropped: int = 0  # rows of links that were left out, because they name samples that X does not have
    n_total: int = 0  # rows of links with these
    tables: tuple[AnnotationRows, ...] = ()  # rows of data frames, with those that are unsure
    labels: RowLabels | None = None  # labels of rows
    label_names: tuple[Any, ...] = ()  # distinct labels as they were given

    @property
    def is_empty(self) -> bool:
        """Whether there are neither links nor labels."""
        return not self.layers and self.labels is None

    def all_layers(self, accuracy: float, seed: int) -> list[Layer]:
        """Return the layers of links and of labels, which have this accuracy."""
        if self.labels is None:
            return self.layers
        return [*self.layers, *label_layers(self.labels.codes, accuracy, seed)]

    def of_kind(self, kind: int) -> NDArray[np.float64] | dict[str, NDArray[np.float64]] | None:
        """Return the rows i, j, weight of a kind in the form of `fit`: by annotator if any has a name."""
        tables = dict[str, NDArray[np.float64]]()
        for layer in self.layers:
            if layer.kind == kind:
                table = np.column_stack([1.0 * layer.pairs, _weights(layer)])
                name = self.annotators[layer.annotator]
                tables[name] = np.concatenate([tables.get(name, table[:0]), table])
        return tables.get(LINKS) if self.annotators in ([], [LINKS]) else tables or None

    def agreement(self, labels: NDArray[np.integer]) -> dict[str, float | None]:
        """Return the share of each annotator's annotations that agree with a partition; None without any."""
        shares = inferred_accuracies(self.layers, labels)
        return {self.annotators[n]: None if np.isnan(share) else share for n, share in shares.items()}


@dataclass(frozen=True)
class Reader:
    """Reader of links between the rows of X."""

    n_samples: int
    names: pd.Index | None = None  # names of the rows; None if links name them by places
    drop: bool = False  # whether links of unknown names are left out, and are no problem

    def read(
        self,
        must_link: LinkTables | None,
        cannot_link: LinkTables | None,
        accuracy: float | None = None,
        annotator_accuracy: Mapping[str, float] | None = None,
        base: Annotations | None = None,
        frames: Frames | Sequence[Frames] | None = None,
    ) -> Annotations:
        """Check links and frames and add them to those of `base`; all problems are one InputError."""
        problems: list[Problem] = []
        base = base or Annotations()
        groups: dict[tuple[str, int], list[_Links]] = {}
        tables = self._rows(frames, problems)
        parts = [table.answers for table in tables]
        base = replace(base, tables=(*base.tables, *tables))
        n_dropped = base.n_dropped + sum(part.n_outside for part in parts)
        n_total = base.n_total + sum(part.n_outside + len(part) for part in parts)
        layers_of_parts = [(base.annotators, base.layers)]
        layers_of_parts += [([*part.annotators], annotator_layers(part, {}, None)) for part in parts]
        for names, layers_of_part in layers_of_parts:
            for layer in layers_of_part:
                of_rows = np.full(len(layer.pairs), np.nan) if layer.accuracies is None else layer.accuracies
                links = _Links(np.asarray(layer.pairs, np.int64), _weights(layer), of_rows)
                groups.setdefault((names[layer.annotator], layer.kind), []).append(links)
        for table in _tables(must_link, cannot_link, problems):
            with collecting(problems):
                links = self._links(table.location, _frame(table.location, table.links, (2, 3)))
                groups.setdefault((table.annotator, table.kind), []).append(links)
                n_dropped, n_total = n_dropped + links.n_dropped, n_total + links.n_dropped + len(links.pairs)
        if n_total > base.n_total:
            problems += self._repeated_names("links name rows")
        raise_all(problems)
        annotators, accuracies = list(dict.fromkeys(name for name, _ in groups)), annotator_accuracy or {}
        layers = []
        for (number, name), kind in itertools.product(enumerate(annotators), (MUST, CANNOT)):
            if (name, kind) in groups:
                group = groups[name, kind]
                pairs, weights, of_rows = (np.concatenate([links[n] for links in group]) for n in range(3))
                is_hard = np.isinf(weights)
                if not is_hard.all() or not len(pairs):
                    single, p = of_rows[~is_hard], accuracies.get(name, accuracy)
                    single = None if np.isnan(single).all() else single
                    layers.append(Layer(kind, pairs[~is_hard], weights[~is_hard], p, single, number))
                if is_hard.any():
                    hard = pairs[is_hard]
                    layers.append(Layer(kind, hard, accuracy=HARD, annotator=number, is_hard=True))
        return replace(base, layers=layers, annotators=annotators, n_dropped=n_dropped, n_total=n_total)

    def _rows(
        self, frames: Frames | Sequence[Frames] | None, problems: list[Problem]
    ) -> list[AnnotationRows]:
        """Return the rows of data frames, and add their problems."""
        is_list = isinstance(frames, list | tuple) and all(hasattr(frame, "columns") for frame in frames)
        is_single, rows = not is_list, list[AnnotationRows]()
        for number, frame in enumerate([frames] if is_single else frames) if frames is not None else ():
            with collecting(problems):
                name = "annotations" if is_single else f"annotations[{number}]"
                rows.append(PairFile(frame_columns(name, frame)).table(self._samples))
        return rows

    @cached_property
    def _samples(self) -> Samples:
        names = [] if self.names is None or self.is_by_place else [*map(plain, self.names)]
        texts = tuple(text_of(name) or NO_CELL for name in names)
        if self.names is not None and len({*map(identity, texts)}) < len(texts) and self.names.is_unique:
            expected = "labels whose texts differ"
            raise refused(
                "names of rows", "different labels with the same text", expected, "links tell them apart"
            )
        return _Samples(SampleRows(self.n_samples, names=texts), self.drop)

    @property
    def is_by_place(self) -> bool:
        """Whether links name samples by their places, as the usual index of a data frame does."""
        return self.names is None or self.names.equals(pd.RangeIndex(self.n_samples))

    def check_places(self, annotations: Annotations, X: NDArray[np.float64]) -> None:
        """Raise an InputError for links by places whose answers clearly fit rows that are counted from 1."""
        layers = [layer for layer in annotations.layers if len(layer.pairs)]
        if not self.is_by_place or not layers or min(int(layer.pairs.min()) for layer in layers) < 1:
            return
        pairs = np.concatenate([layer.pairs for layer in layers]).astype(np.int64)
        is_must = np.repeat([layer.kind == MUST for layer in layers], [len(layer.pairs) for layer in layers])
        if verdict(X, pairs, pairs - 1, is_must, default=0).first_row == 1:
            links = "links whose answers fit rows that are counted from 1, and do not fit places from 0"
            hint = f"{FROM_1}; samples=range(len(X)) takes them as they are"
            raise refused("must_link, cannot_link, annotations", links, "places from 0", hint)

    def pairs(self, pairs: ArrayLike) -> NDArray[np.int64]:
        """Return pairs of samples as an array (n_pairs, 2) of places; anything else is an InputError."""
        return self._links("pairs", _frame("pairs", pairs, (2,))).pairs

    def _links(self, location: str, table: pd.DataFrame) -> _Links:
        problems: list[Problem] = []
        weights = np.ones(len(table))
        if table.shape[1] == 3:
            weights = pd.to_numeric(table.iloc[:, 2], errors="coerce").to_numpy(np.float64)
            is_right = (weights >= LEAST_WEIGHT) & ((weights <= LARGEST_WEIGHT) | np.isposinf(weights))
            wrong = np.flatnonzero(~is_right)
            for row in wrong[:MOST_SHOWN]:
                problems.append(Problem(f"{location}, row {row}", f"weight {table.iloc[row, 2]}", WEIGHTS))
        ends = [table.iloc[:, end] for end in (0, 1)]
        booleans = [str(name) for name, end in zip(table.columns, ends, strict=False) if _has_booleans(end)]
        if booleans:
            columns = f"booleans in column {' and '.join(booleans)}"
            raise refused(location, columns, "labels of rows", "np.argwhere(mask) gives the places")
        places = self.places(table)
        is_outside = places == NO_ROW
        if is_outside.any() and not (self.drop and self.names is not None):
            labels = [list(map(plain, end.tolist())) for end in ends]
            cells = [(int(row), labels[end][row]) for row, end in np.argwhere(is_outside)]
            problems += self._label_problems(location, cells)
        raise_all(problems)
        is_inside = ~is_outside.any(axis=1)
        n_inside = int(is_inside.sum())
        no_accuracies = np.full(n_inside, np.nan)
        return _Links(places[is_inside], weights[is_inside], no_accuracies, n_dropped=len(places) - n_inside)

    def _repeated_names(self, use: str) -> Iterator[Problem]:
        """Yield a problem if several rows have one name, by which links or labels would not say which."""
        if self.names is not None and self.names.has_duplicates:
            labels = self.names[self.names.duplicated()].unique().tolist()[:MOST_SHOWN]
            expected = f"a label of its own for each row, as {use} by these labels"
            hint = "reset_index(drop=True) numbers the rows"
            yield Problem("names of rows", f"labels that repeat: {labels}", expected, hint)

    def single_places(self, location: str, labels: list[Any]) -> NDArray[np.int64]:
        """Return the places of rows named one by one; `NO_ROW` for one that is left out."""
        raise_all(self._repeated_names("row_labels name rows"))
        column = pd.Series(labels, dtype=object)
        places = self.places(pd.DataFrame({"i": column, "j": column}))[:, 0]
        rows = np.flatnonzero(places == NO_ROW)
        if len(rows) and not (self.drop and self.names is not None):
            raise_all(self._label_problems(location, [(row, plain(labels[row])) for row in rows.tolist()]))
        return places

    def places(self, table: pd.DataFrame) -> NDArray[np.int64]:
        """Return the two ends of each link as places, `NO_ROW` for a label that no sample has.

        Whole numbers are looked up as arrays. Other labels are compared one by one, as Python does.
        """
        index = pd.RangeIndex(self.n_samples) if self.names is None else self.names
        columns = [table.iloc[:, end] for end in (0, 1)]
        if index.dtype.kind == "i" and index.is_unique:
            numbers = [integers for column in columns if (integers := _integers(column)) is not None]
            if len(numbers) == len(columns):
                return np.stack([index.get_indexer(column) for column in numbers], axis=1).astype(np.int64)
        place_of, is_float = self._place_of(), index.dtype.kind == "f"

        def place(label: Any, exact: int) -> int:
            if isinstance(label, float) and not is_float and not abs(label) < exact:
                return NO_ROW  # NaN, or a whole number that rounding may have changed
            is_missing = not isinstance(label, tuple) and bool(np.any(pd.isna(label)))
            return place_of.get(label, NO_ROW) if isinstance(label, Hashable) and not is_missing else NO_ROW

        ends = []
        for column in columns:
            has_floats = isinstance(column.dtype, np.dtype) and column.dtype.kind == "f"
            exact = exact_below(column.dtype.type(0)) if has_floats else 2**53
            ends.append([place(plain(label), exact) for label in column.tolist()])
        return np.array(ends, dtype=np.int64).T

    def _place_of(self) -> dict[Hashable, int]:
        labels = range(self.n_samples) if self.names is None else map(plain, self.names)
        return {label: place for place, label in enumerate(labels)}

    def _label_problems(self, location: str, cells: list[tuple[int, object]]) -> Iterator[Problem]:
        """Yield the number of labels that no sample has, then the first of them with the nearest label."""
        labels = list(itertools.islice(self._place_of(), MOST_COMPARED))
        expected, hint = f"labels of rows of X, such as {', '.join(map(repr, labels[:3]))}", DROP
        if self.names is None:
            expected, hint = f"places 0 to {self.n_samples - 1}", NAME
        if self.is_by_place and self.n_samples in [label for _, label in cells if isinstance(label, int)]:
            hint = f"{FROM_1}; {hint}"
        rows = f"{plural(len({row for row, _ in cells}), 'row')} with samples that X does not have"
        yield Problem(location, rows, expected, hint)
        first: dict[str, tuple[int, object]] = {}
        for row, label in cells:
            first.setdefault(repr(label), (row, label))
        by_text = {str(label): label for label in labels}
        for text, (row, label) in itertools.islice(first.items(), MOST_SHOWN):
            hint = did_you_mean(label, by_text) if isinstance(label, str) else ""
            if str(label) in by_text:  # 3 for '3', or the other way round
                hint = f"did you mean {by_text[str(label)]!r} of type {type(by_text[str(label)]).__name__}?"
            yield Problem(f"{location}, row {row}", text, "a sample of X", hint)


def labels_of(values: ArrayLike | Mapping[Any, Any], reader: Reader) -> tuple[RowLabels, list[Any]]:
    """Return labels from an array with one for each row of X, or a mapping of rows to labels.

    The second value is the names as they were given.

    Raises
    ------
    InputError
        If there is another number of labels, a row that X does not have, or no label.
    """
    location = "row_labels"
    is_named = isinstance(values, pd.Series) and reader.names is not None
    if isinstance(values, Mapping) or is_named:
        pairs = list(values.items())  # type: ignore[union-attr]
        places = reader.single_places(location, [row for row, _ in pairs])
        _check_one_label(location, pairs, places)
        cells = np.full(reader.n_samples + 1, None, dtype=object)  # a row that is left out has the last place
        for place, (_, value) in zip(places.tolist(), pairs, strict=True):
            cells[place] = value
        cells = cells[:-1]
    else:
        check_unmasked(location, values)
        if np.ndim(values) != 1 or len(np.asarray(values, dtype=object)) != reader.n_samples:
            expected = f"shape ({reader.n_samples},), a label for each row of X"
            raise refused(location, f"shape {np.shape(values)}", expected)
        cells = np.asarray(pd.Series(values, dtype=object), dtype=object)
    labels = RowLabels.from_cells([_label_text(value) for value in cells])
    if not labels.names:
        raise refused(location, "no labels", "a label of at least one row", "-1 and None are none")
    first = np.unique(labels.codes[labels.rows], return_index=True)[1]
    return labels, [cells[row] for row in labels.rows[first]]


def _label_text(value: object) -> str:
    return text_of(value) if np.ndim(value) == 0 else str(value)  # type: ignore[arg-type]


def _check_one_label(
    location: str, pairs: Sequence[tuple[Hashable, object]], places: NDArray[np.int64]
) -> None:
    """Raise an InputError for rows that have two labels, as a series whose index repeats may have."""
    problems, row_of = list[Problem](), dict[int, int]()
    for row, place in enumerate(places.tolist()):
        first = row_of.setdefault(place, row)
        labels = [_label_text(pairs[number][1]) for number in (row, first)]
        if place != NO_ROW and labels[0] != labels[1]:
            fault = f"label {labels[0]!r} for {plain(pairs[row][0])!r}, and {labels[1]!r} in row {first}"
            problems.append(Problem(f"{location}, row {row}", fault, "one label for each row"))
    raise_all(problems)


class _Samples(Samples):
    """Rows of X as the cells of a frame name them: by names alone, or by places from 0 without any.

    The place of a row in a part of a table is not the place in the whole.
    """

    def __init__(self, rows: SampleRows, drop: bool) -> None:
        super().__init__(rows, first_row=0)
        self.are_numbered, self._drop = not rows.names, drop and bool(rows.names)

    def find(self, cell: str) -> int | None:
        place = super().find(cell)
        return DROPPED_ROW if place is None and self._drop else place


class _Links(NamedTuple):
    """Links of one table as pairs of places."""

    pairs: NDArray[np.int64]
    weights: NDArray[np.float64]
    accuracies: NDArray[np.float64]  # single ones, NaN where a row has none
    n_dropped: int = 0  # rows that were left out


class _Table(NamedTuple):
    """A table of links, and its place in messages."""

    location: str
    kind: int
    annotator: str
    links: ArrayLike


def _weights(layer: Layer) -> NDArray[np.float64]:
    """Return the weights as users write them: infinite for hard links."""
    return np.full(len(layer.pairs), np.inf) if layer.is_hard else layer_weights(layer)


def _integers(column: pd.Series) -> NDArray[np.int64] | None:
    """Return the labels of a column as whole numbers; None if one is none, or too large for exact floats."""
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
) -> Iterator[_Table]:
    for name, kind, links in (("must_link", MUST, must_link), ("cannot_link", CANNOT, cannot_link)):
        if links is not None and not isinstance(links, Mapping):
            yield _Table(name, kind, LINKS, links)
            continue
        for annotator, table in (links or {}).items():
            if isinstance(annotator, str) and annotator:
                yield _Table(f"{name} of {annotator}", kind, annotator, table)
            else:
                problems.append(Problem(name, f"annotator {annotator!r}", "a name, a text that is not empty"))


def _frame(location: str, links: Any, widths: tuple[int, ...]) -> pd.DataFrame:
    """Return a table with one of these numbers of columns, whose cells may be labels of any kind."""
    check_unmasked(location, links)
    expected = f"shape {' or '.join(f'(n_links, {width})' for width in widths)}"
    links = list(links) if isinstance(links, Iterator) else links
    # pandas would fill short rows up, and take a text for a row of letters.
    cells = [
        len(row) if isinstance(row, Sized) and not isinstance(row, str) else 1
        for row in (links if isinstance(links, list | tuple) else [])
    ]
    for number, count in enumerate(cells):
        if count != cells[0]:
            row = f"{plural(count, 'cell')} after rows of {cells[0]}"
            raise refused(f"{location}, row {number}", row, expected)
    try:
        table = links.to_pandas() if hasattr(links, "to_pandas") else pd.DataFrame(links)
        if not isinstance(table, pd.DataFrame):
            raise TypeError
    except (TypeError, ValueError, ImportError):
        raise refused(location, f"a {type(links).__name__}, no table", expected) from None
    table = _by_name(location, table, widths)
    if table.shape == (0, 0):
        return pd.DataFrame(columns=range(2))
    if table.shape[1] not in widths:
        raise refused(location, f"shape {table.shape}", expected)
    return table


def _by_name(location: str, table: pd.DataFrame, widths: tuple[int, ...]) -> pd.DataFrame:
    """Return the columns i, j and weight by the names in files of links; a table without names as it is."""
    if table.columns.equals(pd.RangeIndex(table.shape[1])):
        return table
    words = [str(name).strip().lower() for name in table.columns]
    columns = usual_names(words)
    if {name for name in columns if name} in ({*"01"}, {*"012"}):  # a file had columns without names
        columns = [PLACES.get(name, "") for name in columns]
    cells = LINK_CELLS[: max(widths)]
    problems = header_problems(location, words, columns, LINK_CELLS[:2], cells, False)
    raise_all(replace(problem, hint=problem.hint or RENAME) for problem in problems)
    order = [columns.index(name) for name in cells if name in columns]
    return table.iloc[:, order]


def _has_booleans(column: pd.Series) -> bool:
    """Return whether any label is True or False, which Python takes for 1 and 0."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return True
    return column.dtype == object and any(isinstance(label, bool | np.bool_) for label in column)


class LinkScorer:
    """Scorer for cross-validation: the share of the links of held-out samples that a fit predicts.

    It is called with an estimator that was fitted to some rows of a data frame, and with other rows, whose
    clusters it predicts. It returns the weighted share of the links with one or both samples among these rows
    that agree: a must-link within a cluster, a cannot-link between two. The other sample may be one of the
    fit, with its cluster of `labels_`. No fit that left out the links of missing samples
    (`links_outside="drop"`) has used these links. Links of a sample with itself, and of samples that are in
    neither part, do not count. The larger, the better; it is at most about the share of links that are right.

    Parameters
    ----------
    must_link, cannot_link, annotations : as in `AnnotatedClustering.fit`
        Links of the whole data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from sweep_clustering import AnnotatedClustering, LinkScorer
    >>> table = pd.DataFrame({"x": [0.0, 0.1, 0.3, 1.0, 1.2, 1.3]}, index=list("abcdef"))
    >>> estimator = AnnotatedClustering(n_clusters=2, random_state=0).fit(table.iloc[[0, 2, 3, 5]])
    >>> scorer = LinkScorer(must_link=[["a", "b"], ["b", "e"]], cannot_link=[["c", "e"]])
    >>> scorer(estimator, table.iloc[[1, 4]])
    0.6666666666666666
    """

    def __init__(
        self,
        must_link: LinkTables | None = None,
        cannot_link: LinkTables | None = None,
        annotations: Frames | Sequence[Frames] | None = None,
    ) -> None:
        self.must_link = must_link
        self.cannot_link = cannot_link
        self.annotations = annotations

    def __call__(self, estimator: Any, X: pd.DataFrame, y: object = None) -> float:
        """Score a fit.

        Parameters
        ----------
        estimator : AnnotatedClustering or Pipeline
            Fitted estimator, or a pipeline that ends with it.
        X : DataFrame
            Rows that were held out.
        y : object
            Not used.

        Raises
        ------
        ValueError
            If rows of the fit or of X have no names, if links are no such tables, or if no link has a sample
            in X.
        """
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        validation.check_is_fitted(last)
        names, rows = getattr(last, "sample_names_in_", None), names_of(X, None, len(X))
        if names is None or rows is None:
            expected = "data frames, whose index names the rows; or a fit with samples"
            raise refused("the fit" if names is None else "X", "rows without names", expected)
        # Rows of the fit that are not in X come first, then those of X.
        is_outside = ~np.asarray(names.isin(rows))
        first = int(is_outside.sum())
        labels = np.concatenate([last.labels_[is_outside], estimator.predict(X)])
        reader = Reader(len(labels), names[is_outside].append(rows), drop=True)
        links = reader.read(self.must_link, self.cannot_link, frames=self.annotations)
        layers = []
        for layer in links.layers:
            i, j = layer.pairs.T
            weights = np.where((i != j) & ((i >= first) | (j >= first)), layer_weights(layer), 0.0)
            layers.append(replace(layer, weights=weights))
        share = weighted_agreement(layers, labels)
        if math.isnan(share):
            number = f"none of {links.n_total} with a sample in the {len(X)} rows of X"
            hint = "fewer, larger folds have more of them"
            raise refused("links", number, "one or more", hint)
        return share
