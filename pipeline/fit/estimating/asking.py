"""What to ask next, and answers that are added to a fit: the part of the estimator that goes step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kernels.problem.data import Layer
from kernels.settings import settings_of
from pipeline.asking.belief import believe
from pipeline.asking.names import NAMES
from pipeline.asking.unasked import choose
from pipeline.fit.estimating.inputs import check_inputs, check_same_features
from pipeline.fit.estimating.links import Given, LinkTables
from pipeline.fit.estimating.names import Names, same_names
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
    together: NDArray[np.float64]
    information: NDArray[np.float64]
    positions: NDArray[np.int64]


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
            Pairs with what is known of them; fewer than wanted if no other pair is left. The same again until
            annotations are added.

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
        given = Given()
        with collecting(problems):
            given = self._given()
        if problems:
            raise InputError(problems)
        answers = _answers(given.layers)
        key = QUERY, len(answers)
        belief = believe(
            own.X_fit_,
            [layer for layer in given.layers if len(layer.pairs)],
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
        positions, names = found.pairs.astype(np.int64), self._names()
        pairs = positions if names is None else names.take(positions)
        return Query(pairs, belief.together(found.pairs), found.scores, positions)

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
        search makes the old one; there are a third of `restarts`, one at least. Without a fit before it is
        `fit`.

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
        own: Any = self
        if not hasattr(own, "X_fit_"):
            return own.fit(X, must_link=must_link, cannot_link=cannot_link, samples=samples)
        features = check_same_features(own, X)
        if not np.array_equal(features, own.X_fit_):
            found = f"another table, of shape {features.shape}"
            expected = f"that of the fit, of shape {own.X_fit_.shape}"
            raise InputError([Problem("X", found, expected, "fit takes new samples")])
        given, names = check_inputs(
            own.get_params(deep=False), must_link, cannot_link, len(features),
            X=X, samples=samples, before=self._given(),
        )  # fmt: skip
        if not same_names(names, self._names(), len(features)):
            found, expected = _told(names), f"as in the fit: {_told(self._names())}"
            raise InputError([Problem("X", found, expected, "links would name other samples")])
        own._fit(
            features,
            given,
            start=own.labels_.astype(np.int16),
            restarts=max(1, int(own.restarts) // LEAST_RESTARTS),
        )
        return self

    def _given(self) -> Given:
        """Annotations so far, with the parameters as they are now."""
        own: Any = self
        links = own.must_link_, own.cannot_link_
        return check_inputs(own.get_params(deep=False), *links, len(own.X_fit_), before=Given())[0]

    def _names(self) -> Names | None:
        """What links of the fit call samples."""
        index = getattr(self, "sample_names_in_", None)
        return None if index is None else Names(index, "the index of the fit")


def _told(names: Names | None) -> str:
    return (
        "rows without names" if names is None else f"rows named {', '.join(map(repr, names.labels[:3]))} ..."
    )


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
