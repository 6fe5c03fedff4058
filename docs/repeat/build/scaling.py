"""Scale some of the real data sets and not others, in every way, at p = 1.0 and m = 1.5N (claim 4)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from claims import pick

from sweep_clustering.pipeline.report.scores import Z_LIMIT

# Mean NMI over the eight data sets and ten annotation graphs.
PUBLISHED = {"posterior": 0.8828, "likelihood": 0.8074}


def ways_to_scale(cells: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return mean NMI over data sets and replicates, each data set scaled in every way.

    Parameters
    ----------
    cells : mapping of str to pandas.DataFrame
        Cells by the way all data sets are scaled.

    Returns
    -------
    pandas.DataFrame
        A row per way: a column per data set with its scaling, then by model the mean, its standard error
        over replicates (`_se`), and `_z`, the difference from the published value by √2 standard errors.
    """
    tables = {
        model: pd.concat({name: nmi(rows, model) for name, rows in cells.items()}) for model in PUBLISHED
    }
    datasets = list(dict.fromkeys(tables["posterior"].index.get_level_values("dataset")))
    choices = list(product(range(len(cells)), repeat=len(datasets)))
    names = np.array(list(cells), dtype=object)
    ways = pd.DataFrame(names[np.array(choices)], columns=datasets)
    for model, table in tables.items():
        values = np.stack([table.loc[name].loc[datasets].to_numpy() for name in cells])
        means = values[np.array(choices), np.arange(len(datasets))].mean(axis=1)
        ways[model] = means.mean(axis=1)
        ways[f"{model}_se"] = means.std(axis=1, ddof=1) / np.sqrt(means.shape[1])
        ways[f"{model}_z"] = (ways[model] - PUBLISHED[model]) / (np.sqrt(2) * ways[f"{model}_se"])
    return ways


def nmi(cells: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return NMI at p = 1.0 and m = 1.5N, data sets by replicates."""
    rows = pick(cells, p=1.0, model=model)
    rows = rows[(rows["m_over_n"] - 1.5).abs() < 0.01]
    return rows.pivot_table(index="dataset", columns="replicate", values="nmi", sort=False)


def ways_to_show(ways: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the ways that the page shows."""

    def row_of(*datasets: str) -> pd.Series:
        columns = ways.columns[: ways.columns.get_loc("posterior")]
        scalings = ["standard" if name in datasets else "none" for name in columns]
        return ways[(ways[columns] == scalings).all(axis=1)].iloc[0]

    farther = ways[[f"{model}_z" for model in PUBLISHED]].abs().max(axis=1)
    return {
        "Wine standardised": row_of("wine"),
        "Wine and Thyroid standardised": row_of("wine", "thyroid"),
        "each data set as is best without priors": ways.loc[ways["likelihood"].idxmax()],
        "nearest to both published values": ways.loc[farther.idxmin()],
    }


def count_near(ways: pd.DataFrame) -> dict[str, int]:
    """Count the ways within 2√2 standard errors of the published values, by model, and for both."""
    is_near = pd.DataFrame({model: ways[f"{model}_z"].abs() <= Z_LIMIT for model in PUBLISHED})
    return {"ways": len(ways), **is_near.sum().to_dict(), "both": int(is_near.all(axis=1).sum())}
