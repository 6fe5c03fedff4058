"""Annotation files: `i j kind weight annotator [accuracy]` lines of several annotators, or answers."""

from __future__ import annotations

from pathlib import Path

from sweeps.annotations.draw import CANNOT, MUST
from sweeps.annotations.links import Annotation, annotation_count, each_line, sample_pair, without_comment
from sweeps.annotations.questions import Row, accuracy_of, read_questions, separator_of
from sweeps.annotations.samples import Samples
from sweeps.data.lines import Line, read_lines, split_cells
from sweeps.errors import InputError, Problem, collecting, did_you_mean

KINDS = {"must": MUST, "m": MUST, "+": MUST, "cannot": CANNOT, "c": CANNOT, "-": CANNOT}
KIND_NAMES = {MUST: "must", CANNOT: "cannot"}
COLUMNS = "i j kind weight annotator, and an accuracy or none"


def read_annotations(path: Path, samples: Samples | int) -> list[Annotation]:
    """Read an annotation file, or the answers of a question file.

    A file whose first line is a header with the columns `i`, `j` and `answer` is one of questions: see
    `read_questions`. A line of any other holds two sample numbers from 1 (or names of
    samples, where they have names), the kind (`must`, `m` or `+`;
    `cannot`, `c` or `-`), a weight, the annotator's name and, if the line has a sixth cell that is not empty,
    the probability that it is right. Cells are separated by blanks, commas or tabs; `#` begins a comment.
    Weights are those of link files: a self pair carries 2 per annotation. Lines of the same pair may repeat
    and contradict each other. An empty file is an empty annotation graph.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.

    Returns
    -------
    list of Annotation
        In the order of the lines.

    Raises
    ------
    InputError
        With every problem of every line.
    """
    return [row for row in read_answers(path, samples) if isinstance(row, Annotation)]


def read_answers(path: Path, samples: Samples | int) -> list[Row]:
    """Read what `read_annotations` reads, and the pairs that were skipped.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are.

    Returns
    -------
    list of Annotation or Skip
        In the order of the lines.

    Raises
    ------
    InputError
        With every problem of every line.
    """
    named = Samples.of(samples)
    lines = read_lines(path)
    if lines and separator_of(lines.text(0)) is not None:
        return read_questions(lines, named)
    return [*each_line(lines, lambda line: _annotation(line, path, named))]


def _annotation(line: Line, path: Path, samples: Samples) -> Annotation:
    text = without_comment(line)
    cells = split_cells(text)
    if len(cells) not in (5, 6):
        raise InputError([Problem(line.where, repr(text[:60]), COLUMNS)])
    problems: list[Problem] = []
    # Not a self pair, so that the weight is checked even if the samples are invalid.
    pair, kind, count, name, accuracy = (0, 1), MUST, 1.0, "", None
    with collecting(problems):
        pair = sample_pair(cells[0], cells[1], samples, line.where)
    with collecting(problems):
        kind = _kind(cells[2], line.where)
    with collecting(problems):
        count = annotation_count(cells[3], pair, line.where)
    with collecting(problems):
        name = _name(cells[4], line.where)
    with collecting(problems):
        accuracy = accuracy_of(cells[5], line.where) if len(cells) == 6 else None
    if problems:
        raise InputError(problems)
    return Annotation(path, line.number, *pair, kind, count, name, accuracy)


def _kind(cell: str, where: str) -> int:
    kind = KINDS.get(cell.lower())
    if kind is None:
        hint = did_you_mean(cell.lower(), KIND_NAMES.values())
        raise InputError([Problem(where, f"kind {cell[:60]!r}", "must (m, +) or cannot (c, -)", hint)])
    return kind


def _name(cell: str, where: str) -> str:
    if not cell:
        raise InputError([Problem(where, "no annotator", "a name")])
    return cell
