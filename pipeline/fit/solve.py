"""One data set, one set of annotations, no cube: the best of some restarts, and what to know of it.

`fit` gives a `FitResult`, which `to_json` makes plain; how sure its labels are is said by `find_confidence`,
what to know before trusting it by the notes, and `assignment_costs` are what new samples cost in each of its
clusters.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels import components, scores
from sweep_clustering.kernels.choice import held_out as predictions
from sweep_clustering.kernels.choice.structures import (
    Settled,
    StructureChoice,
    best_so_far,
    settle,
    structure_choice,
)
from sweep_clustering.kernels.choice.table import Solution, Table, as_restart
from sweep_clustering.kernels.interrupt import run_interruptibly
from sweep_clustering.kernels.problem.data import DEGENERATE, agrees, layer_weights
from sweep_clustering.kernels.problem.problem import SPHERES, Layer, Problem, build_problem
from sweep_clustering.kernels.search.genetic import CLONE, Restart, run_restart, warm_up
from sweep_clustering.kernels.search.sampling import Length, run_chain
from sweep_clustering.kernels.settings import MODEL_ANY, Settings, method_words
from sweep_clustering.kernels.structure import ANY, AUTO, CANDIDATES, UNION, kind_of
from sweep_clustering.pipeline.common import SAME_OPTIMUM, best_of, plural
from sweep_clustering.pipeline.fit import alarms
from sweep_clustering.pipeline.fit import data_notes as notes
from sweep_clustering.pipeline.fit.unannotated import AGREEMENT, score_words, with_truth
from sweep_clustering.sweeps.errors import present

# Cost of a sample in each cluster: minus its log-density, but for a constant (model.md, eqs. (24), (50)).

Floats = NDArray[np.float64]


def assignment_costs(X: Floats, centers: Floats, covariances: Floats, kept: NDArray[np.int64]) -> Floats:
    """Half the squared distance by the covariance, plus half its log-determinant.

    Each row is summed by itself: no bit of the cost of a sample depends on the other rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    centers : ndarray of shape (n_clusters, n_features)
        Means.
    covariances : ndarray of shape (n_clusters,) and, as the shape has it, n_features once or twice
        All 0 for a degenerate cluster.
    kept : ndarray of shape (n_dims,)
        Features on which the Gaussians have a density; the others are left out.

    Returns
    -------
    ndarray of shape (n_samples, n_clusters)
        Nats; infinite for a degenerate cluster.
    """
    costs = np.full((len(X), len(centers)), np.inf)
    # One cluster at a time: no temporary of all distances.
    for cluster, covariance in enumerate(covariances):
        if not covariance.any():
            continue
        is_matrix = covariance.ndim == 2
        variances = np.broadcast_to(covariance.diagonal() if is_matrix else covariance, X.shape[1])[kept]
        deviations = np.sqrt(variances)
        logs = np.log(deviations).sum()
        scaled = np.ascontiguousarray((X - centers[cluster])[:, kept] / deviations)
        if is_matrix:
            # Scaled to a diagonal of ones: units of features may differ by any factor.
            factor = np.linalg.cholesky(covariance[np.ix_(kept, kept)] / np.outer(deviations, deviations))
            logs += np.log(factor.diagonal()).sum()
            # no product of matrices: its last bits depend on the other rows
            scaled = np.column_stack([(scaled * row).sum(axis=1) for row in np.linalg.inv(factor)])
        costs[:, cluster] = 0.5 * np.square(scaled).sum(axis=1) + logs
    return costs


# How sure a solution is of each label: shares of draws from chains (docs/model.md, section 9).

CHAINS = 4
LENGTH = Length(burn_in=250, draws=250, thin=4)

# Nats below the best restart, up to which another one starts a chain.
REACH = 10.0

# Labels of all draws together, 200 MB: with more than 100,000 samples fewer draws are kept.
LARGEST = 10**8

# First place of the spawn keys of chains; those of restarts have one place only.
STREAM = 1

# Beyond either, a note says that chains disagree; good chains of 10,000 samples come near the second.
LARGEST_R_HAT, LEAST_AGREEMENT = 1.1, 0.5

# Labels of less confidence are counted.
UNSURE = 0.9


@dataclass(frozen=True, eq=False)
class Confidence:
    """Partitions drawn with probability proportional to exp(objective), and what they say.

    The parameters are at their best for each partition, not integrated over.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int16
        The solution.
    label_draws : ndarray of shape (n_draws, n_samples), int16
        Partitions, chain after chain; their clusters are numbered to share as many labels as possible with
        the solution.
    membership : ndarray of shape (n_samples, n_clusters)
        Share of the draws in which a sample is in a cluster; rows add up to 1.
    r_hat : float
        Split R-hat of the objective or of the agreement with the solution, whichever is larger: near 1 if
        chains agree, infinite if none of them moves and they differ.
    chain_agreement : float
        1 less the largest difference between the memberships of two chains.
    starts : int
        Distinct restarts that the chains started from.
    seconds : float
        Elapsed in the chains, compilation of kernels included.
    """

    labels: NDArray[np.int16]
    label_draws: NDArray[np.int16]
    membership: Floats
    r_hat: float
    chain_agreement: float
    starts: int
    seconds: float

    @property
    def confidence(self) -> Floats:
        """Membership of each sample in the cluster of its label, of shape (n_samples,)."""
        return self.membership[np.arange(len(self.labels)), self.labels]

    @property
    def expected_accuracy(self) -> float:
        """Mean confidence: the share of labels that is right, if the model is."""
        return float(self.confidence.mean())

    def to_json(self) -> dict[str, Any]:
        """Values that strict JSON can hold, but for arrays."""
        names = ("membership", "confidence", "expected_accuracy", "r_hat", "chain_agreement")
        values = {name: getattr(self, name) for name in names}
        return values | {"r_hat": self.r_hat if np.isfinite(self.r_hat) else None}

    def lines(self) -> list[str]:
        """Two lines, for people."""
        unsure = f"{int((self.confidence < UNSURE).sum())} below {UNSURE:g}"
        expected = f"{self.expected_accuracy:.3f} of the labels expected right, if the model is; {unsure}"
        agree = f"R-hat {self.r_hat:.3f}, agreement {self.chain_agreement:.3f}, {self.seconds:.3f} s"
        starts = plural(self.starts, "distinct restart")
        return [f"confidence {expected}", f"chains     {CHAINS} from {starts}, {agree}"]

    def notes(self) -> Iterator[str]:
        """Say where chains disagree."""
        if self.r_hat > LARGEST_R_HAT or self.chain_agreement < LEAST_AGREEMENT:
            yield (
                f"chains disagree: R-hat {self.r_hat:.3g}, and memberships differ by up to"
                f" {1 - self.chain_agreement:.2g}; the confidence depends on where chains start"
            )


def find_confidence(problem: Problem, runs: Sequence[Restart], best: int, seed: int) -> Confidence:
    """Run chains from the best distinct restarts.

    Chain c draws from `SeedSequence(seed, spawn_key=(1, c))`, and starts from the best restart, the next
    distinct one, and so on in turn.

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    runs : sequence of Restart
        All restarts.
    best : int
        Which of them is the solution.
    seed : int
        Of all randomness.
    """
    began = time.perf_counter()
    starts = distinct_starts(runs, best)
    labels = runs[best].labels
    length = LENGTH._replace(draws=max(2, min(LENGTH.draws, LARGEST // (CHAINS * len(labels)))))
    chains = []
    for chain in range(CHAINS):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, chain)))
        chains.append(run_chain(problem, starts[chain % len(starts)].labels, labels, length, rng))
    clusters = range(problem.n_clusters)
    shares = np.array(
        [np.stack([(chain.labels == k).mean(axis=0) for k in clusters], axis=1) for chain in chains]
    )
    agreements = np.array([(chain.labels == labels).mean(axis=1) for chain in chains])
    return Confidence(
        labels=labels,
        label_draws=np.concatenate([chain.labels for chain in chains]),
        membership=shares.mean(axis=0),
        r_hat=max(split_r_hat(np.array([chain.objectives for chain in chains])), split_r_hat(agreements)),
        chain_agreement=1.0 - float(np.ptp(shares, axis=0).max()),
        starts=min(len(starts), CHAINS),
        seconds=time.perf_counter() - began,
    )


def distinct_starts(runs: Sequence[Restart], best: int) -> list[Restart]:
    """The solution, then other restarts within reach, best first, without clones (model.md, section 3)."""
    starts = [runs[best]]
    for run in sorted(runs, key=lambda run: -run.objective):
        is_near = run.objective >= runs[best].objective - REACH
        are_clones = (
            abs(run.objective - start.objective) <= CLONE
            and (np.sort(run.sizes) == np.sort(start.sizes)).all()
            for start in starts
        )
        if is_near and not any(are_clones):
            starts.append(run)
    return starts


def split_r_hat(values: Floats) -> float:
    """Gelman and Rubin's R-hat of chains cut into halves.

    Parameters
    ----------
    values : ndarray of shape (n_chains, n_draws)
        A number for each draw; an odd one in the middle is left out.

    Returns
    -------
    float
        1 if all values are the same; infinite if they differ between halves alone.
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    # Differences by rounding, such as of one objective computed along two paths, are none.
    rounding = 1e-9 * (1.0 + float(np.abs(values).max()))
    within = float(halves.var(axis=1, ddof=min(1, half - 1)).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within <= rounding**2:
        return 1.0 if between <= rounding**2 else np.inf
    return float(np.sqrt((half - 1) / half + between / within))


# What to know of features and solution before trusting a fit.

# Variance of a cluster over that of all samples, below which nearly equal rows outweigh everything else.
NEARLY_DEGENERATE = 1e-6

NOTHING = "it adds nothing to the objective, whose best then depends on units"
SHAPE_BOUND = "a prior (--covariance-prior, covariance_prior above 0) bounds it"


def solution_notes(X: Floats, best: Restart, problem: Problem) -> Iterator[str]:
    """Say where the likelihood is unbounded or features carry nothing (docs/model.md, eqs. (6), (7)).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    best : Restart
        The solution.
    problem : Problem
        What it solves.

    Yields
    ------
    str
        A sentence; none for most data.
    """
    groups, counted, has_prior = notes.equal_rows(X), notes.counted, problem.data.kappa > 0
    if problem.covariance not in SPHERES:
        yield from notes.feature_notes(X)
        given = X.shape[1] - len(problem.dims) - notes.constant(X).sum()
        text = "given by the others: the covariances leave {} out"
        yield from notes.shared(max(given, 0), X.shape[1], text)
        degenerate = ~best.covariances.reshape(len(best.sizes), -1).any(axis=1)
        text = f"degenerate, without variance in some feature: {NOTHING}; {SHAPE_BOUND}"
        yield from counted(degenerate.sum(), "cluster", "is", "are", text)
        if problem.covariance == "full":
            text = "no more samples than features: its covariance owes much to the prior"
            yield from counted((best.sizes <= len(problem.dims)).sum(), "cluster", "has", "have", text)
        yield from notes.crowding_notes(groups, problem.n_clusters)
        return
    yield from notes.feature_notes(X, have_one_unit=True)
    yield from notes.crowding_notes(groups, problem.n_clusters)
    sizes, _, variances = scores.cluster_gaussians(X, best.labels, problem.n_clusters)
    ratios = variances / scores.total_variance(X)
    degenerate = (sizes <= 1) | (ratios <= DEGENERATE)
    if problem.covariance == "common":
        if float(sizes @ ratios) / len(X) < NEARLY_DEGENERATE:
            effect = f"is next to 0, and the objective no measure of anything; {notes.BOUND}"
            effect = "comes from the prior alone" if has_prior else effect
            yield f"all clusters hold nothing but (nearly) equal rows: the common variance {effect}"
    elif has_prior:
        text = "nothing but (nearly) equal rows: the variance comes from the prior alone"
        yield from counted(degenerate.sum(), "cluster", "holds", "hold", text)
    else:
        text = f"degenerate, a single row or (nearly) equal ones: {NOTHING}; {notes.BOUND}"
        yield from counted(degenerate.sum(), "cluster", "is", "are", text)
        if not degenerate.any():
            yield from notes.repeat_notes(groups)
        near = (ratios < NEARLY_DEGENERATE) & ~degenerate
        text = (
            f"a variance below {NEARLY_DEGENERATE:g} of the overall one: nearly equal rows, which outweigh"
            f" the rest of the objective; {notes.BOUND}"
        )
        yield from counted(near.sum(), "cluster", "has", "have", text)


# Of a restart, what all of them took together.
WORK = ("local_searches", "evaluations", "caps_reached")

Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

# Draws from a soft partition, in place of those of chains.
UNION_DRAWS = 1000


class Finished:
    """Results as they come in, for who does not wait for all of them.

    Parameters
    ----------
    run : callable
        As of `fit`.
    """

    def __init__(self, run: Runner) -> None:
        self.inner = run
        self.done: list[tuple[Any, Any]] = []

    def run(self, function: Callable[[Any], Any], numbers: Iterable[Any]) -> Iterable[Any]:
        """What the runner does; `done` has what each result was found for, of calls that have one."""

        def one(number: Any) -> Any:
            found = function(number)
            if found is not None:
                self.done.append((number, found))
            return found

        return self.inner(one, numbers)

    @property
    def results(self) -> list[Any]:
        """What was found."""
        return [found for _, found in self.done]


def _cut(count: int, restarts: int) -> str:
    return f"interrupted: the best of {count} of {plural(restarts, 'restart')}"


@dataclass(frozen=True, eq=False)
class FitResult:
    """Best of some restarts, and what they took.

    Parameters
    ----------
    model, covariance : str
        As of `kernels.problem.problem.build_problem`; of components, their shape.
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
    scores : dict of str to (float or None)
        How good the solution is (model.md, section 5), by name; None where a score is not defined or what it
        needs is not known. nmi : normalised mutual information with the true labels, normalizer "min".
        nmi_arithmetic : the same with that of scikit-learn. ari : adjusted Rand index with the true labels.
        goldberger_kl : nats, in the scaled features. centroid_index : centroids that are nearest to no
        centroid of the truth, or the other way round if that is more. annotation_agreement : share of the
        annotations that the solution agrees with.
    kept : ndarray of shape (n_dims,)
        Features on which the Gaussians have a density.
    held_out : dict of str to HeldOut
        By shape, or structure, how well the model predicted annotations that it had not seen: of all
        candidates if there was a choice; empty if that was not asked for.
    notes : tuple of str
        What to know of the features and the solution before trusting it.
    confidence : Confidence or None
        How sure the labels are, if that was asked for.
    solution : Solution or None
        Of classes of several components or in a subspace: these, and the subspace. The clusters of `best` are
        then classes, and its covariances spherical.
    base_rate : HeldOut or None
        Predictions by how often annotations are must-links, beside those of structures.
    choice : str
        What classes are made of and what that predicts, in a line.
    alarms : tuple of str
        What says that the solution may be nonsense, and what to do about it.
    interrupted : bool
        Whether restarts were left out, as somebody pressed Ctrl-C.
    """

    model: str
    covariance: str
    feature_weight: float
    settings: Settings
    best: Restart
    best_restart: int
    restart_objectives: Floats
    local_searches: int
    evaluations: int
    caps_reached: int
    seconds: float
    cpu_seconds: float
    scores: dict[str, float | None]
    kept: NDArray[np.int64]
    held_out: dict[str, predictions.HeldOut]
    notes: tuple[str, ...]
    confidence: Confidence | None = None
    solution: Solution | None = None
    base_rate: predictions.HeldOut | None = None
    choice: str = ""
    alarms: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def covariances(self) -> Floats:
        """Covariances of the solution: one matrix if it is tied, else as of `Restart`."""
        is_one = self.covariance == "tied" and self.solution is None
        return self.best.covariances[0] if is_one else self.best.covariances

    @property
    def structure(self) -> str:
        """What classes are made of, in words."""
        return f"{self.covariance} covariance" if self.solution is None else str(self.solution.structure)

    @property
    def score_words(self) -> str:
        """Scores that are known, in one line."""
        return score_words(self.scores)

    @property
    def predictions(self) -> dict[str, dict[str, float]]:
        """By shape, log loss in nats of held-out annotations and the share of them that were predicted."""
        names = ("log_loss", "share_right")
        return {shape: {name: getattr(each, name) for name in names} for shape, each in self.held_out.items()}


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
        Annotation graphs. The model "unsupervised" does not see them, the agreement score does.
    n_clusters, model, covariance
        As of `kernels.problem.problem.build_problem`; the covariance may be "auto", see `choose_covariance`,
        or "any", see `kernels.choice.structures.settle`, which the model "conditional-any" is too.
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
    run : callable
        Applies a function to the numbers of the restarts, as `map` does, in order or at once; results come
        in order.
    start : ndarray of shape (n_samples,), int16, optional
        A partition that the first restart begins with.
    names : sequence of str
        Of the features, for alarms.
    salvage : bool
        Whether Ctrl-C gives the best of the restarts that are done, if one is, and no exception.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        If the problem admits no solution or has none that makes sense.
    """
    if model == MODEL_ANY:
        covariance = ANY
    elif covariance == ANY and model != "unsupervised":
        model = MODEL_ANY
    began = time.perf_counter(), time.process_time()
    if kind_of(covariance, settings) is UNION:
        run_interruptibly(components.warm_up)
        began = time.perf_counter(), time.process_time()  # compiled by now
        seen = () if model == "unsupervised" else layers
        streams = [np.random.SeedSequence(seed, spawn_key=(restart,)) for restart in range(restarts)]
        own: Any = {"covariance": covariance, "settings": settings, "predict": predict_annotations}
        table = Table(X, n_clusters, np.random.SeedSequence(seed))
        settled = _settled(table, seen, streams, run, salvage, own)
        return _of_union(
            X,
            layers,
            settled,
            model,
            settings,
            labels_true,
            seed if confidence else None,
            began,
            names,
        )
    is_auto, choice = covariance == AUTO, predictions.Choice(covariance, {})
    candidates = CANDIDATES if is_auto else (covariance,)
    given: Any = {"n_clusters": n_clusters, "model": model, "settings": settings}
    is_predicted = is_auto or predict_annotations
    # Before anything is compiled: bad input is answered at once.
    problem = build_problem(X, layers, covariance=candidates[0], **given)
    warm_up()
    if is_predicted and len(problem.data.annotated):
        predictions.warm_up()
    began = time.perf_counter(), time.process_time()  # compiled by now
    if is_predicted:
        given_all = {"seed": np.random.SeedSequence(seed), "candidates": candidates, **given}
        choice = run_interruptibly(lambda: predictions.choose_covariance(X, layers, **given_all))
        if choice.covariance != problem.covariance:
            problem = build_problem(X, layers, covariance=choice.covariance, **given)

    def one(restart: int) -> Restart:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(restart,)))
        return run_restart(problem, settings, rng, None if restart else start)

    done, cut = Finished(run), ""
    try:
        runs = run_interruptibly(lambda: list(done.run(one, range(restarts))))
    except KeyboardInterrupt:
        if not (salvage and done.done):
            raise
        runs = done.results
        cut = _cut(len(runs), restarts)
    spent = np.subtract((time.perf_counter(), time.process_time()), began).tolist()
    number = best_of([run.objective for run in runs])
    best = runs[number]
    sure = find_confidence(problem, runs, number, seed) if confidence else None
    work = {name: sum(getattr(run, name) for run in runs) for name in WORK}
    return FitResult(
        model=model,
        covariance=problem.covariance,
        feature_weight=problem.data.feature_weight,
        settings=settings,
        best=best,
        best_restart=number,
        restart_objectives=np.array([run.objective for run in runs]),
        **work,
        seconds=spent[0],
        cpu_seconds=spent[1],
        scores=_scores(X, layers, best, labels_true, problem.covariance, settings),
        kept=problem.dims,
        held_out=choice.candidates,
        notes=(
            *([choice.note] if is_auto and choice.note else []),
            *solution_notes(X, best, problem),
            *(sure.notes() if sure else ()),
        ),
        alarms=(*[cut] * bool(cut), *_alarms(X, layers, runs, number, n_clusters, names)),
        interrupted=len(runs) < restarts,
        confidence=sure,
        choice=skill_words(
            f"{problem.covariance} covariance", choice.candidates.get(problem.covariance), layers
        ),
    )


def _alarms(
    X: Floats,
    layers: Sequence[Layer],
    runs: Sequence[Restart],
    best: int,
    n_clusters: int,
    names: Sequence[str],
) -> tuple[str, ...]:
    as_good = sum(run.objective >= runs[best].objective - SAME_OPTIMUM for run in runs)
    alone = alarms.restart_alarm([run.labels for run in runs], best, as_good)
    return (*alarms.alarms_of(X, layers, runs[best].labels, n_clusters, names), *alone)


def _scores(
    X: Floats,
    layers: Sequence[Layer],
    best: Restart,
    labels_true: NDArray[np.integer] | None,
    covariance: str,
    settings: Settings,
) -> dict[str, float | None]:
    found = dict.fromkeys((*AGREEMENT, "goldberger_kl", "centroid_index"), math.nan)
    found["annotation_agreement"] = weighted_agreement(layers, best.labels)
    if labels_true is not None:
        n_classes, prior = int(labels_true.max()) + 1, settings.covariance_prior
        sizes, centroids, _ = scores.cluster_gaussians(X, labels_true, n_classes)
        covariances = scores.cluster_covariances(X, labels_true, n_classes, covariance, prior)
        solution, total = (best.sizes, best.centroids, best.covariances), scores.total_variance(X)
        found["goldberger_kl"] = scores.goldberger_kl(*solution, sizes, centroids, covariances, total)
        found["centroid_index"] = scores.centroid_index(best.centroids, centroids)
        found |= with_truth(labels_true, best.labels)
    return {name: None if math.isnan(value) else value for name, value in found.items()}


# Classes that are unions of components, or stand in a subspace.


def _settled(
    table: Table,
    seen: Sequence[Layer],
    streams: Sequence[np.random.SeedSequence],
    run: Runner,
    salvage: bool,
    own: dict[str, Any],
) -> Settled:
    """Choose structures and fit them; Ctrl-C gives the best that there is by then, if that is asked for."""
    tried, fitted = Finished(run), Finished(run)
    choice = StructureChoice((), {}, None)
    try:
        choice = run_interruptibly(lambda: structure_choice(table, seen, run=tried.run, **own))
        return run_interruptibly(
            lambda: settle(table, seen, streams=streams, run=fitted.run, choice=choice, **own)
        )
    except KeyboardInterrupt:
        if not (salvage and (tried.done or fitted.done)):
            raise
    if found := fitted.results:
        last = tuple(each for each in found if each.structure == found[-1].structure)
        cut = _cut(len(last), len(streams))
    else:
        last = (best_so_far(table, seen, tried.done),)
        cut = (
            f"interrupted while structures were compared: the best of {plural(len(tried.done), 'fit')},"
            " most of which saw four fifths of the annotations"
        )
    best = max(range(len(last)), key=lambda number: (last[number].union.bound, -number))
    return Settled(last[best].structure, choice, last, best, (), (cut,), interrupted=True)


def _of_union(
    X: Floats,
    layers: Sequence[Layer],
    settled: Settled,
    model: str,
    settings: Settings,
    labels_true: NDArray[np.integer] | None,
    drawn: int | None,
    began: tuple[float, float],
    names: Sequence[str],
) -> FitResult:
    """What was fitted, as a result; draws from it by a seed if its confidence was asked for."""
    spent = np.subtract((time.perf_counter(), time.process_time()), began).tolist()
    solution = settled.solutions[settled.best]
    runs = [as_restart(X, each) for each in settled.solutions]
    best, candidates = runs[settled.best], settled.choice.candidates
    no_skill = bool(settled.choice.note) and settled.choice.base_rate is not None
    skill = candidates.get(settled.structure), settled.choice.base_rate
    barely = () if no_skill else alarms.skill_alarm(*skill)
    sure = None if drawn is None else union_confidence(solution, drawn)
    return FitResult(
        model=model,
        covariance=settled.structure.covariance,
        feature_weight=1.0,
        settings=settings,
        best=best,
        best_restart=settled.best,
        restart_objectives=np.array([run.objective for run in runs]),
        **{name: sum(getattr(run, name) for run in runs) for name in WORK},
        seconds=spent[0],
        cpu_seconds=spent[1],
        scores=_scores(X, layers, best, labels_true, "spherical", settings),
        kept=np.arange(X.shape[1]),
        held_out={str(each): found for each, found in candidates.items()},
        notes=(*(note for note in settled.notes if note not in settled.alarms), *union_notes(X, solution)),
        alarms=(*settled.alarms, *barely, *_alarms(X, layers, runs, settled.best, len(best.sizes), names)),
        confidence=sure,
        solution=solution,
        base_rate=settled.choice.base_rate,
        interrupted=settled.interrupted,
        choice=skill_words(
            settled.structure.words, candidates.get(settled.structure), layers, no_skill=no_skill
        ),
    )


def skill_words(
    words: str, found: predictions.HeldOut | None, layers: Sequence[Layer], *, no_skill: bool = False
) -> str:
    """What a model is, and what it predicts beside an answer that is always the same.

    Parameters
    ----------
    words : str
        What it is.
    found : HeldOut or None
        How well it predicted annotations.
    layers : sequence of Layer
        Annotations.
    no_skill : bool
        Whether it is no better than how often annotations are must-links.
    """
    if found is None and not no_skill:
        return words
    must = alarms.Annotated(layers).must_share
    always, share = ("together", must) if must > 0.5 else ("apart", 1.0 - must)
    if found is None or no_skill:
        return f"{words}; predicts held-out answers no better than always answering *{always}* ({share:.0%})"
    return (
        f"{words}; predicts {found.share_right:.0%} of held-out answers,"
        f" {share:.0%} is what always answering *{always}* would"
    )


def union_confidence(solution: Solution, seed: int) -> Confidence:
    """Shares of the classes as confidence, with partitions drawn from them; no chains are needed.

    Samples are drawn each by itself, as the soft partition has them (docs/model.md, section 12).
    """
    began, union = time.perf_counter(), solution.union
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, 0)))
    draws = union.draws(max(2, min(UNION_DRAWS, LARGEST // len(union.classes))), rng)
    seconds = time.perf_counter() - began
    return Confidence(union.labels, draws, union.classes, 1.0, 1.0, 1, seconds)


def union_notes(X: Floats, solution: Solution) -> Iterator[str]:
    """Say where classes are empty or next to it, and where components are nearly flat."""
    union, counted = solution.union, notes.counted
    sizes = np.bincount(union.labels, minlength=union.classes.shape[1])
    yield from counted((sizes == 0).sum(), "cluster", "is", "are", "empty: no sample is likeliest there")
    yield from counted((sizes == 1).sum(), "cluster", "holds", "hold", "a single sample")
    Z = solution.place(X)
    overall = max(float(Z.var(axis=0).max()), np.finfo(float).tiny)
    covariances = union.covariances
    least = np.linalg.eigvalsh(covariances)[:, 0] if covariances.ndim == 3 else covariances.min(axis=1)
    flat = int((least < NEARLY_DEGENERATE * overall).sum())
    text = f"nearly flat: of a variance below {NEARLY_DEGENERATE:g} of the largest one, which is the prior's"
    yield from counted(flat, "component", "is", "are", text)
    yield from notes.feature_notes(X)
    yield from notes.crowding_notes(notes.equal_rows(X), union.classes.shape[1])


def to_json(result: FitResult) -> dict[str, Any]:
    """The result as plain values that strict JSON can hold; labels count from 0."""
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
    return {name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in values.items()}


def _union_json(result: FitResult) -> dict[str, Any]:
    solution, base = present(result.solution), result.base_rate
    union, structure = solution.union, solution.structure
    return {
        "structure": {"text": str(structure), **structure._asdict()},
        "components": {
            "class_of": union.class_of.tolist(),
            "weights": union.weights.tolist(),
            "means": union.means.tolist(),
            "covariances": union.covariances.tolist(),
        },
        "center": solution.center.tolist(),
        "axes": None if solution.axes is None else solution.axes.tolist(),
        "base_rate": None if base is None else {"log_loss": base.log_loss, "share_right": base.share_right},
        "membership": union.classes.tolist(),
    }


def weighted_agreement(layers: Sequence[Layer], labels: NDArray[np.integer]) -> float:
    """Share of the annotations that agree with a partition; a pair counts as the annotations it stands for.

    Returns
    -------
    float
        NaN without annotations; as `kernels.scores.annotation_agreement` if all weights are 1.
    """
    agreeing = sum(float(layer_weights(layer)[agrees(layer, labels)].sum()) for layer in layers)
    total = sum(float(layer_weights(layer).sum()) for layer in layers)
    return agreeing / total if total else math.nan
