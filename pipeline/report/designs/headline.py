"""The line on designs under the title of a page: which one is best at which budget, of one model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.report.winners.findings import listed
from pipeline.scoring.ranking import ERRORS, ROUNDING
from pipeline.scoring.scores import LABELS
from pipeline.scoring.worth import DesignScores, Group
from sweeps.designs import UNIFORM

Best = tuple[str, ...]
"""Designs of the highest mean score: several where they are equal."""


def design_headline(found: Sequence[DesignScores]) -> tuple[str, ...]:
    """Say by the first score which design is best at each m and p, if one model alone uses the pairs.

    Parameters
    ----------
    found : sequence of DesignScores
        From `pipeline.scoring.worth.design_scores`.

    Returns
    -------
    tuple of str
        One sentence; none of several models, or of several data sets that have no mean.
    """
    if not found:
        return ()
    groups = tuple({id(each.group): each.group for each in found[0].shown_first}.values())
    if len({(group.title, group.model) for group in groups}) != 1:
        return ()
    label, model, title = LABELS[found[0].score].short, groups[0].model, groups[0].title
    parts = "; ".join(_places(groups))
    return (f"By {label} of {model}, {title}: {parts}. {_surely(groups)}",)


def _places(groups: Sequence[Group]) -> Iterator[str]:
    """Each design with where it is best, the one that is best most often first."""
    places: dict[Best, dict[float, list[str]]] = {}
    for group in groups:
        for count, best in zip(group.counts, _best(group), strict=True):
            places.setdefault(best, {}).setdefault(group.p, []).append(count)
    if len(places) == 1:
        yield f"{listed(next(iter(places)))} pairs are best at every m and p"
        return
    every = {group.p: len(group.counts) for group in groups}
    for best, there in sorted(places.items(), key=lambda item: -sum(map(len, item[1].values()))):
        said = [
            f"p = {p:g}" if len(counts) == every[p] else f"p = {p:g} with m = {listed(counts)}"
            for p, counts in there.items()
        ]
        yield f"{listed(best)} pairs are best at {', '.join(said)}"


def _best(group: Group) -> Iterator[Best]:
    """At each m."""
    means = {design: group.mean(design) for design in (UNIFORM, *group.chosen)}
    highest = np.max(list(means.values()), axis=0)
    for place, most in enumerate(highest):
        yield tuple(design for design, mean in means.items() if mean[place] >= most - ROUNDING)


def _surely(groups: Sequence[Group]) -> str:
    """At how many places another design is ahead of uniform pairs by more than chance."""
    total = sum(len(group.counts) for group in groups)
    beyond = 0
    for group in groups:
        ahead = np.zeros(len(group.counts), dtype=bool)
        for design in group.chosen:
            less, error = group.difference(design)
            ahead |= (less > ROUNDING) & (less > ERRORS * error)
        beyond += int(ahead.sum())
    at = f"at {beyond} of {total} such places"
    return f"Some chosen pairs are ahead of uniform ones by more than {ERRORS:g} paired standard errors {at}."
