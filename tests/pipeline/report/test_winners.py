"""Which model wins: costs by hand, and figures of few and many models in a browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import chromium
from contests import cell, table
from cubes.reported import content, tips

from pipeline.report import elements, winners
from pipeline.report.look import house_style
from pipeline.report.page import SECTIONS
from pipeline.scoring.ranking import rank
from sweeps.words import MODEL_CODES

HOSTILE = "<img src=x onerror=alert(1)>"


def test_time_is_a_geometric_mean_over_data_sets_and_what_is_beaten_is_not_marked() -> None:
    times = {"quick": (0.1, 10.0), "good": (1.0, 100.0), "beaten": (2.0, 200.0), "instant": (0.0, 0.0)}
    levels = {"quick": 0.4, "good": 0.8, "beaten": 0.7, "instant": 0.2}
    cells = table(
        cell(f"d{number}", model, levels[model], p=0.9, cpu_seconds=times[model][number])
        for number in range(2)
        for model in times
    )
    found = winners.cost_table(rank(cells, "nmi"), cells).set_index("model")
    assert found["cpu_seconds"].to_dict() == pytest.approx({"quick": 1.0, "good": 10.0, "beaten": 20.0})
    assert found["mean"].to_dict() == pytest.approx({name: levels[name] for name in list(times)[:3]})
    assert found["best"].to_dict() == {"quick": True, "good": True, "beaten": False}
    figure = winners.draw_costs(found.reset_index(), "nmi")
    assert [text.get_text() for text in figure.axes[0].texts] == ["quick", "beaten", "good"]
    assert tips(figure)[0] == "quick: NMI 0.400, 1 CPU s a cell"
    assert winners.cost_table(rank(cells, "nmi"), cells.assign(cpu_seconds=0.0)).empty


def test_names_and_bars_are_moved_apart_and_stay_in_order() -> None:
    for places, moved in (
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9]),
        ([0.5, 0.5, 0.95, 0.99, 1.0], [0.45, 0.55, 0.8, 0.9, 1.0]),
        ([0.0, 0.0, 0.3], [0.0, 0.1, 0.3]),
    ):
        assert winners.apart(np.array(places), 0.1) == pytest.approx(moved)
    assert winners._levels([(0, 2), (1, 3), (3, 4)]) == [0, 1, 0]


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


@pytest.mark.slow
@pytest.mark.parametrize(("n_models", "n_datasets"), [(2, 1), (25, 12)])
def test_sections_of_few_and_many_models_in_a_browser(tmp_path: Path, n_models: int, n_datasets: int) -> None:
    found = content(many(n_models, n_datasets), figures=tmp_path)
    with house_style():
        made = [each.chapter(found) for each in SECTIONS if each.key in ("winners", "duels", "cost")]
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
