"""The first section of the page, as a table and in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import chromium
from contests import cell, contest, table
from cubes import toy
from cubes.reported import make

from pipeline.report.parts.html import render
from pipeline.report.parts.ink import house_style
from pipeline.report.sections.content import Content
from pipeline.report.winners import cost, duels, robustness, standing
from pipeline.report.write import write_report
from pipeline.scoring.ranking import rankings
from sweeps.words import MODEL_CODES

HOSTILE = "<img src=x onerror=alert(1)>"


def content(cells: pd.DataFrame, folder: Path) -> Content:
    """Of what these sections read alone."""
    nothing = dict.fromkeys(("manifest", "tree", "summary", "cell", "compared", "holder"))
    return Content(**nothing, cells=cells, failures=(), figures=folder)  # type: ignore[arg-type]


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


def test_the_best_and_what_ties_with_it_are_marked() -> None:
    cells = contest({"c": (0.45, 0.9), "a": (0.6, 0.5), "b": (0.5, 0.5)}, spread=0.1, draws=2)
    found = standing.table(rankings(cells)[0])
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
    found = standing.table(rankings(table(rows))[0])
    assert found.columns == ("model", "mean rank", "mean NMI", "solved", "d0", "d1 (not ranked)")
    by_model = {row[0].text: [value.text for value in row[1:]] for row in found.rows}
    assert by_model["b"][2:] == ["50%", "0.350 ± 0.350", "-"]
    assert by_model["a"][2:] == ["100%", "0.500 ± 0.000", "0.500"]


def test_the_caption_says_what_bars_mean() -> None:
    base, offsets = np.linspace(0.2, 0.6, 10), 0.01 * np.arange(1, 11)
    for n_models, n_datasets, words in ((2, 2, "no bar"), (3, 10, ", 0.05)."), (4, 7, "no more than that.")):
        scores = {f"m{k}": (base + k * offsets)[:n_datasets] for k in range(n_models)}
        text = standing.caption(rankings(contest(scores))[0])
        assert text.startswith(f"Mean rank by NMI over {n_datasets} data sets, 1 is best. ")
        assert words in text
        assert ("no more than that" in text) == (n_models == 4)


def test_one_model_gives_a_short_section_and_no_others(tmp_path: Path) -> None:
    found = content(contest({"posterior": (0.5, 0.6)}), tmp_path)
    section = standing.section(found)
    assert section.text == ("Nothing to compare: posterior is the only model with a score.",)
    assert (section.tables, section.pictures) == ((), ())
    assert [part.section(found) for part in (duels, cost, robustness)] == [None] * 3


@pytest.mark.parametrize(("n_models", "n_datasets"), [(2, 1), (9, 7), (25, 12)])
def test_sections_of_few_and_many_models_in_a_browser(tmp_path: Path, n_models: int, n_datasets: int) -> None:
    found = content(many(n_models, n_datasets), tmp_path)
    with house_style():
        sections = [part.section(found) for part in (standing, duels, cost, robustness)]
    html = render("winners", [section for section in sections if section is not None])
    assert "<img" not in html
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    texts = """return Array.from(document.querySelectorAll("figure svg"), svg => {
        const whole = svg.getBoundingClientRect();
        return Array.from(svg.querySelectorAll("text"), text => {
          const box = text.getBoundingClientRect();
          return [svg.closest("figure").id, text.textContent, box.left - whole.left, box.top - whole.top,
                  whole.right - box.right, whole.bottom - box.bottom, box.width, box.height];});}).flat();"""
    with chromium() as page:
        page.open(tmp_path / "page.html")
        assert page.console() == []
        boxes = pd.DataFrame(
            page.run(texts),
            columns=["figure", "text", "left", "top", "right", "bottom", "width", "height"],
        )
        for width in (1280, 400):
            page.resize(width)
            assert page.run("return document.documentElement.scrollWidth") <= width
    assert len(boxes) > n_models
    # Nothing is cut off at the edge of its figure,
    cut = boxes[(boxes[["left", "top", "right", "bottom"]] < -1).any(axis=1)]
    assert cut.empty, cut.to_string()
    # and no name of a model stands on another.
    for _, names in boxes[boxes["text"].str.contains("[a-z]-?[a-z]")].groupby("figure"):
        corners = names[["left", "top", "width", "height"]].to_numpy()
        for place, (left, top, width, height) in enumerate(corners):
            for other in corners[place + 1 :]:
                across = min(left + width, other[0] + other[2]) - max(left, other[0])
                down = min(top + height, other[1] + other[3]) - max(top, other[1])
                assert min(across, down) < 2.5, names


@pytest.mark.usefixtures("page_alone")
def test_the_page_of_a_cube_begins_with_who_wins(tmp_path: Path) -> None:
    report = write_report(make(tmp_path, toy.plan("iris"), toy.plan("wine")), tmp_path / "out")
    html = report.page.read_text(encoding="utf-8")
    order = re.findall(r'<section id="([\w-]+)">', html)
    assert order[:5] == ["winners", "curves", "scores", "relative", "index"]
    assert order[-1] == "head"
    values = pd.read_csv(tmp_path / "out" / "winners.csv")
    assert set(values["score"]) == {"nmi", "adjusted_rand"}
    best = values[values["rank"] == values.groupby(["score", "dataset"])["rank"].transform("min")]
    assert best["as_good_as_best"].all()
