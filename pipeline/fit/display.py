"""A fitted estimator as a notebook shows it: its classes, how sure they are, and what to know before."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from sweep_clustering.pipeline.common import plural


def fit_html(estimator: Any) -> str:
    """Return the classes of a fitted `AnnotatedClustering` with their sizes, and its notes, as HTML."""
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
    shares = {who: share for who, share in estimator.annotator_accuracies_.items() if share is not None}
    agree = [f"{share:.0%} of the annotations of {who} agree" for who, share in shares.items()]
    below = [*agree, *(f"note: {note}" for note in estimator.notes_)]
    first, rest = (
        f"<p>{escape(f'{lead}: {made_of}')}</p>",
        "".join(f"<p>{escape(text)}</p>" for text in below),
    )
    return f"<div>{first}{table.to_html(index=False, border=0, justify='left')}{rest}</div>"
