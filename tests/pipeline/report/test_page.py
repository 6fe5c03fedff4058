"""The report page has its parts as text and figures, and a browser shows it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from browser import Page, chromium
from cubes import small as tiny
from cubes import toy
from cubes.reported import make
from cubes.writer import next_generation
from matplotlib.figure import Figure

from sweep_clustering.pipeline.looks import PAPER, SHAPES, STYLES, mark
from sweep_clustering.pipeline.report import elements
from sweep_clustering.pipeline.report.elements import (
    Chapter,
    Part,
    Section,
    Table,
    Value,
    number,
    words,
)
from sweep_clustering.pipeline.report.figures import SUFFIXES, TILE, house_style, hover, inline, save, short
from sweep_clustering.pipeline.report.scores import draw_curves
from sweep_clustering.pipeline.report.write import Report, write_figures, write_page, write_report
from sweep_clustering.storage.cube.growth import create
from sweep_clustering.storage.runfolder.folder import FailedWork, FailureRecord, append_failure
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.words import BASELINES, MODEL_CODES, SHAPE_CODES, split_model

HOSTILE = "<img src=x onerror=alert(1)> $x_{$ & \"q'"
FAILED = "iris/p=0.9/m=12/replicate=0/posterior"
TABLE = Table(
    "of all",
    ("model & more", "score"),
    ((words("a_b, c"), Value("0.5 ± 0.1", 0.5, "best")), (words("100 % $x$"), number(0.25, ".2f"))),
    ((("", 1), ("group", 1)),),
    folded=True,
)
SORTED = ((words("b"), number(10.0)), (words("B10"), number(9.0)), (words("a"), number(None)))
SORTED = (*SORTED, (words(""), number(-2.5, "g")))


SAVE = Figure.savefig


def save_svg_alone(figure: Figure, target: object, **options: object) -> None:
    """Save a figure for the page, but leave its PNG and PDF files empty, to save time."""
    if not isinstance(target, Path):
        return SAVE(figure, target, **options)
    target.touch()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Write a report of mixtures of the published K, an odd data set, a failure and published values."""
    folder, once = tmp_path_factory.mktemp("page"), {"replicates": 1, "replicate_chunk": 1}
    odd = {"n_features": 1, "has_labels": False, "models": ("conditional", "posterior-common"), **once}
    mixed = toy.plan("mix_k6", n_clusters=6, mixtures=4, mixture_chunk=4, **once)
    cube = make(folder, toy.plan("iris"), toy.plan("odd", restarts=1, baselines=(), **odd), mixed)
    failure = {"cell": FAILED, "cause": "ValueError: <b>no</b>", "node": "n1", "job": "", "traceback": ""}
    record = FailureRecord(work=FailedWork(start=0, stop=4), at="2026-01-02", **failure)
    append_failure(next_generation(cube).failures, record)
    published, values = folder / "theirs.csv", "0.8,6,12,posterior,nmi,0.1\n0.8,2,0,unsupervised,kl,1\n"
    published.write_text(f"p,n_clusters,m,model,metric,value\n{values}")
    with patch.object(Figure, "savefig", save_svg_alone):
        return write_report(cube, folder / "out", published=published)


def test_what_names_nmi_says_once_by_what_it_is_normalised(report: Report, tmp_path: Path) -> None:
    note = "NMI is min-normalised, as in the paper."
    mean = "Arithmetic NMI is normalised by the mean of both entropies, as in scikit-learn."
    assert elements.score_notes("mean NMI", "relative NMI") == [note]
    assert elements.score_notes("NMI and ARI", "arithmetic NMI") == [note, mean]
    # an axis says it itself
    assert elements.score_notes("NMI, min-normalised", "iris\nNMI, arithmetic", "ARI", "UNMIXED") == []
    parts: list[Part] = [
        "Words.",
        Table("of all", ("model", "score"), ((words("a"), words("NMI")),), note="A note."),
        Table("by ARI", ("model",), ((words("a"),),), note="A note."),
    ]
    for name, up in (("by-nmi", "by NMI"), ("by-ari", "ARI")):
        figure = Figure()
        figure.add_subplot().set_ylabel(up)
        parts.append((name, figure, "A caption."))
    write_page(tmp_path / "page.html", "t", write_figures(tmp_path, [Section("key", "head", parts)]), [])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count(note) == text.count(f"A note. {note}") == 1
    assert report.page.read_text(encoding="utf-8").count(note) == 1
    assert " ".join(report.text.split()).count(note) == 1


def test_every_part_is_there_and_needs_nothing_else(report: Report) -> None:
    files = {file.name: file for file in report.files}
    assert files["report.txt"].read_text(encoding="utf-8") == report.text
    assert max(map(len, report.text.splitlines())) <= 100
    for name, table in (("summary.csv", report.summary), ("cells.csv", report.cells)):
        stored = pd.read_csv(files[name], dtype=dict.fromkeys(("m", "mixture", "replicate"), "Int64"))
        pd.testing.assert_frame_equal(stored, table, check_dtype=False)
    html = report.page.read_text(encoding="utf-8")
    assert re.findall(r"(?:https?:)?//[\w.]+\.\w+/", html) == []
    assert re.findall(r"<(?:link|script|img|image|iframe)[^>]*\b(?:src|href)=\"(?!data:)", html) == []
    assert "default-src 'none'" in html
    assert report.page.stat().st_size < 3_000_000
    names = re.findall(r'<figure id="figure-([\w.-]+)" class="picture">', html)
    figures = {file.name for file in report.files if file.parent.name == "figures"}
    assert figures == {f"{name}.svg" for name in names}
    assert len(names) == len(set(names)) == 24
    assert "of 2 in the table 1 not in this cube" in html
    words = ["p", "m", "cell", "restart", "models", "scores"]
    assert re.findall(r"<dt>(.*?)</dt>", html) == words
    last = report.text.partition("what the words mean\n")[2]
    assert re.findall(r"^  (\w+): ", last, flags=re.MULTILINE) == words
    assert html.count("<b>") == 0
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in html
    assert files["nmi.svg"].read_text(encoding="utf-8").startswith("<?xml")
    cube, none = report.page.parent.with_name("toy.zarr"), report.page.parent.with_name("none")
    with pytest.raises(InputError, match="which is failed, expected a cell that is done"):
        write_report(cube, none, cell=FAILED)
    assert not none.exists()


def test_a_cube_with_nothing_done_gives_a_page(tmp_path: Path) -> None:
    plans = [toy.plan("a"), toy.plan("b", mixtures=2)]
    create(tmp_path / "toy.zarr", plans, tiny.draw_inputs, tiny.SPEC)
    html = write_report(tmp_path / "toy.zarr", tmp_path / "out").page.read_text(encoding="utf-8")
    assert "0 of 75 cells are done, 0 failed, 75 are left." in html
    assert html.count("Nothing to show: no cell that is done has what this needs.") == 5
    assert "<svg" not in html


@pytest.fixture(scope="module")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page of two tables and a figure with hostile names."""
    folder = tmp_path_factory.mktemp("html")
    row = {"dataset": HOSTILE, "p": 0.9, "m": 10, "model": "posterior", "score": "nmi", "n": 1, "mean": 0.5}
    with house_style():
        figure = draw_curves(pd.DataFrame([row, row | {"m": 20}]).assign(se=float("nan")), "nmi")
        assert figure is not None
        picture = save(figure, folder / "figures", "line", HOSTILE)
    tables = (TABLE, Table(HOSTILE, (HOSTILE, "number"), SORTED, note=HOSTILE))
    path, chapter = folder / "page.html", Chapter("s", HOSTILE, (HOSTILE,), tables, (picture,))
    path.write_text(elements.html(f"</script>{HOSTILE}", [chapter], [HOSTILE]), encoding="utf-8")
    return path


def test_hostile_names_are_text_and_styles_that_repeat_are_classes(small_page: Path) -> None:
    page = small_page.read_text(encoding="utf-8")
    assert "<img" not in page
    assert page.count("</script>") == 1
    assert page.count("&lt;img src=x onerror=alert(1)&gt; $x_{$ &amp;") >= 8
    assert "&lt;img src=x" in page[page.index("<svg") : page.index("</svg>")]
    rules = re.findall(r"\.(f\d+) {([^{}]*)}", page)
    assert len(rules) == len(dict(rules)) > 2
    assert all(len(re.findall(rf'class="{name}"', page)) >= 3 for name, _ in rules)
    assert all(f'style="{style}"' not in page for _, style in rules)
    assert '<p class="lead">&lt;img src=x' in page
    assert '<td class="number" data-order="-2.5">-2.5</td>' in page
    assert '<td data-order="b">b</td>' in page


def test_a_figure_in_the_page_has_ids_of_its_own_and_colours_by_variable() -> None:
    head = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><metadata>x</metadata><g id="no"/>'
    drawn = '<path id="p1" clip-path="url(#c)" style="stroke: #0072b2"/><use xlink:href="#p1"/>'
    expected = (
        '<path id="nmi-p1" clip-path="url(#nmi-c)" style="stroke: var(--blue)"/><use xlink:href="#nmi-p1"/>'
    )
    text = "<text>#0072b2</text></svg>"
    assert inline(f"{head}{drawn}{text}", "nmi") == f"<svg><g/>{expected}{text}"


def draw_line(folder: Path, texts: list[str], start: float = -1) -> str:
    """Draw a line with words on its points, without those before the start, and bars of every hatch."""
    with house_style():
        figure = Figure()
        axes, below = figure.subplots(2)
        (line,) = axes.plot([0, 1, 2], [0.5, 0.25, 0.75], marker="o")
        hover(line, texts)
        axes.set_xlim(start, 3)
        hatches = sorted({shape.hatch for shape in SHAPES.values()} - {""})
        below.bar(hatches, [1] * len(hatches), hatch=hatches, color="white", edgecolor="black")
        return save(figure, folder, "figure", "", SUFFIXES).svg


def test_each_point_has_its_words_hatches_are_small_and_files_always_the_same(tmp_path: Path) -> None:
    svg, _ = (draw_line(tmp_path / name, ["first", '<b> & "q" </b>', "third"]) for name in "ab")
    titles = re.findall(r"<use [^<>]*><title>([^<>]*)</title></use>", svg)
    assert titles == ["first", "&lt;b&gt; &amp; &quot;q&quot; &lt;/b&gt;", "third"]
    assert "tip-" not in svg
    # a point beyond the figure leaves all without words
    assert "<title>" not in draw_line(tmp_path / "beyond", ["a", "b", "c"], 1.5)
    for suffix in SUFFIXES:
        first, second = ((tmp_path / name / f"figure.{suffix}").read_bytes() for name in "ab")
        assert first == second != b""
    patterns = re.findall(r"<pattern.*?</pattern>", svg, re.DOTALL)
    assert len(patterns) == len(SHAPES) - 1
    for pattern in patterns:
        assert f'width="{TILE}" height="{TILE}"' in pattern
        assert "M" in pattern
        assert len(pattern) < 12_000


def test_models_differ_by_more_than_their_colour() -> None:
    looks = {model: mark(model) for model in MODEL_CODES}
    # curves of the terms of a shape by their markers, of the shapes of a term by their lines
    assert len({(look.marker, look.line) for look in looks.values()}) == len(looks)
    supervised = [look for model, look in looks.items() if model not in BASELINES]
    parts = {(look.marker, look.half if look.filling != PAPER else "hollow") for look in supervised}
    assert len(parts) == len(supervised)
    # bars and boxes: where the colour is not seen, shapes differ by their hatch
    assert len({look.hatch for look in looks.values()}) == len(SHAPE_CODES)
    assert all((look.area == PAPER) == (look.hatch != "") for look in supervised)
    for model in set(MODEL_CODES) - {*BASELINES}:
        term, shape = split_model(model)
        assert mark(model)[:2] == (STYLES[term][0], SHAPES[shape].marker or STYLES[term][1])
    assert short("x" * 22) == "x" * 22
    assert short("x" * 30) == "x" * 14 + "…" + "x" * 7
    assert short("xyz", 2) == "x…"


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


COLUMN = """const [table, column] = [document.querySelectorAll("#%s table")[%d], %d];
    const read = () => Array.from(table.tBodies[0].rows, row => row.cells[column].dataset.order);
    const head = table.tHead.rows[table.tHead.rows.length - 1].cells[column];"""


@pytest.mark.slow
def test_the_browser_shows_every_figure_and_has_nothing_to_complain_of(report: Report, browser: Page) -> None:
    browser.open(report.page)
    figures = browser.run(
        """return Array.from(document.querySelectorAll("figure svg"), svg => {
             const {width, height} = svg.getBoundingClientRect(), sizes = Array.from(
               svg.querySelectorAll("text"), text => parseFloat(getComputedStyle(text).fontSize));
             const smallest = Math.min(...sizes) * width / svg.viewBox.baseVal.width;
             return [width, height, svg.querySelectorAll("path, use, image").length, smallest];
           });"""
    )
    assert len(figures) == 24
    # letters of the figure on the screen: none below nine pixels
    assert (np.array(figures) >= (200, 100, 10, 9)).all(), figures
    script = COLUMN % ("against", 1, 6) + "head.querySelector('button').%s; return [head.ariaSort, read()];"
    assert browser.run(script % "click()")[0] == "ascending"
    state, values = browser.run(script % "click()")
    assert state == "descending"
    assert values[-1] == ""
    colors = """const ink = document.querySelector("#figure-nmi text");
        return [getComputedStyle(document.body).backgroundColor, getComputedStyle(ink).fill];"""
    light, dark, toggle = "rgb(255, 255, 255)", "rgb(20, 23, 28)", "document.getElementById('theme').click();"
    colors_of_scheme = []
    for scheme, press in (("light", ""), ("dark", ""), ("dark", toggle), ("light", toggle)):
        browser.prefer(scheme)
        colors_of_scheme.append(browser.run(press + colors))
    assert [background for background, _ in colors_of_scheme] == [light, dark, light, dark]
    assert colors_of_scheme[0][1] != colors_of_scheme[1][1]
    for width in (400, 1280):
        browser.resize(width)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        # a box that is cut off says so, and no other does
        cut_off = """return [...document.querySelectorAll(".wide")].filter((box) => box.offsetParent)
            .map((box) => [box.scrollWidth > box.clientWidth + 1, box.classList.contains("scrolls")]);"""
        boxes = browser.run(cut_off)
        assert all(is_cut == is_said for is_cut, is_said in boxes)
        assert any(is_cut for is_cut, _ in boxes) or width == 1280
    assert browser.run("return document.querySelectorAll('.picture .scrolls').length") == 0
    # figures of one kind stand side by side
    tops = "return ['nmi', 'ari'].map(name => document.querySelector('#figure-standing-' + name).offsetTop);"
    assert len(set(browser.run(tops))) == 1
    assert browser.console() == []
    assert browser.requests() == [report.page.as_uri()]


@pytest.mark.slow
def test_a_page_is_sorted_copied_saved_and_printed(small_page: Path, browser: Page) -> None:
    browser.open(small_page)
    # texts that would be copied or saved are kept instead
    browser.run(
        """window.copied = []; window.saved = [];
        const clipboard = {writeText: async (text) => copied.push(text)};
        Object.defineProperty(navigator, "clipboard", {value: clipboard});
        HTMLAnchorElement.prototype.click = function () { saved.push([this.download, this.href]); };"""
    )

    def press(button: str, inside: str = "") -> None:
        browser.run(f"document.querySelector('{inside}button[data-{button}]').click();")
        browser.driver.set_script_timeout(10)
        browser.driver.execute_async_script("setTimeout(arguments[0], 500);")

    assert not browser.run("return document.querySelector('details').open;")
    browser.run("dispatchEvent(new Event('beforeprint'));")
    assert browser.run("return document.querySelector('details').open;")
    press("copy=csv", "details ")
    press("copy=latex", "details ")
    csv, latex = browser.run("return copied;")
    assert csv == ',group\nmodel & more,score\n"a_b, c",0.5 ± 0.1\n100 % $x$,0.25\n'
    lines = [line.strip() for line in latex.splitlines()]
    assert lines[1:3] + lines[-2:] == [r"\begin{tabular}{lr}", r"\toprule", r"\bottomrule", r"\end{tabular}"]
    rows = (r"model \& more & score", r"a\_b, c & \textbf{0.5 $\pm$ 0.1}", r"100 \% \$x\$ & 0.25")
    assert {rf"{row} \\" for row in rows} < {*lines}
    browser.prefer("dark")
    press("save=svg")
    press("save=png")
    (svg_name, svg), (png_name, png) = browser.run("return saved;")
    assert svg_name == "line.svg"
    assert png_name == "line.png"
    text = unquote(svg.partition(",")[2])
    assert "var(" not in text
    assert mark("posterior").color in text
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert png.startswith("data:image/png;base64,")
    counts = browser.run(
        f"const parsed = new DOMParser().parseFromString({json.dumps(text)}, 'image/svg+xml');"
        "return [parsed.querySelectorAll('parsererror').length, parsed.querySelectorAll('use').length];"
    )
    assert counts[0] == 0
    assert counts[1] > 2
    # a table that is folded comes after the others
    head, click = COLUMN % ("s", 0, 1), "head.querySelector('button').click(); return read();"
    assert browser.run(head + click) == ["-2.5", "9", "10", ""]
    assert browser.run(head + click) == ["10", "9", "-2.5", ""]
    # A button is reached and pressed by keyboard.
    head = COLUMN % ("s", 0, 0)
    browser.run(head + "head.querySelector('button').focus();")
    browser.driver.switch_to.active_element.send_keys("\ue007")
    assert browser.run(head + "return read();") == ["a", "b", "B10", ""]
    assert browser.console() == []
