"""Which model wins, by hand: never more than the numbers say, in words, tables and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import chromium
from contests import cell, contest, table
from cubes.reported import content, texts, tips, titles
from matplotlib.colors import to_hex

from pipeline.report import elements, winners
from pipeline.report.look import INK, house_style
from pipeline.report.page import SECTIONS
from pipeline.report.winners import MEAN, draw_robustness, findings, headline, robustness_table, winner_lines
from pipeline.scoring.ranking import Ranking, rankings
from sweeps.words import MODEL_CODES

BASE = np.linspace(0.2, 0.6, 10)
OFFSETS = 0.01 * np.arange(1, 11)
HOSTILE = "<img src=x onerror=alert(1)>"


def ranked(cells: pd.DataFrame) -> Ranking:
    return rankings(cells)[0]


def said(cells: pd.DataFrame) -> tuple[str, ...]:
    return findings(rankings(cells))


def test_a_clear_winner_is_named_with_those_it_beats() -> None:
    nmi, ari = said(contest({"b": BASE, "a": BASE + OFFSETS, "c": BASE - OFFSETS}))
    assert nmi.startswith("NMI: a has the best mean rank, 1.0 of 3, over 10 data sets and the best score")
    assert "on 10 of them. Friedman's test: χ² = 20.0, 2 degrees of freedom, p < 0.0001" in nmi
    assert nmi.endswith("correction tell 3 of 3 pairs apart (0.05 in all): a from b and c.")
    assert ari.startswith("ARI: a has")


def test_what_the_test_does_not_tell_apart_is_counted() -> None:
    rng = np.random.default_rng(0)
    close = BASE + rng.permutation(np.linspace(-0.004, 0.005, 10))
    (nmi, _) = said(contest({"a": BASE, "b": close, "c": BASE - 10 * OFFSETS}))
    assert "tell 2 of 3 pairs apart" in nmi
    assert "from c, not from the other 1." in nmi
    nmi, _ = said(contest({name: rng.permutation(BASE) for name in "abcd"}))
    assert nmi.endswith("it does not show that the models differ, in any order.")
    nmi, _ = said(contest({"a": BASE, "b": BASE}))
    assert nmi.startswith("NMI: a and b share the best mean rank, 1.5 of 2, over 10 data sets (the same).")
    assert nmi.endswith("tell no pair apart (0.05 in all).")


def test_few_data_sets_allow_no_conclusion() -> None:
    nmi, _ = said(contest({"a": (0.5, 0.6), "b": (0.4, 0.5)}))
    assert "There is no test: 2 data sets cannot tell models apart, it takes 6." in nmi
    many, _ = said(contest({f"m{k}": BASE[:7] + k * OFFSETS[:7] for k in range(4)}))
    assert "7 cannot tell any of the 6 pairs of 4 models apart, as the least p" in many


def test_one_model_and_none_have_nothing_to_compare() -> None:
    one = contest({"posterior": (0.5, 0.6)})
    unlabelled = table([cell("own", "posterior", np.nan, p=0.9), cell("own", "k-means", np.nan)])
    assert said(one) == ("Nothing to compare: posterior is the only model with a score.",)
    for cells in (unlabelled, table([])):
        assert said(cells) == ("Nothing to compare: no cell of a data set with true labels is done.",)
    found = content(one)
    chapters = {section.key: section.chapter(found) for section in SECTIONS[:1]}
    assert chapters["winners"] == elements.Chapter("winners", "Who wins", said(one))
    assert not found.ranked
    assert not winners.has_accuracies(found)
    assert not winners.has_costs(found)
    assert list(winner_lines(found, 100))[1:] == [f"  {said(one)[0]}"]
    assert headline(found.ranked) == ()


def test_gaps_are_said() -> None:
    rows = [cell(name, model, 0.5, p=0.9) for name in ("d0", "d1") for model in ("a", "b")]
    rows += [cell("d0", "a", 0.5, p=0.9, replicate=1, status="pending")]
    rows += [cell("d0", "b", 0.5, p=0.9, replicate=1, status="no solution")]
    rows += [cell("d2", "a", 0.5, p=0.9), cell("d2", "b", 0.5, p=0.9, status="failed")]
    rows += [cell("d0", "c", 0.5, p=0.9, status="failed")]
    text = " ".join(said(table(rows)))
    assert "Not ranked: d2, where some model has no score." in text
    assert "Without any score, and so not here: c." in text
    assert "1 cell without a solution count" in text
    assert "3 cells failed or pending" in text
    apart = [cell("d0", "a", 0.5, p=0.9), cell("d1", "b", 0.5, p=0.9)]
    assert said(table(apart))[0] == "NMI: no data set has a score of every model, so there are no ranks."


@pytest.mark.parametrize(
    ("levels", "datasets", "line"),
    [
        (
            (0.4, 0.6, 0.2), 2,
            "posterior ranks best: mean NMI 0.606 over 2 data sets, against 0.406 of likelihood and 0.206 of"
            " conditional; too few data sets for a test, so this holds for them alone.",
        ),
        (
            (0.4, 0.6, 0.2), 9,
            "posterior ranks best: mean NMI 0.641 over 9 data sets, against 0.441 of likelihood and 0.241 of"
            " conditional; a test over data sets tells it from 2 of 2 other models.",
        ),
        (
            (0.4, 0.4, 0.4), 2,
            "By NMI likelihood, posterior and conditional share the best mean rank (0.406, 0.406, 0.406) over"
            " 2 data sets; too few data sets for a test, so this holds for them alone.",
        ),
    ],
)  # fmt: skip
def test_the_best_model_stands_beside_the_second_and_the_last(
    levels: tuple[float, ...], datasets: int, line: str
) -> None:
    cells = table(
        cell(f"d{k}", model, level + 0.01 * k + 0.001 * draw, p=0.9, replicate=draw)
        for k in range(datasets)
        for model, level in zip(("likelihood", "posterior", "conditional"), levels, strict=True)
        for draw in range(3)
    )
    assert headline(content(cells).ranked) == (line,)


def test_lines_fit_and_hold_ranks_of_both_scores() -> None:
    names = [f"a-very-long-name-of-a-method-{place}" for place in range(24)]
    cells = contest({name: BASE[:8] + 0.01 * place for place, name in enumerate(names)})
    lines = list(winner_lines(content(cells), 100))
    assert max(map(len, lines)) <= 100
    start = next(place for place, line in enumerate(lines) if "NMI rank" in line)
    rank = f"1.00 {BASE[:8].mean() + 0.23:.3f} 184–0–0"
    assert lines[start + 1].split()[1:] == [*f"{rank} {rank}".split(), "0.25"]
    assert len(lines) == start + 26


def test_the_best_and_what_ties_with_it_are_marked() -> None:
    cells = contest({"c": (0.45, 0.9), "a": (0.6, 0.5), "b": (0.5, 0.5)}, spread=0.1, draws=2)
    found = winners.standing_table(ranked(cells))
    assert found.columns == ("model", "mean rank", "mean NMI", "d0", "d1")
    rows = {row[0].text: row[1:] for row in found.rows}
    assert list(rows) == ["a", "c", "b"]
    assert [value.kind for value in rows["c"]] == ["", "", "good", "best"]
    assert [value.kind for value in rows["a"]] == ["", "", "best", ""]
    assert [value.text for value in rows["a"]] == ["1.75", "0.550", "0.600 ± 0.050", "0.500 ± 0.050"]
    assert "2 redraws of the annotations of a real data set" in found.note


def test_shares_of_solved_cells_and_data_sets_that_do_not_count() -> None:
    rows = [cell(name, "a", 0.5, p=0.9) for name in ("d0", "d1")] + [cell("d0", "b", 0.7, p=0.9)]
    rows += [cell("d0", "b", 0.7, p=0.9, replicate=1, status="no solution")]
    rows += [cell("d0", "a", 0.5, p=0.9, replicate=1)]
    found = winners.standing_table(ranked(table(rows)))
    assert found.columns == ("model", "mean rank", "mean NMI", "solved", "d0", "d1 (not ranked)")
    by_model = {row[0]: row[1:] for row in texts(found)}
    assert by_model["b"][2:] == ["50%", "0.350 ± 0.350", "-"]
    assert by_model["a"][2:] == ["100%", "0.500 ± 0.000", "0.500"]


def test_the_caption_says_what_bars_mean() -> None:
    for n_models, n_datasets, words in ((2, 2, "no bar"), (3, 10, ", 0.05)."), (4, 7, "no more than that.")):
        scores = {f"m{k}": (BASE + k * OFFSETS)[:n_datasets] for k in range(n_models)}
        text = winners.caption(ranked(contest(scores)))
        assert text.startswith(f"Mean rank by NMI over {n_datasets} data sets, 1 is best. ")
        assert words in text
        assert ("no more than that" in text) == (n_models == 4)


def bars(ranking: Ranking) -> list[tuple[float, float, float]]:
    figure = winners.draw_ranks(ranking)
    assert figure is not None
    lines = [line for line in figure.axes[0].lines if to_hex(line.get_color()) == INK]
    return [(*line.get_xdata(), line.get_ydata()[0]) for line in lines]


def test_models_stand_at_their_ranks_and_are_named() -> None:
    ranking = ranked(contest({name: BASE + place * OFFSETS for place, name in enumerate("abcde")}))
    figure = winners.draw_ranks(ranking)
    assert figure is not None
    assert tips(figure)[0].startswith("e: mean rank 1.00, mean NMI 0.")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [
        "e  1.00", "d  2.00", "c  3.00", "4.00  b", "5.00  a",
    ]  # fmt: skip
    points = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert points == pytest.approx([1, 2, 3, 4, 5])
    assert len(bars(ranking)) == len(ranking.groups)


def test_bars_join_what_the_test_does_not_tell_apart_on_levels_of_their_own() -> None:
    base, wobble = np.linspace(0.2, 0.6, 12), 0.001 * np.tile([1, -1], 6) * np.arange(1, 13)
    low = base - 0.05 * np.arange(1, 13)
    ranking = ranked(contest({"a": base, "b": base + wobble, "c": low, "d": low + wobble}))
    assert ranking.groups == [(0, 1), (2, 3)]
    (first, second) = bars(ranking)
    assert first[2] == second[2]  # apart from each other: one level does
    assert first[1] < second[0]
    assert bars(ranked(contest({"a": base[:3], "b": base[:3]}))) == []
    assert winners.draw_ranks(ranked(contest({"a": base}))) is None
    assert winners.draw_ranks(ranked(contest({}))) is None


def test_counts_are_those_of_the_row_against_the_column() -> None:
    scores = {"b": (0.5, 0.5, 0.2), "a": (0.4, 0.6, 0.2), "c": (0.1, 0.2, 0.9)}
    found = winners.duel_table(ranked(contest(scores)))
    assert found.columns == ("model", "all", "1", "2", "3")
    assert texts(found) == [
        ["1 b", "3–1–2", "-", "1–1–1", "2–0–1"],
        ["2 a", "3–1–2", "1–1–1", "-", "2–0–1"],
        ["3 c", "2–0–4", "1–0–2", "1–0–2", "-"],
    ]
    assert "Underlined" not in found.note
    found = winners.duel_table(ranked(contest({"b": BASE, "a": BASE + OFFSETS})))
    assert [[value.kind for value in row[2:]] for row in found.rows] == [["", "best"], ["", ""]]
    assert "Underlined" in found.note


def robust(
    accuracies: tuple[float, ...] = (0.7, 1.0), datasets: int = 2, other: str = "conditional"
) -> pd.DataFrame:
    rows = []
    for number in range(datasets):
        rows.append(cell(f"d{number}", "k-means", 0.5))
        for model, slope in (("posterior", 1.0), (other, 0.5)):
            rows += [
                cell(f"d{number}", model, slope * p - 0.2 + 0.1 * draw, p=p, replicate=draw)
                for p in accuracies
                for draw in range(2)
            ]
    return table(rows)


def test_means_over_p_and_their_errors_over_data_sets() -> None:
    found = robustness_table(ranked(robust()))
    whole = found[found["dataset"] == MEAN].set_index(["model", "p"])
    assert whole.loc[("posterior", 0.7), "mean"] == pytest.approx(0.55)
    # of each data set 0.05 over two redraws, of their mean the root of two halved
    assert whole.loc[("posterior", 0.7), "se"] == pytest.approx(0.05 / np.sqrt(2))
    assert whole.loc[("k-means", 1.0), "mean"] == pytest.approx(0.5)
    assert np.isnan(whole.loc[("k-means", 1.0), "se"])
    assert set(whole["n"]) == {2}
    figure = draw_robustness(found, "nmi")
    assert figure is not None
    assert titles(figure) == ["mean of 2 data sets", "d0", "d1"]
    lines = {line.get_label(): line.get_ydata().tolist() for line in figure.axes[0].lines}
    assert lines["k-means"] == pytest.approx([0.5, 0.5])
    assert lines["posterior"] == pytest.approx([0.55, 0.85])
    assert "posterior, p = 0.7: 0.550 ± 0.035" in tips(figure)
    assert "k-means, p = 1: 0.500" in tips(figure)


def test_a_mean_is_of_the_data_sets_that_are_ranked() -> None:
    rows, more = robust(), robust(datasets=3)
    rows = rows[(rows["dataset"] != "d1") | (rows["model"] != "posterior")]
    found = robustness_table(ranked(pd.concat([rows, more[more["dataset"] == "d2"]])))
    figure = draw_robustness(found, "nmi")
    assert figure is not None
    assert titles(figure)[0] == "mean of 2 data sets"


def test_many_shapes_have_a_panel_each_and_one_accuracy_has_no_lines() -> None:
    figure = draw_robustness(robustness_table(ranked(robust(other="conditional-full"))), "nmi")
    assert figure is not None
    assert titles(figure) == [f"mean of 2 data sets, {group}" for group in ("spherical", "full", "methods")]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    one = draw_robustness(robustness_table(ranked(robust(datasets=1))), "nmi")
    assert one is not None
    assert titles(one) == ["d0"]
    assert draw_robustness(robustness_table(ranked(robust((0.9,)))), "nmi") is None


def test_time_is_a_geometric_mean_over_data_sets_and_what_is_beaten_is_not_marked() -> None:
    times = {"quick": (0.1, 10.0), "good": (1.0, 100.0), "beaten": (2.0, 200.0)}
    levels = {"quick": 0.4, "good": 0.8, "beaten": 0.7}
    cells = table(
        cell(f"d{number}", model, levels[model], p=0.9, cpu_seconds=times[model][number])
        for number in range(2)
        for model in times
    )
    found = winners.cost_table(ranked(cells), cells).set_index("model")
    assert found["cpu_seconds"].to_dict() == pytest.approx({"quick": 1.0, "good": 10.0, "beaten": 20.0})
    assert found["mean"].to_dict() == pytest.approx(levels)
    assert found["best"].to_dict() == {"quick": True, "good": True, "beaten": False}
    figure = winners.draw_costs(found.reset_index(), "nmi")
    assert figure is not None
    assert [text.get_text() for text in figure.axes[0].texts] == ["quick", "beaten", "good"]
    assert tips(figure)[0] == "quick: NMI 0.400, 1 CPU s a cell"
    assert figure.axes[0].get_xscale() == "log"


def test_what_took_no_measurable_time_is_left_out() -> None:
    cells = contest({"a": (0.5,), "b": (0.6,)})
    cells.loc[cells["model"] == "a", "cpu_seconds"] = 0.0
    assert winners.cost_table(ranked(cells), cells)["model"].tolist() == ["b"]
    nothing = winners.cost_table(ranked(cells), cells.assign(cpu_seconds=0.0))
    assert winners.draw_costs(nothing, "nmi") is None


def test_names_are_moved_apart_and_stay_in_order() -> None:
    assert winners.apart([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    moved = winners.apart([0.5, 0.5, 0.95, 0.99, 1.0], 0.1)
    assert moved == pytest.approx([0.45, 0.55, 0.8, 0.9, 1.0])
    assert winners.apart([0.0, 0.0, 0.3], 0.1) == pytest.approx([0.0, 0.1, 0.3])
    assert winners.apart([], 0.1) == []


def many(n_models: int, n_datasets: int) -> pd.DataFrame:
    """Cells of models and methods, two accuracies and three redraws each."""
    rng = np.random.default_rng(n_models)
    names = [*MODEL_CODES, "k-means", "cop-kmeans", HOSTILE][-n_models:]
    rows = []
    for number in range(n_datasets):
        for place, model in enumerate(names):
            alone = model.startswith("unsupervised") or model == "k-means"
            draws = [{}] if alone else [{"p": p, "replicate": k} for p in (0.8, 1.0) for k in range(3)]
            level = rng.uniform(0.3, 0.6) + 0.01 * place
            rows += [
                cell(f"data set {number}", model, level + rng.normal(0, 0.02), cpu_seconds=10**level, **draw)
                for draw in draws
            ]
    return table(rows)


@pytest.mark.parametrize(("n_models", "n_datasets"), [(2, 1), (9, 7), (25, 12)])
def test_sections_of_few_and_many_models_in_a_browser(tmp_path: Path, n_models: int, n_datasets: int) -> None:
    found = content(many(n_models, n_datasets), figures=tmp_path)
    with house_style():
        made = [each.chapter(found) for each in SECTIONS if each.words.__module__ == winners.__name__]
        made += [each.chapter(found) for each in SECTIONS if each.key in ("cost", "robustness")]
    html = elements.html("winners", [chapter for chapter in made if chapter is not None])
    assert "<img" not in html
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    script = """return Array.from(document.querySelectorAll("figure svg"), svg => {
        const whole = svg.getBoundingClientRect();
        return Array.from(svg.querySelectorAll("text"), text => {
          const box = text.getBoundingClientRect();
          return [svg.closest("figure").id, text.textContent, box.left - whole.left, box.top - whole.top,
                  whole.right - box.right, whole.bottom - box.bottom, box.width, box.height];});}).flat();"""
    with chromium() as page:
        page.open(tmp_path / "page.html")
        assert page.console() == []
        names = ["figure", "text", "left", "top", "right", "bottom", "width", "height"]
        boxes = pd.DataFrame(page.run(script), columns=names)
        for width in (1280, 400):
            page.resize(width)
            assert page.run("return document.documentElement.scrollWidth") <= width
    assert len(boxes) > n_models
    # Nothing is cut off at the edge of its figure,
    cut = boxes[(boxes[["left", "top", "right", "bottom"]] < -1).any(axis=1)]
    assert cut.empty, cut.to_string()
    # and no name of a model stands on another.
    for _, models in boxes[boxes["text"].str.contains("[a-z]-?[a-z]")].groupby("figure"):
        corners = models[["left", "top", "width", "height"]].to_numpy()
        for place, (left, top, width, height) in enumerate(corners):
            for other in corners[place + 1 :]:
                across = min(left + width, other[0] + other[2]) - max(left, other[0])
                down = min(top + height, other[1] + other[3]) - max(top, other[1])
                assert min(across, down) < 2.5, models
