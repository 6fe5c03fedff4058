"""Cells of two cubes, or of two searches of a sweep, in pairs, and the differences of their scores.

`pair` matches the cells of two tables, and `difference_table` and `total_table` summarise the differences
of their pairs. `compared_searches` does so for each search of a sweep and its first one, and adds their
costs.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sweep_clustering.kernels.settings import ObjectiveSettings
from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.ranking import RANKED
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import DESIGN, SEARCH
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.plan import AXES, VARIANTS
from sweep_clustering.sweeps.words import UNIFORM, is_model

# Cells of two cubes are a pair if these coordinates are equal.
PLACE = ("dataset", *AXES)
GROUP = ("dataset", "p", "m", *VARIANTS, "model")
COUNTED = ("n_cells", "n_missing", "n", "unit")
RESULTS = ("mean_a", "mean_b", "difference", "se", "wins_b", "wins_a", "ties")
ONLY_A = "only in A"
ONLY_B = "only in B"
NOT_DONE_A = "not done in A"
NOT_DONE_B = "not done in B"
# Differences up to this come from rounding, or do not matter, in the unit of the score.
TIE = 1e-6

OBJECTIVE = "objective"
# Coordinates that the cells of two searches share.
SHARED = ["dataset", *(axis for axis in AXES if axis not in VARIANTS)]
ALL = "all data sets"
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
    added: tuple[list[str], list[str]] = ([], [])
    # a sweep that names no design drew its pairs uniformly
    for key, labels in ((DESIGN, (UNIFORM, UNIFORM)), (SEARCH, searches)):
        has_values = [bool(tables.values_of(side, key)) for side in sides]
        for at, name in enumerate(labels):
            if has_values[1 - at] and not has_values[at]:
                added[at].append(key)
                has_value = sides[at]["p"].notna()
                if key == SEARCH:  # a method without annotations is of no search, a model is
                    has_value |= sides[at]["model"].map(is_model)
                sides[at] = sides[at].assign(**{key: sides[at][key].mask(has_value, name)})
    merged = sides[0].merge(sides[1], on=list(PLACE), how="outer", suffixes=("_a", "_b"), sort=False)
    reasons = {
        ONLY_A: merged["status_b"].isna(),
        ONLY_B: merged["status_a"].isna(),
        NOT_DONE_A: merged["status_a"] != "done",
        NOT_DONE_B: merged["status_b"] != "done",
    }
    reason = np.select(list(reasons.values()), list(reasons), default="")
    unpaired_rows = merged.assign(why=reason)[reason != ""]
    names = [
        str(tables.row_cell(row.drop(added[row["why"] != ONLY_A]))) for _, row in unpaired_rows.iterrows()
    ]
    unpaired = pd.DataFrame({"cell": names, "why": unpaired_rows["why"].to_numpy()}, dtype=object)
    done = merged[reason == ""]
    frames = []
    for score in dict.fromkeys(scores):
        a, b = (done[f"{score}_{side}"].astype(float) for side in "ab")
        frames.append(done[list(PLACE)].assign(score=score, a=a, b=b, difference=b - a))
    return pd.concat(frames, ignore_index=True), unpaired


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
    return total.join([counts, means, units, won]).reset_index()[[*keys, "n_datasets", *COUNTED, *RESULTS]]


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
    return table.reset_index(drop=True)[[*keys, *COUNTED, *RESULTS]]


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
    reference: a row for each score over `ALL` data sets, then for each data set, by model, over all p and m.
    Objectives, in nats, are left out where the two maximise different ones, as in a cell where they chose
    different shapes.

    "search-costs" has `COSTS` over `ALL` data sets, then for each, by model: `n_cells` that are done in both;
    `cpu`, their CPU time as a multiple of the reference's; `hit_rate` and `reference_hit_rate`, the mean
    share of restarts that found the best objective of their cell; `to_best`, the CPU time for each such
    restart as a multiple of the reference's, a median over cells whose best is the same in both.
    """
    by_name = {search.name: search for search in searches}
    first, *others = [by_name[name] for name in tables.values_of(cells, SEARCH)] or [Search()]
    frames: dict[str, list[pd.DataFrame]] = {}
    for other in others:
        # methods do not search
        sides = [
            cells[(cells[SEARCH] == search.name) & cells["model"].map(is_model)] for search in (first, other)
        ]
        columns = [*SHARED, "cpu_seconds", "restarts_done", "hits", "covariance_shape", OBJECTIVE]
        done = [tables.cells_with_hits(side)[columns] for side in sides]
        wide = done[0].merge(done[1], on=SHARED, suffixes=("_a", "_b"))
        if wide.empty:
            continue
        # models that choose their shape maximise different objectives where they chose differently
        shapes = [wide[f"covariance_shape_{side}"].fillna("") for side in "ab"]
        different = wide.loc[shapes[0] != shapes[1], SHARED].assign(is_different=True)
        sides = [side.assign(**{SEARCH: np.nan}).merge(different, "left", SHARED) for side in sides]
        sides = [
            side.assign(**{OBJECTIVE: side[OBJECTIVE].where(side["is_different"].isna())}) for side in sides
        ]
        scores = compared_scores(first, other)
        pairs, _ = pair(sides[0], sides[1], scores)
        totals = [total_table(pairs).assign(dataset=ALL), difference_table(pairs, ("dataset", "model"))]
        differences = pd.concat(totals, ignore_index=True)
        differences = differences.loc[
            differences["n_cells"] > 0, ["score", "dataset", "model", *COUNTED, *RESULTS]
        ]
        costs = _costs(wide, OBJECTIVE in scores)
        for name, table in (("searches", differences), ("search-costs", costs)):
            table.insert(0, SEARCH, str(other.name))
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
    groups = pd.concat([wide.assign(dataset=ALL), wide]).groupby(["dataset", "model"], sort=False)
    costs = groups.agg(
        n_cells=("to_best", "size"),
        hit_rate=("rate_b", "mean"),
        reference_hit_rate=("rate_a", "mean"),
        to_best=("to_best", "median"),
    )
    costs["cpu"] = groups["cpu_seconds_b"].sum() / groups["cpu_seconds_a"].sum()
    return costs.reset_index()[list(COSTS)]
