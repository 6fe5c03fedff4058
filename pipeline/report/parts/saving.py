"""Files of figures, and SVG for a page: small, with words on points, and following it from light to dark."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from pipeline.report.parts.ink import FONTS, IMAGE_DPI, PAGE_DPI, PNG_DPI, TIP, VARIABLES
from pipeline.report.parts.parts import Picture
from sweeps.data.lines import as_cell

SUFFIXES = ("svg", "png", "pdf")
TAG = re.compile(r"<[a-zA-Z][^<>]*>")
"""An opening tag: neither text nor attributes have a bare angle bracket."""
ATTRIBUTE = re.compile(r' ([\w:-]+)="([^"]*)"')
NUMBERS = {"d", "x", "y", "width", "height", "transform"}
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
REFERENCE = re.compile(r'(?:url\(#|href="#)([^")]+)')
COLOR = re.compile("|".join(VARIABLES))
TIPPED = re.compile(rf'<g id="{TIP}([\w=-]+)">(.*?</g>)', re.DOTALL)
USE = re.compile(r"(<use [^<>]*?)/>")
PATTERN = re.compile(r'(<pattern [^<>]*?)width="72" height="72"(.*?<path d=")([^"]*)"', re.DOTALL)
TILE = 8
"""Points after which our hatches repeat: matplotlib has 18 rows of each of them in a pattern of 72 points."""


def save(figure: Figure, folder: Path, name: str, caption: str) -> Picture:
    """Write a figure as SVG, PNG and PDF, light on white, and give it back for the page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn in `house_style`.
    folder : Path
        Made if it is not there.
    name, caption : str
        As in `Picture`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # Names of data sets may be in any script; the SVG has them as text all the same.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(folder / f"{name}.png", dpi=PNG_DPI)
        # The layout is computed once, for the PNG: all files show the same.
        figure.set_layout_engine("none")
        # The same figure is the same file, whenever it is written.
        undated = dict.fromkeys(("Creator", "Producer", "CreationDate"))
        figure.savefig(folder / f"{name}.pdf", metadata=undated, dpi=IMAGE_DPI)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing, dpi=PAGE_DPI)
    svg = _small(buffer.getvalue().replace("'DejaVu Sans'", FONTS))
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return Picture(name, caption, inline(svg, name))


def inline(svg: str, name: str) -> str:
    """SVG for a page: no prologue, ids with a prefix, colours by variable.

    Parameters
    ----------
    svg : str
        Document as matplotlib writes it.
    name : str
        Prefix of its ids.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    wanted = set(REFERENCE.findall(svg))

    def attribute(key: str, value: str) -> str | None:
        if key.partition(":")[0] == "xmlns" or (key == "id" and value not in wanted):
            return None
        if key == "id":
            return f"{name}-{value}"
        if key == "style":
            # Only in styles: text of the figure may well spell a colour.
            value = COLOR.sub(lambda color: f"var({VARIABLES[color[0]]})", value)
        return value.replace("url(#", f"url(#{name}-") if not key.endswith("href") else _at(name, value)

    return _changed(svg, attribute)


def _at(name: str, value: str) -> str:
    return f"#{name}-{value[1:]}" if value.startswith("#") else value


def _small(svg: str) -> str:
    """The document with words on its points, hatches of one tile, numbers to a hundredth of a point."""
    svg = PATTERN.sub(_one_tile, TIPPED.sub(_titled, svg))

    def attribute(key: str, value: str) -> str:
        if key not in NUMBERS:
            return value
        return LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", " ".join(value.split()))

    return re.sub(r">\s+<", "><", _changed(svg, attribute))


def _changed(svg: str, attribute: Callable[[str, str], str | None]) -> str:
    """The document with each attribute as the function gives it, without those for which it gives none."""

    def kept(found: re.Match[str]) -> str:
        value = attribute(found[1], found[2])
        return "" if value is None else f' {found[1]}="{value}"'

    return TAG.sub(lambda tag: ATTRIBUTE.sub(kept, tag[0]), svg)


def _titled(found: re.Match[str]) -> str:
    """A group of points with the words on each; without them where some points lie outside of the figure."""
    texts: list[str] = json.loads(base64.urlsafe_b64decode(found[1]))
    if len(USE.findall(found[2])) != len(texts):
        return f"<g>{found[2]}"
    each: Iterator[str] = iter(texts)
    return "<g>" + USE.sub(lambda use: f"{use[1]}><title>{html.escape(next(each))}</title></use>", found[2])


def _one_tile(found: re.Match[str]) -> str:
    parts = [f"M{part}" for part in found[3].split("M")[1:]]
    path = "".join(part for part in parts if _meets_tile(part))
    return f'{found[1]}width="{TILE}" height="{TILE}"{found[2]}{path}"'


def _meets_tile(part: str) -> bool:
    """Whether the box of a part of a path meets the first tile."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", part)]
    return all(min(along) < TILE and max(along) > 0 for along in (numbers[::2], numbers[1::2]))


def cells_of(table: pd.DataFrame) -> pd.DataFrame:
    """A table for spreadsheets, in which no text is a formula."""
    kept = {name: column for name, column in table.items() if not pd.api.types.is_numeric_dtype(column)}
    texts = {
        name: column.map(lambda cell: as_cell(cell) if isinstance(cell, str) else cell)
        for name, column in kept.items()
    }
    return table.assign(**{str(name): column for name, column in texts.items()})
