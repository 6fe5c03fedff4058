"""Annotators of a fit: what each is told apart by, and how each comes out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.problem import MUST, Layer
from sweeps.annotation_files import KIND_NAMES
from sweeps.links import Annotation

SHOWN = 5
"""Contradictions that people see; the JSON has them all."""


def annotator_names(annotations: Iterable[Annotation]) -> list[str]:
    """Names in the order they first appear."""
    return list(dict.fromkeys(annotation.annotator for annotation in annotations))


def annotator_layers(
    annotations: Sequence[Annotation], accuracies: Mapping[str, float], accuracy: float | None
) -> list[Layer]:
    """A layer for each annotator and kind, must-links first.

    Parameters
    ----------
    annotations : sequence of Annotation
        Of all files.
    accuracies : mapping of str to float
        Accuracy of each annotator that has one of its own.
    accuracy : float or None
        Accuracy of the others.
    """
    groups: dict[tuple[str, int], list[Annotation]] = {
        (name, kind): [] for name in annotator_names(annotations) for kind in KIND_NAMES
    }
    for annotation in annotations:
        groups[annotation.annotator, annotation.kind].append(annotation)
    return [_layer(own, accuracies.get(name, accuracy)) for (name, _), own in groups.items() if own]


def _layer(annotations: Sequence[Annotation], accuracy: float | None) -> Layer:
    pairs = np.array([(item.first, item.second) for item in annotations], dtype=np.int64)
    counts = np.array([item.count for item in annotations], dtype=np.float64)
    return Layer(annotations[0].kind, pairs, counts, accuracy)


@dataclass(frozen=True)
class Judgement:
    """How annotators come out of a fit.

    Parameters
    ----------
    accuracies : dict of str to (float or None)
        Share of each annotator's annotations that agrees with the partition, self pairs left out; None if
        there are no others.
    counts : dict of str to float
        Annotations of each annotator, self pairs included.
    contradictions : list of Annotation
        All that the partition contradicts, in the order of files and lines. A sample that cannot be linked
        with itself is among them.
    """

    accuracies: dict[str, float | None]
    counts: dict[str, float]
    contradictions: list[Annotation]

    def to_json(self) -> dict[str, Any]:
        """Plain values; samples and lines count from 1 and weights are those of the files."""
        return {
            "annotator_accuracies": self.accuracies,
            "contradictions": [_as_in_file(annotation) for annotation in self.contradictions],
        }

    def lines(self) -> list[str]:
        """A line for each annotator, and the first contradictions, for people."""
        if not self.counts:
            return []
        shown = [f"           {_text(annotation)}" for annotation in self.contradictions[:SHOWN]]
        beyond = len(self.contradictions) - len(shown)
        more = [f"           and {beyond} more (--json lists all)"] if beyond else []
        title = ["contradicted by the clusters"] if shown else []
        return [*map(self._line, self.counts), *title, *shown, *more]

    def _line(self, name: str) -> str:
        accuracy = self.accuracies[name]
        contradicted = sum(item.count for item in self.contradictions if item.annotator == name)
        found = "unknown" if accuracy is None else f"{accuracy:.3f}"
        counts = f"{contradicted:g} of {self.counts[name]:g} annotations contradicted"
        return f"annotator  {name}: accuracy {found}, {counts}"


def judge(annotations: Sequence[Annotation], labels: NDArray[np.integer]) -> Judgement:
    """Compare annotations with a partition.

    Parameters
    ----------
    annotations : sequence of Annotation
        Of all files.
    labels : ndarray of shape (n_samples,)
        The partition.
    """
    names = annotator_names(annotations)
    agreeing, others, counts = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    contradictions = []
    for item in annotations:
        agrees = (labels[item.first] == labels[item.second]) == (item.kind == MUST)
        counts[item.annotator] += item.count
        if not agrees:
            contradictions.append(item)
        if not item.is_self_pair:
            others[item.annotator] += item.count
            agreeing[item.annotator] += item.count * bool(agrees)
    accuracies = {name: agreeing[name] / others[name] if others[name] else None for name in names}
    return Judgement(accuracies, counts, contradictions)


def _as_in_file(annotation: Annotation) -> dict[str, Any]:
    return {
        "i": annotation.first + 1,
        "j": annotation.second + 1,
        "kind": KIND_NAMES[annotation.kind],
        "weight": annotation.weight,
        "annotator": annotation.annotator,
        "file": str(annotation.file),
        "line": annotation.line,
    }


def _text(annotation: Annotation) -> str:
    pair = f"{annotation.first + 1} {annotation.second + 1} {KIND_NAMES[annotation.kind]}"
    return f"{annotation.file}, line {annotation.line}: {pair} {annotation.weight:g} {annotation.annotator}"
