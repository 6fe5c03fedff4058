"""How much work a sweep is, before it runs."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from kernels.problem.shapes import unused_priors
from kernels.settings import DEFAULT, FOLD_GENERATIONS, FOLDS, method_words
from pipeline.common import at_hand, plural, span
from pipeline.fit.data_notes import data_notes
from pipeline.run.request import Prepared
from pipeline.work.records import NO_ANSWERS, Failed, Science, Span, Task
from pipeline.work.tasks import run_task
from pipeline.work.timing import TIMED, Timing, target_seconds
from storage.cube.schema import ArraySpec, Role, array_specs
from storage.runfolder.records import Moment
from sweeps.errors import given
from sweeps.file.search import Search
from sweeps.file.spec import SweepSpec
from sweeps.plan import AskedPath, Cell, DatasetPlan
from sweeps.shapes import CANDIDATES, DIMS
from sweeps.words import AUTO, SPHERICAL, chooses, holds_out, is_model, shape_of, split_model

# What to know of a sweep before it is run: settings without effect, and data sets.


def search_notes(spec: SweepSpec) -> list[str]:
    """Settings that are given, but used by no model of the sweep."""
    shapes = list(dict.fromkeys(map(shape_of, spec.grid.models)))
    return [
        f"[search] {name} is not used by {', '.join(shapes)} covariances"
        for name in unused_priors(shapes)
        if any(getattr(search, name) != getattr(DEFAULT, name) for search in spec.search)
    ]


def sweep_notes(prepared: Prepared) -> dict[str, list[str]]:
    """Notes on the data sets of a sweep, by name; of mixtures the first is looked at."""
    inputs, is_bounded = prepared.inputs, all(each.variance_prior > 0 for each in prepared.spec.search)
    notes = {}
    for plan in inputs.plans:
        X, _ = inputs.sources[plan.name].arrays(0 if plan.mixtures else None)
        free = any(shape_of(model) in (SPHERICAL, AUTO) for model in (*plan.models, *plan.baselines))
        found = [
            *inputs.notes.get(plan.name, ()),
            *data_notes(X, plan.n_clusters, may_degenerate=free and not is_bounded),
        ]
        if found:
            notes[plan.name] = found
    return notes


def note_lines(of_search: Sequence[str], of_datasets: Mapping[str, Sequence[str]]) -> list[str]:
    """Notes of a sweep for people."""
    lines = [f"NOTE {text}" for text in of_search]
    return lines + [f"NOTE data set {name}: {text}" for name, texts in of_datasets.items() for text in texts]


# A guess at the CPU time of a sweep, before anything was timed.
#
# Powers of the sizes, fitted to restarts of both methods on the eight real data sets and on mixtures of
# 200 to 20,000 samples, 2 to 256 features and 2 to 32 clusters: `python -m benchmarks rough`.

SEARCH_SECONDS = 3.1e-8
"""Of the local search of an offspring with one sample, one cluster and hardly any feature."""

SAMPLES, CLUSTERS, FEATURES = 1.22, 1.27, 0.36
"""Powers of N, of K, and of 1 + D / 16."""

MATRICES = 1.85
"""Additional power of 1 + D / 16 for shapes with a full matrix."""

DIAGONAL, ANNOTATED = 1.5, 2.0
"""Factors of diagonal covariances, and of a model with a block model of its annotations."""

FIRST = 4.0
"""Offspring that a local search from a start at random is worth: it takes more passes."""

PATIENT = 0.25
"""Generations until a restart with patience ends, as a multiple of it, for each cluster: more take longer."""

CALL_SECONDS = 0.1
"""Of a call of a method, of which nothing is known before anything was timed."""


def rough_seconds(search: Search, plan: DatasetPlan, work: Span[Cell]) -> float:
    """Guess the CPU seconds of a cell: of its restarts, and before them of folds where it holds some out."""
    cell = work.unit
    if not is_model(cell.model):
        return (work.stop - work.start) * CALL_SECONDS
    term = ANNOTATED if split_model(cell.model)[0] in ("likelihood", "posterior") else 1.0

    size: float = plan.n_samples**SAMPLES * plan.n_clusters**CLUSTERS
    wide = 1.0 + plan.n_features / 16.0

    def one(shape: str, generations: int) -> float:
        if search.patience:
            generations = min(generations, round(PATIENT * search.patience * plan.n_clusters))
        searches: float = FIRST * search.population + generations * search.offspring
        diagonal = DIAGONAL if shape == "diagonal" else 1.0
        features: float = wide**FEATURES * (wide**MATRICES if len(DIMS[shape]) > 1 else diagonal)
        return searches * SEARCH_SECONDS * term * size * features

    short = min(search.generations, FOLD_GENERATIONS)
    tried = CANDIDATES if chooses(cell.model) else (shape_of(cell.model),)
    folds = FOLDS * sum(one(shape, short) for shape in tried) if holds_out(cell.model, search.held_out) else 0
    return (work.stop - work.start) * one(shape_of(cell.model), search.generations) + folds


def rough_batch_seconds(spec: SweepSpec, plan: DatasetPlan, answers: int) -> float:
    """Guess the seconds of a batch of questions: a fit of restarts, of folds, and of chains as long."""
    ask = spec.ask
    restarts = ask.restarts * (2 + (FOLDS if ask.covariance == AUTO else 0))
    model = "conditional" if ask.covariance == "spherical" else f"conditional-{ask.covariance}"
    cell = Cell(plan.name, 0 if plan.mixtures else None, plan.p[0], answers, 0, model)
    return rough_seconds(spec.search[0], plan, Span(cell, 0, restarts))


logger = logging.getLogger(__name__)


SUMMED = (
    *("cells", "restarts", "blocks", "files", "bytes", "core_hours", "worker_hours"),
    *("paths", "questions", "asking_hours"),
)

COLUMNS = (
    ("data set", "name", "<18", ""),
    ("N", "n_samples", ">7", ""),
    ("D", "n_features", ">5", ""),
    ("K", "n_clusters", ">4", ""),
    ("cells", "cells", ">9", ","),
    ("restarts", "restarts", ">11", ","),
    ("files", "files", ">7", ","),
    ("MB", "megabytes", ">9", ".1f"),
    ("s/restart", "seconds_per_restart", ">11", ".3g"),
    ("core-h", "core_hours", ">9", ".3g"),
)
"""Of the table for people: head, value, place in the line, and form."""


@dataclass(frozen=True)
class PlanOverview:
    """The work of a sweep.

    Parameters
    ----------
    prepared : Prepared
        The sweep.
    datasets : list of dict
        Work of each data set that is available; times are measured, or rough guesses where nothing was timed.
        `seconds_per_restart` and `worker_hours` are time that passes for a worker, `core_hours` CPU time.
        Questions are counted in whole batches; both include them, and the `asking_hours` are their CPU time.
    workers, batches : int
        Batches depend on the number of workers.
    timed : bool
        Whether times were measured; otherwise they are rough.
    moment : Moment or None
        When, and where; None for rough ones, and for a file that does not say.
    measured_now : bool
        Whether that was for this plan.
    """

    prepared: Prepared
    datasets: list[dict[str, Any]]
    workers: int
    batches: int
    timed: bool
    moment: Moment | None
    measured_now: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with totals; `least` is the share of restarts that are run in any case."""
        spec, skipped = self.prepared.spec, self.prepared.inputs.skipped
        searches = [
            {"method": method_words(each)}
            | ({} if each.name is None else {"name": each.name})
            | {**vars(each.settings), "held_out": each.held_out}
            for each in spec.search
        ]
        return {
            "name": spec.name,
            "cube": str(self.prepared.cube),
            "datasets": self.datasets,
            "skipped": {name: list(reasons) for name, reasons in skipped.items()},
            "at_hand": at_hand(spec, skipped),
            "notes": sweep_notes(self.prepared),
            "search": searches[0] if len(searches) == 1 else searches,
            "search_notes": search_notes(spec),
            "workers": self.workers,
            "batches": self.batches,
            "timed": self.timed,
            "moment": None if self.moment is None else self.moment._asdict(),
            "measured_now": self.measured_now,
            "least": 1.0 if spec.stop is None else spec.stop.r_min / spec.grid.restarts,
            "total": {key: sum(each[key] for each in self.datasets) for key in SUMMED},
        }

    def lines(self) -> list[str]:
        """Table for people."""
        plan = self.to_dict()
        total, least = plan["total"], plan["least"]
        kind = " of restarts" if total["paths"] else ""
        work = f"{plural(self.batches, 'batch', 'batches')}{kind} for {plural(self.workers, 'worker')}"
        time = _hours(total["worker_hours"] / self.workers)
        searches = [
            f"search{'' if each.name is None else ' ' + each.name}: "
            + ", ".join(f"{key} {value}" for key, value in each.named().items())
            for each in self.prepared.spec.search
        ]
        lines = [
            "".join(f"{head:{place}}" for head, _, place, _ in COLUMNS),
            *map(_row, (*plan["datasets"], {"name": "total", **total})),
            f"{work}, about {time} in all ({self._how()})",
        ]
        if least < 1:
            few = math.ceil(least * total["restarts"])
            short = least * (total["core_hours"] - total["asking_hours"]) + total["asking_hours"]
            lines.append(f"at most: the adaptive stop may end after {few:,} restarts, {short:.3g} core-h")
        if total["paths"]:
            asked = f"{total['questions']:,} questions to ask in {total['paths']:,} paths"
            lines.append(f"{asked}, {total['asking_hours']:.3g} core-h of these")
        return [
            *lines,
            *searches,
            f"results: {self.prepared.cube}",
            *filter(None, [plan["at_hand"]]),
            *note_lines(plan["search_notes"], plan["notes"]),
        ]

    def _how(self) -> str:
        """Where the times come from, in words."""
        if not self.timed:
            return "rough, within a factor of two; --pilot measures"
        if self.moment is None:
            return "timed by an earlier run; --pilot measures now"
        busy = f"at a load of {self.moment.load:.1f} for each core"
        if self.measured_now:
            return f"measured now, {busy}"
        return f"timed {span(self.moment.age)} ago on {self.moment.host}, {busy}; --pilot measures now"


def plan_overview(prepared: Prepared, *, workers: int | None = None, pilot: bool = False) -> PlanOverview:
    """Count the work of a sweep.

    Parameters
    ----------
    prepared : Prepared
        The sweep.
    workers : int or None
        Worker processes to plan for; None for one on each core.
    pilot : bool
        Time a restart at the corners of each grid, now and in this process. Otherwise timings of an earlier
        run are taken, and a rough guess where there are none.

    Returns
    -------
    PlanOverview
    """
    workers = workers or len(os.sched_getaffinity(0))
    timing = Timing() if pilot else Timing.load(prepared.run)
    if pilot:
        _time_corners(prepared, timing)
    datasets = [_dataset(prepared, plan, timing) for plan in prepared.inputs.plans]
    length = target_seconds(3600 * sum(each["worker_hours"] for each in datasets), workers)
    batches = 0
    for each in datasets:
        long = max(1, math.floor(length / max(each["seconds_per_restart"], 1e-9)))
        batches += math.ceil(each["restarts"] / long)
    timed = not any(timing.missing(plan) for plan in prepared.inputs.plans)
    moment = timing.moment if timed else None
    return PlanOverview(prepared, datasets, workers, batches, timed, moment, measured_now=pilot)


def _time_corners(prepared: Prepared, timing: Timing) -> None:
    from kernels.search.genetic import warm_up

    warm_up()
    for plan in prepared.inputs.plans:
        science = Science.of(prepared.spec, plan, prepared.methods)
        source = prepared.inputs.sources[plan.name]
        # with pairs drawn uniformly: nothing is kept, and how they are chosen hardly changes the time
        spans = tuple(Span(replace(cell, design=None), 0, 1) for cell in timing.missing(plan))
        for result in run_task(Task(science, plan.name, spans, 0.0), source):
            if not isinstance(result, Failed):
                timing.note(result)
            elif is_model(result.span.unit.model):
                raise RuntimeError(f"{result.span}: {result.cause}")
            else:
                logger.warning("%s failed, and is taken to last a second: %s", result.span, result.cause)
        for path in timing.missing_paths(plan):
            span = replace(_questions_of(path, plan, science), answers=NO_ANSWERS)
            first = replace(span, stop=min(span.stop, TIMED * span.step))
            for result in run_task(Task(science, plan.name, (first,), 0.0), source):
                if isinstance(result, Failed):
                    raise RuntimeError(f"{path}: {result.cause}")
                timing.note(result)


def _questions_of(path: AskedPath, plan: DatasetPlan, science: Science) -> Span[AskedPath]:
    """All questions of a path, in whole batches."""
    batch = given(science.asking).batch
    return Span(path, 0, -(-max(plan.m) // batch) * batch, step=batch)


ALIKE = ("mixture", "design", "replicate")
"""Dimensions along which cells are predicted to last equally long."""


def _dataset(prepared: Prepared, plan: DatasetPlan, timing: Timing) -> dict[str, Any]:
    is_measured = not timing.missing(plan)
    seconds = cpu_seconds = 0.0
    for node in plan.nodes:
        cells = list(node.cells({dim.name: dim.values[:1] for dim in node.dims if dim.name in ALIKE}))
        alike = node.n_cells // len(cells)
        for cell in cells:
            work = Span(cell, 0, plan.restarts_of(cell.model))
            if is_measured:
                seconds += alike * timing.seconds(work)
                cpu_seconds += alike * timing.seconds(work, of_cpu=True)
            else:
                rough = alike * rough_seconds(prepared.spec.search_of(cell.search), plan, work)
                seconds, cpu_seconds = seconds + rough, cpu_seconds + rough
    specs = array_specs(plan)
    chunks = (math.prod(map(math.ceil, np.divide(spec.shape, spec.chunks))) for spec in specs)
    questions, asking, asking_cpu = _questions(prepared, plan, timing)
    return {
        "name": plan.name,
        "n_samples": plan.n_samples,
        "n_features": plan.n_features,
        "n_clusters": plan.n_clusters,
        "cells": plan.n_cells,
        "restarts": plan.n_restarts,
        "blocks": sum(1 for _ in plan.blocks()),
        "files": len({spec.node for spec in specs}) + len(specs) + sum(chunks),
        "bytes": sum(_bytes(spec) for spec in specs),
        "seconds_per_restart": seconds / plan.n_restarts,
        "core_hours": (cpu_seconds + asking_cpu) / 3600,
        "worker_hours": (seconds + asking) / 3600,
        "paths": plan.n_paths,
        "questions": questions,
        "asking_hours": asking_cpu / 3600,
    }


def _questions(prepared: Prepared, plan: DatasetPlan, timing: Timing) -> tuple[int, float, float]:
    """Questions to be asked about a data set, in whole batches, and the seconds: elapsed, and of CPU."""
    if not plan.asked:
        return 0, 0.0, 0.0
    science = Science.of(prepared.spec, plan)
    paths = plan.n_paths // (len(plan.p) * len(plan.asked))
    is_timed = not timing.missing_paths(plan)
    seconds, cpu_seconds, questions = 0.0, 0.0, 0
    for p, design in product(plan.p, plan.asked):
        path = AskedPath(plan.name, 0 if plan.mixtures else None, p, 0, design)
        span = _questions_of(path, plan, science)
        questions += paths * span.size
        if is_timed:
            each, cpu = timing.seconds(span), timing.seconds(span, of_cpu=True)
        else:
            batches = span.size // span.step
            each = cpu = batches * rough_batch_seconds(prepared.spec, plan, max(plan.m) // 2)
        seconds += paths * each
        cpu_seconds += paths * cpu
    return questions, seconds, cpu_seconds


def _bytes(spec: ArraySpec) -> int:
    """Size before compression."""
    if spec.variable.role is Role.COORDINATE or spec.variable.dtype == "string":
        return 8 * math.prod(spec.shape)
    return math.prod(spec.shape) * np.dtype(spec.variable.dtype).itemsize


def _row(record: Mapping[str, Any]) -> str:
    values = {"megabytes": record["bytes"] / 1e6, **record}
    shown = ((format(values[key], form) if key in values else "", place) for _, key, place, form in COLUMNS)
    return "".join(f"{text:{place}}" for text, place in shown)


def _hours(hours: float) -> str:
    if hours < 0.1:
        return plural(max(1, round(hours * 3600)), "second")
    return f"{hours * 60:.0f} minutes" if hours < 2 else f"{hours:.1f} hours"
