"""The work of a sweep as plain records: cells, and the blocks they are written in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Strict

from sweeps.annotations.draw import MOST_ANNOTATIONS
from sweeps.errors import InputError, Problem, collecting, did_you_mean, given
from sweeps.records import Choice, Each, Listed, Real, Text, Whole
from sweeps.seeds import accuracy_code
from sweeps.words import DEFAULT, DESIGNS, SCALES, asked_of

Name = Annotated[
    str,
    Text(
        "a name of letters, digits, '.', '_' and '-', at most 100",
        "a path or a blank cannot be part of a name, nor '.' or '-' begin one",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$",
    ),
]
"""What can name a cube or one of its nodes."""

Accuracy = Annotated[float, Real("an accuracy in (0, 1]", ge=1e-9, le=1)]
Scale = Annotated[str, Choice(SCALES)]
Clusters = Annotated[int, Whole(1, 32_767)]
"""Labels are int16, counted from 0, with -1 for a cell that is not done."""
Length = Annotated[int, Whole(1, 10**6)]
Source = Annotated[str, Text("a text of at most 10,000 characters", longest=10_000)]
Flag = Annotated[bool, Strict()]
Names = Annotated[tuple[Annotated[str, Text("a text of at most 200 characters", longest=200)], ...], Listed()]
"""Of features or classes, as a table has them: some may be the same."""

ACCURACY = ".9g"
"""Enough digits that accuracies 1e-9 apart, the closest allowed, have different names."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The unit of result: one data set, mixture, accuracy, annotation count, replicate, search and model.

    A baseline has no `p`, `m`, `replicate` and `design`; a real data set has no `mixture`. There is no
    `design` where the sweep names no other than "uniform", and no `search` where the sweep has one alone; a
    method among the baselines has none either.
    """

    dataset: str
    mixture: int | None
    p: float | None
    m: int | None
    replicate: int | None
    model: str
    design: str | None = None
    search: str | None = None

    def __str__(self) -> str:
        parts = [self.dataset]
        for key in ("mixture", "p", "m", "design", "replicate", "search"):
            value = getattr(self, key)
            if value is not None:
                parts.append(f"{key}={value:{ACCURACY}}" if isinstance(value, float) else f"{key}={value}")
        return "/".join([*parts, self.model])


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
        return cls(cell.dataset, cell.mixture, given(cell.p), given(cell.replicate), given(cell.design))

    def __str__(self) -> str:
        mixture = "" if self.mixture is None else f"/mixture={self.mixture}"
        return (
            f"{self.dataset}{mixture}/p={self.p:{ACCURACY}}/design={self.design}/replicate={self.replicate}"
        )


@dataclass(frozen=True, slots=True)
class Block:
    """The unit of write: the cells of one chunk position of the cube.

    Parameters
    ----------
    dataset : str
        Node of the cube.
    p, m : float and int, or None
        None for a baseline.
    mixtures : (start, stop) or None
        Half-open range of mixtures; None for a real data set.
    replicates : (start, stop) or None
        Half-open range of replicates; None for a baseline.
    models : tuple of str
        Supervised models of the chunk, or one baseline.
    design, search : str or None
        As of its cells.
    """

    dataset: str
    p: float | None
    m: int | None
    mixtures: tuple[int, int] | None
    replicates: tuple[int, int] | None
    models: tuple[str, ...]
    design: str | None = None
    search: str | None = None

    @property
    def unsupervised(self) -> bool:
        """Whether this block belongs to the node of a baseline."""
        return self.replicates is None

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(_range(self.mixtures)) * len(_range(self.replicates)) * len(self.models)

    def cells(self) -> Iterator[Cell]:
        """Cells in storage order: mixture, then replicate, then model."""
        for mixture, replicate, model in product(_range(self.mixtures), _range(self.replicates), self.models):
            yield Cell(self.dataset, mixture, self.p, self.m, replicate, model, self.design, self.search)

    def position(self, cell: Cell) -> int:
        """Place of `cell` in storage order: its row in every array of the block."""
        return list(self.cells()).index(cell)

    def __str__(self) -> str:
        parts = [self.dataset]
        if self.unsupervised:
            parts += self.models
        else:
            parts += [f"p={self.p:{ACCURACY}}", f"m={self.m}"]
            parts += [] if self.design is None else [f"design={self.design}"]
        parts += [] if self.search is None else [f"search={self.search}"]
        if self.mixtures is not None:
            parts.append("mixtures={}:{}".format(*self.mixtures))
        if self.replicates is not None:
            parts.append("replicates={}:{}".format(*self.replicates))
        return "/".join(parts)


@dataclass(frozen=True)
class MethodPlan:
    """A method in the grid of a data set: its name, and its calls for each cell."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: Name
    restarts: Length


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
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: Name
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

    @property
    def supervised(self) -> bool:
        """Whether there is anything beside baselines."""
        return bool(self.models)

    @property
    def has_designs(self) -> bool:
        """Whether the cell has a dimension `design`: only where several are named."""
        return len(self.designs) > 1

    @property
    def cell_designs(self) -> tuple[str | None, ...]:
        """Designs as the cells have them."""
        return (None,) if self.designs == DEFAULT else self.designs

    @property
    def cell_searches(self) -> tuple[str | None, ...]:
        """Searches as the cells have them."""
        return self.searches or (None,)

    def searches_of(self, baseline: str) -> tuple[str | None, ...]:
        """Searches of a baseline: a method searches by itself."""
        return (None,) if any(each.name == baseline for each in self.methods) else self.cell_searches

    @property
    def asked(self) -> tuple[str, ...]:
        """Designs whose pairs are asked for; none where there is nothing beside baselines."""
        return asked_of(self.designs) if self.supervised else ()

    @property
    def n_paths(self) -> int:
        """Number of paths of questions, each up to the largest m."""
        return (self.mixtures or 1) * len(self.p) * self.replicates * len(self.asked)

    @property
    def n_graphs(self) -> int:
        """Number of annotation graphs of a mixture, or of a real data set."""
        return len(self.p) * len(self.m) * len(self.designs) * self.replicates

    @property
    def n_cells(self) -> int:
        """Number of cells, baselines included."""
        per_mixture = self.n_graphs * len(self.cell_searches) * len(self.models)
        return (self.mixtures or 1) * (per_mixture + sum(map(len, map(self.searches_of, self.baselines))))

    @property
    def n_restarts(self) -> int:
        """Restarts of all cells together."""
        per_mixture = self.n_graphs * len(self.cell_searches) * sum(map(self.restarts_of, self.models))
        baselines = sum(len(self.searches_of(each)) * self.restarts_of(each) for each in self.baselines)
        return (self.mixtures or 1) * (per_mixture + baselines)

    def restarts_of(self, model: str) -> int:
        """Restarts of each cell of a model, or calls of a method."""
        return next((each.restarts for each in self.methods if each.name == model), self.restarts)

    def blocks(self) -> Iterator[Block]:
        """All blocks, baselines first, then by accuracy, annotation count, design and search."""
        mixture_ranges: list[tuple[int, int] | None] = [None]
        if self.mixtures is not None:
            mixture_ranges = list(_chunks(self.mixtures, self.mixture_chunk))
        for baseline in self.baselines:
            for search, mixtures in product(self.searches_of(baseline), mixture_ranges):
                yield Block(self.name, None, None, mixtures, None, (baseline,), None, search)
        for p, m, design, search, mixtures, replicates, models in product(
            self.p,
            self.m,
            self.cell_designs,
            self.cell_searches,
            mixture_ranges,
            _chunks(self.replicates, self.replicate_chunk),
            self._model_chunks(),
        ):
            yield Block(self.name, p, m, mixtures, replicates, models, design, search)

    def has(self, cell: Cell) -> bool:
        """Whether the grid has a cell; values of other types are none of it."""
        if not _is_position(cell.mixture, self.mixtures):
            return False
        if cell.model in self.baselines:
            outside = (cell.p, cell.m, cell.replicate, cell.design) == (None, None, None, None)
            return outside and cell.search in self.searches_of(cell.model)
        known = cell.model in self.models and cell.p in self.p and cell.m in self.m
        known = known and cell.design in self.cell_designs and cell.search in self.cell_searches
        return known and _is_position(cell.replicate, self.replicates)

    def has_path(self, path: AskedPath) -> bool:
        """Whether the grid has a path; values of other types are none of it."""
        known = path.design in self.asked and path.p in self.p
        places = (path.mixture, self.mixtures), (path.replicate, self.replicates)
        return known and all(_is_position(*place) for place in places)

    def block_of(self, cell: Cell) -> Block:
        """Block that holds `cell`."""
        mixtures = replicates = None
        models: tuple[str, ...] = (cell.model,)
        if self.mixtures is not None and cell.mixture is not None:
            mixtures = _chunk_at(cell.mixture, self.mixtures, self.mixture_chunk)
        if cell.replicate is not None:
            replicates = _chunk_at(cell.replicate, self.replicates, self.replicate_chunk)
            start, stop = _chunk_at(self.models.index(cell.model), len(self.models), self.model_chunk)
            models = self.models[start:stop]
        return Block(self.name, cell.p, cell.m, mixtures, replicates, models, cell.design, cell.search)

    def _model_chunks(self) -> list[tuple[str, ...]]:
        if not self.models:
            return []
        return [self.models[start:stop] for start, stop in _chunks(len(self.models), self.model_chunk)]


def _chunks(length: int, chunk: int) -> list[tuple[int, int]]:
    return [(start, min(start + chunk, length)) for start in range(0, length, chunk)]


def _chunk_at(position: int, length: int, chunk: int) -> tuple[int, int]:
    start = position - position % chunk
    return start, min(start + chunk, length)


def _range(bounds: tuple[int, int] | None) -> range | tuple[None]:
    return (None,) if bounds is None else range(*bounds)


def _is_position(value: object, length: int | None) -> bool:
    return value is None if length is None else type(value) is int and 0 <= value < length


# Names of cells, `iris/p=0.8/m=75/replicate=0/posterior`, read back into cells of a sweep.

WORDS = {"p": "ACCURACY", "design": "DESIGN", "search": "SEARCH"}
"""What stands for a value of a coordinate; for a number of others."""


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
    dataset, *pairs, model = [part.strip() for part in name.strip().split("/")] if "/" in name else [name, ""]
    known = {plan.name: plan for plan in plans}
    if dataset not in known:
        expected = "a data set: " + ", ".join(known)
        raise InputError([Problem(f"cell {name!r}", repr(dataset), expected, did_you_mean(dataset, known))])
    reader = _Reader(name, known[dataset])
    cell = reader.cell(model, pairs)
    if reader.problems:
        raise InputError(reader.problems)
    return cell


class _Reader:
    """Reads the coordinates of one name, and collects its problems."""

    def __init__(self, name: str, plan: DatasetPlan) -> None:
        self.problems: list[Problem] = []
        self._name = name
        self._plan = plan

    def cell(self, model: str, pairs: list[str]) -> Cell:
        """The cell; valid only if no problem was found."""
        plan = self._plan
        models = (*plan.models, *plan.baselines)
        if model not in models:
            expected = f"a model of {plan.name}: {', '.join(models)}"
            self._problem(repr(model), expected, did_you_mean(model, models) or f"the form is {_form(plan)}")
            return Cell(plan.name, None, None, None, None, model)
        is_baseline = model in plan.baselines
        wanted = [] if plan.mixtures is None else ["mixture"]
        if not is_baseline:
            wanted += ["p", "m", *(["design"] if plan.cell_designs != (None,) else []), "replicate"]
        searches = plan.searches_of(model) if is_baseline else plan.cell_searches
        wanted += ["search"] if searches != (None,) else []
        texts = self._texts(pairs, wanted, model)
        mixture = self._number("mixture", texts, range(plan.mixtures or 0))
        m = self._number("m", texts, plan.m)
        replicate = self._number("replicate", texts, range(plan.replicates))
        design = self._word("design", texts, plan.designs)
        search = self._word("search", texts, plan.searches)
        return Cell(plan.name, mixture, self._accuracy(texts), m, replicate, model, design, search)

    def _texts(self, pairs: list[str], wanted: list[str], model: str) -> dict[str, str]:
        """Coordinates by name as they are written; each of `wanted` once, and no other."""
        texts: dict[str, str] = {}
        for pair in pairs:
            key, equals, text = pair.partition("=")
            if not equals or key not in wanted or key in texts:
                found = f"{key!r} again" if key in texts else repr(pair)
                expected = f"each of {', '.join(wanted)} once" if wanted else "no coordinate"
                self._problem(found, expected, f"the form is {_written(wanted, model)}")
            texts.setdefault(key, text)
        for key in wanted:
            if key not in texts:
                self._problem(f"no {key}", f"{key}={self._values(key)}")
        return {key: text for key, text in texts.items() if key in wanted}

    def _number(self, key: str, texts: dict[str, str], values: Iterable[int]) -> int | None:
        if key not in texts:
            return None
        number = int(texts[key]) if texts[key].isdecimal() else -1
        if number not in values:
            self._problem(f"{key}={texts[key]}", f"{key}={self._values(key)}")
        return number

    def _word(self, key: str, texts: dict[str, str], words: Sequence[str]) -> str | None:
        word = texts.get(key)
        if word is not None and word not in words:
            self._problem(f"{key}={word}", f"{key}={self._values(key)}", did_you_mean(word, words))
        return word

    def _accuracy(self, texts: dict[str, str]) -> float | None:
        if "p" not in texts:
            return None
        codes = {accuracy_code(p): p for p in self._plan.p}
        try:
            return codes[accuracy_code(float(texts["p"]))]
        except (ValueError, OverflowError, KeyError):
            self._problem(f"p={texts['p']}", f"p={self._values('p')}")
            return None

    def _values(self, key: str) -> str:
        plan = self._plan
        if key == "p":
            return " | ".join(f"{p:{ACCURACY}}" for p in plan.p)
        lists: dict[str, Sequence[object]] = {"m": plan.m, "design": plan.designs, "search": plan.searches}
        if key in lists:
            return " | ".join(map(str, lists[key]))
        return f"0..{((plan.mixtures or 0) if key == 'mixture' else plan.replicates) - 1}"

    def _problem(self, found: str, expected: str, hint: str = "") -> None:
        self.problems.append(Problem(f"cell {self._name!r}", found, expected, hint))


def _form(plan: DatasetPlan) -> str:
    """The form of both kinds of names; a method among the baselines has no search."""
    drawn = [] if plan.mixtures is None else ["mixture"]
    search = ["search"] if plan.searches else []
    design = ["design"] if plan.cell_designs != (None,) else []
    supervised = _written([*drawn, "p", "m", *design, "replicate", *search], "MODEL")
    return f"{supervised}, or {_written([*drawn, *search], 'BASELINE')}"


def _written(keys: list[str], model: str) -> str:
    """A name of these coordinates."""
    return "/".join(["DATASET", *(f"{key}={WORDS.get(key, 'NUMBER')}" for key in keys), model])
