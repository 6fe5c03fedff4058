"""Every way to scale some of the real data sets and not others, at p = 1.0 and m = 1.5N (claim 4)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from claims import pick

from sweep_clustering.pipeline.report.scores import Z_LIMIT

PUBLISHED = {"posterior": 0.8828, "likelihood": 0.8074}
"""Mean NMI over the eight data sets and ten annotation graphs."""


def ways_to_scale(cells: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean NMI over data sets and replicates, each data set scaled in every way there is.

    Parameters
    ----------
    cells : mapping of str to pandas.DataFrame
        Cells by the way all data sets are scaled.

    Returns
    -------
    pandas.DataFrame
        A row per way: a column per data set with how it is scaled, then by model the mean, its standard error
        over replicates (`_se`), and `_z`, the difference from the published value by √2 standard errors.
    """
    tables = {
        model: pd.concat({name: nmi(rows, model) for name, rows in cells.items()}) for model in PUBLISHED
    }
    datasets = list(dict.fromkeys(tables["posterior"].index.get_level_values("dataset")))
    choices = list(product(range(len(cells)), repeat=len(datasets)))
    names = np.array(list(cells), dtype=object)
    found = pd.DataFrame(names[np.array(choices)], columns=datasets)
    for model, table in tables.items():
        values = np.stack([table.loc[name].loc[datasets].to_numpy() for name in cells])
        means = values[np.array(choices), np.arange(len(datasets))].mean(axis=1)
        found[model] = means.mean(axis=1)
        found[f"{model}_se"] = means.std(axis=1, ddof=1) / np.sqrt(means.shape[1])
        found[f"{model}_z"] = (found[model] - PUBLISHED[model]) / (np.sqrt(2) * found[f"{model}_se"])
    return found


def nmi(cells: pd.DataFrame, model: str) -> pd.DataFrame:
    """NMI at p = 1.0 and m = 1.5N, data sets by replicates."""
    rows = pick(cells, p=1.0, model=model)
    rows = rows[(rows["m_over_n"] - 1.5).abs() < 0.01]
    return rows.pivot_table(index="dataset", columns="replicate", values="nmi", sort=False)


def some_ways(ways: pd.DataFrame) -> dict[str, pd.Series]:
    """Those that the page shows."""

    def only(*datasets: str) -> pd.Series:
        known = ways.columns[: ways.columns.get_loc("posterior")]
        wanted = ["standard" if name in datasets else "none" for name in known]
        return ways[(ways[known] == wanted).all(axis=1)].iloc[0]

    farther = ways[[f"{model}_z" for model in PUBLISHED]].abs().max(axis=1)
    return {
        "Wine standardised": only("wine"),
        "Wine and Thyroid standardised": only("wine", "thyroid"),
        "each data set as is best without priors": ways.loc[ways["likelihood"].idxmax()],
        "nearest to both published values": ways.loc[farther.idxmin()],
    }


def near(ways: pd.DataFrame) -> dict[str, int]:
    """How many ways come within 2√2 standard errors of what was published, by model, and of both."""
    within = pd.DataFrame({model: ways[f"{model}_z"].abs() <= Z_LIMIT for model in PUBLISHED})
    return {"ways": len(ways), **within.sum().to_dict(), "both": int(within.all(axis=1).sum())}
