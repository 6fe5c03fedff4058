"""The sweep as it was understood: frozen records, of which a cube keeps the `dump` that `load` reads back.

`part_of` returns a part of a sweep, which a head of its own runs.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, PlainSerializer, Tag
from pydantic_core import core_schema

from sweep_clustering.kernels.settings import PARAMETERS
from sweep_clustering.sweeps.errors import Problem, raise_all, refused
from sweep_clustering.sweeps.file.methods import Method, name_of
from sweep_clustering.sweeps.file.search import CUBE_FORM, Search
from sweep_clustering.sweeps.plan import Accuracy, Citation, Clusters, DataName, Name, Scale, range_words
from sweep_clustering.sweeps.records import (
    As,
    Choice,
    Expected,
    Interval,
    List,
    NoNull,
    Parser,
    Real,
    Record,
    Set,
    Text,
    Whole,
    read,
    refusal,
)
from sweep_clustering.sweeps.seeds import accuracy_code
from sweep_clustering.sweeps.shapes import DIMS
from sweep_clustering.sweeps.words import BASELINES, CROWD, DEFAULT, DESIGNS, MODEL_CODES, asked_of

# The adaptive stop of restarts, as the sweep file states it.

RULES = ("boender-rinnooy-kan", "good-turing")


class Stop(Record):
    """Rule by which a cell stops before all of its restarts."""

    rule: Annotated[str, Choice(RULES)] = Field(
        RULES[0], description="How the probability that a restart finds something new is estimated."
    )
    risk: Annotated[float, Real("a probability between 0 and 1", gt=0, lt=1)] = Field(
        description="A cell stops when the estimate is below."
    )
    r_min: Annotated[int, Whole(2, 10**6)] = Field(
        10, description="Restarts before the rule is first tested."
    )
    step: Annotated[int, Whole(1, 10**6)] = Field(5, description="Restarts between one test and the next.")


# Numbers of annotations as the sweep file states them: whole numbers, or shares of the samples.

COUNT = r"\s*(\d+(?:\.\d*)?|\.\d+)?\s*N\s*"


@dataclass(frozen=True)
class AnnotationCount:
    """Number of annotations: a whole number, or a share of the number of samples (`"1.5N"`)."""

    text: str

    def resolve(self, n_samples: int) -> int:
        """Return the whole number for `n_samples`: floor(f·N), exact for decimal digits."""
        if self.text.endswith("N"):
            return math.floor(Fraction(self.text[:-1] or "1") * n_samples)
        return int(self.text)


def annotation_count(value: object) -> AnnotationCount:
    """Read a number of annotations of a file, or the text that a cube keeps."""
    if isinstance(value, AnnotationCount):
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, str):
        match = re.fullmatch(COUNT, value)
        if match is not None and (match[1] is None or Fraction(match[1]) > 0):
            return AnnotationCount(f"{match[1] or '1'}N")
    elif isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31:
        return AnnotationCount(str(value))
    raise refusal('a whole number of at least 1, or a text such as "1.5N"')


Count = Annotated[
    AnnotationCount,
    Parser(
        annotation_count,
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": rf"^{COUNT}$|^\d+$"}]},
    ),
    PlainSerializer(lambda count: count.text),
]


# The table `[ask]` of a sweep file: how the pairs of designs that ask for them are chosen.


class Ask(Record):
    """How questions are chosen, batch after batch.

    A batch is a function of the answers before it and of a random stream of its own, so that all of this is
    science: it is compared when a cube grows.
    """

    batch: Count = Field(
        AnnotationCount("0.125N"),
        description='Questions of a batch: a whole number, or a share of the samples such as "0.125N".',
        json_schema_extra={"default": "0.125N"},
    )
    restarts: Annotated[int, Whole(1, 10**6)] = Field(
        3, description="Independent runs of the search before each batch."
    )
    covariance: Annotated[str, Choice(tuple(DIMS))] = Field(
        "auto",
        description='Shape of the covariances of the model that asks; "auto" chooses one for each batch.',
    )


# The table `[crowd]` of a sweep file: the annotators of the design of this name.


def _quantiles(pairs: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    shares, accuracies = zip(*pairs, strict=True) if pairs else ((), ())
    if list(shares) != sorted(set(shares)) or list(accuracies) != sorted(accuracies):
        raise refusal("pairs [share, accuracy] with rising shares and accuracies that do not fall")
    return pairs


Share = Annotated[float, Real("a share of the annotators from 0 to 1", ge=0, le=1)]
Likely = Annotated[float, Real("an accuracy between 0 and 1", gt=0, lt=1)]
Mean = Annotated[float, Real("a finite number")]
Deviation = Annotated[float, Real("a standard deviation of at least 0", ge=0)]
Quantiles = Annotated[
    tuple[Annotated[tuple[Share, Likely], List()], ...], Set(repr), AfterValidator(_quantiles)
]


class Crowd(Record):
    """Annotators whose answers the design "crowd" draws (model.md, section 4)."""

    answers: Annotated[int, Whole(1, 10**6)] = Field(30, description="Answers of each annotator.")
    accuracies: Quantiles = Field(
        ((0.1, 0.5), (0.25, 0.6), (0.5, 0.7), (0.75, 0.77), (1.0, 0.9)),
        description="Quantiles of the accuracies: pairs of a share of the annotators and the accuracy that"
        " they do not exceed. Their log odds are shifted so that p is the median.",
    )
    leaning: Annotated[tuple[Mean, Deviation], List()] = Field(
        (-0.15, 0.8),
        description='Mean and standard deviation of the log odds by which annotators lean towards "together":'
        " more accurate on pairs that belong together, and less on others.",
    )
    unsure: Annotated[float, Real("a share from 0 to below 1", ge=0, lt=1)] = Field(
        0.0, description='Share of the answers that are "unsure".'
    )


# Data sets of a sweep file: known by name, tables of the user's own, mixtures.

ColumnKey = Annotated[str | int, Expected("a column's name or index")]
Columns = Annotated[tuple[ColumnKey, ...], Set(repr)]

EMPTY_CELLS = PARAMETERS["missing"]
TEXTS = PARAMETERS["categories"]
LOST_LINKS = PARAMETERS["links_outside"]

SCALE = "How the features are scaled; that of [data] where it is left out."


def _check_name(name: str) -> str:
    if name == "suite":
        raise refusal("another name", "data sets of the suite stand in a group of the cube that is called so")
    return name


OwnName = Annotated[Name, AfterValidator(_check_name)]


class NamedRecord(Record):
    """A data set, by the name of its node in the cube."""

    name: Name = Field(description="Name in the cube.")


class Builtin(NamedRecord):
    """One of the data sets known by name."""

    name: DataName = Field(description="Name in the cube.")
    scale: Scale = Field("none", description=SCALE)


class UserTable(NamedRecord):
    """A table of the user's own; paths are absolute once the file was read."""

    name: OwnName = Field(description="Name in the cube.")
    path: Annotated[str, Text(min_length=1)] = Field(
        description="Table with a row per sample: text (CSV; .gz too), .npz, .npy, .parquet, .feather, .xlsx;"
        " relative to the folder of this file."
    )
    columns: Annotated[Columns | None, NoNull()] = Field(
        None, description="The features, by name or index; all columns that are nothing else by default."
    )
    drop: Annotated[Columns | None, NoNull()] = Field(
        None, description="Columns that are no features, by name or index."
    )
    index_column: Annotated[str | int | None, Expected("a column's name or index")] = Field(
        None, description="Column of the names of the samples, each once; annotations may use them."
    )
    label_column: Annotated[str | int | None, Expected("a column's name or index")] = Field(
        None, description="Column of the true labels, by name or index; left out where there are none."
    )
    missing: Annotated[str, Choice(EMPTY_CELLS.choices)] = Field("error", description=EMPTY_CELLS.meaning)
    links_outside: Annotated[str, Choice(LOST_LINKS.choices)] = Field("error", description=LOST_LINKS.meaning)
    categories: Annotated[str, Choice(TEXTS.choices)] = Field("error", description=TEXTS.meaning)
    sheet: Annotated[str | int | None, Expected("a sheet's name or index")] = Field(
        None, description="Sheet of an .xlsx workbook, by name or index; the first where it is left out."
    )
    n_clusters: Clusters | None = Field(
        None, description="Number of clusters; that of the classes where it is left out."
    )
    annotations: Annotated[str | None, NoNull(), Text(min_length=1)] = Field(
        None, description="File of annotations that cells draw from; relative to the folder of this file."
    )
    first_row: Annotated[
        str | int, Expected('"auto", 0 or 1', schema=core_schema.literal_schema(["auto", 0, 1]))
    ] = Field(
        "auto",
        description="Number of the first row in the file of annotations; by default row 0, row N or the"
        " answers decide.",
    )
    scale: Scale = Field("none", description=SCALE)
    licence: Annotated[
        str, Text("an SPDX identifier, such as CC-BY-4.0", pattern=r"^[A-Za-z0-9.+-]{0,100}$")
    ] = Field(
        "", description="SPDX identifier of the licence, such as CC-BY-4.0; a bundle has no data without one."
    )
    citation: Citation = Field("", description="How to cite it: authors, year, title, place and DOI.")


# Keys of a table that the first cubes had; if others are lacking, their defaults were meant.
FIRST_KEYS = ("name", "path", "label_column", "n_clusters", "scale")


# Kinds of mixtures: spherical Gaussians, or rows of length one with directions in which all classes vary.
KINDS = ("spherical", "embeddings")


class Draw(Record):
    """How mixtures are drawn (model.md, eq. (25))."""

    count: Annotated[int, Whole(1, 10**6)] = Field(description="Number of mixtures.")
    n_samples: Annotated[int, Whole(2, 10**9)] = Field(200, description="Samples of a mixture.")
    n_features: Annotated[int, Whole(1, 10**6)] = Field(10, description="Features.")
    center: Annotated[tuple[float, float], Interval()] = Field(
        (-1.0, 1.0), description="Interval that the coordinates of the centers are drawn from."
    )
    variance: Annotated[
        tuple[float, float], Interval("a pair [low, high] with 0 ≤ low ≤ high and 0 < high", floor=0, edge=0)
    ] = Field((0.0, 5.0), description="Interval that the variances of the clusters are drawn from.")
    kind: Annotated[str, Choice(KINDS)] = Field(
        KINDS[0],
        description="Spherical Gaussians, or embeddings: rows of length one, which vary most in a few"
        " directions that say nothing about their class.",
    )
    skew: Annotated[float, Real("a number from 0 to 3", ge=0, le=3)] = Field(
        0.0, description="Power of the rank by which the sizes of the clusters fall; 0 for equal ones."
    )


# Keys of drawn data that the first cubes lacked; if they are lacking, these values were meant.
LATER_DRAW = {"kind": KINDS[0], "skew": 0.0}


class _OneSize(NamedRecord):
    n_clusters: Clusters


class Mixtures(Draw, _OneSize):
    """`count` draws of a mixture with one number of clusters.

    The order of the base classes is that of the keys in what a cube keeps: name and number of clusters first.
    """

    scale: Scale = "none"
    # the first mixture: a part of a sweep has some of them
    first: Annotated[int, Whole(0, 10**6)] = 0
    # from one of them to the next: a part has every second of two parts
    step: Annotated[int, Whole(1, 10**6)] = 1

    @property
    def draws(self) -> range:
        """Numbers of the mixtures."""
        return range(self.first, self.first + self.count * self.step, self.step)


def mixtures_name(name: str, n_clusters: object) -> str:
    """Return the name of the data set with one number of clusters in an entry with several."""
    return f"{name}_k{n_clusters}"


def base_name(name: str, n_clusters: int) -> str:
    """Return the name of the entry that a data set of mixtures comes from."""
    return name.removesuffix(mixtures_name("", n_clusters))


def kind_of(value: object) -> str:
    """Return the tag of a table, or record, in a union, by a key that only one member has."""
    for key, kind in (("mixture", "(entry)"), ("count", "(mixtures)"), ("path", "(table)")):
        if key in (value if isinstance(value, Mapping) else getattr(value, "model_fields_set", ())):
            return kind
    return "(known)"


OwnTable = Annotated[UserTable, Tag("(table)")]
Dataset = Annotated[
    Annotated[Builtin, Tag("(known)")] | OwnTable | Annotated[Mixtures, Tag("(mixtures)")],
    Discriminator(kind_of),
]


class Grid(Record):
    """Values that are crossed with each other."""

    datasets: Annotated[tuple[Dataset, ...], Set(repr)] = Field(
        description="Data sets: names of known ones, tables of your own, mixtures."
    )
    p: Annotated[tuple[Accuracy, ...], Set(accuracy_code, shortest=0)] = Field(
        (), description="Accuracies: probabilities that an annotation is right."
    )
    m: Annotated[tuple[Count, ...], Set(lambda value: annotation_count(value).text, shortest=0)] = Field(
        (), description='Numbers of annotations: whole numbers, or shares of the samples such as "1.5N".'
    )
    design: Annotated[tuple[Annotated[str, Choice(DESIGNS)], ...], Set(str)] = Field(
        DEFAULT, description="How the annotated pairs are chosen: drawn, or asked for batch after batch."
    )
    replicates: Annotated[int, Whole(1, 10**6)] = Field(
        1, description="How often the annotations are drawn again."
    )
    models: Annotated[tuple[Annotated[str, Choice(tuple(MODEL_CODES))], ...], Set(str, shortest=0)] = Field(
        (), description="Models; those that use annotations need p, m and replicates."
    )
    methods: Annotated[tuple[Method, ...], Set(name_of, shortest=0)] = Field(
        (), description="Methods beside the models: names of shipped ones, and tables of your own."
    )
    restarts: Annotated[int, Whole(1, 10**6)] = Field(
        description="Independent runs of the search for each cell; the best one is kept."
    )

    @property
    def supervised(self) -> tuple[str, ...]:
        """Models and methods that use annotations."""
        models = tuple(model for model in self.models if model not in BASELINES)
        return models + tuple(method.name for method in self.methods if method.uses == "links")

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models and methods that use none."""
        models = tuple(model for model in self.models if model in BASELINES)
        return models + tuple(method.name for method in self.methods if method.uses == "nothing")

    @property
    def n_cells(self) -> int:
        """Number of cells of one real data set, whatever its size."""
        graphs = len(self.p) * len(self.m) * len(self.design) * self.replicates
        return graphs * len(self.supervised) + len(self.baselines)


class Data(Record):
    """Keys of all data sets."""

    unavailable: Annotated[str, Choice(("error", "skip"))] = Field(
        "error", description="What to do about a data set that is not available."
    )


class SweepSpec(Record):
    """A sweep as it was understood: every default filled in, paths absolute.

    The cube keeps its `dump`; its format version is that of the cube.
    """

    name: Name = Field(description="Names the cube.")
    seed: Annotated[int, Whole(0, 2**63 - 1)] = Field(description="Root of every random stream.")
    grid: Grid = Field(description="Values that are crossed with each other.")
    search: Annotated[tuple[Search, ...], As(CUBE_FORM)] = Field(
        (Search(),), description="How each solution is searched for: one search, or several by name."
    )
    data: Data = Field(
        default_factory=Data, description="How the features are scaled; what is done without a data set."
    )
    ask: Ask = Field(Ask(), description="How designs whose pairs are asked for choose them.")
    crowd: Crowd = Field(Crowd(), description='Annotators of the design "crowd".')
    stop: Annotated[Stop | None, NoNull()] = Field(
        None, description="When a cell has had restarts enough; all of them are run where it is left out."
    )

    @property
    def search_names(self) -> tuple[str, ...]:
        """Names of the searches where there are several; none where there is one."""
        return tuple(search.name for search in self.search if search.name is not None)

    def search_of(self, name: str | None) -> Search:
        """Return the search of a name; the first one for None, which is that of a sweep of one search."""
        return self.search[0] if name is None else next(item for item in self.search if item.name == name)

    @property
    def held_out(self) -> bool:
        """Whether every model with annotations predicts those that it has not seen, in all searches."""
        return self.search[0].held_out

    def dump(self) -> dict[str, Any]:
        """Return plain JSON values that `load` reads back, and that a cube keeps and compares."""
        plain = self.model_dump(mode="json")
        # without what no older cube has: those stay growable
        if self.stop is None:
            del plain["stop"]
        if not self.grid.methods:
            del plain["grid"]["methods"]
        for method in plain["grid"].get("methods", ()):
            if not method["citation"]:
                del method["citation"]
        for entry in plain["grid"]["datasets"]:
            later_keys = {
                key: field.default for key, field in UserTable.model_fields.items() if key not in FIRST_KEYS
            }
            for key, default in {**later_keys, **LATER_DRAW, "first": 0, "step": 1}.items():
                if key in entry and entry[key] == default:
                    del entry[key]
        if self.grid.design == DEFAULT:
            del plain["grid"]["design"]
        if not asked_of(self.grid.design):
            del plain["ask"]
        if CROWD not in self.grid.design:
            del plain["crowd"]
        return plain


def load(location: str, dump: object) -> SweepSpec:
    """Read the dump of a sweep, from wherever it comes; what no sweep would have written is refused."""
    return read(SweepSpec, dump, location)


# Parts of a sweep, for several heads: each is a sweep with some data sets and some mixtures. It has cells of
# the whole sweep, with the same names, and so the same seeds and bits. Its name leads to cube and run folder.

PART_TEXT = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
PART_NAME = re.compile(r"(.+)\.part-([1-9][0-9]{0,5})-of-([1-9][0-9]{0,5})")
# Longest name, as in `sweeps.plan.Name`.
LONGEST = 100


@dataclass(frozen=True)
class Part:
    """Part of a sweep, from the name of its cube."""

    sweep: str  # name of the whole sweep
    number: int  # from 1
    of: int  # number of parts

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def part_named(name: str) -> Part | None:
    """Return the part with a name, None for a whole sweep."""
    match = PART_NAME.fullmatch(name)
    part = None if match is None else Part(match[1], int(match[2]), int(match[3]))
    return part if part is not None and part.number <= part.of else None


def numbers_of(text: str) -> tuple[int, int]:
    """Return number and count of a text such as "1/4"; another form is an InputError."""
    match = PART_TEXT.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        expected = "NUMBER/PARTS, such as 1/4, the first of four"
        raise refused("--part", repr(text), expected)
    return int(match[1]), int(match[2])


def part_of(spec: SweepSpec, text: str, specs: Mapping[int, SweepSpec] | None = None) -> SweepSpec:
    """Return a part of a sweep, which keeps its data sets and mixtures when mixtures are added.

    A real data set and a mixture have the same number of cells. The real data sets are dealt to the parts in
    turn, and so are the mixtures of each entry.

    Parameters
    ----------
    spec : SweepSpec
        the whole sweep
    text : str
        the part, such as "1/4"
    specs : mapping of int to SweepSpec, optional
        sweeps of the parts that have a cube, by their numbers

    Raises
    ------
    InputError
        If the text has another form, if a part would be empty, or if a cube has data that its part lacks.
    """
    (number, parts), option = numbers_of(text), "--part"
    # an earlier release may have made as many cubes as data sets and mixtures
    max_parts = sum(map(_length, spec.grid.datasets)) if specs else _max_parts(spec)
    if parts > max_parts:
        expected = f"at most {max_parts:,} parts: a part is at least one data set or one mixture"
        raise refused(option, repr(text), expected)
    name = f"{spec.name}.part-{number}-of-{parts}"
    if len(name) > LONGEST:
        expected = f"at most {LONGEST} characters; give the sweep a shorter name"
        raise refused(option, f"a cube named {name}", expected)
    datasets, specs = dealt(spec, number, parts), specs or {}
    problems = [*_changes(specs, {part: dealt(spec, part, parts) for part in specs}, is_growing=True)]
    if problems or parts > _max_parts(spec):
        ranges = {part: dealt_in_ranges(spec, part, parts) for part in specs}
        if changes := [*_changes(specs, ranges, is_growing=False)]:
            raise_all(problems or changes)
        datasets = dealt_in_ranges(spec, number, parts)
    grid = spec.grid.model_copy(update={"datasets": tuple(datasets)})
    return spec.model_copy(update={"name": name, "grid": grid})


def _max_parts(spec: SweepSpec) -> int:
    """Return the largest number of parts of which none is empty."""
    # the mixtures of each entry begin one part after those of the entry before
    counts = [entry.count for entry in spec.grid.datasets if isinstance(entry, Mixtures)]
    n_real = len(spec.grid.datasets) - len(counts)
    return max([n_real, *(n_real + number + count for number, count in enumerate(counts))])


def dealt(spec: SweepSpec, number: int, parts: int) -> list[Dataset]:
    """Return the data sets of a part: each mixture has its part whatever the number of mixtures is."""
    n_real = sum(not isinstance(entry, Mixtures) for entry in spec.grid.datasets)
    datasets: list[Dataset] = []
    turns, mixed_turns = count(), count(n_real)
    for entry in spec.grid.datasets:
        if isinstance(entry, Mixtures):
            if draws := entry.draws[(number - 1 - next(mixed_turns)) % parts :: parts]:
                place = {"first": draws[0], "count": len(draws), "step": entry.step * parts}
                datasets.append(entry.model_copy(update=place))
        elif next(turns) % parts == number - 1:
            datasets.append(entry)
    return datasets


def dealt_in_ranges(spec: SweepSpec, number: int, parts: int) -> list[Dataset]:
    """Return the data sets of a part as earlier releases divided a sweep: mixtures could not grow."""
    lengths = [_length(entry) for entry in spec.grid.datasets]
    begin, end = ((part * sum(lengths)) // parts for part in (number - 1, number))
    datasets: list[Dataset] = []
    for entry, length in zip(spec.grid.datasets, lengths, strict=True):
        first, stop = max(begin, 0), min(end, length)
        if first < stop:
            if isinstance(entry, Mixtures):
                entry = entry.model_copy(update={"count": stop - first, "first": entry.first + first})
            datasets.append(entry)
        begin, end = begin - length, end - length
    return datasets


def _changes(
    specs: Mapping[int, SweepSpec], new_entries: Mapping[int, list[Dataset]], *, is_growing: bool
) -> Iterator[Problem]:
    """Yield the data that existing parts would lose, or gain without room for them."""
    for number, sweep in specs.items():
        entries = {entry.name: entry for entry in new_entries[number]}
        for entry in sweep.grid.datasets:
            new_entry = entries.get(entry.name)
            is_kept = new_entry is not None
            if isinstance(entry, Mixtures) and isinstance(new_entry, Mixtures):
                is_kept = new_entry.draws[: entry.count] == entry.draws
                # a range would grow over the next one
                is_kept = is_kept and (is_growing or new_entry.count == entry.count)
            if not is_kept:
                old, new = (_words(row) for row in (entry, new_entry))
                hint = "use another name; parts of an earlier release are ranges, which cannot grow"
                yield Problem(f"{sweep.name}: data set {entry.name}", new, f"{old}, as in its cube", hint)


def _words(entry: Dataset | None) -> str:
    """Return the data that a part has of a data set in words."""
    if entry is None:
        return "nothing"
    return f"mixtures {range_words(entry.draws)}" if isinstance(entry, Mixtures) else "all of it"


def _length(entry: Dataset) -> int:
    return entry.count if isinstance(entry, Mixtures) else 1
