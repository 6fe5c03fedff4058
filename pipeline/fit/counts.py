"""Fits of several numbers of clusters, and the one that a criterion takes (docs/model.md, section 11).

`choose_clusters` fits each of them and takes one; `pipeline.choosing` reads them as they are written, and
draws the criterion against the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.errors import present

if TYPE_CHECKING:  # options are read before kernels are loaded, which takes a second
    from sweep_clustering.kernels.choice.criteria import Criteria
    from sweep_clustering.kernels.choice.held_out import HeldOut
    from sweep_clustering.pipeline.fit.solve import FitResult

# Standard errors that the best number may be ahead of one that BIC then decides for.
TIMIDITY = 1.0

# What decides.
HELD_OUT, BIC, FEWEST = "held-out annotations", "BIC", "fewest clusters"
REASONS = {
    FEWEST: "held-out annotations: the fewest clusters within one standard error of the least log loss",
    HELD_OUT: "held-out annotations: the largest BIC within one standard error of the least log loss",
    BIC: "BIC, the largest",
}

# Of the table: values of a candidate, with their heads and forms.
COLUMNS = {
    "n_clusters": ("K", "d"),
    "objective": ("objective", ".2f"),
    "parameters": ("parameters", "d"),
    "bic": ("BIC", ".2f"),
    "icl": ("ICL", ".2f"),
    "held_out_log_loss": ("log loss", ".4f"),
}
# What does not compare between coordinates, and what nobody measured.
UNSEEN = {FEWEST: ("objective", "parameters", "bic", "icl"), BIC: ("held_out_log_loss",)}
OVERLAP = "note       BIC takes too few clusters where they overlap; held-out annotations see more"

Fit = Callable[[int], "FitResult"]

# What is tried where no number is named.
TRIED = tuple(range(2, 11))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One number of clusters, and what speaks for it.

    Parameters
    ----------
    n_clusters : int
        K.
    result : FitResult
        The fit with it.
    criteria : Criteria
        Of its solution, nats.
    held_out : HeldOut or None
        How well it predicted annotations that it had not seen.
    """

    n_clusters: int
    result: FitResult
    criteria: Criteria
    held_out: HeldOut | None

    def to_json(self) -> dict[str, Any]:
        """Plain values; nats."""
        criteria, predicted = self.criteria, self.held_out
        return {
            "n_clusters": self.n_clusters,
            "covariance": self.result.covariance,
            "objective": self.result.best.objective,
            "parameters": criteria.parameters,
            "classification_log_likelihood": criteria.classification,
            "bic": criteria.bic,
            "icl": criteria.icl,
            "held_out_log_loss": predicted and predicted.log_loss,
            "share_predicted": predicted and predicted.share_right,
        }


@dataclass(frozen=True, eq=False)
class ClusterChoice:
    """Candidates, and which is taken.

    Parameters
    ----------
    candidates : tuple of Candidate
        By number of clusters, ascending.
    criterion : str
        What decides: one of `REASONS`.
    chosen : Candidate
        The one taken.
    interrupted : bool
        Whether numbers were left out, as somebody pressed Ctrl-C.
    """

    candidates: tuple[Candidate, ...]
    criterion: str
    chosen: Candidate
    interrupted: bool = False

    @property
    def values(self) -> NDArray[np.float64]:
        """Of the criterion that decides: log loss, the less the better, or BIC, the more the better; nats."""
        return np.array(
            [
                candidate.held_out.log_loss if candidate.held_out else candidate.criteria.bic
                for candidate in self.candidates
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; nats. Of the annotations the accuracy estimated with the number taken."""
        from sweep_clustering.kernels.choice.held_out import estimated_accuracy

        held_out = self.chosen.held_out
        accuracy = None if held_out is None else estimated_accuracy(held_out)
        return {
            "n_clusters": self.chosen.n_clusters,
            "criterion": self.criterion,
            "accuracy_held_out": accuracy and accuracy.value,
            "accuracy_held_out_error": None
            if accuracy is None or math.isnan(accuracy.error)
            else accuracy.error,
            "accuracy_agreeing": self.chosen.result.scores["annotation_agreement"],
            "candidates": [candidate.to_json() for candidate in self.candidates],
        }

    def lines(self, assumed: float | None = None) -> list[str]:
        """The table, which number is taken by what, the accuracy estimated, and what the choice cannot tell.

        Parameters
        ----------
        assumed : float, optional
            Accuracy that the model assumes.
        """
        document, taken = self.to_json(), self.chosen.n_clusters
        keys = [key for key in COLUMNS if key not in UNSEEN.get(self.criterion, ())]
        rows = [["  ", *(COLUMNS[key][0] for key in keys)]]
        for candidate in document["candidates"]:
            texts = [format(candidate[key], COLUMNS[key][1]) for key in keys]
            rows.append(["* " if candidate["n_clusters"] == taken else "  ", *texts])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [row[0] + "  ".join(map(str.rjust, row[1:], widths[1:])) for row in rows]
        lines.append(f"clusters   {taken} by {REASONS[self.criterion]}, in nats")
        if (accuracy := document["accuracy_held_out"]) is not None:
            error = document["accuracy_held_out_error"]
            before = "" if assumed is None else f"told {assumed:g}, "
            estimated = f"{before}estimated {accuracy:.3f}{'' if error is None else f' ± {error:.3f}'}"
            agreeing = document["accuracy_agreeing"]
            both = f" and {agreeing:.3f} (agreeing)" if agreeing is not None else ""
            lines.append(f"accuracy   {estimated} (held out){both}")
        ends = {self.candidates[0].n_clusters: "smallest", self.candidates[-1].n_clusters: "largest"}
        if taken in ends and taken > 2:  # one cluster is no clustering
            lines.append(f"note       {taken} is the {ends[taken]} tried: the best may lie beyond")
        if self.interrupted:
            lines.append("warning    interrupted: larger numbers of clusters were not tried to the end")
        return [*lines, OVERLAP] if self.criterion == BIC else lines


def choose_clusters(counts: Sequence[int], fit: Fit) -> ClusterChoice:
    """Fit each number of clusters, and take one.

    Parameters
    ----------
    counts : sequence of int
        Numbers of clusters, ascending.
    fit : callable
        The fit of one of them, as `pipeline.fit.solve.fit` makes it.

    Raises
    ------
    ValueError
        If a problem admits no solution.
    """
    candidates: list[Candidate] = []
    for count in counts:
        try:
            result = fit(count)
            criteria = present(result.criteria)()
        except KeyboardInterrupt:
            if not candidates:
                raise
            return replace(choose(candidates), interrupted=True)
        # what was not predicted does not compare with what was
        if not (result.interrupted and candidates and candidates[0].held_out and not result.predicted):
            # a result that stays holds no solver, and so no more copies of the table
            candidates.append(Candidate(count, replace(result, criteria=None), criteria, result.predicted))
        if result.interrupted:
            return replace(choose(candidates), interrupted=True)
    return choose(candidates)


def possible(X: NDArray[np.float64], counts: Sequence[int]) -> tuple[int, ...]:
    """Numbers of clusters that a table has distinct rows for, with samples to spare; one at least."""
    distinct = len(np.unique(X, axis=0))
    return tuple(count for count in counts if 2 * count <= distinct) or (min(2, distinct),)


def choose(candidates: Sequence[Candidate]) -> ClusterChoice:
    """Take the number of the largest BIC, of those that predict held-out annotations as well as the best.

    As well is within `TIMIDITY` standard errors. Where annotations were not predicted, BIC decides alone; the
    smaller number on ties. BICs of classes of any shape, in coordinates of their own each, do not compare:
    beside annotations that were predicted the smallest number decides there.

    Parameters
    ----------
    candidates : sequence of Candidate
        By number of clusters, ascending.
    """
    predicted = all(candidate.held_out is not None for candidate in candidates)
    left = within(candidates, TIMIDITY) if predicted else candidates
    if predicted and any(candidate.result.solution is not None for candidate in candidates):
        return ClusterChoice(tuple(candidates), FEWEST, left[0])
    chosen = max(left, key=lambda candidate: candidate.criteria.bic)
    return ClusterChoice(tuple(candidates), HELD_OUT if predicted else BIC, chosen)


def within(candidates: Sequence[Candidate], errors: float) -> list[Candidate]:
    """Candidates whose log loss is within so many standard errors of the least, eq. (57).

    Parameters
    ----------
    candidates : sequence of Candidate
        With held-out annotations, all the same.
    errors : float
        Of the differences to the best.
    """
    pairs = zip(candidates, gains(candidates), strict=True)
    return [candidate for candidate, (gain, error) in pairs if gain <= errors * error]


def gains(candidates: Sequence[Candidate]) -> list[tuple[float, float]]:
    """What the least log loss gains over that of each candidate, and its error, eq. (57)."""
    losses = [present(candidate.held_out) for candidate in candidates]
    least = min(losses, key=lambda score: score.log_loss)
    return [least.gain_over(score) for score in losses]
