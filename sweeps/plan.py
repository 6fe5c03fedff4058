"""What a sweep computes, as plain records: its grids, and the cells and blocks of each.

A `DatasetPlan` is the grid of one data set. It has a `Node` for each place in the cube that holds results:
one of the models that use annotations, and one of each baseline. A node is a product of seven `Dim`, one for
each coordinate of a cell. That list alone says which values there are, how the cube lays them out, and what
the annotations depend on: cells and their names, blocks, arrays, growth and order all follow from it.

`find_cell` reads the name of a cell back.
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
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, not_one_of, present
from sweep_clustering.sweeps.records import Choice, Each, Listed, Real, Text, Whole
from sweep_clustering.sweeps.seeds import accuracy_code
from sweep_clustering.sweeps.words import DEFAULT, DESIGNS, asks

# What can name a cube or one of its nodes.
Name = Annotated[
    str,
    Text(
        "a name of the letters A to Z and a to z, digits, '.', '_' and '-', at most 100",
        "names become folders, so no path or blank, and no '.' or '-' at the beginning",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$",
    ),
]

# What can name a data set: data sets of a suite stand in groups.
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
# Of features or classes, as a table has them: some may be the same.
Names = Annotated[
    tuple[Annotated[str, Text("a text of at most 200 characters", max_length=200)], ...], Listed()
]

# Enough digits that accuracies 1e-9 apart, the closest allowed, have different names.
ACCURACY = ".9g"


# Cells, and what they are laid out by.


@dataclass(frozen=True, slots=True)
class Cell:
    """The unit of result: one data set, mixture, accuracy, annotation count, replicate, search and model.

    A baseline has no `p`, `m`, `replicate` and `design`; a real data set has no `mixture`. There is no
    `design` where the sweep names no other than "uniform", and no `search` where the sweep has one alone; a
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
        return "/".join([self.dataset, *_written(self), self.model])


# Coordinates of a cell beside its data set, in the order of names, and of the dimensions of the cube.
AXES = ("mixture", "p", "m", "design", "replicate", "search", "model")


# Those of which a sweep may name several, to be compared: each pair of them is a table of all others.
VARIANTS = ("design", "search")


def _written(coordinates: Cell | AskedPath) -> Iterator[str]:
    for axis in AXES[:-1]:
        value = getattr(coordinates, axis, None)
        if value is not None:
            yield f"{axis}={_text(value)}"


def _text(value: object) -> str:
    return f"{value:{ACCURACY}}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class AskedPath:
    """Questions asked batch after batch: the annotations of each m of a design are the first m answers.

    Parameters
    ----------
    dataset, mixture, p, replicate
        As of the cells whose annotations it has.
    design : str
        One of `sweeps.words.ASKED`.
    """

    dataset: str
    mixture: int | None
    p: float
    replicate: int
    design: str

    @classmethod
    def of(cls, cell: Cell) -> AskedPath:
        """The path that the annotations of a cell come from, whose design asks for them."""
        return cls(cell.dataset, cell.mixture, present(cell.p), present(cell.replicate), present(cell.design))

    def __str__(self) -> str:
        return "/".join([self.dataset, *_written(self)])


def _identity(value: object) -> object:
    """What says whether two values are the same: accuracies are if they share their random streams."""
    return (accuracy_code(value),) if isinstance(value, float) and 0 < value <= 1 else value


@dataclass(frozen=True, slots=True)
class Dim:
    """One coordinate of the cells of a node, and how the cube lays it out.

    Parameters
    ----------
    name : str
        One of `AXES`.
    values : sequence
        As cells have them, in the order of the cube: None alone where these cells have none.
    chunk : int
        Values in a chunk of an array, and so in a block.
    ranged : bool
        Whether chunks hold several values, as many as there were at the creation of the cube; else a chunk
        always holds one.
    stored : bool
        Whether arrays have a dimension for it: not where there was, and will be, one value.
    of_graph : bool
        Whether annotations depend on it; else it is of what solves, and cells that differ in it alone see the
        same ones. Those dimensions are the last ones.
    """

    name: str
    values: Sequence[Any]
    chunk: int = 1
    ranged: bool = False
    stored: bool = True
    of_graph: bool = True

    def index(self, value: object) -> int | None:
        """Position of a value; None of one that is not there, or of another type."""
        if isinstance(self.values, range):
            return self.values.index(value) if type(value) is int and value in self.values else None
        wanted = _identity(value)
        return next((at for at, each in enumerate(self.values) if _identity(each) == wanted), None)

    def chunk_at(self, index: int) -> range:
        """Positions of the values that share a chunk with one of them."""
        start = index - index % self.chunk
        return range(start, min(start + self.chunk, len(self.values)))

    def chunks(self) -> list[range]:
        """Positions in each chunk."""
        return [self.chunk_at(start) for start in range(0, len(self.values), self.chunk)]

    def read(self, text: str) -> int | None:
        """Position of a value as a name of a cell has it."""
        try:
            return self.index(type(self.values[0])(text))
        except ValueError:
            return None

    def shown(self) -> str:
        """What values there are, for people."""
        if isinstance(self.values, range):
            return range_words(self.values)
        return " | ".join(map(_text, self.values))


def range_words(numbers: range) -> str:
    """Return whole numbers at equal distances in words, such as `0..7` and `1, 3, .. 7`."""
    if len(numbers) < 3 and numbers.step > 1:
        return ", ".join(map(str, numbers))
    return f"{numbers[0]}{'' if numbers.step == 1 else f', {numbers[1]}, '}..{numbers[-1]}"


def _dim(name: str, values: Sequence[Any] = (), **layout: Any) -> Dim:
    """A dimension; without values one of cells that do not have the coordinate."""
    return Dim(name, values, **layout) if values else Dim(name, (None,), stored=False)


@dataclass(frozen=True)
class Node:
    """A place in the cube with results: the product of some dimensions.

    Parameters
    ----------
    path : str
        Below the root of the cube.
    dataset : str
        Whose.
    dims : tuple of Dim
        One for each of `AXES`, in that order.
    """

    path: str
    dataset: str
    dims: tuple[Dim, ...]

    @property
    def stored(self) -> tuple[Dim, ...]:
        """Those that arrays have."""
        return tuple(dim for dim in self.dims if dim.stored)

    @property
    def named(self) -> tuple[Dim, ...]:
        """Those that names of cells have, beside the model."""
        return tuple(dim for dim in self.dims[:-1] if dim.values[0] is not None)

    @property
    def baseline(self) -> bool:
        """Whether its models use no annotations."""
        return self.path != self.dataset

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return prod(len(dim.values) for dim in self.dims)

    def blocks(self) -> Iterator[Block]:
        """All blocks: the last dimensions vary first, but those whose chunks hold several before others."""
        order = sorted(self.dims, key=lambda dim: dim.ranged)
        for parts in product(*(dim.chunks() for dim in order)):
            ranges = {dim.name: part for dim, part in zip(order, parts, strict=True)}
            yield Block(self, tuple(ranges[axis] for axis in AXES))

    def cells(self, among: Mapping[str, Iterable[Any]]) -> Iterator[Cell]:
        """Cells that have one of some values along some dimensions, in storage order.

        Parameters
        ----------
        among : mapping of str to iterable
            Values by dimension; all where it says nothing.
        """
        for values in product(*(among.get(dim.name, dim.values) for dim in self.dims)):
            yield Cell(self.dataset, **dict(zip(AXES, values, strict=True)))

    def block_at(self, position: Sequence[int]) -> Block:
        """Block at a chunk position of the stored dimensions."""
        chunks = iter(position)
        return Block(
            self, tuple(dim.chunk_at(next(chunks) * dim.chunk if dim.stored else 0) for dim in self.dims)
        )

    def indices(self, cell: Cell) -> tuple[int | None, ...]:
        """Position of a cell along each dimension, None where it has another value."""
        return tuple(dim.index(getattr(cell, dim.name)) for dim in self.dims)

    def has_block(self, block: Block) -> bool:
        """Whether a block, maybe of the node before it grew, is one of this node."""
        if block.node is self:
            return True
        pairs = zip(self.dims, block.node.dims, block.ranges, strict=True)
        return block.node.path == self.path and all(
            part == own.chunk_at(part.start)
            and own.stored == other.stored
            and own.values[part.start : part.stop] == other.values[part.start : part.stop]
            for own, other, part in pairs
        )


@dataclass(frozen=True, slots=True)
class Block:
    """The unit of write: the cells of one chunk position of the cube.

    Parameters
    ----------
    node : Node
        Where it is.
    ranges : tuple of range
        Positions along each dimension of the node.
    """

    node: Node
    ranges: tuple[range, ...]

    def __hash__(self) -> int:
        return hash((self.node.path, self.ranges))

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        return self.node.dataset

    @property
    def models(self) -> tuple[str, ...]:
        """Models of its cells."""
        return tuple(self.values("model"))

    @property
    def first(self) -> Cell:
        """The first cell: all others have its coordinates too, but where chunks hold several values."""
        return next(self.cells())

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return prod(map(len, self.ranges))

    @property
    def per_graph(self) -> int:
        """Number of cells that see the same annotations; they follow each other in storage order."""
        return prod(len(part) for dim, part in self._parts() if not dim.of_graph)

    @property
    def n_graphs(self) -> int:
        """Number of annotation graphs; of a baseline, of draws of the data."""
        return self.n_cells // self.per_graph

    @property
    def region(self) -> tuple[slice, ...]:
        """Part of each stored dimension: where its cells are in an array."""
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
        """Values of its cells along a dimension."""
        at = AXES.index(name)
        return self.node.dims[at].values[self.ranges[at].start : self.ranges[at].stop]

    def cells(self) -> Iterator[Cell]:
        """Cells in storage order: the last dimension varies first."""
        return self.node.cells({axis: self.values(axis) for axis in AXES})

    def graph_cells(self) -> list[Cell]:
        """The first cell of each annotation graph."""
        return list(self.cells())[:: self.per_graph]

    def position(self, cell: Cell) -> int:
        """Place of `cell` in storage order: its row in every array of the block."""
        at = 0
        for (dim, part), index in zip(self._parts(), self.node.indices(cell), strict=True):
            if index is None or index not in part:
                raise ValueError(f"{cell} is no cell of {self}: {dim.name}")
            at = at * len(part) + index - part.start
        return at

    def graph(self, cell: Cell) -> int:
        """Row of the annotations of `cell`."""
        return self.position(cell) // self.per_graph

    def __str__(self) -> str:
        names: dict[bool, list[str]] = {False: [], True: []}
        for dim, part in list(self._parts())[:-1]:
            if dim.values[0] is not None:
                span = f"s={part.start}:{part.stop}"
                name = span if dim.ranged else f"={_text(dim.values[part.start])}"
                names[dim.ranged].append(f"{dim.name}{name}")
        return "/".join([self.node.path, *names[False], *names[True]])

    def _parts(self) -> Iterator[tuple[Dim, range]]:
        return zip(self.node.dims, self.ranges, strict=True)


# The grid of a data set.


@dataclass(frozen=True)
class MethodPlan:
    """A method in the grid of a data set: its name, and its calls for each cell."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: Name
    restarts: Length


@dataclass(frozen=True)
class UnionPlan:
    """Cells of a model and a search whose Gaussians are in the cube, and how long their rows have to be."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    model: Name
    search: Name | None
    components: Annotated[int, Whole(1, 10**9)]
    entries: Annotated[int, Whole(1, 10**9)]

    @property
    def of(self) -> tuple[str, str | None]:
        """Of which cells it is."""
        return self.model, self.search

    def is_longer(self, components: int, entries: int) -> bool:
        """Whether its rows are longer than others."""
        return self.components > components or self.entries > entries


@dataclass(frozen=True)
class DatasetPlan:
    """The grid of one data set: one node of the cube.

    Parameters
    ----------
    name : str
        Node name.
    n_samples, n_features, n_clusters : int
        Sizes.
    checksum : str
        sha256 of the parsed table, or of the recipe of the mixtures.
    source : str
        Where the data came from, for people.
    has_labels : bool
        Whether true labels are known.
    mixtures : int or None
        Number of mixtures; None for a real data set.
    p : tuple of float
        Accuracies.
    m : tuple of int
        Annotation counts.
    replicates : int
        Redraws of the annotation graph.
    models : tuple of str
        Supervised models, and methods that use links.
    baselines : tuple of str
        Models without annotations, and methods that use none.
    restarts : int
        Restarts of each cell of a model, and the most of a method.
    mixture_chunk, replicate_chunk, model_chunk : int
        Chunk lengths: the lengths at the creation of the cube.
    scale : str
        How the features were scaled: none, standard or minmax.
    adaptive : bool
        Whether a cell of a model may end before its last restart.
    held_out : bool
        Whether every cell with annotations holds some out, to see how well its model predicts them.
    methods : tuple of MethodPlan
        Those of `models` and `baselines` that are methods.
    n_annotations : int
        Annotations of the user's own that cells draw from; 0 where they are drawn from the true labels.
    annotations_checksum : str
        Sha256 of them; empty where there are none.
    designs : tuple of str
        How annotated pairs are chosen; several are a dimension of the cell.
    searches : tuple of str
        Names of the searches, a dimension of the cell where there are several; empty where there is one.
    feature_names, class_names : tuple of str
        Of a table that has them; classes by their codes. Empty in cubes made before names were kept.
    sample_names : str
        Sha256 of the names of the samples; empty where they have none.
    unions : tuple of UnionPlan
        Where classes are unions of Gaussians; without those that a cube of format 2 holds already.
    first_mixture, mixture_step : int
        The first of the mixtures, and from one to the next: a part of a sweep has some of them.
    short : bool
        Whether 32 bits hold every feature as used, which the cube stores as float32 then.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: DataName
    n_samples: Annotated[int, Whole(1, 10**9)]
    n_features: Length
    n_clusters: Clusters
    checksum: Source
    source: Source
    has_labels: Flag
    mixtures: Length | None
    p: Annotated[tuple[Accuracy, ...], Each(accuracy_code, shortest=0)]
    m: Annotated[tuple[Annotated[int, Whole(1, 2**31 - 1)], ...], Each(int, shortest=0)]
    replicates: Length
    models: Annotated[tuple[Name, ...], Each(str, shortest=0)]
    baselines: Annotated[tuple[Name, ...], Each(str, shortest=0)]
    restarts: Length
    mixture_chunk: Length
    replicate_chunk: Length
    model_chunk: Length
    scale: Scale = "none"
    adaptive: Flag = False
    held_out: Flag = False
    methods: Annotated[tuple[MethodPlan, ...], Each(repr, shortest=0)] = ()
    n_annotations: Annotated[int, Whole(0, MOST_ANNOTATIONS)] = 0
    annotations_checksum: Source = ""
    designs: Annotated[tuple[Annotated[str, Choice(DESIGNS)], ...], Each(str)] = DEFAULT
    searches: Annotated[tuple[Name, ...], Each(str, shortest=0)] = ()
    feature_names: Names = ()
    class_names: Names = ()
    sample_names: Source = ""
    unions: Annotated[tuple[UnionPlan, ...], Each(repr, shortest=0)] = ()
    first_mixture: Annotated[int, Whole(0, 10**6)] = 0
    short: Flag = False
    mixture_step: Annotated[int, Whole(1, 10**6)] = 1

    @property
    def supervised(self) -> bool:
        """Whether there is anything beside baselines."""
        return bool(self.models)

    @property
    def asked(self) -> tuple[str, ...]:
        """Designs whose pairs are asked for; none where there is nothing beside baselines."""
        return tuple(filter(asks, self.designs)) if self.supervised else ()

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """Of a cell that has all coordinates that any of this data set has.

        Whoever adds a coordinate of cells adds a dimension here.
        """
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
        """Where results lie in the cube: of each baseline, then of the models that use annotations."""
        nodes = []
        for name in self.baselines:
            # a method searches by itself
            own = ("mixture",) if any(each.name == name for each in self.methods) else ("mixture", "search")
            dims = [dim if dim.name in own else _dim(dim.name) for dim in self.dims[:-1]]
            model = Dim("model", (name,), ranged=True, stored=False, of_graph=False)
            nodes.append(Node(f"{self.name}/{name}", self.name, (*dims, model)))
        return (*nodes, Node(self.name, self.name, self.dims)) if self.models else tuple(nodes)

    @cached_property
    def node_of(self) -> dict[str, Node]:
        """The node of each model, method and baseline."""
        return {model: node for node in self.nodes for model in node.dims[-1].values}

    def unions_of(self, models: Iterable[str], searches: Iterable[str | None]) -> list[UnionPlan]:
        """Of some models and searches those whose cells have Gaussians in the cube."""
        pairs = set(product(models, searches))
        return [each for each in self.unions if each.of in pairs]

    @property
    def n_paths(self) -> int:
        """Number of paths of questions, each up to the largest m."""
        return (self.mixtures or 1) * len(self.p) * self.replicates * len(self.asked)

    @property
    def n_cells(self) -> int:
        """Number of cells, baselines included."""
        return sum(node.n_cells for node in self.nodes)

    @property
    def n_restarts(self) -> int:
        """Restarts of all cells together."""
        return sum(
            node.n_cells // len(node.dims[-1].values) * self.restarts_of(model)
            for model, node in self.node_of.items()
        )

    def restarts_of(self, model: str) -> int:
        """Restarts of each cell of a model, or calls of a method."""
        return next((each.restarts for each in self.methods if each.name == model), self.restarts)

    def blocks(self) -> Iterator[Block]:
        """All blocks, baselines first, then by accuracy, annotation count, design and search."""
        return (block for node in self.nodes for block in node.blocks())

    def has(self, cell: Cell) -> bool:
        """Whether the grid has a cell; values of other types are none of it."""
        node = self.node_of.get(cell.model)
        return node is not None and None not in node.indices(cell)

    def has_path(self, path: AskedPath) -> bool:
        """Whether the grid has a path; values of other types are none of it."""
        known = [
            dim.index(getattr(path, dim.name, None)) for dim in self.dims if dim.of_graph and dim.name != "m"
        ]
        return path.design in self.asked and None not in known

    def block_of(self, cell: Cell) -> Block:
        """Block that holds `cell`."""
        node = self.node_of[cell.model]
        indices = zip(node.dims, node.indices(cell), strict=True)
        return Block(node, tuple(dim.chunk_at(present(index)) for dim, index in indices))


# Names of cells, `iris/p=0.8/m=75/replicate=0/posterior`, read back into cells of a sweep.


def find_cells(names: Iterable[str], plans: Sequence[DatasetPlan]) -> frozenset[Cell]:
    """Cells of several names, as `find_cell` finds one.

    Raises
    ------
    InputError
        With the problems of all names.
    """
    cells: set[Cell] = set()
    problems: list[Problem] = []
    for name in names:
        with collecting(problems):
            cells.add(find_cell(name, plans))
    if problems:
        raise InputError(problems)
    return frozenset(cells)


def find_cell(name: str, plans: Iterable[DatasetPlan]) -> Cell:
    """The cell of a sweep that `str(cell)` names.

    Parameters
    ----------
    name : str
        Data set, coordinates in any order, model; mixtures have `mixture=NUMBER` as well, the cells of a
        sweep that names another design than "uniform" have `design=DESIGN`, and those of a sweep of several
        searches `search=SEARCH`.
    plans : iterable of DatasetPlan
        All data sets of the sweep.

    Returns
    -------
    Cell

    Raises
    ------
    InputError
        With all problems of the name, and the coordinates the sweep has.
    """
    *before, model = [part.strip() for part in name.split("/")] if "/" in name else [name, ""]
    known = {plan.name: plan for plan in plans}
    # names of data sets may have slashes too: that of most parts is meant
    meant = [length for length in range(len(before), 0, -1) if "/".join(before[:length]) in known]
    length = meant[0] if meant else next((n for n, part in enumerate(before) if "=" in part), len(before))
    dataset, pairs = "/".join(before[:length]), before[length:]
    where = f"cell {name!r}"
    if dataset not in known:
        raise InputError([not_one_of(where, dataset, known)])
    plan = known[dataset]
    if model not in plan.node_of:
        raise InputError([not_one_of(where, model, (*plan.models, *plan.baselines))])
    node = plan.node_of[model]
    dims = {dim.name: dim for dim in node.named}
    problems, texts, values = list[Problem](), dict[str, str](), dict[str, Any](dict.fromkeys(AXES))
    # how names of the cells of this node are written
    words = {int: "NUMBER", float: "ACCURACY"}
    parts = (f"{axis}={words.get(type(dim.values[0]), axis.upper())}" for axis, dim in dims.items())
    form = "/".join(["DATASET", *parts, model])
    for pair in pairs:
        axis, equals, text = pair.partition("=")
        if not equals or axis not in dims or axis in texts:
            found = f"{axis!r} again" if axis in texts else repr(pair)
            expected = f"each of {', '.join(dims)} once" if dims else "no coordinate"
            problems.append(Problem(where, found, expected, f"the form is {form}"))
        texts.setdefault(axis, text)
    for axis, dim in dims.items():
        index = dim.read(texts[axis]) if axis in texts else None
        if index is None:
            hint = did_you_mean(texts.get(axis, ""), [each for each in dim.values if isinstance(each, str)])
            found = f"{axis}={texts[axis]}" if axis in texts else f"no {axis}"
            problems.append(Problem(where, found, f"{axis}={dim.shown()}", hint))
        else:
            values[axis] = dim.values[index]
    if problems:
        raise InputError(problems)
    return Cell(dataset, **values | {"model": model})
