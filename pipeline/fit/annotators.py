"""Annotators as a fit sees them: two accuracies with their intervals, who is below chance, who was unsure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import betaincinv

from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.problem.data import (
    MUST,
    Estimates,
    Layer,
    estimate_accuracies,
    layer_weights,
    pair_accuracies,
)
from sweep_clustering.kernels.unions.race import alike
from sweep_clustering.sweeps.annotations.rows import AnnotationRows
from sweep_clustering.sweeps.annotations.samples import Samples

# Share of the posterior distribution that an interval leaves out on each side.
TAIL = 0.025

# Annotators that a line names.
SHOWN = 5


def estimate(layers: Sequence[Layer], fit: Fit) -> Estimates:
    """Estimate the accuracies of annotators that were not given, from the shares of the classes or labels."""
    columns, gaussians = [], fit.gaussians
    for layer in layers:
        pairs = np.asarray(layer.pairs, np.int64).reshape(-1, 2)
        is_used = (pairs[:, 0] != pairs[:, 1]) & np.isnan(pair_accuracies(layer))
        i, j = pairs[is_used].T
        together = 1.0 * (fit.labels[i] == fit.labels[j])
        if gaussians is not None and len(gaussians.classes):
            together = alike(gaussians, pairs[is_used])
        is_must = np.full(len(i), layer.kind == MUST)
        columns.append((np.full(len(i), layer.annotator), is_must, layer_weights(layer)[is_used], together))
    parts = columns or [(np.empty(0, np.int64), np.empty(0, bool), np.empty(0), np.empty(0))]
    annotators, is_must, weights, together = map(np.concatenate, zip(*parts, strict=True))
    return estimate_accuracies(annotators, is_must, weights, together)


def estimates_json(estimates: Estimates, names: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return by name the two accuracies with intervals of 95 %, and whether the annotator is below chance."""
    means = estimates.right / (estimates.right + estimates.wrong)
    bounds = betaincinv(estimates.right[..., None], estimates.wrong[..., None], (TAIL, 1.0 - TAIL))
    return {
        names[annotator]: {
            side: {"accuracy": float(means[row, column]), "interval": bounds[row, column].tolist()}
            for column, side in enumerate(("together", "apart"))
        }
        | {"below_chance": bool(means[row].sum() < 1.0)}
        for row, annotator in enumerate(estimates.annotators.tolist())
    }


def notes_on(estimates: Estimates, names: Sequence[str], fit: Fit) -> Iterator[str]:
    """Name the annotators below chance, whose answers a soft fit to annotations uses in reverse."""
    is_used = fit.gaussians is not None and fit.gaussians.structure.annotated
    used = fit.gaussians.accuracies if is_used and fit.gaussians is not None else {}
    accuracies = estimates.accuracies
    is_reversed = [sum(used.get(annotator, (0.5, 0.5))) < 1.0 for annotator in estimates.annotators.tolist()]
    reversed_ones = np.flatnonzero(is_reversed)
    if len(reversed_ones):
        words = [
            f"{names[estimates.annotators[row]]} ({accuracies[row, 0]:.2f} of pairs that belong together,"
            f" {accuracies[row, 1]:.2f} of others)"
            for row in reversed_ones[np.argsort(accuracies[reversed_ones].sum(axis=1), kind="stable")][:SHOWN]
        ]
        more = len(reversed_ones) - len(words)
        yield (
            f"right less often than by chance, and used in reverse: {', '.join(words)}"
            f"{f', and {more} more' if more else ''}"
        )


def judge_unsure(rows: AnnotationRows, samples: Samples) -> tuple[dict[str, object], list[str]]:
    """Count answers of annotators who were unsure, by annotator and by pair: for the JSON, and in a line."""
    columns, names = rows.columns, rows.annotators
    if not len(columns):
        return {"unsure": {"annotators": {}, "pairs": []}}, []
    ends = np.sort(np.column_stack([columns["first"], columns["second"]]), axis=1)
    pairs, place = np.unique(ends, axis=0, return_inverse=True)
    by_pair = np.bincount(place.ravel(), columns["count"])
    by_annotator = np.bincount(columns["annotator"], columns["count"], len(names))
    counts = {name: count for name, count in zip(names, by_annotator.tolist(), strict=True) if count}
    listed = [
        {"i": samples.identifier(i), "j": samples.identifier(j), "count": count}
        for (i, j), count in zip(pairs.tolist(), by_pair.tolist(), strict=True)
    ]
    most = sorted(counts, key=lambda name: -counts[name])
    words = ", ".join(f"{name} {counts[name]:.12g}" for name in most[:SHOWN])
    more = f", and {len(most) - SHOWN} more annotators" if len(most) > SHOWN else ""
    line = f"unsure     {by_pair.sum():.12g} answers about {len(pairs)} pairs, left out: {words}{more}"
    return {"unsure": {"annotators": counts, "pairs": listed}}, [line]
