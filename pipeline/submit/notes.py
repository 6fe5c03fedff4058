"""What to know of a sweep before it is run: settings without effect, and data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernels.problem.shapes import unused_priors
from kernels.settings import DEFAULT
from pipeline.fit.data_notes import data_notes
from pipeline.run.request import Prepared
from sweeps.file.spec import SweepSpec
from sweeps.words import AUTO, SPHERICAL, shape_of


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
