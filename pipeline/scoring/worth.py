r"""Scores by how pairs were chosen, and what choosing them is worth: uniform pairs that reach the same.

`design_scores` pairs the designs by what was drawn: a curve over m for each, its differences to uniform
pairs, and how many of these reach what m chosen ones do.

The mean curve of uniform pairs over x = m / N, made monotone by the largest value so far, begins at x = 0
with the baseline of the same shape where there is one. Between its points it is straight. With :math:`s(x)`
the mean score of x chosen pairs a sample, their worth is the least x' at which that curve is :math:`s(x)`,
and the budget ratio is :math:`x / x'`.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sweep_clustering.pipeline.scoring.ranking import MEAN, RANKED, ROUNDING, solved_values
from sweep_clustering.pipeline.scoring.tables import (
    DESIGN,
    NAMES,
    by_unit,
    complete_places,
    unit_level,
    values_of,
)
from sweep_clustering.sweeps.words import UNIFORM, baseline_of

Floats = NDArray[np.float64]

RESAMPLES = 2000
COVERAGE = 0.95
# Of the resamples: an interval is a function of the scores alone.
SEED = 0

# Of the two tables that files hold.
HEADS = ("dataset", "p", "model", "design", "m", "m_over_n")
DIFFERENCES = (*HEADS, "n", "unit", "mean", "se", "difference", "difference_se")
WORTHS = ("worth", "worth_low", "worth_high")
BUDGETS = (*HEADS, *WORTHS, "most", "ratio", "ratio_low", "ratio_high")


class Part(NamedTuple):
    """One data set at one accuracy, of one model.

    Parameters
    ----------
    heads : mapping of str to object
        Columns that all rows share: which part it is, and `n` units, what was drawn independently: mixtures,
        or of a real data set redraws of the annotations.
    counts : tuple of str
        Numbers of annotations that every design has, ascending, as the sweep file writes them.
    x : ndarray of shape (n_m,)
        The same per sample, m / N.
    values : mapping of str to ndarray of shape (n_units, n_m)
        Of each design, uniform pairs first, the score of each unit, a mean over its places. A place, which is
        a mixture and replicate, where any design lacks a score at any m is left out for all of them.
    start : ndarray of shape (n_units,) or None
        Score of the baseline of the same shape, which has no annotations; None without one.
    """

    heads: Mapping[str, Any]
    counts: tuple[str, ...]
    x: Floats
    values: Mapping[str, Floats]
    start: Floats | None


def design_scores(cells: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> dict[str, pd.DataFrame]:
    """Scores of all designs, how far they are from those of uniform pairs, and the worth of chosen pairs.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    dict of str to pandas.DataFrame
        By score, one of `RANKED`; nothing without uniform pairs and another design. A row for each data set,
        p, model, design and m: `HEADS`, with m as written; `title`, the data set for people; `n` units, or
        data sets; `unit`; `mean` and its `se`; `difference` to uniform pairs, paired by unit, and its
        `difference_se`; `worth`, `worth_low` and `worth_high` in uniform pairs a sample and the ends of their
        interval, which are infinite beyond `most`, the end of the curve of uniform pairs, and 0 below
        `least`, where it begins; `ratio`, `ratio_low`, `ratio_high`, missing where that worth is 0 or
        infinite. What compares with uniform pairs is missing for these themselves, and errors and intervals
        are where there is one unit. First come the rows of the data set `MEAN`: means over the data sets that
        have all designs and, as the file writes them, all counts, where there are several.
    """
    if UNIFORM not in values_of(cells, DESIGN):
        return {}
    found = {}
    for score in RANKED:
        marked = cells.assign(
            value=solved_values(cells, score), mixture=cells["mixture"].fillna(-1).astype(int)
        )
        parts = [
            part for _, rows in marked.groupby("dataset", sort=False) for part in _of_dataset(rows, written)
        ]
        if parts:
            groups = [*_over_datasets(parts), *([part] for part in parts)]
            found[score] = pd.concat(map(_compared, groups), ignore_index=True)
    return found


def _of_dataset(rows: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> Iterator[Part]:
    """None without uniform pairs, or another design, that has a score where all others do."""
    dataset = str(rows["dataset"].iloc[0])
    drawn, alone = rows[rows["p"].notna()], rows[rows["p"].isna()]
    for (p, model), found in drawn.groupby(["p", "model"], sort=False):
        complete = complete_places(found, ["mixture", "replicate"], ["design", "m"])
        there = complete.columns.to_frame(index=False).groupby("design")["m"].agg(set)
        designs = [UNIFORM, *(name for name in found["design"].unique() if name in there and name != UNIFORM)]
        if UNIFORM not in there or len(designs) < 2 or complete.empty:
            continue
        in_common = sorted(set.intersection(*there))
        if not in_common:
            continue
        level, units = unit_level(complete.index), by_unit(complete)
        levels = alone[alone["model"] == baseline_of(str(model))].set_index("mixture")["value"]
        start = levels.reindex(units.index if level == "mixture" else [-1] * len(units)).to_numpy(dtype=float)
        heads = {"dataset": dataset, "title": dataset, "p": float(p), "model": str(model)}
        yield Part(
            heads | {"n": len(units), "unit": NAMES[level]},
            tuple(written.get((dataset, int(m)), str(m)) for m in in_common),
            found.drop_duplicates("m").set_index("m")["m_over_n"][in_common].to_numpy(dtype=float),
            {name: units[name][in_common].to_numpy(dtype=float) for name in designs},
            start if len(levels) and not np.isnan(start).any() else None,
        )


def _over_datasets(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Data sets with the same counts and designs as the first one, where there are several."""
    of = itemgetter("p", "model")
    for place in dict.fromkeys(of(part.heads) for part in parts):
        found = [part for part in parts if of(part.heads) == place]
        like = found[0].counts, found[0].values.keys()
        alike = [part for part in found if (part.counts, part.values.keys()) == like]
        if len(alike) > 1:
            yield alike


def _compared(parts: Sequence[Part]) -> pd.DataFrame:
    """Rows of one data set, or of the mean over several: every design beside uniform pairs."""
    first, x = parts[0], np.mean([part.x for part in parts], axis=0)
    least = x[0] if any(part.start is None for part in parts) else 0.0
    heads = dict(first.heads)
    if len(parts) > 1:
        title = f"mean of {len(parts)} data sets"
        heads |= {"dataset": MEAN, "title": title, "n": len(parts), "unit": "data sets"}
    frames = []
    for design in first.values:
        values = [part.values[design] for part in parts]
        # Of uniform pairs these are 0, and their own worth: nothing that anybody asks.
        paired = [each - part.values[UNIFORM] for each, part in zip(values, parts, strict=True)]
        columns = dict(zip(("mean", "se"), _mean(values), strict=True))
        if design != UNIFORM:
            columns |= zip(("difference", "difference_se"), _mean(paired), strict=True)
            worths = dict(zip(WORTHS, _worth(parts, design, x), strict=True))
            # many uniform pairs are few chosen ones for each
            ends = {"ratio": "worth", "ratio_low": "worth_high", "ratio_high": "worth_low"}
            columns |= worths | {name: ratio(x, worths[of]) for name, of in ends.items()}
        places = {"m": first.counts, "m_over_n": x, "least": least, "most": x[-1]}
        frames.append(pd.DataFrame({**heads, "design": design, **places, **columns}))
    return pd.concat(frames)


def _mean(values: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Mean over units, and then over data sets, and the error of its draws; the data sets are given."""
    mean = np.mean([each.mean(axis=0) for each in values], axis=0)
    # a data set that has one unit alone adds nothing
    squares = [each.var(axis=0, ddof=1) / len(each) for each in values if len(each) > 1]
    error = np.sqrt(np.sum(squares, axis=0)) / len(values) if squares else np.full(len(mean), np.nan)
    return mean, error


def _worth(parts: Sequence[Part], design: str, x: Floats) -> tuple[Floats, Floats, Floats]:
    """Worth at each m, and the ends of its interval, which is that of the bootstrap.

    Units are drawn again within each data set, the same ones for all designs, and 2.5 % of the worths lie
    beyond either end.
    """
    rng = np.random.default_rng(SEED)
    units = [len(part.values[UNIFORM]) for part in parts]
    drawn = [np.vstack([np.arange(n), rng.integers(n, size=(RESAMPLES, n))]) for n in units]

    def curve(values: Sequence[Floats]) -> Floats:
        means = [each[rows].mean(axis=1) for each, rows in zip(values, drawn, strict=True)]
        return np.asarray(np.mean(means, axis=0))

    uniform = curve([part.values[UNIFORM] for part in parts])
    starts = [part.start for part in parts if part.start is not None]
    if len(starts) == len(parts):
        x, uniform = np.append(0.0, x), np.column_stack([curve(starts), uniform])
    worths = reached(x, uniform, curve([part.values[design] for part in parts]))
    if max(units) < 2:
        missing = np.full(worths.shape[1], np.nan)
        return worths[0], missing, missing
    # order statistics: a mean of two would be no number where one of them is infinite
    ordered, tail = np.sort(worths[1:], axis=0), round(RESAMPLES * (1 - COVERAGE) / 2)
    return worths[0], ordered[tail], ordered[-1 - tail]


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
