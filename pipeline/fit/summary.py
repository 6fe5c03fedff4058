"""A fit as people see it: in lines, the result first and all details on request, and in a notebook.

`result_lines` gives the classes, what they are, how certain they are and what the answers say to them;
`detail_lines` gives the rest. The command puts warnings and the next steps behind them. `fit_html` is what a
notebook shows of an estimator.
"""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TextIO

import numpy as np

from sweep_clustering.kernels.choice import COIN
from sweep_clustering.kernels.settings import MODEL_ANY, method_words
from sweep_clustering.pipeline.common import SAME_OPTIMUM, plural
from sweep_clustering.pipeline.fit.alarms import predicted_words
from sweep_clustering.pipeline.fit.counts import ClusterChoice
from sweep_clustering.pipeline.fit.inputs import FitInputs, Judgement, Naming
from sweep_clustering.pipeline.fit.solve import AGREEMENT, FitResult, Unannotated, score_words

# Width of the first part of a line, which says what it is about, and of a whole line.
HEAD = 11
WIDTH = 100

# Classes that the table lists, all up to this number, or the largest of more.
MOST_CLASSES = 10
LARGEST = 5

# Candidates for classes of any shape in the details; the JSON has them all.
MOST_SHOWN = 5


@dataclass(frozen=True, eq=False)
class FitSummary:
    """A fit with everything that people read about it."""

    result: FitResult
    inputs: FitInputs
    judgement: Judgement
    choice: ClusterChoice | None = None
    naming: Naming | None = None
    baselines: Sequence[Unannotated] = ()
    unsure: Sequence[str] = ()
    accuracies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def result_lines(self) -> Iterator[str]:
        """Yield the classes, what they are and how certain they are."""
        result, inputs = self.result, self.inputs
        n_classes = len(result.best.sizes)
        yield f"{'classes':<{HEAD}}{n_classes} ({plural(len(inputs.X), 'row')})"
        yield from self._table()
        if self.choice is not None:
            yield from paragraph(f"number     {self.choice.reason}")
        name = "" if result.model == MODEL_ANY else f"{result.model}: "
        yield from paragraph(f"model      {name}{result.words}")
        yield from paragraph(f"certainty  {self._certainty}")
        if inputs.labels_true is not None:
            yield f"{'truth':<{HEAD}}{score_words({name: result.scores[name] for name in AGREEMENT})}"
            yield from (f"{'':<{HEAD}}{baseline}" for baseline in self.baselines)
        yield from self.judgement.lines
        yield from inputs.lines()
        yield from self.naming.lines()[:1] if self.naming is not None else ()
        yield from self.unsure

    def _table(self) -> Iterator[str]:
        sizes, names = self.result.best.sizes, self.naming.cluster_names if self.naming else None
        total = int(sizes.sum())
        numbers = np.arange(len(sizes))
        if len(sizes) > MOST_CLASSES:
            numbers = np.argsort(-sizes, kind="stable")[:LARGEST]
        yield f"{'':<{HEAD}}class   rows   share{'   name' if names else ''}"
        for number in numbers.tolist():
            name = f"   {names[number] or '-'}" if names else ""
            yield f"{'':<{HEAD}}{number:>5}{sizes[number]:>7,}{sizes[number] / total:>8.1%}{name}"
        other_sizes = np.delete(sizes, numbers)
        if len(other_sizes):
            low, high = int(other_sizes.min()), int(other_sizes.max())
            rows = f"{plural(high, 'row')} each" if low == high else f"{low:,} to {high:,} rows"
            yield f"{'':<{HEAD}}and {len(other_sizes):,} more with {rows}"

    @property
    def _certainty(self) -> str:
        result = self.result
        parts = [result.foresight] if result.foresight else []
        if result.confidence is not None:
            parts.append(result.confidence.words)
        if not result.foresight:
            objectives = result.restart_objectives
            if len(objectives) > 1:  # an average, and a restart alone, have none to agree with
                hits = int((objectives >= result.best.objective - SAME_OPTIMUM).sum())
                parts.append(f"{hits} of {len(objectives)} restarts found this solution")
            parts.append("no answers were held out to test it")
        return "; ".join(parts)

    def detail_lines(self, assumed: float | None) -> Iterator[str]:
        """Yield all other numbers, for `-v`; the model may have assumed an accuracy."""
        result = self.result
        best, objectives, settings = result.best, result.restart_objectives, result.settings
        of_union = result.solution is not None
        yield from self.choice.lines(assumed) if self.choice is not None else ()
        weight = "" if result.feature_weight == 1 else f", features of weight {result.feature_weight:.4g}"
        yield (
            f"objective  {best.objective:.4f} nats, model {result.model!r}, {result.structure}"
            f"{weight} (gmm {best.gmm:.4f}, sbm {best.sbm:.4f}, prior {best.prior:.4f})"
        )
        if not of_union:
            yield (
                f"search     {method_words(settings)}: population {settings.population},"
                f" {settings.offspring} offspring, {settings.generations} generations, patience"
                f" {settings.patience}"
            )
        if len(objectives) > 1:
            hits = int((objectives >= best.objective - SAME_OPTIMUM).sum())
            yield f"restarts   best {result.best_restart} of {len(objectives)}, {hits} as good"
        elif not result.n_averaged:
            yield "restarts   one, which does not show whether another finds a better solution"
        # one for each cluster, the mean over features where they differ
        variances = [
            (variance.diagonal() if variance.ndim == 2 else variance).mean() for variance in best.covariances
        ]
        yield f"variances  {' '.join(f'{variance:.4g}' for variance in variances)}"
        if scores := score_words(result.scores):
            yield f"scores     {scores}"
        predictions = dict(list(result.held_out.items())[: MOST_SHOWN if of_union else None])
        for number, (shape, held_out) in enumerate(predictions.items()):
            words = predicted_words(held_out, result.base_rate)
            yield f"{'' if number else 'predicted':<11}{words}, {shape}{'' if of_union else ' covariance'}"
        if result.base_rate is not None:
            loss = result.base_rate.log_loss
            than_coin = "" if loss <= COIN else f"; a coin has {COIN:.4f}"
            yield f"           log loss {loss:.4f} nats, by how often they are must-links alone{than_coin}"
        if result.skill is not None:
            distance, joint = result.skill.distance.log_loss, result.skill.with_distance.log_loss
            yield f"           log loss {distance:.4f} nats, by distance alone; {joint:.4f} with the clusters"
        yield from self.naming.lines()[1:] if self.naming is not None else ()
        for name, sides in self.accuracies.items():
            must_share, cannot_share = (
                "{:.2f} ({:.2f} to {:.2f})".format(sides[side]["accuracy"], *sides[side]["interval"])
                for side in ("together", "apart")
            )
            texts = f"{must_share} of pairs that belong together, {cannot_share} of others"
            yield f"estimate   {name}: right for {texts}"
        yield from self.judgement.details
        yield from result.confidence.lines() if result.confidence else ()
        if of_union:
            work = f"{plural(result.evaluations, 'step')} of {plural(result.local_searches, 'fit')}"
        else:
            searches = plural(result.local_searches, "local search", "local searches")
            work = f"{searches}, {plural(result.evaluations, 'candidate relocation')}"
        yield f"solver     {result.seconds:.3f} s, {work}"
        if result.caps_reached and not of_union:
            yield f"note       {plural(result.caps_reached, 'loop')} ended at the limit of passes"


def paragraph(line: str, stream: TextIO | None = None) -> list[str]:
    """Return a text behind its head, in lines that fit on the terminal of stdout, or of another stream."""
    is_terminal = (stream or sys.stdout).isatty()
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns) if is_terminal else WIDTH
    lines = textwrap.wrap(
        line, width, subsequent_indent=" " * HEAD, break_long_words=False, break_on_hyphens=False
    )
    return lines or [""]


def fit_html(estimator: Any) -> str:
    """Return the classes of a fitted `AnnotatedClustering` with their sizes, and its notes, as HTML."""
    import pandas as pd  # `sweep fit` may do without

    sizes, names = estimator.sizes_, estimator.cluster_names_
    table = pd.DataFrame({"class": range(len(sizes)), "samples": sizes})
    table["share"] = [f"{size / sizes.sum():.0%}" for size in sizes]
    if any(name is not None for name in names):
        table.insert(1, "name", ["" if name is None else name for name in names])
    if hasattr(estimator, "confidence_"):
        means = pd.Series(estimator.confidence_).groupby(estimator.labels_).mean()
        table["mean confidence"] = [f"{means.get(label, float('nan')):.2f}" for label in table["class"]]
    lead = f"{plural(len(sizes), 'class', 'classes')} of {plural(int(sizes.sum()), 'sample')}"
    made_of = estimator.choice_ or f"{estimator.covariance_} covariance"
    shares = {name: share for name, share in estimator.annotator_accuracies_.items() if share is not None}
    agree = [f"{share:.0%} of the annotations of {name} agree" for name, share in shares.items()]
    notes = [*agree, *(f"note: {note}" for note in estimator.notes_)]
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in notes)
    html = table.to_html(index=False, border=0, justify="left")
    return f"<div><p>{escape(f'{lead}: {made_of}')}</p>{html}{paragraphs}</div>"
