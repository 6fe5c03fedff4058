"""Labels of rows beside the clusters of a fit: where each name mostly is, and what share agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.problem.data import matched_names
from sweep_clustering.kernels.settings import UNLABELLED
from sweep_clustering.sweeps.annotations.labels import RowLabels
from sweep_clustering.sweeps.errors import Problem, plural

# Names in the output for people, at most; the JSON has them all.
MOST_NAMES = 10


@dataclass(frozen=True, eq=False)
class Naming:
    """Names of clusters, by labels of rows.

    Parameters
    ----------
    labels : RowLabels
        Labels of the rows.
    counts : ndarray of shape (n_names, n_clusters)
        Rows of each name in each cluster.
    name_of : ndarray of shape (n_clusters,)
        Name of each cluster, one-to-one so that the most labels agree; `UNLABELLED` for one without a name.
    agrees : ndarray of shape (n_samples,), bool
        Whether a row has a label, which is the name of its cluster.
    """

    labels: RowLabels
    counts: NDArray[np.int64]
    name_of: NDArray[np.int64]
    agrees: NDArray[np.bool_]

    @classmethod
    def of(cls, labels: RowLabels, clusters: NDArray[np.integer], n_clusters: int) -> Naming:
        """Match names and clusters."""
        rows = labels.rows
        counts = np.zeros((len(labels.names), n_clusters), np.int64)
        np.add.at(counts, (labels.codes[rows], clusters[rows]), 1)
        name_of = matched_names(labels.codes, clusters, n_clusters)
        agrees = (labels.codes != UNLABELLED) & (name_of[clusters] == labels.codes)
        return cls(labels, counts, name_of, agrees)

    @property
    def agreement(self) -> float:
        """Share of the labels that are the name of the cluster of their row."""
        return float(self.agrees.sum()) / len(self.labels.rows)

    @property
    def cluster_names(self) -> list[str | None]:
        """Name of each cluster, or None."""
        return [self.labels.names[name] if name != UNLABELLED else None for name in self.name_of.tolist()]

    def lines(self) -> list[str]:
        """Return the same for people."""
        names, rows = self.labels.names, len(self.labels.rows)
        largest = [
            f"{name!r} {self.counts[code].max()} of {self.counts[code].sum()} in {self.counts[code].argmax()}"
            for code, name in enumerate(names[:MOST_NAMES])
        ]
        more = (
            f", and {len(names) - MOST_NAMES} more names (--json has all)" if len(names) > MOST_NAMES else ""
        )
        return [
            f"row labels {plural(rows, 'row')} of {len(self.labels.codes)},"
            f" {plural(len(names), 'name')}: {self.agreement:.1%} are the name of their cluster",
            f"           {', '.join(largest)}{more}",
        ]

    def to_json(self, identifiers: Sequence[str | int]) -> dict[str, Any]:
        """Return plain values; `identifiers` are the names or numbers of the rows."""
        disagreeing = np.flatnonzero((self.labels.codes != UNLABELLED) & ~self.agrees)
        names = self.labels.names
        return {
            "n_labelled": len(self.labels.rows),
            "agreement": self.agreement,
            "cluster_names": self.cluster_names,
            "names": {
                name: {"clusters": self.counts[code].tolist(), "cluster": int(self.counts[code].argmax())}
                for code, name in enumerate(names)
            },
            "disagreeing": [
                {"index": identifiers[row], "label": names[self.labels.codes[row]]}
                for row in disagreeing.tolist()
            ],
        }


def label_problems(
    where: str, option: str, labels: RowLabels, accuracy: float, n_clusters: int, *, is_open: bool
) -> list[Problem]:
    """Return the problems of labels beside the number of clusters and the accuracy.

    With an open number of clusters, `n_clusters` is the largest that there may be.
    """
    count, problems = len(labels.names), list[Problem]()
    if count > n_clusters:
        alone = [name for code, name in enumerate(labels.names) if (labels.codes == code).sum() == 1]
        single = ", ".join(repr(name[:60]) for name in alone[:MOST_NAMES])
        hint = f"labels of one row: {single}" if alone else "one cluster cannot have two names"
        expected = f"at most {n_clusters}, the {'possible' if is_open else 'number of'} clusters"
        problems.append(Problem(where, plural(count, "distinct label"), expected, hint))
    chance = 1.0 / max(count, 2)
    if accuracy <= chance:
        hint = "labels that are right no more often than by chance say nothing"
        problems.append(Problem(option, f"{accuracy:g}", f"more than {chance:.4g}, which is chance", hint))
    return problems
