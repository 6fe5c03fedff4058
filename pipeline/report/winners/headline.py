"""The line of findings under the title of a page: which model is best, and how sure that is."""

from __future__ import annotations

from pipeline.report.winners.findings import comparable, listed
from pipeline.scoring.ranking import Ranking
from pipeline.scoring.scores import LABELS
from pipeline.text import plural


def headline(rankings: tuple[Ranking, ...]) -> tuple[str, ...]:
    """The best model by the first score that ranks, beside the second and the last, and what a test says.

    Parameters
    ----------
    rankings : tuple of Ranking
        From `pipeline.scoring.ranking.rankings`.

    Returns
    -------
    tuple of str
        One sentence; none without two models that have ranks.
    """
    ranked = [ranking for ranking in comparable(rankings) if ranking.datasets]
    return (_sentence(ranked[0]),) if ranked else ()


def _sentence(ranking: Ranking) -> str:
    label, means = LABELS[ranking.score].short, ranking.means.mean()
    first, *others = ranking.models
    best = float(ranking.mean_ranks.iloc[0])
    shared = [model for model in ranking.models if abs(ranking.mean_ranks[model] - best) < 1e-9]
    over = plural(len(ranking.datasets), "data set")
    scores = f"mean {label} {means[first]:.3f} over {over}"
    if len(shared) > 1:
        said = (
            f"{listed(shared)} share the best mean rank ({', '.join(f'{means[m]:.3f}' for m in shared[:4])})"
        )
        return f"By {label} {said} over {over}; {_surely(ranking)}."
    rest = [f"{means[model]:.3f} of {model}" for model in dict.fromkeys((others[0], others[-1]))]
    return f"{first} ranks best: {scores}, against {' and '.join(rest)}; {_surely(ranking)}."


def _surely(ranking: Ranking) -> str:
    """What a test over data sets makes of it."""
    if not ranking.tested:
        return "too few data sets for a test, so this holds for them alone"
    pairs = ranking.pairs
    apart = int((pairs["different"] & (pairs["a"] == ranking.models[0])).sum())
    others = len(ranking.models) - 1
    if not apart:
        return "a test over data sets does not tell it from any other model"
    return f"a test over data sets tells it from {apart} of {plural(others, 'other model')}"
