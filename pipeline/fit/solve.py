"""One data set, one set of annotations, no cube: the best of some restarts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.choice.held_out import Choice, HeldOut, choose_covariance
from kernels.choice.held_out import warm_up as warm_up_predictions
from kernels.interrupt import beside
from kernels.problem.problem import MUST, Layer, build_problem
from kernels.scores import (
    centroid_index,
    cluster_covariances,
    cluster_gaussians,
    goldberger_kl,
    nmi,
    total_variance,
)
from kernels.search.genetic import Restart, run_restart, warm_up
from kernels.settings import AUTO, CANDIDATES, Settings, method_words
from pipeline.common import best_of
from pipeline.fit.confidence import Confidence, find_confidence
from pipeline.fit.notes import contradiction_notes, solution_notes

Rounds = Callable[[Iterable[int]], Iterable[int]]
Runner = Callable[[Callable[[int], Restart], Iterable[int]], Iterable[Restart]]


@dataclass(frozen=True)
class Scores:
    """How good a solution is (model.md, section 5); None where a score is not defined or nothing is known.

    Parameters
    ----------
    nmi : float or None
        Normalised mutual information with the true labels, normalizer "min".
    goldberger_kl : float or None
        Nats, in the scaled features; None also if a degenerate cluster takes part.
    centroid_index : int or None
        Centroids that are nearest to no centroid of the truth, or the other way round if that is more.
    annotation_agreement : float or None
        Share of the annotations the solution agrees with.
    """

    nmi: float | None
    goldberger_kl: float | None
    centroid_index: int | None
    annotation_agreement: float | None


@dataclass(frozen=True, eq=False)
class FitResult:
    """Best of some restarts, and what they took.

    Parameters
    ----------
    model, covariance : str
        As of `kernels.problem.problem.build_problem`.
    feature_weight : float
        Factor of gmm; in place of "effective", what that was.
    settings : Settings
        Of the search and of the objective.
    best : Restart
        The solution.
    best_restart : int
        Which restart found it, the lowest on ties.
    restart_objectives : ndarray of shape (restarts,)
        Nats.
    local_searches, evaluations, caps_reached : int
        Of all restarts: local searches, candidate relocations tried, limits on passes that ended a loop.
    seconds, cpu_seconds : float
        In the solver, compilation excluded: elapsed, and of the processor.
    scores : Scores
        Of the solution.
    kept : ndarray of shape (n_dims,)
        Features on which the Gaussians have a density.
    held_out : dict of str to HeldOut
        By shape, how well the model predicted annotations that it had not seen: of all candidates if the
        shape was chosen; empty if that was not asked for.
    notes : tuple of str
        What to know of the features and the solution before trusting it.
    confidence : Confidence or None
        How sure the labels are, if that was asked for.
    """

    model: str
    covariance: str
    feature_weight: float
    settings: Settings
    best: Restart
    best_restart: int
    restart_objectives: NDArray[np.float64]
    local_searches: int
    evaluations: int
    caps_reached: int
    seconds: float
    cpu_seconds: float
    scores: Scores
    kept: NDArray[np.int64]
    held_out: dict[str, HeldOut]
    notes: tuple[str, ...]
    confidence: Confidence | None = None

    @property
    def covariances(self) -> NDArray[np.float64]:
        """Covariances of the solution: one matrix if it is tied, else as of `Restart`."""
        return self.best.covariances[0] if self.covariance == "tied" else self.best.covariances

    @property
    def mean_variances(self) -> NDArray[np.float64]:
        """Variance of each cluster, of shape (n_clusters,), the mean over features where they differ."""
        found = self.best.covariances
        if found.ndim == 3:
            found = found.diagonal(axis1=1, axis2=2)
        return found if found.ndim == 1 else found.mean(axis=1)

    @property
    def predictions(self) -> dict[str, dict[str, float]]:
        """By shape, log loss in nats of held-out annotations and the share of them that were predicted."""
        return {
            shape: {"log_loss": each.log_loss, "share_right": each.share_right}
            for shape, each in self.held_out.items()
        }


class _Clock:
    """Time spent in its blocks: elapsed, and of the processor."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started[0]
        self.cpu_seconds += time.process_time() - self._started[1]


def fit(
    X: NDArray[np.float64],
    layers: Sequence[Layer] = (),
    *,
    n_clusters: int,
    model: str,
    restarts: int,
    settings: Settings,
    seed: int,
    labels_true: NDArray[np.integer] | None = None,
    covariance: str = "spherical",
    predict_annotations: bool = False,
    confidence: bool = False,
    rounds: Rounds = iter,
    run: Runner = map,
    start: NDArray[np.int16] | None = None,
) -> FitResult:
    """Fit a model to a data set.

    Restart r draws from `SeedSequence(seed, spawn_key=(r,))`, so more restarts only add to fewer.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs. The model "unsupervised" does not see them, the agreement score does.
    n_clusters, model, covariance
        As of `kernels.problem.problem.build_problem`; the covariance may be "auto", see `choose_covariance`.
    restarts : int
        Independent runs of the search.
    settings : Settings
        Of the search and of the objective.
    seed : int
        Of all randomness.
    labels_true : ndarray of shape (n_samples,), optional
        Classes from 0, for the scores.
    predict_annotations : bool
        Whether to hold annotations out, and see how well the model predicts them; done in any case where the
        shape is chosen.
    confidence : bool
        Whether chains are run from the solution, to say how sure its labels are.
    rounds : callable
        Takes and returns the numbers of the restarts, as a progress bar does.
    run : callable
        Applies a function to the numbers of the restarts, as `map` does, in order or at once; results come
        in order.
    start : ndarray of shape (n_samples,), int16, optional
        A partition that the first restart begins with.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        If the problem admits no solution or has none that makes sense.
    """
    is_auto, clock = covariance == AUTO, _Clock()
    candidates = CANDIDATES if is_auto else (covariance,)
    given: Any = {"n_clusters": n_clusters, "model": model, "settings": settings}
    # Before anything is compiled: bad input is answered at once.
    with clock:
        problem = build_problem(X, layers, covariance=candidates[0], **given)
    warm_up()
    choice = Choice(covariance, {})
    if is_auto or predict_annotations:
        if len(problem.data.annotated):
            warm_up_predictions()
        with clock:
            seeds = np.random.SeedSequence(seed)
            choice = beside(lambda: choose_covariance(X, layers, seed=seeds, candidates=candidates, **given))
            if choice.covariance != problem.covariance:
                problem = build_problem(X, layers, covariance=choice.covariance, **given)

    def one(restart: int) -> Restart:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(restart,)))
        return run_restart(problem, settings, rng, None if restart else start)

    with clock:
        runs = beside(lambda: list(run(one, rounds(range(restarts)))))
    best = best_of([run.objective for run in runs])
    found = find_confidence(problem, runs, best, seed) if confidence else None
    return FitResult(
        model=model,
        covariance=problem.covariance,
        feature_weight=problem.data.feature_weight,
        settings=settings,
        best=runs[best],
        best_restart=best,
        restart_objectives=np.array([run.objective for run in runs]),
        local_searches=sum(run.local_searches for run in runs),
        evaluations=sum(run.evaluations for run in runs),
        caps_reached=sum(run.caps_reached for run in runs),
        seconds=clock.seconds,
        cpu_seconds=clock.cpu_seconds,
        scores=_scores(X, layers, labels_true, runs[best], problem.covariance, settings),
        kept=problem.kept,
        held_out=choice.candidates,
        notes=(
            *([choice.note] if is_auto and choice.note else []),
            *solution_notes(X, runs[best], problem),
            *contradiction_notes(layers, runs[best].labels),
            *(found.notes() if found else ()),
        ),
        confidence=found,
    )


def to_json(result: FitResult) -> dict[str, Any]:
    """The result as plain values that strict JSON can hold; labels count from 0."""
    best = result.best
    return {
        "model": result.model,
        "covariance": result.covariance,
        "feature_weight": result.feature_weight,
        "method": method_words(result.settings),
        "settings": vars(result.settings),
        "objective": best.objective,
        "gmm": best.gmm,
        "sbm": best.sbm,
        "prior": best.prior,
        "labels": best.labels.tolist(),
        "sizes": best.sizes.tolist(),
        "centroids": best.centroids.tolist(),
        "covariances": result.covariances.tolist(),
        "restart_objectives": result.restart_objectives.tolist(),
        "best_restart": result.best_restart,
        "local_searches": result.local_searches,
        "evaluations": result.evaluations,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
        "scores": asdict(result.scores),
        "held_out": result.predictions,
        "notes": list(result.notes),
        **(result.confidence.to_json() if result.confidence else {}),
    }


def _scores(
    X: NDArray[np.float64],
    layers: Sequence[Layer],
    labels_true: NDArray[np.integer] | None,
    best: Restart,
    covariance: str,
    settings: Settings,
) -> Scores:
    agreement = _defined(weighted_agreement(layers, best.labels))
    if labels_true is None:
        return Scores(None, None, None, agreement)
    solution = best.sizes, best.centroids, best.covariances
    n_classes = int(labels_true.max()) + 1
    sizes, centroids, _ = cluster_gaussians(X, labels_true, n_classes)
    prior = settings.covariance_prior
    truth = sizes, centroids, cluster_covariances(X, labels_true, n_classes, covariance, prior)
    return Scores(
        nmi=nmi(labels_true, best.labels),
        goldberger_kl=_defined(goldberger_kl(*solution, *truth, total_variance(X))),
        centroid_index=centroid_index(best.centroids, truth[1]),
        annotation_agreement=agreement,
    )


def weighted_agreement(layers: Sequence[Layer], labels: NDArray[np.integer]) -> float:
    """Share of the annotations that agree with a partition; a pair counts as the annotations it stands for.

    Returns
    -------
    float
        NaN without annotations; as `kernels.scores.annotation_agreement` if all weights are 1.
    """
    agreeing = total = 0.0
    for layer in layers:
        weights = np.ones(len(layer.pairs)) if layer.weights is None else layer.weights
        together = labels[layer.pairs[:, 0]] == labels[layer.pairs[:, 1]]
        agreeing += float(weights[together == (layer.kind == MUST)].sum())
        total += float(weights.sum())
    return agreeing / total if total else math.nan


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
