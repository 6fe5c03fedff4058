"""Entries and tables, and the HTML that they become."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser import Page, chromium
from matplotlib.figure import Figure

from pipeline.report.elements import (
    NOTHING,
    Chapter,
    Table,
    Value,
    html,
    mean_and_error,
    number,
    shape_groups,
    spread,
    words,
)
from pipeline.report.figures import save
from pipeline.report.look import BLUE, house_style


def test_a_table_spreads_to_the_ends() -> None:
    assert spread([1, 2, 3], 3) == [1, 2, 3]
    assert spread(range(10), 4) == [0, 3, 6, 9]


def test_entries_sort_by_their_value_and_missing_ones_are_dashes() -> None:
    assert (number(1234.5).text, number(1234.5).order) == ("1,234", 1234.5)
    assert (number(0.5, "+.2f").text, number(0.5).numeric) == ("+0.50", True)
    for nothing in (number(None), number(math.nan), mean_and_error(math.nan, 0.1)):
        assert nothing is NOTHING
    assert (words(3).order, words(3).numeric) == ("3", False)


@pytest.mark.parametrize(("se", "text"), [(0.0123, "0.5000 ± 0.0123"), (math.nan, "0.5000")])
def test_a_single_cell_has_a_mean_without_an_error(se: float, text: str) -> None:
    assert mean_and_error(0.5, se).text == text


def test_models_of_many_shapes_are_shown_by_shape() -> None:
    few = ["posterior", "unsupervised-full", "likelihood-full", "posterior"]
    assert shape_groups(few) == {"": ["likelihood-full", "posterior", "unsupervised-full"]}
    assert shape_groups([*few, "likelihood-tied"]) == {
        "spherical": ["posterior"],
        "tied": ["likelihood-tied"],
        "full": ["likelihood-full", "unsupervised-full"],
    }


TABLE = Table(
    "of all",
    ("model & more", "score"),
    ((words("a_b, c"), Value("0.5 ± 0.1", 0.5, "best")), (words("100 % $x$"), number(0.25, ".2f"))),
    ((("", 1), ("group", 1)),),
    folded=True,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("html")
    with house_style():
        figure = Figure()
        figure.subplots().plot([0, 1], [0, 1], color=BLUE, marker="o")
        picture = save(figure, folder / "figures", "line", "A line.")
    path = folder / "page.html"
    chapters = [Chapter("s", "S", tables=(TABLE,), pictures=(picture,))]
    path.write_text(html("t", chapters, ["What <b>is</b> found."]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(written: Path) -> Iterator[Page]:
    with chromium() as found:
        found.open(written)
        # what would be copied or saved is kept instead
        found.run(
            """window.copied = []; window.saved = [];
            const clipboard = {writeText: async (text) => copied.push(text)};
            Object.defineProperty(navigator, "clipboard", {value: clipboard});
            HTMLAnchorElement.prototype.click = function () { saved.push([this.download, this.href]); };"""
        )
        yield found


def press(page: Page, button: str) -> None:
    page.run(f"document.querySelector('button[data-{button}]').click();")
    page.driver.set_script_timeout(10)
    page.driver.execute_async_script("setTimeout(arguments[0], 500);")


def test_styles_that_repeat_are_classes(written: Path) -> None:
    page = written.read_text(encoding="utf-8")
    rules = re.findall(r"\.(f\d+) {([^{}]*)}", page)
    assert len(rules) == len(dict(rules)) > 2
    assert all(len(re.findall(rf'class="{name}"', page)) >= 3 for name, _ in rules)
    assert all(f'style="{style}"' not in page for _, style in rules)
    assert '<p class="lead">What &lt;b&gt;is&lt;/b&gt; found.</p>' in page


def test_a_table_is_copied_as_csv_and_as_latex(page: Page) -> None:
    press(page, "copy=csv")
    press(page, "copy=latex")
    csv, latex = page.run("return copied;")
    assert csv == ',group\nmodel & more,score\n"a_b, c",0.5 ± 0.1\n100 % $x$,0.25\n'
    lines = latex.splitlines()
    assert lines[1:3] == ["\\begin{tabular}{lr}", "  \\toprule"]
    assert "  model \\& more & score \\\\" in lines
    assert "  a\\_b, c & \\textbf{0.5 $\\pm$ 0.1} \\\\" in lines
    assert "  100 \\% \\$x\\$ & 0.25 \\\\" in lines
    assert lines[-2:] == ["  \\bottomrule", "\\end{tabular}"]


def test_a_figure_is_saved_alone_and_light(page: Page) -> None:
    page.prefer("dark")
    press(page, "save=svg")
    press(page, "save=png")
    (svg_name, svg), (png_name, png) = page.run("return saved;")
    assert (svg_name, png_name) == ("line.svg", "line.png")
    text = unquote(svg.partition(",")[2])
    assert "var(" not in text
    assert BLUE in text
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert png.startswith("data:image/png;base64,")
    shown = page.run(
        f"const parsed = new DOMParser().parseFromString({json.dumps(text)}, 'image/svg+xml');"
        "return [parsed.querySelectorAll('parsererror').length, parsed.querySelectorAll('use').length];"
    )
    assert shown[0] == 0
    assert shown[1] > 2
    assert page.console() == []


def test_what_is_folded_is_printed(page: Page) -> None:
    assert not page.run("return document.querySelector('details').open;")
    page.run("dispatchEvent(new Event('beforeprint'));")
    assert page.run("return document.querySelector('details').open;")
