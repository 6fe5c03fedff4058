r"""How many uniform pairs reach what m chosen ones do.

The mean curve of uniform pairs over x = m / N, made monotone by the largest value so far, begins at x = 0
with the baseline of the same shape where there is one. Between its points it is straight. With :math:`s(x)`
the mean score of x chosen pairs a sample, their worth is the least x' at which that curve is :math:`s(x)`,
and the budget ratio is :math:`x / x'`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.scoring.winners.common import RANKED
from pipeline.scoring.worth.curves import MEAN, Group, design_groups
from sweeps.words import UNIFORM

Floats = NDArray[np.float64]

RESAMPLES = 2000
COVERAGE = 0.95
ROUNDING = 1e-12
"""Scores that differ by no more are equal."""
SEED = 0
"""Of the resamples: an interval is a function of the scores alone."""


@dataclass(frozen=True, eq=False)
class Budget:
    """Worth of the pairs of one design, in uniform pairs a sample.

    Parameters
    ----------
    group : Group
        Whose.
    design : str
        Which.
    worth, low, high : ndarray of shape (n_m,)
        Uniform pairs a sample that reach the score of each m, and the ends of their interval; infinite where
        none on the grid do, and 0 where the curve of uniform pairs begins above. The interval is missing
        without two units.
    """

    group: Group
    design: str
    worth: Floats
    low: Floats
    high: Floats

    @property
    def least(self) -> float:
        """Where the curve of uniform pairs begins, in pairs a sample: 0 with a baseline."""
        return 0.0 if _has_start(self.group) else float(self.group.x[0])

    @property
    def most(self) -> float:
        """Where it ends."""
        return float(self.group.x[-1])


@dataclass(frozen=True, eq=False)
class DesignScores:
    """One score of every design.

    Parameters
    ----------
    score : str
        One of `pipeline.scoring.winners.common.RANKED`.
    groups : tuple of Group
        From `pipeline.scoring.worth.curves.design_groups`.
    budgets : tuple of Budget
        Of these, from `budgets`.
    """

    score: str
    groups: tuple[Group, ...]
    budgets: tuple[Budget, ...]

    @property
    def shown_first(self) -> tuple[Budget, ...]:
        """Budgets over all data sets, where there are several; else all of them."""
        whole = tuple(each for each in self.budgets if each.group.dataset == MEAN)
        return whole or self.budgets


def design_scores(cells: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> tuple[DesignScores, ...]:
    """Scores of all designs and the worth of their pairs; nothing without uniform pairs and another design.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """
    found = {score: tuple(design_groups(cells, score, written)) for score in RANKED}
    return tuple(
        DesignScores(score, groups, tuple(budgets(groups))) for score, groups in found.items() if groups
    )


def budgets(groups: Sequence[Group]) -> list[Budget]:
    """Worth of every design beside uniform pairs, of every group.

    Parameters
    ----------
    groups : sequence of Group
        From `pipeline.scoring.worth.curves.design_groups`.

    Returns
    -------
    list of Budget
        Intervals are those of the bootstrap: units are drawn again within each data set, the same ones for
        all designs, and 2.5 % of the worths lie beyond either end.
    """
    return [_budget(group, design) for group in groups for design in group.chosen]


def budget_table(found: Sequence[Budget]) -> pd.DataFrame:
    """Worth and ratio, as files hold them.

    Parameters
    ----------
    found : sequence of Budget
        Of one score.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `p`, `model`, `design`, `m` (as written), `m_over_n`; `worth`, `worth_low`, `worth_high` in
        uniform pairs a sample, infinite beyond `most`, the largest on the grid; `ratio`, `ratio_low`,
        `ratio_high`, missing where the worth is 0 or infinite.
    """
    frames = []
    for each in found:
        group = each.group
        frame = pd.DataFrame({"m": group.counts, "m_over_n": group.x})
        frame = frame.assign(worth=each.worth, worth_low=each.low, worth_high=each.high, most=each.most)
        ends = {"ratio": each.worth, "ratio_low": each.high, "ratio_high": each.low}
        frame = frame.assign(**{name: ratio(group.x, worth) for name, worth in ends.items()})
        names = {"dataset": group.dataset, "p": group.p, "model": group.model, "design": each.design}
        for place, (key, value) in enumerate(names.items()):
            frame.insert(place, key, value)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def ratio(x: Floats, worth: Floats) -> Floats:
    """Chosen pairs for each uniform pair that they are worth; NaN where that is 0, infinite or missing."""
    known = np.isfinite(worth) & (worth > 0)
    return np.where(known, x / np.where(known, worth, 1.0), np.nan)


def reached(x: Floats, curves: Floats, levels: Floats) -> Floats:
    """Least x at which monotone, piecewise straight curves reach some levels.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Ascending.
    curves : ndarray of shape (n_curves, n_points)
        Their values; the largest so far counts.
    levels : ndarray of shape (n_curves, n_levels)
        Of each curve.

    Returns
    -------
    ndarray of shape (n_curves, n_levels)
        0 for a level at or below the first point, infinite above the last.
    """
    rising = np.maximum.accumulate(curves, axis=1)
    place = (rising[:, None, :] < levels[:, :, None] - ROUNDING).sum(axis=2)
    inner = np.clip(place, 1, len(x) - 1)
    below, above = (np.take_along_axis(rising, at, axis=1) for at in (inner - 1, inner))
    step = np.where(above > below, above - below, 1.0)
    share = np.clip((levels - below) / step, 0.0, 1.0)
    found = x[inner - 1] + share * (x[inner] - x[inner - 1])
    return np.where(place == 0, 0.0, np.where(place == len(x), np.inf, found))


def _budget(group: Group, design: str) -> Budget:
    rows = [np.arange(len(part.values[UNIFORM]))[None] for part in group.parts]
    worth = _worths(group, design, rows)[0]
    missing = np.full(len(worth), np.nan)
    if all(len(part.values[UNIFORM]) < 2 for part in group.parts):
        return Budget(group, design, worth, missing, missing)
    rng = np.random.default_rng(SEED)
    drawn = [rng.integers(row.size, size=(RESAMPLES, row.size)) for row in rows]
    # order statistics: a mean of two would be no number where one of them is infinite
    ordered = np.sort(_worths(group, design, drawn), axis=0)
    tail = round(RESAMPLES * (1 - COVERAGE) / 2)
    return Budget(group, design, worth, ordered[tail], ordered[-1 - tail])


def _worths(group: Group, design: str, rows: Sequence[NDArray[np.int64]]) -> Floats:
    """Worth at each m of every resample, given the units of each part in each of them."""
    pairs = list(zip(group.parts, rows, strict=True))

    def curve(name: str) -> Floats:
        means = [part.values[name][drawn].mean(axis=1) for part, drawn in pairs]
        return np.asarray(np.mean(means, axis=0))

    x, uniform = group.x, curve(UNIFORM)
    starts = [part.start[drawn].mean(axis=1) for part, drawn in pairs if part.start is not None]
    if len(starts) == len(pairs):
        x, uniform = np.append(0.0, x), np.column_stack([np.mean(starts, axis=0), uniform])
    return reached(x, uniform, curve(design))


def _has_start(group: Group) -> bool:
    return all(part.start is not None for part in group.parts)
