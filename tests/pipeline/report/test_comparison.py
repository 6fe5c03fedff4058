"""The page of two cubes: what stands in it, and that a browser shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import chromium
from cubes import toy

from pipeline.report.compare import write_comparison


def spec(name: str, **search: object) -> dict[str, object]:
    grid = {"datasets": [{"name": "iris", "scale": "none"}], "m": ["0.5N", "1N"]}
    return {"name": name, "seed": 7, "grid": grid, "search": {"generations": 3, **search}}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    for name, more in (("a", {}), ("b", {"proportions": "free"})):
        toy.write(folder / f"{name}.zarr", toy.plan("iris"), spec=spec(name, **more))
    written = write_comparison(folder / "a.zarr", folder / "b.zarr", folder / "out", ["nmi"])
    return next(file for file in written.files if file.suffix == ".html")


def test_differences_come_first_and_settings_last(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="([\w-]+)">', html) == ["by-nmi", "unpaired", "settings"]
    assert "search.proportions: A " in html
    assert "NMI, B minus A: " in html
    assert "all data sets" in html
    assert ">0.5N<" in html


def test_the_browser_shows_it_without_a_word_and_without_a_request(page: Path) -> None:
    with chromium() as found:
        for width in (400, 1280):
            found.resize(width)
            found.open(page)
            assert found.run("return document.documentElement.scrollWidth") <= width
        assert found.console() == []
        assert set(found.requests()) == {page.as_uri()}
        assert found.run("return document.querySelectorAll('svg use title').length") > 3
