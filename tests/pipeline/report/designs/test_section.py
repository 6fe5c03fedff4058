"""What the page says of designs: findings, tables, and entries beyond the grid."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from designed import designed, written
from matplotlib.figure import Figure

from pipeline.report.designs.entries import pairs
from pipeline.report.designs.section import findings, section
from pipeline.report.parts.ink import house_style
from pipeline.report.parts.parts import Picture, Section
from pipeline.report.parts.saving import save
from pipeline.scoring.worth import design_scores

CURVES = {"uniform": (0.2, 0.4, 0.6), "active": (0.4, 0.5, 0.7), "biased": (0.1, 0.2, 0.4)}


def level(design: str, x: float, unit: int) -> float:
    """Active pairs are worth twice as many, biased ones fewer; the same in every unit."""
    return CURVES[design][round(2 * x) - 1]


def noisy(design: str, x: float, unit: int) -> float:
    return level(design, x, unit) + 0.02 * (unit - 1.5) * (design == "active")


def chapter(cells: pd.DataFrame, folder: Path, figures: dict[str, Figure]) -> Section:
    """The chapter on made-up cells; figures are kept by name."""

    def keep(figure: Figure, name: str, caption: str) -> tuple[Picture, ...]:
        figures[name] = figure
        return (save(figure, folder, name, caption),)

    content = SimpleNamespace(designs=design_scores(cells, written("a", "b")), save=keep)
    with house_style():
        made = section(content)  # type: ignore[arg-type]
    assert made is not None
    assert [picture.name for picture in made.pictures] == list(figures)
    return made


def test_pages_without_designs_have_no_such_chapter() -> None:
    assert section(SimpleNamespace(designs=())) is None  # type: ignore[arg-type]


def test_tables_hold_differences_worths_and_ratios(tmp_path: Path) -> None:
    made = chapter(designed(level, datasets=("a", "b"), designs=tuple(CURVES)), tmp_path, {})
    less, budget, *_ = made.tables
    assert less.title == "NMI of a design less that of uniform pairs"
    assert len(made.tables) == 4
    rows = {tuple(value.text for value in row[:4]): [value.text for value in row[4:]] for row in budget.rows}
    whole = "mean of 2 data sets", "0.8", "conditional"
    assert [value.text for value in less.rows[0]] == [
        *whole, "active", "+0.200 ± 0.000", "+0.100 ± 0.000", "+0.100 ± 0.000",
    ]  # fmt: skip
    assert rows[*whole, "active"] == ["1N", "0.50", "1.25N", "0.80", "over 1.5N", "<1.00"]
    assert rows[*whole, "biased"] == ["under 0.5N", ">1.00", "under 0.5N", ">2.00", "1N", "1.50"]
    assert len(rows) == len(less.rows) == 6


def test_an_interval_stands_beside_a_ratio_that_chance_moves(tmp_path: Path) -> None:
    made = chapter(designed(noisy, baseline=0.0), tmp_path, {})
    text = made.tables[1].rows[0][5].text
    assert re.fullmatch(r"0\.50 \(0\.4\d–0\.5\d\)", text)
    worse = chapter(designed(lambda d, x, u: 0.0 if d == "active" else x / 2, baseline=0.1), tmp_path, {})
    assert [value.text for value in worse.tables[1].rows[0][4:6]] == ["none", "∞"]


def test_a_finding_is_of_the_model_that_scores_best() -> None:
    cells = designed(level, models=("posterior", "conditional"))
    cells.loc[(cells["model"] == "posterior") & (cells["design"] == "active"), "nmi"] -= 0.05
    nmi, _ = design_scores(cells, written("a"))
    (said,) = findings(nmi)
    assert said == (
        "NMI, a: active pairs with conditional. At p = 0.8, 1N are worth 1.25N uniform ones, ratio 0.80."
    )


def test_pairs_that_are_worth_nothing_are_worth_no_uniform_ones() -> None:
    cells = designed(lambda design, x, unit: 0.0 if design == "active" else x / 2, baseline=0.1)
    (said,) = findings(design_scores(cells, written("a"))[0])
    assert said.endswith("At p = 0.8, 1.5N are worth no uniform ones, ratio ∞.")


def test_panels_are_data_sets_by_accuracies(tmp_path: Path) -> None:
    cells = designed(noisy, datasets=("a", "b"), accuracies=(0.8, 1.0))
    figures: dict[str, Figure] = {}
    chapter(cells, tmp_path, figures)
    assert list(figures) == ["designs-nmi", "budget-nmi", "designs-ari", "budget-ari"]
    curves, budget = figures["designs-nmi"], figures["budget-nmi"]
    assert len(curves.axes) == len(budget.axes) == 6
    assert [axes.get_title() for axes in curves.axes[:2]] == ["accuracy p = 0.8", "accuracy p = 1"]
    assert curves.axes[0].get_ylabel().startswith("mean of 2 data sets\nconditional")
    lines = {line.get_label(): line for line in curves.axes[0].lines}
    assert np.allclose(lines["uniform"].get_ydata(), CURVES["uniform"])
    assert np.allclose(lines["active"].get_ydata(), CURVES["active"])
    worth = next(line for line in budget.axes[0].lines if line.get_label() == "conditional")
    assert np.allclose(worth.get_ydata(), [1.0, 1.25, 1.5 * 1.12])


def test_pairs_are_written_as_in_sweep_files() -> None:
    assert [pairs(value) for value in (0.5, 1.0, 1.254, 10.0)] == ["0.5N", "1N", "1.25N", "10N"]
