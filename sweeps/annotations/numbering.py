"""Numbering of rows in the files of a command: `numbering_of` says whether they count from 0 or from 1.

Names of rows need no numbering. The choice of the user comes first, then a file that names row 0 or the last
of N rows as row N. If none does, both readings are possible, and the answers decide if they are clear
(`sweeps.annotations.nearness`). If they are not, the numbering has a problem, which asks the user.
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

# Choice of a user who leaves it to the files and the answers.
AUTO = "auto"


@dataclass(frozen=True)
class Numbering:
    """Numbering of rows in the files of a command.

    Parameters
    ----------
    first_row : int
        Number of the first row, 0 or 1.
    why : str
        Reason for it.
    is_used : bool
        Whether any file names a row by its number.
    others : mapping of Path to (int, str)
        Files that count otherwise, with the first row of each, and the reason.
    problem : Problem or None
        The question to the user where neither the files nor the answers decide.
    """

    first_row: int = 1
    why: str = ""
    is_used: bool = False
    others: Mapping[Path, tuple[int, str]] = field(default_factory=dict)
    problem: Problem | None = None

    def of(self, path: Path, samples: Samples) -> Samples:
        """Return the samples as a file names them in rows without a mark of their own."""
        first, why = self.others.get(path, (self.first_row, self.why))
        return samples.counted_from(first, f", {why}" if first == 0 or self.problem else "")

    def lines(self) -> list[str]:
        """Say it to people; nothing where no file names a row by its number."""
        if not self.is_used:
            return []
        others = [
            f"           those of {path} from {first}, {why}" for path, (first, why) in self.others.items()
        ]
        return [f"rows       of annotation files are numbered from {self.first_row}, {self.why}", *others]

    def to_json(self) -> dict[str, object]:
        """Return the number of the first row, and the reason if one was needed."""
        return {"first_row": self.first_row, "first_row_why": self.why if self.is_used else ""}


def numbering_of(
    files: Sequence[PairFile],
    choice: str,
    samples: Samples,
    X: NDArray[np.float64] | None = None,
    option: str = "--first-row {}",
) -> Numbering:
    """Find the one number from which all files of a command count rows.

    Files of questions whose rows have marks are read by these alone. So are those that `sweep ask` wrote
    before its files had marks, which have no row 0.

    Parameters
    ----------
    files : sequence of PairFile
        All files of the command.
    choice : {"auto", "0", "1"}
        Number that the user gives; with "auto" files and answers decide.
    samples : Samples
        Samples of the table; where a number is a name, nothing is counted.
    X : array of shape (n_samples, n_features), optional
        Features of the samples, scaled as they are fitted; without them the answers say nothing.
    option : str
        Option or key that gives a number, for messages.
    """
    if not samples.are_numbered:
        return Numbering(0 if choice == "0" else 1)
    n_rows = samples.rows.n_rows
    # a mark holds for its row alone: other rows may have been added to the file
    undecided = [file for file in files if file.mentions.largest_line and not file.mentions.is_asked]
    lines_0 = (f"{file.unit} {file.mentions.row_0} of {file.path}" for file in files if file.mentions.row_0)
    lines_n = (
        f"{file.unit} {file.mentions.largest_line} of {file.path}"
        for file in undecided
        if file.mentions.largest == n_rows
    )
    row_0, row_n = next(lines_0, ""), next(lines_n, "")
    marks = sorted({mark for file in files for mark in file.mentions.marks})
    problem: Problem | None = None
    first, why = 1, "as they are where no file says otherwise"
    if choice != AUTO:
        first, why = int(choice), f"as {option.format(choice)} says"
    elif row_0:
        first, why = 0, f"as {row_0} names row 0"
    elif row_n:
        first, why = 1, f"as {row_n} names row {n_rows}, the last"
    elif undecided:
        opinion = _by_answers(undecided, samples, X, option)
        first, why, problem = opinion.first_row, opinion.why, opinion.problem
    elif marks:
        marked = next(file.path for file in files if marks[0] in file.mentions.marks)
        first, why = marks[0], f"as {marked} says"
    elif any(file.mentions.is_asked for file in files):
        why = "as sweep ask wrote it"
    others: dict[Path, tuple[int, str]] = {}
    for file in files:
        mentions = file.mentions
        if mentions.marks == {1 - first} and not mentions.row_0 and not mentions.largest_line:
            others[file.path] = (1 - first, "as its column first_row says")
        elif choice == AUTO and first == 0 and mentions.is_asked and not mentions.row_0:
            others[file.path] = (1, "as sweep ask wrote it")
    return Numbering(first, why, any(file.mentions.has_numbers for file in files), others, problem)


def _right_rows(file: PairFile, samples: Samples) -> AnnotationRows:
    """Read some rows of a file without the wrong ones, whose problems come when all are read."""
    try:
        return file.some(samples, MOST_ANSWERS)
    except InputError as error:
        return AnnotationRows.of(()) if error.rest is None else error.rest


def _by_answers(
    files: Sequence[PairFile], samples: Samples, X: NDArray[np.float64] | None, option: str
) -> Numbering:
    """Decide by the answers of files of which both readings are possible."""
    n_rows, every_row = samples.rows.n_rows, samples.every_row
    if X is None:  # a table that is wrong has a problem of its own
        return Numbering()
    pairs: list[NDArray[np.int64]] = []
    kinds: list[NDArray[np.bool_]] = []
    for file in files:
        both = [_right_rows(file, every_row.counted_from(first)).answered.columns for first in (0, 1)]
        if not set(both[1]["line"]) <= set(both[0]["line"]):  # a line that is right from 1 alone
            return Numbering(1, f"as a {file.unit} of {file.path} names row {n_rows}, the last")
        rows = [np.column_stack([part["first"], part["second"]]) for part in both]
        pairs.append(np.stack(rows).astype(np.int64))
        kinds.append(both[0]["kind"] == MUST)
    from_0, from_1 = np.concatenate(pairs, axis=1)
    opinion = verdict(X, from_0, from_1, np.concatenate(kinds), n_rows, samples.rows.selection)
    above = [f"{deviations:.1f}" for deviations in opinion.above_chance or ()]
    if (first := opinion.first_row) is not None:
        why = (
            "as the answers say: must-linked rows are nearer to each other than cannot-linked ones,"
            f" {above[first]} standard deviations above chance; counted from {1 - first}, {above[1 - first]}"
        )
        return Numbering(first, why)
    fault = (
        f"numbers of rows that may count from 0 or from 1: no line names row 0 or row {n_rows}, and the"
        " answers are not clear"
    )
    hint = "there are too few answers or rows, or the answers hardly go with distances"
    if above:
        hint = (
            "must-linked rows are nearer than cannot-linked ones by"
            f" {above[0]} standard deviations above chance, counted from 0, and by {above[1]}, counted from 1"
        )
    where = ", ".join(dict.fromkeys(str(file.path) for file in files))
    problem = Problem(where, fault, f"{option.format(0)} or {option.format(1)}", hint)
    return Numbering(why=f"unless {option.format(0)} is given", problem=problem)
