"""How models and designs look, in the figures of reports and on the page of a run.

`mark` gives the colour, marker and line of a model, `DESIGN_LOOKS` those of a design. Both pages begin with
`PALETTE`.
"""

import re
import zlib
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from sweep_clustering.sweeps.words import BASELINES, SHIPPED, is_model, split_model

# Style sheet of colours in a light and in a dark shade. People with every common colour blindness can tell
# those of Okabe and Ito's palette apart. Markers differ for grey print.
PALETTE = (files("sweep_clustering.pipeline") / "palette.css").read_text(encoding="utf-8")
COLORS = dict(re.findall(r"--(\w+): (#\w+);", PALETTE[: PALETTE.index("}")]))
VARIABLES = {color: f"--{name}" for name, color in COLORS.items()}
INK = COLORS["ink"]
RULE = COLORS["rule"]
GREY = COLORS["grey"]
PAPER = COLORS["paper"]
BLUE = COLORS["blue"]
VERMILLION = COLORS["vermillion"]
GREEN = COLORS["green"]

# Shades for both light and dark, because points that are an image do not follow the page.
CLASS_COLORS = ("#0f77b8", "#dd650f", "#109e78", "#cc79a7", "#e69f00", "#56b4e9")
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

# Colour and marker of each annotation term.
STYLES = {"posterior": (BLUE, "o"), "likelihood": (VERMILLION, "s"), "conditional": (GREEN, "^")}

# Looks of methods, in shades for both light and dark. The lengths of the tuples have no common divisor, so
# few of some dozen methods look the same.
METHOD_COLORS = ("#a6761d", "#cc79a7", "#b0605a", "#4d9bc7", "#7a6fb0")
METHOD_MARKERS = ("v", "P", "X", "D", "<", ">", "p")
METHOD_LINES = ("-", "--", ":")

Half = Literal["full", "left", "right", "bottom", "top"]
Line = str | tuple[int, tuple[float, ...]]

# Dashes of an SVG line for each named line of matplotlib.
DASHES = {"-": "", "--": "6 3", ":": "1.5 3", "-.": "6 2 1.5 2"}


class Shape(NamedTuple):
    """Look of a shape of covariances, which also tells it from the others in grey print."""

    line: Line
    is_filled: bool
    half: Half
    hatch: str
    marker: str = ""  # in place of that of the term


SHAPES = {
    "spherical": Shape("-", True, "full", ""),
    "common": Shape(":", False, "full", "///"),
    "diagonal": Shape((0, (8, 2)), True, "bottom", "\\\\\\"),
    "tied": Shape("-.", True, "left", "..."),
    "full": Shape((0, (5, 1.5, 1, 1.5, 1, 1.5)), True, "top", "xxx"),
    "auto": Shape((0, (1, 1.5, 1, 1.5, 1, 4)), True, "right", "ooo"),
    "any": Shape((0, (3, 1, 3, 4)), False, "right", "***", "v"),
    "groups": Shape((0, (6, 1, 1, 1)), False, "left", "+++", "p"),
}


class Mark(NamedTuple):
    """Look of a model, a method or a design.

    `filling` is the colour of the marker's filled `half`, and paper shows in the rest. `area` and `hatch`
    fill a bar or a box.
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
        """Return the properties of a drawn line that say how its markers look."""
        return {
            "marker": self.marker,
            "fillstyle": self.half,
            "markerfacecolor": self.filling,
            "markerfacecoloralt": PAPER,
        }

    @property
    def svg(self) -> dict[str, str]:
        """Return colour and dashes of the line on a page, where the colour follows the page into the dark."""
        color = f"var({VARIABLES[self.color]})" if self.color in VARIABLES else self.color
        dash = DASHES[self.line] if isinstance(self.line, str) else " ".join(f"{n:g}" for n in self.line[1])
        return {"color": color, "dash": dash}


# Panels of these never hold several models.
DESIGN_LOOKS = {
    design: Mark(color, marker, color, line, "full", color, "")
    for design, color, marker, line in (
        ("uniform", GREY, "o", "--"),
        ("biased", VERMILLION, "s", "-."),
        ("near", "#8c6bb1", "h", (0, (2, 1))),
        ("crowd", "#c51b7d", "*", (0, (6, 1, 1, 1))),
        ("active", BLUE, "^", "-"),
        ("uncertain", GREEN, "D", (0, (8, 2))),
        ("anchors", "#cc79a7", "v", (0, (5, 1))),
        ("again", "#a6761d", "P", (0, (3, 1, 1, 1))),
        ("farthest-first", "#b0605a", "X", ":"),
        ("committee", "#7a6fb0", "<", (0, (4, 2, 1, 2))),
        ("overall", "#1f4e79", ">", (0, (1, 1))),
        ("merges", "#4d7c0f", "p", (0, (1, 2))),
    )
}


def mark(model: str) -> Mark:
    """Return the look of a model: its term gives colour and marker, and its shape the rest.

    A shipped method goes by its place in the list of methods and a user's method by its name, so it looks
    alike in every cube.
    """
    if not is_model(model):
        place = list(SHIPPED).index(model) if model in SHIPPED else zlib.crc32(model.encode())
        color, marker = METHOD_COLORS[place % len(METHOD_COLORS)], METHOD_MARKERS[place % len(METHOD_MARKERS)]
        return Mark(color, marker, color, METHOD_LINES[place % len(METHOD_LINES)], "full", color, "")
    term, name = split_model(model)
    shape = SHAPES[name]
    if model in BASELINES:
        line = "--" if shape.line == "-" else shape.line
        return Mark(GREY, "D", PAPER, line, "full", PAPER, shape.hatch)
    color, marker = STYLES[term]
    area = PAPER if shape.hatch else color
    marker, filling = shape.marker or marker, color if shape.is_filled else PAPER
    return Mark(color, marker, filling, shape.line, shape.half, area, shape.hatch)
