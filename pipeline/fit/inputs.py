"""Reading and checking what `sweep fit` is given."""

from __future__ import annotations

import csv
import io
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.problem.problem import CANNOT, MUST, Layer, inferred_accuracies
from kernels.problem.shapes import SPHERES, unused_priors
from kernels.settings import AUTO, COVARIANCES, DEFAULT, TERMS, Settings, settings_of, wrong_settings
from pipeline.fit.data_notes import constant
from pipeline.fit.solve import FitResult
from sweeps.annotations.files import KIND_NAMES, Annotation, Row, Samples, read_answers, read_links
from sweeps.data.lines import to_number
from sweeps.data.reading import read_table
from sweeps.data.table import MAX_CLASSES, LabelledTable, SampleRows, TableChoice, read_labels, scale
from sweeps.errors import InputError, Problem, collecting, did_you_mean, given, not_one_of
from sweeps.words import SCALES

# Annotators of a fit: the layers made for each, and how far the solution agrees with each.

SHOWN = 5
"""Contradictions that people see; the JSON has them all."""


def annotator_names(annotations: Iterable[Annotation]) -> list[str]:
    """Names in the order they first appear."""
    return list(dict.fromkeys(annotation.annotator for annotation in annotations))


def annotator_layers(
    annotations: Sequence[Annotation], accuracies: Mapping[str, float], accuracy: float | None
) -> list[Layer]:
    """A layer for each annotator and kind, must-links first; annotators are numbered as they appear.

    Parameters
    ----------
    annotations : sequence of Annotation
        Of all files.
    accuracies : mapping of str to float
        Accuracy of each annotator that has one of its own; those of lines come first.
    accuracy : float or None
        Accuracy of the others.
    """
    names = annotator_names(annotations)
    groups: dict[tuple[str, int], list[Annotation]] = {
        (name, kind): [] for name in names for kind in KIND_NAMES
    }
    for annotation in annotations:
        groups[annotation.annotator, annotation.kind].append(annotation)
    return [
        _layer(own, accuracies.get(name, accuracy), names.index(name))
        for (name, _), own in groups.items()
        if own
    ]


def _layer(annotations: Sequence[Annotation], accuracy: float | None, number: int) -> Layer:
    pairs = np.array([(item.first, item.second) for item in annotations], dtype=np.int64)
    counts = np.array([item.count for item in annotations], dtype=np.float64)
    of_lines = np.array([item.accuracy for item in annotations], dtype=np.float64)  # None becomes NaN
    own = None if np.isnan(of_lines).all() else of_lines
    return Layer(annotations[0].kind, pairs, counts, accuracy, own, number)


@dataclass(frozen=True)
class Judgement:
    """How annotators come out of a fit.

    Parameters
    ----------
    accuracies : dict of str to (float or None)
        Share of each annotator's annotations that agrees with the partition, self pairs left out; None if
        there are no others.
    counts : dict of str to float
        Annotations of each annotator, self pairs included.
    contradictions : list of Annotation
        All that the partition contradicts, in the order of files and lines. A sample that cannot be linked
        with itself is among them.
    samples : Samples or None
        What samples are called; by their numbers from 1 without it.
    """

    accuracies: dict[str, float | None]
    counts: dict[str, float]
    contradictions: list[Annotation]
    samples: Samples | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; lines, and samples without names, count from 1 and weights are those of the files."""
        return {
            "annotator_accuracies": self.accuracies,
            "contradictions": [self._as_in_file(annotation) for annotation in self.contradictions],
        }

    def lines(self) -> list[str]:
        """A line for each annotator, and the first contradictions, for people."""
        if not self.counts:
            return []
        shown = [f"           {self._text(annotation)}" for annotation in self.contradictions[:SHOWN]]
        beyond = len(self.contradictions) - len(shown)
        more = [f"           and {beyond} more (--json lists all)"] if beyond else []
        title = ["contradicted by the clusters"] if shown else []
        return [*map(self._line, self.counts), *title, *shown, *more]

    def _line(self, name: str) -> str:
        accuracy = self.accuracies[name]
        contradicted = sum(item.count for item in self.contradictions if item.annotator == name)
        found = "unknown" if accuracy is None else f"{accuracy:.3f}"
        counts = f"{contradicted:g} of {self.counts[name]:g} annotations contradicted"
        return f"annotator  {name}: accuracy {found}, {counts}"

    def _told(self, sample: int) -> str | int:
        return sample + 1 if self.samples is None else self.samples.told(sample)

    def _as_in_file(self, annotation: Annotation) -> dict[str, Any]:
        return {
            "i": self._told(annotation.first),
            "j": self._told(annotation.second),
            "kind": KIND_NAMES[annotation.kind],
            "weight": annotation.weight,
            "annotator": annotation.annotator,
            "file": str(annotation.file),
            "line": annotation.line,
        }

    def _text(self, annotation: Annotation) -> str:
        pair = f"{self._told(annotation.first)} {self._told(annotation.second)} {KIND_NAMES[annotation.kind]}"
        place = f"{annotation.file}, line {annotation.line}"
        return f"{place}: {pair} {annotation.weight:g} {annotation.annotator}"


def judge(
    annotations: Sequence[Annotation], labels: NDArray[np.integer], samples: Samples | None = None
) -> Judgement:
    """Compare annotations with a partition.

    Parameters
    ----------
    annotations : sequence of Annotation
        Of all files.
    labels : ndarray of shape (n_samples,)
        The partition.
    samples : Samples, optional
        What samples are called.
    """
    names = annotator_names(annotations)
    shares = inferred_accuracies(annotator_layers(annotations, {}, None), labels)
    accuracies = {name: None if math.isnan(shares[n]) else shares[n] for n, name in enumerate(names)}
    counts = dict.fromkeys(names, 0.0)
    for item in annotations:
        counts[item.annotator] += item.count
    contradictions = [item for item in annotations if not _agrees(item, labels)]
    return Judgement(accuracies, counts, contradictions, samples)


def _agrees(annotation: Annotation, labels: NDArray[np.integer]) -> bool:
    together = labels[annotation.first] == labels[annotation.second]
    return bool(together == (annotation.kind == MUST))


# Labels of a fit as a table: one row for each sample.

INDEX, LABEL, CONFIDENCE = "index", "label", "confidence"


def labels_csv(samples: Samples, result: FitResult) -> str:
    """Labels as CSV: what the sample is called, its label from 0, and how sure it is if that was asked for.

    A sample without a name is called by the number of its row from 1.

    Parameters
    ----------
    samples : Samples
        What the samples are called.
    result : FitResult
        The fit.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    found = result.confidence
    writer.writerow([INDEX, LABEL, *([CONFIDENCE] if found else [])])
    for position, label in enumerate(result.best.labels.tolist()):
        sure = [f"{found.confidence[position]:.4f}"] if found else []
        writer.writerow([samples.cell(position), label, *sure])
    return text.getvalue()


def write_whole(path: Path, content: str | bytes) -> None:
    """Put a file in place in one step: a reader sees the old one or the new one.

    Raises
    ------
    OSError
        With its name, if it cannot be written; what was there stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno or 0, error.strerror or str(error), str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class FitOptions:
    """What `sweep fit` is given; the fields are its options.

    `chosen` has the method and the settings by name, None where one was not given and goes by the method.
    `aside` has the columns that are left out of the features, and whose texts are kept.
    """

    features: Path
    labels: Path | None
    must_link: Path | None
    cannot_link: Path | None
    n_clusters: int
    model: str | None
    accuracy: float | None
    restarts: int
    seed: int
    scale: str
    annotations: tuple[Path, ...] = ()
    annotator_accuracy: tuple[str, ...] = ()
    covariance: str = "spherical"
    held_out: bool = True
    aside: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    index_column: str | None = None
    label_column: str | None = None
    missing: str = "error"
    categories: str = "error"
    sheet: str | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Settings of the search and of the objective; the right ones of those given, if some are wrong."""
        return settings_of(self.chosen)

    @property
    def choice(self) -> TableChoice:
        """What the columns of the table are."""
        return TableChoice(
            columns=self.columns,
            drop=self.drop,
            index_column=self.index_column,
            label_column=self.label_column,
            missing=self.missing,
            categories=self.categories,
            sheet=self.sheet,
            aside=self.aside,
            as_options=True,
        )

    @property
    def chosen_model(self) -> str:
        """The model asked for, else the most that is known allows."""
        if self.model is not None:
            return self.model
        if self.accuracy is not None or self.annotator_accuracy:
            return "posterior"
        return "likelihood" if self.has_links else "unsupervised"

    @property
    def has_links(self) -> bool:
        """Whether a file of annotations is given, even an empty one."""
        return bool(self.must_link or self.cannot_link or self.annotations)

    def without_effect(self) -> list[str]:
        """What is given, but not seen by the model."""
        notes = []
        given = {"--accuracy": self.accuracy is not None, "--annotator-accuracy": self.annotator_accuracy}
        for option, is_given in given.items():
            if is_given and self.chosen_model not in ("posterior", "conditional"):
                notes.append(f"{option} is not used by the model {self.chosen_model!r}")
        if self.has_links and self.chosen_model == "unsupervised":
            notes.append("the model 'unsupervised' does not see the links; they are only scored")
        for name in unused_priors([self.covariance]):
            if getattr(self.settings, name) != getattr(DEFAULT, name):
                option = f"--{name.replace('_', '-')}"
                notes.append(f"{option} is not used by {self.covariance} covariances")
        return notes


@dataclass(frozen=True, eq=False)
class FitInputs:
    """Arrays to fit.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Scaled features.
    labels_true : array of shape (n_samples,) or None
        Classes from 0.
    rows : list of Annotation or Skip
        Of all files: must-links, cannot-links, annotation files.
    layers : list of Layer
        One for each annotator and kind.
    table : LabelledTable
        The features as they are in the file, with their names and the columns left out.
    samples : Samples
        What annotation files name.
    """

    X: NDArray[np.float64]
    labels_true: NDArray[np.int16] | None
    rows: list[Row]
    layers: list[Layer]
    table: LabelledTable
    samples: Samples

    @property
    def annotations(self) -> list[Annotation]:
        """Rows that say something."""
        return answered(self.rows)


def answered(rows: Iterable[Row]) -> list[Annotation]:
    """Rows that are no skipped questions."""
    return [row for row in rows if isinstance(row, Annotation)]


def read_inputs(
    options: FitOptions, *, out: Path | None = None, overwrite: bool = False, also: Iterable[Problem] = ()
) -> FitInputs:
    """Read the files of a fit and check them with the options.

    Parameters
    ----------
    options : FitOptions
        Of the command.
    out : Path, optional
        File that labels will be written to.
    overwrite : bool
        Whether it may be there.
    also : iterable of Problem
        What else is wrong.

    Raises
    ------
    InputError
        With the problems of all options and all files.
    """
    problems = [*also, *_option_problems(options), *place_problems("--out", out, overwrite)]
    table: LabelledTable | None = None
    labels: NDArray[np.int16] | None = None
    with collecting(problems):
        table = read_table(options.features, options.choice)
        problems += _size_problems(options, table)
        if options.covariance not in SPHERES and constant(table.X).all():
            found = "features that vary by no more than rounding"
            problems.append(
                Problem(str(options.features), found, "samples that differ", "subtract what they share")
            )
    with collecting(problems):
        labels = _labels(options, table)
    accuracies, wrong = read_accuracies(options.annotator_accuracy)
    problems += wrong
    samples = _samples(options, table)
    rows, unread = _rows(options, samples) if samples else ([], [])
    problems += unread
    annotations = answered(rows)
    problems += _annotator_problems(options, annotations, accuracies, all_read=not unread)
    if problems or table is None:
        raise InputError(problems)
    layers = annotator_layers(annotations, accuracies, options.accuracy)
    return FitInputs(scale(table.X, options.scale), labels, rows, layers, table, given(samples))


def _samples(options: FitOptions, table: LabelledTable | None) -> Samples | None:
    """What annotation files may name.

    Without a table they are still checked, as far as the number of samples does not matter; not where names
    of samples would be in it.
    """
    if table is not None:
        return Samples(table.rows or SampleRows(len(table.X)))
    return None if options.index_column else Samples(SampleRows(sys.maxsize))


def _rows(options: FitOptions, samples: Samples) -> tuple[list[Row], list[Problem]]:
    """What all files say that are right, and the problems of the others."""
    found: list[Row] = []
    problems: list[Problem] = []
    for kind, path in ((MUST, options.must_link), (CANNOT, options.cannot_link)):
        if path is not None:
            with collecting(problems):
                found += read_links(path, samples, kind)
    for path in options.annotations:
        with collecting(problems):
            found += read_answers(path, samples)
    return found, problems


def _annotator_problems(
    options: FitOptions, annotations: list[Annotation], accuracies: dict[str, float], *, all_read: bool
) -> Iterator[Problem]:
    names = annotator_names(annotations)
    if all_read:  # else the name may be in a file that is wrong
        yield from name_problems(accuracies, names)
    if options.chosen_model == "posterior" and options.accuracy is None and options.annotator_accuracy:
        yield from missing_problems(accuracies, names)
    yield from column_problems(annotations, options.chosen_model)


def _option_problems(options: FitOptions) -> Iterator[Problem]:
    words = {
        "--model": (options.chosen_model, TERMS),
        "--covariance": (options.covariance, (*COVARIANCES, AUTO)),
        "--scale": (options.scale, SCALES),
    }
    for option, (word, known) in words.items():
        if word not in known:
            yield not_one_of(option, word, known)
    at_least = {
        "-k": (options.n_clusters, 1),
        "--restarts": (options.restarts, 1),
        "--seed": (options.seed, 0),
    }
    for name, (value, least) in at_least.items():
        if value < least:
            yield Problem(name, str(value), f"{least} or more")
    if options.n_clusters >= MAX_CLASSES:
        yield Problem("-k", str(options.n_clusters), f"less than {MAX_CLASSES}")
    for setting, found, expected in wrong_settings({**options.chosen, "covariance": options.covariance}):
        yield Problem(setting.option, found, expected)
    if options.accuracy is None:
        if options.chosen_model == "posterior" and not options.annotator_accuracy:
            yield Problem("--accuracy", "nothing", "a number above 0, at most 1", "posterior needs it")
    elif not 0 < options.accuracy <= 1:
        yield Problem("--accuracy", str(options.accuracy), "a number above 0, at most 1")


def place_problems(option: str, path: Path | None, overwrite: bool) -> Iterator[Problem]:
    """What keeps a file from being written."""
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        yield Problem(option, f"no folder {folder}", "a folder to write to")
    elif path.is_dir():
        yield Problem(option, f"{path}, a folder", "a file")
    elif path.exists() and not overwrite:
        yield Problem(option, f"{path}, which is there already", "a new file", "--force overwrites it")


def _size_problems(options: FitOptions, table: LabelledTable) -> Iterator[Problem]:
    n_samples, distinct = len(table.X), len(np.unique(table.X, axis=0))
    least = options.settings.min_cluster_size
    if options.n_clusters > distinct:
        found = f"{options.n_clusters} clusters for {distinct} distinct rows of {options.features}"
        yield Problem("-k", found, "no more clusters than distinct rows")
    elif options.n_clusters * least > n_samples > 0:
        found = f"{options.n_clusters} clusters of {least} or more for {n_samples} samples"
        yield Problem("-k", found, "samples enough", "see --min-cluster-size")


def _labels(options: FitOptions, table: LabelledTable | None) -> NDArray[np.int16] | None:
    """Classes of the label file, else those an .npz of features brings along."""
    if options.labels is None:
        return None if table is None else table.labels_true
    if options.label_column is not None:
        hint = "the classes are in one of them"
        raise InputError([Problem("--labels", "--label-column as well", "one of them", hint)])
    if table is None:
        return read_labels(options.labels)[0]
    n_rows, kept, _ = table.rows or SampleRows(len(table.X))
    labels, _ = read_labels(options.labels, n_rows)
    if len(labels) != n_rows:
        expected = f"{n_rows}, one for each row of {options.features}"
        raise InputError([Problem(str(options.labels), f"{len(labels)} labels", expected)])
    if kept is None:
        return labels
    # classes of rows that are left out may be gone with them
    codes: NDArray[np.int16] = np.unique(labels[kept], return_inverse=True)[1].astype(np.int16)
    return codes


OPTION = "--annotator-accuracy"
ACCURACY = "a number above 0, at most 1"


def read_accuracies(texts: Sequence[str]) -> tuple[dict[str, float], list[Problem]]:
    """Accuracies of `NAME=p` texts; the name ends at the last equals sign.

    Returns
    -------
    accuracies : dict of str to float
        By annotator; NaN for one that is wrong, so that it is not missed as well.
    problems : list of Problem
        Every text that is no accuracy, and every name that comes twice.
    """
    accuracies: dict[str, float] = {}
    problems = []
    for text in texts:
        name, equals, cell = text.rpartition("=")
        if not (equals and name):
            problems.append(Problem(OPTION, repr(text), "NAME=p"))
            continue
        accuracy = to_number(cell)
        if name in accuracies:
            problems.append(Problem(f"{OPTION} {name}", "a second accuracy", "one for each annotator"))
        if accuracy is None or not 0 < accuracy <= 1:
            problems.append(Problem(f"{OPTION} {name}", repr(cell), ACCURACY))
            accuracy = math.nan
        accuracies[name] = accuracy
    return accuracies, problems


def name_problems(accuracies: Mapping[str, float], names: Sequence[str]) -> Iterator[Problem]:
    """Accuracies of annotators that no file has."""
    for name in accuracies:
        if name not in names:
            expected = f"one of {', '.join(names[:20])}" if names else "no name, as there are no annotations"
            yield Problem(OPTION, f"annotator {name!r}", expected, did_you_mean(name, names))


def missing_problems(accuracies: Mapping[str, float], names: Sequence[str]) -> Iterator[Problem]:
    """Annotators without an accuracy, where the model needs one of each."""
    for name in names:
        if name not in accuracies:
            found = f"nothing for annotator {name!r}"
            yield Problem(OPTION, found, ACCURACY, "or --accuracy for all that have none of their own")


def column_problems(annotations: Sequence[Annotation], model: str) -> Iterator[Problem]:
    """Accuracies of single lines, where the model has no place for them; one problem for each file."""
    if model not in TERMS or model == "conditional":
        return
    with_accuracy = [annotation for annotation in annotations if annotation.accuracy is not None]
    for file in dict.fromkeys(annotation.file for annotation in with_accuracy):
        lines = [annotation.line for annotation in with_accuracy if annotation.file == file]
        others = f", and {len(lines) - 1} more such lines" if len(lines) > 1 else ""
        found = f"an accuracy in the sixth column{others}"
        expected = f"none with the model {model!r}"
        yield Problem(f"{file}, line {lines[0]}", found, expected, "--model conditional takes it")
