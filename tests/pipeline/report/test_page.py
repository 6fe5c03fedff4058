"""The report page: what stands in it, and that a real browser shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from browser import Page, chromium
from cubes import toy
from cubes.writer import next_generation

from pipeline.report import elements
from pipeline.report.elements import Chapter, Table, number, words
from pipeline.report.figures import save
from pipeline.report.look import house_style
from pipeline.report.scores import draw_curves
from pipeline.report.write import Report, write_report
from storage.cube.growth import create
from storage.runfolder.records import FailedWork, FailureRecord, append_failure
from sweeps.errors import InputError

HOSTILE = "<img src=x onerror=alert(1)> $x_{$ & \"q'"
FAILED = "iris/p=0.9/m=12/replicate=0/posterior"


def spec(name: str, *datasets: str) -> dict[str, object]:
    return {
        "name": name,
        "seed": 7,
        "grid": {"datasets": [{"name": d, "scale": "none"} for d in datasets], "m": ["0.5N", "1N"]},
        "search": {"generations": 3},
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Page of a cube with everything: mixtures of the published K, an odd data set, published values."""
    folder = tmp_path_factory.mktemp("page")
    plans = (
        toy.plan("iris"),
        toy.plan(
            "odd",
            n_features=1,
            has_labels=False,
            replicates=1,
            replicate_chunk=1,
            models=("conditional", "posterior-common"),
            baselines=(),
            restarts=1,
        ),
        toy.plan("mix_k6", n_clusters=6, mixtures=4, mixture_chunk=4, replicates=1, replicate_chunk=1),
    )
    cube = folder / "toy.zarr"
    toy.write(cube, *plans, spec=spec("toy", *(plan.name for plan in plans)))
    failure = {"cell": FAILED, "cause": "ValueError: <b>no</b>", "node": "n1", "job": "", "traceback": ""}
    record = FailureRecord(work=FailedWork(start=0, stop=4), at="2026-01-02", **failure)
    append_failure(next_generation(cube).failures, record)
    published = folder / "theirs.csv"
    published.write_text(
        "p,n_clusters,m,model,metric,value\n0.8,6,12,posterior,nmi,0.1\n0.8,2,0,unsupervised,kl,1\n"
    )
    return write_report(cube, folder / "out", published=published)


@pytest.fixture(scope="module")
def page(report: Report) -> Iterator[Page]:
    with chromium() as found:
        found.open(report.page)
        yield found


def test_a_page_needs_nothing_else(report: Report) -> None:
    html = report.page.read_text(encoding="utf-8")
    assert re.findall(r"(?:https?:)?//[\w.]+\.\w+/", html) == []
    assert re.findall(r"<(?:link|script|img|image|iframe)[^>]*\b(?:src|href)=\"(?!data:)", html) == []
    assert "default-src 'none'" in html
    assert report.page.stat().st_size < 3_000_000


def test_words_from_elsewhere_are_text(report: Report) -> None:
    html = report.page.read_text(encoding="utf-8")
    assert html.count("<b>") == 0
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in html


def test_hostile_names_are_text_in_tables_and_in_figures(tmp_path: Path) -> None:
    row = {"dataset": HOSTILE, "p": 0.9, "m": 10, "model": "posterior", "score": "nmi", "n": 1, "mean": 0.5}
    with house_style():
        figure = draw_curves(pd.DataFrame([{**row, "se": float("nan")}]), "nmi")
        assert figure is not None
        picture = save(figure, tmp_path, "nmi", HOSTILE)
    table = Table(HOSTILE, (HOSTILE,), ((words(HOSTILE),),), note=HOSTILE)
    section = Chapter("s", HOSTILE, (HOSTILE,), (table,), (picture,))
    html = elements.html(f"</script>{HOSTILE}", [section])
    assert "<img" not in html
    assert html.count("</script>") == 1
    assert html.count("&lt;img src=x onerror=alert(1)&gt; $x_{$ &amp;") >= 8
    assert "&lt;img src=x" in picture.svg


def test_every_part_is_there(report: Report) -> None:
    html = report.page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="([\w-]+)">', html) == [
        "winners", "curves", "scores", "relative", "index", "robustness", "duels", "cost", "against",
        "agreement", "cell", "failures", "restarts", "times", "head",
    ]  # fmt: skip
    figures = {file.name for file in report.files if file.parent.name == "figures"}
    names = re.findall(r'<figure id="figure-([\w.-]+)">', html)
    assert figures == {f"{name}.{suffix}" for name in names for suffix in ("svg", "png", "pdf")}
    assert set(names) == {
        "nmi", "ari", "kl", "agreement", "ranks-nmi", "ranks-ari", "cost-nmi", "cost-ari", "robustness-nmi",
        "robustness-ari", "relative-nmi-p0.8", "relative-nmi-p0.9", "centroid-index",
        "cell-unsupervised", "cell-annotated", "cell-true", "gaps", "restarts",
        "seconds", "z",
    }  # fmt: skip


def test_the_published_values_stand_beside_ours(report: Report) -> None:
    assert "1 of 1 published values" in report.text or "0 of 1 published values" in report.text
    html = report.page.read_text(encoding="utf-8")
    assert "of 2 in the table 1 not in this cube" in html
    assert "published</" in html


def test_a_cube_with_nothing_done_gives_a_page(tmp_path: Path) -> None:
    plans = [toy.plan("iris"), toy.plan("mix_k6", n_clusters=6, mixtures=2)]

    def inputs(plan: object) -> tuple[object, object]:
        values = toy.arrays(plan)  # type: ignore[arg-type]
        return values[f"{plan.name}/X"], values[f"{plan.name}/labels_true"]  # type: ignore[attr-defined]

    create(tmp_path / "toy.zarr", plans, inputs, toy.sweep(spec("toy", "iris", "mix_k6")))  # type: ignore[arg-type]
    report = write_report(tmp_path / "toy.zarr", tmp_path / "out")
    html = report.page.read_text(encoding="utf-8")
    assert "0 of 75 cells are done, 0 failed, 75 are left." in html
    assert html.count("Nothing to show: no cell that is done has what this needs.") == 5
    assert "<svg" not in html


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("iris/p=0.8/m=13/replicate=0/posterior", "m=13"),
        ("iris/unsupervised", "a cell with annotations"),
        (FAILED, "which is failed"),
    ],
)
def test_a_cell_that_cannot_be_shown_is_bad_input(tmp_path: Path, cell: str, words: str) -> None:
    cube = tmp_path / "toy.zarr"
    toy.write(cube, toy.plan("iris", replicates=1, replicate_chunk=1), spec=spec("toy", "iris"))
    with pytest.raises(InputError, match=words):
        write_report(cube, tmp_path / "out", cell=cell)
    assert not (tmp_path / "out").exists()


def test_the_browser_has_nothing_to_complain_of(report: Report, page: Page) -> None:
    assert page.console() == []
    assert page.requests() == [report.page.as_uri()]


def test_every_figure_is_visible_and_readable(page: Page) -> None:
    figures = page.run(
        """return Array.from(document.querySelectorAll("figure svg"), svg => {
             const box = svg.getBoundingClientRect(), sizes = Array.from(
               svg.querySelectorAll("text"), text => parseFloat(getComputedStyle(text).fontSize));
             return {id: svg.closest("figure").id, width: box.width, height: box.height,
                     scale: box.width / svg.viewBox.baseVal.width, smallest: Math.min(...sizes),
                     shapes: svg.querySelectorAll("path, use, image").length};
           });"""
    )
    assert len(figures) == 20
    for figure in figures:
        assert figure["width"] > 200, figure
        assert figure["height"] > 100, figure
        assert figure["shapes"] > 10, figure
        # Points of the figure on the screen: nothing below nine pixels.
        assert figure["smallest"] * figure["scale"] >= 9, figure


@pytest.mark.parametrize("width", [390, 1280])
def test_wide_parts_scroll_by_themselves_and_the_page_does_not(page: Page, width: int) -> None:
    page.resize(width)
    assert page.run("return document.documentElement.scrollWidth") <= width


COLUMN = """const [table, column] = [document.querySelectorAll("#%s table")[%d], %d];
    const read = () => Array.from(table.tBodies[0].rows, row => row.cells[column].dataset.order);
    const head = table.tHead.rows[table.tHead.rows.length - 1].cells[column];"""


def test_tables_sort_by_number_and_back_with_the_missing_last(page: Page) -> None:
    script = COLUMN % ("against", 1, 6) + "head.querySelector('button').%s; return [head.ariaSort, read()];"
    assert page.run(script % "click()")[0] == "ascending"
    state, values = page.run(script % "click()")
    assert state == "descending"
    assert values[-1] == ""
    column = COLUMN % ("restarts", 0, 5)
    page.run(column + "head.querySelector('button').click();")
    texts = page.run(column + "return read();")
    assert texts == sorted(texts, key=float)
    assert len(texts) > 5


def test_numbers_sort_as_numbers_and_words_as_words(tmp_path: Path) -> None:
    rows = [
        (words("b"), number(10.0)),
        (words("B10"), number(9.0)),
        (words("a"), number(None)),
        (words(""), number(-2.5, "g")),
    ]
    table = Table("t", ("word", "number"), tuple(rows))
    path = tmp_path / "page.html"
    path.write_text(elements.html("t", [Chapter("s", "S", tables=(table,))]), encoding="utf-8")
    with chromium() as found:
        found.open(path)
        head = COLUMN % ("s", 0, 1)
        click = "head.querySelector('button').click(); return read();"
        assert found.run(head + click) == ["-2.5", "9.0", "10.0", ""]
        assert found.run(head + click) == ["10.0", "9.0", "-2.5", ""]
        # A button is reached and pressed by keyboard.
        head = COLUMN % ("s", 0, 0)
        found.run(head + "head.querySelector('button').focus();")
        found.driver.switch_to.active_element.send_keys("\ue007")
        assert found.run(head + "return read();") == ["a", "b", "B10", ""]
        assert found.console() == []


def test_light_and_dark_by_the_system_and_by_the_button(page: Page) -> None:
    colors = """const ink = document.querySelector("#figure-nmi text");
        return [getComputedStyle(document.body).backgroundColor, getComputedStyle(ink).fill];"""
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    seen = []
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        seen.append(page.run(colors))
    assert [background for background, _ in seen] == [light, dark]
    assert seen[0][1] != seen[1][1]
    page.run("document.getElementById('theme').click();")
    assert page.run(colors)[0] == light
    page.prefer("light")
    page.run("document.getElementById('theme').click();")
    assert page.run(colors)[0] == dark
