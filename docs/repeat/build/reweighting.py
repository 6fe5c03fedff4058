"""The mixtures at hand, weighted by their Bayes error: were the published mixtures of two clusters harder?

The weight of a mixture is exp(tilt · Bayes error). The tilt is fitted to the published values of p = 0.8, p =
0.9 and m = 0. The fit does not see those of p = 1.0. `page.py` does it, in seconds.
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

CLUSTERS = 2  # clusters of a mixture
PUBLISHED = 50  # mixtures behind a published mean
STEEPEST = 50.0  # tilt beyond which a handful of mixtures would have all the weight
LAW = 200_000  # mixtures that stand for their law
DRAWS = 100_000  # draws of fifty mixtures


@dataclass(frozen=True)
class Reweighting:
    """Results of the fit.

    Parameters
    ----------
    errors : array of shape (n_mixtures,)
        Bayes error of each mixture at hand.
    weights : array of shape (n_mixtures,)
        Weights of the mixtures, with sum 1.
    law : float
        Mean Bayes error of the law that mixtures are drawn from.
    chance, chance_of_law : float
        Probability that fifty mixtures are at least as hard in the mean as the weighted ones. They are drawn
        from those at hand, or from their law.
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
        """Return the mean Bayes error of the weighted mixtures."""
        return float(self.weights @ self.errors)

    @property
    def effective(self) -> float:
        """Return the number of mixtures of equal weight whose mean is as certain."""
        return float(1 / (self.weights**2).sum())

    def squares(self) -> Iterator[dict[str, Any]]:
        """Yield mean z² before and after by p and score, then of all together: fitted values first."""
        for fitted in (True, False):
            rows = self.values[self.values["fitted"] == fitted]
            for (p, score), group in rows.groupby(["p", "score"], dropna=False, sort=False):
                yield {"fitted": fitted, "p": p, "score": score, **_mean_squares(group)}
            yield {"fitted": fitted, "p": np.nan, "score": "all", **_mean_squares(rows)}

    def unseen(self, own_error: bool = False) -> tuple[float, float]:
        """Return mean z² outside the fit, before and after, with or without the error of our means."""
        squares = _mean_squares(self.values[~self.values["fitted"]])
        sizes = (len(self.errors), self.effective) if own_error else (np.inf, np.inf)
        return squares["before"] / (1 + PUBLISHED / sizes[0]), squares["after"] / (1 + PUBLISHED / sizes[1])


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
    distance = ((inner - outer) ** 2).sum(axis=-1)
    # The middle of the ball lies on the line through both centres, beyond that of the narrower Gaussian.
    from_inner = distance * (narrow / (wide - narrow)) ** 2
    from_outer = distance * (wide / (wide - narrow)) ** 2
    radius = (n_features * np.log(wide / narrow) + distance / (wide - narrow)) / (1 / narrow - 1 / wide)
    misses = ncx2.sf(radius / narrow, n_features, from_inner / narrow)
    intrusions = ncx2.cdf(radius / wide, n_features, from_outer / wide)
    return np.asarray((misses + intrusions) / 2)


def parameters(rng: np.random.Generator, recipe: Mixtures, *count: int) -> tuple[Floats, Floats]:
    """Draw the centres and variances of a mixture, or of `count` mixtures.

    For one mixture they are the first two draws of `sweeps.inputs.draw_mixture`.
    """
    centers = rng.uniform(*recipe.center, size=(*count, recipe.n_clusters, recipe.n_features))
    return centers, rng.uniform(*recipe.variance, size=(*count, recipe.n_clusters))


def errors_of(sweep: str) -> tuple[Floats, Mixtures]:
    """Redraw the mixtures of two clusters of a sweep, and return their Bayes errors and their recipe."""
    spec = load_sweep(sweep_file(sweep))
    recipes = [entry for entry in spec.grid.datasets if isinstance(entry, Mixtures)]
    recipe = next(entry for entry in recipes if entry.n_clusters == CLUSTERS)
    streams = (data_seed(spec.seed, recipe.name, mixture) for mixture in range(recipe.count))
    mixtures = [parameters(np.random.default_rng(stream), recipe) for stream in streams]
    return np.array([bayes_error(*mixture) for mixture in mixtures]), recipe


def weights(errors: Floats, tilt: float) -> Floats:
    """Return the weights of the mixtures, with sum 1."""
    powers = np.exp(tilt * (errors - errors.mean()))
    return np.asarray(powers / powers.sum())


def z_scores(scores: Floats, published: Floats, weights: Floats) -> Floats:
    """Return the differences of published means from weighted ones, in standard errors of a mean of fifty.

    Parameters
    ----------
    scores : array of shape (n_values, n_mixtures)
        Scores behind each mean.
    published : array of shape (n_values,)
        Published means.
    weights : array of shape (n_mixtures,)
        Weights with sum 1.

    Returns
    -------
    array of shape (n_values,)
        Published less weighted mean, over the error.
    """
    means = scores @ weights
    variances = (scores - means[:, np.newaxis]) ** 2 @ weights
    return np.asarray((published - means) / np.sqrt(variances / PUBLISHED))


def best_tilt(errors: Floats, scores: Floats, published: Floats) -> float:
    """Return the tilt of least Σ z²; the arguments are those of `z_scores`."""

    def misfit_of(tilt: float) -> float:
        return float((z_scores(scores, published, weights(errors, tilt)) ** 2).sum())

    return float(minimize_scalar(misfit_of, bounds=(-STEEPEST, STEEPEST), method="bounded").x)


def reweigh(against: pd.DataFrame, cells: dict[str, pd.DataFrame]) -> Reweighting:
    """Fit the tilt, and apply it to the values outside the fit.

    Parameters
    ----------
    against : pandas.DataFrame
        Published means beside the repeated ones.
    cells : dict of str to pandas.DataFrame
        Cells of several sets of mixtures, by a sweep that draws them.
    """
    sets = [errors_of(sweep) for sweep in cells]
    errors = np.concatenate([errors for errors, _ in sets])
    values, scores = gather(against, list(cells.values()))
    published, fitted = values["published"].to_numpy(), values["fitted"].to_numpy()
    tilted = weights(errors, best_tilt(errors, scores[fitted], published[fitted]))
    flat = np.full(len(errors), 1 / len(errors))
    rng = np.random.default_rng(0)
    law = bayes_error(*parameters(rng, sets[0][1], LAW))
    return Reweighting(
        errors,
        tilted,
        law.mean(),
        chance(rng, errors, tilted @ errors),
        chance(rng, law, tilted @ errors),
        values.assign(
            mean=scores @ flat,
            z=z_scores(scores, published, flat),
            weighted=scores @ tilted,
            z_weighted=z_scores(scores, published, tilted),
        ),
    )


def gather(against: pd.DataFrame, cells: list[pd.DataFrame]) -> tuple[pd.DataFrame, Floats]:
    """Return the published values of two clusters for which all sets of mixtures have cells, and scores."""
    values, scores = [], []
    for row in against[against["n_clusters"] == CLUSTERS].itertuples():
        parts = [by_mixture(table, row) for table in cells]
        is_repeated = not row.m and any(value["m"] == 0 and value["score"] == row.score for value in values)
        if is_repeated or not all(map(len, parts)):  # the tables repeat the baseline
            continue
        fitted = not row.m or row.p < 1.0
        p = row.p if row.m else np.nan
        values.append({"p": p, "m": row.m, "model": row.model, "score": row.score, "fitted": fitted})
        values[-1]["published"] = row.published
        scores.append(np.concatenate(parts))
    return pd.DataFrame(values), np.array(scores)


def chance(rng: np.random.Generator, errors: Floats, minimum: float) -> float:
    """Return the share of draws of fifty mixtures whose mean Bayes error is at least this."""
    means = rng.choice(errors, size=(DRAWS, PUBLISHED)).mean(axis=1)
    return float((means >= minimum).mean())


def _mean_squares(values: pd.DataFrame) -> dict[str, float]:
    squares = values[["z", "z_weighted"]] ** 2
    return {"values": len(values), "before": squares["z"].mean(), "after": squares["z_weighted"].mean()}
