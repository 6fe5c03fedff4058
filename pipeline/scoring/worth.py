"""Scores by the design of pairs, and what choosing pairs is worth: uniform pairs that reach the same score.

`design_scores` compares the designs by unit: a curve over m for each, its differences to uniform
pairs, and how many uniform pairs reach what m chosen ones do.

The mean curve of uniform pairs over x = m / N, made monotone by the largest value so far, begins at x = 0
with the baseline of the same shape if there is one. Between its points it is straight. With :math:`s(x)`
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

# Number of draws of the bootstrap.
RESAMPLES = 2000
# Probability of an interval.
COVERAGE = 0.95
# Seed of the resamples, so that an interval is a function of the scores alone.
SEED = 0

# Columns of the two tables that are written to files.
HEADS = ("dataset", "p", "model", "design", "m", "m_over_n")
DIFFERENCES = (*HEADS, "n", "unit", "mean", "se", "difference", "difference_se")
WORTHS = ("worth", "worth_low", "worth_high")
BUDGETS = (*HEADS, *WORTHS, "most", "ratio", "ratio_low", "ratio_high")


class Part(NamedTuple):
    """Scores of one model on one data set at one accuracy."""

    # Columns that all rows share: data set, p, model, and the number `n` and kind `unit` of units.
    heads: Mapping[str, Any]
    # Numbers of annotations that every design has, ascending, as the sweep file writes them.
    counts: tuple[str, ...]
    # The same per sample (n_m,), m / N.
    x: Floats
    # Score of each unit by design, uniform pairs first, a mean over its places (n_units, n_m). A
    # place, which is a mixture and replicate, counts if all designs have a score there at every m.
    values: Mapping[str, Floats]
    # Score (n_units,) of the baseline of the same shape; None without one.
    start: Floats | None


def design_scores(cells: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> dict[str, pd.DataFrame]:
    """Return the scores of all designs, their differences to uniform pairs, and the worth of chosen pairs.

    There is a table for each of `RANKED`, if there are uniform pairs and another design, with a row for each
    data set, p, model, design and m: `HEADS`, with m as written; `title`, the data set for people; `n` units,
    or data sets; `unit`; `mean` and its `se`; `difference` to uniform pairs, paired by unit, and its
    `difference_se`; `worth` in uniform pairs a sample and the ends of its interval, which are infinite beyond
    `most`, the end of the curve of uniform pairs, and 0 below `least`, its beginning; `ratio` and its ends,
    missing where that worth is 0 or infinite. First come means over the data sets that have all designs and
    counts, as the data set `MEAN`, if there are several.
    """
    if UNIFORM not in values_of(cells, DESIGN):
        return {}
    tables = {}
    for score in RANKED:
        with_values = cells.assign(
            value=solved_values(cells, score), mixture=cells["mixture"].fillna(-1).astype(int)
        )
        parts = [
            part
            for _, rows in with_values.groupby("dataset", sort=False)
            for part in _dataset_parts(rows, written)
        ]
        if parts:
            groups = [*_groups_of_datasets(parts), *([part] for part in parts)]
            tables[score] = pd.concat(map(_comparison, groups), ignore_index=True)
    return tables


def _dataset_parts(rows: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> Iterator[Part]:
    """Yield the parts of a data set with uniform pairs, another design, and a score of both at the same
    m.
    """
    dataset = str(rows["dataset"].iloc[0])
    annotated, baselines = rows[rows["p"].notna()], rows[rows["p"].isna()]
    for (p, model), part_rows in annotated.groupby(["p", "model"], sort=False):
        complete = complete_places(part_rows, ["mixture", "replicate"], ["design", "m"])
        counts_by_design = complete.columns.to_frame(index=False).groupby("design")["m"].agg(set)
        designs = [
            UNIFORM,
            *(name for name in part_rows["design"].unique() if name in counts_by_design and name != UNIFORM),
        ]
        if UNIFORM not in counts_by_design or len(designs) < 2 or complete.empty:
            continue
        counts = sorted(set.intersection(*counts_by_design))
        if not counts:
            continue
        level, units = unit_level(complete.index), by_unit(complete)
        levels = baselines[baselines["model"] == baseline_of(str(model))].set_index("mixture")["value"]
        start = levels.reindex(units.index if level == "mixture" else [-1] * len(units)).to_numpy(dtype=float)
        heads = {"dataset": dataset, "title": dataset, "p": float(p), "model": str(model)}
        yield Part(
            heads | {"n": len(units), "unit": NAMES[level]},
            tuple(written.get((dataset, int(m)), str(m)) for m in counts),
            part_rows.drop_duplicates("m").set_index("m")["m_over_n"][counts].to_numpy(dtype=float),
            {name: units[name][counts].to_numpy(dtype=float) for name in designs},
            start if len(levels) and not np.isnan(start).any() else None,
        )


def _groups_of_datasets(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield, for each p and model, the data sets with the counts and designs of the first one, if there
    are several.
    """
    key = itemgetter("p", "model")
    for place in dict.fromkeys(key(part.heads) for part in parts):
        candidates = [part for part in parts if key(part.heads) == place]
        expected = candidates[0].counts, candidates[0].values.keys()
        equal = [part for part in candidates if (part.counts, part.values.keys()) == expected]
        if len(equal) > 1:
            yield equal


def _comparison(parts: Sequence[Part]) -> pd.DataFrame:
    """Return the rows of one data set, or of the mean over several: every design beside uniform pairs."""
    first, x = parts[0], np.mean([part.x for part in parts], axis=0)
    least = x[0] if any(part.start is None for part in parts) else 0.0
    heads = dict(first.heads)
    if len(parts) > 1:
        title = f"mean of {len(parts)} data sets"
        heads |= {"dataset": MEAN, "title": title, "n": len(parts), "unit": "data sets"}
    frames = []
    for design in first.values:
        values = [part.values[design] for part in parts]
        # For uniform pairs these would be 0, and their own worth, so they have none.
        differences = [part.values[design] - part.values[UNIFORM] for part in parts]
        columns = dict(zip(("mean", "se"), _mean(values), strict=True))
        if design != UNIFORM:
            columns |= zip(("difference", "difference_se"), _mean(differences), strict=True)
            worths = _worth(parts, design, x)
            # many uniform pairs are few chosen ones for each
            ends = {"ratio": "worth", "ratio_low": "worth_high", "ratio_high": "worth_low"}
            columns |= worths | {name: ratio(x, worths[end]) for name, end in ends.items()}
        places = {"m": first.counts, "m_over_n": x, "least": least, "most": x[-1]}
        frames.append(pd.DataFrame({**heads, "design": design, **places, **columns}))
    return pd.concat(frames)


def _mean(values: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the mean over units, and then over data sets, and the error of its draws for these data
    sets.
    """
    mean = np.mean([scores.mean(axis=0) for scores in values], axis=0)
    # a data set that has one unit alone adds nothing
    squares = [scores.var(axis=0, ddof=1) / len(scores) for scores in values if len(scores) > 1]
    error = np.sqrt(np.sum(squares, axis=0)) / len(values) if squares else np.full(len(mean), np.nan)
    return mean, error


def _worth(parts: Sequence[Part], design: str, x: Floats) -> dict[str, Floats]:
    """Return the worth at each m, and the ends of its bootstrap interval, by the names `WORTHS`.

    Units are drawn again within each data set, the same ones for all designs, and 2.5 % of the worths lie
    beyond either end.
    """
    rng = np.random.default_rng(SEED)
    units = [len(part.values[UNIFORM]) for part in parts]
    drawn = [np.vstack([np.arange(n), rng.integers(n, size=(RESAMPLES, n))]) for n in units]

    def curve(values: Sequence[Floats]) -> Floats:
        means = [scores[rows].mean(axis=1) for scores, rows in zip(values, drawn, strict=True)]
        return np.asarray(np.mean(means, axis=0))

    uniform = curve([part.values[UNIFORM] for part in parts])
    starts = [part.start for part in parts if part.start is not None]
    if len(starts) == len(parts):
        x, uniform = np.append(0.0, x), np.column_stack([curve(starts), uniform])
    worths = reached(x, uniform, curve([part.values[design] for part in parts]))
    if max(units) < 2:
        low = high = np.full(worths.shape[1], np.nan)
    else:
        # order statistics: a mean of two would be no number where one of them is infinite
        ordered, tail = np.sort(worths[1:], axis=0), round(RESAMPLES * (1 - COVERAGE) / 2)
        low, high = ordered[tail], ordered[-1 - tail]
    return dict(zip(WORTHS, (worths[0], low, high), strict=True))


def ratio(x: Floats, worth: Floats) -> Floats:
    """Return the chosen pairs for each uniform pair that they are worth, NaN where that is not finite."""
    is_positive = np.isfinite(worth) & (worth > 0)
    return np.where(is_positive, x / np.where(is_positive, worth, 1.0), np.nan)


def reached(x: Floats, curves: Floats, levels: Floats) -> Floats:
    """Return the least x at which monotone, piecewise straight curves reach some levels.

    Shapes: x (n_points,), ascending; curves (n_curves, n_points), whose largest value so far counts; levels
    and the result (n_curves, n_levels): 0 at or below the first point, infinite above the last.
    """
    rising = np.maximum.accumulate(curves, axis=1)
    place = (rising[:, None, :] < levels[:, :, None] - ROUNDING).sum(axis=2)
    inner = np.clip(place, 1, len(x) - 1)
    below, above = (np.take_along_axis(rising, at, axis=1) for at in (inner - 1, inner))
    step = np.where(above > below, above - below, 1.0)
    share = np.clip((levels - below) / step, 0.0, 1.0)
    crossing = x[inner - 1] + share * (x[inner] - x[inner - 1])
    return np.where(place == 0, 0.0, np.where(place == len(x), np.inf, crossing))
