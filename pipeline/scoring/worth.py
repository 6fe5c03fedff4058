r"""Scores by how pairs were chosen, and what choosing them is worth: uniform pairs that reach the same.

`design_groups` pairs the designs by what was drawn, a curve over m for each; `budgets` says how many uniform
pairs reach what m chosen ones do.

The mean curve of uniform pairs over x = m / N, made monotone by the largest value so far, begins at x = 0
with the baseline of the same shape where there is one. Between its points it is straight. With :math:`s(x)`
the mean score of x chosen pairs a sample, their worth is the least x' at which that curve is :math:`s(x)`,
and the budget ratio is :math:`x / x'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.scoring.ranking import RANKED, ROUNDING, solved_values
from pipeline.scoring.tables import NAMES, by_unit, complete_places, unit_level
from sweeps.words import UNIFORM, baseline_of

# Stands for a data set where it is the mean over data sets.
MEAN = "mean of all"
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """One data set at one accuracy, of one model.

    Parameters
    ----------
    dataset : str
        Its name.
    unit : str
        What was drawn independently: mixtures, or of a real data set redraws of the annotations.
    m : tuple of int
        Numbers of annotations, ascending, that every design has.
    x : ndarray of shape (n_m,)
        The same per sample, m / N.
    values : mapping of str to ndarray of shape (n_units, n_m)
        Of each design the score of each unit, a mean over its places. A place, which is a mixture and
        replicate, where any design lacks a score at any m is left out for all of them.
    start : ndarray of shape (n_units,) or None
        Score of the baseline of the same shape, which has no annotations; None without one.
    """

    dataset: str
    unit: str
    m: tuple[int, ...]
    x: Floats
    values: Mapping[str, Floats]
    start: Floats | None


@dataclass(frozen=True, eq=False)
class Group:
    """What one line of a figure is drawn from: a data set, or several in equal shares.

    Parameters
    ----------
    dataset : str
        Its name, or `MEAN`.
    p : float
        Accuracy of the annotations.
    model : str
        Which.
    counts : tuple of str
        Each m, as the sweep file writes it.
    parts : tuple of Part
        The data sets, all with these counts and the same designs.
    """

    dataset: str
    p: float
    model: str
    counts: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def chosen(self) -> tuple[str, ...]:
        """Designs beside uniform pairs."""
        return tuple(design for design in self.parts[0].values if design != UNIFORM)

    @property
    def title(self) -> str:
        """Its name, or how many data sets it is a mean of."""
        return f"mean of {len(self.parts)} data sets" if self.dataset == MEAN else self.dataset

    @property
    def x(self) -> Floats:
        """Annotations per sample, of shape (n_m,)."""
        return np.asarray(np.mean([part.x for part in self.parts], axis=0))

    @property
    def n(self) -> int:
        """Units of a data set, or data sets."""
        return len(self.parts) if self.dataset == MEAN else len(self.parts[0].values[UNIFORM])

    @property
    def unit(self) -> str:
        """What `n` counts."""
        return "data sets" if self.dataset == MEAN else self.parts[0].unit

    def mean(self, design: str) -> Floats:
        """Mean score at each m, of shape (n_m,)."""
        return _mean([part.values[design] for part in self.parts])

    def error(self, design: str) -> Floats:
        """Standard error of the mean over units, of shape (n_m,); the data sets are given."""
        return _error([part.values[design] for part in self.parts])

    def difference(self, design: str) -> tuple[Floats, Floats]:
        """Mean and standard error of a design less uniform pairs, paired by unit, each of shape (n_m,)."""
        pairs = [part.values[design] - part.values[UNIFORM] for part in self.parts]
        return _mean(pairs), _error(pairs)


def _mean(values: Sequence[Floats]) -> Floats:
    return np.asarray(np.mean([each.mean(axis=0) for each in values], axis=0))


def _error(values: Sequence[Floats]) -> Floats:
    """Of a mean over data sets the error of its draws; a data set that has one unit alone adds nothing."""
    squares = [each.var(axis=0, ddof=1) / len(each) for each in values if len(each) > 1]
    if not squares:
        return np.full(values[0].shape[1], np.nan)
    return np.asarray(np.sqrt(np.sum(squares, axis=0)) / len(values))


def design_groups(cells: pd.DataFrame, score: str, written: Mapping[tuple[str, int], str]) -> list[Group]:
    """Floats of every model at every accuracy: over the data sets first, where there are several.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    score : str
        More is better; 0 for a cell without a solution.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    list of Group
        Empty without uniform pairs and another design. The means are over data sets that have all designs
        and, as the file writes them, all counts.
    """
    names = set(cells["design"].dropna()) if "design" in cells else set()
    if UNIFORM not in names or len(names) < 2:
        return []
    marked = cells.assign(value=solved_values(cells, score))
    groups = [
        group for _, rows in marked.groupby("dataset", sort=False) for group in _of_dataset(rows, written)
    ]
    return [*_means(groups), *groups]


def design_table(groups: Sequence[Group]) -> pd.DataFrame:
    """Scores of every design, and how far they are from those of uniform pairs.

    Parameters
    ----------
    groups : sequence of Group
        Of one score.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `p`, `model`, `design`, `m` (as written), `m_over_n`, `n`, `unit`, `mean`, `se`,
        `difference` to uniform pairs and its `difference_se`, both missing for these themselves. Errors are
        missing where there is one unit.
    """
    frames = []
    for group in groups:
        for design in (UNIFORM, *group.chosen):
            less, error = group.difference(design) if design != UNIFORM else (np.nan, np.nan)
            means = {"mean": group.mean(design), "se": group.error(design)}
            columns = {"n": group.n, "unit": group.unit, **means, "difference": less, "difference_se": error}
            frames.append(_framed(group, design, columns))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _framed(group: Group, design: str, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each m."""
    heads = {"dataset": group.dataset, "p": group.p, "model": group.model, "design": design}
    return pd.DataFrame({**heads, "m": group.counts, "m_over_n": group.x, **columns})


def _of_dataset(rows: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> Iterator[Group]:
    """None without uniform pairs, or another design, that has a score where all others do."""
    dataset = str(rows["dataset"].iloc[0])
    keyed = rows.assign(mixture=rows["mixture"].fillna(-1).astype(int))
    drawn, alone = keyed[keyed["p"].notna()], keyed[keyed["p"].isna()]
    for (p, model), found in drawn.groupby(["p", "model"], sort=False):
        complete = complete_places(found, ["mixture", "replicate"], ["design", "m"])
        there = set(complete.columns.get_level_values("design"))
        designs = [name for name in found["design"].unique() if name in there]
        if UNIFORM not in designs or len(designs) < 2 or complete.empty:
            continue
        in_common = sorted(set.intersection(*(set(complete[name].columns) for name in designs)))
        if not in_common:
            continue
        level, units = unit_level(complete.index), by_unit(complete)
        values = {name: units[name][in_common].to_numpy(dtype=float) for name in designs}
        levels = alone[alone["model"] == baseline_of(str(model))].set_index("mixture")["value"]
        start = levels.reindex(units.index if level == "mixture" else [-1] * len(units)).to_numpy(dtype=float)
        x = found.drop_duplicates("m").set_index("m")["m_over_n"][in_common].to_numpy(dtype=float)
        known = start if len(levels) and not np.isnan(start).any() else None
        part = Part(dataset, NAMES[level], tuple(map(int, in_common)), x, values, known)
        texts = tuple(written.get((dataset, m), str(m)) for m in part.m)
        yield Group(dataset, float(p), str(model), texts, (part,))


def _means(groups: Sequence[Group]) -> Iterator[Group]:
    """Over the data sets with the same counts and designs as the first one, where there are several."""
    keys = dict.fromkeys((group.p, group.model) for group in groups)
    for p, model in keys:
        alike = [group for group in groups if (group.p, group.model) == (p, model)]
        alike = [g for g in alike if (g.counts, {*g.chosen}) == (alike[0].counts, {*alike[0].chosen})]
        if len(alike) > 1:
            yield Group(MEAN, p, model, alike[0].counts, tuple(group.parts[0] for group in alike))


RESAMPLES = 2000
COVERAGE = 0.95
# Of the resamples: an interval is a function of the scores alone.
SEED = 0


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
        return float(self.group.x[0]) if any(part.start is None for part in self.group.parts) else 0.0

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
        One of `pipeline.scoring.ranking.RANKED`.
    groups : tuple of Group
        From `design_groups`.
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
    found = ((score, tuple(design_groups(cells, score, written))) for score in RANKED)
    return tuple(DesignScores(score, groups, tuple(budgets(groups))) for score, groups in found if groups)


def budgets(groups: Sequence[Group]) -> list[Budget]:
    """Worth of every design beside uniform pairs, of every group.

    Parameters
    ----------
    groups : sequence of Group
        From `design_groups`.

    Returns
    -------
    list of Budget
        Intervals are those of the bootstrap: units are drawn again within each data set, the same ones for
        all designs, and 2.5 % of the worths lie beyond either end.
    """
    found = []
    for group in groups:
        units = [len(part.values[UNIFORM]) for part in group.parts]
        for design in group.chosen:
            worth = _worths(group, design, [np.arange(n)[None] for n in units])[0]
            if max(units) < 2:
                low = high = np.full(len(worth), np.nan)
            else:
                rng = np.random.default_rng(SEED)
                drawn = [rng.integers(n, size=(RESAMPLES, n)) for n in units]
                # order statistics: a mean of two would be no number where one of them is infinite
                ordered = np.sort(_worths(group, design, drawn), axis=0)
                tail = round(RESAMPLES * (1 - COVERAGE) / 2)
                low, high = ordered[tail], ordered[-1 - tail]
            found.append(Budget(group, design, worth, low, high))
    return found


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
        columns = {"worth": each.worth, "worth_low": each.low, "worth_high": each.high, "most": each.most}
        ends = {"ratio": each.worth, "ratio_low": each.high, "ratio_high": each.low}
        columns |= {name: ratio(each.group.x, worth) for name, worth in ends.items()}
        frames.append(_framed(each.group, each.design, columns))
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
