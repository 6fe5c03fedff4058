"""Figures of reports: panels side by side, and their files, small, with words on points, in light and dark.

`facets` lays out a panel of each accuracy for each of something, `wrapped` one panel for each; both fill the
width of a page, take the function that draws one panel, have one legend, and give no figure if nothing is
shown.
`curves` draws a line for each model. `save` writes a figure and gives it back for a page.
"""

import base64
import html
import io
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sweep_clustering.pipeline.report import look
from sweep_clustering.pipeline.report.elements import Picture, spread, with_error

Item = TypeVar("Item")

# A name of its files, the figure unless there is nothing to draw, and its caption.
Drawn = tuple[str, Figure | None, str]

# What says when, and by what, a file of each format was written: the same figure is the same file without it.
UNDATED: dict[str, dict[str, Any]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "png": {"Software": None},
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
SUFFIXES = tuple(UNDATED)
# Formats that every report has; a PDF, which takes as long as both, is for those who ask.
USUAL = SUFFIXES[:2]
# Panels, and inches of height, from which on a figure is folded: a page opens with what is seen at a glance.
MOST_PANELS, MOST_INCHES = 12, 10
# An opening tag: neither text nor attributes have a bare angle bracket.
TAG = re.compile(r"<[a-zA-Z][^<>]*>")
ATTRIBUTE = re.compile(r' ([\w:-]+)="([^"]*)"')
NUMBERS = {"d", "x", "y", "width", "height", "transform"}
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
REFERENCE = re.compile(r'(?:url\(#|href="#)([^")]+)')
COLOR = re.compile("|".join(look.VARIABLES))
TIPPED = re.compile(rf'<g id="{look.TIP}([\w=-]+)">(.*?</g>)', re.DOTALL)
USE = re.compile(r"(<use [^<>]*?)/>")
PATTERN = re.compile(r'(<pattern [^<>]*?)width="72" height="72"(.*?<path d=")([^"]*)"', re.DOTALL)
# Points after which our hatches repeat: matplotlib has 18 rows of each of them in a pattern of 72 points.
TILE = 8


def facets(
    shown: Sequence[Item],
    accuracies: pd.Series,
    draw: Callable[[Axes, Item, float], None],
    size: tuple[float, float],
    up: Callable[[Item], str],
    *,
    share: Literal["all", "row"] = "row",
    across: str = look.COUNTS_LABEL,
    also: Iterable[Line2D] = (),
) -> Figure | None:
    """Figure of panels for each of something, one for each accuracy; as many of them in a row as fit a page.

    Parameters
    ----------
    shown : sequence
        What has panels; without any there is no figure.
    accuracies : pandas.Series
        What a panel is of, in any order, some of many; without any there is one panel without a title.
    draw : callable
        Draws one panel of both.
    size : tuple of float
        Width and height of a panel in inches.
    up : callable
        Label of the y axis of the first panel.
    share : {"all", "row"}
        Which panels have the same axes: all of them, or those of one thing.
    across : str
        Label of the x axes.
    also : iterable of Line2D
        More entries of the legend.
    """
    if not shown:
        return None
    ps = spread(sorted(set(accuracies.dropna())), look.MOST_ACCURACIES) or [math.nan]
    beside = look.across(len(shown), size[0] * len(ps))
    figure, grid = look.panels(math.ceil(len(shown) / beside), beside * len(ps), size)
    free = [axes for line in grid for axes in line]
    first = free[0]
    for place, item in enumerate(shown):
        block = free[place * len(ps) : (place + 1) * len(ps)]
        first = first if share == "all" else block[0]
        for axes, p in zip(block, ps, strict=True):
            if axes is not first:
                axes.sharex(first)
                axes.sharey(first)
            draw(axes, item, p)
            axes.tick_params(labelleft=axes is block[0])
            if place < beside and not math.isnan(p):
                axes.set_title(f"p = {p:g}")
        block[0].set_ylabel(up(item))
    drawn = free[: len(shown) * len(ps)]
    for axes in free[len(drawn) :]:
        axes.remove()
    for axes in drawn[-beside * len(ps) :]:
        axes.set_xlabel(across, fontsize="small")
    look.legend(figure, figure.axes, also)
    return figure


def wrapped(
    shown: Iterable[tuple[str, Item]],
    draw: Callable[[Axes, Item], None],
    size: tuple[float, float],
    up: str,
    share: Literal["none", "all"] = "none",
    each: int = 1,
) -> Figure | None:
    """Figure of a panel for each of something under its title, as many in a row as fit a page.

    `up` is of the y axes; a row holds a multiple of `each` panels, or all of them.
    """
    items = list(shown)
    if not items:
        return None
    columns = min(len(items), each * look.across(math.ceil(len(items) / each), size[0] * each))
    figure, grid = look.panels(math.ceil(len(items) / columns), columns, size, share)
    for first, *_ in grid:
        first.set_ylabel(up)
    for axes in figure.axes[len(items) :]:
        axes.remove()
    for axes, (title, item) in zip(figure.axes, items, strict=True):
        axes.set_title(title)
        draw(axes, item)
    look.legend(figure, figure.axes)
    return figure


def curves(axes: Axes, rows: pd.DataFrame, along: str, tip: Callable[[Any], str], band: float) -> None:
    """A curve of the `mean` of each model with a band of its `se`, along a column; `tip` says a point."""
    for model, points in rows.groupby("model", sort=True):
        x, mean = (points[name].to_numpy(dtype=float) for name in (along, "mean"))
        tips = [f"{model}, {tip(row)}: {with_error(row.mean, row.se)}" for row in points.itertuples()]
        curve(axes, x, mean, points["se"], look.mark(str(model)), str(model), tips, band)
    axes.grid()


def curve(
    axes: Axes,
    x: Any,
    y: Any,
    error: Any,
    how: look.Mark,
    label: str,
    tips: Sequence[str],
    band: float,
) -> None:
    """A line with words on its points, and a band of its standard error, a bar at a single point."""
    (drawn,) = axes.plot(x, y, label=label, color=how.color, linestyle=how.line)
    drawn.set(**how.markers, markersize=4.5, linewidth=1.6)
    look.hover(drawn, tips)
    if error is not None:
        error = np.nan_to_num(np.asarray(error, dtype=float))
        if len(x) > 1:
            axes.fill_between(x, y - error, y + error, color=how.color, alpha=band, linewidth=0)
        elif error.any():  # a band has no width at a single point
            axes.errorbar(x, y, error, fmt="none", ecolor=how.color, alpha=0.6, capsize=2.5)


def bars(
    axes: Axes, x: Any, y: Any, error: dict[str, Any], looks: dict[str, Any], tips: Sequence[str]
) -> ErrorbarContainer:
    """Points with bars of one standard error, and words on them."""
    drawn = axes.errorbar(x, y, **error, **looks, markersize=4.5, capsize=2.5)
    if drawn.lines[0] is not None:
        look.hover(drawn.lines[0], tips)
    return drawn


def log_axis(axes: Axes, subs: Sequence[float], numticks: int | None = None) -> None:
    """An x axis of powers of ten, with numbers as they are written."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=numticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def save(figure: Figure, folder: Path, name: str, caption: str, formats: Sequence[str] = USUAL) -> Picture:
    """Write a figure in some formats, light on white, and give it back for the page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn in `house_style`.
    folder : Path
        Made if it is not there.
    name, caption : str
        As in `Picture`.
    formats : sequence of str
        Some of `SUFFIXES`; SVG and PNG are always among them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    buffer, without_font = io.StringIO(), look.give_fonts(figure)
    with warnings.catch_warnings():
        if without_font:  # the caller is told of them; the SVG has them as text all the same
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(folder / f"{name}.png", metadata=UNDATED["png"], dpi=look.PNG_DPI)
        # The layout is computed once, for the PNG: all files show the same.
        figure.set_layout_engine(None)
        if "pdf" in formats:
            figure.savefig(folder / f"{name}.pdf", metadata=UNDATED["pdf"], dpi=look.IMAGE_DPI)
        figure.savefig(buffer, format="svg", metadata=UNDATED["svg"], dpi=look.PAGE_DPI)
    folded = len(figure.axes) > MOST_PANELS or figure.get_figheight() > MOST_INCHES
    svg = _small(buffer.getvalue().replace("'DejaVu Sans'", look.FONTS))
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return Picture(name, caption, inline(svg, name), tuple(formats), folded, frozenset(without_font))


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
        if key.endswith("href"):
            return re.sub("^#", f"#{name}-", value)
        if key == "style":
            # Only in styles: text of the figure may well spell a colour.
            value = COLOR.sub(lambda color: f"var({look.VARIABLES[color[0]]})", value)
        return value.replace("url(#", f"url(#{name}-")

    return _changed(svg, attribute)


def _small(svg: str) -> str:
    """The document with words on its points, hatches of one tile, numbers to a hundredth of a point."""

    def attribute(key: str, value: str) -> str:
        if key not in NUMBERS:
            return value
        return LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", " ".join(value.split()))

    small = _changed(PATTERN.sub(_one_tile, TIPPED.sub(_titled, svg)), attribute)
    return re.sub(r">\s+<", "><", small)


def _changed(svg: str, attribute: Callable[[str, str], str | None]) -> str:
    """The document with each attribute as the function gives it, without those for which it gives none."""

    def kept(found: re.Match[str]) -> str:
        value = attribute(*found.groups())
        return "" if value is None else f' {found[1]}="{value}"'

    return TAG.sub(lambda tag: ATTRIBUTE.sub(kept, tag[0]), svg)


def _titled(found: re.Match[str]) -> str:
    """A group of points with the words on each; without them where some points lie outside of the figure."""
    texts = json.loads(base64.urlsafe_b64decode(found[1]))
    if len(USE.findall(found[2])) != len(texts):
        return f"<g>{found[2]}"
    each = map(html.escape, texts)
    return "<g>" + USE.sub(lambda use: f"{use[1]}><title>{next(each)}</title></use>", found[2])


def _one_tile(found: re.Match[str]) -> str:
    """A pattern of the first tile, with those parts of its path whose box meets it."""
    path = ""
    for part in found[3].split("M")[1:]:
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", part)]
        if all(min(along) < TILE and max(along) > 0 for along in (numbers[::2], numbers[1::2])):
            path += f"M{part}"
    return f'{found[1]}width="{TILE}" height="{TILE}"{found[2]}{path}"'
