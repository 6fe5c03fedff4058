"""Annotated pairs as fits of unions of Gaussians see them: both ways, in an order of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.problem.data import MUST, Floats, Layer, layer_weights, pair_accuracies, pair_numbers

# An accuracy is taken for no surer than this: mean fields do not come back from what they took for certain.
UNSURE = 1e-3


class Links(NamedTuple):
    """Annotated pairs both ways, in an order that does not depend on that of the annotations."""

    row_start: NDArray[np.int64]  # these seven as of `components.Observed`
    partners: NDArray[np.int32]
    entries: NDArray[np.int32]
    pairs: NDArray[np.int32]
    signed: Floats
    odds: Floats
    sources: NDArray[np.int32]
    annotators: tuple[int, ...]  # those whose accuracy is to be found


def link(layers: Sequence[Layer], n_samples: int) -> Links:
    """Lay annotations out for the kernels.

    Parameters
    ----------
    layers : sequence of Layer
        Annotations; those of a sample with itself are left out.
    n_samples : int
        N.
    """
    numbers, signed, odds = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    who = [np.empty(0, np.int32)]
    for layer in layers:
        ends, p = np.asarray(layer.pairs).reshape(-1, 2), pair_accuracies(layer)
        used = ends[:, 0] != ends[:, 1]
        told = np.clip(p[used], UNSURE, 1.0 - UNSURE)
        numbers.append(pair_numbers(ends[used], n_samples))
        signed.append(layer_weights(layer)[used] * (1.0 if layer.kind == MUST else -1.0))
        odds.append(np.where(np.isnan(told), 0.0, np.log(told / (1.0 - told))))
        who.append(np.where(np.isnan(told), np.int32(layer.annotator), np.int32(-1)))
    number, whose = np.concatenate(numbers), np.concatenate(who)
    known, weights = np.concatenate(odds), np.concatenate(signed)
    # A pair that was given twice is one of the summed weight, and pairs stand in the order of samples:
    # bits do not depend on the order in which they came, nor on which end came first.
    columns = known, np.sign(weights).astype(np.int8), whose, number
    order = np.lexsort(columns)
    is_new = np.arange(len(order)) < 1
    for column in columns:
        is_new[1:] |= column[order[1:]] != column[order[:-1]]
    new = np.flatnonzero(is_new)
    first = order[new]
    pairs = np.stack(np.divmod(number[first], n_samples), axis=1).astype(np.int32)
    annotators = np.unique(whose[whose >= 0])
    one, other = pairs.T.ravel(), pairs[:, ::-1].T.ravel()
    both = np.argsort(one, kind="stable")
    whose = whose[first]
    return Links(
        row_start=np.append(0, np.cumsum(np.bincount(one, minlength=n_samples))),
        partners=other[both],
        entries=(both % max(len(pairs), 1)).astype(np.int32),
        pairs=pairs,
        signed=np.add.reduceat(weights[order], new),
        odds=known[first],
        sources=np.where(whose < 0, -1, np.searchsorted(annotators, whose)).astype(np.int32),
        annotators=tuple(annotators.tolist()),
    )
