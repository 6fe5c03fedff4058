"""Designs by hand: findings, tables, lines, files and figures."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from cubes.reported import content, texts, tips, titles
from designed import designed, written

from pipeline.report import designs
from pipeline.report.content import Content
from pipeline.report.designs import (
    MOST_ROWS,
    design_files,
    design_headline,
    design_lines,
    draw_budgets,
    draw_designs,
    findings,
)
from pipeline.report.look import DESIGN_LOOKS, PAPER, house_style
from pipeline.scoring.worth import budgets, design_groups, design_scores
from sweeps.words import DESIGNS, SHIPPED

CURVES = {"uniform": (0.2, 0.4, 0.6), "active": (0.4, 0.5, 0.7), "biased": (0.1, 0.2, 0.4)}
CROSSING = {"uniform": (0.2, 0.4, 0.6), "active": (0.4, 0.5, 0.5), "biased": (0.1, 0.2, 0.6)}


def level(design: str, x: float, unit: int) -> float:
    """Active pairs are worth twice as many, biased ones fewer; the same in every unit."""
    return CURVES[design][round(2 * x) - 1]


def noisy(design: str, x: float, unit: int) -> float:
    return level(design, x, unit) + 0.02 * (unit - 1.5) * (design == "active")


def rising(design: str, x: float, unit: int) -> float:
    return (0.4 + 0.01 * unit if design == "active" else 0.2) * x


def made(cells: pd.DataFrame) -> Content:
    return content(cells, written=written("a", "b"))


def test_tables_hold_differences_worths_and_ratios() -> None:
    found = made(designed(level, datasets=("a", "b"), designs=tuple(CURVES)))
    less, budget, *more = designs.design_tables(found)
    assert less.title == "NMI of a design less that of uniform pairs"
    assert len(more) == 2
    rows = {tuple(row[:4]): row[4:] for row in texts(budget)}
    whole = "mean of 2 data sets", "0.8", "conditional"
    assert texts(less)[0] == [*whole, "active", "+0.200 ± 0.000", "+0.100 ± 0.000", "+0.100 ± 0.000"]
    assert rows[*whole, "active"] == ["1N", "0.50", "1.25N", "0.80", "over 1.5N", "<1.00"]
    assert rows[*whole, "biased"] == ["under 0.5N", ">1.00", "under 0.5N", ">2.00", "1N", "1.50"]
    assert len(rows) == len(less.rows) == 6
    assert made(designed(level, designs=("uniform",))).designs == ()


def test_an_interval_stands_beside_a_ratio_that_chance_moves() -> None:
    _, budget, *_ = designs.design_tables(made(designed(noisy, baseline=0.0)))
    assert re.fullmatch(r"0\.50 \(0\.4\d–0\.5\d\)", texts(budget)[0][5])
    worse = designed(lambda design, x, unit: 0.0 if design == "active" else x / 2, baseline=0.1)
    _, budget, *_ = designs.design_tables(made(worse))
    assert texts(budget)[0][4:6] == ["none", "∞"]
    (said,) = findings(design_scores(worse, written("a"))[0])
    assert said.endswith("At p = 0.8, 1.5N are worth no uniform ones, ratio ∞.")


def test_a_finding_is_of_the_model_that_scores_best() -> None:
    cells = designed(level, models=("posterior", "conditional"))
    cells.loc[(cells["model"] == "posterior") & (cells["design"] == "active"), "nmi"] -= 0.05
    nmi, _ = design_scores(cells, written("a"))
    (said,) = findings(nmi)
    assert said == (
        "NMI, a: active pairs with conditional. At p = 0.8, 1N are worth 1.25N uniform ones, ratio 0.80."
    )


def test_pairs_are_written_as_in_sweep_files() -> None:
    assert [designs.pairs(value) for value in (0.5, 1.0, 1.254, 10.0)] == ["0.5N", "1N", "1.25N", "10N"]


def test_each_design_stands_with_the_budgets_at_which_it_is_best() -> None:
    cells = designed(
        lambda design, x, unit: CROSSING[design][round(2 * x) - 1],
        accuracies=(0.8, 0.9),
        designs=tuple(CROSSING),
    )
    cells.loc[(cells["p"] == 0.9) & (cells["design"] == "active"), ["nmi"]] += 0.3
    (line,) = design_headline(design_scores(cells, written("a")))
    assert line == (
        "By NMI of conditional, a: active pairs are best at p = 0.8 with m = 0.5N and 1N, p = 0.9; uniform"
        " and biased pairs are best at p = 0.8 with m = 1.5N. Some chosen pairs are ahead of uniform ones"
        " by more than 2 paired standard errors at 5 of 6 such places."
    )


def test_one_that_is_best_everywhere_is_said_once_and_several_models_not_at_all() -> None:
    (line,) = design_headline(design_scores(designed(level, datasets=("a", "b")), written("a", "b")))
    start = "By NMI of conditional, mean of 2 data sets: active pairs are best at every m and p."
    assert line.startswith(start)
    models = designed(level, models=("posterior", "conditional"))
    assert design_headline(design_scores(models, written("a"))) == design_headline(()) == ()
    alone = designed(level, draws=1)
    assert "at 0 of 3 such places" in design_headline(design_scores(alone, written("a")))[0]


def test_lines_fit_and_files_hold_every_data_set_and_score() -> None:
    longest = max(SHIPPED, key=len)
    cells = designed(rising, datasets=("a", "b"), models=("conditional-diagonal", longest), baseline=0.0)
    found = design_scores(cells, written("a", "b"))
    lines = list(design_lines(found))
    assert max(map(len, lines)) <= 100
    assert lines[2] == "mean of 2 data sets"
    assert "a" not in lines
    assert lines[3].split()[:4] == ["0.8", "conditional-diagonal", "active", "0.5N"]
    # the mean of four units is 0.415 x
    assert "+0.107" in lines[3] or "+0.108" in lines[3]
    assert lines[4].split()[-1] == "<0.67"
    assert list(design_lines(())) == []
    tables = design_files(found)
    assert set(tables) == {"designs", "budget"}
    for table in tables.values():
        assert set(table["score"]) == {"nmi", "adjusted_rand"}
        assert set(table["dataset"]) == {"mean of all", "a", "b"}
        assert table.columns[0] == "score"
    assert np.isinf(tables["budget"]["worth"]).any()
    assert design_files(()) == {}


def test_panels_are_data_sets_by_accuracies() -> None:
    cells = designed(noisy, datasets=("a", "b"), accuracies=(0.8, 1.0))
    with house_style():
        figures = {name: figure for name, figure, _ in designs.design_figures(made(cells))}
    assert list(figures) == ["designs-nmi", "budget-nmi", "designs-ari", "budget-ari"]
    curves, budget = figures["designs-nmi"], figures["budget-nmi"]
    assert curves is not None
    assert budget is not None
    assert len(curves.axes) == len(budget.axes) == 6
    assert titles(curves)[:2] == ["accuracy p = 0.8", "accuracy p = 1"]
    assert curves.axes[0].get_ylabel().startswith("mean of 2 data sets\nconditional")
    lines = {line.get_label(): line for line in curves.axes[0].lines}
    assert np.allclose(lines["uniform"].get_ydata(), CURVES["uniform"])
    assert np.allclose(lines["active"].get_ydata(), CURVES["active"])
    worth = next(line for line in budget.axes[0].lines if line.get_label() == "conditional")
    assert np.allclose(worth.get_ydata(), [1.0, 1.25, 1.5 * 1.12])


def test_the_band_is_of_the_difference() -> None:
    groups = design_groups(designed(rising), "nmi", written("a"))
    with house_style():
        figure = draw_designs(groups, "nmi")
    assert figure is not None
    (axes,) = figure.axes
    (band,) = axes.collections
    error = groups[0].difference("active")[1]
    heights = np.unique(band.get_paths()[0].vertices[:, 1].round(9))
    wanted = np.concatenate([groups[0].mean("active") - error, groups[0].mean("active") + error])
    assert np.allclose(heights, np.unique(wanted.round(9)))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N", "1N", "1.5N"]
    assert tips(figure)[0] == "uniform, m = 0.5N: 0.100"
    assert tips(figure)[3].startswith("active, m = 0.5N: 0.208, +0.108 ± 0.003")


def test_what_uniform_pairs_do_not_reach_is_hollow_above_the_grid() -> None:
    found = budgets(design_groups(designed(rising, baseline=0.0), "nmi", written("a")))
    with house_style():
        figure = draw_budgets(found, "nmi")
    assert figure is not None
    hollow = next(line for line in figure.axes[0].lines if line.get_markerfacecolor() == PAPER)
    assert hollow.get_xdata().tolist() == [1.0, 1.5]
    assert tips(figure)[-1] == "conditional, m = 1.5N: worth over 1.5N uniform pairs, ratio <1.00"
    assert (np.asarray(hollow.get_ydata()) > 1.5).all()


@pytest.mark.usefixtures("page_alone")
def test_large_grids_are_shown_in_part_and_nothing_is_nothing() -> None:
    cells = designed(rising, datasets=tuple(f"d{number}" for number in range(30)), draws=1)
    figure = draw_designs(design_groups(cells, "nmi", {}), "nmi")
    assert figure is not None
    assert len(figure.axes) == MOST_ROWS
    assert draw_designs([], "nmi") is None
    assert draw_budgets([], "nmi") is None


def test_every_design_has_a_look_of_its_own() -> None:
    assert set(DESIGN_LOOKS) == set(DESIGNS)
    assert len({(look.color, look.marker) for look in DESIGN_LOOKS.values()}) == len(DESIGNS)
