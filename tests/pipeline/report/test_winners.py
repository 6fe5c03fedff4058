"""Figures of winners and designs have costs, and names of few and many models in any script."""

from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from contests import cell, table
from designed import designed_cells, rising_curve, written_m
from matplotlib.font_manager import fontManager, get_font
from matplotlib.text import Text
from scipy.optimize import linprog
from searched import SEARCHES, search_draws

from sweep_clustering.pipeline.looks import DESIGN_LOOKS
from sweep_clustering.pipeline.report import figures, variants, winners, write
from sweep_clustering.pipeline.report.cell import match
from sweep_clustering.pipeline.report.elements import Part, Section
from sweep_clustering.pipeline.scoring.pairs import compared_searches, design_scores
from sweep_clustering.pipeline.scoring.ranking import rank
from sweep_clustering.sweeps.words import DESIGNS, MODEL_CODES


def test_time_is_a_geometric_mean_over_data_sets_and_what_is_beaten_is_not_marked() -> None:
    times = {"quick": (0.1, 10.0), "good": (1.0, 100.0), "beaten": (2.0, 200.0), "instant": (0.0, 0.0)}
    levels = {"quick": 0.4, "good": 0.8, "beaten": 0.7, "instant": 0.2}
    cells = table(
        cell(f"d{number}", model, levels[model], p=0.9, cpu_seconds=times[model][number])
        for number in range(2)
        for model in times
    )
    costs = winners.cost_table(rank(cells, "nmi"), cells).set_index("model")
    assert costs["cpu_seconds"].to_dict() == pytest.approx({"quick": 1.0, "good": 10.0, "beaten": 20.0})
    assert costs["mean"].to_dict() == pytest.approx({name: levels[name] for name in costs.index})
    assert costs["best"].to_dict() == {"quick": True, "good": True, "beaten": False}
    assert winners.cost_table(rank(cells, "nmi"), cells.assign(cpu_seconds=0.0)).empty


def test_names_and_bars_are_moved_apart_and_stay_in_order() -> None:
    for places, moved in (
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9]),
        ([0.5, 0.5, 0.95, 0.99, 1.0], [0.45, 0.55, 0.8, 0.9, 1.0]),
        ([0.0, 0.0, 0.3], [0.0, 0.1, 0.3]),
    ):
        assert winners.separate(np.array(places), 0.1) == pytest.approx(moved)
    assert winners.bar_levels([(0, 2), (1, 3), (3, 4)]) == [0, 1, 0]


def test_no_name_is_moved_further_than_a_linear_program_needs() -> None:
    """It minimises the largest move t subject to |y - x| <= t and y[i + 1] >= y[i] + least."""
    rng, least = np.random.default_rng(5), 0.1
    for _ in range(20):
        places = np.sort(rng.uniform(0.3, 0.7, size=4))
        n, eye = len(places), np.eye(len(places))
        far = np.ones((n, 1))
        order = np.column_stack([eye[:-1] - eye[1:], np.zeros(n - 1)])
        limits = np.vstack([np.hstack([eye, -far]), np.hstack([-eye, -far]), order])
        values = [*places, *-places, *[-least] * (n - 1)]
        smallest = linprog([0.0] * n + [1.0], limits, values, bounds=[(0.0, 1.0)] * (n + 1)).fun
        moved = winners.separate(places, least)
        assert np.diff(moved).min() > least - 1e-12
        assert np.abs(moved - places).max() == pytest.approx(smallest)


def test_the_names_of_partitions_match_as_many_samples_as_any_permutation() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        labels, guide = rng.integers(-1, 4, size=30), rng.integers(-1, 4, size=30)
        matched = match(labels, guide)
        assert ((matched == -1) == (labels == -1)).all()
        agreement = (np.append(names, -1)[labels] for names in permutations(range(4)))
        best = max(int(((renamed == guide) & (renamed >= 0)).sum()) for renamed in agreement)
        assert ((matched == guide) & (matched >= 0)).sum() == best


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (("pending", "pending"), "2 cells are pending."),
        (("failed",), "1 cell failed."),
        (("pending", "failed", "pending"), "1 cell failed and 2 cells are pending."),
    ],
)
def test_counts_of_cells_that_are_missing_say_why(states: tuple[str, ...], sentence: str) -> None:
    rows = [cell("d", name, 0.5, p=0.9, replicate=draw) for name in "ab" for draw in range(2)]
    rows += [cell("d", "a", 0.5, p=0.9, replicate=2 + at, status=state) for at, state in enumerate(states)]
    findings = " ".join(winners.findings([rank(table(rows), "nmi")]))
    assert f"On data sets with a score {sentence}" in findings


@pytest.mark.parametrize(("n_models", "n_datasets"), [(2, 1), (25, 12)])
def test_no_name_is_cut_off_or_stands_on_another(n_models: int, n_datasets: int) -> None:
    rng = np.random.default_rng(n_models)
    names = [*MODEL_CODES, "k-means", "a-method-with-a-name-of-some-length"][-n_models:]
    rows = []
    for number, (place, model) in (
        (number, named_place) for number in range(n_datasets) for named_place in enumerate(names)
    ):
        level = rng.uniform(0.3, 0.6) + 0.01 * place
        rows.append(cell(f"d{number}", model, level, p=0.9, cpu_seconds=10**level))
    cells = table(rows)
    ranking = rank(cells, "nmi")
    with figures.house_style():
        for figure in (
            winners.draw_ranks(ranking),
            winners.draw_costs(winners.cost_table(ranking, cells), "nmi"),
        ):
            assert figure is not None
            figure.draw_without_rendering()
            boxes = [Text.get_window_extent(text) for text in figure.axes[0].texts]  # arrows do not count
            assert len(boxes) == n_models
            whole = figure.bbox.padded(1)
            assert all(whole.containsx(x) and whole.containsy(y) for box in boxes for x, y in box.corners())
            for first, second in combinations(boxes, 2):
                across = min(first.x1, second.x1) - max(first.x0, second.x0)
                assert min(across, min(first.y1, second.y1) - max(first.y0, second.y0)) < 2.5


MANY = tuple(f"d{number}" for number in range(30))


def test_the_band_of_a_design_is_of_its_paired_difference() -> None:
    rows = design_scores(designed_cells(rising_curve), written_m("a"))["nmi"]
    figure = variants.draw_designs(rows, "nmi")
    assert figure is not None
    (axes,) = figure.axes
    (band,) = axes.collections
    active = rows[rows["design"] == "active"]
    ends = [active["mean"] + sign * active["difference_se"] for sign in (-1, 1)]
    heights = np.unique(band.get_paths()[0].vertices[:, 1].round(9))
    assert np.allclose(heights, np.unique(np.concatenate(ends).round(9)))
    assert set(DESIGN_LOOKS) == set(DESIGNS)
    assert len({(look.color, look.marker) for look in DESIGN_LOOKS.values()}) == len(DESIGNS)


def test_bars_of_objectives_are_shares_of_all_cells_and_large_grids_are_shown_in_part() -> None:
    tables = compared_searches(search_draws(), SEARCHES)
    bars = variants.draw_search(tables["searches"], tables["search-costs"]).axes[0].patches
    widths = np.array([bar.get_width() for bar in bars]).reshape(3, -1)
    assert widths[:, 0].tolist() == [25.0, 50.0, 25.0]
    assert np.allclose(widths.sum(axis=0), 100)
    tables = compared_searches(search_draws(datasets=MANY), SEARCHES)
    (axes, *_) = variants.draw_search(tables["searches"], tables["search-costs"]).axes
    assert len(axes.get_yticklabels()) == variants.MOST_LINES
    figure = variants.draw_designs(
        design_scores(designed_cells(rising_curve, datasets=MANY, draws=1), {})["nmi"], "nmi"
    )
    assert figure is not None
    assert len(figure.axes) == variants.MOST_ROWS


LONG = "n" * 60
BEGINNING, MIDDLE, END = "b" + LONG[1:], LONG[:30] + "h" + LONG[31:], LONG[:-1] + "e"
# A letter that was given to nobody: no font has it.
NOBODYS = "\u0378"


def draw_standing(*names: str) -> winners.Figure:
    rows = [cell(name, model, 0.5, p=0.9) for name in names for model in ("a", "b")]
    figure = winners.draw_standing(rank(table(rows), "nmi"))
    assert figure is not None
    return figure


def test_names_that_are_shortened_keep_both_ends_and_stay_unique() -> None:
    names = [LONG, BEGINNING, MIDDLE, END, LONG[:30] + "u" + LONG[31:]]
    with figures.house_style(names):
        texts = [figures.short(name) for name in names]
    assert len(set(texts)) == len(names)
    assert max(map(len, texts)) == figures.LONGEST_NAME
    assert texts[1].startswith("b")
    assert texts[3].endswith("e")
    assert figures.short("iris") == "iris"
    # there is nothing to number without the others
    assert "·" not in figures.short(MIDDLE)


def test_chinese_letters_are_as_wide_as_two() -> None:
    assert figures.short("数" * 11) == "数" * 11
    assert figures.short("数" * 60) == "数" * 7 + "…" + "数" * 3


def test_no_name_is_cut_off_in_a_figure() -> None:
    names = [LONG, MIDDLE, "数" * 60, "$x_1$ and $y^2$"]
    with figures.house_style(names):
        figure = draw_standing(*names)
        figures.give_fonts(figure)
        with (
            pytest.warns(UserWarning, match="missing from font")
            if figures.give_fonts(figure)
            else figures.house_style()
        ):
            figure.draw_without_rendering()
    whole = figure.bbox.padded(1)
    for label in figure.axes[0].get_yticklabels():
        box = label.get_window_extent()
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1


def other_letter() -> str:
    """Return a letter that DejaVu Sans lacks, and that an installed font has."""
    usual = set(get_font(fontManager.findfont("DejaVu Sans")).get_charmap())
    for font in fontManager.ttflist:
        if font.name == "STIXGeneral":
            for code in sorted(set(get_font(font.fname).get_charmap()) - usual):
                if chr(code).isprintable() and code < 0xE000:
                    return chr(code)
    pytest.skip("no font with other letters")


def test_letters_that_the_usual_font_lacks_are_written_with_one_that_has_them(tmp_path: Path) -> None:
    letter = other_letter()
    with figures.house_style():
        # a warning that a glyph is missing would be an error
        picture = figures.save(draw_standing("iris", letter), tmp_path, "standing", "", figures.SUFFIXES)
    assert picture.without_font == frozenset()
    assert letter in (tmp_path / "standing.svg").read_text(encoding="utf-8")
    assert (tmp_path / "standing.pdf").stat().st_size > 1000


def test_a_name_that_no_font_can_write_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"no{NOBODYS}body"
    with figures.house_style():
        figure = draw_standing("iris", name)
        parts: list[Part] = [("standing", figure, "Points.")]
        chapters = write.write_figures(tmp_path, [Section("one", "One", parts)])
        write.write_page(tmp_path / "page.html", "page", chapters, ())
    texts = [record.getMessage() for record in caplog.records if "no installed font" in record.getMessage()]
    assert len(texts) == 1
    assert name in texts[0]


def test_names_are_no_mathematics_and_no_markup(tmp_path: Path) -> None:
    names = ("$x_1$", "a<b & c>d", "مجموعة")
    with figures.house_style():
        picture = figures.save(draw_standing(*names), tmp_path, "standing", "", figures.SUFFIXES)
    svg = (tmp_path / "standing.svg").read_text(encoding="utf-8")
    for text in ("$x_1$", "a&lt;b &amp; c&gt;d", "مجموعة"):
        assert f">{text}</text>" in svg
    assert "<b" not in svg.replace("<base", "")
    assert picture.without_font == frozenset()


def test_right_to_left_letters_are_known() -> None:
    assert figures.is_right_to_left("iris مجموعة")
    assert not figures.is_right_to_left("数据 iris")
