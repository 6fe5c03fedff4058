"""Designs: how the pairs that are annotated are chosen."""

from __future__ import annotations

from collections.abc import Iterable

UNIFORM, BIASED = "uniform", "biased"

DRAWN = (UNIFORM, BIASED)
"""Designs whose pairs are drawn, all at once: of all samples alike, or of some of them more often."""

ASKED = {
    "active": "information",
    "uncertain": "uncertain",
    "anchors": "anchors",
    "again": "again",
    "farthest-first": "farthest-first",
    "committee": "committee",
}
"""Designs whose pairs are asked for, batch after batch, and the strategy of each (`pipeline.asking`)."""

DESIGNS = (*DRAWN, *ASKED)
"""All designs by name. A name stays: cubes hold it, and random streams depend on it."""

DEFAULT = (UNIFORM,)
"""The designs of a sweep that names none."""


def asks(design: str | None) -> bool:
    """Whether the pairs of a design are asked for; None is the design of a sweep that names none."""
    return design in ASKED


def asked_of(designs: Iterable[str]) -> tuple[str, ...]:
    """Those of some designs whose pairs are asked for."""
    return tuple(design for design in designs if asks(design))
