"""The line on which design is best at which budget, by hand."""

from __future__ import annotations

from designed import designed, written

from pipeline.report.designs.headline import design_headline
from pipeline.scoring.worth import design_scores

CURVES = {"uniform": (0.2, 0.4, 0.6), "active": (0.4, 0.5, 0.5), "biased": (0.1, 0.2, 0.6)}


def level(design: str, x: float, unit: int) -> float:
    return CURVES[design][round(2 * x) - 1]


def best(design: str, x: float, unit: int) -> float:
    return x / 2 + 0.1 * (design == "active")


def test_each_design_stands_with_the_budgets_at_which_it_is_best() -> None:
    cells = designed(level, accuracies=(0.8, 0.9), designs=tuple(CURVES))
    cells.loc[(cells["p"] == 0.9) & (cells["design"] == "active"), ["nmi"]] += 0.3
    (line,) = design_headline(design_scores(cells, written("a")))
    assert line == (
        "By NMI of conditional, a: active pairs are best at p = 0.8 with m = 0.5N and 1N, p = 0.9; uniform"
        " and biased pairs are best at p = 0.8 with m = 1.5N. Some chosen pairs are ahead of uniform ones"
        " by more than 2 paired standard errors at 5 of 6 such places."
    )


def test_one_that_is_best_everywhere_is_said_once() -> None:
    (line,) = design_headline(design_scores(designed(best, datasets=("a", "b")), written("a", "b")))
    assert line.startswith(
        "By NMI of conditional, mean of 2 data sets: active pairs are best at every m and p."
    )


def test_several_models_and_no_designs_have_no_line() -> None:
    models = designed(best, models=("posterior", "conditional"))
    assert design_headline(design_scores(models, written("a"))) == ()
    assert design_headline(()) == ()
    alone = designed(best, draws=1)
    assert "at 0 of 3 such places" in design_headline(design_scores(alone, written("a")))[0]
