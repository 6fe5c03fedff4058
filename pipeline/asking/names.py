"""The strategies by name, with what each asks: commands check and show them before a compiler is loaded."""

from __future__ import annotations

NAMES = {
    "information": "the pairs whose answers together say the most of who belongs together",
    "uncertain": "those whose answers are hardest to predict, each taken alone",
    "anchors": "a doubtful row against a sure one of its likeliest cluster",
    "again": "answered pairs whose answers are in doubt, once more",
    "farthest-first": "rows far apart, to find clusters and their members",
    "committee": "pairs on which fits to resampled answers disagree",
    "uniform": "any pairs",
}
"""Strategies of `pipeline.asking.strategies.STRATEGIES`, in the same order."""
