"""The page of a cube: its sections, in order, in one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from pipeline.report.designs import section as designs
from pipeline.report.parts.html import render
from pipeline.report.parts.ink import house_style
from pipeline.report.sections import (
    against,
    cell,
    choices,
    curves,
    failures,
    heading,
    index,
    relative,
    restarts,
    scores,
    times,
)
from pipeline.report.sections.content import Content
from pipeline.report.winners import cost, duels, robustness, standing

SECTIONS = (
    standing.section,
    duels.section,
    cost.section,
    robustness.section,
    designs.section,
    heading.section,
    failures.section,
    scores.section,
    against.section,
    curves.section,
    curves.agreement,
    relative.section,
    index.section,
    choices.section,
    cell.section,
    restarts.section,
    times.section,
)
"""Each makes its part of the page from the content, or None where it has no place."""


def write_page(content: Content, path: Path) -> list[Path]:
    """Write the page and its figures.

    Parameters
    ----------
    content : Content
        What to show.
    path : Path
        Of the page.

    Returns
    -------
    list of Path
        What was written.
    """
    with house_style():
        sections = [found for section in SECTIONS if (found := section(content)) is not None]
    path.write_text(render(content.manifest.spec.name, sections), encoding="utf-8")
    pictures = [picture.name for section in sections for picture in section.pictures]
    return [path, *(content.figures / f"{name}.{suffix}" for name in pictures for suffix in ("svg", "png"))]
