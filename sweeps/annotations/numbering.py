"""From where the files of a command count the rows of a table: `numbering_of` says whether from 0 or from 1.

Names of rows need no numbering. What the user says comes first, then a file that names row 0 or, of N rows, a
row N. If none does, both readings are possible, and the answers decide (`sweeps.annotations.nearness`) where
they are clear; where they are not, the numbering has a problem, which asks the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations.draw import MUST
from sweep_clustering.sweeps.annotations.files import PairFile
from sweep_clustering.sweeps.annotations.nearness import MOST_ANSWERS, verdict
from sweep_clustering.sweeps.annotations.rows import AnnotationRows
from sweep_clustering.sweeps.annotations.samples import Samples
from sweep_clustering.sweeps.errors import InputError, Problem

# What the user says where he says nothing.
AUTO = "auto"


@dataclass(frozen=True)
class Numbering:
    """Numbers of rows in the files of a command.

    Parameters
    ----------
    first_row : int
        Number of the first row, 0 or 1.
    why : str
        Why it is that.
    is_used : bool
        Whether any file calls a row by a number.
    others : mapping of Path to (int, str)
        Files that count otherwise, with the first row of each, and why.
    problem : Problem or None
        The question to the user where neither the files nor the answers decide.
    """

    first_row: int = 1
    why: str = ""
    is_used: bool = False
    others: Mapping[Path, tuple[int, str]] = field(default_factory=dict)
    problem: Problem | None = None

    def of(self, path: Path, samples: Samples) -> Samples:
        """Samples as a file calls them, in rows that do not say from where they count."""
        first, why = self.others.get(path, (self.first_row, self.why))
        return samples.counted_from(first, f", {why}" if first == 0 or self.problem else "")

    def lines(self) -> list[str]:
        """The same for people; nothing where no file calls a row by a number."""
        if not self.is_used:
            return []
        others = [
            f"           those of {path} from {first}, {why}" for path, (first, why) in self.others.items()
        ]
        return [f"rows       of annotation files are numbered from {self.first_row}, {self.why}", *others]

    def to_json(self) -> dict[str, object]:
        """The same as plain values: the number of the first row, and why; no reason where none was needed."""
        return {"first_row": self.first_row, "first_row_why": self.why if self.is_used else ""}


def numbering_of(
    files: Sequence[PairFile],
    told: str,
    samples: Samples,
    X: NDArray[np.float64] | None = None,
    option: str = "--first-row {}",
) -> Numbering:
    """From where the files of a command count rows, all of them from the same.

    Files of questions that say from where they count do so for themselves alone; so do those that `sweep ask`
    wrote before its files said it, which have no row 0.

    Parameters
    ----------
    files : sequence of PairFile
        All files of the command.
    told : {"auto", "0", "1"}
        What the user says; with "auto" files and answers decide.
    samples : Samples
        What files call samples; where a number is a name, nothing is counted.
    X : array of shape (n_samples, n_features), optional
        Features of the samples, scaled as they are fitted; without them the answers say nothing.
    option : str
        How a user says a number, for messages.
    """
    if not samples.are_numbered:
        return Numbering(0 if told == "0" else 1)
    n_rows = samples.rows.n_rows
    # rows that say it do so for themselves alone: others may have been added to their file
    open_ = [f for f in files if f.seen.largest_line and not f.seen.is_asked]
    row_0 = next((f"{f.unit} {f.seen.row_0} of {f.path}" for f in files if f.seen.row_0), "")
    is_last = (f for f in open_ if f.seen.largest == n_rows)
    row_n = next((f"{f.unit} {f.seen.largest_line} of {f.path}" for f in is_last), "")
    marks = sorted({mark for each in files for mark in each.seen.marks})
    problem: Problem | None = None
    first, why = 1, "as they are where no file says otherwise"
    if told != AUTO:
        first, why = int(told), f"as {option.format(told)} says"
    elif row_0:
        first, why = 0, f"as {row_0} names row 0"
    elif row_n:
        first, why = 1, f"as {row_n} names row {n_rows}, the last"
    elif open_:
        opinion = _by_answers(open_, samples, X, option)
        first, why, problem = opinion.first_row, opinion.why, opinion.problem
    elif marks:
        marked = next(each.path for each in files if marks[0] in each.seen.marks)
        first, why = marks[0], f"as {marked} says"
    elif any(each.seen.is_asked for each in files):
        why = "as sweep ask wrote it"
    others: dict[Path, tuple[int, str]] = {}
    for each in files:
        seen = each.seen
        if seen.marks == {1 - first} and not seen.row_0 and not seen.largest_line:
            others[each.path] = (1 - first, "as its column first_row says")
        elif told == AUTO and first == 0 and seen.is_asked and not seen.row_0:
            others[each.path] = (1, "as sweep ask wrote it")
    return Numbering(first, why, any(each.seen.has_numbers for each in files), others, problem)


def _right_rows(file: PairFile, samples: Samples) -> AnnotationRows:
    """Return some rows of a file without the wrong ones, whose problems come when all are read."""
    try:
        return file.some(samples, MOST_ANSWERS)
    except InputError as error:
        return AnnotationRows.of(()) if error.rest is None else error.rest


def _by_answers(
    files: Sequence[PairFile], samples: Samples, X: NDArray[np.float64] | None, option: str
) -> Numbering:
    """Number of the first row, why, and what is to be asked, of files of which both readings are possible."""
    n_rows, every_row = samples.rows.n_rows, samples.every_row
    if X is None:  # a table that is wrong has a problem of its own
        return Numbering()
    pairs: list[NDArray[np.int64]] = []
    kinds: list[NDArray[np.bool_]] = []
    for each in files:
        both = [_right_rows(each, every_row.counted_from(first)).answered.columns for first in (0, 1)]
        if not set(both[1]["line"]) <= set(both[0]["line"]):  # a line that is right from 1 alone
            return Numbering(1, f"as a {each.unit} of {each.path} names row {n_rows}, the last")
        rows = [np.column_stack([part["first"], part["second"]]) for part in both]
        pairs.append(np.stack(rows).astype(np.int64))
        kinds.append(both[0]["kind"] == MUST)
    zero, one = np.concatenate(pairs, axis=1)
    opinion = verdict(X, zero, one, np.concatenate(kinds), n_rows, samples.rows.kept)
    above = [f"{each:.1f}" for each in opinion.above_chance or ()]
    if (first := opinion.first_row) is not None:
        why = (
            "as the answers say: must-linked rows are nearer to each other than cannot-linked ones,"
            f" {above[first]} standard deviations above chance; counted from {1 - first}, {above[1 - first]}"
        )
        return Numbering(first, why)
    found = (
        f"numbers of rows that may count from 0 or from 1: no line names row 0 or row {n_rows}, and the"
        " answers are not clear"
    )
    hint = "there are too few answers or rows, or the answers hardly go with distances"
    if above:
        hint = (
            "must-linked rows are nearer than cannot-linked ones by"
            f" {above[0]} standard deviations above chance, counted from 0, and by {above[1]}, counted from 1"
        )
    where = ", ".join(dict.fromkeys(str(each.path) for each in files))
    problem = Problem(where, found, f"{option.format(0)} or {option.format(1)}", hint)
    return Numbering(why=f"unless {option.format(0)} is given", problem=problem)
