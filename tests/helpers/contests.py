"""Tables of cells with given scores serve the tests of ranks and of the report's words about them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from sweep_clustering.pipeline.scoring.scores import SCORES
from sweep_clustering.pipeline.scoring.tables import CHOICE, HIT_COLUMNS, KEYS, STATE

BASE = np.linspace(0.2, 0.6, 10)
OFFSETS = 0.01 * np.arange(1, 11)
"""Of ten sizes, so that no differences tie."""


def cell(dataset: str, model: str, nmi: float, **changes: object) -> dict[str, object]:
    """Return a row of `cell_table`: done, with equal scores, without annotations unless p is given."""
    row: dict[str, object] = {"dataset": dataset, "model": model, "nmi": nmi, "adjusted_rand": nmi}
    row |= {"status": "done", "seconds": 0.5, "cpu_seconds": 0.25, "restarts_done": 3, "n_clusters": 3}
    if "p" in changes:
        row |= {"m": 10, "replicate": 0}
    row |= changes
    if row["status"] != "done":
        row |= {"nmi": np.nan, "adjusted_rand": np.nan, "seconds": np.nan, "cpu_seconds": np.nan}
    return row


def table(rows: Iterable[dict[str, object]]) -> pd.DataFrame:
    """Return rows as `cell_table` gives them."""
    frame = pd.DataFrame(list(rows), columns=[*KEYS, *STATE, *HIT_COLUMNS, *CHOICE, *SCORES])
    whole = dict.fromkeys(("n_clusters", "mixture", "m", "replicate", "restarts_done"), "Int64")
    real = dict.fromkeys(("p", "seconds", "cpu_seconds", *SCORES), float)
    return frame.astype({**whole, **real})


def contest(scores: dict[str, Iterable[float]], spread: float = 0.0, draws: int = 2) -> pd.DataFrame:
    """Return cells of models with one score on each data set `d0`, `d1`, …, and a spread over redraws."""
    rows = []
    for model, values in scores.items():
        for number, value in enumerate(values):
            for draw in range(draws):
                off = spread * (draw - (draws - 1) / 2) * (1 if model == next(iter(scores)) else -1)
                rows.append(cell(f"d{number}", model, value + off, p=0.9, replicate=draw))
    rows.sort(key=lambda row: str(row["dataset"]))
    return table(rows)
