"""How figures look: palette, marks of models and designs, legends, words on points.

`mark` says how a model is drawn, `DESIGN_LOOKS` a design; everything is drawn within `house_style`. Colours
that must follow a page into the dark are `VARIABLES` of its style sheet.
"""

import base64
import json
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import matplotlib
import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager, get_font
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator
from numpy.typing import NDArray

from sweep_clustering.sweeps.words import BASELINES, MODEL_CODES, SHIPPED, is_model, split_model

# Colours that the style sheet of the page has in a light and in a dark shade, by name: those of Okabe and
# Ito's palette are told apart with every common colour blindness; markers differ for grey print.
SHEET = (files("sweep_clustering.pipeline.report") / "page.css").read_text(encoding="utf-8")
COLORS = dict(re.findall(r"--(\w+): (#\w+);", SHEET[: SHEET.index("}")]))
VARIABLES = {color: f"--{name}" for name, color in COLORS.items()}
INK, RULE, GREY, PAPER = (COLORS[name] for name in ("ink", "rule", "grey", "paper"))
BLUE, VERMILLION, GREEN = (COLORS[name] for name in ("blue", "vermillion", "green"))
# Shades of the same for both light and dark: points that are an image do not follow the page.
CLASS_COLORS = ("#0f77b8", "#dd650f", "#109e78", "#cc79a7", "#e69f00", "#56b4e9")
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Colour and marker of each annotation term.
STYLES = {"posterior": (BLUE, "o"), "likelihood": (VERMILLION, "s"), "conditional": (GREEN, "^")}

METHOD_COLORS = ("#a6761d", "#cc79a7", "#b0605a", "#4d9bc7", "#7a6fb0")
METHOD_MARKERS = ("v", "P", "X", "D", "<", ">", "p")
# Of methods: shades for both light and dark; so many of each that few of some dozen look the same.
METHOD_LINES = ("-", "--", ":")

Half = Literal["full", "left", "right", "bottom", "top"]
Line = str | tuple[int, tuple[float, ...]]


class Shape(NamedTuple):
    """What tells one shape of covariances from others, in grey too: line, part of a marker, and hatch."""

    line: Line
    filled: bool
    half: Half
    hatch: str


SHAPES = {
    "spherical": Shape("-", True, "full", ""),
    "common": Shape(":", False, "full", "///"),
    "diagonal": Shape((0, (8, 2)), True, "bottom", "\\\\\\"),
    "tied": Shape("-.", True, "left", "..."),
    "full": Shape((0, (5, 1.5, 1, 1.5, 1, 1.5)), True, "top", "xxx"),
    "auto": Shape((0, (1, 1.5, 1, 1.5, 1, 4)), True, "right", "ooo"),
    "any": Shape((0, (3, 1, 3, 4)), False, "right", "***"),
}


class Mark(NamedTuple):
    """How a model is drawn.

    Parameters
    ----------
    color, marker, line
        Of its curve.
    filling : str
        Of the marker: the colour, or the paper.
    half : {"full", "left", "right", "bottom", "top"}
        Part of the marker that is filled; the paper shows in the rest.
    area : str
        Filling of a bar or a box.
    hatch : str
        Over the area.
    """

    color: str
    marker: str
    filling: str
    line: Line
    half: Half
    area: str
    hatch: str

    @property
    def markers(self) -> dict[str, Any]:
        """Properties of a drawn line."""
        return {
            "marker": self.marker,
            "fillstyle": self.half,
            "markerfacecolor": self.filling,
            "markerfacecoloralt": PAPER,
        }


# Colour, marker and line of each design; panels of these never hold several models.
DESIGN_LOOKS = {
    design: Mark(color, marker, color, line, "full", color, "")
    for design, color, marker, line in (
        ("uniform", GREY, "o", "--"),
        ("biased", VERMILLION, "s", "-."),
        ("near", "#8c6bb1", "h", (0, (2, 1))),
        ("active", BLUE, "^", "-"),
        ("uncertain", GREEN, "D", (0, (8, 2))),
        ("anchors", "#cc79a7", "v", (0, (5, 1))),
        ("again", "#a6761d", "P", (0, (3, 1, 1, 1))),
        ("farthest-first", "#b0605a", "X", ":"),
        ("committee", "#7a6fb0", "<", (0, (4, 2, 1, 2))),
        ("overall", "#1f4e79", ">", (0, (1, 1))),
    )
}

USUAL_FONT = "DejaVu Sans"
FONTS = "'DejaVu Sans', 'Bitstream Vera Sans', Verdana, sans-serif"
# Inches of the longest entry of a legend; up to three of the short ones fit any figure.
LEGEND_WIDTH = 2.1
# Inches of a letter and of the rest of an entry, which a long name of a method takes beyond that.
LETTER, HANDLE = 0.08, 0.4
# Entries of a legend whose handles have the usual length, and the length of those of more, in letters.
MOST_PLAIN, LONG_HANDLE = 8, 3.4
# Values of which a box is drawn; of fewer each is a point.
LEAST_BOX = 5
# Letters of a model's name: every shipped one is shown in full.
LONGEST_MODEL = 28
# Letters of a name beside an axis; a longer one would take the room of the figure.
LONGEST_NAME = 22
# What one figure shows; a larger grid is shown in part, and the CSV files hold all of it.
MOST_ACCURACIES, MOST_DATASETS = 6, 8
# Data sets that a figure has as examples where they are more.
EXAMPLES = 3
# Inches of a page of 1,280 pixels, of the labels beside a row of panels, and of all above and below the rows.
PAGE, BESIDE, ABOVE = 12.6, 0.9, 1.0
# Inches of a figure of which two stand side by side.
HALF = 6.25
# Before the words on points, in the name of their group.
TIP = "tip-"
# Numbers of annotations that are named below a panel.
MOST_TICKS = 5
COUNTS_LABEL = "annotations m (N: samples)"
# Dots per inch of a PNG file, and of points that are an image within a PDF and within an SVG.
PNG_DPI, IMAGE_DPI, PAGE_DPI = 150, 200, 100


# Releases of matplotlib before this one write right-to-left texts from left to right, letter by letter.
JOINS_LETTERS = matplotlib.__version_info__ >= (3, 11)

# Names of which no two may look the same when they are shortened.
NAMES: ContextVar[tuple[str, ...]] = ContextVar("NAMES", default=())


@contextmanager
def house_style(names: Iterable[str] = ()) -> Iterator[None]:
    """Draw figures with their settings, in which some names, when they are shortened, stay unique."""
    token = NAMES.set((*NAMES.get(), *names))
    try:
        with matplotlib.style.context("sweep_clustering.pipeline.report.page"):
            yield
    finally:
        NAMES.reset(token)


def mark(model: str) -> Mark:
    """How a model is drawn: the colour and the marker are of its term, the rest of its shape.

    Of a shipped method they go by its place in their list, of one's own by its name: the same in every cube.
    """
    if not is_model(model):
        place = list(SHIPPED).index(model) if model in SHIPPED else zlib.crc32(model.encode())
        color, marker = METHOD_COLORS[place % len(METHOD_COLORS)], METHOD_MARKERS[place % len(METHOD_MARKERS)]
        return Mark(color, marker, color, METHOD_LINES[place % len(METHOD_LINES)], "full", color, "")
    term, shape = split_model(model)
    look = SHAPES[shape]
    if model in BASELINES:
        line = "--" if look.line == "-" else look.line
        return Mark(GREY, "D", PAPER, line, "full", PAPER, look.hatch)
    color, marker = STYLES[term]
    area = PAPER if look.hatch else color
    return Mark(color, marker, color if look.filled else PAPER, look.line, look.half, area, look.hatch)


def short(name: str, longest: int = LONGEST_NAME, among: Iterable[str] = ()) -> str:
    """Shorten a name to what fits a panel; both of its ends stay.

    Parameters
    ----------
    name : str
        The name.
    longest : int
        Widths of a usual letter; an m is half as wide again, a letter of Chinese twice as wide.
    among : iterable of str
        Other names that are not to look the same, beside those of `house_style`.
    """
    text = _ends(name, longest)
    if text == name:
        return name
    others = dict.fromkeys((*NAMES.get(), *among))
    alike = [other for other in others if other != name and _ends(other, longest) == text]
    if not alike:
        return text
    place = f"·{[other for other in others if other == name or other in alike].index(name) + 1}"
    return _ends(name, longest - len(place)) + place


@cache
def _ends(name: str, longest: int) -> str:
    """The beginning and the end of a name that is wider, with an ellipsis between them."""
    if _width(name) <= longest:
        return name
    head, tail, room = "", "", longest - 1 - longest // 3
    while _width(head + name[len(head)]) <= room:
        head += name[len(head)]
    while _width(name[-len(tail) - 1] + tail) <= longest // 3:
        tail = name[-len(tail) - 1] + tail
    return f"{head}…{tail}"


def _width(text: str) -> float:
    """Width of a text in usual letters; narrow ones count as much, and marks on others nothing."""
    return sum(map(_letter_width, text))


@cache
def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    path = fontManager.findfont(USUAL_FONT)
    if letter not in _letters(path):
        return 1.0 + (unicodedata.east_asian_width(letter) in "WF")
    font = get_font(path)
    font.set_size(12, 72)  # which whoever draws sets again
    wide, usual = (font.load_char(ord(each)).linearHoriAdvance for each in (letter, "n"))
    return max(1.0, wide / usual)


def is_right_to_left(text: str) -> bool:
    """Whether a text has letters that are written from right to left."""
    return any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)


def give_fonts(figure: Figure) -> set[str]:
    """Have each text of a figure written with fonts that have its letters, and return names without one.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Not laid out yet, as other letters may be wider.
    """
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    wanted = {letter for text in texts for letter in text.get_text() if letter != "\n"}
    wanted -= _letters(fontManager.findfont(USUAL_FONT))
    if not wanted:
        return set()
    families = [USUAL_FONT]
    for font in sorted(fontManager.ttflist, key=lambda font: (font.style != "normal", font.weight != 400)):
        # some fonts have a box with the name of its script in place of each letter
        if not font.name.startswith("Last Resort") and (more := wanted & _letters(font.fname)):
            families.append(font.name)
            wanted -= more
        if not wanted:
            break
    for text in texts:
        text.set_fontfamily(families)
    for axes in figure.axes:
        axes.tick_params(labelfontfamily=families)
    names = {name.strip() for text in texts for name in re.split("[,\n]", text.get_text())}
    return {name for name in names if not wanted.isdisjoint(name)}


@cache
def _letters(path: str) -> frozenset[str]:
    """Letters that a font has; none of one that cannot be read."""
    try:
        return frozenset(map(chr, get_font(path).get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()


def panels(
    rows: int, columns: int, size: tuple[float, float], share: Literal["none", "all", "row", "col"] = "none"
) -> tuple[Figure, list[list[Axes]]]:
    """Figure of panels of one size in inches; `share` is which of them have the same axes."""
    width, height = size[0] * columns + BESIDE, size[1] * rows + ABOVE
    figure = Figure(figsize=(max(width, 4.2), height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).tolist()


def across(count: int, width: float) -> int:
    """How many of some things, each of so many inches, stand in a row of a page, all rows alike."""
    most = max(1, int((PAGE - BESIDE) / width + 1e-9))
    return -(-count // -(-count // most))


def panel(width: float, height: float) -> tuple[Figure, Axes]:
    """Figure of one panel, of so many inches in all."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def tick_counts(axes: Axes, counts: Sequence[float], names: Mapping[Any, str] | None = None) -> None:
    """Ticks at the numbers of annotations themselves, where they are few; `names` is how they are written."""
    few = list(counts) if len(counts) <= MOST_TICKS or names else []
    few = few[:: -(-len(few) // MOST_TICKS) or 1]
    axes.xaxis.set_major_locator(FixedLocator(few) if few else MaxNLocator(nbins=5, integer=True))
    if few and names:
        axes.xaxis.set_major_formatter(FixedFormatter([names.get(count, f"{count:g}") for count in few]))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))


def legend(figure: Figure, axes: Iterable[Axes], also: Iterable[Line2D] = ()) -> None:
    """One legend for all panels, which need not show the same models."""
    entries: dict[str, Artist] = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    entries |= {str(line.get_label()): line for line in also}
    rank = {model: place for place, model in enumerate(MODEL_CODES)}
    entries = dict(sorted(entries.items(), key=lambda entry: rank.get(entry[0], len(rank))))
    if entries:
        names = [short(name, longest=LONGEST_MODEL) for name in entries]
        wide = max(LEGEND_WIDTH, HANDLE + LETTER * max(map(len, names)))
        columns = len(entries) if len(entries) <= 3 else max(1, int(figure.get_figwidth() / wide))
        # the pattern of a line shows in a handle that is long enough; a few models need none
        length = None if len(entries) <= MOST_PLAIN else LONG_HANDLE
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(list(entries.values()), names, handlelength=length, **place)


def hover(line: Line2D, texts: Sequence[str]) -> None:
    """Words on each point of a line, in order, which the page shows beneath the pointer."""
    line.set_gid(TIP + base64.urlsafe_b64encode(json.dumps(list(texts)).encode()).decode())


def hover_unseen(axes: Axes, x: NDArray[Any], y: NDArray[Any], texts: Sequence[str]) -> None:
    """The same at places of a line without markers: points that are there for the pointer alone."""
    (points,) = axes.plot(x, y, linestyle="", marker="o", markersize=8, alpha=0)
    hover(points, texts)
