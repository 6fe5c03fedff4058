"""Names of any script and length in figures: fonts that have their letters, no mathematics, none alike."""

from pathlib import Path

import pytest
from contests import cell, table
from matplotlib.font_manager import fontManager, get_font

from sweep_clustering.pipeline.report import figures, winners, write
from sweep_clustering.pipeline.report.figures import house_style, short
from sweep_clustering.pipeline.scoring.ranking import rank

LONG = "n" * 60
BEGINNING, MIDDLE, END = "b" + LONG[1:], LONG[:30] + "h" + LONG[31:], LONG[:-1] + "e"
# A letter that was given to nobody: no font has it.
NOBODYS = "\u0378"


def standing(*names: str) -> winners.Figure:
    rows = [cell(name, model, 0.5, p=0.9) for name in names for model in ("a", "b")]
    figure = winners.draw_standing(rank(table(rows), "nmi"))
    assert figure is not None
    return figure


def test_names_that_are_shortened_keep_both_ends_and_stay_unique() -> None:
    names = [LONG, BEGINNING, MIDDLE, END, LONG[:30] + "u" + LONG[31:]]
    with house_style(names):
        texts = [short(name) for name in names]
    assert len(set(texts)) == len(names)
    assert max(map(len, texts)) == figures.LONGEST_NAME
    assert texts[1].startswith("b")
    assert texts[3].endswith("e")
    assert short("iris") == "iris"
    # without the others there is nothing to number
    assert "·" not in short(MIDDLE)


def test_chinese_letters_are_as_wide_as_two() -> None:
    assert short("数" * 11) == "数" * 11
    assert short("数" * 60) == "数" * 7 + "…" + "数" * 3


def test_no_name_is_cut_off_in_a_figure() -> None:
    names = [LONG, MIDDLE, "数" * 60, "$x_1$ and $y^2$"]
    with house_style(names):
        figure = standing(*names)
        figures.give_fonts(figure)
        with (
            pytest.warns(UserWarning, match="missing from font")
            if figures.give_fonts(figure)
            else house_style()
        ):
            figure.draw_without_rendering()
    whole = figure.bbox.padded(1)
    for label in figure.axes[0].get_yticklabels():
        box = label.get_window_extent()
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1


def other_letter() -> tuple[str, str]:
    """A letter that DejaVu Sans lacks and another installed font has, and that font."""
    usual = set(get_font(fontManager.findfont("DejaVu Sans")).get_charmap())
    for font in fontManager.ttflist:
        if font.name == "STIXGeneral":
            for code in sorted(set(get_font(font.fname).get_charmap()) - usual):
                if chr(code).isprintable() and code < 0xE000:
                    return chr(code), font.name
    pytest.skip("no font with other letters")


def test_letters_that_the_usual_font_lacks_are_written_with_one_that_has_them(tmp_path: Path) -> None:
    letter, _ = other_letter()
    with house_style():
        # a warning that a glyph is missing would be an error
        picture = figures.save(standing("iris", letter), tmp_path, "standing", "", figures.SUFFIXES)
    assert picture.without_font == frozenset()
    assert letter in (tmp_path / "standing.svg").read_text(encoding="utf-8")
    assert (tmp_path / "standing.pdf").stat().st_size > 1000


def test_a_name_that_no_font_can_write_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"no{NOBODYS}body"
    with house_style():
        figure = standing("iris", name)
        parts = [("standing", figure, "Points.")]
        write.write_chapters(tmp_path / "page.html", "page", [("one", "One", parts, False)], ())
    said = [record.getMessage() for record in caplog.records if "no installed font" in record.getMessage()]
    assert len(said) == 1
    assert name in said[0]


def test_names_are_no_mathematics_and_no_markup(tmp_path: Path) -> None:
    names = ("$x_1$", "a<b & c>d", "مجموعة")
    with house_style():
        picture = figures.save(standing(*names), tmp_path, "standing", "", figures.SUFFIXES)
    svg = (tmp_path / "standing.svg").read_text(encoding="utf-8")
    for text in ("$x_1$", "a&lt;b &amp; c&gt;d", "مجموعة"):
        assert f">{text}</text>" in svg
    assert "<b" not in svg.replace("<base", "")
    assert picture.without_font == frozenset()


def test_right_to_left_letters_are_known() -> None:
    assert figures.is_right_to_left("iris مجموعة")
    assert not figures.is_right_to_left("数据 iris")
