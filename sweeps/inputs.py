"""Data, plans and annotations of a sweep: `load_inputs` makes them for the data sets in a sweep file.

A `Source` has the features of a cell, and `cell_annotations` draws its annotations: both depend on the
coordinates of the cell alone.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations import draw
from sweep_clustering.sweeps.annotations.files import PairFile, Pool, pool_checksum, read_pool
from sweep_clustering.sweeps.annotations.numbering import numbering_of
from sweep_clustering.sweeps.annotations.rows import MOST_ROWS, Samples
from sweep_clustering.sweeps.data.builtin import DataSet, Unavailable, causes, find
from sweep_clustering.sweeps.data.reading import load_table, scale
from sweep_clustering.sweeps.data.table import SampleRows, TableChoice
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, plural, present, rest_of
from sweep_clustering.sweeps.file.search import unions_of
from sweep_clustering.sweeps.file.spec import (
    KINDS,
    LATER_DRAW,
    Builtin,
    Crowd,
    Dataset,
    Mixtures,
    SweepSpec,
    UserTable,
)
from sweep_clustering.sweeps.plan import Cell, DatasetPlan
from sweep_clustering.sweeps.seeds import annotation_seed, data_seed, order_seed
from sweep_clustering.sweeps.words import BIASED, CROWD, DEFAULT, NEAR, UNIFORM, asked_of, asks

logger = logging.getLogger(__name__)

# Directions in which a class of embeddings varies most.
CLASS_DIRECTIONS = 5

# Share of a sample by which the rounding of sums may fall short of a whole number.
ROUNDING = 1e-6


def draw_mixture(
    rng: np.random.Generator,
    *,
    n_clusters: int,
    n_samples: int = 200,
    n_features: int = 10,
    center: tuple[float, float] = (-1.0, 1.0),
    variance: tuple[float, float] = (0.0, 5.0),
    kind: str = KINDS[0],
    skew: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Draw a mixture, and samples from it (docs/model.md, eq. (25)).

    The order of the draws is fixed: centres, variances, labels, noise, and what `kind` adds. A cluster of
    spherical Gaussians without skew may stay empty.

    Parameters
    ----------
    rng : numpy.random.Generator
        only source of randomness
    n_clusters, n_samples, n_features : int
        sizes
    center : (low, high)
        Interval on which every coordinate of every centre is uniform.
    variance : (low, high)
        Interval on which every cluster's variance is uniform.
    kind : str
        "spherical", or "embeddings": rows of length one, where each cluster has `CLASS_DIRECTIONS` directions
        in which its variance is as many times as large as there are features.
    skew : float
        Power of the rank by which the sizes of clusters fall.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Samples x ~ N(μ_r, σ²_r I).
    labels_true : array of shape (n_samples,)
        Clusters: uniform on 0 .. n_clusters - 1, or of sizes that follow from the skew.
    """
    is_spherical = kind == KINDS[0]
    centers = rng.uniform(*center, size=(n_clusters, n_features))
    variances = rng.uniform(*variance, size=n_clusters)
    if is_spherical and not skew:
        labels = rng.integers(n_clusters, size=n_samples)
    else:
        labels = rng.permutation(np.repeat(np.arange(n_clusters), class_sizes(n_samples, n_clusters, skew)))
    noise = rng.standard_normal((n_samples, n_features))
    if not is_spherical:
        axes = rng.standard_normal((n_clusters, CLASS_DIRECTIONS, n_features))
        noise += np.einsum("ns,nsf->nf", rng.standard_normal((n_samples, CLASS_DIRECTIONS)), axes[labels])
    X: NDArray[np.float64] = centers[labels] + np.sqrt(variances[labels])[:, np.newaxis] * noise
    if not is_spherical:
        X /= np.sqrt(np.square(X).sum(axis=1, keepdims=True))
    return X, labels.astype(np.int16)


def class_sizes(n_samples: int, n_clusters: int, skew: float) -> NDArray[np.int64]:
    """Return sizes that fall with the rank to a power: one sample each, and shares of the others."""
    shares = np.arange(1.0, n_clusters + 1.0) ** -skew
    ends = np.cumsum(shares) / shares.sum() * max(n_samples - n_clusters, 0)
    sizes = np.diff(np.floor(ends + ROUNDING).astype(np.int64), prepend=0)
    return np.asarray(sizes + (np.arange(n_clusters) < n_samples))


Arrays = tuple[NDArray[np.float64], NDArray[np.int16] | None]
Texts = NDArray[np.object_]

# Longest name, in characters, that a cube keeps.
LONGEST_NAME = 200

# Parts in which features are compared, without a copy of them all; for most tables the first one differs.
SHORT_PARTS = 16

# Most features, or classes, whose names a cube keeps.
MOST_NAMED = 10_000


@dataclass(frozen=True, eq=False)
class RealSource:
    """A real data set, scaled, and annotations of a user's file, if there are any."""

    X: NDArray[np.float64]
    labels_true: NDArray[np.int16] | None
    pool: Pool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Send features to workers in 32 bits each, if these hold them."""
        X = self.X.astype(np.float32) if is_short(self.X) else self.X
        return _unpacked, (X, self.labels_true, self.pool)

    def arrays(self, mixture: int | None) -> Arrays:
        """Return features as used and true labels; a real data set has no mixtures."""
        return self.X, self.labels_true


def _unpacked(
    X: NDArray[np.floating], labels_true: NDArray[np.int16] | None, pool: Pool | None
) -> RealSource:
    return RealSource(X.astype(np.float64, copy=False), labels_true, pool)


def is_short(X: NDArray[np.float64]) -> bool:
    """Whether 32 bits hold every number exactly, as in embeddings and for whole numbers."""
    with np.errstate(over="ignore"):
        return all(np.array_equal(rows.astype(np.float32), rows) for rows in np.array_split(X, SHORT_PARTS))


@dataclass(frozen=True)
class MixtureSource:
    """A recipe that draws each mixture from its coordinates."""

    recipe: Mixtures
    seed: int
    pool: None = None  # the true labels of a mixture are known

    def arrays(self, mixture: int | None) -> Arrays:
        """Return features as used and true labels of one mixture."""
        rng = np.random.default_rng(data_seed(self.seed, self.recipe.name, present(mixture)))
        X, labels_true = draw_mixture(
            rng, **self.recipe.model_dump(exclude={"name", "count", "scale", "first", "step"})
        )
        return scale(X, self.recipe.scale), labels_true


# Source of a cell's features, and of annotations from a user's file, on a worker.
Source = RealSource | MixtureSource


@dataclass(frozen=True)
class Inputs:
    """Data and plans of a sweep, with the unavailable data sets."""

    plans: tuple[DatasetPlan, ...]  # in the order of the file
    # The mappings have names of data sets as their keys.
    sources: Mapping[str, Source]
    skipped: Mapping[str, tuple[str, ...]]  # unavailable data sets, with the reason of each place
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # on columns of users' tables
    sample_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def stacked(self, plan: DatasetPlan) -> Arrays:
        """Return features and labels as in the cube: one real table, or all mixtures stacked."""
        source = self.sources[plan.name]
        if plan.mixtures is None:
            return source.arrays(None)
        features, labels = zip(*(source.arrays(mixture) for mixture in plan.dims[0].values), strict=True)
        return np.stack(features), np.stack(labels)

    def stored(self, plan: DatasetPlan) -> tuple[*Arrays, Pool | None, Texts | None]:
        """Return features, labels, annotations of a user's file and names of the samples, for the cube.

        The names are None if they are not those of the plan, because a cube has the names of its creation.
        """
        names = self.sample_names.get(plan.name, ())
        is_kept = bool(names) and plan.sample_names == names_checksum(names)
        texts = np.array(names, dtype=object) if is_kept else None
        return *self.stacked(plan), self.sources[plan.name].pool, texts


def load_inputs(spec: SweepSpec, file: str, *, data_dir: Path | None = None) -> Inputs:
    """Load every data set of a sweep and lay out its grid.

    Parameters
    ----------
    spec : SweepSpec
        sweep
    file : str
        sweep file, for messages
    data_dir : Path or None
        first place to look for raw files

    Raises
    ------
    InputError
        With every problem of every data set; an unavailable one is a problem unless the file says to skip it.
        Its `rest` is the plans of the data sets without a problem.
    """
    plans, sources, reasons_by_name, problems = [], {}, {}, list[Problem]()
    notes, names = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    is_skipped = spec.data.unavailable == "skip"
    for entry in spec.grid.datasets:
        problems_of_entry: list[Problem] = []
        try:
            # a table of the user's may be absent then, as a data set known by name may be
            if is_skipped and isinstance(entry, UserTable) and not Path(entry.path).exists():
                raise Unavailable(entry.name, (f"{entry.path} does not exist",))
            contents = _load(entry, spec.seed, data_dir, problems_of_entry)
        except Unavailable as unavailable:
            reasons_by_name[entry.name] = unavailable.reasons
            continue
        if contents is not None:  # the grid may be wrong for a table with problems, too
            with collecting(problems_of_entry):
                plan = _plan(spec, entry, contents.data, contents.source, file)
            if not problems_of_entry:
                plans.append(plan)
                sources[entry.name] = contents.source
                notes[entry.name] = contents.notes
                names[entry.name] = () if contents.data is None else contents.data.table.sample_names
        problems += problems_of_entry
    if not is_skipped:
        for name, reasons in reasons_by_name.items():
            description = f"{name!r}, which is not available: " + "; ".join(reasons)
            hint = 'see "sweep datasets list"; [data] unavailable = "skip" runs the rest'
            problems.append(Problem(f"{file} [grid] datasets", description, "an available data set", hint))
    elif not plans and not problems:
        name, *other_names = reasons_by_name
        suffix = f" and {len(other_names):,} more" if other_names else ""
        description = f"{name!r}{suffix}, not available: {'; '.join(reasons_by_name[name])}"
        hint = 'see "sweep datasets list"'
        problems.append(Problem(f"{file} [grid] datasets", description, "an available data set", hint))
    else:
        for cause in causes(reasons_by_name.values()):
            logger.warning("data sets are left out: %s", cause)
    if problems:
        # without repeats: a missing folder of data is a problem of every data set
        raise InputError(dict.fromkeys(problems), tuple(plans))
    return Inputs(tuple(plans), sources, reasons_by_name, notes, names)


def table_problems(entries: Iterable[UserTable]) -> list[Problem]:
    """Return the problems of tables whose sweep cannot be read, so that all are reported at once."""
    problems: list[Problem] = []
    for entry in entries:
        _load(entry, 0, None, problems)
    return problems


@dataclass(frozen=True, eq=False)
class _Contents:
    """A data set that was loaded; mixtures have no data."""

    source: Source
    data: DataSet | None = None
    notes: tuple[str, ...] = ()


def _load(entry: Dataset, seed: int, data_dir: Path | None, problems: list[Problem]) -> _Contents | None:
    """Load a data set, or its readable part beside its problems; None if its features cannot be read."""
    if isinstance(entry, Mixtures):
        return _Contents(MixtureSource(entry, seed))
    if isinstance(entry, Builtin):
        builtin = rest_of(problems, lambda: find(entry.name, data_dir=data_dir))
        return builtin and _Contents(RealSource(scale(builtin.X, entry.scale), builtin.labels_true), builtin)
    keys = {name: getattr(entry, name, None) for name in TableChoice.__dataclass_fields__}
    choice = TableChoice(**{name: value for name, value in keys.items() if value is not None})
    pool: Pool | None = None
    notes: tuple[str, ...] = ()
    problems_of_table = list[Problem]()
    data = rest_of(
        problems_of_table, lambda: load_table(Path(entry.path), choice, n_clusters=entry.n_clusters)
    )
    problems += problems_of_table
    # without a table, problems of the pairs are still found, except for names of samples
    rows = SampleRows(MOST_ROWS) if data is None else data.table.rows or SampleRows(len(data.X))
    X = None if data is None else scale(data.X, entry.scale)
    if entry.annotations is not None and (rows.names or entry.index_column is None):
        samples = Samples(rows, choice=choice)
        with collecting(problems):
            file = PairFile.of(Path(entry.annotations))
            features = None if problems_of_table else X
            numbering = numbering_of([file], str(entry.first_row), samples, features, "first_row = {}")
            problems += [numbering.problem] if numbering.problem else []
            pool, foreign_pairs = read_pool(file, numbering.samples_of(file.path, samples))
            notes = tuple(" ".join(line.split()) for line in numbering.lines())
            notes += tuple(f"left out: {note}" for note in foreign_pairs)
    if data is None or X is None:
        return None
    return _Contents(RealSource(X, data.labels_true, pool), data, (*data.table.notes, *notes))


def _plan(spec: SweepSpec, entry: Dataset, data: DataSet | None, source: Source, file: str) -> DatasetPlan:
    pool, facts = source.pool, dict[str, Any]()
    if isinstance(entry, Mixtures):
        # the checksum is without the numbers of mixtures, which may grow, and of which a part has some
        recipe = entry.model_dump(exclude={"count", "scale", "first", "step"})
        recipe = {key: value for key, value in recipe.items() if LATER_DRAW.get(key) != value}
        facts |= {key: recipe[key] for key in ("n_samples", "n_features", "n_clusters")}
        facts["checksum"] = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
        facts |= {"source": "drawn from the sweep's seed", "has_labels": True}
    else:
        data = present(data)
        table, place = data.table, data.source
        if isinstance(entry, UserTable) and entry.annotations is not None:
            place += f", annotations {entry.annotations}"
        facts |= {"n_samples": len(table.X), "n_features": table.X.shape[1], "n_clusters": data.n_clusters}
        facts |= {"source": place, "checksum": table.checksum(), "has_labels": table.labels_true is not None}
        facts |= {
            key: _kept_names(getattr(table, key), MOST_NAMED) for key in ("feature_names", "class_names")
        }
        facts["sample_names"] = names_checksum(_kept_names(table.sample_names, len(table.X)))
    if pool is not None:
        facts |= {"n_annotations": len(pool), "annotations_checksum": pool_checksum(pool)}
    facts["short"] = isinstance(source, RealSource) and is_short(source.X)
    plan = plan_of(spec, entry, facts)
    if problems := list(_problems(spec, entry, plan, pool, file)):
        raise InputError(problems)
    return plan


def plan_of(spec: SweepSpec, entry: Dataset, facts: Mapping[str, Any]) -> DatasetPlan:
    """Lay out the grid of a data set, of which some fields of its plan are known from the data."""
    grid, mixtures = spec.grid, entry.count if isinstance(entry, Mixtures) else None
    plan = DatasetPlan(
        name=entry.name,
        mixtures=mixtures,
        first_mixture=getattr(entry, "first", 0),
        mixture_step=getattr(entry, "step", 1),
        p=grid.p if grid.supervised else (),
        m=tuple(count.resolve(facts["n_samples"]) for count in grid.m) if grid.supervised else (),
        replicates=grid.replicates,
        models=grid.supervised,
        baselines=grid.baselines,
        restarts=grid.restarts,
        mixture_chunk=mixtures or 1,
        replicate_chunk=grid.replicates,
        # methods come one by one, and a chunk that is half new would have to be written again
        model_chunk=1 if grid.methods else max(1, len(grid.supervised)),
        scale=entry.scale,
        adaptive=spec.stop is not None,
        held_out=spec.held_out,
        methods=tuple(method.plan for method in grid.methods),
        designs=grid.design if grid.supervised else DEFAULT,
        searches=spec.search_names,
        answers_each=spec.crowd.answers if grid.supervised and CROWD in grid.design else 0,
        machines=True,
        **facts,
    )
    return replace(plan, unions=unions_of(spec.search, plan))


def _kept_names(names: tuple[str, ...], limit: int) -> tuple[str, ...]:
    """Return names for the cube: none if there are too many, or one is too long."""
    return names if len(names) <= limit and max(map(len, names), default=0) <= LONGEST_NAME else ()


def names_checksum(names: Sequence[str]) -> str:
    """Return the sha256 of the names of samples in their order, or an empty text."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest() if names else ""


def _problems(
    spec: SweepSpec, entry: Dataset, plan: DatasetPlan, pool: Pool | None, file: str
) -> Iterator[Problem]:
    """Yield the demands of the grid that a data set does not meet."""
    grid, n_samples, n_clusters = spec.grid, plan.n_samples, plan.n_clusters
    location, m = f"{file} [grid], data set {entry.name!r}", [count.resolve(n_samples) for count in grid.m]
    annotations = getattr(entry, "annotations", None)
    for count, value in zip(grid.m, m, strict=True):
        if value < 1:
            words = f"{count.text} of {n_samples} samples = 0"
            yield Problem(f"{location}: m", words, "at least 1 annotation")
        elif grid.supervised and pool is not None and value > len(pool):
            count_words = f"{count.text} = {value:,}" if count.text.endswith("N") else f"{value:,}"
            expected = f"at most {len(pool):,}, the annotations in {annotations}"
            yield Problem(f"{location}: m", f"{count_words} annotations", expected)
    for value in sorted({value for value in m if m.count(value) > 1 and value > 0}):
        texts = [repr(count.text) for count, designs in zip(grid.m, m, strict=True) if designs == value]
        words = f"{' and '.join(texts)}, both {value}"
        yield Problem(f"{location}: m", words, "each annotation count once")
    min_size = max(search.min_cluster_size for search in spec.search)
    if n_samples < n_clusters * min_size:
        expected = f"at least n_clusters · min_cluster_size = {n_clusters} · {min_size}"
        yield Problem(location, plural(n_samples, "sample"), expected)
    if not grid.supervised:
        return
    if not plan.has_labels and annotations is None and getattr(entry, "label_column", None) is None:
        expected = f"a label column: annotations for {', '.join(grid.supervised)} are drawn from them"
        yield Problem(location, "no true labels", expected, "or annotations, a file with those to draw from")
    if asked_of(grid.design) and spec.ask.batch.resolve(n_samples) < 1:
        words = f"{spec.ask.batch.text} of {n_samples} samples = 0"
        yield Problem(f"{file} [ask] batch, data set {entry.name!r}", words, "at least 1 question")
    designs = [design for design in grid.design if design != UNIFORM]
    if designs and pool is not None:
        words = f"{', '.join(map(repr, designs))}, with the annotations in {annotations}"
        hint = "annotations that are there are drawn, all alike; put the table into a sweep of its own"
        yield Problem(f"{location}: design", words, f'"{UNIFORM}" alone', hint)


def cell_annotations(seed: int, cell: Cell, source: Source, crowd: Crowd) -> NDArray[np.int32]:
    """Draw the annotations of a cell, as a function of its coordinates without the model.

    Parameters
    ----------
    seed : int
        Seed of the sweep.
    cell : Cell
        Cell of a design whose pairs are drawn.
    source : Source
        Features and true labels of the data set, or a pool. A draw from a pool does not depend on `p`.
    crowd : Crowd
        Annotators of the design "crowd".

    Returns
    -------
    ndarray of shape (m, 3), int32
        Columns i, j and kind; none for a baseline.

    Raises
    ------
    ValueError
        If the design of the cell asks for its pairs: those are the first answers of a path of questions.
    """
    if cell.p is None:
        return np.empty((0, 3), dtype=np.int32)
    if asks(cell.design):
        raise ValueError(f"{cell}: the pairs of the design {cell.design!r} are asked for, not drawn")
    m, replicate = present(cell.m), present(cell.replicate)
    pool = source.pool
    p = cell.p if pool is None else None
    seed_of_graph = annotation_seed(seed, cell.dataset, mixture=cell.mixture, p=p, m=m, replicate=replicate)
    rng = np.random.default_rng(seed_of_graph)
    if pool is not None:
        return pool[rng.choice(len(pool), size=m, replace=False)]
    X, labels = source.arrays(cell.mixture)
    labels_true = present(labels)
    if cell.design == NEAR:
        return draw.draw_near(rng, labels_true, X, p=cell.p, m=m)
    if cell.design == BIASED:
        seed_of_order = order_seed(seed, cell.dataset, mixture=cell.mixture, replicate=replicate)
        order = np.random.default_rng(seed_of_order).permutation(len(labels_true))
        return draw.draw_biased(rng, labels_true, order, p=cell.p, m=m)
    if cell.design == CROWD:
        accuracies = cell_accuracies(seed, cell, crowd)
        return draw.draw_crowd(rng, labels_true, accuracies, answers=crowd.answers, unsure=crowd.unsure, m=m)
    return draw.draw_annotations(rng, labels_true, p=cell.p, m=m)


def cell_accuracies(seed: int, cell: Cell, crowd: Crowd) -> NDArray[np.float64]:
    """Draw the two accuracies of each annotator of a cell of the design "crowd"."""
    count, replicate = -(-present(cell.m) // crowd.answers), present(cell.replicate)
    seed_of_order = order_seed(seed, cell.dataset, mixture=cell.mixture, replicate=replicate)
    rng, p = np.random.default_rng(seed_of_order), present(cell.p)
    return draw.draw_accuracies(rng, count, quantiles=crowd.accuracies, leaning=crowd.leaning, p=p)
