"""What people call the columns of a table of cells, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Label:
    """Words for one column.

    Parameters
    ----------
    short : str
        For the head of a table.
    axis : str
        For an axis, with the unit.
    better : int
        1 if more is better, -1 if less is, 0 if neither.
    """

    short: str
    axis: str
    better: int


LABELS = {
    "nmi": Label("NMI", "NMI (0 to 1)", 1),
    "relative_nmi": Label("relative NMI", "NMI above the baseline", 1),
    "goldberger_kl": Label("KL, nats", "KL divergence (nats)", -1),
    "centroid_index": Label("centroid index", "centroid index (clusters)", -1),
    "annotation_agreement": Label("agreement", "correct (share)", 1),
    "objective": Label("objective, nats", "objective (nats)", 1),
    "seconds": Label("seconds", "time in kernels (s)", -1),
    "restarts_done": Label("restarts", "restarts (number)", 0),
    "hits": Label("hits", "restarts that found the best (number)", 0),
}
"""Scores in the order of `pipeline.scoring.tables.SCORES`, then what a cell took."""
