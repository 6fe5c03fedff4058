"""What the page says of searches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
from matplotlib.figure import Figure
from searched import SEARCHES, searched

from pipeline.report.parts.ink import house_style
from pipeline.report.parts.parts import Picture, Section
from pipeline.report.parts.saving import save
from pipeline.report.searches.section import section
from pipeline.scoring.pairs import compared_searches


def chapter(cells: pd.DataFrame, folder: Path) -> Section | None:
    def keep(figure: Figure, name: str, caption: str) -> tuple[Picture, ...]:
        return (save(figure, folder, name, caption),)

    content = SimpleNamespace(searches=compared_searches(cells, SEARCHES), save=keep)
    with house_style():
        return section(content)  # type: ignore[arg-type]


def test_pages_of_one_search_have_no_such_chapter(tmp_path: Path) -> None:
    assert chapter(searched(("first",)), tmp_path) is None


def test_a_table_and_a_figure_for_each_search(tmp_path: Path) -> None:
    made = chapter(searched(("first", "second", "prior")), tmp_path)
    assert made is not None
    assert [picture.name for picture in made.pictures] == ["search-second", "search-prior"]
    assert (tmp_path / "search-second.pdf").exists()
    second, prior = made.tables
    assert second.title == "second beside first"
    rows = {tuple(value.text for value in row[:2]): [value.text for value in row[2:]] for row in second.rows}
    assert rows["a", "posterior"] == [
        *("4", "4 redraws", "25", "50", "25", "+0.025 ± 0.025", "+0.025 ± 0.025"),
        *("0.50", "1.00", "0.50", "0.25"),
    ]  # fmt: skip
    assert rows["all data sets", "unsupervised"][:2] == ["2", "2"]
    assert len(second.columns) == len(second.rows[0]) == 13
    assert "higher" not in prior.columns
    assert "different objectives" in prior.note
    assert "over redraws of the annotations" in second.note
    assert made.text[0].startswith("second beside first: posterior, 8 cells: best objective higher in 12%")
