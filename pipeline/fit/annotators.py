"""Annotators of a fit: the layers made for each, and how far the solution agrees with each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.problem.problem import MUST, Layer, inferred_accuracies
from sweeps.annotations.files import KIND_NAMES, Annotation, Samples

SHOWN = 5
"""Contradictions that people see; the JSON has them all."""


def annotator_names(annotations: Iterable[Annotation]) -> list[str]:
    """Names in the order they first appear."""
    return list(dict.fromkeys(annotation.annotator for annotation in annotations))


def annotator_layers(
    annotations: Sequence[Annotation], accuracies: Mapping[str, float], accuracy: float | None
) -> list[Layer]:
    """A layer for each annotator and kind, must-links first; annotators are numbered as they appear.

    Parameters
    ----------
    annotations : sequence of Annotation
        Of all files.
    accuracies : mapping of str to float
        Accuracy of each annotator that has one of its own; those of lines come first.
    accuracy : float or None
        Accuracy of the others.
    """
    names = annotator_names(annotations)
    groups: dict[tuple[str, int], list[Annotation]] = {
        (name, kind): [] for name in names for kind in KIND_NAMES
    }
    for annotation in annotations:
        groups[annotation.annotator, annotation.kind].append(annotation)
    return [
        _layer(own, accuracies.get(name, accuracy), names.index(name))
        for (name, _), own in groups.items()
        if own
    ]


def _layer(annotations: Sequence[Annotation], accuracy: float | None, number: int) -> Layer:
    pairs = np.array([(item.first, item.second) for item in annotations], dtype=np.int64)
    counts = np.array([item.count for item in annotations], dtype=np.float64)
    of_lines = np.array([item.accuracy for item in annotations], dtype=np.float64)  # None becomes NaN
    own = None if np.isnan(of_lines).all() else of_lines
    return Layer(annotations[0].kind, pairs, counts, accuracy, own, number)


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
    samples : Samples or None
        What samples are called; by their numbers from 1 without it.
    """

    accuracies: dict[str, float | None]
    counts: dict[str, float]
    contradictions: list[Annotation]
    samples: Samples | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; lines, and samples without names, count from 1 and weights are those of the files."""
        return {
            "annotator_accuracies": self.accuracies,
            "contradictions": [self._as_in_file(annotation) for annotation in self.contradictions],
        }

    def lines(self) -> list[str]:
        """A line for each annotator, and the first contradictions, for people."""
        if not self.counts:
            return []
        shown = [f"           {self._text(annotation)}" for annotation in self.contradictions[:SHOWN]]
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

    def _told(self, sample: int) -> str | int:
        return sample + 1 if self.samples is None else self.samples.told(sample)

    def _as_in_file(self, annotation: Annotation) -> dict[str, Any]:
        return {
            "i": self._told(annotation.first),
            "j": self._told(annotation.second),
            "kind": KIND_NAMES[annotation.kind],
            "weight": annotation.weight,
            "annotator": annotation.annotator,
            "file": str(annotation.file),
            "line": annotation.line,
        }

    def _text(self, annotation: Annotation) -> str:
        pair = f"{self._told(annotation.first)} {self._told(annotation.second)} {KIND_NAMES[annotation.kind]}"
        place = f"{annotation.file}, line {annotation.line}"
        return f"{place}: {pair} {annotation.weight:g} {annotation.annotator}"


def judge(
    annotations: Sequence[Annotation], labels: NDArray[np.integer], samples: Samples | None = None
) -> Judgement:
    """Compare annotations with a partition.

    Parameters
    ----------
    annotations : sequence of Annotation
        Of all files.
    labels : ndarray of shape (n_samples,)
        The partition.
    samples : Samples, optional
        What samples are called.
    """
    names = annotator_names(annotations)
    shares = inferred_accuracies(annotator_layers(annotations, {}, None), labels)
    accuracies = {name: None if math.isnan(shares[n]) else shares[n] for n, name in enumerate(names)}
    counts = dict.fromkeys(names, 0.0)
    for item in annotations:
        counts[item.annotator] += item.count
    contradictions = [item for item in annotations if not _agrees(item, labels)]
    return Judgement(accuracies, counts, contradictions, samples)


def _agrees(annotation: Annotation, labels: NDArray[np.integer]) -> bool:
    together = labels[annotation.first] == labels[annotation.second]
    return bool(together == (annotation.kind == MUST))
