"""Figure of paired differences between two cubes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.parts.ink import (
    GREY,
    MOST_ACCURACIES,
    MOST_DATASETS,
    accuracy_panels,
    hover,
    legend,
    mark,
    short,
    tick_counts,
)
from pipeline.report.parts.parts import shape_groups, spread
from pipeline.report.parts.wording import count_of, units
from pipeline.report.sections.curves import PANEL
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import titled, with_variants


def caption(axis: str, rows: pd.DataFrame) -> str:
    """What the figure of a score shows."""
    over = units(rows["unit"])
    return f"{axis}: B minus A, paired by cell. Mean over {over}, with bars of one standard error."


def draw_differences(
    table: pd.DataFrame, score: str, written: Mapping[tuple[str, int], str] | None = None
) -> Figure | None:
    """Draw the mean difference of a score, B minus A, with its standard error.

    Parameters
    ----------
    table : pandas.DataFrame
        From `pipeline.scoring.pairs.difference_table`.
    score : str
        One of its scores.
    written : mapping, optional
        From `pipeline.scoring.tables.written_counts`: how m is written.

    Returns
    -------
    Figure or None
        A row of panels per data set, design and search, and per shape where there are many, a column per
        accuracy, baselines at m = 0; None without any pair.
    """
    rows = table[(table["score"] == score) & (table["n_cells"] > 0)]
    if rows.empty:
        return None
    # rows of one panel are of one design and search
    named = [titled(row["dataset"], row) for row in with_variants(rows).to_dict("records")]
    texts = [
        "0" if pd.isna(m) else count_of(written or {}, str(name), int(m))
        for name, m in zip(rows["dataset"], rows["m"], strict=True)
    ]
    rows = rows.assign(dataset=named, text=texts)
    datasets = spread(list(rows["dataset"].unique()), MOST_DATASETS)
    accuracies = spread(sorted(rows["p"].dropna().unique()), MOST_ACCURACIES) or [np.nan]
    groups = shape_groups(rows["model"].unique())
    shown = list(product(datasets, groups))
    figure, grid = accuracy_panels(len(shown), accuracies, PANEL, share="row")
    for line, (dataset, group) in zip(grid, shown, strict=True):
        one = rows[(rows["dataset"] == dataset) & rows["model"].isin(groups[group])]
        for axes, p in zip(line, accuracies, strict=True):
            _panel(axes, one[one["p"].isna() | (one["p"] == p)])
        line[0].set_ylabel(f"{short(dataset, group)}\n{LABELS[score].short}, B minus A")
    legend(figure, (axes for line in grid for axes in line))
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    axes.axhline(0, color=GREY, linewidth=1)
    for model, points in rows.groupby("model", sort=True):
        look = mark(str(model))
        drawn = axes.errorbar(
            points["m"].astype(float).fillna(0.0),
            points["difference"],
            points["se"].fillna(0.0),
            color=look.color,
            linestyle=look.line,
            **look.markers,
            markersize=4.5,
            capsize=2.5,
            linewidth=1.4,
        )
        drawn.set_label(str(model))
        if drawn.lines[0] is not None:
            hover(drawn.lines[0], [f"{model}, m = {row.text}: {_words(row)}" for row in points.itertuples()])
    axes.grid()
    names = dict(zip(rows["m"].fillna(0).astype(int), rows["text"], strict=True))
    tick_counts(axes, sorted({0, *names}), {0: "0"} | names)


def _words(row: Any) -> str:
    return f"{row.difference:+.3f}" + ("" if pd.isna(row.se) else f" ± {row.se:.3f}")
