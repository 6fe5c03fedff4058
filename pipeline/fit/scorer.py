"""The scorer of the links of an estimator, for cross-validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.utils import validation

from sweep_clustering.kernels.problem.data import layer_weights
from sweep_clustering.pipeline.fit.links import Frames, LinkTables, Reader, names_of
from sweep_clustering.pipeline.fit.solve import weighted_agreement
from sweep_clustering.sweeps.errors import InputError, Problem


class LinkScorer:
    """Scorer for cross-validation: the share of the links of held-out samples that a fit predicts.

    It is called with an estimator that was fitted to some rows of a data frame, and with other rows, whose
    clusters it predicts. It returns the weighted share of the links with one or both samples among these rows
    that agree: a must-link within a cluster, a cannot-link between two. The other sample may be one of the
    fit, with its cluster of `labels_`. No fit that left out the links of missing samples
    (`links_outside="drop"`) has used these links. Links of a sample with itself, and of samples that are in
    neither part, do not count. The larger, the better; it is at most about the share of links that are right.

    Parameters
    ----------
    must_link, cannot_link, annotations : as in `AnnotatedClustering.fit`
        Links of the whole data frame.

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

    def __init__(
        self,
        must_link: LinkTables | None = None,
        cannot_link: LinkTables | None = None,
        annotations: Frames | Sequence[Frames] | None = None,
    ) -> None:
        self.must_link = must_link
        self.cannot_link = cannot_link
        self.annotations = annotations

    def __call__(self, estimator: Any, X: pd.DataFrame, y: object = None) -> float:
        """Score a fit.

        Parameters
        ----------
        estimator : AnnotatedClustering or Pipeline
            Fitted estimator, or a pipeline that ends with it.
        X : DataFrame
            Rows that were held out.
        y : object
            Not used.

        Raises
        ------
        ValueError
            If rows of the fit or of X have no names, if links are no such tables, or if no link has a sample
            in X.
        """
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        validation.check_is_fitted(last)
        names, rows = getattr(last, "sample_names_in_", None), names_of(X, None, len(X))
        if names is None or rows is None:
            expected = "data frames, whose index names the rows; or a fit with samples"
            raise InputError([Problem("the fit" if names is None else "X", "rows without names", expected)])
        # Rows of the fit that are not in X come first, then those of X.
        is_outside = ~np.asarray(names.isin(rows))
        first = int(is_outside.sum())
        labels = np.concatenate([last.labels_[is_outside], estimator.predict(X)])
        reader = Reader(len(labels), names[is_outside].append(rows), drop=True)
        links = reader.read(self.must_link, self.cannot_link, frames=self.annotations)
        layers = []
        for layer in links.layers:
            i, j = layer.pairs.T
            weights = np.where((i != j) & ((i >= first) | (j >= first)), layer_weights(layer), 0.0)
            layers.append(replace(layer, weights=weights))
        share = weighted_agreement(layers, labels)
        if math.isnan(share):
            number = f"none of {links.total} with a sample in the {len(X)} rows of X"
            hint = "fewer, larger folds have more of them"
            raise InputError([Problem("links", number, "one or more", hint)])
        return share
