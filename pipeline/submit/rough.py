"""A guess at the CPU time of a sweep, before anything was timed.

Powers of the sizes, fitted to restarts of both methods on the eight real data sets and on mixtures of 200 to
20,000 samples, 2 to 256 features and 2 to 32 clusters: `python -m benchmarks rough`.
"""

from __future__ import annotations

from kernels.settings import AUTO, FOLD_GENERATIONS, FOLDS
from pipeline.work.records import Work
from sweeps.file.search import Search
from sweeps.file.spec import SweepSpec
from sweeps.plan import Cell, DatasetPlan
from sweeps.shapes import CANDIDATES, DIMS
from sweeps.words import chooses, holds_out, is_model, shape_of, split_model

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


def rough_seconds(search: Search, plan: DatasetPlan, work: Work) -> float:
    """Guess the CPU seconds of a cell: of its restarts, and before them of folds where it holds some out."""
    cell = work.cell
    if not is_model(cell.model):
        return (work.stop - work.start) * CALL_SECONDS
    term = ANNOTATED if split_model(cell.model)[0] in ("likelihood", "posterior") else 1.0

    def one(shape: str, generations: int) -> float:
        if search.patience:
            generations = min(generations, round(PATIENT * search.patience * plan.n_clusters))
        searches: float = FIRST * search.population + generations * search.offspring
        wide = 1.0 + plan.n_features / 16.0
        features: float = wide**FEATURES
        if len(DIMS[shape]) > 1:
            features *= wide**MATRICES
        elif shape == "diagonal":
            features *= DIAGONAL
        size: float = plan.n_samples**SAMPLES * plan.n_clusters**CLUSTERS
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
    return rough_seconds(spec.search[0], plan, Work(cell, 0, restarts))
