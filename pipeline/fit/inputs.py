"""Reading and checking what `sweep fit` is given, and how its annotators come out.

`FitOptions` has what the options say, `read_inputs` reads the files and checks all of it together, and
`judge` compares the annotations with the solution. Bad input is answered before a compiler is loaded: what is
of the kernels is imported where arrays are good.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernels.settings import DEFAULT, PARAMETERS, TERMS, Settings, settings_of, wrong_settings
from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.files import KIND_NAMES, Annotation, Row, Samples, read_answers, read_links
from sweeps.data.lines import to_number
from sweeps.data.reading import read_table
from sweeps.data.table import LabelledTable, SampleRows, TableChoice, read_labels, scale
from sweeps.errors import InputError, Problem, collecting, did_you_mean, given

if TYPE_CHECKING:
    from kernels.problem.data import Layer
    from pipeline.fit.solve import FitResult

# Contradictions that people see; the JSON has them all.
SHOWN = 5

OWN_ACCURACY = "--annotator-accuracy"


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
        names = TableChoice.__dataclass_fields__.keys() - {"as_options"}
        return TableChoice(**{name: getattr(self, name) for name in names}, as_options=True)

    @property
    def chosen_model(self) -> str:
        """The model asked for, else the most that is known allows."""
        known = self.accuracy is not None or bool(self.annotator_accuracy)
        return self.model or model_of(known, self.has_links)

    @property
    def has_links(self) -> bool:
        """Whether a file of annotations is given, even an empty one."""
        return bool(self.must_link or self.cannot_link or self.annotations)

    def without_effect(self) -> list[str]:
        """What is given, but not seen by the model."""
        from kernels.problem.shapes import unused_priors

        accuracies = {"--accuracy": self.accuracy is not None, OWN_ACCURACY: self.annotator_accuracy}
        notes = [
            f"{option} is not used by the model {self.chosen_model!r}"
            for option, is_given in accuracies.items()
            if is_given and self.chosen_model not in ("posterior", "conditional")
        ]
        if self.has_links and self.chosen_model == "unsupervised":
            notes.append("the model 'unsupervised' does not see the links; they are only scored")
        for name in unused_priors([self.covariance]):
            if getattr(self.settings, name) != getattr(DEFAULT, name):
                option = f"--{name.replace('_', '-')}"
                notes.append(f"{option} is not used by {self.covariance} covariances")
        return notes


def model_of(accuracy_known: bool, has_links: bool) -> str:
    """The model where none is named: the most that is known allows."""
    return "posterior" if accuracy_known else "likelihood" if has_links else "unsupervised"


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
        problems += _table_problems(options, table)
    with collecting(problems):
        labels = _labels(options, table)
    accuracies, wrong = read_accuracies(options.annotator_accuracy)
    problems += wrong
    # Without a table annotation files are still checked, as far as the number of samples does not matter; not
    # where names of samples would be in it.
    samples = None if options.index_column else Samples(SampleRows(sys.maxsize))
    if table is not None:
        samples = Samples(table.rows or SampleRows(len(table.X)))
    rows, unread = _rows(options, samples) if samples else ([], [])
    problems += unread
    annotations, model = answered(rows), options.chosen_model
    problems += annotator_problems(
        OWN_ACCURACY,
        accuracies,
        annotator_names(annotations),
        mentioned=() if unread else accuracies,  # else the name may be in a file that is wrong
        needs_all=model == "posterior" and options.accuracy is None and bool(options.annotator_accuracy),
        for_all="--accuracy",
    )
    problems += _column_problems(annotations, model)
    if problems or table is None:
        raise InputError(problems)
    layers = annotator_layers(annotations, accuracies, options.accuracy)
    return FitInputs(scale(table.X, options.scale), labels, rows, layers, table, given(samples))


def _option_problems(options: FitOptions) -> Iterator[Problem]:
    values = vars(options) | {"model": options.chosen_model} | dict(options.chosen)
    for name in ("missing", "categories"):  # choices of a table, which its reader checks
        del values[name]
    for setting, found, expected in wrong_settings(values):
        yield Problem(setting.option, found, expected, did_you_mean(found.strip("'"), setting.choices))


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


def _table_problems(options: FitOptions, table: LabelledTable) -> Iterator[Problem]:
    n_samples, distinct = len(table.X), len(np.unique(table.X, axis=0))
    least = options.settings.min_cluster_size
    if options.n_clusters > distinct:
        found = f"{options.n_clusters} clusters for {distinct} distinct rows of {options.features}"
        yield Problem("-k", found, "no more clusters than distinct rows")
    elif options.n_clusters * least > n_samples > 0:
        found = f"{options.n_clusters} clusters of {least} or more for {n_samples} samples"
        yield Problem("-k", found, "samples enough", "see --min-cluster-size")
    if options.covariance not in ("spherical", "common"):
        from pipeline.fit.data_notes import constant

        if constant(table.X).all():
            found = "features that vary by no more than rounding"
            yield Problem(str(options.features), found, "samples that differ", "subtract what they share")


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


# Accuracies of annotators.


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
    problems, parameter = [], PARAMETERS["accuracy"]
    for text in texts:
        name, equals, cell = text.rpartition("=")
        if not (equals and name):
            problems.append(Problem(OWN_ACCURACY, repr(text), "NAME=p"))
            continue
        where, accuracy = f"{OWN_ACCURACY} {name}", to_number(cell)
        if name in accuracies:
            problems.append(Problem(where, "a second accuracy", "one for each annotator"))
        if accuracy is None or not parameter.allows(accuracy):
            problems.append(Problem(where, repr(cell), parameter.expected))
            accuracy = math.nan
        accuracies[name] = accuracy
    return accuracies, problems


def annotator_problems(
    where: str,
    accuracies: Mapping[str, float],
    names: Sequence[str],
    *,
    mentioned: Iterable[str],
    needs_all: bool,
    for_all: str,
) -> Iterator[Problem]:
    """Accuracies of annotators that are not there, and annotators whose accuracy is missing.

    Parameters
    ----------
    where : str
        Option or parameter that has the accuracies.
    accuracies : mapping of str to float
        By annotator.
    names : sequence of str
        Annotators there are.
    mentioned : iterable of str
        Names that have to be among them.
    needs_all : bool
        Whether each annotator needs an accuracy.
    for_all : str
        Option or parameter that gives it to those who have none of their own.
    """
    for name in mentioned:
        if name not in names:
            expected = f"one of {', '.join(names[:20])}" if names else "no name, as there are no annotations"
            yield Problem(where, f"annotator {name!r}", expected, did_you_mean(str(name), names))
    if needs_all:
        hint = f"or {for_all}, for all that have none of their own"
        for name in names:
            if name not in accuracies:
                expected = PARAMETERS["accuracy"].expected
                yield Problem(where, f"nothing for annotator {name!r}", expected, hint)


def _column_problems(annotations: Sequence[Annotation], model: str) -> Iterator[Problem]:
    """Accuracies of single lines, where the model has no place for them; one problem for each file."""
    if model not in TERMS or model == "conditional":
        return
    lines: dict[Path, list[int]] = {}
    for annotation in annotations:
        if annotation.accuracy is not None:
            lines.setdefault(annotation.file, []).append(annotation.line)
    for file, (first, *more) in lines.items():
        others = f", and {len(more)} more such lines" if more else ""
        found, expected = f"an accuracy in the sixth column{others}", f"none with the model {model!r}"
        yield Problem(f"{file}, line {first}", found, expected, "--model conditional takes it")


# Annotators of a fit: the layers made for each, and how far the solution agrees with each.


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
    from kernels.problem.data import Layer

    names = annotator_names(annotations)
    groups: dict[tuple[str, int], list[Annotation]] = {
        each: [] for each in itertools.product(names, KIND_NAMES)
    }
    for annotation in annotations:
        groups[annotation.annotator, annotation.kind].append(annotation)
    layers = []
    for (name, kind), own in groups.items():
        if own:
            pairs = np.array([(item.first, item.second) for item in own], dtype=np.int64)
            counts = np.array([item.count for item in own], dtype=np.float64)
            of_lines = np.array([item.accuracy for item in own], dtype=np.float64)  # None becomes NaN
            told = None if np.isnan(of_lines).all() else of_lines
            layers.append(Layer(kind, pairs, counts, accuracies.get(name, accuracy), told, names.index(name)))
    return layers


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
    samples : Samples
        What samples are called.
    """

    accuracies: dict[str, float | None]
    counts: dict[str, float]
    contradictions: list[Annotation]
    samples: Samples

    def to_json(self) -> dict[str, Any]:
        """Plain values; lines, and samples without names, count from 1 and weights are those of the files."""
        names = ("i", "j", "kind", "weight", "annotator", "file", "line")
        rows = [dict(zip(names, self._row(item), strict=True)) for item in self.contradictions]
        return {"annotator_accuracies": self.accuracies, "contradictions": rows}

    def _row(self, item: Annotation) -> tuple[Any, ...]:
        pair = self.samples.told(item.first), self.samples.told(item.second)
        return *pair, KIND_NAMES[item.kind], item.weight, item.annotator, str(item.file), item.line

    def lines(self) -> list[str]:
        """A line for each annotator, and the first contradictions, for people."""
        lines = []
        for name, accuracy in self.accuracies.items():
            contradicted = sum(item.count for item in self.contradictions if item.annotator == name)
            share = "unknown" if accuracy is None else f"{accuracy:.3f}"
            counts = f"{contradicted:g} of {self.counts[name]:g} annotations contradicted"
            lines.append(f"annotator  {name}: accuracy {share}, {counts}")
        if self.contradictions:
            lines.append("contradicted by the clusters")
        for item in self.contradictions[:SHOWN]:
            first, second, kind, weight, annotator, file, line = self._row(item)
            text = f"{first} {second} {kind} {weight:g} {annotator}"
            lines.append(f"           {file}, line {line}: {text}")
        if len(self.contradictions) > SHOWN:
            lines.append(f"           and {len(self.contradictions) - SHOWN} more (--json lists all)")
        return lines


def judge(annotations: Sequence[Annotation], labels: NDArray[np.integer], samples: Samples) -> Judgement:
    """Compare annotations with a partition.

    Parameters
    ----------
    annotations : sequence of Annotation
        Of all files.
    labels : ndarray of shape (n_samples,)
        The partition.
    samples : Samples
        What samples are called.
    """
    from kernels.problem.data import inferred_accuracies

    names = annotator_names(annotations)
    shares = inferred_accuracies(annotator_layers(annotations, {}, None), labels)
    accuracies = {names[number]: None if math.isnan(share) else share for number, share in shares.items()}
    counts = dict.fromkeys(names, 0.0)
    for item in annotations:
        counts[item.annotator] += item.count
    agree = [(labels[item.first] == labels[item.second]) == (item.kind == MUST) for item in annotations]
    wrong = [item for item, agrees in zip(annotations, agree, strict=True) if not agrees]
    return Judgement(accuracies, counts, wrong, samples)


# What is written: labels as a table of one row for each sample.


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
    writer.writerow(["index", "label", *(["confidence"] if found else [])])
    for position, label in enumerate(result.best.labels.tolist()):
        sure = [f"{found.confidence[position]:.4f}"] if found else []
        writer.writerow([samples.cell(position), label, *sure])
    return text.getvalue()
