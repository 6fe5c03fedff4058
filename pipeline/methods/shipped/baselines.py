"""Methods of scikit-learn and of genieclust, which see no annotations.

Like all shipped methods, they take those arguments of the contract that they name.
"""

from functools import partial

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

from sweep_clustering.pipeline.methods.contract import Floats, NoSolution, Solution
from sweep_clustering.pipeline.methods.shipped.links import padded

# Text in the error of scikit-learn about a cluster with fewer dimensions than features.
_ILL_DEFINED = "ill-defined empirical covariance"


def k_means(
    X: Floats, n_clusters: int, *, random_state: int, max_iter: int = 300, tol: float = 1e-4
) -> Solution:
    r"""Cluster by k-means from one k-means++ start (Arthur and Vassilvitskii 2007).

    The objective is minus the inertia, in squared units of the features,

    .. math:: -\sum_i \lVert x_i - \mu_{l_i} \rVert^2 .
    """
    k = min(n_clusters, len(X))
    model = KMeans(k, n_init=1, max_iter=max_iter, tol=tol, random_state=random_state).fit(X)
    return Solution(model.labels_, -model.inertia_, padded(model.cluster_centers_, n_clusters))


def _gaussian_mixture(
    covariance_type: str,
    X: Floats,
    n_clusters: int,
    *,
    random_state: int,
    max_iter: int = 100,
    tol: float = 1e-3,
    reg_covar: float = 1e-6,
) -> Solution:
    r"""Fit a mixture of Gaussians by expectation maximisation (Dempster, Laird and Rubin 1977), from one
    start.

    The objective is the log-likelihood, in nats,

    .. math:: \sum_i \log \sum_k \pi_k \, N(x_i; \mu_k, \Sigma_k) .

    There is no solution if a covariance becomes singular, or there are fewer samples than clusters.
    """
    if len(X) < n_clusters:
        raise NoSolution(f"{len(X)} samples for {n_clusters} Gaussians")
    settings = {"max_iter": max_iter, "tol": tol, "reg_covar": reg_covar, "random_state": random_state}
    model = GaussianMixture(n_clusters, covariance_type=covariance_type, **settings)
    try:
        model.fit(X)
    except ValueError as error:
        if _ILL_DEFINED not in str(error):
            raise
        raise NoSolution("a covariance became singular") from error
    probabilities = model.predict_proba(X)
    log_likelihood = float(model.score_samples(X).sum())
    return Solution(probabilities.argmax(axis=1), log_likelihood, model.means_, probabilities)


# partial by position, so that the shape is no option of the method
gaussian_mixture_spherical = partial(_gaussian_mixture, "spherical")
gaussian_mixture_diag = partial(_gaussian_mixture, "diag")
gaussian_mixture_tied = partial(_gaussian_mixture, "tied")
gaussian_mixture_full = partial(_gaussian_mixture, "full")


def ward(X: Floats, n_clusters: int) -> Solution:
    """Join the two clusters whose union adds least to the inertia (Ward 1963).

    It takes memory for all pairs of samples. The objective is that of `k_means`, minus the inertia.
    """
    if len(X) <= n_clusters:
        return Solution(np.arange(len(X)), 0.0, padded(X, n_clusters))
    labels = AgglomerativeClustering(n_clusters, linkage="ward").fit(X).labels_
    centroids = np.stack([X[labels == k].mean(axis=0) for k in range(n_clusters)])
    return Solution(labels, -float(((X - centroids[labels]) ** 2).sum()), centroids)


def average(X: Floats, n_clusters: int) -> Solution:
    """Join the two clusters with the least mean distance between their samples (Sokal and Michener 1958).

    It takes memory for all pairs of samples. It maximises nothing, so there is no objective.
    """
    if len(X) <= n_clusters:
        return Solution(np.arange(len(X)))
    return Solution(AgglomerativeClustering(n_clusters, linkage="average").fit(X).labels_)


def genie(X: Floats, n_clusters: int, *, gini_threshold: float = 0.3) -> Solution:
    """Join nearest clusters, but keep their sizes even: Genie (Gagolewski and others 2016).

    Like single linkage, it joins the two clusters whose nearest samples are closest. But while the Gini index
    of the sizes of the clusters is above `gini_threshold`, one of the two is a smallest cluster; at 1 it is
    single linkage. It maximises nothing, so there is no objective.
    """
    from genieclust import Genie  # it comes with the extra "suite"

    if len(X) <= n_clusters:  # it makes fewer clusters than samples
        return Solution(np.arange(len(X)))
    return Solution(Genie(n_clusters, gini_threshold=gini_threshold).fit(X).labels_)
