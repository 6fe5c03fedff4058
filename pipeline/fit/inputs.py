"""Reading and checking what `sweep fit` is given, and how its annotators come out.

`FitOptions` has what the options say, `read_inputs` reads the files and checks all of it together, and
`judge` compares the annotations with the solution. No compiler is loaded here: bad input is answered before.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, inferred_accuracies
from sweep_clustering.kernels.problem.problem import SPHERES, unused_priors
from sweep_clustering.kernels.settings import (
    DEFAULT,
    METHOD,
    MODEL_ANY,
    OFFERED,
    PARAMETERS,
    TERMS,
    Setting,
    Settings,
    Taken,
    settings_of,
    taken,
    wrong_settings,
)
from sweep_clustering.kernels.structure import kind_of
from sweep_clustering.pipeline.fit.data_notes import constant
from sweep_clustering.sweeps.annotations.files import PairFile, outside_note
from sweep_clustering.sweeps.annotations.numbering import AUTO, Numbering, numbering_of
from sweep_clustering.sweeps.annotations.rows import KIND_NAMES, Annotation, AnnotationRows, Row
from sweep_clustering.sweeps.annotations.samples import Samples
from sweep_clustering.sweeps.data.lines import to_number
from sweep_clustering.sweeps.data.reading import read_table
from sweep_clustering.sweeps.data.scaling import scale
from sweep_clustering.sweeps.data.table import (
    LabelledTable,
    NameSearch,
    SampleRows,
    TableChoice,
    dropped_note,
    read_labels,
)
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, plural

if TYPE_CHECKING:
    from sweep_clustering.pipeline.fit.solve import FitResult

# Contradictions that people see; the JSON has them all.
SHOWN = 5

OWN_ACCURACY = "--annotator-accuracy"


@dataclass(frozen=True, kw_only=True)
class FitOptions(TableChoice):
    """What `sweep fit` is given; the fields are its options, those of the table included.

    `chosen` has the method and the settings by name, None where one was not given and goes by the method.
    `aside` has the columns that are left out of the features, and whose texts are kept.
    """

    features: Path
    n_clusters: int
    labels: Path | None = None
    must_link: Path | None = None
    cannot_link: Path | None = None
    annotations: tuple[Path, ...] = ()
    first_row: str = "auto"
    model: str | None = None
    covariance: str | None = None
    accuracy: float | None = None
    annotator_accuracy: tuple[str, ...] = ()
    held_out: bool = True
    restarts: int = 10
    seed: int = 0
    scale: str | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    as_options: bool = True

    @property
    def settings(self) -> Settings:
        """Settings of the search and of the objective; the right ones of those given, if some are wrong."""
        return settings_of(self.chosen)

    @property
    def taken(self) -> Taken:
        """Model, covariance and scale: those asked for, or what stands for them."""
        given = self.model, self.covariance, self.scale
        return taken(*given, self.settings, annotated=self.has_links)

    @property
    def has_links(self) -> bool:
        """Whether a file of annotations is given, even an empty one."""
        return bool(self.must_link or self.cannot_link or self.annotations)

    def without_effect(self) -> list[str]:
        """What is given, but not seen by the model."""
        notes = []
        model, covariance, _ = self.taken
        if model not in ("posterior", "conditional", MODEL_ANY):
            accuracies = {"--accuracy": self.accuracy is not None, OWN_ACCURACY: self.annotator_accuracy}
            unused = [option for option, is_given in accuracies.items() if is_given]
            notes += [f"{option} is not used by the model {model!r}" for option in unused]
        if self.links_outside == "drop" and self.missing != "drop":
            notes.append("--links-outside drop leaves out nothing without --missing drop")
        if self.has_links and model == "unsupervised":
            notes.append("the model 'unsupervised' does not see the links; they are only scored")
        if not kind_of(covariance, self.settings).is_searched:
            of_search = [each for each in OFFERED if each.by_method or each is METHOD]
            named = [each for each in of_search if self.chosen.get(each.name) not in (None, each.offered)]
            if named:
                options = ", ".join(each.option for each in named)
                notes.append(f"{options}: not used by classes of any shape, which no genetic search finds")
            return notes
        for name in unused_priors([covariance]):
            if getattr(self.settings, name) != getattr(DEFAULT, name):
                notes.append(f"--{name.replace('_', '-')} is not used by {covariance} covariances")
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
    rows : AnnotationRows
        Of all files: must-links, cannot-links, annotation files.
    layers : list of Layer
        One for each annotator and kind.
    accuracies : dict of str to float
        Of annotators that have one of their own.
    table : LabelledTable
        The features as they are in the file, with their names and the columns left out.
    samples : Samples
        What annotation files name.
    numbering : Numbering
        From where they count rows, and why.
    """

    X: NDArray[np.float64]
    labels_true: NDArray[np.int16] | None
    rows: AnnotationRows
    layers: list[Layer]
    accuracies: dict[str, float]
    table: LabelledTable
    samples: Samples
    numbering: Numbering

    def lines(self) -> list[str]:
        """Return how annotation files count rows, and how many annotations were left out, for people."""
        notes = outside_note(self.rows, self.samples.choice)
        return [*self.numbering.lines(), *(f"left out   {note}" for note in notes)]


def answered(rows: Iterable[Row]) -> list[Annotation]:
    """Rows that are no skipped questions."""
    return [row for row in rows if isinstance(row, Annotation)]


def read_inputs(options: FitOptions, also: Iterable[Problem] = ()) -> FitInputs:
    """Read the files of a fit and check them with the options.

    Parameters
    ----------
    options : FitOptions
        Of the command.
    also : iterable of Problem
        What else is wrong.

    Raises
    ------
    InputError
        With the problems of all options and all files, each once.
    """
    problems = [*also, *_option_problems(options)]
    files: list[PairFile] = []
    unread: list[Problem] = []
    for kind, path in (
        (MUST, options.must_link),
        (CANNOT, options.cannot_link),
        *((None, path) for path in options.annotations),
    ):
        with collecting(unread):
            files += [PairFile.of(path, kind)] if path else []
    named = (
        frozenset[str]() if options.index_column else frozenset().union(*(f.mentions.texts for f in files))
    )
    search = NameSearch(named) if named else None
    table: LabelledTable | None = None
    labels: NDArray[np.int16] | None = None
    is_whole = True
    try:
        table = read_table(options.features, replace(options, search=search))
    except InputError as error:
        problems += error.problems
        table, is_whole = error.rest, False
    problems += _table_problems(options, table) if table is not None else ()
    with collecting(problems):
        labels = _labels(options, table)
    accuracies = _read_accuracies(options.annotator_accuracy, problems)
    # Without a table annotation files are still checked, as far as the number of samples does not matter; not
    # where names of samples would be in it.
    known: SampleRows | None
    known = SampleRows(sys.maxsize) if table is None else table.rows or SampleRows(len(table.X))
    if not is_whole and options.index_column is not None and not known.names:
        known = None
    parts: list[AnnotationRows] = []
    samples, numbering = (
        Samples(known or SampleRows(0), hint=search.hint(options) if search else "", choice=options),
        Numbering(),
    )
    X, how = None, options.taken.scale
    if table is not None and is_whole and PARAMETERS["scale"].allows(how):
        X = scale(table.X, how)
    if known is not None:
        told = options.first_row if options.first_row in ("0", "1") else AUTO  # a wrong one is a problem
        numbering = numbering_of(files, told, samples, X)
        unread += [numbering.problem] if numbering.problem else []
        samples = samples.counted_from(numbering.first_row)
        for file in files:
            with collecting(unread):
                parts.append(file.table(numbering.of(file.path, samples)))
    rows = AnnotationRows.joined(parts)
    annotations, model = rows.answered, options.taken.model
    names = list(annotations.annotators)
    needs_all = model == "posterior" and options.accuracy is None and bool(options.annotator_accuracy)
    problems += unread
    # a name that is not there may be in a file that is wrong
    problems += annotator_problems(accuracies, names, OWN_ACCURACY, "--accuracy", not unread, needs_all)
    problems += _column_problems(annotations, model)
    if problems or table is None or X is None:
        raise InputError(dict.fromkeys(problems))
    layers = annotator_layers(annotations, accuracies, options.accuracy)
    if samples.first_row != 1 and table.rows is not None:  # the note was made before this was known
        note = [*dropped_note(table.rows, options, samples.first_row)]
        table = table._replace(notes=(*note, *table.notes[len(note) :]))
    return FitInputs(X, labels, rows, layers, accuracies, table, samples, numbering)


def _option_problems(options: FitOptions) -> Iterator[Problem]:
    values = vars(options) | options.taken._asdict() | dict(options.chosen)
    for name in ("missing", "categories"):  # choices of a table, which its reader checks
        del values[name]
    for setting, found, expected in wrong_settings(values):
        yield Problem(setting.option, found, expected, _meant(found.strip("'"), setting))


def _meant(found: str, setting: Setting) -> str:
    """A word that may have been meant; none where the word is right, but not beside the others."""
    return "" if found in setting.choices else did_you_mean(found, setting.choices)


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


def chance_problems(where: str, accuracy: float | None) -> Iterator[Problem]:
    """An accuracy from which no question follows."""
    if isinstance(accuracy, int | float) and 0 < accuracy <= 0.5:
        hint = "answers that are right no more often than by chance say nothing"
        yield Problem(where, str(accuracy), "a number above 0.5, at most 1", hint)


def _table_problems(options: FitOptions, table: LabelledTable) -> Iterator[Problem]:
    n_samples, distinct = len(table.X), len(np.unique(table.X, axis=0))
    rows = f"{plural(distinct, 'distinct row')} of {options.features}"
    least = options.settings.min_cluster_size
    has_least = "min_cluster_size" not in kind_of(str(options.taken.covariance), options.settings).unused
    if options.n_clusters > distinct:
        found = f"{plural(options.n_clusters, 'cluster')} for {rows}"
        yield Problem("-k", found, "no more clusters than distinct rows")
    elif has_least and options.n_clusters * least > n_samples > 0:
        found = (
            f"{plural(options.n_clusters, 'cluster')} of {least} or more for {plural(n_samples, 'sample')}"
        )
        yield Problem("-k", found, "samples enough", "see --min-cluster-size")
    many = options.settings.components
    n_features, dims = table.X.shape[1], options.settings.subspace
    if isinstance(dims, int) and dims > n_features:
        found = f"{plural(dims, 'principal component')} of {plural(n_features, 'feature')}"
        yield Problem("--subspace", found, "no more of them than features")
    if isinstance(many, int) and many > 1 and options.n_clusters * many > distinct:
        found = f"{options.n_clusters * many} components for {rows}"
        yield Problem("--components", found, "no more components than distinct rows")
    varies = (table.X[0] != table.X).any()  # the reader of the table has a message of its own
    if varies and options.taken.covariance not in SPHERES and constant(table.X).all():
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
    rows = table.rows or SampleRows(len(table.X))
    n_rows, kept = rows.n_rows, rows.selection
    labels, _ = read_labels(options.labels, n_rows)
    if len(labels) != n_rows:
        expected = f"{n_rows}, one for each row of {options.features}"
        raise InputError([Problem(str(options.labels), plural(len(labels), "label"), expected)])
    # classes of rows that are left out may be gone with them
    codes = np.unique(labels if kept is None else labels[kept], return_inverse=True)[1]
    return np.asarray(codes, dtype=np.int16)


# Accuracies of annotators.


def _read_accuracies(texts: Sequence[str], problems: list[Problem]) -> dict[str, float]:
    """Accuracies of `NAME=p` texts by annotator; NaN for one that is wrong, so that it is not missed as well.

    The name ends at the last equals sign. Problems are added of every text that is no accuracy, and of every
    name that comes twice.
    """
    accuracies: dict[str, float] = {}
    for text in texts:
        name, _, cell = text.rpartition("=")
        accuracy, where = to_number(cell), f"{OWN_ACCURACY} {name}".strip()
        if not name:
            problems.append(Problem(where, repr(text), "NAME=p"))
            continue
        if name in accuracies:
            problems.append(Problem(where, "a second accuracy", "one for each annotator"))
        if accuracy is None or not PARAMETERS["accuracy"].allows(accuracy):
            problems.append(Problem(where, repr(cell), PARAMETERS["accuracy"].expected))
            accuracy = math.nan
        accuracies[name] = accuracy
    return accuracies


def annotator_problems(
    accuracies: Collection[str], names: Sequence[str], where: str, for_all: str, are_all: bool, need_one: bool
) -> Iterator[Problem]:
    """Annotators with an accuracy of their own, against those there are.

    Parameters
    ----------
    accuracies, names : collection of str
        Who has an accuracy, and who annotated.
    where, for_all : str
        What gives an accuracy to one annotator, and to all that have none of their own.
    are_all : bool
        Whether `names` has all annotators, so that any other name is a mistake.
    need_one : bool
        Whether each needs an accuracy of its own.
    """
    for name in (each for each in accuracies if are_all and each not in names):
        expected = f"one of {', '.join(names[:20])}" if names else "no name, because there are no annotations"
        yield Problem(where, f"annotator {name!r}", expected, did_you_mean(str(name), names))
    for name in (each for each in names if need_one and each not in accuracies):
        hint = f"or {for_all}, for all that have none of their own"
        yield Problem(where, f"nothing for annotator {name!r}", PARAMETERS["accuracy"].expected, hint)


def _column_problems(annotations: AnnotationRows, model: str) -> Iterator[Problem]:
    """Accuracies of single lines, where the model has no place for them; one problem for each file."""
    if model not in TERMS or model == "conditional":  # MODEL_ANY is none of the terms
        return
    told = annotations.columns[~np.isnan(annotations.columns["accuracy"])]
    for place in np.unique(told["file"], return_index=True)[1]:
        found, expected = "an accuracy of this line", f"none with the model {model!r}"
        where = f"{annotations.files[told['file'][place]]}, line {told['line'][place]}"
        yield Problem(where, found, expected, "--model conditional takes it")


# Annotators of a fit: the layers made for each, and how far the solution agrees with each.


def annotator_layers(
    annotations: AnnotationRows, accuracies: Mapping[str, float], accuracy: float | None
) -> list[Layer]:
    """A layer for each annotator and kind, must-links first; annotators are numbered as they appear.

    Parameters
    ----------
    annotations : AnnotationRows
        Of all files, without skipped pairs.
    accuracies : mapping of str to float
        Accuracy of each annotator that has one of its own; those of lines come first.
    accuracy : float or None
        Accuracy of the others.
    """
    columns, layers = annotations.columns, list[Layer]()
    group = columns["annotator"].astype(np.int64) * len(KIND_NAMES) + columns["kind"]
    order = np.argsort(group, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else ():
        rows = columns[places]
        who, kind = int(rows["annotator"][0]), int(rows["kind"][0])
        pairs = np.column_stack([rows["first"], rows["second"]]).astype(np.int64)
        told = None if np.isnan(rows["accuracy"]).all() else rows["accuracy"].copy()
        own = accuracies.get(annotations.annotators[who], accuracy)
        layers.append(Layer(kind, pairs, rows["count"].copy(), own, told, who))
    return layers


def judge(
    annotations: AnnotationRows, labels: NDArray[np.integer], samples: Samples, most: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Compare annotations with a partition.

    Parameters
    ----------
    annotations : AnnotationRows
        Of all files, without skipped pairs.
    labels : ndarray of shape (n_samples,)
        The partition.
    samples : Samples
        What samples are called.
    most : int, optional
        How many contradictions the document lists; all where it is not given.

    Returns
    -------
    document : dict
        "annotator_accuracies" has the share of each annotator's annotations that agrees, self pairs left out;
        None if there are no others. "contradictions" has every line that the partition contradicts, in the
        order of files and lines; a sample that cannot be linked with itself is among them. Lines count from
        1, samples without names as `samples` does; weights are those of the files.
    lines : list of str
        The same for people, with the first contradictions.
    """
    columns, names = annotations.columns, annotations.annotators
    shares = inferred_accuracies(annotator_layers(annotations, {}, None), labels)
    # an annotator whose annotations were all left out has none
    found = {number: shares.get(number, math.nan) for number in range(len(names))}
    accuracies = {names[number]: None if math.isnan(share) else share for number, share in found.items()}
    is_one = labels[columns["first"]] == labels[columns["second"]]
    is_contradicted = is_one != (columns["kind"] == MUST)
    counts, contradicted = (
        np.bincount(columns["annotator"], weights=weights, minlength=len(names))
        for weights in (columns["count"], columns["count"] * is_contradicted)
    )
    rows: list[dict[str, Any]] = []
    places = np.flatnonzero(is_contradicted)
    for place in map(int, places[:most]):
        item = annotations.annotation(place)
        pair = {"i": samples.identifier(item.first), "j": samples.identifier(item.second)}
        of_line = {"weight": item.weight, "annotator": item.annotator}
        where = {"file": str(item.file), "line": item.line}
        rows.append(pair | {"kind": KIND_NAMES[item.kind]} | of_line | where)
    lines = []
    for who, (name, accuracy) in enumerate(accuracies.items()):
        share = "unknown" if accuracy is None else f"{accuracy:.3f}"
        of_all = f"{contradicted[who]:.12g} of {counts[who]:.12g} annotations contradicted"
        lines.append(f"annotator  {name}: accuracy {share}, {of_all}")
    lines += ["contradicted by the clusters"] if rows else []
    for row in rows[:SHOWN]:
        lines.append("           {file}, line {line}: {i} {j} {kind} {weight:g} {annotator}".format_map(row))
    if len(places) > SHOWN:
        lines.append(f"           and {len(places) - SHOWN} more (--json lists all)")
    return {"annotator_accuracies": accuracies, "contradictions": rows}, lines


def labels_csv(samples: Samples, result: FitResult) -> str:
    """Labels as CSV: what the sample is called, its label from 0, and how sure it is if that was asked for.

    A sample without a name is called by the number of its row, as annotation files do.

    Parameters
    ----------
    samples : Samples
        What the samples are called.
    result : FitResult
        The fit.
    """
    labels = result.best.labels
    table = pd.DataFrame({"index": list(map(samples.cell, range(len(labels)))), "label": labels})
    if result.confidence is not None:
        table["confidence"] = result.confidence.confidence
    return str(table.to_csv(index=False, float_format="%.4f", lineterminator="\n"))
