"""The shape of covariance that annotations speak for (docs/model.md, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.choice.held_out import LEAST_PAIRS, HeldOut, held_out, list_annotations
from kernels.problem.data import Floats
from kernels.problem.layers import Layer
from kernels.settings import CANDIDATES, Settings

TIMIDITY = 0.5
"""Standard errors that the best candidate must be ahead of a simpler one to be preferred to it."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A shape, and what spoke for it.

    Parameters
    ----------
    covariance : str
        The shape chosen.
    candidates : dict of str to HeldOut
        How well each candidate predicted held-out annotations, the simplest first; none if there were too
        few annotations to tell.
    note : str
        Why there are no candidates; else empty.
    """

    covariance: str
    candidates: dict[str, HeldOut]
    note: str = ""


def choose_covariance(
    X: Floats,
    layers: Sequence[Layer],
    *,
    n_clusters: int,
    model: str,
    settings: Settings,
    seed: np.random.SeedSequence,
    candidates: Sequence[str] = CANDIDATES,
) -> Choice:
    """Choose among shapes of covariance, by default spherical, diagonal, tied and full.

    The simplest one whose mean log-probability of held-out annotations is within half a standard error of the
    best, of the differences between both. All candidates see the same folds.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs.
    n_clusters, model, settings
        As of `kernels.problem.problem.build_problem`, and of the search.
    seed : numpy.random.SeedSequence
        Of folds and searches.
    candidates : sequence of str
        Shapes to choose from, the simplest first; of one shape alone, how well it predicts.

    Returns
    -------
    Choice
        The first candidate if the model sees no annotations, or those of fewer than `LEAST_PAIRS` pairs.
    """
    simplest = candidates[0]
    if model == "unsupervised":
        return Choice(simplest, {}, f"the model sees no annotations: covariances are {simplest}")
    annotations = list_annotations(layers, seed)
    if annotations.n_pairs < LEAST_PAIRS:
        found = (
            f"{annotations.n_pairs} annotated pairs are too few to choose a shape, {LEAST_PAIRS} are needed"
        )
        return Choice(simplest, {}, f"{found}: covariances are {simplest}")
    predictions = {
        covariance: held_out(
            X,
            layers,
            annotations,
            n_clusters=n_clusters,
            model=model,
            covariance=covariance,
            settings=settings,
            seed=seed,
        )
        for covariance in candidates
    }
    return Choice(simplest_of_the_best(predictions), predictions)


def simplest_of_the_best(candidates: dict[str, HeldOut]) -> str:
    """First candidate that the best is not clearly ahead of."""
    best = min(candidates, key=lambda name: candidates[name].log_loss)
    for name, candidate in candidates.items():
        gain, error = candidates[best].gain_over(candidate)
        if name == best or gain <= TIMIDITY * error:
            return name
    return best
