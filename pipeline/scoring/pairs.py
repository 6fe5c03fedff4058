"""The same cells in pairs, of two cubes or of two searches of a sweep, and the differences of their scores.

`pair` matches the cells of two tables, `difference_table` and `total_table` say what their pairs differ by;
`compared_searches` does so for each search of a sweep and its first one, and adds what they cost.
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

# Coordinates of a cell: equal in both cubes, they make a pair.
PLACE = ("dataset", *AXES)
GROUP = ("dataset", "p", "m", *VARIANTS, "model")
COUNTED = ("n_cells", "n_missing", "n", "unit")
FOUND = ("mean_a", "mean_b", "difference", "se", "wins_b", "wins_a", "ties")
ONLY_A, ONLY_B, LEFT_A, LEFT_B = "only in A", "only in B", "not done in A", "not done in B"
# Differences up to this come from rounding, or do not matter.
TIE = 1e-6

OBJECTIVE = "objective"
# What cells of two searches share.
SHARED = ["dataset", *(axis for axis in AXES if axis not in VARIANTS)]
ALL = "all data sets"
COSTS = ("dataset", "model", "n_cells", "cpu", "hit_rate", "reference_hit_rate", "to_best")


def pair(
    first: pd.DataFrame, second: pd.DataFrame, scores: Sequence[str], searches: tuple[str, str] = ("", "")
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Match cells by their coordinates.

    Parameters
    ----------
    first, second : pandas.DataFrame
        Cells of A and of B, from `pipeline.scoring.tables.cell_table`.
    scores : sequence of str
        Columns to compare.
    searches : tuple of str
        What the only search of A, and that of B, is called in the other where that has several.

    Returns
    -------
    pairs, unpaired : pandas.DataFrame
        As in `pipeline.report.compare.Comparison`. A score that is not defined in either cube stays, with a
        missing difference.
    """
    wanted = [*PLACE, "status", *dict.fromkeys(scores)]
    # p is compared as seeds are: to nine decimals.
    sides = [tables.with_variants(table)[wanted].assign(p=table["p"].round(9)) for table in (first, second)]
    added: tuple[list[str], list[str]] = ([], [])
    # a sweep that names no design drew its pairs uniformly
    for key, called in ((DESIGN, (UNIFORM, UNIFORM)), (SEARCH, searches)):
        named = [bool(tables.values_of(side, key)) for side in sides]
        for at, name in enumerate(called):
            if named[1 - at] and not named[at]:
                added[at].append(key)
                has_one = sides[at]["p"].notna()
                if key == SEARCH:  # a method without annotations is of no search, a model is
                    has_one |= sides[at]["model"].map(is_model)
                sides[at] = sides[at].assign(**{key: sides[at][key].mask(has_one, name)})
    both = sides[0].merge(sides[1], on=list(PLACE), how="outer", suffixes=("_a", "_b"), sort=False)
    reasons = {
        ONLY_A: both["status_b"].isna(),
        ONLY_B: both["status_a"].isna(),
        LEFT_A: both["status_a"] != "done",
        LEFT_B: both["status_b"] != "done",
    }
    why = np.select(list(reasons.values()), list(reasons), default="")
    left = both.assign(why=why)[why != ""]
    names = [str(tables.row_cell(row.drop(added[row["why"] != ONLY_A]))) for _, row in left.iterrows()]
    unpaired = pd.DataFrame({"cell": names, "why": left["why"].to_numpy()}, dtype=object)
    done = both[why == ""]
    frames = []
    for score in dict.fromkeys(scores):
        a, b = (done[f"{score}_{side}"].astype(float) for side in "ab")
        frames.append(done[list(PLACE)].assign(score=score, a=a, b=b, difference=b - a))
    return pd.concat(frames, ignore_index=True), unpaired


def difference_table(pairs: pd.DataFrame, groups: Sequence[str] = GROUP) -> pd.DataFrame:
    """Paired differences by data set, accuracy, annotations, design, search and model.

    Parameters
    ----------
    pairs : pandas.DataFrame
        From `pair`.
    groups : sequence of str
        What pairs are told apart by, beside the score.

    Returns
    -------
    pandas.DataFrame
        `score`, `dataset`, `p`, `m`, `design`, `search`, `model`, `n_cells` (pairs with a difference),
        `n_missing` (not defined in one of the two), `n` and `unit` (mixtures, or redraws of the annotations;
        missing where nothing is drawn), `mean_a`, `mean_b`, `difference` (B minus A) and its `se`, all over
        units, each of them a mean over its cells first (`se` missing for n = 1), `wins_b`, `wins_a`, `ties`
        (shares of the pairs; B wins where it is better by more than `TIE`: less, for a divergence).
    """
    return _differences(_judged(pairs), ["score", *groups])


def total_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """As `difference_table`, over all pairs of a score, design, search and model.

    Means are over data sets, in which each counts alike, of their means over units; the error is that of
    their draws, the data sets being given. `n` counts the units of all of them, and `n_datasets` these.
    """
    judged, keys = _judged(pairs), ["score", *VARIANTS, "model"]
    each = _differences(judged, [*keys, "dataset"])
    each = each[each["n_cells"] > 0]
    groups = each.groupby(keys, dropna=False, sort=False)
    whole = tables.over_datasets(each.assign(mean=each["difference"]), keys)
    whole = whole.rename(columns={"mean": "difference", "n": "n_datasets"})
    means = groups[["mean_a", "mean_b"]].mean()
    counts = groups[["n_cells", "n_missing", "n"]].sum()
    units = groups["unit"].agg(lambda kinds: " and ".join(sorted(set(kinds.dropna()))) or np.nan)
    won = judged.groupby(keys, dropna=False, sort=False)[["wins_b", "wins_a", "ties"]].mean()
    # pairs without a difference in any data set have no row
    return whole.join([counts, means, units, won]).reset_index()[[*keys, "n_datasets", *COUNTED, *FOUND]]


def _judged(pairs: pd.DataFrame) -> pd.DataFrame:
    """Pairs with what each of them says: which is better, or that one lacks the score."""
    # Of a score where neither direction is better, the larger value wins.
    sign = pairs["score"].map({name: label.better or 1 for name, label in LABELS.items()}).astype(float)
    known = pairs["difference"].notna()
    gain = (pairs["difference"] * sign).where(known)
    return tables.with_variants(pairs).assign(
        missing=~known,
        mean_a=pairs["a"].where(known),
        mean_b=pairs["b"].where(known),
        wins_b=(gain > TIE).where(known).astype(float),
        wins_a=(gain < -TIE).where(known).astype(float),
        ties=(gain.abs() <= TIE).where(known).astype(float),
    )


def _differences(judged: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    groups, heads, means = tables.grouped(judged, keys, judged[["mean_a", "mean_b", "difference"]])
    of_pairs = judged.groupby(groups)
    table = heads.assign(
        n_cells=of_pairs["difference"].count(),
        n_missing=of_pairs["missing"].sum(),
        n=means.n["difference"],
        se=means.se["difference"],
        **means.mean,
        **of_pairs[["wins_b", "wins_a", "ties"]].mean(),
    )
    return table.reset_index(drop=True)[[*keys, *COUNTED, *FOUND]]


def compared_scores(one: Search, other: Search) -> tuple[str, ...]:
    """Scores that two searches are compared by: objectives too, if both maximise the same one."""
    same = all(getattr(one, name) == getattr(other, name) for name in ObjectiveSettings.__dataclass_fields__)
    return (OBJECTIVE, *RANKED) if same else RANKED


def compared_searches(cells: pd.DataFrame, searches: Sequence[Search]) -> dict[str, pd.DataFrame]:
    """Compare each search with the first one of its sweep, cell by cell.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`, of one design.
    searches : sequence of Search
        Of the sweep.

    Returns
    -------
    dict of str to pandas.DataFrame
        By the name of its file; nothing where no search has a cell in common with the first. Both begin with
        `search` and `reference`, the first one, in the order of the sweep file. Then have

        `searches`
            columns of `difference_table`, where A is the reference and B the search: a row for each score,
            data set and model, over all p and m, after one for each score and model over data sets, which is
            of data set `ALL`. Objectives, in nats, are left out where the two searches maximise different
            ones, as in a cell whose shape of covariances each chose otherwise.
        `search-costs`
            `COSTS`, a row for each data set and model, after one for each model over all data sets: `n_cells`
            that are done in both; `cpu`, the CPU time of all of them as a multiple of the reference's;
            `hit_rate` and `reference_hit_rate`, the mean share of restarts that found the best objective of
            their cell; `to_best`, the CPU time for each such restart as a multiple of the reference's, a
            median over cells whose best is the same in both.
    """
    there = {each.name: each for each in searches}
    first, *others = [there[name] for name in tables.values_of(cells, SEARCH)] or [Search()]
    frames: dict[str, list[pd.DataFrame]] = {}
    for other in others:
        # methods do not search
        sides = [
            cells[(cells[SEARCH] == each.name) & cells["model"].map(is_model)] for each in (first, other)
        ]
        kept = [*SHARED, "cpu_seconds", "restarts_done", "hits", "covariance_shape", OBJECTIVE]
        done = [tables.cells_with_hits(side)[kept] for side in sides]
        wide = done[0].merge(done[1], on=SHARED, suffixes=("_a", "_b"))
        if wide.empty:
            continue
        # models that choose their shape maximise different objectives where they chose differently
        shapes = [wide[f"covariance_shape_{side}"].fillna("") for side in "ab"]
        apart = wide.loc[shapes[0] != shapes[1], SHARED].assign(apart=True)
        sides = [side.assign(**{SEARCH: np.nan}).merge(apart, "left", SHARED) for side in sides]
        sides = [side.assign(**{OBJECTIVE: side[OBJECTIVE].where(side["apart"].isna())}) for side in sides]
        scores = compared_scores(first, other)
        pairs, _ = pair(sides[0], sides[1], scores)
        found = [total_table(pairs).assign(dataset=ALL), difference_table(pairs, ("dataset", "model"))]
        differences = pd.concat(found, ignore_index=True)
        differences = differences.loc[
            differences["n_cells"] > 0, ["score", "dataset", "model", *COUNTED, *FOUND]
        ]
        costs = _costs(wide, OBJECTIVE in scores)
        for name, table in (("searches", differences), ("search-costs", costs)):
            table.insert(0, SEARCH, str(other.name))
            table.insert(1, "reference", str(first.name))
            frames.setdefault(name, []).append(table)
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}


def _costs(wide: pd.DataFrame, same_objective: bool) -> pd.DataFrame:
    """`COSTS` of cells that are done in both: `_a` of the reference, and `_b` of the search."""
    ratios = {}
    for side in "ab":
        hits = wide[f"hits_{side}"].astype(float)
        ratios[f"rate_{side}"] = hits / wide[f"restarts_done_{side}"].astype(float)
        ratios[f"time_{side}"] = wide[f"cpu_seconds_{side}"] / hits
    wide = wide.assign(**ratios)
    agree = same_objective & ((wide[f"{OBJECTIVE}_a"] - wide[f"{OBJECTIVE}_b"]).abs() <= SAME_OPTIMUM)
    wide["to_best"] = (wide["time_b"] / wide["time_a"]).where(agree)
    groups = pd.concat([wide.assign(dataset=ALL), wide]).groupby(["dataset", "model"], sort=False)
    costs = groups.agg(
        n_cells=("to_best", "size"),
        hit_rate=("rate_b", "mean"),
        reference_hit_rate=("rate_a", "mean"),
        to_best=("to_best", "median"),
    )
    costs["cpu"] = groups["cpu_seconds_b"].sum() / groups["cpu_seconds_a"].sum()
    return costs.reset_index()[list(COSTS)]
