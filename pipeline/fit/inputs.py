"""The options and files of `sweep fit`, and the agreement of its annotators with the solution.

`FitOptions` has the options, `read_inputs` reads the files and checks everything together, and `judge`
compares the annotations with the solution. A `Naming` says where each label of rows mostly is among the
clusters, and what share of the labels agrees. No compiler is loaded here, so that bad input is answered at
once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.problem import data
from sweep_clustering.kernels.problem.hard import Contradiction, group_samples, has_hard_links
from sweep_clustering.kernels.problem.problem import SPHERES, unused_priors
from sweep_clustering.kernels.settings import (
    DEFAULT,
    METHOD,
    MODEL_ANY,
    OFFERED,
    PARAMETERS,
    TERMS,
    UNLABELLED,
    ModelChoice,
    Settings,
    choose_model,
    settings_of,
    wrong_settings,
)
from sweep_clustering.kernels.structure import kind_of
from sweep_clustering.pipeline.fit.data_notes import constant
from sweep_clustering.sweeps.annotations.files import PairFile, outside_note
from sweep_clustering.sweeps.annotations.labels import LabelFile, RowLabels
from sweep_clustering.sweeps.annotations.numbering import AUTO, NumberedFile, Numbering, numbering_of
from sweep_clustering.sweeps.annotations.rows import KIND_NAMES, Annotation, AnnotationRows, Row, Samples
from sweep_clustering.sweeps.data.lines import as_cell, to_number
from sweep_clustering.sweeps.data.reading import read_table, scale
from sweep_clustering.sweeps.data.table import (
    LabelledTable,
    NameSearch,
    SampleRows,
    TableChoice,
    dropped_note,
    read_labels,
)
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, plural, rest_of

if TYPE_CHECKING:
    from sweep_clustering.pipeline.fit.solve import FitResult

LABEL_ACCURACY = PARAMETERS["label_accuracy"]

# Most contradictions in the output for people; the JSON has them all.
MOST_SHOWN = 5

# Most hard links that a message names.
MOST_NAMED = 30

OWN_ACCURACY = "--annotator-accuracy"

# Names in the output for people, at most; the JSON has them all.
MOST_NAMES = 10

# Rows that most names have where a name of a single row may be misspelt.
HANDFUL = 5


@dataclass(frozen=True, kw_only=True)
class FitOptions(TableChoice):
    """Options of `sweep fit`, including those of the table.

    `chosen` has the method and the settings by name; None stands for the value of the method. `aside` has the
    columns that are left out of the features, and whose texts are kept.
    """

    features: Path
    n_clusters: int
    labels: Path | None = None
    must_link: Path | None = None
    cannot_link: Path | None = None
    annotations: tuple[Path, ...] = ()
    row_labels: Path | None = None
    first_row: str = "auto"
    model: str | None = None
    covariance: str | None = None
    accuracy: float | None = None
    annotator_accuracy: tuple[str, ...] = ()
    label_accuracy: float = 0.9
    held_out: bool = True
    restarts: int = 10
    seed: int = 0
    scale: str | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    as_options: bool = True
    has_open_count: bool = False

    @property
    def settings(self) -> Settings:
        """Settings of the search and of the objective; wrong options are ignored."""
        return settings_of(self.chosen)

    @property
    def model_choice(self) -> ModelChoice:
        """Model, covariance and scale, with the values that None and "auto" stand for."""
        return choose_model(self.model, self.covariance, self.scale, self.settings, has_links=self.has_links)

    @property
    def has_links(self) -> bool:
        """Whether there is a file of annotations, even an empty one, or of labels of rows."""
        return bool(self.must_link or self.cannot_link or self.annotations or self.row_labels)

    def without_effect(self) -> list[str]:
        """Return notes on options that the model does not use."""
        notes = []
        model, covariance, _ = self.model_choice
        if model not in ("posterior", "conditional", MODEL_ANY):
            accuracies: dict[str, object] = {
                "--accuracy": self.accuracy is not None,
                OWN_ACCURACY: self.annotator_accuracy,
                LABEL_ACCURACY.option: self.label_accuracy != LABEL_ACCURACY.default,
            }
            options = [option for option, is_set in accuracies.items() if is_set]
            notes += [f"{option} is not used by the model {model!r}" for option in options]
        elif self.label_accuracy != LABEL_ACCURACY.default and self.row_labels is None:
            notes.append(f"{LABEL_ACCURACY.option} is not used without --row-labels")
        if self.links_outside == "drop" and self.missing != "drop":
            notes.append("--links-outside drop leaves out nothing without --missing drop")
        if self.has_links and model == "unsupervised":
            notes.append("the model 'unsupervised' does not see the links; they are only scored")
        if not kind_of(covariance, self.settings).is_searched:
            settings = [setting for setting in OFFERED if setting.by_method or setting is METHOD]
            if texts := [
                setting.option
                for setting in settings
                if self.chosen.get(setting.name) not in (None, setting.preset)
            ]:
                text = "not used by classes of any shape, which no genetic search finds"
                notes.append(f"{', '.join(texts)}: {text}")
            return notes
        for name in unused_priors([covariance]):
            if getattr(self.settings, name) != getattr(DEFAULT, name):
                notes.append(f"--{name.replace('_', '-')} is not used by {covariance} covariances")
        return notes


@dataclass(frozen=True, eq=False)
class FitInputs:
    """Arrays to fit, and the files that they come from."""

    X: NDArray[np.float64]  # (n_samples, n_features), scaled
    labels_true: NDArray[np.int16] | None  # (n_samples,), from 0
    rows: AnnotationRows  # rows of all files: must-links, cannot-links, annotation files
    layers: list[data.Layer]  # one for each annotator and kind
    accuracies: dict[str, float]  # by annotator, for those with an accuracy of their own
    table: LabelledTable  # features as in the file, with names and the columns left out
    samples: Samples  # names of samples in annotation files
    numbering: Numbering  # first row of annotation files, and the reason
    row_labels: RowLabels | None = None  # labels of some samples

    def check_hard(self, n_clusters: int) -> None:
        """Raise an InputError for hard links that no partition into so many clusters obeys."""
        words = _hard_words(self.rows.answers, self.samples)
        if problems := [*hard_problems(self.layers, n_clusters, words)]:
            raise InputError(problems)

    def lines(self) -> list[str]:
        """Return text on the first row of annotation files, and on annotations that were left out."""
        notes = outside_note(self.rows, self.samples.choice)
        n_hard = int(self.rows.columns["is_hard"].sum())
        hard = [f"hard       {plural(n_hard, 'link')}, obeyed by all clusters"] if n_hard else []
        return [*self.numbering.lines(), *(f"left out   {note}" for note in notes), *hard]


def annotations_of(rows: Iterable[Row]) -> list[Annotation]:
    """Return the rows that are no skipped questions."""
    return [row for row in rows if isinstance(row, Annotation)]


def read_inputs(options: FitOptions, extra_problems: Iterable[Problem] = ()) -> FitInputs:
    """Read the files of a fit and check them with the options; all problems are one InputError."""
    problems = [*extra_problems, *_option_problems(options)]
    files: list[PairFile] = []
    labels_file: LabelFile | None = None
    unread: list[Problem] = []
    for kind, path in (
        (data.MUST, options.must_link),
        (data.CANNOT, options.cannot_link),
        *((None, path) for path in options.annotations),
    ):
        with collecting(unread):
            files += [PairFile.of(path, kind)] if path else []
    with collecting(unread):
        labels_file = LabelFile.of(options.row_labels) if options.row_labels else None
    nameless_files = [] if options.index_column else files
    texts = frozenset[str]().union(*(file.mentions.texts for file in nameless_files))
    search = NameSearch(texts) if texts else None
    labels: NDArray[np.int16] | None = None
    problems_of_table = list[Problem]()
    choice = replace(options, search=search)
    table = rest_of(problems_of_table, lambda: read_table(options.features, choice))
    problems += problems_of_table
    is_whole = not problems_of_table
    problems += _table_problems(options, table) if table is not None else ()
    with collecting(problems):
        labels = _labels(options, table)
    accuracies = _read_accuracies(options.annotator_accuracy, problems)
    # Without a table annotation files are still checked, as far as the number of samples does not matter, but
    # not if it would have the names of samples.
    sample_rows: SampleRows | None
    sample_rows = SampleRows(sys.maxsize) if table is None else table.rows or SampleRows(len(table.X))
    if not is_whole and options.index_column is not None and not sample_rows.names:
        sample_rows = None
    parts: list[AnnotationRows] = []
    row_labels: RowLabels | None = None
    if labels_file is not None and table is not None and sample_rows is not None:
        labels_file = replace(labels_file, n_rows=sample_rows.n_rows)
    hint = search.hint(options) if search else ""
    samples, numbering = Samples(sample_rows or SampleRows(0), hint=hint, choice=options), Numbering()
    X, scaling = None, options.model_choice.scale
    if table is not None and is_whole and PARAMETERS["scale"].allows(scaling):
        X = scale(table.X, scaling)
    if sample_rows is not None:
        first_row = options.first_row if options.first_row in ("0", "1") else AUTO  # others are a problem
        numbered: list[NumberedFile] = [*files, *([labels_file] if labels_file is not None else [])]
        numbering = numbering_of(numbered, first_row, samples, X)
        unread += [numbering.problem] if numbering.problem else []
        samples = samples.counted_from(numbering.first_row)
        for file in files:
            with collecting(unread):
                parts.append(file.table(numbering.samples_of(file.path, samples)))
        if labels_file is not None:
            with collecting(unread):
                row_labels = labels_file.labels(numbering.samples_of(labels_file.path, samples))
    rows = AnnotationRows.join(parts)
    annotations, model = rows.answers, options.model_choice.model
    problems += unread
    problems += annotator_problems(
        accuracies,
        list(annotations.annotators),
        OWN_ACCURACY,
        "--accuracy",
        is_complete=not unread,  # a name may be in a file that is wrong
        is_needed=model == "posterior" and options.accuracy is None and bool(options.annotator_accuracy),
    )
    problems += _column_problems(annotations, model)
    layers = annotator_layers(annotations, accuracies, options.accuracy)
    max_clusters = len(annotations.columns) + 2 if options.has_open_count else options.n_clusters
    problems += hard_problems(layers, max_clusters, _hard_words(annotations, samples))
    if row_labels is not None and X is not None:
        is_share = LABEL_ACCURACY.allows(options.label_accuracy)  # or there is a problem already
        problems += label_problems(
            str(options.row_labels),
            LABEL_ACCURACY.option,
            row_labels,
            options.label_accuracy if is_share else 1.0,
            data.count_distinct(X) // 2 if options.has_open_count else options.n_clusters,
            is_open=options.has_open_count,
        )
        if not problems:
            layers += data.label_layers(row_labels.codes, options.label_accuracy, options.seed)
    if problems or table is None or X is None:
        raise InputError(dict.fromkeys(problems))
    if samples.first_row != 1 and table.rows is not None:  # the reader of the table assumed 1
        note = [*dropped_note(table.rows, options, samples.first_row)]
        table = table._replace(notes=(*note, *table.notes[len(note) :]))
    table = table._replace(notes=(*table.notes, *label_notes(row_labels)))
    return FitInputs(X, labels, rows, layers, accuracies, table, samples, numbering, row_labels)


def _option_problems(options: FitOptions) -> Iterator[Problem]:
    values = vars(options) | options.model_choice._asdict() | dict(options.chosen)
    for name in ("missing", "categories"):  # choices of a table, which its reader checks
        del values[name]
    for setting, value, expected in wrong_settings(values):
        word = value.strip("'")  # a right word may be wrong beside other options
        hint = "" if word in setting.choices else did_you_mean(word, setting.choices)
        yield Problem(setting.option, value, expected, hint)


def place_problems(
    option: str, path: Path | None, overwrite: bool, hint: str = "--force overwrites it"
) -> Iterator[Problem]:
    """Yield the reasons why a file cannot be written."""
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        yield Problem(option, f"no folder {folder}", "a folder to write to")
    elif path.is_dir():
        yield Problem(option, f"{path}, a folder", "a file")
    elif path.exists() and not overwrite:
        yield Problem(option, f"{path}, which is there already", "a new file", hint)


def input_problems(option: str, path: Path | None, options: FitOptions) -> Iterator[Problem]:
    """Yield a problem if a file to write is one of the files to read, which `--force` would overwrite."""
    files = [options.features, options.labels, options.must_link, options.cannot_link, options.row_labels]
    for file in filter(None, [*files, *options.annotations]):
        if path is not None and path.exists() and file.exists() and path.samefile(file):
            yield Problem(option, f"{path}, which is read", "a file of its own")


def chance_problems(location: str, accuracy: float | None) -> Iterator[Problem]:
    """Yield a problem for an accuracy from which no question follows."""
    if isinstance(accuracy, int | float) and 0 < accuracy <= 0.5:
        hint = "answers that are right no more often than by chance say nothing"
        yield Problem(location, str(accuracy), "a number above 0.5, at most 1", hint)


def _table_problems(options: FitOptions, table: LabelledTable) -> Iterator[Problem]:
    n_samples, distinct = len(table.X), data.count_distinct(table.X)
    rows = f"{plural(distinct, 'distinct row')} of {options.features}"
    n_clusters = options.n_clusters
    if options.has_open_count:  # a small table is not fitted with more
        n_clusters = max(min(n_clusters, distinct // 2), min(2, distinct))
    clusters = plural(n_clusters, "cluster")
    min_size = options.settings.min_cluster_size
    kind = kind_of(str(options.model_choice.covariance), options.settings)
    has_min_size = "min_cluster_size" not in kind.unused
    if n_clusters > distinct:
        yield Problem("-k", f"{clusters} for {rows}", "no more clusters than distinct rows")
    elif has_min_size and n_clusters * min_size > n_samples > 0:
        samples = f"{clusters} of {min_size} or more for {plural(n_samples, 'sample')}"
        yield Problem("-k", samples, "samples enough", "see --min-cluster-size")
    n_components = options.settings.components
    n_features, dims = table.X.shape[1], options.settings.subspace
    if isinstance(dims, int) and dims > n_features:
        components = f"{plural(dims, 'principal component')} of {plural(n_features, 'feature')}"
        yield Problem("--subspace", components, "no more of them than features")
    if isinstance(n_components, int) and n_components > 1 and n_clusters * n_components > distinct:
        components = f"{n_clusters * n_components} components for {rows}"
        yield Problem("--components", components, "no more components than distinct rows")
    is_varying = (table.X[0] != table.X).any()  # otherwise the reader of the table has a message
    if is_varying and options.model_choice.covariance not in SPHERES and constant(table.X).all():
        features = "features that vary by no more than rounding"
        yield Problem(str(options.features), features, "samples that differ", "subtract what they share")


def _labels(options: FitOptions, table: LabelledTable | None) -> NDArray[np.int16] | None:
    """Return the classes of the label file, else those in an .npz of features."""
    if options.labels is None:
        return None if table is None else table.labels_true
    if options.label_column is not None:
        hint = "the classes are in one of them"
        raise InputError([Problem("--labels", "--label-column as well", "one of them", hint)])
    if table is None:
        return read_labels(options.labels)[0]
    rows = table.rows or SampleRows(len(table.X))
    n_rows, selection = rows.n_rows, rows.selection
    labels, _ = read_labels(options.labels, n_rows)
    if len(labels) != n_rows:
        expected = f"{n_rows}, one for each row of {options.features}"
        raise InputError([Problem(str(options.labels), plural(len(labels), "label"), expected)])
    # Numbers are without gaps, as classes may have no rows but those left out.
    codes = np.unique(labels if selection is None else labels[selection], return_inverse=True)[1]
    return np.asarray(codes, dtype=np.int16)


# Accuracies of annotators.


def _read_accuracies(texts: Sequence[str], problems: list[Problem]) -> dict[str, float]:
    """Return the accuracies of `NAME=p` texts by annotator, and add their problems.

    The name ends at the last equals sign. A wrong accuracy is NaN, so that it is not missing as well.
    """
    accuracies: dict[str, float] = {}
    for text in texts:
        name, _, cell = text.rpartition("=")
        accuracy, location = to_number(cell), f"{OWN_ACCURACY} {name}".strip()
        if not name:
            problems.append(Problem(location, repr(text), "NAME=p"))
            continue
        if name in accuracies:
            problems.append(Problem(location, "a second accuracy", "one for each annotator"))
        if accuracy is None or not PARAMETERS["accuracy"].allows(accuracy):
            problems.append(Problem(location, repr(cell), PARAMETERS["accuracy"].expected))
            accuracy = math.nan
        accuracies[name] = accuracy
    return accuracies


def annotator_problems(
    accuracies: Collection[str],
    names: Sequence[str],
    option: str,
    option_for_all: str,
    *,
    is_complete: bool,
    is_needed: bool,
) -> Iterator[Problem]:
    """Yield the problems of annotators with an accuracy of their own.

    If `names` is complete, an accuracy for any other name is a problem; if accuracies are needed, so is a
    name without one.
    """
    for name in accuracies:
        if is_complete and name not in names:
            absence = "no name, because there are no annotations"
            expected = f"one of {', '.join(names[:20])}" if names else absence
            yield Problem(option, f"annotator {name!r}", expected, did_you_mean(str(name), names))
    for name in names:
        if is_needed and name not in accuracies:
            hint = f"or {option_for_all}, for all that have none of their own"
            yield Problem(option, f"nothing for annotator {name!r}", PARAMETERS["accuracy"].expected, hint)


def reads_accuracies(model: str) -> bool:
    """Say whether a model takes accuracies of single annotations."""
    return model not in TERMS or model == "conditional"  # MODEL_ANY is none of the terms


def _column_problems(annotations: AnnotationRows, model: str) -> Iterator[Problem]:
    """Yield a problem for each file with accuracies of single lines that the model does not use."""
    if reads_accuracies(model):
        return
    rows = annotations.columns[~np.isnan(annotations.columns["accuracy"])]
    for place in np.unique(rows["file"], return_index=True)[1]:
        location = f"{annotations.files[rows['file'][place]]}, line {rows['line'][place]}"
        expected, hint = f"none with the model {model!r}", "--model conditional takes it"
        yield Problem(location, "an accuracy of this line", expected, hint)


def hard_problems(
    layers: Sequence[data.Layer], n_clusters: int, words: Callable[[int], str]
) -> Iterator[Problem]:
    """Yield the problem of hard links that contradict each other.

    `words` returns a link for people, by its place in all must-links and then all cannot-links.
    """
    try:
        if n_clusters > 0 and has_hard_links(layers):
            group_samples(layers, n_clusters)
    except Contradiction as contradiction:
        from sweep_clustering.pipeline.fit.alarms import hard_clique  # loads numba, which takes a second

        links = contradiction.links.tolist()
        # As many clusters would need more links.
        into = "" if n_clusters > len(links) > 0 else f" into {plural(n_clusters, 'cluster')}"
        text = ", ".join(map(words, links[:MOST_NAMED]))
        tail = f" and {plural(len(links) - MOST_NAMED, 'other')}" if len(links) > MOST_NAMED else ""
        fault = f"{plural(len(links), 'link')} that cannot hold together: {text}{tail}"
        if not links:
            fault = "neither such a partition nor a few links that rule it out"
        hint, min_clusters = "links that may be wrong have no ! and a finite weight", len(hard_clique(layers))
        if min_clusters > n_clusters:
            hint = f"they need at least {min_clusters} clusters (-k, n_clusters), or {hint}"
        yield Problem("hard links", fault, f"links that a partition{into} obeys", hint)


def _hard_words(annotations: AnnotationRows, samples: Samples) -> Callable[[int], str]:
    """Return the function that puts hard links into words, by their places in all layers."""
    columns = annotations.columns
    hard = np.flatnonzero(columns["is_hard"])
    hard = hard[np.lexsort((columns["annotator"][hard], columns["kind"][hard]))]  # as the layers have them

    def words(place: int) -> str:
        link = annotations.annotation(hard[place])
        ends = f"{samples.text(link.first)} {KIND_NAMES[link.kind]}! {samples.text(link.second)}"
        return f"{ends} ({link.file}, line {link.line})"

    return words


# Agreement of annotators with the solution.


class Judgement(NamedTuple):
    """Annotations beside a partition.

    Parameters
    ----------
    document : dict
        "annotator_accuracies" has the share of each annotator's annotations that agrees, self pairs left out;
        None if there are no others. "contradictions" has every line that the partition contradicts, or the
        first `limit`, in the order of files and lines; a sample that cannot be linked with itself is among
        them. Lines count from 1, samples without names as `samples` does; weights are those of the files.
    lines : list of str
        How many annotations the partition contradicts, in one line for people; empty without annotations.
    details : list of str
        The same by annotator, and the first contradictions.
    """

    document: dict[str, Any]
    lines: list[str]
    details: list[str]


def judge(
    annotations: AnnotationRows, labels: NDArray[np.integer], samples: Samples, limit: int | None = None
) -> Judgement:
    """Compare annotations, without skipped pairs, with a partition."""
    columns, names = annotations.columns, annotations.annotators
    shares = data.inferred_accuracies(annotator_layers(annotations, {}, None), labels)
    # An annotator whose annotations were all left out has no share.
    shares = {number: shares.get(number, math.nan) for number in range(len(names))}
    accuracies = {names[number]: None if math.isnan(share) else share for number, share in shares.items()}
    is_together = labels[columns["first"]] == labels[columns["second"]]
    is_contradicted = is_together != (columns["kind"] == data.MUST)
    counts, contradicted = (
        np.bincount(columns["annotator"], weights=weights, minlength=len(names))
        for weights in (columns["count"], columns["count"] * is_contradicted)
    )
    rows = list[dict[str, object]]()
    places = np.flatnonzero(is_contradicted)
    for place in map(int, places[:limit]):
        item = annotations.annotation(place)
        row: dict[str, object] = {"i": samples.identifier(item.first), "j": samples.identifier(item.second)}
        row |= {"kind": KIND_NAMES[item.kind], "weight": item.weight, "annotator": item.annotator}
        rows.append(row | {"file": str(item.file), "line": item.line})
    details, parts = [], []
    for number, (name, accuracy) in enumerate(accuracies.items()):
        share = "unknown" if accuracy is None else f"{accuracy:.3f}"
        text = f"{contradicted[number]:,.12g} of {counts[number]:,.12g}"
        details.append(f"annotator  {name}: accuracy {share}, {text} annotations contradicted")
        parts.append((contradicted[number] / counts[number] if counts[number] else 0.0, f"{name} {text}"))
    details += ["contradicted by the clusters"] if rows else []
    for row in rows[:MOST_SHOWN]:
        details.append(
            "           {file}, line {line}: {i} {j} {kind} {weight:g} {annotator}".format_map(row)
        )
    if len(places) > MOST_SHOWN:
        details.append(f"           and {len(places) - MOST_SHOWN} more (--json lists all)")
    line = f"answers    {contradicted.sum():,.12g} of {counts.sum():,.12g} contradict the classes"
    lines = [line] if parts else []
    if len(parts) > 1:
        worst = [text for _, text in sorted(parts, key=lambda part: -part[0])]
        tail = f", and {len(worst) - MOST_SHOWN} more people" if len(worst) > MOST_SHOWN else ""
        lines[0] += f": {', '.join(worst[:MOST_SHOWN])}{tail}"
    return Judgement({"annotator_accuracies": accuracies, "contradictions": rows}, lines, details)


def annotator_layers(
    annotations: AnnotationRows, accuracies: Mapping[str, float], accuracy: float | None
) -> list[data.Layer]:
    """Return a layer for each annotator and kind, must-links first; annotators are numbered as they appear.

    Accuracies of lines come first, then those of `accuracies`, then `accuracy`.
    """
    columns, layers = annotations.columns, list[data.Layer]()
    group = columns["annotator"].astype(np.int64) * len(KIND_NAMES) + columns["kind"]
    group = 2 * group + columns["is_hard"]
    order = np.argsort(group, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else ():
        rows = columns[places]
        annotator, kind = int(rows["annotator"][0]), int(rows["kind"][0])
        pairs = np.column_stack([rows["first"], rows["second"]]).astype(np.int64)
        if rows["is_hard"][0]:
            layers.append(data.Layer(kind, pairs, accuracy=data.HARD, annotator=annotator, is_hard=True))
            continue
        of_lines = None if np.isnan(rows["accuracy"]).all() else rows["accuracy"].copy()
        p = accuracies.get(annotations.annotators[annotator], accuracy)
        layers.append(data.Layer(kind, pairs, rows["count"].copy(), p, of_lines, annotator))
    return layers


def labels_csv(samples: Samples, result: FitResult, naming: Naming | None = None) -> str:
    """Return labels as CSV: name of the sample, or number of its row, label from 0, and any confidence.

    With labels of rows, a column has the names of clusters, empty for a cluster without one.
    """
    import pandas as pd  # a fit whose labels nobody asks for does without

    labels = result.best.labels
    table = pd.DataFrame({"index": list(map(samples.cell, range(len(labels)))), "label": labels})
    if naming is not None:
        names = [as_cell(name or "") for name in naming.cluster_names]
        table["name"] = [names[label] for label in labels.tolist()]
    if result.confidence is not None:
        table["confidence"] = result.confidence.confidence
    return str(table.to_csv(index=False, float_format="%.4f", lineterminator="\n"))


@dataclass(frozen=True, eq=False)
class Naming:
    """Names of clusters, by labels of rows.

    Parameters
    ----------
    labels : RowLabels
        Labels of the rows.
    counts : ndarray of shape (n_names, n_clusters)
        Rows of each name in each cluster.
    name_of : ndarray of shape (n_clusters,)
        Name of each cluster, one-to-one so that the most labels agree; `UNLABELLED` for one without a name.
    is_agreeing : ndarray of shape (n_samples,), bool
        Whether a row has a label, which is the name of its cluster.
    """

    labels: RowLabels
    counts: NDArray[np.int64]
    name_of: NDArray[np.int64]
    is_agreeing: NDArray[np.bool_]

    @classmethod
    def of(cls, labels: RowLabels, clusters: NDArray[np.integer], n_clusters: int) -> Naming:
        """Match names and clusters."""
        rows = labels.rows
        counts = np.zeros((len(labels.names), n_clusters), np.int64)
        np.add.at(counts, (labels.codes[rows], clusters[rows]), 1)
        name_of = data.matched_names(labels.codes, clusters, n_clusters)
        is_agreeing = (labels.codes != UNLABELLED) & (name_of[clusters] == labels.codes)
        return cls(labels, counts, name_of, is_agreeing)

    @property
    def agreement(self) -> float:
        """Share of the labels that are the name of the cluster of their row."""
        return float(self.is_agreeing.sum()) / len(self.labels.rows)

    @property
    def cluster_names(self) -> list[str | None]:
        """Name of each cluster, or None."""
        return [self.labels.names[name] if name != UNLABELLED else None for name in self.name_of.tolist()]

    def lines(self) -> list[str]:
        """Return the same for people."""
        names, rows = self.labels.names, len(self.labels.rows)
        largest = [
            f"{name!r} {self.counts[code].max()} of {self.counts[code].sum()} in {self.counts[code].argmax()}"
            for code, name in enumerate(names[:MOST_NAMES])
        ]
        tail = (
            f", and {len(names) - MOST_NAMES} more names (--json has all)" if len(names) > MOST_NAMES else ""
        )
        return [
            f"row labels {plural(rows, 'row')} of {len(self.labels.codes)},"
            f" {plural(len(names), 'name')}: {self.agreement:.1%} are the name of their cluster",
            f"           {', '.join(largest)}{tail}",
        ]

    def to_json(self, identifiers: Sequence[str | int]) -> dict[str, Any]:
        """Return plain values; `identifiers` are the names or numbers of the rows."""
        disagreeing = np.flatnonzero((self.labels.codes != UNLABELLED) & ~self.is_agreeing)
        names = self.labels.names
        return {
            "n_labelled": len(self.labels.rows),
            "agreement": self.agreement,
            "cluster_names": self.cluster_names,
            "names": {
                name: {"clusters": self.counts[code].tolist(), "cluster": int(self.counts[code].argmax())}
                for code, name in enumerate(names)
            },
            "disagreeing": [
                {"index": identifiers[row], "label": names[self.labels.codes[row]]}
                for row in disagreeing.tolist()
            ],
        }


def label_problems(
    location: str, option: str, labels: RowLabels, accuracy: float, n_clusters: int, *, is_open: bool
) -> list[Problem]:
    """Return the problems of labels beside the number of clusters and the accuracy.

    With an open number of clusters, `n_clusters` is the largest that there may be.
    """
    count, problems = len(labels.names), list[Problem]()
    if count > n_clusters:
        names = labels.single_names
        hint = f"labels of one row: {names}" if names else "one cluster cannot have two names"
        expected = f"at most {n_clusters}, the {'possible' if is_open else 'number of'} clusters"
        problems.append(Problem(location, plural(count, "distinct label"), expected, hint))
    chance = 1.0 / max(count, 2)
    if accuracy <= chance:
        hint = "labels that are right no more often than by chance say nothing"
        problems.append(Problem(option, f"{accuracy:g}", f"more than {chance:.4g}, which is chance", hint))
    return problems


def label_notes(labels: RowLabels | None) -> Iterator[str]:
    """Say which labels of rows may be misspelt: those of a single row, if most others have a handful."""
    if labels is not None and labels.single_names and np.median(labels.counts) >= HANDFUL:
        yield f"labels of one row: {labels.single_names}. Each counts as a class of its own: is it misspelt?"
