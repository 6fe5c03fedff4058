"""Were the published mixtures of two clusters harder? The mixtures at hand, weighted by their Bayes error.

The weight of a mixture is exp(tilt · Bayes error). The tilt is fitted to what was published of p = 0.8,
p = 0.9 and m = 0; what was published of p = 1.0 the fit does not see. `page.py` does it, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from files import sweep_file
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import ncx2
from why import by_mixture

from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.spec import Mixtures
from sweep_clustering.sweeps.seeds import data_seed

Floats = NDArray[np.float64]

CLUSTERS, PUBLISHED = 2, 50
"""Clusters of a mixture, and mixtures behind a published mean."""
STEEPEST = 50.0
"""Tilt beyond which a handful of mixtures would have all the weight."""
LAW, DRAWS = 200_000, 100_000
"""Mixtures that stand for their law, and draws of fifty."""


@dataclass(frozen=True)
class Reweighting:
    """What the fit gives.

    Parameters
    ----------
    errors : array of shape (n_mixtures,)
        Bayes error of each mixture at hand.
    weights : array of shape (n_mixtures,)
        Of the mixtures, with sum 1.
    law : float
        Mean Bayes error of the law that mixtures are drawn from.
    chance, chance_of_law : float
        Of fifty mixtures at least as hard in the mean as the weighted ones, drawn from those at hand and from
        their law.
    values : pandas.DataFrame
        A row per published value: `p` (NaN at m = 0), `m`, `model`, `score`, `fitted` (whether the fit saw
        it), `published`, `mean` and `weighted` mean of the mixtures at hand, and for both the difference from
        the published value in standard errors of a mean of fifty, `z` and `z_weighted`.
    """

    errors: Floats
    weights: Floats
    law: float
    chance: float
    chance_of_law: float
    values: pd.DataFrame

    @property
    def mean_error(self) -> float:
        """Bayes error in the mean of the weighted mixtures."""
        return float(self.weights @ self.errors)

    @property
    def effective(self) -> float:
        """How many mixtures of equal weight have a mean as certain."""
        return float(1 / (self.weights**2).sum())

    def squares(self) -> Iterator[dict[str, Any]]:
        """Mean z² before and after by p and score, then of all together: seen by the fit, then not."""
        for fitted in (True, False):
            rows = self.values[self.values["fitted"] == fitted]
            for (p, score), group in rows.groupby(["p", "score"], dropna=False, sort=False):
                yield {"fitted": fitted, "p": p, "score": score, **_mean_squares(group)}
            yield {"fitted": fitted, "p": np.nan, "score": "all", **_mean_squares(rows)}

    def unseen(self, own_error: bool = False) -> tuple[float, float]:
        """Mean z² of what the fit did not see, before and after; the error of our means counted or not."""
        found = _mean_squares(self.values[~self.values["fitted"]])
        sizes = (len(self.errors), self.effective) if own_error else (np.inf, np.inf)
        return found["before"] / (1 + PUBLISHED / sizes[0]), found["after"] / (1 + PUBLISHED / sizes[1])


def bayes_error(centers: Floats, variances: Floats) -> Floats:
    """Share of samples that a classifier with the true parameters gets wrong, two clusters of equal weight.

    The narrower of two spherical Gaussians is the more likely one within a ball, and squared distances from
    the middle of the ball follow noncentral χ² laws, so this is exact.

    Parameters
    ----------
    centers : array of shape (..., 2, n_features)
        Centres.
    variances : array of shape (..., 2)
        Variances, different from each other.

    Returns
    -------
    array of shape (...)
        Bayes errors.
    """
    order = np.argsort(variances, axis=-1)
    narrow, wide = np.moveaxis(np.take_along_axis(variances, order, axis=-1), -1, 0)
    inner, outer = np.moveaxis(np.take_along_axis(centers, order[..., np.newaxis], axis=-2), -2, 0)
    n_features = centers.shape[-1]
    apart = ((inner - outer) ** 2).sum(axis=-1)
    # The middle of the ball lies on the line through both centres, beyond that of the narrower Gaussian.
    from_inner = apart * (narrow / (wide - narrow)) ** 2
    from_outer = apart * (wide / (wide - narrow)) ** 2
    radius = (n_features * np.log(wide / narrow) + apart / (wide - narrow)) / (1 / narrow - 1 / wide)
    missed = ncx2.sf(radius / narrow, n_features, from_inner / narrow)
    taken = ncx2.cdf(radius / wide, n_features, from_outer / wide)
    return np.asarray((missed + taken) / 2)


def parameters(rng: np.random.Generator, recipe: Mixtures, *count: int) -> tuple[Floats, Floats]:
    """Centres and variances of a mixture, or of `count` of them.

    Those of one are the first two draws of `sweeps.inputs.draw_mixture`.
    """
    centers = rng.uniform(*recipe.center, size=(*count, recipe.n_clusters, recipe.n_features))
    return centers, rng.uniform(*recipe.variance, size=(*count, recipe.n_clusters))


def errors_of(sweep: str) -> tuple[Floats, Mixtures]:
    """Bayes errors of the mixtures of two clusters of a sweep, redrawn from their seeds; and their recipe."""
    spec = load_sweep(sweep_file(sweep))
    recipes = [entry for entry in spec.grid.datasets if isinstance(entry, Mixtures)]
    recipe = next(entry for entry in recipes if entry.n_clusters == CLUSTERS)
    streams = (data_seed(spec.seed, recipe.name, mixture) for mixture in range(recipe.count))
    drawn = [parameters(np.random.default_rng(stream), recipe) for stream in streams]
    return np.array([bayes_error(*each) for each in drawn]), recipe


def weights(errors: Floats, tilt: float) -> Floats:
    """Weights of the mixtures, with sum 1."""
    found = np.exp(tilt * (errors - errors.mean()))
    return np.asarray(found / found.sum())


def z(scores: Floats, published: Floats, weights: Floats) -> Floats:
    """Differences of published means from weighted ones, in standard errors of a mean of fifty.

    Parameters
    ----------
    scores : array of shape (n_values, n_mixtures)
        Scores behind each mean.
    published : array of shape (n_values,)
        Published means.
    weights : array of shape (n_mixtures,)
        With sum 1.

    Returns
    -------
    array of shape (n_values,)
        Published less weighted mean, over the error.
    """
    means = scores @ weights
    variances = (scores - means[:, np.newaxis]) ** 2 @ weights
    return np.asarray((published - means) / np.sqrt(variances / PUBLISHED))


def best_tilt(errors: Floats, scores: Floats, published: Floats) -> float:
    """The tilt of least Σ z²; arguments as those of `z`."""

    def misfit(tilt: float) -> float:
        return float((z(scores, published, weights(errors, tilt)) ** 2).sum())

    return float(minimize_scalar(misfit, bounds=(-STEEPEST, STEEPEST), method="bounded").x)


def reweigh(against: pd.DataFrame, cells: dict[str, pd.DataFrame]) -> Reweighting:
    """Fit the tilt, and see what it gives where the fit did not look.

    Parameters
    ----------
    against : pandas.DataFrame
        Published means beside the repeated ones.
    cells : dict of str to pandas.DataFrame
        Cells of several sets of mixtures, by a sweep that draws them.
    """
    found = [errors_of(sweep) for sweep in cells]
    errors = np.concatenate([each for each, _ in found])
    values, scores = gathered(against, list(cells.values()))
    published, fitted = values["published"].to_numpy(), values["fitted"].to_numpy()
    tilted = weights(errors, best_tilt(errors, scores[fitted], published[fitted]))
    flat = np.full(len(errors), 1 / len(errors))
    rng = np.random.default_rng(0)
    law = bayes_error(*parameters(rng, found[0][1], LAW))
    return Reweighting(
        errors,
        tilted,
        law.mean(),
        chance(rng, errors, tilted @ errors),
        chance(rng, law, tilted @ errors),
        values.assign(
            mean=scores @ flat,
            z=z(scores, published, flat),
            weighted=scores @ tilted,
            z_weighted=z(scores, published, tilted),
        ),
    )


def gathered(against: pd.DataFrame, cells: list[pd.DataFrame]) -> tuple[pd.DataFrame, Floats]:
    """Published values of two clusters that all sets of mixtures have cells for, and scores behind them."""
    values, scores = [], []
    for row in against[against["n_clusters"] == CLUSTERS].itertuples():
        parts = [by_mixture(each, row) for each in cells]
        again = not row.m and any(value["m"] == 0 and value["score"] == row.score for value in values)
        if again or not all(map(len, parts)):  # the tables repeat the baseline
            continue
        fitted = not row.m or row.p < 1.0
        p = row.p if row.m else np.nan
        values.append({"p": p, "m": row.m, "model": row.model, "score": row.score, "fitted": fitted})
        values[-1]["published"] = row.published
        scores.append(np.concatenate(parts))
    return pd.DataFrame(values), np.array(scores)


def chance(rng: np.random.Generator, errors: Floats, least: float) -> float:
    """Share of draws of fifty mixtures whose mean Bayes error is at least this."""
    means = rng.choice(errors, size=(DRAWS, PUBLISHED)).mean(axis=1)
    return float((means >= least).mean())


def _mean_squares(values: pd.DataFrame) -> dict[str, float]:
    squares = values[["z", "z_weighted"]] ** 2
    return {"values": len(values), "before": squares["z"].mean(), "after": squares["z_weighted"].mean()}
