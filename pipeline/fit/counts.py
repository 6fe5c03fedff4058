"""Fits of several numbers of clusters, and a choice by a criterion (docs/model.md, section 11).

`read_counts` reads the numbers as people write them (5, 2..8, or 2,3,5), and `choose_clusters` fits
each number and chooses one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.problem.data import count_distinct
from sweep_clustering.kernels.structure import ANY, MANY_CLASSES, MERGED_KINDS
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.fit.inputs import place_problems
from sweep_clustering.sweeps.data.table import MAX_CLASSES
from sweep_clustering.sweeps.errors import Problem, present

if TYPE_CHECKING:  # options are read before kernels are loaded, which takes a second
    from sweep_clustering.kernels.choice import Criteria, HeldOut
    from sweep_clustering.kernels.fits import Runner
    from sweep_clustering.kernels.problem.problem import Layer
    from sweep_clustering.kernels.unions.contest import Cut
    from sweep_clustering.pipeline.fit.solve import FitResult

# Number of standard errors that the best number may be ahead of one that BIC prefers.
TIMIDITY = 1.0

# Names of the criteria.
HELD_OUT = "held-out annotations"
BIC = "BIC"
FEATURES = "ICL of the features"
FEWEST = "fewest clusters"
CUTS = "cuts of a tree"
SHARE = "share of must-links"

REASONS = {
    FEATURES: "the largest ICL of the features alone, among those that predict held-out answers about as well"
    " as the best",
    FEWEST: "the fewest that predict held-out answers about as well as the best",
    HELD_OUT: "the largest BIC among those that predict held-out answers about as well as the best",
    BIC: "the largest BIC",
    CUTS: "the most that predict held-out answers as well as any cut of a tree of merged groups",
    SHARE: "the pairs are as far apart as random ones, and so many classes of equal size have the share of"
    " must-links that the answers have, less the wrong ones if it is known how many they are",
}

# Columns of the table: values of a candidate, with their heads and forms.
COLUMNS = {
    "n_clusters": ("K", "d"),
    "objective": ("objective", ".2f"),
    "parameters": ("parameters", "d"),
    "bic": ("BIC", ".2f"),
    "icl": ("ICL", ".2f"),
    "icl_of_features": ("ICL of features", ".2f"),
    "held_out_log_loss": ("log loss", ".4f"),
    "overall_log_loss": ("with random pairs", ".4f"),
}
# Columns that are left out: values in different coordinates do not compare, and others were not measured.
INCOMPARABLE = ("objective", "parameters", "bic", "icl")
UNSEEN = {
    FEATURES: INCOMPARABLE,
    **dict.fromkeys((FEWEST, CUTS, SHARE), (*INCOMPARABLE, "icl_of_features")),
    HELD_OUT: ("icl_of_features",),
    BIC: ("icl_of_features", "held_out_log_loss"),
}
OVERLAP = "BIC takes too few where classes overlap, and held-out answers would see more"
COARSE = "more rows are together than answers about random pairs allow"
RANDOM = "random pairs count as much, as distance predicts them, because the answers are not about such pairs"

OPTION = "-k"
FIGURES = (".svg", ".png", ".pdf")
PART = re.compile(r"([+-]?\d+)(?:\s*\.\.\s*([+-]?\d+))?")
EXPECTED = "a number, a range as 2..8, or a list as 2,3,5"

Fit = Callable[[int], "FitResult"]

# Numbers of clusters that are tried if none is named.
TRIED = tuple(range(2, 11))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A number of clusters, with the fit, its criteria (nats) and its predictions of held-out annotations.

    `overall` are the predictions less what random pairs say against the fit, which compare numbers where
    annotations are not about random pairs; else it is None.
    """

    n_clusters: int
    result: FitResult
    criteria: Criteria
    held_out: HeldOut | None
    overall: HeldOut | None = None

    @property
    def share_together(self) -> float:
        """Share of the pairs of rows that are in one cluster."""
        sizes = np.asarray(self.result.best.sizes, np.float64)
        return float(sizes @ (sizes - 1.0) / max(1.0, sizes.sum() * (sizes.sum() - 1.0)))

    @property
    def predictions(self) -> HeldOut | None:
        """Predictions by which numbers of clusters are compared."""
        return self.overall or self.held_out

    def to_json(self) -> dict[str, Any]:
        """Return plain values, in nats."""
        criteria, held_out = self.criteria, self.held_out
        return {
            "n_clusters": self.n_clusters,
            "covariance": self.result.covariance,
            "objective": self.result.best.objective,
            "parameters": criteria.parameters,
            "classification_log_likelihood": criteria.classification,
            "bic": criteria.bic,
            "icl": criteria.icl,
            "icl_of_features": criteria.icl_of_features,
            "held_out_log_loss": held_out and held_out.log_loss,
            **({"overall_log_loss": self.overall.log_loss} if self.overall else {}),
            "share_predicted": held_out and held_out.share_right,
        }


# Why there can be no fewer or no more clusters, by their number.
NO_BOUNDS: Mapping[int, str] = {}


@dataclass(frozen=True, eq=False)
class ClusterChoice:
    """Candidates by ascending number of clusters, and the one that a criterion of `REASONS` chose.

    If Ctrl-C interrupted the fits, larger numbers of clusters are missing.
    `cut` is the cut of a tree that was chosen, if one was; `bounds` says why there can be no fewer clusters
    than one number, or no more than another one.
    `coarse` are numbers that put more rows together than answers about random pairs allow.
    """

    candidates: tuple[Candidate, ...]
    criterion: str
    chosen: Candidate
    interrupted: bool = False
    cut: Cut | None = None
    bounds: Mapping[int, str] = field(default_factory=dict)
    coarse: tuple[int, ...] = ()

    @property
    def values(self) -> NDArray[np.float64]:
        """Values of the criterion in nats: log loss, the less the better, or BIC, the more the better."""
        return np.array(
            [row.predictions.log_loss if row.predictions else row.criteria.bic for row in self.candidates]
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values (nats), with the accuracy of the annotations as the chosen fit estimates it."""
        from sweep_clustering.kernels.choice import estimated_accuracy

        held_out = self.chosen.held_out
        accuracy = None if held_out is None else estimated_accuracy(held_out)
        error = None if accuracy is None or math.isnan(accuracy.error) else accuracy.error
        return {
            "n_clusters": self.chosen.n_clusters,
            "criterion": self.criterion,
            "accuracy_held_out": accuracy and accuracy.value,
            "accuracy_held_out_error": error,
            "accuracy_agreeing": self.chosen.result.scores["annotation_agreement"],
            "candidates": [candidate.to_json() for candidate in self.candidates],
            **({"equal": [self.cut.low, self.chosen.n_clusters]} if self.cut is not None else {}),
        }

    @property
    def reason(self) -> str:
        """Why this number was chosen, with what speaks against it."""
        tried, n_clusters = [candidate.n_clusters for candidate in self.candidates], self.chosen.n_clusters
        parts = [f"{n_clusters} of {_listing(tried)} tried: {REASONS[self.criterion]}"]
        if len(tried) == 1:
            parts = [f"{n_clusters} alone was tried" if self.cut is None else words_of_cut(self.cut)]
        elif self.cut is not None:
            parts.append(interval_of_cut(self.cut))
        ends = {tried[0]: "smallest", tried[-1]: "largest"}
        if n_clusters in self.bounds:
            parts.append(self.bounds[n_clusters])
        elif self.cut is None and n_clusters in ends and n_clusters > 2:  # one cluster is no clustering
            parts.append(f"{n_clusters} is the {ends[n_clusters]} tried, and the best may lie beyond")
        if self.coarse and len(tried) > 1:
            parts.append(f"with {_listing(self.coarse)}, {COARSE}")
        if self.criterion == BIC and len(tried) > 1:
            parts.append(OVERLAP)
        if self.chosen.overall is not None and len(tried) > 1:
            parts.append(RANDOM)
        if self.interrupted:
            parts.append("interrupted: larger numbers were not tried to the end")
        return "; ".join(parts)

    def lines(self, assumed: float | None = None) -> list[str]:
        """Return the table, single rows and the estimate of an accuracy, for people.

        The model may have assumed an accuracy, which stands beside the estimate.
        """
        document, n_clusters = self.to_json(), self.chosen.n_clusters
        columns = {key for row in document["candidates"] for key, value in row.items() if value is not None}
        keys = [key for key in COLUMNS if key in columns and key not in UNSEEN[self.criterion]]
        rows = [["  ", *(COLUMNS[key][0] for key in keys)]]
        for candidate in document["candidates"]:
            texts = [
                "" if candidate[key] is None else format(candidate[key], COLUMNS[key][1]) for key in keys
            ]
            rows.append(["* " if candidate["n_clusters"] == n_clusters else "  ", *texts])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [row[0] + "  ".join(map(str.rjust, row[1:], widths[1:])) for row in rows]
        lines = table if len(keys) > 1 else []  # K alone compares nothing
        if self.cut is not None:
            lines.append(f"           clusters of one row: {int((self.chosen.result.best.sizes == 1).sum())}")
        if (accuracy := document["accuracy_held_out"]) is not None:
            error = document["accuracy_held_out_error"]
            assumption = "" if assumed is None else f"told {assumed:g}, "
            estimate = f"{assumption}estimated {accuracy:.3f}{'' if error is None else f' ± {error:.3f}'}"
            agreement = document["accuracy_agreeing"]
            agreement_words = f" and {agreement:.3f} (agreeing)" if agreement is not None else ""
            lines.append(f"accuracy   {estimate} (held out){agreement_words}")
        return lines


def _listing(numbers: Sequence[int]) -> str:
    """Return ascending numbers in words, those without a gap as a range."""
    is_range = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{numbers[0]} to {numbers[-1]}" if is_range else ", ".join(map(str, numbers))


def words_of_cut(cut: Cut) -> str:
    """Return the number of clusters of a cut, why it was chosen, and the numbers that are as good."""
    return f"{cut.n_clusters}: {REASONS[SHARE if cut.is_by_share else CUTS]}; {interval_of_cut(cut)}"


def interval_of_cut(cut: Cut) -> str:
    """Return the numbers of clusters that are as good as that of a cut, in words."""
    if cut.is_by_share:
        return f"fewer than {cut.low} are unlikely"
    several = f"{cut.low} to {cut.n_clusters} predict equally well"
    return several if cut.low < cut.n_clusters else "no other cut predicts as well"


class OpenCounts(NamedTuple):
    """Numbers of clusters to fit where none is named, with a cut of a tree, and why there are no others."""

    numbers: Sequence[int]
    cut: Cut | None = None
    bounds: Mapping[int, str] = NO_BOUNDS

    @property
    def sure_cut(self) -> Cut | None:
        """The cut, if its number needs no comparison with others."""
        return self.cut if len(self.numbers) == 1 else None


def open_counts(
    X: NDArray[np.float64],
    layers: Sequence[Layer],
    *,
    covariance: str | None,
    seed: int,
    run: Runner,
    n_names: int = 0,
) -> OpenCounts:
    """Return the numbers of clusters to fit where none is named.

    None is below the number of names that labels of rows have, or of rows that hard links keep apart, and
    none above the number of groups of rows that they leave.
    """
    from sweep_clustering.pipeline.fit.alarms import hard_clique, hard_groups

    cut = None
    if covariance == ANY and layers:
        from sweep_clustering.kernels.interrupt import run_interruptibly
        from sweep_clustering.kernels.unions.contest import choose_cut

        cut = run_interruptibly(lambda: choose_cut(X, layers, np.random.SeedSequence(seed), TRIED[-1], run))
    n_apart, maximum = len(hard_clique(layers)), hard_groups(layers, len(X))
    minimum = max(n_names, n_apart, 1)
    cut = cut if cut is None or minimum <= cut.n_clusters <= maximum else None
    numbers = tuple(count for count in feasible_counts(X, TRIED) if minimum <= count <= maximum) or (minimum,)
    cause = (
        f"row labels have {n_names} names" if n_names > n_apart else f"hard links keep {n_apart} rows apart"
    )
    bounds = {minimum: f"there can be no fewer, as {cause}"} if max(n_names, n_apart) else {}
    if maximum < len(X):
        words = f"there can be no more, as hard links leave {plural(maximum, 'group')} of rows"
        bounds[maximum] = f"{bounds[maximum]}; {words}" if maximum in bounds else words
    # many classes, and thin ones, need no comparison with fits of each small number, which take minutes
    is_sure = cut is not None and cut.is_clear and (cut.n_clusters > MANY_CLASSES or cut.is_by_nearest)
    is_alone = is_sure or (cut is not None and cut.is_by_share)
    numbers = (() if is_alone else numbers) + (() if cut is None else (cut.n_clusters,))
    return OpenCounts(numbers, cut, {number: bounds[number] for number in bounds if number in numbers})


def choose_clusters(
    counts: Sequence[int],
    fit: Fit,
    cut: Cut | None = None,
    bounds: Mapping[int, str] = NO_BOUNDS,
    *,
    max_share: float = 1.0,
    salvage: bool = False,
) -> ClusterChoice:
    """Fit each of some ascending numbers of clusters, and choose one.

    `fit` takes a number and returns a result of `pipeline.fit.solve.fit`; `cut` is the last of the numbers.
    `max_share` is the share of the pairs of rows that may be together, as `share_allowed` returns it.
    `bounds` says why fewer or more are impossible, and `salvage` whether Ctrl-C gives the best of the fits
    so far. A problem without solution is a `ValueError`, but numbers that hard links rule out are left out.
    """
    from sweep_clustering.kernels.problem.hard import Contradiction

    candidates: list[Candidate] = []
    for count in counts:
        try:
            result = fit(count)
            criteria = present(result.criteria)()
        except Contradiction:  # hard links that more clusters may obey
            if count == counts[-1] and not candidates:
                raise
            continue
        except KeyboardInterrupt:
            if not (salvage and candidates):
                raise
            return replace(choose(candidates, max_share), interrupted=True)
        # A candidate without predictions does not compare with those that have some.
        if not (result.interrupted and candidates and candidates[0].held_out and not result.predicted):
            # Results that stay have no solver, and so no more copies of the table.
            candidates.append(Candidate(count, replace(result, criteria=None), criteria, result.predicted))
        if result.interrupted:
            return replace(choose(candidates, max_share), interrupted=True)
    if candidates[0].n_clusters != counts[0]:
        bounds = {**bounds, candidates[0].n_clusters: "there can be no fewer, as hard links rule them out"}
    choice = replace(choose(candidates, max_share), bounds=bounds)
    if cut is None or choice.chosen.n_clusters != cut.n_clusters:
        return choice
    return replace(choice, criterion=SHARE if cut.is_by_share else CUTS, cut=cut)


def share_allowed(X: NDArray[np.float64], layers: Sequence[Layer], seed: int) -> float:
    """Return the share of the pairs of rows of which more are clearly not of one class; 1 if it is open."""
    from sweep_clustering.kernels.choice import list_annotations
    from sweep_clustering.kernels.unions.contest import share_together

    annotations = list_annotations(layers, np.random.SeedSequence(seed))
    return 1.0 if annotations.lack else share_together(X, annotations).high


def feasible_counts(X: NDArray[np.float64], counts: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of clusters for which a table has twice as many distinct rows, or else 2 or 1."""
    distinct = count_distinct(X)
    return tuple(count for count in counts if 2 * count <= distinct) or (min(2, distinct),)


def choose(candidates: Sequence[Candidate], max_share: float = 1.0) -> ClusterChoice:
    """Choose the number of the largest BIC or ICL, or the smaller number if they are equal.

    If held-out annotations were predicted, only numbers within `TIMIDITY` standard errors of the best
    predictions take part. Classes of any shape are in coordinates of their own, whose BICs do not compare.
    Fits to the features alone do compare, by ICL, if they are not clearly behind the others of their number.
    If no number has such fits, the fewest clusters are chosen. If one of the fits has merged groups, or
    random pairs are predicted, too, all are compared by predictions beside distance.

    Numbers whose fits put more than `max_share` of the pairs of rows together take no part, unless all do.
    """
    skills = [row.result.skill for row in candidates]
    has_random = all(skill is not None and skill.overall is not skill.with_distance for skill in skills)
    if has_random or any(candidate.result.covariance in MERGED_KINDS for candidate in candidates):
        candidates = [
            row
            if skill is None
            else replace(row, held_out=skill.with_distance, overall=skill.overall if has_random else None)
            for row, skill in zip(candidates, skills, strict=True)
        ]
    # if all numbers put too many rows together, that of the least share is the least wrong
    limit = max(max_share, min(candidate.share_together for candidate in candidates))
    possible = [candidate for candidate in candidates if candidate.share_together <= limit]
    coarse = tuple(candidate.n_clusters for candidate in candidates if candidate.share_together > max_share)
    choice = partial(ClusterChoice, tuple(candidates), coarse=coarse)
    is_predicted = all(candidate.held_out is not None for candidate in candidates)
    finalists = finalists_of(possible, TIMIDITY) if is_predicted else possible
    if is_predicted and any(candidate.result.solution is not None for candidate in candidates):
        comparable = [candidate for candidate in finalists if candidate.criteria.icl_of_features is not None]
        if not comparable:
            return choice(FEWEST, finalists[0])
        candidate = max(comparable, key=lambda candidate: present(candidate.criteria.icl_of_features))
        return choice(FEATURES, candidate)
    candidate = max(finalists, key=lambda candidate: candidate.criteria.bic)
    return choice(HELD_OUT if is_predicted else BIC, candidate)


def finalists_of(candidates: Sequence[Candidate], errors: float) -> list[Candidate]:
    """Return candidates whose log loss is within so many standard errors of the least, eq. (57)."""
    pairs = zip(candidates, gains(candidates), strict=True)
    return [candidate for candidate, (gain, error) in pairs if gain <= errors * error]


def gains(candidates: Sequence[Candidate]) -> list[tuple[float, float]]:
    """Return the gain of the least log loss over that of each candidate, with its error, eq. (57)."""
    losses = [present(candidate.predictions) for candidate in candidates]
    best = min(losses, key=lambda score: score.log_loss)
    return [best.gain_over(score) for score in losses]


def read_counts(text: str) -> tuple[tuple[int, ...], list[Problem]]:
    """Return numbers of clusters, ascending, each once, and the problems of their text; with problems only
    (1,).

    A text has numbers and ranges with commas; both ends belong to a range. A single number is judged with the
    other options of a fit.
    """
    counts: list[int] = []
    problems: list[Problem] = []
    parts = text.split(",")
    for part in parts:
        match = PART.fullmatch(part.strip())
        if match is None:
            problems.append(Problem(OPTION, repr(part if part.strip() else text), EXPECTED))
            continue
        low, high = int(match[1]), int(match[2] or match[1])
        if len(parts) == 1 and match[2] is None:
            return (low,), []
        if low > high:
            problems.append(Problem(OPTION, part.strip(), "the smaller number first"))
        faults = [end for end in dict.fromkeys((low, high)) if not 1 <= end < MAX_CLASSES]
        problems += [Problem(OPTION, str(end), f"1 or more, and less than {MAX_CLASSES}") for end in faults]
        counts += [] if faults else range(low, high + 1)
    repeated = [count for count, times in sorted(Counter(counts).items()) if times > 1]
    if repeated:
        repeats = f"{', '.join(map(str, repeated))} more than once"
        problems.append(Problem(OPTION, repeats, "each number once"))
    return ((1,), problems) if problems else (tuple(sorted(counts)), [])


def option_problems(
    counts: Sequence[int], *, figure: Path | None, out: Path | None, overwrite: bool
) -> Iterator[Problem]:
    """Yield the problems of `--figure` and `--force`; the counts are empty if they are wrong."""
    yield from place_problems("--figure", figure, overwrite)
    if figure is not None and figure.suffix.lower() not in FIGURES:
        yield Problem("--figure", str(figure), f"a name that ends in {', '.join(FIGURES)}")
    if figure is not None and len(counts) == 1:
        yield Problem("--figure", f"-k {counts[0]}, one number", "several to compare, as -k 2..8")
    if figure is not None and out is not None and figure.absolute() == out.absolute():
        yield Problem("--figure", f"{figure}, as --out", "a file of its own")
    if overwrite and figure is None and out is None:
        yield Problem("--force", "no --out and no --figure", "a file to overwrite")
