"""Figures of reports: panels side by side, names that fit, words on points, small files in light and dark.

Everything is drawn within `house_style`. `facets` lays out one panel for each thing and accuracy,
`panel_grid` one for each thing. Both fill the width of a page, take the function that draws a panel, have one
legend, and return no figure if nothing would stand in it. `save` writes a figure and returns it for a page.
"""

import base64
import html
import io
import json
import math
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import matplotlib
import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager, get_font
from matplotlib.lines import Line2D
from matplotlib.text import Text

from sweep_clustering.pipeline.fit.counts import BIC, HELD_OUT, ClusterChoice, gains
from sweep_clustering.pipeline.looks import BLUE, GREY, PAPER, VARIABLES, VERMILLION, Mark, mark
from sweep_clustering.pipeline.report.elements import MOST_ACCURACIES, Picture, subset, with_error
from sweep_clustering.sweeps.words import MODEL_CODES

Item = TypeVar("Item")

# Metadata that say when, and by what, a file was written. Without them the same figure is the same file.
UNDATED: dict[str, dict[str, Any]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "png": {"Software": None},
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
SUFFIXES = tuple(UNDATED)
# Format of every report. The others are drawn once more, for those who ask.
SVG = SUFFIXES[:1]

USUAL_FONT = "DejaVu Sans"
FONTS = "'DejaVu Sans', 'Bitstream Vera Sans', Verdana, sans-serif"
# matplotlib before 3.11 writes right-to-left texts from left to right, letter by letter.
JOINS_LETTERS = matplotlib.__version_info__ >= (3, 11)
# Letters of a model's name, so that every shipped one is shown in full.
LONGEST_MODEL = 28
# Letters of a name beside an axis. A longer one would take the room of the figure.
LONGEST_NAME = 22

# Width of the longest entry of a legend, in inches. Up to three short ones fit any figure.
LEGEND_WIDTH = 2.1
# Width of a letter of a longer entry, and of its handle, in inches.
LETTER = 0.08
HANDLE = 0.4
# Entries of a legend whose handles have the usual length, and the length in letters of the handles of more
# entries.
MOST_PLAIN = 8
LONG_HANDLE = 3.4

# Values from which on a box is drawn. Each of fewer is a point.
LEAST_BOX = 5
# Panels, and height in inches, from which on a figure is folded, so that a page opens with what is seen at a
# glance.
MOST_PANELS = 12
MOST_INCHES = 10
# Widths in inches: a page of 1,280 pixels, one of a paper of two columns, the labels beside a row of panels,
# and one of two figures side by side.
PAGE = 12.6
PAPER_PAGE = 7.16
LABEL_WIDTH = 0.9
HALF = 6.25
# Height in inches of everything above and below the rows of panels.
MARGIN_HEIGHT = 1.0
# Dots per inch of a PNG file. Points that are an image within a PDF or an SVG have their own.
PNG_DPI = 150
IMAGE_DPI = 200
PAGE_DPI = 100

# Distance in points at which a line covers another, and by how many points the lower one is wider then for
# each of at most so many lines above it.
COVERED = 0.8
WIDENING = 1.5
MOST_WIDENED = 2

# Height of a label beside a panel, in heights of the panel, and how a longer one is broken.
OVERHANG = 1.25
WORDS_WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}

# Numbers of annotations that are named below a panel.
MOST_TICKS = 5
COUNTS_LABEL = "annotations m (N:\N{NO-BREAK SPACE}samples)"

# Start of the name of a group of points that carries the words on them.
TIP = "tip-"
# An opening tag. Neither text nor attributes have a bare angle bracket.
TAG = re.compile(r"<[a-zA-Z][^<>]*>")
ATTRIBUTE = re.compile(r' ([\w:-]+)="([^"]*)"')
NUMBERS = {"d", "x", "y", "width", "height", "transform"}
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
REFERENCE = re.compile(r'(?:url\(#|href="#)([^")]+)')
COLOR = re.compile("|".join(VARIABLES))
TIPPED = re.compile(rf'<g id="{TIP}([\w=-]+)">(.*?</g>)', re.DOTALL)
USE = re.compile(r"(<use [^<>]*?)/>")
PATTERN = re.compile(r'(<pattern [^<>]*?)width="72" height="72"(.*?<path d=")([^"]*)"', re.DOTALL)
# Points after which our hatches repeat. matplotlib has 18 rows of each of them in a pattern of 72 points.
TILE = 8

# Width and height in inches of a panel of the choice among numbers of clusters.
CHOICE_PANEL = (3.6, 2.3)

# Width of the page that figures are drawn for.
WIDTH: ContextVar[float] = ContextVar("WIDTH", default=PAGE)

# Names that must differ from each other when they are shortened.
NAMES: ContextVar[tuple[str, ...]] = ContextVar("NAMES", default=())


@contextmanager
def house_style(names: Iterable[str] = (), *, in_paper: bool = False) -> Iterator[None]:
    """Draw figures in the style of reports, in which the shortened forms of some names stay unique.

    With `in_paper` they have the letters and the width of a paper.
    """
    styles = ["page", *["paper"] * in_paper]
    token, width = NAMES.set((*NAMES.get(), *names)), WIDTH.set(PAPER_PAGE if in_paper else PAGE)
    try:
        with matplotlib.style.context([f"sweep_clustering.pipeline.report.{style}" for style in styles]):
            yield
    finally:
        NAMES.reset(token)
        WIDTH.reset(width)


def short(name: str, longest: int = LONGEST_NAME, other_names: Iterable[str] = ()) -> str:
    """Shorten a name to `longest` widths of a usual letter; its beginning and its end stay.

    The result differs from the shortened forms of the names in `other_names` and of those of `house_style`.
    """
    text = _ends(name, longest)
    if text == name:
        return name
    all_names = dict.fromkeys((*NAMES.get(), *other_names))
    twins = [other for other in all_names if other != name and _ends(other, longest) == text]
    if not twins:
        return text
    place = f"·{[other for other in all_names if other == name or other in twins].index(name) + 1}"
    return _ends(name, longest - len(place)) + place


@cache
def _ends(name: str, longest: int) -> str:
    """Return the beginning and the end of a name that is wider, with an ellipsis between them."""
    if _width(name) <= longest:
        return name
    head, tail, room = "", "", longest - 1 - longest // 3
    while _width(head + name[len(head)]) <= room:
        head += name[len(head)]
    while _width(name[-len(tail) - 1] + tail) <= longest // 3:
        tail = name[-len(tail) - 1] + tail
    return f"{head}…{tail}"


def _width(text: str) -> float:
    """Return the width of a text in usual letters, as which narrow ones count too.

    Combining marks have none.
    """
    return sum(map(_letter_width, text))


@cache
def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    path = fontManager.findfont(USUAL_FONT)
    if letter not in _letters(path):
        return 1.0 + (unicodedata.east_asian_width(letter) in "WF")
    font = get_font(path)
    font.set_size(12, 72)  # whoever draws sets it again
    width, usual_width = (font.load_char(ord(char)).linearHoriAdvance for char in (letter, "n"))
    return max(1.0, width / usual_width)


@cache
def _letters(path: str) -> frozenset[str]:
    """Return the letters of a font, which are none if it cannot be read."""
    try:
        return frozenset(map(chr, get_font(path).get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()


def is_right_to_left(text: str) -> bool:
    """Whether a text has letters that are written from right to left."""
    return any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)


def give_fonts(figure: Figure) -> set[str]:
    """Let each text of a figure use fonts that have its letters, and return the names without such a font.

    Other letters may be wider, so this comes before the layout.
    """
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    letters = {letter for text in texts for letter in text.get_text() if letter != "\n"}
    letters -= _letters(fontManager.findfont(USUAL_FONT))
    if not letters:
        return set()
    families = [USUAL_FONT]
    for font in sorted(fontManager.ttflist, key=lambda font: (font.style != "normal", font.weight != 400)):
        # some fonts have a box with the name of its script in place of each letter
        if not font.name.startswith("Last Resort") and (font_letters := letters & _letters(font.fname)):
            families.append(font.name)
            letters -= font_letters
        if not letters:
            break
    for text in texts:
        text.set_fontfamily(families)
    for axes in figure.axes:
        axes.tick_params(labelfontfamily=families)
    names = {name.strip() for text in texts for name in re.split("[,\n]", text.get_text())}
    return {name for name in names if not letters.isdisjoint(name)}


def panels(
    rows: int, columns: int, size: tuple[float, float], share: Literal["none", "all", "row", "col"] = "none"
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure of panels of one size in inches; `share` names the panels that have the same axes."""
    width, height = size[0] * columns + LABEL_WIDTH, size[1] * rows + MARGIN_HEIGHT
    figure = Figure(figsize=(max(width, 4.2), height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).tolist()


def panel(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of one panel with its outer size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def n_across(count: int, width: float) -> int:
    """Return how many of `count` things of a width in inches stand in each row of a page."""
    n_fitting = max(1, int((WIDTH.get() - LABEL_WIDTH) / width + 1e-9))
    return -(-count // -(-count // n_fitting))


def facets(
    items: Sequence[Item],
    accuracies: pd.Series,
    draw: Callable[[Axes, Item, float], None],
    size: tuple[float, float],
    y_label: Callable[[Item], str],
    *,
    share: Literal["all", "row"] = "row",
    x_label: str = COUNTS_LABEL,
    entries: Iterable[Line2D] = (),
) -> Figure | None:
    """Return a figure with a panel for each item and each accuracy, or a subset of many accuracies.

    Parameters
    ----------
    items : sequence
        Things that have panels. Without any there is no figure.
    accuracies : pandas.Series
        Accuracies in any order. Without any there is one panel for each item, and no title.
    draw : callable
        Draws one panel.
    size : tuple of float
        Width and height of a panel in inches.
    y_label : callable
        Gives the label of the y axis in the first panel of an item.
    share : {"all", "row"}
        Panels that have the same axes: all of them, or those of one item.
    x_label : str
        Label of the x axes.
    entries : iterable of Line2D
        More entries of the legend.
    """
    if not items:
        return None
    ps = subset(sorted(set(accuracies.dropna())), MOST_ACCURACIES) or [math.nan]
    n_in_row = n_across(len(items), size[0] * len(ps))
    figure, grid = panels(math.ceil(len(items) / n_in_row), n_in_row * len(ps), size)
    all_axes = [axes for line in grid for axes in line]
    first = all_axes[0]
    for place, item in enumerate(items):
        block = all_axes[place * len(ps) : (place + 1) * len(ps)]
        first = first if share == "all" else block[0]
        for axes, p in zip(block, ps, strict=True):
            if axes is not first:
                axes.sharex(first)
                axes.sharey(first)
            draw(axes, item, p)
            axes.tick_params(labelleft=axes is block[0])
            if place < n_in_row and not math.isnan(p):
                axes.set_title(f"p = {p:g}")
        block[0].set_ylabel(y_label(item))
    used_axes = all_axes[: len(items) * len(ps)]
    for axes in all_axes[len(used_axes) :]:
        axes.remove()
    for axes in used_axes[-n_in_row * len(ps) :]:
        axes.set_xlabel(x_label, fontsize="small")
    legend(figure, figure.axes, entries)
    return figure


def panel_grid(
    titled_items: Iterable[tuple[str, Item]],
    draw: Callable[[Axes, Item], None],
    size: tuple[float, float],
    y_label: str,
    share: Literal["none", "all"] = "none",
    group: int = 1,
    entries: Iterable[Line2D] = (),
) -> Figure | None:
    """Return a figure with a panel for each item under its title, as many in a row as fit a page.

    `y_label` is the label of the y axes. A row holds a multiple of `group` panels, or all of them. `entries`
    has more entries of the legend.
    """
    items = list(titled_items)
    if not items:
        return None
    columns = min(len(items), group * n_across(math.ceil(len(items) / group), size[0] * group))
    figure, grid = panels(math.ceil(len(items) / columns), columns, size, share)
    for first, *_ in grid:
        first.set_ylabel(y_label)
    for axes in figure.axes[len(items) :]:
        axes.remove()
    for axes, (title, item) in zip(figure.axes, items, strict=True):
        axes.set_title(title)
        draw(axes, item)
    legend(figure, figure.axes, entries)
    return figure


def legend(figure: Figure, axes: Iterable[Axes], lines: Iterable[Line2D] = ()) -> None:
    """Give a figure one legend for all panels, which need not show the same models."""
    entries: dict[str, Artist] = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    entries |= {str(line.get_label()): line for line in lines}
    rank = {model: place for place, model in enumerate(MODEL_CODES)}
    entries = dict(sorted(entries.items(), key=lambda entry: rank.get(entry[0], len(rank))))
    if entries:
        names = [short(name, longest=LONGEST_MODEL) for name in entries]
        wide = max(LEGEND_WIDTH, HANDLE + LETTER * max(map(len, names)))
        figure.legend(
            list(entries.values()),
            names,
            loc="outside lower center",
            ncols=len(entries) if len(entries) <= 3 else max(1, int(figure.get_figwidth() / wide)),
            # the pattern of a line shows in a handle that is long enough, and a few models need none
            handlelength=None if len(entries) <= MOST_PLAIN else LONG_HANDLE,
        )


def finish(figure: Figure) -> None:
    """Lay a figure out once, with round ticks, labels that fit their panels, and no curve under another."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(locator := axis.get_major_locator(), ticker.MaxNLocator):
                locator.set_params(steps=[1, 2, 5, 10])
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        if _fit_labels(figure):
            engine.execute(figure)
        figure.set_layout_engine(None)
    for axes in figure.axes:
        _widen_covered(axes)


def _fit_labels(figure: Figure) -> bool:
    """Break the labels of axes that are longer than their panel, and say whether there were any."""
    is_changed = False
    for axes in figure.axes:
        for label, is_across in ((axes.xaxis.label, True), (axes.yaxis.label, False)):
            extent, lines = label.get_window_extent(), label.get_text().split("\n")
            room = axes.bbox.width if is_across else OVERHANG * axes.bbox.height
            share = room / max(1.0, extent.width if is_across else extent.height)
            if share < 1 and any(" " in line for line in lines):
                n_letters = int(share * max(map(len, lines)))
                broken = ["\n".join(textwrap.wrap(line, max(1, n_letters), **WORDS_WHOLE)) for line in lines]
                label.set_text("\n".join(broken))
                is_changed = True
    return is_changed


def _widen_covered(axes: Axes) -> None:
    """Widen each line that later ones cover, so that it shows on both sides of them."""
    curves = []
    for line in axes.lines:
        x, y = line.get_transform().transform(np.asarray(line.get_xydata())).T
        if line.get_linestyle() != "None" and len(x) > 1 and (np.diff(x) > 0).all():
            curves.append((line, x, y))
    distance = COVERED * axes.figure.dpi / 72
    for place, (line, x, y) in enumerate(curves):
        n_above = 0
        for _, other_x, other_y in curves[place + 1 :]:
            is_covered = np.abs(np.interp(x, other_x, other_y, left=np.nan, right=np.nan) - y) < distance
            n_above += bool(is_covered.mean() > 0.5)
        wider = WIDENING * min(n_above, MOST_WIDENED)
        line.set(linewidth=line.get_linewidth() + wider, markersize=line.get_markersize() + wider)


def tick_counts(axes: Axes, counts: Sequence[float], names: Mapping[Any, str] | None = None) -> None:
    """Put ticks at the numbers of annotations if they are few.

    `names` has them as the sweep file writes them.
    """
    ticks = list(counts) if len(counts) <= MOST_TICKS or names else []
    ticks = ticks[:: -(-len(ticks) // MOST_TICKS) or 1]
    axes.xaxis.set_major_locator(
        ticker.FixedLocator(ticks) if ticks else ticker.MaxNLocator(nbins=5, integer=True)
    )
    if ticks and names:
        axes.xaxis.set_major_formatter(
            ticker.FixedFormatter([names.get(count, f"{count:g}") for count in ticks])
        )
    axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=5))


def log_axis(axes: Axes, subs: Sequence[float], numticks: int | None = None) -> None:
    """Make the x axis logarithmic, with plain numbers at its ticks."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=subs, numticks=numticks))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def hover(line: Line2D, texts: Sequence[str]) -> None:
    """Attach words to the points of a line, in order. The page shows them beneath the pointer."""
    line.set_gid(TIP + base64.urlsafe_b64encode(json.dumps(list(texts)).encode()).decode())


def points(
    axes: Axes, x: Any, y: Any, texts: Sequence[str], look: Mark | None = None, size: float = 8, **style: Any
) -> None:
    """Draw points with words on them; without a look, only the pointer finds them."""
    unseen = {"marker": "o", "alpha": 0}
    properties = unseen if look is None else look.markers | {"color": look.color}
    (markers,) = axes.plot(x, y, linestyle="", markersize=size, **properties, **style)
    hover(markers, texts)


def curves(axes: Axes, rows: pd.DataFrame, column: str, tip: Callable[[Any], str], band: float) -> None:
    """Draw the `mean` of each model along a column, with a band of its `se`.

    `tip` gives the words on a point.
    """
    for model, points in rows.groupby("model", sort=True):
        x, mean = (points[name].to_numpy(dtype=float) for name in (column, "mean"))
        tips = [f"{model}, {tip(row)}: {with_error(row.mean, row.se)}" for row in points.itertuples()]
        curve(axes, x, mean, points["se"], mark(str(model)), str(model), tips, band)
    axes.grid()


def curve(
    axes: Axes, x: Any, y: Any, error: Any, look: Mark, label: str, tips: Sequence[str], band: float
) -> None:
    """Draw a line with words on its points and a band of one standard error, a bar at a single point."""
    (line,) = axes.plot(x, y, label=label, color=look.color, linestyle=look.line)
    line.set(**look.markers, markersize=4.5, linewidth=1.6)
    hover(line, tips)
    if error is not None:
        error = np.nan_to_num(np.asarray(error, dtype=float))
        if len(x) > 1:
            axes.fill_between(x, y - error, y + error, color=look.color, alpha=band, linewidth=0)
        elif error.any():  # a band has no width at a single point
            axes.errorbar(x, y, error, fmt="none", ecolor=look.color, alpha=0.6)


def save(figure: Figure, folder: Path, name: str, caption: str, formats: Sequence[str] = SVG) -> Picture:
    """Write a figure in some formats, light on white, and return it for the page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Figure that was drawn in `house_style`.
    folder : Path
        Folder of the files, which is made if it is missing.
    name, caption : str
        As in `Picture`.
    formats : sequence of str
        Some of `SUFFIXES`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    buffer, without_font = io.StringIO(), give_fonts(figure)
    with warnings.catch_warnings():
        if without_font:  # the caller gets their names, and the SVG has them as text all the same
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # The layout is computed once, at the dots of a PNG, so that all files show the same.
        figure.set_dpi(PNG_DPI)
        finish(figure)
        for suffix, dpi in {"png": PNG_DPI, "pdf": IMAGE_DPI}.items():
            if suffix in formats:
                figure.savefig(folder / f"{name}.{suffix}", metadata=UNDATED[suffix], dpi=dpi)
        figure.savefig(buffer, format="svg", metadata=UNDATED["svg"], dpi=PAGE_DPI)
    is_folded = len(figure.axes) > MOST_PANELS or figure.get_figheight() > MOST_INCHES
    svg = _small(buffer.getvalue().replace("'DejaVu Sans'", FONTS))
    if "svg" in formats:
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    return Picture(name, caption, inline(svg, name), tuple(formats), is_folded, frozenset(without_font))


def inline(svg: str, name: str) -> str:
    """Turn a document of matplotlib into SVG for a page, with prefixed ids, and colours by variable."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    references = set(REFERENCE.findall(svg))

    def attribute(key: str, value: str) -> str | None:
        if key.partition(":")[0] == "xmlns" or (key == "id" and value not in references):
            return None
        if key == "id":
            return f"{name}-{value}"
        if key.endswith("href"):
            return re.sub("^#", f"#{name}-", value)
        if key == "style":
            # Only in styles, because text of the figure may well spell a colour.
            value = COLOR.sub(lambda color: f"var({VARIABLES[color[0]]})", value)
        return value.replace("url(#", f"url(#{name}-")

    return _with_attributes(svg, attribute)


def _small(svg: str) -> str:
    """Put words on points, keep one tile of each hatch, and round numbers to a hundredth of a point."""

    def attribute(key: str, value: str) -> str:
        if key not in NUMBERS:
            return value
        return LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}", " ".join(value.split()))

    small = _with_attributes(PATTERN.sub(_one_tile, TIPPED.sub(_titled, svg)), attribute)
    return re.sub(r">\s+<", "><", small)


def _with_attributes(svg: str, attribute: Callable[[str, str], str | None]) -> str:
    """Return the document with each attribute as the function gives it, or without it."""

    def replacement(match: re.Match[str]) -> str:
        value = attribute(*match.groups())
        return "" if value is None else f' {match[1]}="{value}"'

    return TAG.sub(lambda tag: ATTRIBUTE.sub(replacement, tag[0]), svg)


def _titled(match: re.Match[str]) -> str:
    """Put words on the points of a group, unless some points lie outside of the figure."""
    texts = json.loads(base64.urlsafe_b64decode(match[1]))
    if len(USE.findall(match[2])) != len(texts):
        return f"<g>{match[2]}"
    titles = map(html.escape, texts)
    return "<g>" + USE.sub(lambda use: f"{use[1]}><title>{next(titles)}</title></use>", match[2])


def _one_tile(match: re.Match[str]) -> str:
    """Cut a pattern down to the first tile and those parts of its path whose box meets it."""
    path = ""
    for part in match[3].split("M")[1:]:
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", part)]
        if all(min(axis) < TILE and max(axis) > 0 for axis in (numbers[::2], numbers[1::2])):
            path += f"M{part}"
    return f'{match[1]}width="{TILE}" height="{TILE}"{match[2]}{path}"'


def draw_choice(choice: ClusterChoice) -> Figure:
    """Draw the criterion, and BIC and ICL beside a log loss; the chosen number is marked."""
    counts = [candidate.n_clusters for candidate in choice.candidates]
    chosen_index = counts.index(choice.chosen.n_clusters)
    has_loss, has_bic = choice.criterion != BIC, choice.criterion in (BIC, HELD_OUT)
    bic, icl = (
        [getattr(candidate.criteria, name) for candidate in choice.candidates] for name in ("bic", "icl")
    )
    with house_style():
        figure, [grid] = panels(1, has_loss + has_bic, CHOICE_PANEL)
        first, last = grid[0], grid[-1]
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4, "label": "log loss"}
        if has_loss:
            errors = [error for _, error in gains(choice.candidates)]
            first.errorbar(counts, choice.values, yerr=errors, elinewidth=1.0, capsize=2.5, **style)
            pairs = " and random pairs" if choice.chosen.overall else ""
            first.set(
                ylabel="log loss of an annotation, nats", title=f"held-out annotations{pairs}: less is better"
            )
        if has_bic:
            style = {"color": GREY if has_loss else BLUE, "markersize": 4}
            last.plot(counts, bic, marker="s", label="BIC", **style)
            style |= {"color": GREY, "linestyle": "--", "markerfacecolor": PAPER}
            last.plot(counts, icl, marker="^", label="ICL", **style)
            last.set(ylabel="criterion, nats", title="BIC and ICL: more is better")
        for axes in grid:
            axes.set_xlabel("number of clusters K")
            axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=9, integer=True))
            axes.grid(axis="y")
        label = f"taken: K = {counts[chosen_index]}"
        (ring,) = first.plot(counts[chosen_index], choice.values[chosen_index], color=VERMILLION, label=label)
        ring.set(marker="o", markersize=11, markerfacecolor="none", markeredgewidth=1.8, linestyle="")
        legend(figure, grid)
        finish(figure)
    return figure


def picture(figure: Figure, path: Path) -> bytes:
    """Return a figure as the bytes of a file of the path's format, the same bits whenever it is made."""
    form, buffer = path.suffix[1:].lower(), io.BytesIO()
    with house_style():
        dpi = PNG_DPI if form == "png" else IMAGE_DPI
        figure.savefig(buffer, format=form, dpi=dpi, metadata=UNDATED[form])
    return buffer.getvalue()
