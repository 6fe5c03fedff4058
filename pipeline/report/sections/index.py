"""Centroid index: the share of cells whose solution has a centroid for each true class."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from pipeline.report.parts.parts import Section, Table, number, words
from pipeline.report.parts.wording import units
from pipeline.report.sections.content import Content, pictured
from pipeline.report.sections.curves import draw_curves
from pipeline.scoring.scores import SCORES
from pipeline.scoring.tables import summary_table

SCORE = "centroid_index"
MOST = 3
"""Indices with a column of their own; that of the last one holds larger ones, too."""
UP = "cells with index 0 (share)"
CAPTION = (
    "Share of the cells whose centroid index is 0: those whose solution has one centroid for each true class."
    " Mean over {units}, with a band of one standard error. All panels have the same axes."
)
NOTE = "Share of cells by centroid index, over all p, m and draws."


def section(content: Content) -> Section:
    """A figure of shares, and a table of all indices."""
    table = share_table(content.cells)
    text = CAPTION.format(units=units(table.loc[table["p"].notna(), "unit"]))
    pictures = content.save(draw_shares(table, content.written), "centroid-index", text)
    found = pictured("index", "Centroid index", pictures)
    return Section(found.key, found.title, found.text, tuple(entries(content.cells)), pictures)


def share_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Share of cells with the centroid index 0, as `pipeline.scoring.tables.summary_table` has means.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`; cells without an index do not count.
    """
    zero = (cells[SCORE] == 0).astype(float).where(cells[SCORE].notna())
    others = [score for score in SCORES if score != SCORE and score in cells]
    return summary_table(cells.drop(columns=others).assign(**{SCORE: zero}))


def draw_shares(table: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> Figure | None:
    """Draw the shares against the number of annotations, a row of panels per data set, a column per accuracy.

    Parameters
    ----------
    table : pandas.DataFrame
        From `share_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    Figure or None
        None if no cell with annotations has an index.
    """
    figure = draw_curves(table, SCORE, written=written, up=UP)
    if figure is not None:
        for axes in figure.axes:
            axes.set_ylim(-0.04, 1.04)
    return figure


def entries(cells: pd.DataFrame) -> list[Table]:
    """Table of the shares of each index, by data set and model; none without any."""
    known = cells[cells[SCORE].notna()]
    if known.empty:
        return []
    rows = []
    for (dataset, model), found in known.groupby(["dataset", "model"], sort=False):
        shares = found[SCORE].clip(upper=MOST).value_counts(normalize=True)
        numbers = (number(100 * float(shares.get(index, 0.0)), ".0f") for index in range(MOST + 1))
        rows.append((words(dataset), words(model), number(len(found)), *numbers))
    heads = (*(f"{index}, %" for index in range(MOST)), f"{MOST} or more, %")
    head = ("data set", "model", "cells", *heads)
    return [Table("Centroid index", head, tuple(rows), note=NOTE, pinned=True, folded=True)]
