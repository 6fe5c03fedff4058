"""What held-out annotations say: which shapes of covariances cells chose, and how well models predict."""

from __future__ import annotations

import pandas as pd

from pipeline.scoring.tables import in_file_order
from pipeline.scoring.variants import VARIANTS, with_variants
from storage.cube.schema import DONE, STATUS_WORDS
from sweeps.shapes import CANDIDATES
from sweeps.words import chooses, is_model

GROUP = ("dataset", "p", "m", "m_over_n", *VARIANTS, "model")
TOO_FEW = "too few"
"""Head of the column of cells whose annotations were too few to tell: those that choose are spherical."""
COLUMNS = (*GROUP, "n", *CANDIDATES, "too_few", "predicted", "log_loss")
PREDICTED = (*GROUP, "n", "too_few", "predicted", "log_loss")


def choice_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Count the shapes chosen, over mixtures and replicates.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    pandas.DataFrame
        A row for each data set, p, m, design, search and model that chooses, where any cell is done:
        `GROUP`; `n` cells that are done; how many of them chose each of `CANDIDATES`; `too_few`, those of
        them that had too few annotations to choose; and over all others the means of `predicted`, the share
        of held-out annotations that the shape chosen predicted, and of `log_loss`, minus their mean log-
        probability in nats.
    """
    rows = cells[cells["model"].map(chooses) & (cells["status"] == STATUS_WORDS[DONE])]
    if rows.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    return _counted(rows.assign(**{shape: rows["covariance_shape"] == shape for shape in CANDIDATES}), cells)


def prediction_table(cells: pd.DataFrame) -> pd.DataFrame:
    """How well each model predicted held-out annotations, over mixtures and replicates.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`, of data sets where every model holds annotations out.

    Returns
    -------
    pandas.DataFrame
        A row for each data set, p, m, design, search and model with annotations, where any cell is done,
        but none of methods, which hold no annotations out: `GROUP`; `n` cells that are done; `too_few`, those
        of them that had too few annotations to hold some out; and the means over all others of `predicted`
        and `log_loss`, as of `choice_table`.
    """
    done = cells["p"].notna() & (cells["status"] == STATUS_WORDS[DONE])
    rows = cells[done & cells["model"].map(is_model)]
    return pd.DataFrame(columns=list(PREDICTED)) if rows.empty else _counted(rows, cells)[list(PREDICTED)]


def _counted(rows: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Cells and shapes counted by `GROUP`, and the means of what was predicted."""
    shapes = [shape for shape in CANDIDATES if shape in rows]
    groups = (
        with_variants(rows)
        .assign(too_few=rows["log_loss"].isna())
        .groupby(list(GROUP), sort=False, dropna=False)
    )
    counts = groups[[*shapes, "too_few"]].sum().astype(int)
    counts.insert(0, "n", groups.size())
    table = counts.join(groups[["predicted", "log_loss"]].mean()).reset_index()
    return in_file_order(table, ["dataset", "p", "m", *VARIANTS, "model"], cells)
