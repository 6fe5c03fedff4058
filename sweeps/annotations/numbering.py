"""Numbering of rows in the files of a command: `numbering_of` says whether they count from 0 or from 1.

Names of rows need no numbering. The choice of the user comes first, then a file that names row 0 or the last
of N rows as row N. If none does, both readings are possible, and the answers decide if they are clear. If
they are not, the numbering has a problem, which asks the user.

Under the right numbering must-linked rows are nearer to each other than cannot-linked rows. How much the
distances explain the answers is a log-likelihood: that of the best curve by which the share of must-links
falls, or stays, as rows are farther apart, less that of a share that is the same everywhere. Its signed root
is compared with what chance gives. Chance is measured where all rows that the answers name are moved along
the table by other steps: what pairs have in common, such as rows that come often, or a sorted table, stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations.draw import MUST
from sweep_clustering.sweeps.annotations.files import PairFile
from sweep_clustering.sweeps.annotations.labels import LabelFile
from sweep_clustering.sweeps.annotations.rows import AnnotationRows, Samples
from sweep_clustering.sweeps.errors import Problem, rest_of

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

# Most answers that are used: more decide no better, and take time.
MOST_ANSWERS = 8000

# Fewest answers that decide.
FEWEST_ANSWERS = 10

# Steps along the table that show what chance gives.
STEPS = 64

# With fewer of them, chance is not known well enough.
FEWEST_STEPS = 16

# Random pairs, by whose distances those of answers are ranked.
REFERENCES = 4096

# Ranks between which the share of must-links is the same: finer where pairs are near, for many clusters.
EDGES = np.array([1 / 512, 1 / 256, 1 / 128, 1 / 64, 1 / 32, 1 / 16, *np.arange(1, 10) / 10])

# Random pairs for each answer, which stand for the kind that no file has.
TIMES_AS_MANY = 4

# Features that distances are taken in; of more, as many principal components.
MOST_FEATURES = 32

# Numbers of the rows that show principal components, and the most of these rows.
MOST_SHOWN = 2**23
MOST_ROWS = 1000

# Standard deviations of chance by which the numbering that is taken has to be above it.
BAR = 5.0

# Up to so many of them the other numbering is like chance, and so many below the one that is taken.
LIKE_CHANCE = 2.5
DISTANCE = 4.0

# Standard errors of the mean difference of an answer, where both numberings are above chance.
BAR_OF_PAIRS = 4.5

# Seed of all that is drawn here: the same files are always read in the same way.
SEED = 20_210_405


@dataclass(frozen=True)
class Verdict:
    """Verdict of answers on two numberings.

    Parameters
    ----------
    first_row : int or None
        The number of the first row that they speak for, 0 or 1; None if it is not clear.
    above_chance : tuple of float, or None
        Standard deviations of chance by which distances say more of the answers than chance gives, under a
        first row of 0 and of 1; None where that was not looked at.
    """

    first_row: int | None
    above_chance: tuple[float, float] | None = None


UNCLEAR = Verdict(None)


def verdict(
    X: Floats,
    from_0: Pairs,
    from_1: Pairs,
    is_must: NDArray[np.bool_],
    n_rows: int | None = None,
    selection: NDArray[np.intp] | None = None,
    default: int | None = None,
) -> Verdict:
    """Say which numbering of rows the answers speak for.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Features of the samples, scaled as they are fitted.
    from_0, from_1 : array of shape (n_answers, 2)
        Rows of the table that answers are about, from 0, if the files count from 0 and if they count from 1.
        A row that is named otherwise is the same in both.
    is_must : array of shape (n_answers,)
        Whether an answer says that its rows belong together.
    n_rows : int, optional
        Rows of the table; as many as samples where it is not given.
    selection : array of shape (n_samples,), optional
        Rows that are samples; all where it is not given.
    default : int, optional
        Number that is taken unless the answers speak against it; they need not speak for it.
    """
    n_rows = len(X) if n_rows is None else n_rows
    rng = np.random.default_rng(SEED)
    moves = (from_0 != from_1).astype(np.int64)
    undecided = np.flatnonzero(moves.any(axis=1) & (from_0[:, 0] != from_0[:, 1]))
    if len(undecided) > MOST_ANSWERS:
        undecided = np.sort(rng.choice(undecided, MOST_ANSWERS, replace=False))
    from_0, moves, is_must = from_0[undecided], moves[undecided], is_must[undecided]
    # no step of a numbering, or next to one
    steps = rng.permutation(np.arange(3, n_rows - 3))[:STEPS]
    if len(undecided) < FEWEST_ANSWERS or len(steps) < FEWEST_STEPS or len(X) < FEWEST_STEPS:
        return UNCLEAR
    ranks = _Ranks(X, rng)
    place = np.full(n_rows, -1)
    place[np.arange(n_rows) if selection is None else selection] = np.arange(len(X))

    def curve(step: int) -> _Curve:
        return _curve_of(ranks.intervals_of(place[(from_0 - step * moves) % n_rows]), is_must)

    curves = curve(0), curve(1)
    rivals = curves if default is None else (curves[1 - default],)
    is_default = default is not None and curves[default].root >= rivals[0].root
    if is_default or max(rival.root for rival in rivals) < BAR * LEAST_DEVIATION:
        return UNCLEAR  # most of the files that say nothing end here
    pairs = [(curve(step), curve(step + 1)) for step in steps.tolist()]
    chance = np.array([root for first, second in pairs for root in (first.root, second.root)])
    deviation = max(float(chance.std()), LEAST_DEVIATION)
    deviations = [float((side.root - chance.mean()) / deviation) for side in curves]
    best, other = (1, 0) if deviations[1] > deviations[0] else (0, 1)
    is_clear = deviations[best] >= BAR
    if deviations[other] > LIKE_CHANCE or deviations[best] - deviations[other] < DISTANCE:
        by_chance = np.array([_difference(first, second) for first, second in pairs])
        width = max(1.0, float(np.sqrt(np.mean(by_chance**2))))
        is_clear &= abs(_difference(*curves)) >= BAR_OF_PAIRS * width
    return Verdict(best if is_clear else None, (deviations[0], deviations[1]))


# Deviation of the root where answers are independent; a smaller one is one of too few steps.
LEAST_DEVIATION = 0.6


class _Ranks:
    """Ranks of the distances of pairs among those of random pairs, see `EDGES`."""

    def __init__(self, X: Floats, rng: np.random.Generator) -> None:
        self._X = _in_few_features(X, rng)
        first = rng.integers(len(X), size=REFERENCES)
        second = (first + rng.integers(1, len(X), size=REFERENCES)) % len(X)
        distances = np.sort(self._distances(np.column_stack([first, second])))
        self._edges = distances[np.floor(EDGES * REFERENCES).astype(np.int64)]

    def intervals_of(self, pairs: Pairs) -> NDArray[np.int64]:
        """Return the interval of each pair; -1 where one of its places is -1, or both are the same."""
        distances = self._distances(pairs)
        intervals = np.searchsorted(self._edges, distances, "left")
        is_none = (pairs < 0).any(axis=1) | (pairs[:, 0] == pairs[:, 1]) | np.isnan(distances)
        return np.where(is_none, -1, intervals)

    def _distances(self, pairs: Pairs) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            difference = self._X[pairs[:, 0]] - self._X[pairs[:, 1]]
            return np.asarray(np.einsum("ij,ij->i", difference, difference))


def _in_few_features(X: Floats, rng: np.random.Generator) -> Floats:
    """Return the features, or principal components of some rows where there are many."""
    if X.shape[1] <= MOST_FEATURES:
        return X
    n_shown = min(len(X), MOST_ROWS, max(2 * MOST_FEATURES, MOST_SHOWN // X.shape[1]))
    rows = X[np.sort(rng.choice(len(X), n_shown, replace=False))]
    rows = rows - rows.mean(axis=0)
    rows /= float(np.abs(rows).max()) or 1.0
    values, vectors = np.linalg.eigh(rows @ rows.T)
    axes = rows.T @ vectors[:, -MOST_FEATURES:] / np.sqrt(np.maximum(values[-MOST_FEATURES:], 1e-300))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(X @ axes)


@dataclass(frozen=True)
class _Curve:
    """Root of twice the gain in log-likelihood (nats) by distances, and the gain of each answer."""

    root: float
    gains: Floats


def _curve_of(intervals: NDArray[np.int64], is_must: NDArray[np.bool_]) -> _Curve:
    from scipy.optimize import isotonic_regression

    n_intervals, is_ranked = len(EDGES) + 1, intervals >= 0
    counts: list[Floats] = [
        np.bincount(intervals[is_ranked & kind], minlength=n_intervals).astype(np.float64)
        for kind in (is_must, ~is_must)
    ]
    must, cannot = counts
    if not must.sum() or not cannot.sum():  # random pairs stand for the kind that is not there
        random: Floats = np.diff(np.concatenate([[0.0], EDGES, [1.0]])) * TIMES_AS_MANY * is_ranked.sum()
        must, cannot = (count if count.sum() else random for count in counts)
    totals = must + cannot
    has_answers = totals > 0
    if not is_ranked.any():
        return _Curve(0.0, np.zeros(len(intervals)))
    overall = must.sum() / totals.sum()
    shares = np.full(n_intervals, overall)
    # half an answer of the overall share keeps each share off 0 and 1
    weights = totals[has_answers] + 0.5
    shares[has_answers] = isotonic_regression(
        (must[has_answers] + 0.5 * overall) / weights, weights=weights, increasing=False
    ).x
    of_must, of_cannot = np.log(shares / overall), np.log((1.0 - shares) / (1.0 - overall))
    gain = float(must @ of_must + cannot @ of_cannot)
    gains = np.where(is_must, of_must[intervals], of_cannot[intervals])
    return _Curve(float(np.sqrt(max(2.0 * gain, 0.0))), np.where(is_ranked, gains, 0.0))


def _difference(first: _Curve, second: _Curve) -> float:
    """Return the mean difference of the answers under two numberings, in standard errors."""
    differences = first.gains - second.gains
    error = float(differences.std()) * np.sqrt(len(differences))
    return float(differences.sum()) / error if error > 0 else 0.0


# A file that may name rows by their numbers.
NumberedFile = PairFile | LabelFile

# Choice of a user who leaves it to the files and the answers.
AUTO = "auto"


@dataclass(frozen=True)
class Numbering:
    """Numbering of rows in the files of a command.

    Parameters
    ----------
    first_row : int
        Number of the first row, 0 or 1.
    reason : str
        Reason for it.
    is_used : bool
        Whether any file names a row by its number.
    exceptions : mapping of Path to (int, str)
        Files that count otherwise, with the first row of each, and the reason.
    problem : Problem or None
        The question to the user where neither the files nor the answers decide.
    """

    first_row: int = 1
    reason: str = ""
    is_used: bool = False
    exceptions: Mapping[Path, tuple[int, str]] = field(default_factory=dict)
    problem: Problem | None = None

    def samples_of(self, path: Path, samples: Samples) -> Samples:
        """Return the samples as a file names them in rows without a mark of their own."""
        first, reason = self.exceptions.get(path, (self.first_row, self.reason))
        return samples.counted_from(first, f", {reason}" if first == 0 or self.problem else "")

    def lines(self) -> list[str]:
        """Say it to people; nothing where no file names a row by its number."""
        if not self.is_used:
            return []
        lines = [f"rows       of annotation files are numbered from {self.first_row}, {self.reason}"]
        for path, (first, reason) in self.exceptions.items():
            lines.append(f"           those of {path} from {first}, {reason}")
        return lines

    def to_json(self) -> dict[str, object]:
        """Return the number of the first row, and the reason if one was needed."""
        return {"first_row": self.first_row, "first_row_why": self.reason if self.is_used else ""}


def numbering_of(
    files: Sequence[NumberedFile],
    choice: str,
    samples: Samples,
    X: Floats | None = None,
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
    first, reason = 1, "as they are where no file says otherwise"
    if choice != AUTO:
        first, reason = int(choice), f"as {option.format(choice)} says"
    elif row_0:
        first, reason = 0, f"as {row_0} names row 0"
    elif row_n:
        first, reason = 1, f"as {row_n} names row {n_rows}, the last"
    elif undecided:
        opinion = _by_answers(undecided, samples, X, option)
        first, reason, problem = opinion.first_row, opinion.reason, opinion.problem
    elif marks:
        file_of_mark = next(file.path for file in files if marks[0] in file.mentions.marks)
        first, reason = marks[0], f"as {file_of_mark} says"
    elif any(file.mentions.is_asked for file in files):
        reason = "as sweep ask wrote it"
    exceptions: dict[Path, tuple[int, str]] = {}
    for file in files:
        mentions = file.mentions
        if mentions.marks == {1 - first} and not mentions.row_0 and not mentions.largest_line:
            exceptions[file.path] = (1 - first, "as its column first_row says")
        elif choice == AUTO and first == 0 and mentions.is_asked and not mentions.row_0:
            exceptions[file.path] = (1, "as sweep ask wrote it")
    return Numbering(first, reason, any(file.mentions.has_numbers for file in files), exceptions, problem)


def _right_rows(file: NumberedFile, samples: Samples) -> AnnotationRows:
    """Read some rows of a file without the wrong ones, whose problems come when all are read."""
    return rest_of([], lambda: file.random_rows(samples, MOST_ANSWERS)) or AnnotationRows.of(())


def _by_answers(files: Sequence[NumberedFile], samples: Samples, X: Floats | None, option: str) -> Numbering:
    """Decide by the answers of files of which both readings are possible."""
    n_rows, every_row = samples.rows.n_rows, samples.every_row
    if X is None:  # a table that is wrong has a problem of its own
        return Numbering()
    pairs: list[NDArray[np.int64]] = []
    kinds: list[NDArray[np.bool_]] = []
    for file in files:
        readings = [_right_rows(file, every_row.counted_from(first)).answers.columns for first in (0, 1)]
        if not set(readings[1]["line"]) <= set(readings[0]["line"]):  # a line that is right from 1 alone
            return Numbering(1, f"as a {file.unit} of {file.path} names row {n_rows}, the last")
        ends = [np.column_stack([part["first"], part["second"]]) for part in readings]
        pairs.append(np.stack(ends).astype(np.int64))
        kinds.append(readings[0]["kind"] == MUST)
    from_0, from_1 = np.concatenate(pairs, axis=1)
    opinion = verdict(X, from_0, from_1, np.concatenate(kinds), n_rows, samples.rows.selection)
    texts = [f"{deviation:.1f}" for deviation in opinion.above_chance or ()]
    if (first := opinion.first_row) is not None:
        reason = (
            "as the answers say: must-linked rows are nearer to each other than cannot-linked ones,"
            f" {texts[first]} standard deviations above chance; counted from {1 - first}, {texts[1 - first]}"
        )
        return Numbering(first, reason)
    fault = (
        f"numbers of rows that may count from 0 or from 1: no line names row 0 or row {n_rows}, and the"
        " answers are not clear"
    )
    hint = "there are too few answers or rows, or the answers hardly go with distances"
    if texts:
        hint = (
            "must-linked rows are nearer than cannot-linked ones by"
            f" {texts[0]} standard deviations above chance, counted from 0, and by {texts[1]}, counted from 1"
        )
    location = ", ".join(dict.fromkeys(str(file.path) for file in files))
    problem = Problem(location, fault, f"{option.format(0)} or {option.format(1)}", hint)
    return Numbering(reason=f"unless {option.format(0)} is given", problem=problem)
