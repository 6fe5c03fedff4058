"""A guess at the CPU time of a sweep, before anything was timed."""

from __future__ import annotations

from kernels.settings import AUTO, FOLD_GENERATIONS, FOLDS
from pipeline.work.records import Work
from sweeps.file.search import Search
from sweeps.file.spec import SweepSpec
from sweeps.models import chooses, holds_out, is_model, shape_of
from sweeps.plan import Cell, DatasetPlan
from sweeps.shapes import CANDIDATES, DIMS

SEARCH_NANOSECONDS = 80.0
"""Rough cost of one sample in one cluster in one pass, for a prediction before anything was timed."""

CALL_SECONDS = 0.1
"""Of a call of a method, of which nothing is known before anything was timed."""


def rough_seconds(search: Search, plan: DatasetPlan, work: Work) -> float:
    """Guess the seconds of a cell: of its restarts, and before them of folds where it holds some out."""
    cell = work.cell
    if not is_model(cell.model):
        return (work.stop - work.start) * CALL_SECONDS
    moves = (plan.n_samples + 2 * (cell.m or 0)) * plan.n_clusters

    def one(shape: str, generations: int) -> float:
        searches = search.population + generations * search.offspring
        features = (1 + plan.n_features / 16) ** max(1, len(DIMS[shape]))
        return searches * moves * SEARCH_NANOSECONDS * 1e-9 * features

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
    return rough_seconds(spec.search, plan, Work(cell, 0, restarts))
