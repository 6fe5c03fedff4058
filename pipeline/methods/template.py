"""A method of your own, to begin with: copy this file, and put your algorithm in place of this one.

    sweep methods template > my_method.py
    sweep methods check my_method.py:cluster

In a sweep file:

    methods = [{ name = "mine", call = "my_method.py:cluster", uses = "links", restarts = 5 }]

The one here draws centroids among the samples and lets each cluster follow its mean, as k-means does, with
all samples that a chain of must-links joins moved as one. It looks at no cannot-link.
"""

import numpy as np

from sweep_clustering import NoSolution, Solution


def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, max_iter=100):
    """Cluster samples; one call is one restart.

    X is (n_samples, n_features), float64, read-only: write into X.copy(). must_link and cannot_link are pairs
    i < j of samples from 0, each pair once, (n_pairs, 2); a pair that was annotated both ways is in both.
    weights are two arrays, how often each must-link and each cannot-link was annotated. accuracy is the
    probability that an annotation is right. random_state is an int: draw from default_rng(random_state)
    alone. Arguments after it are options, with their defaults.

    Return labels from 0 to n_clusters - 1, or a Solution; raise NoSolution where there is none.
    """
    if len(X) < n_clusters:
        raise NoSolution(f"{len(X)} samples for {n_clusters} clusters")
    rng = np.random.default_rng(random_state)
    groups = groups_of_links(len(X), must_link)
    sizes = np.bincount(groups)
    means = np.stack([np.bincount(groups, weights=column) for column in X.T], axis=1) / sizes[:, None]

    centroids = X[rng.choice(len(X), size=n_clusters, replace=False)]
    for _ in range(max_iter):
        distances = ((means[:, None, :] - centroids[None, :, :]) ** 2).sum(axis=2)
        labels = distances.argmin(axis=1)[groups]
        new_centroids = np.stack(
            [X[labels == k].mean(axis=0) if (labels == k).any() else centroids[k] for k in range(n_clusters)]
        )
        if np.array_equal(new_centroids, centroids):
            break
        centroids = new_centroids

    # Larger is better: of all restarts, the one with the largest objective is kept.
    objective = -((X - centroids[labels]) ** 2).sum()
    return Solution(labels, objective=objective, centroids=centroids)


def groups_of_links(n_samples, must_link):
    """Return the number of the group of each sample: chains of must-links join samples of a group."""
    groups = np.arange(n_samples)
    for i, j in must_link:
        groups[groups == groups[j]] = groups[i]
    return np.unique(groups, return_inverse=True)[1]
