"""Figures of single claims, as `page.md` asks for them."""

from __future__ import annotations

from typing import Any

import pandas as pd

MODELS = ("likelihood", "posterior")


def few_wrong_centroids(cells: pd.DataFrame, p: float, n_clusters: int, m: int) -> dict[str, str]:
    """Count mixtures with a centroid index of at most one by model, with a binomial error (claim 2)."""
    rows = cells[cells["n_clusters"] == n_clusters]
    rows = rows[rows["p"].isna() | ((rows["p"] == p) & (rows["m"] == m))]
    texts = {}
    for model, index in rows.groupby("model")["centroid_index"]:
        count, n = int((index <= 1).sum()), len(index)
        texts[str(model)] = f"{count} ± {(count * (n - count) / n) ** 0.5:.1f} of {n}"
    return texts


def mean(rows: pd.DataFrame, score: str) -> str:
    """Return the mean and standard error of a score."""
    values = rows[score].dropna()
    return f"{round(values.mean(), 4) + 0.0:.4f} ± {values.sem():.4f}" if len(values) > 1 else "-"


def pick(cells: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows with these values."""
    for key, value in values.items():
        cells = cells[cells[key] == value]
    return cells


def pool(cells: pd.DataFrame, p: float, share: float, model: str) -> str:
    """Return mean NMI over data sets and replicates at m = share · N (claim 4); error over replicates."""
    rows = pick(cells, p=p, model=model)
    rows = rows[(rows["m_over_n"] - share).abs() < 0.01]
    by_replicate = rows.groupby("replicate")["nmi"].mean()
    if by_replicate.empty:
        return "-"
    return f"{by_replicate.mean():.4f} ± {by_replicate.sem():.4f} ({rows['dataset'].nunique()} sets)"


def gains(cells: pd.DataFrame, p: float) -> list[dict[str, Any]]:
    """Return median relative NMI by data set and model at the three m, and graphs above 0 (claims 5 to 7)."""
    entries = []
    for (dataset, model), rows in pick(cells, p=p).groupby(["dataset", "model"], sort=False):
        by_m = [group for _, group in rows.groupby("m")["relative_nmi"]]
        entries.append(
            {
                "dataset": dataset,
                "model": model,
                "medians": [values.median() for values in by_m],
                "above": [f"{(values > 0).sum()}/{len(values)}" for values in by_m],
            }
        )
    return entries


def positive(cells: pd.DataFrame, p: float) -> str:
    """Count the medians of relative NMI that are positive, over data sets, models and m."""
    medians = pick(cells, p=p).groupby(["dataset", "model", "m"])["relative_nmi"].median()
    return f"{(medians > 0).sum()} of {len(medians)}"


def with_gain(cells: pd.DataFrame, p: float, model: str) -> list[str]:
    """Return the data sets in which at most one graph of ten has no gain at any m."""
    names = []
    for dataset, rows in pick(cells, p=p, model=model).groupby("dataset", sort=False):
        shares = (rows["relative_nmi"] > 0).groupby(rows["m"]).mean()
        if (shares >= 0.9).all():
            names.append(str(dataset))
    return names


def margins(cells: pd.DataFrame, p: float) -> list[dict[str, Any]]:
    """Return NMI with priors less NMI without, on the same annotations, by data set and m (claim 6)."""
    keys = ["dataset", "m", "replicate"]
    rows = pick(cells, p=p, model="posterior").merge(pick(cells, p=p, model="likelihood"), on=keys)
    rows["margin"] = rows["nmi_x"] - rows["nmi_y"]
    return [
        {"dataset": dataset, "texts": [mean(group, "margin") for _, group in parts.groupby("m")]}
        for dataset, parts in rows.groupby("dataset", sort=False)
    ]


def indices(cells: pd.DataFrame, dataset: str, p: float, share: float) -> dict[str, str]:
    """Return centroid indices of a real data set, by model (claim 8)."""
    rows = pick(cells, dataset=dataset)
    rows = rows[rows["p"].isna() | ((rows["p"] == p) & ((rows["m_over_n"] - share).abs() < 0.01))]
    return {
        str(model): ", ".join(f"{int(index)} in {count}" for index, count in counts.items())
        for model, counts in (
            (model, group.value_counts().sort_index())
            for model, group in rows.groupby("model")["centroid_index"]
        )
    }


def agreements(cells: pd.DataFrame, n_clusters: int) -> list[dict[str, Any]]:
    """Return the share of annotations that the solutions take for correct, by p and m (claim 3)."""
    rows = cells[(cells["n_clusters"] == n_clusters) & cells["p"].notna()]
    entries = []
    for (p, m), group in rows.groupby(["p", "m"]):
        texts = {model: mean(pick(group, model=model), "annotation_agreement") for model in MODELS}
        entries.append({"p": p, "m": int(m), **texts})
    return entries


FUNCTIONS = {
    function.__name__: function
    for function in (
        *(few_wrong_centroids, mean, pick, pool),
        *(gains, positive, with_gain, margins, indices, agreements),
    )
}
