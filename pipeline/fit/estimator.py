"""The search as an estimator with scikit-learn's conventions."""

from __future__ import annotations

import inspect
import math
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, validation

from sweep_clustering.kernels import settings as declared
from sweep_clustering.kernels.fits import Floats, assignment_costs
from sweep_clustering.kernels.interrupt import run_interruptibly
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, count_distinct
from sweep_clustering.kernels.problem.hard import hard_pairs
from sweep_clustering.kernels.problem.problem import SPHERES
from sweep_clustering.kernels.settings import OFFERED, PARAMETERS, UNLABELLED, Setting
from sweep_clustering.kernels.structure import AUTO
from sweep_clustering.pipeline.asking.belief import believe, shape_to_ask
from sweep_clustering.pipeline.asking.strategies import choose
from sweep_clustering.pipeline.fit import inputs
from sweep_clustering.pipeline.fit.confidence import below_chance, estimate, estimates_json, judge_unsure
from sweep_clustering.pipeline.fit.counts import TRIED
from sweep_clustering.pipeline.fit.data_notes import data_notes
from sweep_clustering.pipeline.fit.links import (
    Annotations,
    Frames,
    LinkTables,
    Reader,
    check_unmasked,
    labels_of,
    names_of,
    plain,
)
from sweep_clustering.pipeline.fit.running import fit_table, progress, runner
from sweep_clustering.pipeline.fit.summary import fit_html
from sweep_clustering.sweeps.data.reading import scaling_of
from sweep_clustering.sweeps.errors import Problem, collecting, did_you_mean, not_one_of, raise_all, refused
from sweep_clustering.sweeps.words import STRATEGIES

# Attributes by the part of a result that has them under the same names; the last only with `confidence`.
OF_RESULT: tuple[str, ...] = ("covariance", "covariances", "model", "feature_weight", "restart_objectives")
OF_RESULT += ("best_restart", "structure", "solution", "choice")
OF_BEST = ("sizes", "objective", "gmm", "sbm", "prior")
CONFIDENCE = ("membership", "confidence", "label_draws", "r_hat", "chain_agreement")

LARGEST_DRAWN_SEED = np.iinfo(np.int32).max

# First part of the key of the random streams of queries: restarts have the numbers below.
QUERY = 1_000_000

# Most restarts of the search before a query, the first of which begins with the solution of the fit.
MOST_RESTARTS = 3

# Share of the restarts that `partial_fit` runs is one of so many, and at least one restart.
LEAST_RESTARTS = 3

# Costs from here on, in nats, have no exact differences and sums.
FARTHEST = 1e300


class AnnotatedClusteringWarning(UserWarning):
    """A reason to look at a fit before using it.

    Parameters
    ----------
    *args : str
        Text of the reason.

    Examples
    --------
    >>> import warnings
    >>> from sweep_clustering import AnnotatedClusteringWarning
    >>> warnings.simplefilter("ignore", AnnotatedClusteringWarning)
    """


class Query(NamedTuple):
    """Pairs to ask next, best first.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Samples by the names that links of the fit use. No pair comes twice, nor the upper row of X second.
    together : ndarray of shape (n_pairs,)
        Probability that the samples belong together, given the model and all answers.
    information : ndarray of shape (n_pairs,)
        Information in the answer about which samples belong together, in nats.
    positions : ndarray of shape (n_pairs, 2), int64
        Rows of X of the same pairs, from 0.
    """

    pairs: NDArray[Any]
    together: Floats
    information: Floats
    positions: NDArray[np.int64]


class AnnotatedClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Semi-supervised clustering with inaccurate pairwise annotations.

    The hybrid genetic search fits Gaussians for the features together with a model of the annotations
    (docs/model.md, sections 2, 3, 6 and 7), as `sweep fit` does.

    Parameters
    ----------
    n_clusters : int or None, default=None
        K. With None, 2 to 10 are fitted, and held-out annotations choose the number, or without any the
        features.
    model : {"auto", "unsupervised", "likelihood", "posterior", "conditional", "conditional-any"}
        Objective. "auto", the default, is "conditional-any" with links; without any, the features choose
        among k-means and Gaussian mixtures. With a named covariance, components or subspace it is
        "conditional", or "unsupervised" without links. "posterior" and "likelihood" are the source paper's.
        "conditional" asks only whether the annotated pairs are right, whichever pairs were annotated.
        "conditional-any" does so for classes of any shape: held-out annotations choose covariance,
        components and subspace (docs/model.md, section 12).
    covariance : {"spherical", "common", "diagonal", "tied", "full", "auto", "any"}, default=None
        Shape of the covariances: one variance for each cluster, or one that all share; one for each cluster
        and feature; one matrix that all clusters share, or one for each. "auto" is the shape that predicts
        held-out annotations best (docs/model.md, section 8), "any" that of "conditional-any". None is "any"
        with the model "auto", else "spherical".
    scale : {"auto", "none", "standard", "minmax"}, default=None
        Scaling of the features. "auto" gives each the standard deviation 1, but leaves features of one unit
        and columns of 0 and 1 alone. None is "auto" for classes of any shape, else "none".
    accuracy : float, default=None
        Assumed share of correct annotations, in (0, 1]. "posterior" needs it, "conditional" fits it if it is
        None, and the others do not use it.
    annotator_accuracy : dict of str to float, default=None
        Accuracies of single annotators, in place of `accuracy`.
    label_accuracy : float, default=0.9
        Assumed share of right labels in `row_labels` of `fit`, above that of chance.
    links_outside : {"error", "drop"}, default="error"
        Whether links with a sample that X does not have are refused, or left out as cross-validation needs
        it. Only if rows have names: see `fit`.
    restarts : int, default=10
        Independent runs of the search, of which the best one counts.
    n_jobs : int, default=-1
        Number of threads that run fits; -1 is all cores, and None 1 unless a `joblib.parallel_config` of
        threads says otherwise. It changes no bit.
    verbose : bool, default=False
        Whether the progress is shown: by a bar on a terminal, and by lines on stderr in a notebook or a pipe.
    confidence : bool, default=False
        Whether to compute how sure each label is, which takes time: see `membership_`.
    **settings : as declared
    random_state : int, RandomState or None, default=None
        Seed of all random streams. An int gives the bits of `sweep fit --seed`; otherwise each fit draws a
        seed and keeps it as `seed_`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of every sample.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means, in the units of X.
    n_clusters_ : int
        K.
    offset_, width_ : ndarray of shape (n_features,)
        The fit uses the features ``(X - offset_) / width_``.
    covariances_ : ndarray
        Covariances of the scaled features: variances of shape (n_clusters,) for "spherical" and "common",
        (n_clusters, n_features) for "diagonal"; matrices of shape (n_clusters, n_features, n_features) for
        "full", (n_features, n_features) for "tied". 0 for a degenerate cluster. Classes of several components
        or in a subspace have variances here, and their own covariances in `solution_`.
    features_used_ : ndarray of shape (n_dims,)
        Features on which the Gaussians have a density: shapes with a prior leave out constant features, and
        all but "diagonal" those that others give.
    sizes_ : ndarray of shape (n_clusters,), int64
        Samples per cluster.
    objective_ : float
        Maximum in nats: the sum of the next three.
    gmm_, sbm_, prior_ : float
        Terms for the features, for the annotations and for the prior on the rates, in nats; 0 if the model
        lacks the term.
    model_ : str
        `model`, or the model that "auto" chose.
    covariance_ : str
        `covariance`, or the shape that "auto" chose; for components, their shape.
    structure_ : str
        Short text on the components of the classes, as the candidate that was chosen has them.
    choice_ : str
        For classes of any shape a line on their components, and on how well these predict held-out
        annotations; else empty.
    solution_ : Solution or None
        For classes of several components or in a subspace: `union` has components with their classes,
        weights, means and covariances, in the coordinates that `place` returns.
    held_out_ : dict of str to dict
        For each candidate of "auto" its predictions of held-out annotations: "log_loss", minus the mean
        log-probability in nats, and "share_right"; else empty.
    feature_weight_ : float
        Factor of `gmm_`: `feature_weight`, or the value of "effective".
    seed_ : int
        Seed that repeats the fit as `random_state`.
    restart_objectives_ : ndarray of shape (restarts,)
        Objective of the best solution of each restart, in nats; fewer after `partial_fit`.
    X_fit_ : ndarray of shape (n_samples, n_features)
        Features of the fit.
    must_link_, cannot_link_ : ndarray of shape (n_links, 3), dict of str to such, or None
        Annotations of the fit and of each `partial_fit` since: places of samples in X and weight; by
        annotator if any has a name; None if there are none.
    annotator_accuracies_ : dict of str to (float or None)
        Share of each annotator's annotations that agree with `labels_`, self pairs left out; None if there
        are no others. Annotations without a name are those of "links".
    annotator_estimates_ : dict of str to dict
        For each annotator whose accuracy was not given the accuracy on pairs that belong together,
        "together", and on others, "apart", each with an "interval" of 95 %; and "below_chance", whether
        they add up to less than 1: docs/model.md, section 14, says which fits then use answers in reverse.
    unsure_ : dict
        Answers of data frames whose annotators were unsure: their number for each of the "annotators", and
        for each of the "pairs", by the places of its samples in X.
    row_labels_ : ndarray of shape (n_samples,), int64, or None
        Place of the label of each row in `label_names_`, -1 for rows without one; None without `row_labels`.
    label_names_ : list
        Distinct labels in the form in which they were given.
    cluster_names_ : ndarray of shape (n_clusters,), object
        Label that each cluster stands for, one-to-one so that the most labels agree with `labels_`; None for
        a cluster without one.
    label_agreement_ : float
        Share of the labels that are the name of the cluster of their row; NaN without `row_labels`.
    links_dropped_ : int
        Rows of links that were left out, as X has not both samples.
    sample_names_in_ : pandas.Index of length n_samples
        Names of the rows in links; only after a fit to a data frame or with `samples`.
    best_restart_ : int
        Restart that counts, the lowest on ties.
    caps_reached_ : int
        Loops of the search that ended at a limit on passes.
    notes_ : list of str
        Remarks on features and solution, such as repeated rows or nearly degenerate clusters, and the texts
        of the warnings.
    membership_ : ndarray of shape (n_samples, n_clusters)
        Probability of each label, given the model: its share of partitions drawn with probability
        proportional to exp(objective), the parameters at their best for each of them and not integrated over
        (docs/model.md, section 9). Only with `confidence`, as are the next four.
    confidence_ : ndarray of shape (n_samples,)
        Membership of each sample in the cluster of its label.
    label_draws_ : ndarray of shape (n_draws, n_samples), int16
        Partitions that were drawn, 1,000 up to 100,000 samples, numbered like `labels_`.
    r_hat_ : float
        Near 1 if the chains that draw agree; a note says if they do not.
    chain_agreement_ : float
        1 less the largest difference between the memberships of two chains.
    n_features_in_ : int
        Number of features of `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,), object
        Their names; only after a fit to a data frame whose column names are texts.

    Examples
    --------
    >>> from sweep_clustering import AnnotatedClustering
    >>> X = [[0.0], [0.1], [0.3], [1.0], [1.2], [1.3]]
    >>> estimator = AnnotatedClustering(n_clusters=2, accuracy=0.9, random_state=0)
    >>> labels = estimator.fit_predict(X, must_link=[[0, 1], [3, 4]], cannot_link=[[2, 3]])
    >>> bool(labels[0] == labels[2] != labels[3])
    True
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        model: str = AUTO,
        covariance: str | None = None,
        scale: str | None = None,
        accuracy: float | None = None,
        annotator_accuracy: dict[str, float] | None = None,
        label_accuracy: float = 0.9,
        links_outside: str = "error",
        restarts: int = 10,
        n_jobs: int | None = -1,
        verbose: bool = False,
        confidence: bool = False,
        random_state: int | np.random.RandomState | None = None,
        **settings: Any,
    ) -> None:
        self.n_clusters = n_clusters
        self.model = model
        self.covariance = covariance
        self.scale = scale
        self.accuracy = accuracy
        self.annotator_accuracy = annotator_accuracy
        self.label_accuracy = label_accuracy
        self.links_outside = links_outside
        self.restarts = restarts
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.confidence = confidence
        self.random_state = random_state
        defaults = {setting.name: setting.preset for setting in OFFERED}
        if unknown_names := settings.keys() - defaults.keys():
            raise TypeError(f"unexpected parameters: {', '.join(sorted(unknown_names))}")
        self.__dict__.update(defaults | settings)

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        must_link: LinkTables | None = None,
        cannot_link: LinkTables | None = None,
        annotations: Frames | Sequence[Frames] | None = None,
        row_labels: ArrayLike | Mapping[Any, Any] | None = None,
        samples: ArrayLike | None = None,
    ) -> AnnotatedClustering:
        """Cluster samples, with annotations of pairs, labels of some rows, both or neither.

        Links are rows `i, j` or `i, j, weight`. In a data frame i and j are labels of its index, with
        `samples` these names, else places from 0. A weight is a number of annotations, 1 by default, also for
        a pair of a sample with itself; rows of the same pair, in either order, add up. (In link files of
        `sweep fit` a self pair has weight 2 per annotation.) A data frame of links has the columns i and j,
        or others that link files may have; unknown ones are refused. Places are refused, too, if the answers
        clearly fit rows that count from 1.

        A part of a data frame keeps its labels, so links of the whole still name the right rows. Places in a
        part of an array name other samples, which is noticed only if one is beyond its end.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features.
        y : object
            Not used.
        must_link, cannot_link : array_like of shape (n_links, 2) or (n_links, 3), or dict of such, optional
            Pairs that annotators put together, and apart; any of them may be wrong, except those of infinite
            weight, which hold in every fit. A dict has the links of several annotators by name.
        annotations : data frame, or list of such, optional
            Annotations of both kinds and of several annotators, in the columns of an annotation file: i, j,
            kind, and any of weight, annotator and accuracy. A frame of pandas, polars or arrow is checked as
            such a file is, but names samples as links do, so that rows count from 0.
        row_labels : array_like of shape (n_samples,), or dict, optional
            Labels of some rows, any of which may be wrong: numbers or texts; -1, None, NaN, "", "?" and "NA"
            are no label. A dict has them by the names that links use, and so has a series beside names.
        samples : array_like of shape (n_samples,), optional
            Names of the rows of X, in place of its index. scikit-learn selects them along with X.

        Raises
        ------
        ValueError, TypeError
            If X is not a table of finite numbers, with all problems of parameters and links, or if the
            problem admits no solution; an earlier fit is kept.

        Warns
        -----
        ConvergenceWarning
            If a cluster of the solution is degenerate.
        AnnotatedClusteringWarning
            If features are constant, count the rows or differ in scale by far, there are as many clusters as
            distinct rows, clusters hold a handful of samples, agree with annotations no better than chance,
            less than the folds predicted or than the accuracies explain, one restart alone found the best
            solution, or annotations contradict each other or K.
        """
        fresh = AnnotatedClustering()  # so that a fit that fails changes nothing
        features = check_features(fresh, X, reset=True)
        all_links, fresh.sample_names_in_ = self._check_input(
            must_link, cannot_link, features, X, samples, row_labels=row_labels, frames=annotations
        )
        self._fit(features, all_links, int(self.restarts), fresh.sample_names_in_)
        for name in ("n_features_in_", "feature_names_in_", "sample_names_in_"):
            self.__dict__.pop(name, None)  # an earlier fit may have set it
            if getattr(fresh, name, None) is not None:
                setattr(self, name, getattr(fresh, name))
        return self

    def _fit(
        self,
        features: Floats,
        annotations: Annotations,
        restarts: int,
        names: pd.Index | None,
        start: Any = None,
    ) -> None:
        seed, settings = self.random_state, declared.settings_of(vars(self))
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = check_random_state(seed).randint(LARGEST_DRAWN_SEED)
        model, covariance, scale = self._model_choice(not annotations.is_empty)
        scaling = scaling_of(features, scale)
        scaled_X, layers = scaling.of(features), self._layers(annotations, int(seed))

        def check(n_clusters: int) -> None:
            raise_all(_hard_problems(annotations, n_clusters, names))

        with progress(bool(self.verbose), has_lines=True) as state:
            result, n_clusters, _ = fit_table(
                scaled_X,
                layers,
                () if self.n_clusters is None else (int(self.n_clusters),),
                state,
                n_jobs=self.n_jobs,
                covariance=covariance,
                seed=int(seed),
                confidence=bool(self.confidence),
                n_names=len(annotations.label_names),
                check=check,
                model=model,
                restarts=restarts,
                settings=settings,
                start=start,
            )
        self.n_clusters_, self._scaling = n_clusters, scaling
        self.offset_, self.width_ = scaling
        self.seed_ = int(seed)
        self.X_fit_ = features.copy()  # questions come later, and the caller's array may change
        self.must_link_, self.cannot_link_ = (annotations.of_kind(kind) for kind in (MUST, CANNOT))
        self.links_dropped_, self._all_links = annotations.n_dropped, annotations
        self.labels_ = result.best.labels.astype(np.int32)
        self._name_clusters(annotations)
        self._centroids = result.best.centroids
        self.cluster_centers_ = scaling.back(self._centroids)
        self.held_out_ = result.predictions
        self.features_used_, self.caps_reached_ = result.features_used, result.caps_reached
        self.annotator_accuracies_ = annotations.agreement(self.labels_)
        estimates, annotators = estimate(annotations.layers, result.best), annotations.annotators
        self.annotator_estimates_ = estimates_json(estimates, annotators)
        self.unsure_ = judge_unsure(annotations.tables, int)[0]
        new_alarms, new_notes = below_chance(estimates, annotators, result.best)
        result = replace(result, alarms=(*result.alarms, *new_alarms), notes=(*result.notes, *new_notes))
        self.notes_ = [*result.alarms, *result.notes]
        for name in CONFIDENCE:
            self.__dict__.pop(f"{name}_", None)  # an earlier fit may have set it
        parts = {OF_RESULT: result, OF_BEST: result.best}
        parts |= {CONFIDENCE: result.confidence} if result.confidence is not None else {}
        for names, part in parts.items():
            self.__dict__.update({f"{name}_": getattr(part, name) for name in names})
        texts = [*data_notes(scaled_X, n_clusters), *inputs.label_notes(annotations.labels), *result.alarms]
        if annotations.n_dropped and annotations.n_dropped == annotations.n_total:
            texts.append(
                f"all {annotations.n_total} links were left out: X has not both samples of any of them"
            )
        for text in texts:
            warnings.warn(text, AnnotatedClusteringWarning, stacklevel=3)
        degenerate = np.flatnonzero(~self.covariances_.reshape(len(self.covariances_), -1).any(axis=1))
        if len(degenerate) and self.covariance_ != "tied" and self.solution_ is None:
            clusters = ", ".join(map(str, degenerate))
            prior = "variance_prior" if self.covariance_ in SPHERES else "covariance_prior"
            text = f"degenerate clusters have variance 0: {clusters}; {prior} above 0 rules them out"
            warnings.warn(text, ConvergenceWarning, stacklevel=3)

    def _layers(self, annotations: Annotations, seed: int) -> list[Layer]:
        """Return the layers of links and of labels of rows."""
        return annotations.all_layers(float(self.label_accuracy), seed)

    def _name_clusters(self, annotations: Annotations) -> None:
        """Set the attributes of labels of rows."""
        labels, names = annotations.labels, annotations.label_names
        self.row_labels_, self.label_names_ = None if labels is None else labels.codes, list(names)
        self.cluster_names_ = np.full(self.n_clusters_, None, dtype=object)
        self.label_agreement_ = math.nan
        if labels is not None:
            naming = inputs.Naming.of(labels, self.labels_, self.n_clusters_)
            for cluster in np.flatnonzero(naming.name_of != UNLABELLED).tolist():
                self.cluster_names_[cluster] = names[naming.name_of[cluster]]
            self.label_agreement_ = naming.agreement

    def _model_choice(self, has_layers: bool) -> declared.ModelChoice:
        """Return model, covariance and scale, with the values that None and "auto" stand for."""
        settings = declared.settings_of(vars(self))
        return declared.choose_model(self.model, self.covariance, self.scale, settings, has_links=has_layers)

    def _check_input(
        self,
        must_link: LinkTables | None,
        cannot_link: LinkTables | None,
        features: Floats,
        X: object = None,
        samples: ArrayLike | None = None,
        base: Annotations | None = None,
        row_labels: ArrayLike | Mapping[Any, Any] | None = None,
        frames: Frames | Sequence[Frames] | None = None,
    ) -> tuple[Annotations, pd.Index | None]:
        """Check links and parameters; return annotations with those of `base`, and the names of samples."""
        has_links = any(links is not None for links in (must_link, cannot_link, frames))
        has_others = row_labels is not None or not (base or Annotations()).is_empty
        choice = self._model_choice(has_links or has_others)
        problems = list(_parameter_problems(self.get_params(deep=False), choice))
        # Wrong accuracies are among the problems, and are not used for the layers.
        is_right, names, annotations = not problems, None, Annotations()
        accuracy = float(self.accuracy) if is_right and self.accuracy is not None else None
        accuracies = self.annotator_accuracy or {} if is_right else {}
        reader: Reader | None = None  # names that are wrong have none
        with collecting(problems):
            names = names_of(X, samples, len(features))
            reader = Reader(len(features), names, drop=self.links_outside == "drop")
            annotations = reader.read(must_link, cannot_link, accuracy, accuracies, base, frames)
            if is_right and samples is None and has_links:  # links of an earlier fit are places
                reader.check_places(annotations, scaling_of(features, choice.scale).of(features))
        with collecting(problems):
            if row_labels is not None and reader is not None:
                labels, label_names = labels_of(row_labels, reader)
                annotations = replace(annotations, labels=labels, label_names=tuple(label_names))
        if is_right and annotations.labels is not None:
            is_open = self.n_clusters is None
            high = count_distinct(features) // 2 if is_open else int(self.n_clusters or 0)
            problems += inputs.label_problems(
                "row_labels", "label_accuracy", annotations.labels, self.label_accuracy, high, is_open=is_open
            )
        if is_right and not problems:
            problems += inputs.annotator_problems(
                accuracies,
                annotations.annotators,
                "annotator_accuracy",
                "accuracy",
                # an annotator may come with later links
                is_complete=bool(annotations.annotators) and base is None,
                is_needed=self.model == "posterior" and accuracy is None,
            )
            problems += _hard_problems(annotations, int(self.n_clusters or len(features)), names)
            has_accuracies = any(layer.accuracies is not None for layer in annotations.layers)
            if has_accuracies and not inputs.reads_accuracies(choice.model):
                expected, hint = f"none with the model {choice.model!r}", 'model="conditional" takes them'
                problems.append(Problem("annotations", "accuracies of single rows", expected, hint))
        raise_all(problems)
        return annotations, names

    def _annotations(self) -> Annotations:
        """Return the annotations so far, with the present parameters."""
        return self._check_input(None, None, self.X_fit_, base=self._all_links)[0]

    def together(self, pairs: ArrayLike) -> Floats:
        """Return the probability that two samples of the fit belong together, given the model.

        It is their share of the partitions of `label_draws_`, and not a product of memberships: samples that
        links join move together. Only after a fit with `confidence`.

        Parameters
        ----------
        pairs : array_like of shape (n_pairs, 2)
            Samples by the names that links of the fit use.
        """
        validation.check_is_fitted(self)
        if not hasattr(self, "label_draws_"):
            raise AttributeError("fitted with confidence=False, expected confidence=True")
        reader = Reader(len(self.X_fit_), getattr(self, "sample_names_in_", None))
        draws = self.label_draws_  # one pair at a time, without an array of all pairs
        return np.array([(draws[:, i] == draws[:, j]).mean() for i, j in reader.pairs(pairs)])

    def query(self, n: int = 20, *, strategy: str | None = None) -> Query:
        """Choose the pairs whose answers help most, given all annotations so far.

        The annotation term is the conditional one, whatever the model of the fit: "posterior" and
        "likelihood" would take the choice of the pairs, and not only their answers, as evidence. So fits
        should have `model="conditional"`. Shape of the covariances and settings are those of the estimator.
        Only the strategy "again" repeats an annotated pair; one of which annotators were unsure is left out.

        Parameters
        ----------
        n : int, default=20
            Number of pairs.
        strategy : str, default=None
            "overall": the pairs whose answers together say the most about all other pairs. "merges": random
            near pairs, and pairs that say where clusters are to be merged or split. None is "merges" where
            annotations speak for merged groups, or for nothing yet and classes may be many: K² exceeds the
            number of samples, or the fit chose the most clusters that it tried; else "overall"
            (docs/model.md, section 10). One pair of five is random where K was not named and "overall" is
            asked, because its pairs hardly show how many classes there are. "information": the pairs whose
            answers together are hardest to predict. "uncertain": the same for single pairs. "anchors": a
            doubtful sample and a sure one. "again": annotated pairs whose annotations are in doubt.
            "farthest-first" and "committee" are baselines by others; "uniform" are any pairs.

        Returns
        -------
        Query
            Pairs with their probabilities; fewer than `n` if no other pair is left. They are the same until
            annotations are added.

        Raises
        ------
        ValueError
            If n or the strategy is not possible, or the accuracy of the estimator is not above 1/2.
        """
        validation.check_is_fitted(self)
        problems = []
        if not _is_whole(n) or n < 1:
            problems.append(Problem("n", repr(n), "a whole number, 1 or more"))
        if strategy is not None and (not isinstance(strategy, str) or strategy not in STRATEGIES):
            problems.append(not_one_of("strategy", strategy, STRATEGIES))
        annotations = Annotations()
        with collecting(problems):
            annotations = self._annotations()
            problems += inputs.chance_problems("accuracy", self.accuracy)
        raise_all(problems)
        layers = [layer for layer in self._layers(annotations, self.seed_) if len(layer.pairs)]
        of_pairs = [layer for layer in layers if not layer.is_of_labels]
        tables = [np.column_stack([layer.pairs, np.full(len(layer.pairs), layer.kind)]) for layer in of_pairs]
        answers = np.concatenate([np.empty((0, 3)), *tables]).astype(np.int32)
        key = QUERY, len(answers)
        belief = run_interruptibly(
            partial(
                believe,
                self._scaling.of(self.X_fit_),
                layers,
                n_clusters=self.n_clusters_,
                accuracy=None if self.accuracy is None else float(self.accuracy),
                seed=np.random.SeedSequence(self.seed_, spawn_key=(*key, 0)),
                covariance=shape_to_ask(str(self._model_choice(has_layers=True).covariance)),
                restarts=min(int(self.restarts), MOST_RESTARTS),
                settings=declared.settings_of(vars(self)),
                start=self.labels_.astype(np.int16),
                most_tried=TRIED[-1] if self.n_clusters is None else None,
                run=runner(self.n_jobs),
            )
        )
        seed = np.random.SeedSequence(self.seed_, spawn_key=(*key, 1))
        unsure = {(pair["i"], pair["j"]) for pair in self.unsure_["pairs"]}
        choice = choose(belief, answers, strategy=strategy, count=int(n), seed=seed, left_out=unsure)
        positions = choice.pairs.astype(np.int64)
        names = np.asarray(getattr(self, "sample_names_in_", np.arange(len(self.X_fit_))))
        return Query(names[positions], belief.share_together(choice.pairs), choice.scores, positions)

    def partial_fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        must_link: LinkTables | None = None,
        cannot_link: LinkTables | None = None,
        annotations: Frames | Sequence[Frames] | None = None,
        samples: ArrayLike | None = None,
    ) -> Any:
        """Add annotations to those of earlier fits, and fit again from the present solution.

        The samples are those of the fit, and all annotations stay in `must_link_` and `cannot_link_`. The
        first restart begins with `labels_`, so that the solution is at least as good as a local search from
        there; a third of `restarts` run, at least one. Classes of several components are chosen and fitted
        again. Without an earlier fit it is `fit`.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features of the fit.
        y : object
            Not used.
        must_link, cannot_link, annotations : as in `fit`, optional
            New annotations by any annotators.
        samples : array_like of shape (n_samples,), optional
            Names of the rows, those of the fit.
        """
        if not hasattr(self, "X_fit_"):
            links = {"must_link": must_link, "cannot_link": cannot_link, "annotations": annotations}
            return self.fit(X, **links, samples=samples)
        features = check_features(self, X)
        if not np.array_equal(features, self.X_fit_):
            table = f"a different table with shape {features.shape}"
            expected = f"the table of the fit, with shape {self.X_fit_.shape}"
            raise refused("X", table, expected, "fit takes new samples")
        base = self._annotations()
        all_links, names = self._check_input(
            must_link, cannot_link, features, X, samples, base, frames=annotations
        )
        places = pd.RangeIndex(len(features))
        names = places if names is None else names
        names_of_fit = getattr(self, "sample_names_in_", places)
        if not names.equals(names_of_fit):
            rows, expected = (f"rows named {index[:3].tolist()} ..." for index in (names, names_of_fit))
            hint = "links would name other samples"
            raise refused("X", rows, f"those of the fit: {expected}", hint)
        restarts = max(1, int(self.restarts) // LEAST_RESTARTS)
        self._fit(features, all_links, restarts, names, self.labels_.astype(np.int16))
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the cluster of the largest density (docs/model.md, eqs. (24) and (50)), the lowest on ties.

        The density of a class of several components is their sum. A degenerate cluster receives nothing, and
        if all are degenerate, a ValueError follows. Labels of the X of the fit may differ from `labels_`:
        annotations are not used here, and no cluster is filled up to its least size.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features of samples without annotations.
        """
        return np.asarray(self._costs(X)[0].argmin(axis=1), np.int32)

    def transform(self, X: ArrayLike) -> Floats:
        """Return the probability of each cluster for each sample, given its features.

        It is the density of the cluster there, with its share, divided by their sum over the clusters, of
        which `predict` takes the largest. As there, annotations are not used: for samples of the fit,
        `membership_` of a fit with `confidence` uses them.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features of samples without annotations.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Rows whose sum is 1, or what `set_output` says.
        """
        return np.asarray(softmax(-self._costs(X)[0], axis=1))

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the mean log-density of samples with their clusters, in nats; the larger, the better.

        It is the mean over samples of max_r [log N(x; μ_r, Σ_r) + log π_r]: every sample belongs to the
        cluster of `predict`; π_r is 1 / K, or the share of the cluster if proportions are free. It is a lower
        bound of the mean log-density of the mixture. Densities of two subspaces do not compare. Annotations
        play no part.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features.
        y : object
            Not used.
        """
        costs, constant = self._costs(X)
        return float(-costs.min(axis=1).mean() - constant)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what a notebook shows: the classes of a fit above the parameters."""
        forms: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in forms and hasattr(self, "labels_"):
            forms["text/html"] = fit_html(self) + forms["text/html"]
        return forms

    def _costs(self, X: ArrayLike) -> tuple[Floats, float]:
        """Return minus log-density and log π_r as an array (n_samples, n_clusters), and a constant to add."""
        validation.check_is_fitted(self)
        features = self._scaling.of(check_features(self, X))
        if self.solution_ is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                costs = -self.solution_.class_densities(self.solution_.place(features))
            return _finite(costs), 0.0
        covariances = self.covariances_
        if not covariances.any():
            raise ValueError("all clusters are degenerate: none can receive a sample (see variance_prior)")
        if self.covariance_ == "tied":
            covariances = np.broadcast_to(covariances, (len(self._centroids), *covariances.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            costs = assignment_costs(features, self._centroids, covariances, self.features_used_)
        costs = _finite(costs)
        if self.proportions == "free":
            costs -= np.log(self.sizes_ / self.sizes_.mean())
        n_clusters, n_dims = len(self._centroids), len(self.features_used_)
        return costs, 0.5 * n_dims * np.log(2 * np.pi) + np.log(n_clusters)


def _finite(costs: Floats) -> Floats:
    """Return costs that are numbers for every sample; others are an InputError."""
    rows = np.flatnonzero(~(costs.min(axis=1) < FARTHEST))
    if len(rows):
        values = "values whose squares overflow"
        raise refused(f"X, row {rows[0]}", values, "smaller values", "use another unit")
    return costs


# Checks of parameters and features.


def _parameter_problems(parameters: Mapping[str, Any], choice: declared.ModelChoice) -> Iterator[Problem]:
    values = {name: value for name, value in parameters.items() if name != "n_clusters" or value is not None}
    for setting, text, expected in declared.wrong_settings(values | choice._asdict()):
        value = parameters[setting.name]
        is_word = isinstance(value, str) and value not in setting.choices
        hint = did_you_mean(value, setting.choices) if is_word else ""
        yield Problem(setting.name, text, expected, hint)
    n_jobs, state = parameters["n_jobs"], parameters["random_state"]
    accuracies = parameters["annotator_accuracy"]
    for name, value in accuracies.items() if isinstance(accuracies, Mapping) else ():
        if not isinstance(name, str):
            yield Problem("annotator_accuracy", f"annotator {name!r}", "a name, a text")
        elif not PARAMETERS["accuracy"].allows(value):
            yield Problem(f"annotator_accuracy of {name}", repr(value), PARAMETERS["accuracy"].expected)
    if accuracies is not None and not isinstance(accuracies, Mapping):
        yield Problem("annotator_accuracy", repr(accuracies), "None or a mapping of names to numbers")
    if n_jobs is not None and (not _is_whole(n_jobs) or n_jobs == 0):
        yield Problem("n_jobs", repr(n_jobs), "None or a whole number but 0")
    for name in ("confidence", "verbose"):
        if not isinstance(parameters[name], bool | np.bool_):
            yield Problem(name, repr(parameters[name]), "True or False")
    is_state = state is None or isinstance(state, np.random.RandomState)
    if not is_state and (not _is_whole(state) or state < 0):
        yield Problem("random_state", repr(state), "None, a RandomState or a whole number")


def _hard_problems(annotations: Annotations, n_clusters: int, names: pd.Index | None) -> Iterator[Problem]:
    """Yield the problem of hard links that contradict each other, which names them."""
    must, cannot = (hard_pairs(annotations.layers, kind) for kind in (MUST, CANNOT))
    links = np.concatenate([must, cannot])

    def words(place: int) -> str:
        first, second = (plain(end if names is None else names[end]) for end in links[place])
        return f"{first!r} {'must' if place < len(must) else 'cannot'}! {second!r}"

    return inputs.hard_problems(annotations.layers, n_clusters, words)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_features(estimator: object, X: ArrayLike, *, reset: bool = False) -> Floats:
    """Return the features as a table of finite numbers, checked by those of the fit, or for one with `reset`.

    It raises the errors of `sklearn.utils.validation.validate_data`, and for a fit also if squares overflow
    or nothing varies.
    """
    check_unmasked("X", X)
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds all values up
        # in one order in memory, as products have other last bits in another one
        features: Floats = validation.validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", ensure_min_samples=2 if reset else 1
        )
    if reset and (wrong := declared.spread_problem(features)):
        raise refused("X", *wrong)
    return features


# The declared settings of the search as parameters of the estimator.

# Line of the docstring that the descriptions of the settings replace.
PLACE = "**settings : as declared"


def name_settings(estimator: type) -> None:
    """Give a class whose `__init__` takes `**settings` the signature and the docstring that name them.

    scikit-learn, `inspect` and tools that show help read both.
    """
    init: Any = vars(estimator)["__init__"]
    signature = inspect.signature(init)
    parameters = [*signature.parameters.values()]
    parameters = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    for setting in OFFERED:
        kind = f"{_kind(setting)} | None" if setting.by_method else _kind(setting)
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(setting.name, keyword, default=setting.preset, annotation=kind))
    init.__signature__ = signature.replace(parameters=parameters)
    if estimator.__doc__ is not None:  # there is none under `python -OO`
        descriptions = "\n".join(map(_description, OFFERED))
        estimator.__doc__ = inspect.cleandoc(estimator.__doc__).replace(PLACE, descriptions)


def _description(setting: Setting) -> str:
    words = ", ".join(f'"{word}"' for word in setting.choices)
    kind = f"{{{words}}}" if words else _kind(setting)
    default = f'"{setting.default}"' if words and not setting.by_method else setting.preset
    by_method = f" None: {setting.default_words}." if setting.by_method else ""
    meaning = textwrap.fill(setting.meaning + by_method, 106, initial_indent="    ", subsequent_indent="    ")
    return f"{setting.name} : {kind}, default={default}\n{meaning}"


def _kind(setting: Setting) -> str:
    kind = "int" if setting.is_whole else type(setting.default).__name__
    return " or ".join([kind, *(f'"{word}"' for word in setting.words)])


name_settings(AnnotatedClustering)
