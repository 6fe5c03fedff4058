"""Fits of several numbers of clusters, and the one that a criterion takes (docs/model.md, section 11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.choice.criteria import Criteria, criteria
from kernels.choice.held_out import Accuracy, HeldOut, estimated_accuracy
from kernels.problem.problem import Layer, build_problem
from pipeline.fit.solve import FitResult

TIMIDITY = 1.0
"""Standard errors that the best number may be ahead of one that BIC then decides for."""

HELD_OUT, BIC = "held-out annotations", "BIC"
"""What decides: the first, and BIC within its error, where annotations were predicted; else BIC alone."""

Fit = Callable[[int], FitResult]


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
        return {
            "n_clusters": self.n_clusters,
            "covariance": self.result.covariance,
            "objective": self.result.best.objective,
            "parameters": self.criteria.parameters,
            "classification_log_likelihood": self.criteria.classification,
            "bic": self.criteria.bic,
            "icl": self.criteria.icl,
            "held_out_log_loss": None if self.held_out is None else self.held_out.log_loss,
            "share_predicted": None if self.held_out is None else self.held_out.share_right,
        }


@dataclass(frozen=True, eq=False)
class ClusterChoice:
    """Candidates, and which is taken.

    Parameters
    ----------
    candidates : tuple of Candidate
        By number of clusters, ascending.
    criterion : str
        What decides: `HELD_OUT` or `BIC`.
    chosen : Candidate
        The one taken.
    """

    candidates: tuple[Candidate, ...]
    criterion: str
    chosen: Candidate

    @property
    def values(self) -> NDArray[np.float64]:
        """Of the criterion that decides: log loss, the less the better, or BIC, the more the better; nats."""
        return np.array(
            [
                each.criteria.bic if each.held_out is None else each.held_out.log_loss
                for each in self.candidates
            ]
        )

    @property
    def errors(self) -> NDArray[np.float64] | None:
        """Of the differences in log loss to the least one, eq. (57); None where BIC decides alone."""
        losses = [each.held_out for each in self.candidates if each.held_out is not None]
        if not losses:
            return None
        best = min(losses, key=lambda each: each.log_loss)
        return np.array([best.gain_over(each)[1] for each in losses])

    @property
    def accuracy(self) -> Accuracy | None:
        """Of the annotations, estimated with the number taken; None where they were not predicted."""
        return None if self.chosen.held_out is None else estimated_accuracy(self.chosen.held_out)

    def to_json(self) -> dict[str, Any]:
        """Plain values; nats."""
        found = self.accuracy
        return {
            "n_clusters": self.chosen.n_clusters,
            "criterion": self.criterion,
            "accuracy_held_out": None if found is None else found.value,
            "accuracy_held_out_error": None if found is None or math.isnan(found.error) else found.error,
            "accuracy_agreeing": self.chosen.result.scores.annotation_agreement,
            "candidates": [each.to_json() for each in self.candidates],
        }

    def lines(self, told: float | None = None) -> list[str]:
        """The table, which number is taken by what, and the accuracy estimated, for people.

        Parameters
        ----------
        told : float, optional
            Accuracy that the model was given.
        """
        heads = ["K", "objective", "parameters", "BIC", "ICL"]
        with_loss = self.criterion == HELD_OUT
        rows = [heads + ["log loss"] * with_loss]
        for each in self.candidates:
            found = each.criteria
            values = [each.result.best.objective, found.bic, found.icl]
            objective, bic, icl = (f"{value:.2f}" for value in values)
            loss = [f"{each.held_out.log_loss:.4f}"] if each.held_out is not None else []
            rows.append([str(each.n_clusters), objective, str(found.parameters), bic, icl, *loss])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        marks = ["  ", *("* " if each is self.chosen else "  " for each in self.candidates)]
        table = [
            mark + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for mark, row in zip(marks, rows, strict=True)
        ]
        taken = f"clusters   {self.chosen.n_clusters} by {self._reason()}"
        return [*table, taken, *self._accuracy_lines(told), *self._notes()]

    def _accuracy_lines(self, told: float | None) -> list[str]:
        found = self.accuracy
        if found is None:
            return []
        error = "" if math.isnan(found.error) else f" ± {found.error:.3f}"
        given = "" if told is None else f"told {told:g}, "
        agreeing = self.chosen.result.scores.annotation_agreement
        return [
            f"accuracy   {given}estimated {found.value:.3f}{error} (held out) to {agreeing:.3f} (agreeing)"
        ]

    def _reason(self) -> str:
        if self.criterion == BIC:
            return "BIC, the largest, in nats"
        return (
            "held-out annotations: the largest BIC within one standard error of the least log loss, in nats"
        )

    def _notes(self) -> list[str]:
        """What the choice cannot tell."""
        ends = {self.candidates[0].n_clusters: "smallest", self.candidates[-1].n_clusters: "largest"}
        end = ends.get(self.chosen.n_clusters)
        notes = []
        if end and self.chosen.n_clusters != 1:
            notes.append(f"note       {self.chosen.n_clusters} is the {end} tried: the best may lie beyond")
        if self.criterion == BIC:
            notes.append(
                "note       BIC takes too few clusters where they overlap; held-out annotations see more"
            )
        return notes


def choose_clusters(
    X: NDArray[np.float64], layers: Sequence[Layer], counts: Sequence[int], fit: Fit
) -> ClusterChoice:
    """Fit each number of clusters, and take one.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs.
    counts : sequence of int
        Numbers of clusters, ascending.
    fit : callable
        The fit of one of them, as `pipeline.fit.solve.fit` makes it.

    Returns
    -------
    ClusterChoice

    Raises
    ------
    ValueError
        If a problem admits no solution.
    """
    candidates = []
    for count in counts:
        result = fit(count)
        problem = build_problem(
            X,
            layers,
            n_clusters=count,
            model=result.model,
            covariance=result.covariance,
            settings=result.settings,
        )
        found = criteria(problem, layers, result.best.labels)
        candidates.append(Candidate(count, result, found, result.held_out.get(result.covariance)))
    return choose(candidates)


def choose(candidates: Sequence[Candidate]) -> ClusterChoice:
    """Take the number of the largest BIC, of those that predict held-out annotations as well as the best.

    As well is within `TIMIDITY` standard errors. Where annotations were not predicted, BIC decides alone; the
    smaller number on ties.

    Parameters
    ----------
    candidates : sequence of Candidate
        By number of clusters, ascending.
    """
    predicted = all(each.held_out is not None for each in candidates)
    left = within(candidates, TIMIDITY) if predicted else candidates
    chosen = max(left, key=lambda each: each.criteria.bic)
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
    losses = [each.held_out for each in candidates if each.held_out is not None]
    least = min(losses, key=lambda each: each.log_loss)
    found = []
    for candidate, held_out in zip(candidates, losses, strict=True):
        gain, error = least.gain_over(held_out)
        if gain <= errors * error:
            found.append(candidate)
    return found
