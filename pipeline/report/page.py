"""The page of a cube: its sections, in order, in one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from pipeline.report.designs import section as designs
from pipeline.report.designs.headline import design_headline
from pipeline.report.parts.html import render
from pipeline.report.parts.ink import house_style
from pipeline.report.parts.saving import SUFFIXES
from pipeline.report.searches import section as searches
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
from pipeline.report.winners.headline import headline

SECTIONS = (
    standing.section,
    designs.section,
    searches.section,
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
    path.write_text(render(content.manifest.spec.name, sections, _lead(content)), encoding="utf-8")
    pictures = [picture.name for section in sections for picture in section.pictures]
    return [path, *(content.figures / f"{name}.{suffix}" for name in pictures for suffix in SUFFIXES)]


def _lead(content: Content) -> tuple[str, ...]:
    """What is found, after what it is found about where there are several designs or searches."""
    several = heading.of_one(content.manifest, content.chosen)
    found = (*headline(content.rankings), *design_headline(content.designs))
    return (*several, *found, " ".join(heading.state(content)))
