"""Numbers of clusters as people write them (5, 2..8, or 2,3,5), and the figure of the choice among them.

`read_counts` reads them, `pipeline.fit.counts` chooses one, and `draw_choice` draws the criterion against the
number.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_clustering.pipeline.fit.counts import BIC, CUTS, FEWEST, ClusterChoice, gains
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
    """Return numbers of clusters, ascending, each once, and the problems of their text; with problems only
    (1,).

    A text has numbers and ranges with commas; both ends belong to a range. A single number is judged with the
    other options of a fit.
    """
    counts: list[int] = []
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
        outside = [end for end in dict.fromkeys((low, high)) if not 1 <= end < MAX_CLASSES]
        problems += [Problem(OPTION, str(end), f"1 or more, and less than {MAX_CLASSES}") for end in outside]
        counts += [] if outside else range(low, high + 1)
    repeated = [count for count, times in sorted(Counter(counts).items()) if times > 1]
    if repeated:
        twice = f"{', '.join(map(str, repeated))} more than once"
        problems.append(Problem(OPTION, twice, "each number once"))
    return ((1,), problems) if problems else (tuple(sorted(counts)), [])


def option_problems(
    counts: Sequence[int], *, figure: Path | None, out: Path | None, overwrite: bool
) -> Iterator[Problem]:
    """Yield the problems of `--figure` and `--force`; the counts are empty if they are wrong."""
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
    """Draw the criterion, and BIC and ICL beside a log loss; the chosen number is marked."""
    from matplotlib.ticker import MaxNLocator

    from sweep_clustering.pipeline.looks import BLUE, GREY, PAPER, VERMILLION
    from sweep_clustering.pipeline.report import figures

    counts = [candidate.n_clusters for candidate in choice.candidates]
    chosen = counts.index(choice.chosen.n_clusters)
    has_loss, has_bic = choice.criterion != BIC, choice.criterion not in (FEWEST, CUTS)
    bic, icl = (
        [getattr(candidate.criteria, name) for candidate in choice.candidates] for name in ("bic", "icl")
    )
    with figures.house_style():
        figure, [panels] = figures.panels(1, has_loss + has_bic, PANEL)
        first, last = panels[0], panels[-1]
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4, "label": "log loss"}
        if has_loss:
            errors = [error for _, error in gains(choice.candidates)]
            first.errorbar(counts, choice.values, yerr=errors, elinewidth=1.0, capsize=2.5, **style)
            first.set(ylabel="log loss of an annotation, nats", title="held-out annotations: less is better")
        if has_bic:
            style = {"color": GREY if has_loss else BLUE, "markersize": 4}
            last.plot(counts, bic, marker="s", label="BIC", **style)
            style |= {"color": GREY, "linestyle": "--", "markerfacecolor": PAPER}
            last.plot(counts, icl, marker="^", label="ICL", **style)
            last.set(ylabel="criterion, nats", title="BIC and ICL: more is better")
        for axes in panels:
            axes.set_xlabel("number of clusters K")
            axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
            axes.grid(axis="y")
        label = f"taken: K = {counts[chosen]}"
        (ring,) = first.plot(counts[chosen], choice.values[chosen], color=VERMILLION, label=label)
        ring.set(marker="o", markersize=11, markerfacecolor="none", markeredgewidth=1.8, linestyle="")
        figures.legend(figure, panels)
    return figure


def picture(figure: Figure, path: Path) -> bytes:
    """Return a figure as the bytes of a file of the path's format, the same bits whenever it is made."""
    from sweep_clustering.pipeline.report import figures

    form, buffer = path.suffix[1:].lower(), io.BytesIO()
    with figures.house_style():
        dpi = figures.PNG_DPI if form == "png" else figures.IMAGE_DPI
        figure.savefig(buffer, format=form, dpi=dpi, metadata=figures.UNDATED[form])
    return buffer.getvalue()
