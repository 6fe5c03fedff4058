"""What a reader may conclude, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.scoring.ranking import ERRORS, FEWEST_DATASETS, FEWEST_MODELS, LEVEL, Ranking, least_p
from pipeline.scoring.scores import LABELS
from pipeline.text import plural

MOST_NAMES = 4
"""Of a list in a sentence."""
READING = (
    "How far this reaches: a score of a model on a data set is the mean over all p, m and draws at which"
    " every model has a result; a model without annotations has the same value at each of them. Ranks and"
    " tests are over data sets, each of which counts once: more cells, redraws or restarts make a score"
    " surer, not a ranking."
    " What is said holds for this grid of p and m and these settings, and beyond these data sets only as far"
    " as they stand for others; mixtures that differ in their number of clusters alone are of one kind. A"
    " model whose settings were tuned on these very data looks better than it is. A test that finds nothing"
    " does not say that models are equal, and one that finds a difference does not say that it matters: the"
    " scores do."
)


def findings(rankings: Sequence[Ranking]) -> tuple[str, ...]:
    """Plain words on who wins, a paragraph for each score.

    Parameters
    ----------
    rankings : sequence of Ranking
        From `pipeline.scoring.ranking.rankings`.
    """
    known = [ranking for ranking in rankings if ranking.common.models]
    if not known:
        return ("Nothing to compare: no cell of a data set with true labels is done.",)
    if all(len(ranking.common.models) == 1 for ranking in known):
        return (f"Nothing to compare: {known[0].common.models[0]} is the only model with a score.",)
    words = [" ".join(_of_score(ranking)) for ranking in known]
    return (*words, *_gaps(known[0]))


def comparable(rankings: Sequence[Ranking]) -> list[Ranking]:
    """Those of two or more models."""
    return [ranking for ranking in rankings if len(ranking.common.models) > 1]


def _of_score(ranking: Ranking) -> Iterator[str]:
    label = LABELS[ranking.score].short
    if not ranking.datasets:
        yield f"{label}: no data set has a score of every model, so there are no ranks."
        return
    ranks = ranking.mean_ranks
    first = [model for model in ranking.models if np.isclose(ranks[model], ranks.iloc[0])]
    count = plural(len(ranking.datasets), "data set")
    have = f"{first[0]} has" if len(first) == 1 else f"{listed(first)} share"
    yield f"{label}: {have} the best mean rank, {ranks.iloc[0]:.1f} of {len(ranks)}, over {count}"
    if len(first) == 1:
        good = int(ranking.as_good.loc[ranking.datasets, first[0]].sum())
        yield f"and the best score, or one within {ERRORS:g} paired standard errors of it, on {good} of them."
    else:
        yield "(the same)."
    yield from _of_test(ranking, first)


def _of_test(ranking: Ranking, first: list[str]) -> Iterator[str]:
    n_datasets, n_models = len(ranking.datasets), len(ranking.models)
    if not ranking.tested:
        yield (
            f"There is no test: {plural(n_datasets, 'data set')} cannot tell models apart, it takes"
            f" {FEWEST_DATASETS}. These are the scores of these data sets; nothing follows for others."
        )
        return
    if n_models >= FEWEST_MODELS:
        found = f"Friedman's test: χ² = {ranking.statistic:.1f}, {n_models - 1} degrees of freedom"
        if not ranking.differ:
            yield f"{found}, {p_text(ranking.p)}: it does not show that the models differ, in any order."
            return
        yield f"{found}, {p_text(ranking.p)}: the models do not all rank alike."
    pairs = ranking.pairs
    if not ranking.decisive:
        yield (
            f"It takes more data sets to say which: {n_datasets} cannot tell any of the {len(pairs)} pairs of"
            f" {n_models} models apart, as the least p they can give after Holm's correction is"
            f" {least_p(n_datasets, len(pairs)):.2g}."
        )
        return
    apart = int(pairs["different"].sum())
    few = "no pair" if not apart else f"{apart} of {plural(len(pairs), 'pair')}"
    yield f"Wilcoxon's signed ranks with Holm's correction tell {few} apart"
    beaten = pairs.loc[pairs["different"] & (pairs["a"] == first[0]), "b"].tolist()
    if len(first) == 1 and beaten:
        rest = n_models - 1 - len(beaten)
        beyond = f", not from the other {rest}" if rest else ""
        yield f"({LEVEL:g} in all): {first[0]} from {listed(beaten)}{beyond}."
    else:
        yield f"({LEVEL:g} in all)."


def _gaps(ranking: Ranking) -> Iterator[str]:
    """Sentences on what does not count, and how; none if everything is there."""
    if ranking.left_out and ranking.datasets:
        yield f"Not ranked: {listed(ranking.left_out)}, where some model has no score."
    values = ranking.common.values
    absent = [model for model in values["model"].unique() if model not in ranking.common.models]
    if absent:
        yield f"Without any score, and so not here: {listed(absent)}."
    counts = values[["no_solution", "failed", "pending"]].sum()
    if counts["no_solution"]:
        yield (
            f"{plural(int(counts['no_solution']), 'cell')} without a solution"
            f" {'counts' if counts['no_solution'] == 1 else 'count'} with a score of 0, that"
            " of all samples in one cluster."
        )
    missing = int(counts["failed"] + counts["pending"])
    if missing:
        yield (
            f"{plural(missing, 'cell')} failed or pending: where one model has no result, the others' cells"
            " at the same p, m and draw are left out too."
        )


def p_text(p: float) -> str:
    """A p as in a sentence."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first few of many."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
