"""Where a block lies in the arrays of the cube."""

from __future__ import annotations

from dataclasses import dataclass

from storage.cube.schema import baseline_node
from sweeps.plan import Block, DatasetPlan
from sweeps.seeds import accuracy_code


@dataclass(frozen=True)
class Place:
    """A node, and a region along its cell dimensions.

    Parameters
    ----------
    node : str
        Path of the node.
    region : tuple of slice
        One for each cell dimension, with whole numbers as bounds.
    """

    node: str
    region: tuple[slice, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the region."""
        return tuple(part.stop - part.start for part in self.region)


class Places:
    """Where the blocks of one data set lie.

    Parameters
    ----------
    plan : DatasetPlan
        Grid of the data set, coordinates in the order of the cube.
    """

    def __init__(self, plan: DatasetPlan) -> None:
        self._plan = plan
        self._p = {accuracy_code(p): index for index, p in enumerate(plan.p)}
        self._m = {m: index for index, m in enumerate(plan.m)}

    def locate(self, block: Block) -> Place | None:
        """Place of a block; None if the grid has no such block, or the block is not a whole chunk."""
        region = self._region(block)
        parts = tuple(part for part in region if part is not None)
        if len(parts) < len(region):
            return None
        name = self._plan.name
        return Place(baseline_node(name, block.models[0]) if block.unsupervised else name, parts)

    def _region(self, block: Block) -> list[slice | None]:
        plan, region = self._plan, []
        if block.mixtures is not None or plan.mixtures is not None:
            region.append(_chunk(block.mixtures, plan.mixtures or 0, plan.mixture_chunk))
        if block.unsupervised:
            return region if block.models[0] in plan.baselines else [None]
        region.append(_single(self._p.get(-1 if block.p is None else accuracy_code(block.p))))
        region.append(_single(self._m.get(-1 if block.m is None else block.m)))
        region.append(_chunk(block.replicates, plan.replicates, plan.replicate_chunk))
        region.append(_models(plan, block.models))
        return region


def _single(index: int | None) -> slice | None:
    return None if index is None else slice(index, index + 1)


def _chunk(bounds: tuple[int, int] | None, length: int, chunk: int) -> slice | None:
    if bounds is None or bounds[0] % chunk or bounds[1] != min(bounds[0] + chunk, length):
        return None
    return slice(*bounds)


def _models(plan: DatasetPlan, models: tuple[str, ...]) -> slice | None:
    if models[0] not in plan.models:
        return None
    start = plan.models.index(models[0])
    whole = _chunk((start, start + len(models)), len(plan.models), plan.model_chunk)
    return whole if plan.models[start : start + len(models)] == models else None
