"""Numbers of clusters as they are written (5, 2..8, or 2,3,5), and the figure of the choice among them.

`read_counts` reads them, `pipeline.fit.counts` takes one, and `draw_choice` draws the criterion against the
number.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_clustering.pipeline.fit.counts import BIC, FEWEST, ClusterChoice, gains
from sweep_clustering.pipeline.fit.inputs import place_problems
from sweep_clustering.sweeps.data.table import MAX_CLASSES
from sweep_clustering.sweeps.errors import Problem

if TYPE_CHECKING:  # options are read before matplotlib is loaded, which takes a second
    from matplotlib.figure import Figure

OPTION = "-k"
SUFFIXES = (".svg", ".png", ".pdf")
PART = re.compile(r"([+-]?\d+)(?:\s*\.\.\s*([+-]?\d+))?")
EXPECTED = "a number, a range as 2..8, or a list as 2,3,5"

# Width and height of a panel in inches.
PANEL = (3.6, 2.3)


def read_counts(text: str) -> tuple[tuple[int, ...], list[Problem]]:
    """Numbers of clusters of a text, ascending.

    A single number is not judged here, as it is with the other options of a fit.

    Parameters
    ----------
    text : str
        A number, a range of which both ends belong to it, or numbers and ranges with commas.

    Returns
    -------
    counts : tuple of int
        Each once; (1,) if something is wrong.
    problems : list of Problem
        Everything that is.
    """
    found: list[int] = []
    problems: list[Problem] = []
    parts = text.split(",")
    for part in parts:
        match = PART.fullmatch(part.strip())
        if match is None:
            problems.append(Problem(OPTION, repr(part if part.strip() else text), EXPECTED))
            continue
        low, high = int(match[1]), int(match[2] or match[1])
        if len(parts) == 1 and match[2] is None:
            return (low,), []
        if low > high:
            problems.append(Problem(OPTION, part.strip(), "the smaller number first"))
        wrong = [end for end in dict.fromkeys((low, high)) if not 1 <= end < MAX_CLASSES]
        problems += [Problem(OPTION, str(end), f"1 or more, and less than {MAX_CLASSES}") for end in wrong]
        found += [] if wrong else range(low, high + 1)
    repeated = [count for count, times in sorted(Counter(found).items()) if times > 1]
    if repeated:
        twice = f"{', '.join(map(str, repeated))} more than once"
        problems.append(Problem(OPTION, twice, "each number once"))
    return ((1,), problems) if problems else (tuple(sorted(found)), [])


def option_problems(
    counts: Sequence[int], *, figure: Path | None, out: Path | None, overwrite: bool
) -> Iterator[Problem]:
    """What is wrong with `--figure` and `--force`.

    Parameters
    ----------
    counts : sequence of int
        Numbers of clusters; empty if they are wrong.
    figure, out : Path or None
        Files to write.
    overwrite : bool
        Whether they may be there.
    """
    yield from place_problems("--figure", figure, overwrite)
    if figure is not None and figure.suffix.lower() not in SUFFIXES:
        yield Problem("--figure", str(figure), f"a name that ends in {', '.join(SUFFIXES)}")
    if figure is not None and len(counts) == 1:
        yield Problem("--figure", f"-k {counts[0]}, one number", "several to compare, as -k 2..8")
    if figure is not None and out is not None and figure.absolute() == out.absolute():
        yield Problem("--figure", f"{figure}, as --out", "a file of its own")
    if overwrite and figure is None and out is None:
        yield Problem("--force", "no --out and no --figure", "a file to overwrite")


def draw_choice(choice: ClusterChoice) -> Figure:
    """Draw what decides, and BIC and ICL beside it where that is neither; the number taken is marked.

    Parameters
    ----------
    choice : ClusterChoice
        Two candidates or more.

    Returns
    -------
    matplotlib.figure.Figure
        Made in the style of the report; `write_figure` writes it.
    """
    from matplotlib.ticker import MaxNLocator

    from sweep_clustering.pipeline.report import look

    counts = [each.n_clusters for each in choice.candidates]
    chosen = counts.index(choice.chosen.n_clusters)
    with_loss, with_bic = choice.criterion != BIC, choice.criterion != FEWEST
    bic, icl = ([getattr(each.criteria, name) for each in choice.candidates] for name in ("bic", "icl"))
    with look.house_style():
        figure, [panels] = look.panels(1, with_loss + with_bic, PANEL)
        first, last = panels[0], panels[-1]
        looks: dict[str, Any] = {"color": look.BLUE, "marker": "o", "markersize": 4, "label": "log loss"}
        if with_loss:
            errors = [error for _, error in gains(choice.candidates)]
            first.errorbar(counts, choice.values, yerr=errors, elinewidth=1.0, capsize=2.5, **looks)
            first.set(ylabel="log loss of an annotation, nats", title="held-out annotations: less is better")
        if with_bic:
            looks = {"color": look.GREY if with_loss else look.BLUE, "markersize": 4}
            last.plot(counts, bic, marker="s", label="BIC", **looks)
            looks |= {"color": look.GREY, "linestyle": "--", "markerfacecolor": look.PAPER}
            last.plot(counts, icl, marker="^", label="ICL", **looks)
            last.set(ylabel="criterion, nats", title="BIC and ICL: more is better")
        for axes in panels:
            axes.set_xlabel("number of clusters K")
            axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
            axes.grid(axis="y")
        taken = f"taken: K = {counts[chosen]}"
        (ring,) = first.plot(counts[chosen], choice.values[chosen], color=look.VERMILLION, label=taken)
        ring.set(marker="o", markersize=11, markerfacecolor="none", markeredgewidth=1.8, linestyle="")
        look.legend(figure, panels)
    return figure


def picture(figure: Figure, path: Path) -> bytes:
    """The file of a figure: the same bits whenever it is made.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        From `draw_choice`.
    path : Path
        Its ending, svg, png or pdf, is the format.
    """
    from sweep_clustering.pipeline.report import look
    from sweep_clustering.pipeline.report.figures import UNDATED

    form, buffer = path.suffix[1:].lower(), io.BytesIO()
    with look.house_style():
        dpi = look.PNG_DPI if form == "png" else look.IMAGE_DPI
        figure.savefig(buffer, format=form, dpi=dpi, metadata=UNDATED[form])
    return buffer.getvalue()
