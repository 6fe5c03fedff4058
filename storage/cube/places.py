"""Chunk files and what they hold: the cells and blocks of each, by its key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod
from typing import Any

from storage.cube.schema import ArraySpec, Role, array_specs, result_names
from sweeps.errors import given
from sweeps.plan import Block, DatasetPlan


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
        if found is None or found[1].variable.role in (Role.COORDINATE, Role.INPUT):
            return
        plan, spec, position = found
        node = next(node for node in plan.nodes if node.path == spec.node)
        # what is not among the dimensions of the array varies over its blocks
        ways = [
            [position[spec.dims.index(dim.name)]] if dim.name in spec.dims else range(len(dim.chunks()))
            for dim in node.stored
        ]
        for chunk in product(*ways):
            block = node.block_at(chunk)
            # Of an m that is small nothing is stored in the chunks beyond the first.
            if spec.variable.role is Role.RESULT or position[-2] * self._lengths(spec)[-2] < given(
                block.first.m
            ):
                yield block

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
        # not all models have all results
        blocks = (
            block
            for block in self.blocks(key)
            if name == "annotations" or name in result_names(plan, block.models)
        )
        return name != "status" and any(
            there(f"{spec.node}/status/{chunk_name(block.chunk)}") for block in blocks
        )

    def shape(self, key: str) -> tuple[str, int] | None:
        """Type and number of the values that the chunk holds; None of a file that is no chunk of the cube."""
        found = self._found(key)
        if found is None:
            return None
        _, spec, _ = found
        return spec.variable.dtype, prod(self._lengths(spec))

    def _lengths(self, spec: ArraySpec) -> Sequence[int]:
        lengths: Sequence[int] = self._metadata[spec.path]["chunk_grid"]["configuration"]["chunk_shape"]
        return lengths

    def _found(self, key: str) -> tuple[DatasetPlan, ArraySpec, tuple[int, ...]] | None:
        path, _, file = key.rpartition("/")
        position = chunk_position(file)
        if path not in self._arrays or position is None:
            return None
        return *self._arrays[path], position


def chunk_position(name: str) -> tuple[int, ...] | None:
    """Chunk position of a file name within an array, or None for any other file."""
    parts = name.split(".")
    if parts[0] != "c" or not all(part.isdecimal() for part in parts[1:]):
        return None
    return tuple(int(part) for part in parts[1:])


def chunk_name(position: tuple[int, ...]) -> str:
    """File name of a chunk within its array."""
    return ".".join(["c", *map(str, position)])
