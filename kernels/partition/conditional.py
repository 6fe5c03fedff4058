"""The annotation model "conditional": each annotated pair is right with its accuracy.

Equations (36) to (38) of docs/model.md.

All that matters of a partition is which pairs share a cluster. `State.agreed` holds, for the layer of
annotations of known accuracy, their value in nats, and for a layer of unknown accuracy its agreeing weight; a
pair that comes to share a cluster adds its weight to it. A candidate costs O(1) a layer once the links are
set.
"""

from __future__ import annotations

import math

from kernels.jit import jit_inner, jit_part
from kernels.partition.state import State
from kernels.problem.data import LARGEST_ACCURACY, Data


@jit_part
def fitted_accuracy(data: Data, layer: int, agreed: float) -> float:
    """Most likely accuracy of a layer of unknown accuracy, not below one half."""
    return float(min(max(agreed / data.totals[layer], 0.5), LARGEST_ACCURACY))


@jit_part
def agreement_value(data: Data, layer: int, agreed: float) -> float:
    """Value of a layer, nats."""
    if layer < data.n_known:
        return agreed
    p = fitted_accuracy(data, layer, agreed)
    return float(agreed * math.log(p) + (data.totals[layer] - agreed) * math.log(1.0 - p))


@jit_inner
def collect_agreement(data: Data, state: State) -> None:
    """Set `agreed` of all layers from members."""
    n_layers = data.totals.shape[0]
    labels = state.labels
    for layer in range(n_layers):
        together = 0.0
        for place in range(len(data.annotated)):
            i = data.annotated[place]
            row = i * n_layers + layer
            for entry in range(data.row_start[row], data.row_start[row + 1]):
                if labels[data.partners[entry]] == labels[i]:
                    together += data.weights[entry]
        # Each pair was met from both of its ends.
        state.agreed[layer] = data.apart[layer] + 0.5 * together


@jit_part
def set_agreement_links(data: Data, state: State, sample: int) -> None:
    """Sum the weights of `sample` with each cluster; a layer without any is marked untouched.

    Weights have either sign and may cancel, so the clusters touched are not listed.
    """
    n_layers = data.totals.shape[0]
    for layer in range(n_layers):
        row = sample * n_layers + layer
        start = data.row_start[row]
        stop = data.row_start[row + 1]
        state.n_touched[layer] = stop - start
        if stop > start:
            links = state.links[layer]
            links[:] = 0.0
            for entry in range(start, stop):
                links[state.labels[data.partners[entry]]] += data.weights[entry]


@jit_part
def add_agreement_gains(data: Data, state: State, source: int) -> None:
    """Add the change of all layers to the gains.

    Of unknown accuracy, from p to q with `after` agreeing: after log(q/p) + (total - after) log((1-q)/(1-p))
    + change log(p/(1-p)). Its rounding is that of the change; a difference of values has that of the sums.
    """
    for layer in range(data.totals.shape[0]):
        if state.n_touched[layer] == 0:
            continue
        links = state.links[layer]
        here = links[source]
        if layer < data.n_known:
            for target in range(data.n_clusters):
                state.gains[target] += links[target] - here
            continue
        total = data.totals[layer]
        agreed = state.agreed[layer]
        p = fitted_accuracy(data, layer, agreed)
        odds = math.log(p / (1.0 - p))
        for target in range(data.n_clusters):
            change = links[target] - here
            # Without a change the gain is 0: no logarithms.
            if change != 0.0:
                after = agreed + change
                rise = fitted_accuracy(data, layer, after) - p
                gain = after * math.log1p(rise / p) + (total - after) * math.log1p(-rise / (1.0 - p))
                state.gains[target] += gain + change * odds


@jit_part
def exact_agreement_gain(data: Data, state: State, layer: int, source: int, target: int) -> float:
    """Change of one layer, value against value."""
    if state.n_touched[layer] == 0:
        return 0.0
    agreed = state.agreed[layer]
    after = agreed + state.links[layer, target] - state.links[layer, source]
    return agreement_value(data, layer, after) - agreement_value(data, layer, agreed)


@jit_part
def relocate_agreement(data: Data, state: State, source: int, target: int) -> None:
    """Change `agreed` as the sample whose links are set goes from `source` to `target`."""
    for layer in range(data.totals.shape[0]):
        if state.n_touched[layer] > 0:
            state.agreed[layer] += state.links[layer, target] - state.links[layer, source]
