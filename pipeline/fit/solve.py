"""Fits of one data set with one set of annotations, without a cube: the best of some restarts, with notes.

`fit` gives a `FitResult`, which `to_json` turns into plain values. `unannotated` scores the labels of k-means
and of a mixture of Gaussians, both of scikit-learn, against true classes: the difference to the scores of a
fit is the gain by annotations.
"""

import math
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sweep_clustering.kernels import scores
from sweep_clustering.kernels.choice import Criteria, HeldOut, Skill
from sweep_clustering.kernels.fits import Fit, Floats, Gaussians, Runner
from sweep_clustering.kernels.interrupt import run_interruptibly
from sweep_clustering.kernels.problem.data import Layer, is_agreement, layer_weights
from sweep_clustering.kernels.settings import Settings, method_words
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.kernels.structure import MERGED_KINDS
from sweep_clustering.pipeline.common import best_of, plural
from sweep_clustering.pipeline.fit import alarms
from sweep_clustering.pipeline.fit import data_notes as notes
from sweep_clustering.pipeline.fit.confidence import Confidence, find_confidence
from sweep_clustering.sweeps.errors import present

# Counters of restarts whose sums a result has.
WORK = ("local_searches", "evaluations", "caps_reached")

# Scores against true classes: their keys in JSON, and their names for people.
AGREEMENT = {
    "nmi": "nmi (min, as in the paper)",
    "nmi_arithmetic": "nmi (arithmetic, as scikit-learn)",
    "ari": "ari",
}

# Largest number of starts of a method without annotations, of which the best is kept.
BASELINE_STARTS = 10

# Largest number of multiplications in a step of all starts, if there are several: some seconds.
BASELINE_WORK = 2e8

# Largest number of multiplications in a step of a single start: a minute or so.
MOST_BASELINE_WORK = 2e9


class CallRecorder:
    """Runner that keeps arguments and results of calls that have ended, in case others are interrupted."""

    def __init__(self, run: Runner) -> None:
        self.inner = run
        self.finished_calls: list[tuple[Any, Any]] = []

    def run(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterable[Any]:
        """Apply a function to arguments by the inner runner."""

        def record(argument: Any) -> Any:
            result = function(argument)
            self.finished_calls.append((argument, result))
            return result

        return self.inner(record, arguments)


@dataclass(frozen=True, eq=False)
class FitResult:
    """The best of some restarts, with scores, notes and alarms.

    Parameters
    ----------
    model, covariance : str
        Names of the model and of the shape of clusters or components.
    feature_weight : float
        Factor of gmm, also if the setting is "effective".
    settings : Settings
        Settings of the search and of the objective.
    best : Fit
        The solution.
    best_restart : int
        Restart that found it, the lowest if several did.
    restart_objectives : ndarray of shape (restarts,)
        Objectives in nats.
    local_searches, evaluations, caps_reached : int
        Sums over all restarts: local searches, candidate relocations, limits on passes that ended a loop.
    seconds, cpu_seconds : float
        Elapsed time in the solver, and CPU time, without compilation.
    scores : dict of str to (float or None)
        Scores of the solution (model.md, section 5), by name; None if a score is not defined, or needs an
        input that is missing. nmi : normalised mutual information with the true labels, normalizer "min".
        nmi_arithmetic : the same with that of scikit-learn. ari : adjusted Rand index with the true labels.
        goldberger_kl : nats, in the scaled features. centroid_index : centroids that are nearest to no
        centroid of the truth, or the other way round if that is more. annotation_agreement : share of the
        annotations that the solution agrees with.
    features_used : ndarray of shape (n_dims,)
        Features on which the Gaussians have a density.
    held_out : dict of str to HeldOut
        Predictions of annotations that the model had not seen, by the shape or structure of all candidates;
        empty without such predictions.
    notes : tuple of str
        Sentences on features and solution, to be read before trusting it.
    confidence : Confidence or None
        Confidence in the labels.
    criteria : callable
        Function that returns the criteria by which numbers of clusters compare.
    predicted : HeldOut or None
        Predictions of the chosen candidate, or those that all candidates had to beat.
    base_rate : HeldOut or None
        Predictions by the share of must-links, beside those of structures.
    skill : Skill or None
        Predictions beside distance, if merged groups were compared.
    words : str
        The structure of classes in words.
    n_averaged : int
        Number of fits that the solution is an average of, in place of the best restart; 0 if it is none.
    foresight : str
        How well this structure predicts held-out answers, in words; empty if it was not measured.
    alarms : tuple of str
        Sentences on signs that the solution may be nonsense, with advice.
    interrupted : bool
        Whether restarts are missing because of Ctrl-C.
    """

    model: str
    covariance: str
    feature_weight: float
    settings: Settings
    best: Fit
    best_restart: int
    restart_objectives: Floats
    local_searches: int
    evaluations: int
    caps_reached: int
    seconds: float
    cpu_seconds: float
    scores: dict[str, float | None]
    features_used: NDArray[np.int64]
    held_out: dict[str, HeldOut]
    notes: tuple[str, ...]
    confidence: Confidence | None = None
    criteria: Callable[[], Criteria] | None = field(default=None, repr=False)
    predicted: HeldOut | None = None
    base_rate: HeldOut | None = None
    skill: Skill | None = None
    words: str = ""
    n_averaged: int = 0
    foresight: str = ""
    alarms: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def solution(self) -> Gaussians | None:
        """Gaussians that the clusters of `best` are unions of."""
        return self.best.gaussians

    @property
    def covariances(self) -> Floats:
        """Covariances of the solution: one matrix if it is tied, else those of `Fit`."""
        is_tied = self.covariance == "tied" and self.solution is None
        return self.best.covariances[0] if is_tied else self.best.covariances

    @property
    def structure(self) -> str:
        """Structure of the classes in words."""
        return f"{self.covariance} covariance" if self.solution is None else str(self.solution.structure)

    @property
    def choice(self) -> str:
        """Line on the structure of the classes and its predictions."""
        return "; ".join(filter(None, [self.words, self.foresight]))

    @property
    def predictions(self) -> dict[str, dict[str, float]]:
        """Log loss (nats) of held-out annotations and the share of right predictions, by shape."""
        names = ("log_loss", "share_right")
        return {
            shape: {name: getattr(score, name) for name in names} for shape, score in self.held_out.items()
        }


def fit(
    X: Floats,
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
    run: Runner = map,
    start: NDArray[np.int16] | None = None,
    names: Sequence[str] = (),
    salvage: bool = False,
) -> FitResult:
    """Fit a model to a data set.

    Restart r draws from `SeedSequence(seed, spawn_key=(r,))`, so more restarts only add to fewer.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs. The model "unsupervised" ignores them, and the agreement score does not.
    n_clusters, model, covariance
        Number of clusters, and names of the model and of the shape. "auto" chooses a shape; "any", which the
        model "conditional-any" implies, chooses a structure.
    restarts : int
        Number of independent runs of the search.
    settings : Settings
        Settings of the search and of the objective.
    seed : int
        Seed of all random streams.
    labels_true : ndarray of shape (n_samples,), optional
        Classes from 0, for the scores.
    predict_annotations : bool
        Whether the model predicts held-out annotations, which a choice of the shape needs in any case.
    confidence : bool
        Whether chains from the solution give the confidence in its labels.
    run : callable
        Function like `map`, which may make several calls at once.
    start : ndarray of shape (n_samples,), int16, optional
        Partition from which the first restart begins.
    names : sequence of str
        Names of the features, for alarms.
    salvage : bool
        Whether Ctrl-C gives the best of the restarts that are done, if there is one, and no exception.

    Raises
    ------
    ValueError
        If the problem admits no solution or has none that makes sense.
    """
    recorder, whole_model = CallRecorder(run), Model.from_name(model, covariance, settings)
    whole_model = replace(whole_model, has_groups=True)
    solver = prepare(whole_model, X, layers, n_clusters, SeedSequence(seed), run=recorder.run)
    run_interruptibly(partial(solver.warm_up, predict=predict_annotations))
    start_times = time.perf_counter(), time.process_time()  # compiled by now
    streams = [SeedSequence(seed, spawn_key=(restart,)) for restart in range(restarts)]
    try:
        choice = run_interruptibly(partial(solver.solve, streams, predict=predict_annotations, start=start))
    except KeyboardInterrupt:
        salvaged = solver.salvage(recorder.finished_calls) if salvage else None
        if salvaged is None:
            raise
        choice = salvaged
    time_spent = np.subtract((time.perf_counter(), time.process_time()), start_times).tolist()
    fits, best = choice.fits, best_of([restart.objective for restart in choice.fits])
    solution = fits[best]
    certainty = find_confidence(solver, fits, best, seed) if confidence else None
    of_pairs = [layer for layer in layers if not layer.is_of_labels]
    has_prior, dims = settings.variance_prior > 0, solver.features_used
    remarks = notes.solution_notes(X, solution, covariance=choice.covariance, dims=dims, has_prior=has_prior)
    candidate = choice.candidates.get(choice.name)
    skill = None if choice.has_no_skill else candidate
    cut = f"interrupted: the best of {len(fits)} of {plural(restarts, 'restart')}"
    return FitResult(
        model=whole_model.name,
        covariance=choice.covariance,
        feature_weight=solver.feature_weight,
        settings=settings,
        best=solution,
        best_restart=best,
        restart_objectives=np.array([restart.objective for restart in fits]),
        **{name: sum(getattr(restart, name) for restart in fits) for name in WORK},
        seconds=time_spent[0],
        cpu_seconds=time_spent[1],
        scores=_scores(X, of_pairs, solution, labels_true, choice.covariance, settings),
        features_used=dims,
        held_out=choice.candidates,
        notes=(*choice.notes, *remarks, *(certainty.notes() if certainty else ())),
        alarms=(
            *([cut] if choice.is_interrupted and not choice.alarms else []),
            *choice.alarms,
            *alarms.skill_alarm(skill, choice.base_rate),
            *alarms.distance_alarm(choice.skill),
            *alarms.answers_alone_alarm(X, solution, choice.skill, choice.base_rate),
            *alarms.alarms_of(X, of_pairs, solution.labels, n_clusters, names),
            *(() if choice.covariance in MERGED_KINDS else alarms.restart_alarm(fits, best)),
        ),
        confidence=certainty,
        criteria=partial(solver.criteria, solution),
        predicted=choice.predictions,
        base_rate=choice.base_rate,
        skill=choice.skill,
        words=choice.words,
        n_averaged=choice.n_averaged,
        foresight=foresight(candidate, layers, no_skill=choice.has_no_skill, skill=choice.skill),
        interrupted=choice.is_interrupted,
    )


def _scores(
    X: Floats,
    layers: Sequence[Layer],
    best: Fit,
    labels_true: NDArray[np.integer] | None,
    covariance: str,
    settings: Settings,
) -> dict[str, float | None]:
    values = dict.fromkeys((*AGREEMENT, "goldberger_kl", "centroid_index"), math.nan)
    values["annotation_agreement"] = weighted_agreement(layers, best.labels)
    if labels_true is not None:
        n_classes, prior = int(labels_true.max()) + 1, settings.covariance_prior
        covariance = covariance if best.gaussians is None else "spherical"
        sizes, centroids, _ = scores.cluster_gaussians(X, labels_true, n_classes)
        covariances = scores.cluster_covariances(X, labels_true, n_classes, covariance, prior)
        solution, total = (best.sizes, best.centroids, best.covariances), scores.total_variance(X)
        values["goldberger_kl"] = scores.goldberger_kl(*solution, sizes, centroids, covariances, total)
        values["centroid_index"] = scores.centroid_index(best.centroids, centroids)
        values |= with_truth(labels_true, best.labels)
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def foresight(
    score: HeldOut | None, layers: Sequence[Layer], *, no_skill: bool = False, skill: Skill | None = None
) -> str:
    """Say how well a model predicts held-out answers, beside an answer that is always the same.

    A model has no skill if its predictions are no better than those by the share of must-links.
    """
    if score is None and not no_skill:
        return ""
    if skill is not None and not no_skill:
        score, bar = skill.with_distance, f"by distance alone it would be {skill.distance.share_right:.0%}"
    else:
        must = alarms.PairAnswers(layers).must_share
        always, share = ("together", must) if must > 0.5 else ("apart", 1.0 - must)
        bar = f"always answering *{always}* would be right for {share:.0%}"
    if score is None or no_skill:
        return f"predicts answers that it had not seen no better than a constant: {bar}"
    return f"predicts {score.share_right:.0%} of the answers that it had not seen; {bar}"


def to_json(result: FitResult) -> dict[str, Any]:
    """Return the result as plain values that strict JSON can hold; labels count from 0."""
    of_fit = ("model", "covariance", "feature_weight", "covariances", "restart_objectives", "best_restart")
    times = ("local_searches", "evaluations", "seconds", "cpu_seconds")
    of_best = ("objective", "gmm", "sbm", "prior", "labels", "sizes", "centroids")
    values: dict[str, Any] = {name: getattr(result, name) for name in of_fit + times}
    values |= {name: getattr(result.best, name) for name in of_best}
    values |= {"method": method_words(result.settings), "settings": vars(result.settings)}
    values |= {"scores": result.scores, "held_out": result.predictions, "notes": list(result.notes)}
    values |= {"alarms": list(result.alarms), "classes": result.choice}
    values |= result.confidence.to_json() if result.confidence else {}
    values |= _union_json(result) if result.solution is not None else {}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()
    }


def _union_json(result: FitResult) -> dict[str, Any]:
    solution, base = present(result.solution), result.base_rate
    structure, names = solution.structure, ("class_of", "weights", "means", "covariances")
    return {
        "structure": {"text": str(structure), **structure._asdict()},
        "components": {name: getattr(solution, name).tolist() for name in names},
        "center": solution.center.tolist(),
        "axes": None if solution.axes is None else solution.axes.tolist(),
        "base_rate": None if base is None else {"log_loss": base.log_loss, "share_right": base.share_right},
        "membership": solution.classes.tolist(),
    }


def weighted_agreement(layers: Sequence[Layer], labels: NDArray[np.integer]) -> float:
    """Return the share of the annotations that agree with a partition, by weight, or NaN if there are none.

    If all weights are 1 it is `kernels.scores.annotation_agreement`.
    """
    agreeing_weight = sum(float(layer_weights(layer)[is_agreement(layer, labels)].sum()) for layer in layers)
    total = sum(float(layer_weights(layer).sum()) for layer in layers)
    return agreeing_weight / total if total else math.nan


@dataclass(frozen=True)
class Unannotated:
    """Scores by `AGREEMENT` of the best start of a method without annotations, or why it has none."""

    key: str
    name: str
    starts: int
    scores: dict[str, float | None]
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}, without annotations: none, {self.reason}"
        # The line of the fit above has the whole names of the normalisers.
        values = re.sub(r"\((\w+), as [\w -]+\)", r"(\1)", score_words(self.scores))
        return f"{self.name}, without annotations, best of {self.starts}: {values}"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self.scores, "starts": self.starts, "reason": self.reason or None}


def with_truth(labels_true: NDArray[np.integer], labels: NDArray[np.integer]) -> dict[str, float]:
    """Return the scores of a partition against true classes, by the keys of `AGREEMENT`."""
    return {
        "nmi": scores.nmi(labels_true, labels),
        "nmi_arithmetic": scores.nmi(labels_true, labels, "arithmetic"),
        "ari": scores.adjusted_rand(labels_true, labels),
    }


def score_words(values: Mapping[str, float | None]) -> str:
    """Return the known ones of some scores in one line, with the normaliser of an NMI."""
    return ", ".join(
        f"{AGREEMENT.get(name, name)} {value:.4g}" for name, value in values.items() if value is not None
    )


def unannotated(
    X: Floats, labels_true: NDArray[np.integer] | None, n_clusters: int, seed: int
) -> tuple[Unannotated, ...]:
    """Return k-means and a mixture of Gaussians with full covariances; neither without true classes."""
    if labels_true is None:
        return ()
    # scikit-learn is loaded only if it is needed.
    from sweep_clustering.pipeline.methods.shipped.baselines import gaussian_mixture_full, k_means

    step = float(len(X)) * n_clusters * X.shape[1]
    inputs = (X, labels_true, n_clusters, seed)
    names = ("gaussian_mixture_full", "mixture of full Gaussians")
    return (
        _best(k_means, ("k_means", "k-means"), step, *inputs),
        _best(gaussian_mixture_full, names, step * X.shape[1], *inputs),
    )


def _best(
    method: Callable[..., Any],
    names: tuple[str, str],
    step: float,
    X: Floats,
    labels_true: NDArray[np.integer],
    n_clusters: int,
    seed: int,
) -> Unannotated:
    """Return the best of some starts of a method, whose step takes so many multiplications."""
    from sweep_clustering.pipeline.methods.contract import NoSolution

    starts = int(min(max(BASELINE_WORK // step, 1), BASELINE_STARTS))
    no_scores: dict[str, float | None] = dict.fromkeys(AGREEMENT)
    if step > MOST_BASELINE_WORK:
        return Unannotated(*names, 0, no_scores, "the table is too large to try it here")
    states = np.random.SeedSequence(seed).generate_state(starts).tolist()
    # One thread, because the bits of sums depend on the number of threads.
    with threadpool_limits(1), warnings.catch_warnings():
        # The scores show a fit that did not converge, or that has fewer distinct rows than clusters.
        warnings.simplefilter("ignore")
        try:
            solutions = [method(X, n_clusters, random_state=state) for state in states]
        except (NoSolution, ValueError) as error:
            return Unannotated(*names, 0, no_scores, " ".join(str(error).split()))
    best = max(solutions, key=lambda solution: solution.objective)
    return Unannotated(*names, starts, {**with_truth(labels_true, np.asarray(best.labels))})
