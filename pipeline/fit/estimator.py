"""The search as an estimator with scikit-learn's conventions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kernels.problem.data import CANNOT, MUST, Layer
from kernels.problem.shapes import SPHERES
from kernels.settings import AUTO, settings_of
from pipeline.fit.confidence import Confidence, together
from pipeline.fit.data_notes import data_notes
from pipeline.fit.estimating.asking import Asking
from pipeline.fit.estimating.density import Density
from pipeline.fit.estimating.inputs import check_features, check_inputs, draw_seed, feature_names
from pipeline.fit.estimating.jobs import runner
from pipeline.fit.estimating.links import Given, LinkTables, Reader
from pipeline.fit.estimating.names import Names
from pipeline.fit.notes import contradiction_notes
from pipeline.fit.parameters import with_defaults, with_settings
from pipeline.fit.solve import FitResult, fit


@with_settings
class AnnotatedClustering(Asking, Density, ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Semi-supervised clustering with inaccurate pairwise annotations.

    Gaussians for the features and a model of the annotations, fitted together by the hybrid genetic search
    (docs/model.md, sections 2, 3, 6 and 7). What `sweep fit` computes, this computes too.

    Parameters
    ----------
    n_clusters : int, default=2
        K.
    model : {"auto", "unsupervised", "likelihood", "posterior", "conditional"}, default="auto"
        What is maximised. "auto" is "posterior" with an accuracy, else "likelihood" with links, else
        "unsupervised", which does not see links. "conditional" asks of the annotated pairs alone whether they
        are right, whichever pairs were annotated.
    covariance : {"spherical", "common", "diagonal", "tied", "full", "auto"}, default="spherical"
        Shape of the covariances: one variance for each cluster, or one that all share; one for each cluster
        and feature; one matrix that all clusters share, or one for each. "auto" is the shape that predicts
        held-out annotations best (docs/model.md, section 8).
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
    n_jobs : int, default=None
        Restarts that run at a time, on threads; -1 is all cores, and None 1 unless a `joblib.parallel_config`
        of threads says otherwise. It changes no bit.
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
        Means.
    covariances_ : ndarray
        Variances of shape (n_clusters,) for "spherical" and "common", there all the same, (n_clusters,
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
        The shape that "auto" stood for, else `covariance`.
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
    >>> from pipeline import AnnotatedClustering
    >>> X = [[0.0], [0.1], [0.3], [1.0], [1.2], [1.3]]
    >>> estimator = AnnotatedClustering(n_clusters=2, accuracy=0.9, random_state=0)
    >>> labels = estimator.fit_predict(X, must_link=[[0, 1], [3, 4]], cannot_link=[[2, 3]])
    >>> bool(labels[0] == labels[2] != labels[3])
    True
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        model: str = AUTO,
        covariance: str = "spherical",
        accuracy: float | None = None,
        annotator_accuracy: dict[str, float] | None = None,
        links_outside: str = "error",
        restarts: int = 10,
        n_jobs: int | None = None,
        confidence: bool = False,
        random_state: int | np.random.RandomState | None = None,
        **settings: Any,
    ) -> None:
        self.n_clusters = n_clusters
        self.model = model
        self.covariance = covariance
        self.accuracy = accuracy
        self.annotator_accuracy = annotator_accuracy
        self.links_outside = links_outside
        self.restarts = restarts
        self.n_jobs = n_jobs
        self.confidence = confidence
        self.random_state = random_state
        self.__dict__.update(with_defaults(settings))

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
        order, add up. (Link files of `sweep fit` differ: they count samples from 1, and a self pair carries
        weight 2 per annotation.)

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
        UserWarning
            If features are constant, there are as many clusters as distinct rows, or the clusters contradict
            more annotations than their accuracies explain.
        """
        names, features = feature_names(X), check_features(self, X, min_samples=2)
        given, rows = check_inputs(
            self.get_params(deep=False), must_link, cannot_link, len(features), X=X, samples=samples
        )
        self._fit(features, given, restarts=int(self.restarts))
        self._keep_names(features.shape[1], names, rows)
        return self

    def _fit(
        self,
        features: NDArray[np.float64],
        given: Given,
        *,
        restarts: int,
        start: NDArray[np.int16] | None = None,
    ) -> None:
        seed = draw_seed(self.random_state)
        result = fit(
            features,
            given.layers,
            n_clusters=int(self.n_clusters),
            covariance=self.covariance,
            model=self._chosen_model(has_links=bool(given.layers)),
            restarts=restarts,
            settings=settings_of(vars(self)),
            seed=seed,
            confidence=bool(self.confidence),
            start=start,
            run=runner(self.n_jobs),
        )
        self.seed_ = seed
        self.X_fit_ = features.copy()  # questions come later, and the caller's array may change
        self.must_link_, self.cannot_link_ = (given.of_kind(kind) for kind in (MUST, CANNOT))
        self.links_dropped_ = given.dropped
        self._keep(result)
        self.annotator_accuracies_ = given.agreement(self.labels_)
        self._warn_if_all_dropped(given)
        self._warn_if_degenerate()
        self._warn_of_inputs(features, given.layers)

    def fit_predict(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        must_link: LinkTables | None = None,
        cannot_link: LinkTables | None = None,
        samples: ArrayLike | None = None,
    ) -> NDArray[np.int32]:
        """Fit, and give the labels; parameters and errors are those of `fit`.

        Returns
        -------
        ndarray of shape (n_samples,), int32
            `labels_`. `predict` of the same X may differ: it knows no annotations, and fills no cluster up to
            its least size.
        """
        self.fit(X, must_link=must_link, cannot_link=cannot_link, samples=samples)
        return self.labels_

    def together(self, pairs: ArrayLike) -> NDArray[np.float64]:
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
        check_is_fitted(self)
        if not hasattr(self, "label_draws_"):
            raise AttributeError("fitted with confidence=False, expected confidence=True")
        draws: NDArray[np.int16] = self.label_draws_
        return together(draws, Reader(draws.shape[1], self._names()).pairs(pairs))

    def _chosen_model(self, has_links: bool) -> str:
        if self.model != AUTO:
            return self.model
        if self.accuracy is not None or self.annotator_accuracy:
            return "posterior"
        return "likelihood" if has_links else "unsupervised"

    def _keep(self, result: FitResult) -> None:
        best = result.best
        self.labels_ = best.labels.astype(np.int32)
        self.cluster_centers_ = best.centroids
        self.covariance_ = result.covariance
        self.covariances_ = result.covariances
        self.held_out_ = result.predictions
        self.features_used_ = result.kept
        self.sizes_ = best.sizes
        self.objective_, self.gmm_, self.sbm_, self.prior_ = best.objective, best.gmm, best.sbm, best.prior
        self.model_ = result.model
        self.feature_weight_ = result.feature_weight
        self.restart_objectives_ = result.restart_objectives
        self.best_restart_ = result.best_restart
        self.caps_reached_ = result.caps_reached
        self.notes_ = list(result.notes)
        self._keep_confidence(result.confidence)

    def _keep_confidence(self, found: Confidence | None) -> None:
        names = ("membership_", "confidence_", "label_draws_", "r_hat_", "chain_agreement_")
        for name in names:
            self.__dict__.pop(name, None)  # of an earlier fit
        if found is not None:
            values = found.membership, found.confidence, found.draws, found.r_hat, found.chain_agreement
            self.__dict__.update(zip(names, values, strict=True))

    def _keep_names(self, n_features: int, names: NDArray[Any] | None, rows: Names | None) -> None:
        self.n_features_in_ = n_features
        kept = {"feature_names_in_": names, "sample_names_in_": None if rows is None else rows.index}
        for name, value in kept.items():
            self.__dict__.pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(self, name, value)

    def _warn_if_all_dropped(self, given: Given) -> None:
        if given.dropped and given.dropped == given.total:
            text = f"all {given.total} links were left out: X has not both samples of any of them"
            warnings.warn(text, UserWarning, stacklevel=4)

    def _warn_if_degenerate(self) -> None:
        if self.covariance_ == "tied":
            return
        flat = self.covariances_.reshape(len(self.covariances_), -1)
        degenerate = np.flatnonzero(~flat.any(axis=1))
        if len(degenerate):
            clusters = ", ".join(map(str, degenerate))
            prior = "variance_prior" if self.covariance_ in SPHERES else "covariance_prior"
            text = f"degenerate clusters, of variance 0: {clusters}; {prior} above 0 rules them out"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)

    def _warn_of_inputs(self, features: NDArray[np.float64], layers: list[Layer]) -> None:
        found = data_notes(features, int(self.n_clusters), may_degenerate=False)
        for text in (*found, *contradiction_notes(layers, self.labels_)):
            warnings.warn(text, UserWarning, stacklevel=4)
