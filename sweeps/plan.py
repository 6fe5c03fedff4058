"""The plan of a sweep, as plain records: its grids, and the cells and blocks of each.

A `DatasetPlan` is the grid of one data set. It has a `Node` for each place in the cube with results: one for
the models that use annotations, and one for each baseline. A node is a product of seven `Dim`, one for each
coordinate of a cell. That list alone gives the values, their layout in the cube, and the dependence of the
annotations: cells and their names, blocks, arrays, growth and order all follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Strict

from sweep_clustering.kernels.settings import SCALES
from sweep_clustering.sweeps.annotations.draw import MOST_ANNOTATIONS
from sweep_clustering.sweeps.errors import Problem, collected, did_you_mean, not_one_of, present, raise_all
from sweep_clustering.sweeps.records import Choice, List, Real, Set, Text, Whole
from sweep_clustering.sweeps.seeds import accuracy_code
from sweep_clustering.sweeps.words import DEFAULT, DESIGNS, asks

# Name of a cube or one of its nodes.
Name = Annotated[
    str,
    Text(
        "a name of the letters A to Z and a to z, digits, '.', '_' and '-', at most 100",
        "names become folders, so no path or blank, and no '.' or '-' at the beginning",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$",
    ),
]

# Name of a data set: data sets of a suite are in groups.
DataName = Annotated[
    str,
    Text(
        "a name of the letters A to Z and a to z, digits, '.', '_' and '-', or up to three of them with '/'"
        " between",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}){0,2}$",
    ),
]

Accuracy = Annotated[float, Real("an accuracy in (0, 1]", ge=1e-9, le=1)]
Scale = Annotated[str, Choice(SCALES)]
# Labels are int16, counted from 0, with -1 for a cell that is not done.
Clusters = Annotated[int, Whole(1, 32_767)]
Length = Annotated[int, Whole(1, 10**6)]
Source = Annotated[str, Text("a text of at most 10,000 characters", max_length=10_000)]
Flag = Annotated[bool, Strict()]
Citation = Annotated[str, Text("a text of at most 2,000 characters", max_length=2_000)]
# Names of features or classes, as in a table: some may be equal.
Names = Annotated[
    tuple[Annotated[str, Text("a text of at most 200 characters", max_length=200)], ...], List()
]

# Enough digits that accuracies 1e-9 apart, the closest allowed, have different names.
ACCURACY = ".9g"


@dataclass(frozen=True, slots=True)
class Cell:
    """The unit of result: one data set, mixture, accuracy, annotation count, replicate, search and model.

    A baseline has no `p`, `m`, `replicate` and `design`; a real data set has no `mixture`. There is no
    `design` if the sweep names no other than "uniform", and no `search` if the sweep has a single one; a
    method among the baselines has none either.
    """

    # Journals hold the values in this order.
    dataset: str
    mixture: int | None
    p: float | None
    m: int | None
    replicate: int | None
    model: str
    design: str | None = None
    search: str | None = None

    def __str__(self) -> str:
        return "/".join([self.dataset, *_coordinate_texts(self), self.model])


# Coordinates of a cell beside its data set, in the order of names, and of the dimensions of the cube.
AXES = ("mixture", "p", "m", "design", "replicate", "search", "model")


# Coordinates with values to be compared: each pair of values is a table of all others.
VARIANTS = ("design", "search")


def _coordinate_texts(coordinates: Cell | AskedPath) -> Iterator[str]:
    for axis in AXES[:-1]:
        value = getattr(coordinates, axis, None)
        if value is not None:
            yield f"{axis}={axis_text(value)}"


def axis_text(value: object) -> str:
    """Return a value of an axis as text."""
    return f"{value:{ACCURACY}}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class AskedPath:
    """Questions asked batch after batch: the annotations of each m of a design are the first m answers."""

    dataset: str
    mixture: int | None
    p: float
    replicate: int
    design: str

    @classmethod
    def of(cls, cell: Cell) -> AskedPath:
        """Return the path with the annotations of a cell, whose design asks for them."""
        return cls(cell.dataset, cell.mixture, present(cell.p), present(cell.replicate), present(cell.design))

    def __str__(self) -> str:
        return "/".join([self.dataset, *_coordinate_texts(self)])


def _identity(value: object) -> object:
    """Return what two equal values have in common: accuracies are equal if they share their streams."""
    return (accuracy_code(value),) if isinstance(value, float) and 0 < value <= 1 else value


@dataclass(frozen=True, slots=True)
class Dim:
    """One coordinate of the cells of a node, and its layout in the cube."""

    name: str  # one of `AXES`
    values: Sequence[Any]  # in the order of the cube; None alone if cells lack the coordinate
    chunk: int = 1  # values in a chunk of an array, and so in a block
    # Whether chunks hold several values, as many as at the creation of the cube; other chunks hold one.
    ranged: bool = False
    stored: bool = True  # whether arrays have a dimension for it; not if there can only be a single value
    # Whether annotations depend on it. The other dimensions are the last: cells that differ in them alone see
    # the same annotations.
    of_graph: bool = True

    def index(self, value: object) -> int | None:
        """Return the position of a value, None for a missing one or another type."""
        if isinstance(self.values, range):
            return self.values.index(value) if type(value) is int and value in self.values else None
        identity = _identity(value)
        return next((index for index, item in enumerate(self.values) if _identity(item) == identity), None)

    def chunk_at(self, index: int) -> range:
        """Return the positions of the values that share a chunk with one of them."""
        start = index - index % self.chunk
        return range(start, min(start + self.chunk, len(self.values)))

    def chunks(self) -> list[range]:
        """Return the positions in each chunk."""
        return [self.chunk_at(start) for start in range(0, len(self.values), self.chunk)]

    def read(self, text: str) -> int | None:
        """Return the position of a value from a text in the name of a cell."""
        try:
            return self.index(type(self.values[0])(text))
        except ValueError:
            return None

    def words(self) -> str:
        """Return the values in words."""
        if isinstance(self.values, range):
            return range_words(self.values)
        return " | ".join(map(axis_text, self.values))


def range_words(numbers: range) -> str:
    """Return whole numbers at equal distances in words, such as `0..7` and `1, 3, ..7`."""
    if len(numbers) < 3 and numbers.step > 1:
        return ", ".join(map(str, numbers))
    return f"{numbers[0]}{'' if numbers.step == 1 else f', {numbers[1]}, '}..{numbers[-1]}"


def _dim(name: str, values: Sequence[Any] = (), **layout: Any) -> Dim:
    """Return a dimension; without values it belongs to cells that do not have the coordinate."""
    return Dim(name, values, **layout) if values else Dim(name, (None,), stored=False)


@dataclass(frozen=True)
class Node:
    """A place in the cube with results: the product of some dimensions."""

    path: str  # below the root of the cube
    dataset: str
    dims: tuple[Dim, ...]  # one for each of `AXES`, in that order

    @property
    def stored(self) -> tuple[Dim, ...]:
        """Dimensions of its arrays."""
        return tuple(dim for dim in self.dims if dim.stored)

    @property
    def baseline(self) -> bool:
        """Whether its models use no annotations."""
        return self.path != self.dataset

    @property
    def n_cells(self) -> int:
        return prod(len(dim.values) for dim in self.dims)

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks: last dimensions vary first, but those whose chunks hold several before others."""
        order = sorted(self.dims, key=lambda dim: dim.ranged)
        for parts in product(*(dim.chunks() for dim in order)):
            ranges = {dim.name: part for dim, part in zip(order, parts, strict=True)}
            yield Block(self, tuple(ranges[axis] for axis in AXES))

    def cells(self, values_by_axis: Mapping[str, Iterable[Any]]) -> Iterator[Cell]:
        """Yield the cells with some values along some dimensions, in storage order."""
        for values in product(*(values_by_axis.get(dim.name, dim.values) for dim in self.dims)):
            yield Cell(self.dataset, **dict(zip(AXES, values, strict=True)))

    def block_at(self, position: Sequence[int]) -> Block:
        """Return the block at a chunk position of the stored dimensions."""
        chunks = iter(position)
        return Block(
            self, tuple(dim.chunk_at(next(chunks) * dim.chunk if dim.stored else 0) for dim in self.dims)
        )

    def indices(self, cell: Cell) -> tuple[int | None, ...]:
        """Return the position of a cell along each dimension, None where it has another value."""
        return tuple(dim.index(getattr(cell, dim.name)) for dim in self.dims)

    def has_block(self, block: Block) -> bool:
        """Whether a block, maybe of the node before it grew, belongs to this node."""
        if block.node is self:
            return True
        pairs = zip(self.dims, block.node.dims, block.ranges, strict=True)
        return block.node.path == self.path and all(
            part == dim.chunk_at(part.start)
            and dim.stored == block_dim.stored
            and dim.values[part.start : part.stop] == block_dim.values[part.start : part.stop]
            for dim, block_dim, part in pairs
        )


@dataclass(frozen=True, slots=True)
class Block:
    """The unit of write: the cells of one chunk position of the cube."""

    node: Node
    ranges: tuple[range, ...]  # positions along each dimension of the node

    def __hash__(self) -> int:
        return hash((self.node.path, self.ranges))

    @property
    def dataset(self) -> str:
        return self.node.dataset

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.values("model"))

    @property
    def first(self) -> Cell:
        """The first cell: all others have its coordinates too, except where chunks hold several values."""
        return next(self.cells())

    @property
    def n_cells(self) -> int:
        return prod(map(len, self.ranges))

    @property
    def per_graph(self) -> int:
        """Number of cells that see the same annotations; they follow each other in storage order."""
        return prod(len(part) for dim, part in self._parts() if not dim.of_graph)

    @property
    def n_graphs(self) -> int:
        """Number of annotation graphs; a baseline has one for each draw of the data."""
        return self.n_cells // self.per_graph

    @property
    def region(self) -> tuple[slice, ...]:
        """Part of each stored dimension: the place of its cells in an array."""
        return tuple(slice(part.start, part.stop) for dim, part in self._parts() if dim.stored)

    @property
    def graph_region(self) -> tuple[slice, ...]:
        """The region, as far as annotations depend on it."""
        return tuple(
            slice(part.start, part.stop) for dim, part in self._parts() if dim.stored and dim.of_graph
        )

    @property
    def chunk(self) -> tuple[int, ...]:
        """Position among the chunks of an array."""
        return tuple(part.start // dim.chunk for dim, part in self._parts() if dim.stored)

    def values(self, name: str) -> Sequence[Any]:
        """Return the values of its cells along a dimension."""
        position = AXES.index(name)
        return self.node.dims[position].values[self.ranges[position].start : self.ranges[position].stop]

    def cells(self) -> Iterator[Cell]:
        """Yield the cells in storage order: the last dimension varies first."""
        return self.node.cells({axis: self.values(axis) for axis in AXES})

    def graph_cells(self) -> list[Cell]:
        """Return the first cell of each annotation graph."""
        return list(self.cells())[:: self.per_graph]

    def position(self, cell: Cell) -> int:
        """Return the place of `cell` in storage order: its row in every array of the block."""
        position = 0
        for (dim, part), index in zip(self._parts(), self.node.indices(cell), strict=True):
            if index is None or index not in part:
                raise ValueError(f"{cell} is no cell of {self}: {dim.name}")
            position = position * len(part) + index - part.start
        return position

    def graph(self, cell: Cell) -> int:
        """Return the row of the annotations of `cell`."""
        return self.position(cell) // self.per_graph

    def __str__(self) -> str:
        names: dict[bool, list[str]] = {False: [], True: []}
        for dim, part in list(self._parts())[:-1]:
            if dim.values[0] is not None:
                span = f"s={part.start}:{part.stop}"
                name = span if dim.ranged else f"={axis_text(dim.values[part.start])}"
                names[dim.ranged].append(f"{dim.name}{name}")
        return "/".join([self.node.path, *names[False], *names[True]])

    def _parts(self) -> Iterator[tuple[Dim, range]]:
        return zip(self.node.dims, self.ranges, strict=True)


@dataclass(frozen=True)
class MethodPlan:
    """A method in the grid of a data set: its name, and its calls for each cell."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: Name
    restarts: Length


@dataclass(frozen=True)
class UnionPlan:
    """Cells of a model and a search whose Gaussians are in the cube, and the lengths of their rows."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    model: Name
    search: Name | None
    components: Annotated[int, Whole(1, 10**9)]
    entries: Annotated[int, Whole(1, 10**9)]

    @property
    def key(self) -> tuple[str, str | None]:
        """Model and search of the cells."""
        return self.model, self.search

    def is_longer(self, components: int, entries: int) -> bool:
        """Whether its rows are longer than others."""
        return self.components > components or self.entries > entries


@dataclass(frozen=True)
class DatasetPlan:
    """The grid of one data set: a group of nodes of the cube."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: DataName
    n_samples: Annotated[int, Whole(1, 10**9)]
    n_features: Length
    n_clusters: Clusters
    checksum: Source  # sha256 of the parsed table, or of the recipe of the mixtures
    source: Source  # origin of the data, for people
    has_labels: Flag
    mixtures: Length | None  # None for a real data set
    p: Annotated[tuple[Accuracy, ...], Set(accuracy_code, shortest=0)]
    m: Annotated[tuple[Annotated[int, Whole(1, 2**31 - 1)], ...], Set(int, shortest=0)]
    replicates: Length
    models: Annotated[tuple[Name, ...], Set(str, shortest=0)]  # and methods that use links
    baselines: Annotated[tuple[Name, ...], Set(str, shortest=0)]  # and methods without annotations
    restarts: Length  # restarts of each cell of a model, and the most of a method
    # Chunk lengths are the lengths at the creation of the cube.
    mixture_chunk: Length
    replicate_chunk: Length
    model_chunk: Length
    scale: Scale = "none"
    adaptive: Flag = False  # whether a cell of a model may end before its last restart
    held_out: Flag = False  # whether every cell with annotations holds some out, to score its predictions
    methods: Annotated[tuple[MethodPlan, ...], Set(repr, shortest=0)] = ()  # those in models and baselines
    # Annotations of a user's file, from which cells draw; 0 if they are drawn from the true labels.
    n_annotations: Annotated[int, Whole(0, MOST_ANNOTATIONS)] = 0
    annotations_checksum: Source = ""
    designs: Annotated[tuple[Annotated[str, Choice(DESIGNS)], ...], Set(str)] = DEFAULT
    searches: Annotated[tuple[Name, ...], Set(str, shortest=0)] = ()  # empty if there is a single one
    feature_names: Names = ()
    class_names: Names = ()  # by their codes
    sample_names: Source = ""  # sha256 of the names
    # Cells whose classes are unions of Gaussians, without those of a cube of format 2.
    unions: Annotated[tuple[UnionPlan, ...], Set(repr, shortest=0)] = ()
    first_mixture: Annotated[int, Whole(0, 10**6)] = 0
    short: Flag = False  # whether 32 bits hold every feature as used, so that the cube has float32
    answers_each: Annotated[int, Whole(0, 10**6)] = 0  # answers of each annotator of a crowd; 0 without one
    mixture_step: Annotated[int, Whole(1, 10**6)] = 1  # a part of a sweep has every n-th mixture
    machines: Flag = False  # whether the cube has the class of the machine that computed each cell
    left_out: Flag = False  # whether a published cube has no inputs, because no licence of the data is known

    @property
    def supervised(self) -> bool:
        """Whether there are models other than baselines."""
        return bool(self.models)

    @property
    def asking_designs(self) -> tuple[str, ...]:
        """Designs whose pairs are asked for; none if all models are baselines."""
        return tuple(filter(asks, self.designs)) if self.supervised else ()

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """Dimensions of a cell that has every coordinate. A new coordinate of cells gets a row here."""
        designs = () if self.designs == DEFAULT else self.designs
        replicates = range(self.replicates if self.models else 0)
        length = (self.mixtures or 0) * self.mixture_step
        mixtures = range(self.first_mixture, self.first_mixture + length, self.mixture_step)
        return (
            _dim("mixture", mixtures, chunk=self.mixture_chunk, ranged=True),
            _dim("p", self.p),
            _dim("m", self.m),
            _dim("design", designs, stored=len(designs) > 1),
            _dim("replicate", replicates, chunk=self.replicate_chunk, ranged=True),
            _dim("search", self.searches, of_graph=False),
            _dim("model", self.models, chunk=self.model_chunk, ranged=True, of_graph=False),
        )

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes of the cube: one for each baseline, then one for the models that use annotations."""
        nodes, methods = [], {method.name for method in self.methods}
        for name in self.baselines:
            # a method searches by itself
            axes = ("mixture",) if name in methods else ("mixture", "search")
            dims = [dim if dim.name in axes else _dim(dim.name) for dim in self.dims[:-1]]
            model = Dim("model", (name,), ranged=True, stored=False, of_graph=False)
            nodes.append(Node(f"{self.name}/{name}", self.name, (*dims, model)))
        return (*nodes, Node(self.name, self.name, self.dims)) if self.models else tuple(nodes)

    @cached_property
    def node_of(self) -> dict[str, Node]:
        """The node of each model, method and baseline."""
        return {model: node for node in self.nodes for model in node.dims[-1].values}

    def unions_of(self, models: Iterable[str], searches: Iterable[str | None]) -> list[UnionPlan]:
        """Return the cells with Gaussians in the cube, for some models and searches."""
        pairs = set(product(models, searches))
        return [union for union in self.unions if union.key in pairs]

    @property
    def n_paths(self) -> int:
        """Number of paths of questions, each up to the largest m."""
        return (self.mixtures or 1) * len(self.p) * self.replicates * len(self.asking_designs)

    @property
    def n_cells(self) -> int:
        """Number of cells, with those of baselines."""
        return sum(node.n_cells for node in self.nodes)

    @property
    def n_restarts(self) -> int:
        """Number of restarts of all cells together."""
        return sum(
            node.n_cells // len(node.dims[-1].values) * self.restarts_of(model)
            for model, node in self.node_of.items()
        )

    def restarts_of(self, model: str) -> int:
        """Return the restarts of each cell of a model, or calls of a method."""
        return next((method.restarts for method in self.methods if method.name == model), self.restarts)

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks, baselines first, then by accuracy, annotation count, design and search."""
        return (block for node in self.nodes for block in node.blocks())

    def has(self, cell: Cell) -> bool:
        """Whether the grid has a cell with values of the right types."""
        node = self.node_of.get(cell.model)
        return node is not None and None not in node.indices(cell)

    def has_path(self, path: AskedPath) -> bool:
        """Whether the grid has a path with values of the right types."""
        positions = [
            dim.index(getattr(path, dim.name, None)) for dim in self.dims if dim.of_graph and dim.name != "m"
        ]
        return path.design in self.asking_designs and None not in positions

    def block_of(self, cell: Cell) -> Block:
        node = self.node_of[cell.model]
        indices = zip(node.dims, node.indices(cell), strict=True)
        return Block(node, tuple(dim.chunk_at(present(index)) for dim, index in indices))


def find_cells(names: Iterable[str], plans: Sequence[DatasetPlan]) -> frozenset[Cell]:
    """Return the cells with some names; the problems of all names are one InputError."""
    return frozenset(collected(lambda name: find_cell(name, plans), names))


def find_cell(name: str, plans: Iterable[DatasetPlan]) -> Cell:
    """Return the cell with a name, which is that of `str(cell)` with coordinates in any order.

    Raises
    ------
    InputError
        With all problems of the name, and the coordinates of the sweep.
    """
    *parts, model = [part.strip() for part in name.split("/")] if "/" in name else [name, ""]
    by_name = {plan.name: plan for plan in plans}
    # Names of data sets may have slashes too: the longest one counts.
    lengths = [n for n in range(len(parts), 0, -1) if "/".join(parts[:n]) in by_name]
    lengths += [n for n, part in enumerate(parts) if "=" in part]
    length = next(iter(lengths), len(parts))
    dataset, coordinates = "/".join(parts[:length]), parts[length:]
    location = f"cell {name!r}"
    if dataset not in by_name:
        raise_all([not_one_of(location, dataset, by_name)])
    plan = by_name[dataset]
    if model not in plan.node_of:
        raise_all([not_one_of(location, model, (*plan.models, *plan.baselines))])
    node = plan.node_of[model]
    # those in the names of its cells, without the model
    dims = {dim.name: dim for dim in node.dims[:-1] if dim.values[0] is not None}
    problems, texts, values = list[Problem](), dict[str, str](), dict[str, Any](dict.fromkeys(AXES))
    # the form of names of this node's cells
    words = {int: "NUMBER", float: "ACCURACY"}
    fields = (f"{axis}={words.get(type(dim.values[0]), axis.upper())}" for axis, dim in dims.items())
    form = "/".join(["DATASET", *fields, model])
    for pair in coordinates:
        axis, equals, text = pair.partition("=")
        if not equals or axis not in dims or axis in texts:
            fault = f"{axis!r} again" if axis in texts else repr(pair)
            expected = f"each of {', '.join(dims)} once" if dims else "no coordinate"
            problems.append(Problem(location, fault, expected, f"the form is {form}"))
        texts.setdefault(axis, text)
    for axis, dim in dims.items():
        index = dim.read(texts[axis]) if axis in texts else None
        if index is None:
            options = [value for value in dim.values if isinstance(value, str)]
            hint = did_you_mean(texts.get(axis, ""), options)
            fault = f"{axis}={texts[axis]}" if axis in texts else f"no {axis}"
            problems.append(Problem(location, fault, f"{axis}={dim.words()}", hint))
        else:
            values[axis] = dim.values[index]
    raise_all(problems)
    return Cell(dataset, **values | {"model": model})
