"""The search as an estimator with scikit-learn's conventions.

`AnnotatedClustering` is what people use; below it stand the checks of what it is given, and what makes
declared settings its parameters.
"""

from __future__ import annotations

import inspect
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, validation

from sweep_clustering.kernels import settings as declared
from sweep_clustering.kernels.interrupt import run_interruptibly
from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import SPHERES
from sweep_clustering.kernels.settings import OFFERED, PARAMETERS, Setting
from sweep_clustering.kernels.structure import AUTO
from sweep_clustering.pipeline.asking.belief import believe
from sweep_clustering.pipeline.asking.strategies import choose
from sweep_clustering.pipeline.fit.counts import TRIED, choose_clusters, possible
from sweep_clustering.pipeline.fit.data_notes import data_notes
from sweep_clustering.pipeline.fit.inputs import annotator_problems, chance_problems
from sweep_clustering.pipeline.fit.links import Given, LinkTables, Reader, names_of, unmasked
from sweep_clustering.pipeline.fit.running import progress, runner
from sweep_clustering.pipeline.fit.solve import Floats, assignment_costs, fit
from sweep_clustering.sweeps.data.scaling import scaling_of
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, not_one_of
from sweep_clustering.sweeps.words import STRATEGIES

# Attributes by the part of a result that has them, under the same names; the last only with `confidence`.
OF_RESULT: tuple[str, ...] = ("covariance", "covariances", "model", "feature_weight", "restart_objectives")
OF_RESULT += ("best_restart", "structure", "solution", "choice")
OF_BEST = ("sizes", "objective", "gmm", "sbm", "prior")
CONFIDENCE = ("membership", "confidence", "label_draws", "r_hat", "chain_agreement")

LARGEST_DRAWN_SEED = np.iinfo(np.int32).max

# First part of the key of the random streams of queries: restarts have the numbers below.
QUERY = 1_000_000

# Of the search before a query: the solution of the fit is where the first of them begins.
MOST_RESTARTS = 3

# `partial_fit` runs one restart of so many, one at least.
LEAST_RESTARTS = 3

# Nats: of larger costs neither differences nor sums are numbers.
FARTHEST = 1e300


class AnnotatedClusteringWarning(UserWarning):
    """Something about a fit that should be looked at before it is used."""


class Query(NamedTuple):
    """Pairs to ask next, best first.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Samples, called as links of the fit call them: labels of the index of a data frame or names given as
        `samples`, else places from 0. No pair twice; the upper row of X comes first.
    together : ndarray of shape (n_pairs,)
        Probability that the samples belong together, given the model and all answers.
    information : ndarray of shape (n_pairs,)
        What the answer would tell of who belongs together, nats.
    positions : ndarray of shape (n_pairs, 2), int64
        Rows of X of the same pairs, from 0.
    """

    pairs: NDArray[Any]
    together: Floats
    information: Floats
    positions: NDArray[np.int64]


class AnnotatedClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Semi-supervised clustering with inaccurate pairwise annotations.

    Gaussians for the features and a model of the annotations, fitted together by the hybrid genetic search
    (docs/model.md, sections 2, 3, 6 and 7). What `sweep fit` computes, this computes too.

    Parameters
    ----------
    n_clusters : int or None, default=None
        K; with None, 2 to 10 are fitted, and held-out annotations choose the number, or without any the
        features do.
    model : {"auto", "unsupervised", "likelihood", "posterior", "conditional", "conditional-any"}
        What is maximised. "auto", the default, is "conditional-any" with links; without any the features
        choose among k-means and Gaussian mixtures; where a covariance, components or a subspace are named it
        is "conditional", or "unsupervised", which does not see links. "posterior" and "likelihood" are the
        source paper's. "conditional" asks of the annotated pairs alone whether they are right, whichever
        pairs were annotated. "conditional-any" is it for classes of any shape: covariance, components and
        subspace are those that predict held-out annotations best (docs/model.md, section 12).
    covariance : {"spherical", "common", "diagonal", "tied", "full", "auto", "any"}, default=None
        Shape of the covariances: one variance for each cluster, or one that all share; one for each cluster
        and feature; one matrix that all clusters share, or one for each. "auto" is the shape that predicts
        held-out annotations best (docs/model.md, section 8), "any" what "conditional-any" is. None is "any"
        with the model "auto", else "spherical".
    scale : {"auto", "none", "standard", "minmax"}, default=None
        Of the features. "auto" gives each the standard deviation 1, but where they have one unit, and leaves
        columns of 0 and 1 alone. None is "auto" for classes of any shape, else "none".
    accuracy : float, default=None
        Assumed share of correct annotations, in (0, 1]; "posterior" needs it, "conditional" fits it if it is
        not given, the others do not use it.
    annotator_accuracy : dict of str to float, default=None
        Of single annotators, in place of `accuracy`.
    links_outside : {"error", "drop"}, default="error"
        What becomes of links with a sample that X does not have: they are refused, or left out, as
        cross-validation needs it. Only where rows have names: see `fit`.
    restarts : int, default=10
        Independent runs of the search; the best one counts.
    n_jobs : int, default=-1
        Fits that run at a time, on threads; -1 is all cores, and None 1 unless a `joblib.parallel_config` of
        threads says otherwise. It changes no bit.
    verbose : bool, default=False
        Whether a bar on a terminal shows how far choosing and fitting are.
    confidence : bool, default=False
        Whether the fit says how sure it is of each label, which takes time: see `membership_`.
    **settings : as declared
    random_state : int, RandomState or None, default=None
        Of all randomness. An int gives the bits that `sweep fit --seed` gives; from anything else a seed is
        drawn at every fit, and kept as `seed_`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of every sample.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means, in the units of X.
    n_clusters_ : int
        K.
    offset_, width_ : ndarray of shape (n_features,)
        The features of the fit are ``(X - offset_) / width_``: 0 and 1 where they are as they are.
    covariances_ : ndarray
        Of the features as scaled.
        Variances of shape (n_clusters,) for "spherical" and "common", there all the same, and for classes of
        several components or in a subspace, whose own are in `solution_`; (n_clusters,
        n_features) for "diagonal"; matrices of shape (n_clusters, n_features, n_features) for "full",
        (n_features, n_features) for "tied". 0 for a degenerate cluster.
    features_used_ : ndarray of shape (n_dims,)
        Features on which the Gaussians have a density: all but, for shapes with a prior, those that are
        constant, or, but for "diagonal", given by the others.
    sizes_ : ndarray of shape (n_clusters,), int64
        Samples per cluster.
    objective_ : float
        What was maximised, in nats: the sum of the next three.
    gmm_, sbm_, prior_ : float
        Terms of the features, of the annotations and of the prior on the rates, in nats; 0 where the model
        lacks them.
    model_ : str
        The model that "auto" stood for, else `model`.
    covariance_ : str
        The shape that "auto" stood for, else `covariance`; of components, theirs.
    structure_ : str
        What classes are made of, in short.
    choice_ : str
        Of classes of any shape, what they are made of and how well that predicts held-out annotations, in
        a line; else empty.
    solution_ : Solution or None
        Of classes of several components or in a subspace: `union` has components with their classes, weights,
        means and covariances, in the coordinates that `place` gives.
    held_out_ : dict of str to dict
        By candidate of "auto", how well it predicted held-out annotations: "log_loss", minus the mean
        log-probability in nats, and "share_right"; else empty.
    feature_weight_ : float
        Factor of `gmm_`: `feature_weight`, or what "effective" stood for.
    seed_ : int
        Repeats the fit when given as `random_state`.
    restart_objectives_ : ndarray of shape (restarts,)
        Objective of the best solution of each restart, in nats; fewer after `partial_fit`.
    X_fit_ : ndarray of shape (n_samples, n_features)
        Features of the fit.
    must_link_, cannot_link_ : ndarray of shape (n_links, 3), dict of str to such, or None
        Annotations of the fit and of `partial_fit` since: samples from 0, by their place in X, and weight; by
        annotator if any was named; None if none were given.
    annotator_accuracies_ : dict of str to (float or None)
        By annotator, the share of the annotations that agree with `labels_`, self pairs left out; None if
        there are no others. Annotations of nobody in particular are those of "links".
    links_dropped_ : int
        Rows of links that were left out, as X has not both samples.
    sample_names_in_ : pandas.Index of length n_samples
        Names of the rows, by which links call them; only after a fit to a data frame or with `samples`.
    best_restart_ : int
        The restart that counts, the lowest on ties.
    caps_reached_ : int
        Loops of the search that ended at a limit on passes.
    notes_ : list of str
        What to know of features and solution before trusting it: rows that repeat, nearly degenerate clusters
        and what warnings say.
    membership_ : ndarray of shape (n_samples, n_clusters)
        Probability of each label, given the model: its share of partitions drawn with probability
        proportional to exp(objective), the parameters at their best for each of them and not integrated over
        (docs/model.md, section 9). Only with `confidence`, as are the next four.
    confidence_ : ndarray of shape (n_samples,)
        Membership of each sample in the cluster of its label.
    label_draws_ : ndarray of shape (n_draws, n_samples), int16
        The partitions drawn, 1,000 of them up to 100,000 samples, numbered like `labels_`.
    r_hat_ : float
        Near 1 if the chains that draw agree; a note says where they do not.
    chain_agreement_ : float
        1 less the largest difference between the memberships of two chains.
    n_features_in_ : int
        Features seen by `fit`.
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
        self.links_outside = links_outside
        self.restarts = restarts
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.confidence = confidence
        self.random_state = random_state
        defaults = {each.name: each.offered for each in OFFERED}
        if unknown := settings.keys() - defaults.keys():
            raise TypeError(f"unexpected parameters: {', '.join(sorted(unknown))}")
        self.__dict__.update(defaults | settings)

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        must_link: LinkTables | None = None,
        cannot_link: LinkTables | None = None,
        samples: ArrayLike | None = None,
    ) -> AnnotatedClustering:
        """Cluster samples, with annotations of pairs or without.

        Links are rows `i, j` or `i, j, weight`. In a data frame i and j are labels of its index; with
        `samples` they are those names; else places from 0. A weight is a number of annotations, 1 if there
        is no third column, and so it is for a pair of a sample with itself; rows of the same pair, in either
        order, add up. (In link files of `sweep fit` a self pair carries weight 2 per annotation.) The columns
        of a data frame are taken by their names, i and j or others that link files may have, and unknown ones
        are refused. Places whose answers clearly fit rows that count from 1 are refused, too.

        A part of a data frame keeps its labels, so links of the whole still name the right rows. Places do
        not: in a part of an array they are other samples, which is seen only if one is beyond its end.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features, used as they are.
        y : object
            Not used.
        must_link, cannot_link : array_like of shape (n_links, 2) or (n_links, 3), or dict of such, optional
            Pairs said to be together, and pairs said to be apart; any of them may be wrong. A dict has those
            of several annotators, by name.
        samples : array_like of shape (n_samples,), optional
            Names of the rows of X, before its index. scikit-learn takes the same rows of them as of X.

        Returns
        -------
        AnnotatedClustering
            The estimator itself.

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
        fresh = AnnotatedClustering()  # what it says of the features is kept if the fit is
        features = check_features(fresh, X, reset=True)
        given, fresh.sample_names_in_ = self._checked(must_link, cannot_link, features, X, samples)
        self._fit(features, given, int(self.restarts))
        for name in ("n_features_in_", "feature_names_in_", "sample_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if getattr(fresh, name, None) is not None:
                setattr(self, name, getattr(fresh, name))
        return self

    def _fit(self, features: Floats, given: Given, restarts: int, start: Any = None) -> None:
        seed, settings = self.random_state, declared.settings_of(vars(self))
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = check_random_state(seed).randint(LARGEST_DRAWN_SEED)
        model, covariance, how = self._taken(bool(given.layers))
        scaling = scaling_of(features, how)
        scaled = scaling.of(features)
        with progress(bool(self.verbose)) as bar:
            fitted = partial(
                fit,
                scaled,
                given.layers,
                covariance=covariance,
                model=model,
                restarts=restarts,
                settings=settings,
                seed=int(seed),
                start=start,
                run=runner(self.n_jobs, bar),
            )
            if self.n_clusters is None:
                counts = possible(scaled, TRIED)
                chosen = choose_clusters(scaled, given.layers, counts, lambda k: fitted(n_clusters=k)).chosen
                result, n_clusters = chosen.result, chosen.n_clusters
            else:
                n_clusters = int(self.n_clusters)
            if self.n_clusters is not None or self.confidence:
                result = fitted(n_clusters=n_clusters, confidence=bool(self.confidence))
        self.n_clusters_, self._scaling = n_clusters, scaling
        self.offset_, self.width_ = scaling
        self.seed_ = int(seed)
        self.X_fit_ = features.copy()  # questions come later, and the caller's array may change
        self.must_link_, self.cannot_link_ = (given.of_kind(kind) for kind in (MUST, CANNOT))
        self.links_dropped_ = given.dropped
        self.labels_ = result.best.labels.astype(np.int32)
        self._centroids = result.best.centroids
        self.cluster_centers_ = scaling.back(self._centroids)
        self.held_out_ = result.predictions
        self.features_used_, self.caps_reached_ = result.kept, result.caps_reached
        self.notes_ = [*result.alarms, *result.notes]
        self.annotator_accuracies_ = given.agreement(self.labels_)
        for name in CONFIDENCE:
            self.__dict__.pop(f"{name}_", None)  # of an earlier fit
        parts = {OF_RESULT: result, OF_BEST: result.best}
        parts |= {CONFIDENCE: result.confidence} if result.confidence is not None else {}
        for names, part in parts.items():
            self.__dict__.update({f"{name}_": getattr(part, name) for name in names})
        notes = data_notes(scaled, n_clusters)
        warned = [*notes, *result.alarms]
        if given.dropped and given.dropped == given.total:
            warned.append(f"all {given.total} links were left out: X has not both samples of any of them")
        for text in warned:
            warnings.warn(text, AnnotatedClusteringWarning, stacklevel=3)
        degenerate = np.flatnonzero(~self.covariances_.reshape(len(self.covariances_), -1).any(axis=1))
        if len(degenerate) and self.covariance_ != "tied" and self.solution_ is None:
            clusters = ", ".join(map(str, degenerate))
            prior = "variance_prior" if self.covariance_ in SPHERES else "covariance_prior"
            text = f"degenerate clusters have variance 0: {clusters}; {prior} above 0 rules them out"
            warnings.warn(text, ConvergenceWarning, stacklevel=3)

    def _taken(self, annotated: bool) -> declared.Taken:
        """Model, covariance and scale, as given or as they follow."""
        given = self.model, self.covariance, self.scale
        return declared.taken(*given, declared.settings_of(vars(self)), annotated=annotated)

    def _checked(
        self,
        must_link: LinkTables | None,
        cannot_link: LinkTables | None,
        features: Floats,
        X: object = None,
        samples: ArrayLike | None = None,
        before: Given | None = None,
    ) -> tuple[Given, Any]:
        """Links with those before, and what links call samples, after a check of them and of all parameters.

        Raises
        ------
        InputError
            With the problems of all parameters and all links.
        """
        annotated = must_link is not None or cannot_link is not None
        problems = list(_parameter_problems(self.get_params(deep=False), self._taken(annotated)))
        # wrong accuracies have been reported by now, and the layers are not used
        right, names, given = not problems, None, Given()
        accuracy = float(self.accuracy) if right and self.accuracy is not None else None
        own = self.annotator_accuracy or {} if right else {}
        with collecting(problems):
            names = names_of(X, samples, len(features))
            reader = Reader(len(features), names, drop=self.links_outside == "drop")
            given = reader.read(must_link, cannot_link, accuracy, own, before)
            if right and samples is None and annotated:  # links of a fit before are places
                how = self._taken(annotated).scale
                reader.check_places(given, scaling_of(features, how).of(features))
        if right and not problems:
            is_posterior = self.model == "posterior"
            # an annotator may come with later links
            are_all, need_one = bool(given.annotators) and before is None, is_posterior and accuracy is None
            places = "annotator_accuracy", "accuracy"
            problems += annotator_problems(own, given.annotators, *places, are_all, need_one)
        if problems:
            raise InputError(problems)
        return given, names

    def _given(self) -> Given:
        """Annotations so far, with the parameters as they are now."""
        # they are places, whatever they were called
        places = np.arange(len(self.X_fit_))
        return self._checked(self.must_link_, self.cannot_link_, self.X_fit_, samples=places, before=Given())[
            0
        ]

    def together(self, pairs: ArrayLike) -> Floats:
        """Probability that two samples of the fit belong together, given the model.

        Their share of the partitions of `label_draws_`, and not a product of memberships: samples that links
        join go together, wherever they go.

        Parameters
        ----------
        pairs : array_like of shape (n_pairs, 2)
            Samples, called as links of the fit call them.

        Returns
        -------
        ndarray of shape (n_pairs,)

        Raises
        ------
        ValueError
            If pairs are no such table.
        AttributeError
            If the estimator was fitted without `confidence`.
        """
        validation.check_is_fitted(self)
        if not hasattr(self, "label_draws_"):
            raise AttributeError("fitted with confidence=False, expected confidence=True")
        reader = Reader(len(self.X_fit_), getattr(self, "sample_names_in_", None))
        draws = self.label_draws_  # one pair at a time: no temporary of all
        return np.array([(draws[:, i] == draws[:, j]).mean() for i, j in reader.pairs(pairs)])

    def query(self, n: int = 20, *, strategy: str = "overall") -> Query:
        """Choose the pairs whose answers help most, given all annotations so far.

        The annotation term is the conditional one, whatever the model of the fit: "posterior" and
        "likelihood" would take the choice of the pairs, and not only their answers, as evidence. So should
        be that of the fits: `model="conditional"`. Shape of the covariances and settings are those of the
        estimator. A pair that has been annotated does not come again, but by the strategy "again".

        Parameters
        ----------
        n : int, default=20
            Pairs wanted.
        strategy : str, default="overall"
            "overall": the pairs whose answers together say the most of all other pairs. "information": those
            whose answers together are hardest to predict. "uncertain": those, each taken alone. "anchors": a
            doubtful sample against a sure one. "again": annotated pairs whose annotations are in doubt, once
            more. "farthest-first" and "committee" are baselines of others; "uniform" are any pairs.

        Returns
        -------
        Query
            Pairs with what is known of them; fewer than wanted if no other pair is left. The same again until
            annotations are added.

        Raises
        ------
        NotFittedError
            Before a fit.
        ValueError
            If n or the strategy is not possible, or the accuracy of the estimator is not above 1/2.
        """
        validation.check_is_fitted(self)
        problems = []
        if not _is_whole(n) or n < 1:
            problems.append(Problem("n", repr(n), "a whole number, 1 or more"))
        if not isinstance(strategy, str) or strategy not in STRATEGIES:
            problems.append(not_one_of("strategy", strategy, STRATEGIES))
        given = Given()
        with collecting(problems):
            given = self._given()
            problems += chance_problems("accuracy", self.accuracy)
        if problems:
            raise InputError(problems)
        layers = [layer for layer in given.layers if len(layer.pairs)]
        tables = [np.column_stack([each.pairs, np.full(len(each.pairs), each.kind)]) for each in layers]
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
                covariance=str(self._taken(annotated=True).covariance),
                restarts=min(int(self.restarts), MOST_RESTARTS),
                settings=declared.settings_of(vars(self)),
                start=self.labels_.astype(np.int16),
                run=runner(self.n_jobs),
            )
        )
        seed = np.random.SeedSequence(self.seed_, spawn_key=(*key, 1))
        found = choose(belief, answers, strategy=strategy, count=int(n), seed=seed)
        positions = found.pairs.astype(np.int64)
        names = np.asarray(getattr(self, "sample_names_in_", np.arange(len(self.X_fit_))))
        return Query(names[positions], belief.together(found.pairs), found.scores, positions)

    def partial_fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        must_link: LinkTables | None = None,
        cannot_link: LinkTables | None = None,
        samples: ArrayLike | None = None,
    ) -> Any:
        """Add annotations to those of the fits before, and fit again from the solution there is.

        The samples are those of the fit: annotations are what is added, and they stay in `must_link_` and
        `cannot_link_`. The first restart begins with `labels_`, so that the solution is no worse than a local
        search makes the old one; there are a third of `restarts`, one at least. Classes of several components
        are chosen and fitted anew. Without a fit before it is `fit`.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features of the fit.
        y : object
            Not used.
        must_link, cannot_link : array_like of shape (n_links, 2) or (n_links, 3), or dict of such, optional
            New annotations, as of `fit`; of annotators there are, or of others.
        samples : array_like of shape (n_samples,), optional
            Names of the rows, those of the fit.

        Returns
        -------
        AnnotatedClustering
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            As of `fit`, or if X is not that of the fit; the earlier fit is kept.
        """
        if not hasattr(self, "X_fit_"):
            return self.fit(X, must_link=must_link, cannot_link=cannot_link, samples=samples)
        features = check_features(self, X)
        if not np.array_equal(features, self.X_fit_):
            found = f"a different table with shape {features.shape}"
            expected = f"the table of the fit, with shape {self.X_fit_.shape}"
            raise InputError([Problem("X", found, expected, "fit takes new samples")])
        before = self._given()
        given, names = self._checked(must_link, cannot_link, features, X, samples, before)
        # rows without names are numbered from 0
        places = pd.RangeIndex(len(features))
        names, fitted = (
            places if each is None else each for each in (names, getattr(self, "sample_names_in_", None))
        )
        if not names.equals(fitted):
            found, expected = (f"rows named {each[:3].tolist()} ..." for each in (names, fitted))
            hint = "links would name other samples"
            raise InputError([Problem("X", found, f"those of the fit: {expected}", hint)])
        restarts = max(1, int(self.restarts) // LEAST_RESTARTS)
        self._fit(features, given, restarts, self.labels_.astype(np.int16))
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """Cluster of the largest density (docs/model.md, eqs. (24) and (50)), the lowest on ties.

        Of classes of several components it is that of the sum of their densities. A degenerate cluster
        receives nothing. Labels of the X of the fit may differ from `labels_`: no
        annotation is known here, and no cluster is filled up to its least size.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features of samples without annotations.

        Returns
        -------
        ndarray of shape (n_samples,), int32
            Labels.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or all clusters are degenerate.
        """
        return np.asarray(self._costs(X)[0].argmin(axis=1), np.int32)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Mean log-density of samples with their clusters, in nats; the larger, the better.

        The mean over samples of max_r [log N(x; μ_r, Σ_r) + log π_r]: every sample belongs to the cluster
        that `predict` gives; π_r is 1 / K, or the share of the cluster if proportions are free, as in the
        model. It is a lower bound of the mean log-density of the mixture. In a subspace it is the density
        there, which compares with no other subspace. Annotations play no part.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features.
        y : object
            Not used.

        Returns
        -------
        float
            Nats per sample.

        Raises
        ------
        ValueError
            As of `predict`.
        """
        costs, constant = self._costs(X)
        return float(-costs.min(axis=1).mean() - constant)

    def _costs(self, X: ArrayLike) -> tuple[Floats, float]:
        """Minus log-density and log π_r, of shape (n_samples, n_clusters), and a constant to be added."""
        validation.check_is_fitted(self)
        features = self._scaling.of(check_features(self, X))
        if self.solution_ is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                costs = -self.solution_.union.class_densities(self.solution_.place(features))
            return _near(costs), 0.0
        covariances = self.covariances_
        if not covariances.any():
            raise ValueError("all clusters are degenerate: none can receive a sample (see variance_prior)")
        if self.covariance_ == "tied":
            covariances = np.broadcast_to(covariances, (len(self._centroids), *covariances.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            costs = assignment_costs(features, self._centroids, covariances, self.features_used_)
        costs = _near(costs)
        if self.proportions == "free":
            costs -= np.log(self.sizes_ / self.sizes_.mean())
        n_clusters, n_dims = len(self._centroids), len(self.features_used_)
        return costs, 0.5 * n_dims * np.log(2 * np.pi) + np.log(n_clusters)


def _near(costs: Floats) -> Floats:
    """Costs, if they are numbers for every sample."""
    far = np.flatnonzero(~(costs.min(axis=1) < FARTHEST))
    if len(far):
        found = "values whose squares overflow"
        raise InputError([Problem(f"X, row {far[0]}", found, "smaller values", "use another unit")])
    return costs


# Checking what the estimator is given.


def _parameter_problems(parameters: Mapping[str, Any], taken: declared.Taken) -> Iterator[Problem]:
    values = {name: value for name, value in parameters.items() if name != "n_clusters" or value is not None}
    for setting, found, expected in declared.wrong_settings(values | taken._asdict()):
        value = parameters[setting.name]
        is_word = isinstance(value, str) and value not in setting.choices
        hint = did_you_mean(value, setting.choices) if is_word else ""
        yield Problem(setting.name, found, expected, hint)
    own, n_jobs, state = (parameters[name] for name in ("annotator_accuracy", "n_jobs", "random_state"))
    for name, value in own.items() if isinstance(own, Mapping) else ():
        if not isinstance(name, str):
            yield Problem("annotator_accuracy", f"annotator {name!r}", "a name, a text")
        elif not PARAMETERS["accuracy"].allows(value):
            yield Problem(f"annotator_accuracy of {name}", repr(value), PARAMETERS["accuracy"].expected)
    if own is not None and not isinstance(own, Mapping):
        yield Problem("annotator_accuracy", repr(own), "None or a mapping of names to numbers")
    if n_jobs is not None and (not _is_whole(n_jobs) or n_jobs == 0):
        yield Problem("n_jobs", repr(n_jobs), "None or a whole number but 0")
    for name in ("confidence", "verbose"):
        if not isinstance(parameters[name], bool | np.bool_):
            yield Problem(name, repr(parameters[name]), "True or False")
    is_state = state is None or isinstance(state, np.random.RandomState)
    if not is_state and (not _is_whole(state) or state < 0):
        yield Problem("random_state", repr(state), "None, a RandomState or a whole number")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_features(estimator: object, X: ArrayLike, *, reset: bool = False) -> Floats:
    """Features as a table of finite numbers: those that the estimator was fitted to, or is with `reset`.

    Raises
    ------
    ValueError, TypeError
        As of `sklearn.utils.validation.validate_data`; for a fit, also if squares are no numbers or nothing
        varies.
    """
    unmasked("X", X)
    with np.errstate(over="ignore", invalid="ignore"):  # it adds all values up
        checked: Floats = validation.validate_data(
            estimator, X, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1
        )
    wrong = declared.spread_problem(checked) if reset else None
    if wrong:
        raise InputError([Problem("X", *wrong)])
    return checked


# The settings of the search as parameters of the estimator: a declared setting is one.

# Line of the docstring where the settings are described.
PLACE = "**settings : as declared"


def name_settings(estimator: type) -> None:
    """Give a class whose `__init__` takes `**settings` the signature and the docstring that name them.

    scikit-learn, `inspect` and tools that show help read both.
    """
    init: Any = vars(estimator)["__init__"]
    signature = inspect.signature(init)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    for each in OFFERED:
        kind = f"{_kind(each)} | None" if each.by_method else _kind(each)
        keyword = inspect.Parameter.KEYWORD_ONLY
        own.append(inspect.Parameter(each.name, keyword, default=each.offered, annotation=kind))
    init.__signature__ = signature.replace(parameters=own)
    if estimator.__doc__ is not None:  # there is none under `python -OO`
        described = "\n".join(map(_described, OFFERED))
        estimator.__doc__ = inspect.cleandoc(estimator.__doc__).replace(PLACE, described)


def _described(setting: Setting) -> str:
    words = ", ".join(f'"{word}"' for word in setting.choices)
    kind = f"{{{words}}}" if words else _kind(setting)
    default = f'"{setting.default}"' if words and not setting.by_method else setting.offered
    by_method = f" None: {setting.unless_given}." if setting.by_method else ""
    meaning = textwrap.fill(setting.meaning + by_method, 106, initial_indent="    ", subsequent_indent="    ")
    return f"{setting.name} : {kind}, default={default}\n{meaning}"


def _kind(setting: Setting) -> str:
    kind = "int" if setting.is_whole else type(setting.default).__name__
    return " or ".join([kind, *(f'"{word}"' for word in setting.words)])


name_settings(AnnotatedClustering)
