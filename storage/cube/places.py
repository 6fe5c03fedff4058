"""Blocks and their places in the arrays of the cube, either way round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from math import ceil, prod
from typing import Any

from storage.cube.schema import (
    ALL_RESULTS,
    ArraySpec,
    Role,
    array_specs,
    baseline_node,
    graph_dims,
    grid_dims,
    result_names,
    search_dims,
)
from sweeps.plan import Block, Cell, DatasetPlan
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
    solvers : int
        How many of the last dimensions are not of the annotation graph, but of what solves it.
    """

    node: str
    region: tuple[slice, ...]
    solvers: int

    @property
    def graphs(self) -> tuple[slice, ...]:
        """The region along the dimensions of the annotation graph."""
        return self.region[: len(self.region) - self.solvers]

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
        self._designs = {design: index for index, design in enumerate(plan.designs)}
        self._searches = {search: index for index, search in enumerate(plan.searches)}

    def locate(self, block: Block) -> Place | None:
        """Place of a block; None if the grid has no such block, or the block is not a whole chunk."""
        region = self._region(block)
        parts = tuple(part for part in region if part is not None)
        if len(parts) < len(region):
            return None
        plan, model = self._plan, block.models[0]
        if block.unsupervised:
            node, searches = baseline_node(plan.name, model), search_dims(plan.searches_of(model))
            return Place(node, parts, len(searches))
        return Place(plan.name, parts, len(grid_dims(plan)) - len(graph_dims(plan)))

    def _region(self, block: Block) -> list[slice | None]:
        plan, region = self._plan, []
        if block.mixtures is not None or plan.mixtures is not None:
            region.append(_chunk(block.mixtures, plan.mixtures or 0, plan.mixture_chunk))
        if block.unsupervised:
            known = block.models[0] in plan.baselines
            return region + self._search(block, plan.searches_of(block.models[0])) if known else [None]
        region.append(_single(self._p.get(-1 if block.p is None else accuracy_code(block.p))))
        region.append(_single(self._m.get(-1 if block.m is None else block.m)))
        if plan.has_designs:
            region.append(_single(self._designs.get(block.design or "")))
        elif block.design != plan.cell_designs[0]:
            region.append(None)
        region.append(_chunk(block.replicates, plan.replicates, plan.replicate_chunk))
        region += self._search(block, plan.cell_searches)
        region.append(_models(plan, block.models))
        return region

    def _search(self, block: Block, searches: tuple[str | None, ...]) -> list[slice | None]:
        if searches == (None,):
            return [] if block.search is None else [None]
        return [_single(self._searches.get(block.search or ""))]


class ChunkFiles:
    """What the chunk files of a cube hold, by their keys.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        Grids of the cube.
    metadata : mapping
        zarr metadata of its arrays, by path: chunks of annotations are as long as at creation.
    """

    def __init__(self, plans: Iterable[DatasetPlan], metadata: Mapping[str, Mapping[str, Any]]) -> None:
        self._arrays = {spec.path: (plan, spec) for plan in plans for spec in array_specs(plan)}
        self._metadata = metadata

    def name(self, key: str) -> str:
        """Path of the array, then how many cells the chunk is of, and the first and the last of them."""
        path, _, file = key.rpartition("/")
        cells = list(chain.from_iterable(block.cells() for block in self.blocks(key)))
        if not cells:
            return f"{path}, chunk {file}"
        ends = f"{cells[0]} to {cells[-1]}" if len(cells) > 1 else str(cells[0])
        return f"{path} of {len(cells)} cell{'s' if len(cells) > 1 else ''}, {ends}"

    def blocks(self, key: str) -> Iterator[Block]:
        """Blocks whose results the chunk holds: several share annotations; inputs are of none."""
        found = self._found(key)
        if found is not None:
            plan, spec, _ = found
            for position in self._status_positions(key):
                yield _block_at(plan, spec.node, position)

    def is_expected(self, key: str, there: Callable[[str], bool]) -> bool:
        """Whether the chunk file must be there.

        Parameters
        ----------
        key : str
            Path of a file below the cube.
        there : callable
            From the key of another file to whether that is there. A block writes its results before its
            status: where there is a status, all results are.
        """
        found = self._found(key)
        if found is None:
            return False
        plan, spec, _ = found
        name = spec.variable.name
        if spec.variable.role in (Role.COORDINATE, Role.INPUT):
            return True
        if name == "status" or (name in ALL_RESULTS and not self._is_of_blocks(key, plan, name)):
            return False
        return any(
            there(f"{spec.node}/status/{chunk_name(position)}") for position in self._status_positions(key)
        )

    def shape(self, key: str) -> tuple[str, int] | None:
        """Type and number of the values that the chunk holds; None of a file that is no chunk of the cube."""
        found = self._found(key)
        if found is None:
            return None
        _, spec, _ = found
        lengths = self._metadata[spec.path]["chunk_grid"]["configuration"]["chunk_shape"]
        return spec.variable.dtype, prod(lengths)

    def _is_of_blocks(self, key: str, plan: DatasetPlan, name: str) -> bool:
        """Whether a block of a chunk has a result: not all models have all of them."""
        return any(name in result_names(plan, block.models) for block in self.blocks(key))

    def _found(self, key: str) -> tuple[DatasetPlan, ArraySpec, tuple[int, ...]] | None:
        path, _, file = key.rpartition("/")
        position = chunk_position(file)
        if path not in self._arrays or position is None:
            return None
        return *self._arrays[path], position

    def _status_positions(self, key: str) -> Iterator[tuple[int, ...]]:
        """Chunks of `status` with the cells of a chunk of results or annotations."""
        found = self._found(key)
        if found is None:
            return
        plan, spec, position = found
        cells = position[: len(position) - len(spec.variable.dims)]
        if spec.variable.role is Role.RESULT:
            yield cells
        elif spec.variable.role is Role.ANNOTATION:
            length = self._metadata[spec.path]["chunk_grid"]["configuration"]["chunk_shape"][-2]
            # Of an m that is small nothing is stored in the chunks beyond the first.
            m = cells[grid_dims(plan).index("m") + (plan.mixtures is not None)]
            if position[-2] * length < plan.m[m]:
                searches = [range(len(plan.searches))] if plan.searches else []
                models = range(ceil(len(plan.models) / plan.model_chunk))
                for others in product(*searches, models):
                    yield *cells, *others


def chunk_position(name: str) -> tuple[int, ...] | None:
    """Chunk position of a file name within an array, or None for any other file."""
    parts = name.split(".")
    if parts[0] != "c" or not all(part.isdecimal() for part in parts[1:]):
        return None
    return tuple(int(part) for part in parts[1:])


def chunk_name(position: tuple[int, ...]) -> str:
    """File name of a chunk within its array."""
    return ".".join(["c", *map(str, position)])


def _block_at(plan: DatasetPlan, node: str, position: tuple[int, ...]) -> Block:
    """Block at a chunk position of `status`."""
    mixture, place = None, list(position)
    if plan.mixtures is not None:
        mixture = place.pop(0) * plan.mixture_chunk
    if node != plan.name:
        baseline = node.removeprefix(f"{plan.name}/")
        search = plan.searches[place[0]] if place else None
        return plan.block_of(Cell(plan.name, mixture, None, None, None, baseline, None, search))
    at = dict(zip(grid_dims(plan), place, strict=True))
    model = plan.models[at["model"] * plan.model_chunk]
    replicate = at["replicate"] * plan.replicate_chunk
    design = plan.designs[at["design"]] if "design" in at else plan.cell_designs[0]
    search = plan.searches[at["search"]] if "search" in at else None
    p, m = plan.p[at["p"]], plan.m[at["m"]]
    return plan.block_of(Cell(plan.name, mixture, p, m, replicate, model, design, search))


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
