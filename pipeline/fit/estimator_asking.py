"""What to ask next, and answers that are added to a fit: the part of the estimator that goes step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kernels.problem.layers import CANNOT, MUST, Layer, layer_weights
from kernels.settings import settings_of
from pipeline.asking.belief import believe
from pipeline.asking.names import NAMES
from pipeline.asking.unasked import choose
from pipeline.fit.estimator_inputs import check_inputs, check_same_features
from sweeps.errors import InputError, Problem, collecting, not_one_of

QUERY = 1_000_000
"""First part of the key of the random streams of queries: restarts have the numbers below."""

MOST_RESTARTS = 3
"""Of the search before a query: the solution of the fit is where the first of them begins."""

LEAST_RESTARTS = 3
"""`partial_fit` runs one restart of so many, one at least."""


class Query(NamedTuple):
    """Pairs to ask next, best first.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2), int64
        Samples from 0, by their place in X, the lower one first; no pair twice.
    together : ndarray of shape (n_pairs,)
        Probability that the samples belong together, given the model and all answers.
    information : ndarray of shape (n_pairs,)
        What the answer would tell of who belongs together, nats.
    """

    pairs: NDArray[np.int64]
    together: NDArray[np.float64]
    information: NDArray[np.float64]


class Asking:
    """Methods of `AnnotatedClustering` that need a fit: `query` and `partial_fit`."""

    def query(self, n: int = 20, *, strategy: str = "information") -> Query:
        """Choose the pairs whose answers help most, given all annotations so far.

        The annotation term is the conditional one, whatever the model of the fit: "posterior" and
        "likelihood" would take the choice of the pairs, and not only their answers, as evidence. So should
        be that of the fits: `model="conditional"`. Shape of the covariances and settings are those of the
        estimator. A pair that has been annotated does not come again, but by the strategy "again".

        Parameters
        ----------
        n : int, default=20
            Pairs wanted.
        strategy : {"information", "uncertain", "anchors", "again", "farthest-first", "committee", "uniform"}
            "information": the pairs whose answers together say the most of who belongs together.
            "uncertain": those whose answers are hardest to predict, each taken alone. "anchors": a doubtful
            sample against a sure one. "again": annotated pairs whose annotations are in doubt, once more.
            "farthest-first" and "committee" are baselines of others; "uniform" are any pairs.

        Returns
        -------
        Query
            `pairs`, `together` and `information`; fewer than wanted if no other pair is left. The same again
            until annotations are added.

        Raises
        ------
        NotFittedError
            Before a fit.
        ValueError
            If n or the strategy is not possible, or the accuracy of the estimator is not above 1/2.
        """
        check_is_fitted(self)
        own: Any = self
        problems = list(_query_problems(n, strategy, own.accuracy))
        layers: list[Layer] = []
        with collecting(problems):
            layers = check_inputs(
                own.get_params(deep=False), own.must_link_, own.cannot_link_, len(own.X_fit_)
            )
        if problems:
            raise InputError(problems)
        answers = _answers(layers)
        key = QUERY, len(answers)
        belief = believe(
            own.X_fit_,
            [layer for layer in layers if len(layer.pairs)],
            n_clusters=int(own.n_clusters),
            accuracy=None if own.accuracy is None else float(own.accuracy),
            seed=np.random.SeedSequence(own.seed_, spawn_key=(*key, 0)),
            covariance=own.covariance,
            restarts=min(int(own.restarts), MOST_RESTARTS),
            settings=settings_of(vars(self)),
            start=own.labels_.astype(np.int16),
        )
        found = choose(
            belief,
            answers,
            strategy=strategy,
            count=int(n),
            seed=np.random.SeedSequence(own.seed_, spawn_key=(*key, 1)),
        )
        return Query(found.pairs.astype(np.int64), belief.together(found.pairs), found.scores)

    def partial_fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Any:
        """Add annotations to those of the fits before, and fit again from the solution there is.

        The samples are those of the fit: annotations are what is added, and they stay in `must_link_` and
        `cannot_link_`. The first restart begins with `labels_`, so that the solution is no worse than a local
        search makes the old one; there are a third of `restarts`, one at least. Without a fit before it is
        `fit`.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Features of the fit.
        y : object
            Not used.
        must_link, cannot_link : array_like of shape (n_links, 2) or (n_links, 3), optional
            New annotations, as of `fit`.

        Returns
        -------
        AnnotatedClustering
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            As of `fit`, or if X is not that of the fit; the earlier fit is kept.
        """
        own: Any = self
        if not hasattr(own, "X_fit_"):
            return own.fit(X, must_link=must_link, cannot_link=cannot_link)
        features = check_same_features(own, X)
        if not np.array_equal(features, own.X_fit_):
            found = f"another table, of shape {features.shape}"
            expected = f"that of the fit, of shape {own.X_fit_.shape}"
            raise InputError([Problem("X", found, expected, "fit takes new samples")])
        new = check_inputs(own.get_params(deep=False), must_link, cannot_link, len(features))
        before = check_inputs(own.get_params(deep=False), own.must_link_, own.cannot_link_, len(features))
        own._fit(
            features,
            joined([*before, *new]),
            start=own.labels_.astype(np.int16),
            restarts=max(1, int(own.restarts) // LEAST_RESTARTS),
        )
        return self


def _query_problems(n: Any, strategy: Any, accuracy: Any) -> Iterator[Problem]:
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        yield Problem("n", repr(n), "a whole number, 1 or more")
    if not isinstance(strategy, str) or strategy not in NAMES:
        yield not_one_of("strategy", strategy, NAMES)
    if isinstance(accuracy, (int, float)) and 0 < accuracy <= 0.5:
        hint = "answers that are right no more often than by chance say nothing"
        yield Problem("accuracy", repr(accuracy), "None, or a number above 0.5, at most 1", hint)


def _answers(layers: Sequence[Layer]) -> NDArray[np.int32]:
    """Columns i, j and kind of all annotations."""
    tables = [
        np.column_stack([layer.pairs, np.full(len(layer.pairs), layer.kind)]).astype(np.int32)
        for layer in layers
    ]
    return np.concatenate([np.empty((0, 3), np.int32), *tables])


def joined(layers: Sequence[Layer]) -> list[Layer]:
    """One layer for each kind, of those that there are."""
    kinds = [kind for kind in (MUST, CANNOT) if any(layer.kind == kind for layer in layers)]
    return [
        Layer(
            kind,
            np.concatenate([layer.pairs for layer in layers if layer.kind == kind]),
            np.concatenate([layer_weights(layer) for layer in layers if layer.kind == kind]),
            layers[0].accuracy,
        )
        for kind in kinds
    ]


def links_of(layers: Sequence[Layer], kind: int) -> NDArray[np.float64] | None:
    """Rows i, j, weight of the annotations of a kind, as `fit` takes them; None if it was given none."""
    for layer in layers:
        if layer.kind == kind:
            return np.column_stack([layer.pairs, layer_weights(layer)]).astype(np.float64)
    return None
