"""The page of a cube: its sections, in order, in one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from pipeline.report.designs import section as designs
from pipeline.report.parts.html import render
from pipeline.report.parts.ink import house_style
from pipeline.report.parts.saving import SUFFIXES
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
from pipeline.report.winners.headline import lead

SECTIONS = (
    standing.section,
    designs.section,
    curves.section,
    scores.section,
    relative.section,
    index.section,
    robustness.section,
    duels.section,
    cost.section,
    against.section,
    curves.agreement,
    choices.section,
    cell.section,
    failures.section,
    restarts.section,
    times.section,
    heading.section,
)
"""Results first, what made them last: each makes its part of the page, or None where it has no place."""


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
    path.write_text(render(content.manifest.spec.name, sections, lead(content)), encoding="utf-8")
    pictures = [picture.name for section in sections for picture in section.pictures]
    return [path, *(content.figures / f"{name}.{suffix}" for name in pictures for suffix in SUFFIXES)]
