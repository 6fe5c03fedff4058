"""Cells of two cubes, or of two searches of a sweep, in pairs, and the differences of their scores.

`pair` matches the cells of two tables, and `difference_table` and `total_table` summarise the differences
of their pairs. `compared_searches` does so for each search of a sweep and its first one, and adds their
costs.

`design_scores` compares the designs by unit: a curve over m for each, its differences to uniform pairs, and
how many uniform pairs reach what m chosen ones do. The mean curve of uniform pairs over x = m / N, made
monotone by the largest value so far, begins at x = 0 with the baseline of the same shape if there is one.
Between its points it is straight. With :math:`s(x)` the mean score of x chosen pairs a sample, their worth is
the least x' at which that curve is :math:`s(x)`, and the budget ratio is :math:`x / x'`.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sweep_clustering.kernels.settings import ObjectiveSettings
from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.ranking import MEAN, RANKED, ROUNDING, solved_values
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.plan import AXES, VARIANTS
from sweep_clustering.sweeps.words import UNIFORM, baseline_of, is_model

# Cells of two cubes are a pair if these coordinates are equal.
PLACE = ("dataset", *AXES)
GROUP = ("dataset", "p", "m", *VARIANTS, "model")
COUNTS = ("n_cells", "n_missing", "n", "unit")
RESULTS = ("mean_a", "mean_b", "difference", "se", "wins_b", "wins_a", "ties")
ONLY_A = "only in A"
ONLY_B = "only in B"
NOT_DONE_A = "not done in A"
NOT_DONE_B = "not done in B"
# Differences up to this come from rounding, or do not matter, in the unit of the score.
TIE = 1e-6

OBJECTIVE = "objective"
# Coordinates that the cells of two searches share.
SAME_AXES = ["dataset", *(axis for axis in AXES if axis not in VARIANTS)]
ALL_SETS = "all data sets"
COSTS = ("dataset", "model", "n_cells", "cpu", "hit_rate", "reference_hit_rate", "to_best")


def pair(
    first: pd.DataFrame, second: pd.DataFrame, scores: Sequence[str], searches: tuple[str, str] = ("", "")
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return pairs of cells with the same coordinates in both tables, and the cells without a partner.

    The only search of A has the name `searches[0]` in B if B has several, and the other way round. A score
    that is not defined on one side has a missing difference.
    """
    columns = [*PLACE, "status", *dict.fromkeys(scores)]
    # p is compared as seeds are: to nine decimals.
    sides = [tables.with_variants(table)[columns].assign(p=table["p"].round(9)) for table in (first, second)]
    extras: tuple[list[str], list[str]] = ([], [])
    # a sweep that names no design drew its pairs uniformly
    for key, labels in ((tables.DESIGN, (UNIFORM, UNIFORM)), (tables.SEARCH, searches)):
        has_values = [bool(tables.values_of(side, key)) for side in sides]
        for index, name in enumerate(labels):
            if has_values[1 - index] and not has_values[index]:
                extras[index].append(key)
                has_value = sides[index]["p"].notna()
                if key == tables.SEARCH:  # a method without annotations is of no search, a model is
                    has_value |= sides[index]["model"].map(is_model)
                sides[index] = sides[index].assign(**{key: sides[index][key].mask(has_value, name)})
    all_rows = sides[0].merge(sides[1], on=list(PLACE), how="outer", suffixes=("_a", "_b"), sort=False)
    reasons = {
        ONLY_A: all_rows["status_b"].isna(),
        ONLY_B: all_rows["status_a"].isna(),
        NOT_DONE_A: all_rows["status_a"] != "done",
        NOT_DONE_B: all_rows["status_b"] != "done",
    }
    reason = np.select(list(reasons.values()), list(reasons), default="")
    unpaired_rows = all_rows.assign(why=reason)[reason != ""]
    names = [
        str(tables.row_cell(row.drop(extras[row["why"] != ONLY_A]))) for _, row in unpaired_rows.iterrows()
    ]
    unpaired = pd.DataFrame({"cell": names, "why": unpaired_rows["why"].to_numpy()}, dtype=object)
    return _pairs(all_rows[reason == ""], scores), unpaired


def _pairs(rows: pd.DataFrame, scores: Sequence[str]) -> pd.DataFrame:
    """Return a row for each score of each pair of cells, which are side by side in `rows`."""
    frames = []
    for score in dict.fromkeys(scores):
        a, b = (rows[f"{score}_{side}"].astype(float) for side in "ab")
        frames.append(rows[list(PLACE)].assign(score=score, a=a, b=b, difference=b - a))
    return pd.concat(frames, ignore_index=True)


def difference_table(pairs: pd.DataFrame, groups: Sequence[str] = GROUP) -> pd.DataFrame:
    """Return paired differences for each score and group.

    Columns: `score` and the groups; `n_cells` (pairs with a difference), `n_missing` (not defined on one
    side), `n` and `unit` as in `summary_table`; `mean_a`, `mean_b`, `difference` (B minus A) and its `se`,
    over units; `wins_b`, `wins_a` and `ties`, shares of the pairs, where B wins if it is better by more than
    `TIE`.
    """
    return _differences(_judged(pairs), ["score", *groups])


def total_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of `difference_table` over all pairs of a score, design, search and model.

    Means are over data sets, in which each counts alike; the error is that of their draws, for these data
    sets. `n` is the number of units and `n_datasets` that of data sets.
    """
    judged, keys = _judged(pairs), ["score", *VARIANTS, "model"]
    by_dataset = _differences(judged, [*keys, "dataset"])
    by_dataset = by_dataset[by_dataset["n_cells"] > 0]
    groups = by_dataset.groupby(keys, dropna=False, sort=False)
    total = tables.over_datasets(by_dataset.assign(mean=by_dataset["difference"]), keys)
    total = total.rename(columns={"mean": "difference", "n": "n_datasets"})
    means = groups[["mean_a", "mean_b"]].mean()
    counts = groups[["n_cells", "n_missing", "n"]].sum()
    units = groups["unit"].agg(lambda kinds: " and ".join(sorted(set(kinds.dropna()))) or np.nan)
    won = judged.groupby(keys, dropna=False, sort=False)[["wins_b", "wins_a", "ties"]].mean()
    # pairs without a difference in any data set have no row
    return total.join([counts, means, units, won]).reset_index()[[*keys, "n_datasets", *COUNTS, *RESULTS]]


def _judged(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with marks: which side is better, or that one lacks the score."""
    # If neither direction of a score is better, the larger value wins.
    sign = pairs["score"].map({name: label.better or 1 for name, label in LABELS.items()}).astype(float)
    is_known = pairs["difference"].notna()
    gain = (pairs["difference"] * sign).where(is_known)
    return tables.with_variants(pairs).assign(
        missing=~is_known,
        mean_a=pairs["a"].where(is_known),
        mean_b=pairs["b"].where(is_known),
        wins_b=(gain > TIE).where(is_known).astype(float),
        wins_a=(gain < -TIE).where(is_known).astype(float),
        ties=(gain.abs() <= TIE).where(is_known).astype(float),
    )


def _differences(judged: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    groups = tables.Groups.of(judged, keys)
    means = groups.means(judged[["mean_a", "mean_b", "difference"]])
    by_group = judged.groupby(groups.numbers)
    table = groups.heads.assign(
        n_cells=by_group["difference"].count(),
        n_missing=by_group["missing"].sum(),
        n=means.n["difference"],
        se=means.se["difference"],
        **means.mean,
        **by_group[["wins_b", "wins_a", "ties"]].mean(),
    )
    return table.reset_index(drop=True)[[*keys, *COUNTS, *RESULTS]]


def compared_scores(first: Search, second: Search) -> tuple[str, ...]:
    """Return the scores to compare two searches by, with objectives if both maximise the same one."""
    is_same = all(
        getattr(first, name) == getattr(second, name) for name in ObjectiveSettings.__dataclass_fields__
    )
    return (OBJECTIVE, *RANKED) if is_same else RANKED


def compared_searches(cells: pd.DataFrame, searches: Sequence[Search]) -> dict[str, pd.DataFrame]:
    """Compare each search with the first one of its sweep, its reference, cell by cell, for cells of one
    design.

    The two tables, by the name of their file, begin with `search` and `reference`; there is none if no search
    has a cell in common with the first. "searches" has columns of `difference_table`, where A is the
    reference: a row for each score over `ALL_SETS`, then for each data set, by model, over all p and m.
    Objectives, in nats, are left out where the two maximise different ones, as in a cell where they chose
    different shapes.

    "search-costs" has `COSTS` over `ALL_SETS`, then for each, by model: `n_cells` that are done in both;
    `cpu`, their CPU time as a multiple of the reference's; `hit_rate` and `reference_hit_rate`, the mean
    share of restarts that found the best objective of their cell; `to_best`, the CPU time for each such
    restart as a multiple of the reference's, a median over cells whose best is the same in both.
    """
    by_name = {search.name: search for search in searches}
    first, *other_searches = [by_name[name] for name in tables.values_of(cells, tables.SEARCH)] or [Search()]
    columns = [*SAME_AXES, "cpu_seconds", "restarts_done", "hits", "covariance_shape", OBJECTIVE, *RANKED]
    frames: dict[str, list[pd.DataFrame]] = {}
    for other in other_searches:
        # methods do not search
        done_cells = tables.cells_with_hits(cells[cells["model"].map(is_model)])
        sides = [done_cells.loc[done_cells[tables.SEARCH] == side.name, columns] for side in (first, other)]
        wide = sides[0].merge(sides[1], on=SAME_AXES, suffixes=("_a", "_b"))
        if wide.empty:
            continue
        # models that choose their shape maximise different objectives where they chose differently
        shapes = [wide[f"covariance_shape_{side}"].fillna("") for side in "ab"]
        rows = tables.with_variants(wide).sort_values(SAME_AXES)
        rows[f"{OBJECTIVE}_b"] = rows[f"{OBJECTIVE}_b"].where(shapes[0] == shapes[1])
        scores = compared_scores(first, other)
        pairs = _pairs(rows, scores)
        totals = [total_table(pairs).assign(dataset=ALL_SETS), difference_table(pairs, ("dataset", "model"))]
        differences = pd.concat(totals, ignore_index=True)
        differences = differences.loc[
            differences["n_cells"] > 0, ["score", "dataset", "model", *COUNTS, *RESULTS]
        ]
        costs = _costs(wide, OBJECTIVE in scores)
        for name, table in (("searches", differences), ("search-costs", costs)):
            table.insert(0, tables.SEARCH, str(other.name))
            table.insert(1, "reference", str(first.name))
            frames.setdefault(name, []).append(table)
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}


def _costs(wide: pd.DataFrame, is_same_objective: bool) -> pd.DataFrame:
    """Return `COSTS` of cells that are done in both: `_a` is the reference, `_b` the search."""
    ratios = {}
    for side in "ab":
        hits = wide[f"hits_{side}"].astype(float)
        ratios[f"rate_{side}"] = hits / wide[f"restarts_done_{side}"].astype(float)
        ratios[f"time_{side}"] = wide[f"cpu_seconds_{side}"] / hits
    wide = wide.assign(**ratios)
    is_equal = is_same_objective & ((wide[f"{OBJECTIVE}_a"] - wide[f"{OBJECTIVE}_b"]).abs() <= SAME_OPTIMUM)
    wide["to_best"] = (wide["time_b"] / wide["time_a"]).where(is_equal)
    groups = pd.concat([wide.assign(dataset=ALL_SETS), wide]).groupby(["dataset", "model"], sort=False)
    costs = groups.agg(
        n_cells=("to_best", "size"),
        hit_rate=("rate_b", "mean"),
        reference_hit_rate=("rate_a", "mean"),
        to_best=("to_best", "median"),
    )
    costs["cpu"] = groups["cpu_seconds_b"].sum() / groups["cpu_seconds_a"].sum()
    return costs.reset_index()[list(COSTS)]


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


def design_scores(cells: pd.DataFrame, m_texts: Mapping[tuple[str, int], str]) -> dict[str, pd.DataFrame]:
    """Return the scores of all designs, their differences to uniform pairs, and the worth of chosen pairs.

    There is a table for each of `RANKED`, if there are uniform pairs and another design, with a row for each
    data set, p, model, design and m: `HEADS`, with m as written; `title`, the data set for people; `n` units,
    or data sets; `unit`; `mean` and its `se`; `difference` to uniform pairs, paired by unit, and its
    `difference_se`; `worth` in uniform pairs a sample and the ends of its interval, which are infinite beyond
    `most`, the end of the curve of uniform pairs, and 0 below `least`, its beginning; `ratio` and its ends,
    missing where that worth is 0 or infinite. First come means over the data sets that have all designs and
    counts, as the data set `MEAN`, if there are several.
    """
    if UNIFORM not in tables.values_of(cells, tables.DESIGN):
        return {}
    comparisons = {}
    for score in RANKED:
        with_values = cells.assign(
            value=solved_values(cells, score), mixture=cells["mixture"].fillna(-1).astype(int)
        )
        parts = [
            part
            for _, rows in with_values.groupby("dataset", sort=False)
            for part in _dataset_parts(rows, m_texts)
        ]
        if parts:
            groups = [*_groups_of_datasets(parts), *([part] for part in parts)]
            comparisons[score] = pd.concat(map(_comparison, groups), ignore_index=True)
    return comparisons


def _dataset_parts(rows: pd.DataFrame, m_texts: Mapping[tuple[str, int], str]) -> Iterator[Part]:
    """Yield the parts of a data set with uniform pairs, another design, and a score of both at the same
    m.
    """
    dataset = str(rows["dataset"].iloc[0])
    annotated_rows, baselines = rows[rows["p"].notna()], rows[rows["p"].isna()]
    for (p, model), part_rows in annotated_rows.groupby(["p", "model"], sort=False):
        complete = tables.complete_places(part_rows, ["mixture", "replicate"], ["design", "m"])
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
        level, units = tables.unit_level(complete.index), tables.by_unit(complete)
        levels = baselines[baselines["model"] == baseline_of(str(model))].set_index("mixture")["value"]
        start = levels.reindex(units.index if level == "mixture" else [-1] * len(units)).to_numpy(dtype=float)
        heads = {"dataset": dataset, "title": dataset, "p": float(p), "model": str(model)}
        yield Part(
            heads | {"n": len(units), "unit": tables.NAMES[level]},
            tuple(m_texts.get((dataset, int(m)), str(m)) for m in counts),
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
    start = x[0] if any(part.start is None for part in parts) else 0.0
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
        places = {"m": first.counts, "m_over_n": x, "least": start, "most": x[-1]}
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
    drawn_units = [np.vstack([np.arange(n), rng.integers(n, size=(RESAMPLES, n))]) for n in units]

    def curve(values: Sequence[Floats]) -> Floats:
        means = [scores[rows].mean(axis=1) for scores, rows in zip(values, drawn_units, strict=True)]
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
        sorted_worths, tail = np.sort(worths[1:], axis=0), round(RESAMPLES * (1 - COVERAGE) / 2)
        low, high = sorted_worths[tail], sorted_worths[-1 - tail]
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
    value_below, value_above = (np.take_along_axis(rising, index, axis=1) for index in (inner - 1, inner))
    step = np.where(value_above > value_below, value_above - value_below, 1.0)
    share = np.clip((levels - value_below) / step, 0.0, 1.0)
    crossing = x[inner - 1] + share * (x[inner] - x[inner - 1])
    return np.where(place == 0, 0.0, np.where(place == len(x), np.inf, crossing))
