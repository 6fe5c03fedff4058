"""Links as a judge: the score of a fit to a part of the samples."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sweep_clustering.kernels.problem.data import layer_weights
from sweep_clustering.pipeline.fit.links import LinkTables, Reader, names_of
from sweep_clustering.pipeline.fit.solve import weighted_agreement
from sweep_clustering.sweeps.errors import InputError, Problem


class LinkScorer:
    """Share of the links of held-out samples that a fit predicts: a scorer for cross-validation.

    Called with an estimator that was fitted to some rows of a data frame, and with others of them, it
    predicts the clusters of the others, and gives the weighted share of the links with one or both samples
    among them that agree: a must-link within a cluster, a cannot-link between two. The other sample may be
    one of the fit, which has its cluster of `labels_`. No fit that left out the links of missing samples
    (`links_outside="drop"`) has seen these links. Links of a sample with itself, and of samples that are
    neither here nor there, do not count. The larger, the better; it is at most about the share of links that
    are right.

    Parameters
    ----------
    must_link, cannot_link : links
        Of the whole data frame, as of `AnnotatedClustering.fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> from sweep_clustering import AnnotatedClustering, LinkScorer
    >>> table = pd.DataFrame({"x": [0.0, 0.1, 0.3, 1.0, 1.2, 1.3]}, index=list("abcdef"))
    >>> estimator = AnnotatedClustering(n_clusters=2, random_state=0).fit(table.iloc[[0, 2, 3, 5]])
    >>> scorer = LinkScorer(must_link=[["a", "b"], ["b", "e"]], cannot_link=[["c", "e"]])
    >>> scorer(estimator, table.iloc[[1, 4]])
    0.6666666666666666
    """

    def __init__(self, must_link: LinkTables | None = None, cannot_link: LinkTables | None = None) -> None:
        self.must_link = must_link
        self.cannot_link = cannot_link

    def __call__(self, estimator: Any, X: pd.DataFrame, y: object = None) -> float:
        """Score a fit.

        Parameters
        ----------
        estimator : AnnotatedClustering or Pipeline
            Fitted; of a pipeline the last step.
        X : DataFrame
            Rows that are held out.
        y : object
            Not used.

        Returns
        -------
        float
            Share in [0, 1].

        Raises
        ------
        ValueError
            If rows of the fit or of X have no names, if links are no such tables, or if no link has a sample
            in X.
        """
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        check_is_fitted(last)
        fitted, rows = getattr(last, "sample_names_in_", None), names_of(X, None, len(X))
        if fitted is None or rows is None:
            expected = "data frames, whose index names the rows; or a fit with samples"
            raise InputError([Problem("the fit" if fitted is None else "X", "rows without names", expected)])
        # rows of the fit that are not in X, then those of X
        others = ~np.asarray(fitted.isin(rows))
        first = int(others.sum())
        labels = np.concatenate([last.labels_[others], estimator.predict(X)])
        reader = Reader(len(labels), fitted[others].append(rows), drop=True)
        links = reader.read(self.must_link, self.cannot_link)
        judging = []
        for layer in links.layers:
            i, j = layer.pairs.T
            weights = np.where((i != j) & ((i >= first) | (j >= first)), layer_weights(layer), 0.0)
            judging.append(replace(layer, weights=weights))
        share = weighted_agreement(judging, labels)
        if math.isnan(share):
            found = f"none of {links.total} with a sample in the {len(X)} rows of X"
            hint = "fewer, larger folds have more of them"
            raise InputError([Problem("links", found, "one or more", hint)])
        return share
