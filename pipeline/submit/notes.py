"""What to know of the data sets of a sweep before trusting any solution of them."""

from __future__ import annotations

from pipeline.fit.data_notes import data_notes
from pipeline.prepare.sweep import Prepared
from sweeps.models import AUTO, SPHERICAL, shape_of


def sweep_notes(prepared: Prepared) -> dict[str, list[str]]:
    """Notes on the data sets of a sweep, by name; of mixtures the first is looked at."""
    inputs, is_bounded = prepared.inputs, prepared.spec.search.variance_prior > 0
    notes = {}
    for plan in inputs.plans:
        X, _ = inputs.sources[plan.name].arrays(0 if plan.mixtures else None)
        free = any(shape_of(model) in (SPHERICAL, AUTO) for model in (*plan.models, *plan.baselines))
        found = list(data_notes(X, plan.n_clusters, may_degenerate=free and not is_bounded))
        if found:
            notes[plan.name] = found
    return notes


def note_lines(notes: dict[str, list[str]]) -> list[str]:
    """Notes of a sweep for people."""
    return [f"NOTE data set {name}: {text}" for name, texts in notes.items() for text in texts]
