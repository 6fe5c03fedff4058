"""What a sweep runs on: `load_inputs` makes data and plans of the data sets in a sweep file.

A `Source` then gives the features of a cell, and `cell_annotations` its annotations, where its design draws
them: both from the coordinates of the cell alone.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.annotations.draw import draw_annotations, draw_biased, draw_near
from sweep_clustering.sweeps.annotations.files import PairFile, Pool, pool_checksum, read_pool
from sweep_clustering.sweeps.annotations.numbering import numbering_of
from sweep_clustering.sweeps.annotations.samples import MOST_ROWS, Samples
from sweep_clustering.sweeps.data.builtin import DataSet, Unavailable, find
from sweep_clustering.sweeps.data.reading import load_table
from sweep_clustering.sweeps.data.scaling import scale
from sweep_clustering.sweeps.data.table import SampleRows, TableChoice
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, plural, present
from sweep_clustering.sweeps.file.search import unions_of
from sweep_clustering.sweeps.file.spec import Builtin, Dataset, Mixtures, SweepSpec, UserTable
from sweep_clustering.sweeps.plan import Cell, DatasetPlan
from sweep_clustering.sweeps.seeds import annotation_seed, data_seed, order_seed
from sweep_clustering.sweeps.words import BIASED, DEFAULT, NEAR, UNIFORM, asked_of, asks

# Drawing synthetic data: mixtures of spherical Gaussians.


def draw_mixture(
    rng: np.random.Generator,
    *,
    n_clusters: int,
    n_samples: int = 200,
    n_features: int = 10,
    center: tuple[float, float] = (-1.0, 1.0),
    variance: tuple[float, float] = (0.0, 5.0),
) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
    """Draw a mixture and samples from it (docs/model.md, eq. (25)).

    The order of the draws is fixed: centres, variances, labels, noise. A cluster may stay empty.

    Parameters
    ----------
    rng : numpy.random.Generator
        The only source of randomness.
    n_clusters, n_samples, n_features : int
        Sizes.
    center : (low, high)
        Interval every coordinate of every centre is uniform on.
    variance : (low, high)
        Interval every cluster's variance is uniform on.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Samples x ~ N(μ_r, σ²_r I).
    labels_true : array of shape (n_samples,)
        Clusters, uniform on 0 .. n_clusters - 1.
    """
    centers = rng.uniform(*center, size=(n_clusters, n_features))
    variances = rng.uniform(*variance, size=n_clusters)
    labels = rng.integers(n_clusters, size=n_samples)
    noise = rng.standard_normal((n_samples, n_features))
    X: NDArray[np.float64] = centers[labels] + np.sqrt(variances[labels])[:, np.newaxis] * noise
    return X, labels.astype(np.int16)


# From the data sets of a sweep file to arrays, and to the plan of each.

Arrays = tuple[NDArray[np.float64], NDArray[np.int16] | None]
Texts = NDArray[np.object_]

# Characters of a name that a cube keeps.
LONGEST_NAME = 200

# Parts in which features are looked at: no copy of them all, and the first says no for most tables.
SHORT_PARTS = 16

# Features, and classes, that a cube keeps the names of.
MOST_NAMED = 10_000


@dataclass(frozen=True, eq=False)
class RealSource:
    """A real data set, scaled, and annotations of the user's own where there are any."""

    X: NDArray[np.float64]
    labels_true: NDArray[np.int16] | None
    pool: Pool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers are sent features in 32 bits each where these hold them."""
        X = self.X.astype(np.float32) if is_short(self.X) else self.X
        return _unpacked, (X, self.labels_true, self.pool)

    def arrays(self, mixture: int | None) -> Arrays:
        """Features as used and true labels; a real data set has no mixtures."""
        return self.X, self.labels_true


def _unpacked(
    X: NDArray[np.floating], labels_true: NDArray[np.int16] | None, pool: Pool | None
) -> RealSource:
    return RealSource(X.astype(np.float64, copy=False), labels_true, pool)


def is_short(X: NDArray[np.float64]) -> bool:
    """Whether 32 bits hold every number exactly, as those of embeddings and of whole numbers."""
    with np.errstate(over="ignore"):
        return all(np.array_equal(rows.astype(np.float32), rows) for rows in np.array_split(X, SHORT_PARTS))


@dataclass(frozen=True)
class MixtureSource:
    """A recipe that draws each mixture from its coordinates."""

    recipe: Mixtures
    seed: int
    pool: None = None  # the true labels of a mixture are known

    def arrays(self, mixture: int | None) -> Arrays:
        """Features as used and true labels of one mixture."""
        rng = np.random.default_rng(data_seed(self.seed, self.recipe.name, present(mixture)))
        X, labels_true = draw_mixture(
            rng, **self.recipe.model_dump(exclude={"name", "count", "scale", "first", "step"})
        )
        return scale(X, self.recipe.scale), labels_true


# What a worker needs to get the features of a cell, and the user's own annotations where there are any.
Source = RealSource | MixtureSource


@dataclass(frozen=True)
class Inputs:
    """Everything a sweep runs on.

    Parameters
    ----------
    plans : tuple of DatasetPlan
        In the order of the file.
    sources : mapping of str to Source
        By data set name.
    skipped : mapping of str to tuple of str
        Data sets that are unavailable, with the reason of each place tried.
    notes : mapping of str to tuple of str
        What to know of the columns of tables of the user's own, by data set name.
    sample_names : mapping of str to tuple of str
        Names of the samples, of data sets that have some.
    """

    plans: tuple[DatasetPlan, ...]
    sources: Mapping[str, Source]
    skipped: Mapping[str, tuple[str, ...]]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sample_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def stacked(self, plan: DatasetPlan) -> Arrays:
        """Features and labels as the cube holds them: one real table, or all mixtures stacked."""
        source = self.sources[plan.name]
        if plan.mixtures is None:
            return source.arrays(None)
        features, labels = zip(*(source.arrays(mixture) for mixture in plan.dims[0].values), strict=True)
        return np.stack(features), np.stack(labels)

    def stored(self, plan: DatasetPlan) -> tuple[*Arrays, Pool | None, Texts | None]:
        """All that the cube holds of a data set's inputs.

        Features, labels, annotations of the user's own, and names of the samples; these only if they are
        those of the plan, as a cube has the names that it was made with.
        """
        names = self.sample_names.get(plan.name, ())
        is_kept = bool(names) and plan.sample_names == names_checksum(names)
        texts = np.array(names, dtype=object) if is_kept else None
        return *self.stacked(plan), self.sources[plan.name].pool, texts


def load_inputs(spec: SweepSpec, where: str, *, data_dir: Path | None = None) -> Inputs:
    """Load every data set of a sweep and lay out its grid.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.
    where : str
        Its file, for messages.
    data_dir : Path or None
        Where to look for raw files first.

    Returns
    -------
    Inputs

    Raises
    ------
    InputError
        With every problem of every data set; an unavailable one is a problem unless the file says to skip it.
        Its `rest` is the plans of the data sets without a problem.
    """
    plans, sources, skipped, problems = [], {}, {}, list[Problem]()
    notes, names = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    for entry in spec.grid.datasets:
        wrong: list[Problem] = []
        try:
            loaded = _load(entry, spec.seed, data_dir, wrong)
        except Unavailable as unavailable:
            skipped[entry.name] = unavailable.reasons
            continue
        if loaded is not None:  # of a table with problems the grid may ask what it has not, too
            with collecting(wrong):
                plan = _plan(spec, entry, loaded.data, loaded.source, where)
            if not wrong:
                plans.append(plan)
                sources[entry.name] = loaded.source
                notes[entry.name], names[entry.name] = loaded.notes, loaded.names
        problems += wrong
    if spec.data.unavailable == "error":
        for name, reasons in skipped.items():
            found = f"{name!r}, which is not available: " + "; ".join(reasons)
            hint = 'see "sweep datasets list"; [data] unavailable = "skip" runs the rest'
            problems.append(Problem(f"{where} [grid] datasets", found, "an available data set", hint))
    elif not plans and not problems:
        problems.append(Problem(where, f"no available data set among {', '.join(skipped)}", "at least one"))
    if problems:
        # once each: a folder of data that does not exist is found again for every data set
        raise InputError(dict.fromkeys(problems), tuple(plans))
    return Inputs(tuple(plans), sources, skipped, notes, names)


def table_problems(entries: Iterable[UserTable]) -> list[Problem]:
    """Return the problems of tables whose sweep cannot be read, so that all are reported at once."""
    problems: list[Problem] = []
    for entry in entries:
        _load(entry, 0, None, problems)
    return problems


@dataclass(frozen=True, eq=False)
class _Loaded:
    """A data set that was loaded, mixtures without data."""

    source: Source
    data: DataSet | None = None
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its samples."""
        return () if self.data is None else self.data.table.sample_names


def _load(entry: Dataset, seed: int, data_dir: Path | None, problems: list[Problem]) -> _Loaded | None:
    """Load a data set, or what is right of it beside its problems; None if its features cannot be read."""
    if isinstance(entry, Mixtures):
        return _Loaded(MixtureSource(entry, seed))
    if isinstance(entry, Builtin):
        known: DataSet | None = None
        with collecting(problems):
            known = find(entry.name, data_dir=data_dir)
        return known and _Loaded(RealSource(scale(known.X, entry.scale), known.labels_true), known)
    keys = {name: getattr(entry, name, None) for name in TableChoice.__dataclass_fields__}
    choice = TableChoice(**{name: value for name, value in keys.items() if value is not None})
    data: DataSet | None = None
    pool: Pool | None = None
    notes: tuple[str, ...] = ()
    is_right = True
    try:
        data = load_table(Path(entry.path), choice, n_clusters=entry.n_clusters)
    except InputError as error:
        problems += error.problems
        data, is_right = error.rest, False
    # without a table, what else is wrong with the lines can still be said, but for names of samples
    rows = SampleRows(MOST_ROWS) if data is None else data.table.rows or SampleRows(len(data.X))
    X = None if data is None else scale(data.X, entry.scale)
    if entry.annotations is not None and (rows.names or entry.index_column is None):
        samples = Samples(rows, choice=choice)
        with collecting(problems):
            file = PairFile.of(Path(entry.annotations))
            features = X if is_right else None
            numbering = numbering_of([file], str(entry.first_row), samples, features, "first_row = {}")
            problems += [numbering.problem] if numbering.problem else []
            pool, outside = read_pool(file, numbering.of(file.path, samples))
            notes = tuple(" ".join(line.split()) for line in numbering.lines())
            notes += tuple(f"left out: {note}" for note in outside)
    if data is None or X is None:
        return None
    return _Loaded(RealSource(X, data.labels_true, pool), data, (*data.table.notes, *notes))


def _plan(spec: SweepSpec, entry: Dataset, data: DataSet | None, source: Source, where: str) -> DatasetPlan:
    grid, mixtures, pool = spec.grid, None, source.pool
    if isinstance(entry, Mixtures):
        mixtures = entry.count
        # which mixtures there are is left out of the checksum: they may grow, and a part has some of them
        recipe = entry.model_dump(exclude={"count", "scale", "first", "step"})
        its = {key: recipe[key] for key in ("n_samples", "n_features", "n_clusters")}
        its["checksum"] = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
        its |= {"source": "drawn from the sweep's seed", "has_labels": True}
    else:
        data = present(data)
        table, place = data.table, data.source
        if isinstance(entry, UserTable) and entry.annotations is not None:
            place += f", annotations {entry.annotations}"
        its = {"n_samples": len(table.X), "n_features": table.X.shape[1], "n_clusters": data.n_clusters}
        its |= {"source": place, "checksum": table.checksum(), "has_labels": table.labels_true is not None}
        its |= {key: _kept_names(getattr(table, key), MOST_NAMED) for key in ("feature_names", "class_names")}
        its["sample_names"] = names_checksum(_kept_names(table.sample_names, len(table.X)))
    plan = DatasetPlan(
        name=entry.name,
        mixtures=mixtures,
        first_mixture=getattr(entry, "first", 0),
        mixture_step=getattr(entry, "step", 1),
        p=grid.p if grid.supervised else (),
        m=tuple(count.resolve(its["n_samples"]) for count in grid.m) if grid.supervised else (),
        replicates=grid.replicates,
        models=grid.supervised,
        baselines=grid.baselines,
        restarts=grid.restarts,
        mixture_chunk=mixtures or 1,
        replicate_chunk=grid.replicates,
        # a chunk that is half new would have to be written again, and methods come one by one
        model_chunk=1 if grid.methods else max(1, len(grid.supervised)),
        scale=entry.scale,
        adaptive=spec.stop is not None,
        held_out=spec.held_out,
        methods=tuple(each.plan for each in grid.methods),
        n_annotations=0 if pool is None else len(pool),
        annotations_checksum="" if pool is None else pool_checksum(pool),
        designs=grid.design if grid.supervised else DEFAULT,
        searches=spec.search_names,
        short=isinstance(source, RealSource) and is_short(source.X),
        **its,
    )
    if problems := list(_problems(spec, entry, plan, pool, where)):
        raise InputError(problems)
    return replace(plan, unions=unions_of(spec.search, plan))


def _kept_names(names: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Names of a kind that a cube keeps: none where there are more, or one is too long."""
    return names if len(names) <= most and max(map(len, names), default=0) <= LONGEST_NAME else ()


def names_checksum(names: Sequence[str]) -> str:
    """Sha256 over the names of samples in their order; nothing where there are none."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest() if names else ""


def _problems(
    spec: SweepSpec, entry: Dataset, plan: DatasetPlan, pool: Pool | None, file: str
) -> Iterator[Problem]:
    """What the grid asks of a data set that it does not have."""
    grid, n_samples, n_clusters = spec.grid, plan.n_samples, plan.n_clusters
    where, m = f"{file} [grid], data set {entry.name!r}", [count.resolve(n_samples) for count in grid.m]
    annotations = getattr(entry, "annotations", None)
    for count, value in zip(grid.m, m, strict=True):
        if value < 1:
            found = f"{count.text} of {n_samples} samples = 0"
            yield Problem(f"{where}: m", found, "at least 1 annotation")
        elif grid.supervised and pool is not None and value > len(pool):
            said = f"{count.text} = {value:,}" if count.text.endswith("N") else f"{value:,}"
            expected = f"at most {len(pool):,}, the annotations in {annotations}"
            yield Problem(f"{where}: m", f"{said} annotations", expected)
    for value in sorted({value for value in m if m.count(value) > 1 and value > 0}):
        texts = [repr(count.text) for count, other in zip(grid.m, m, strict=True) if other == value]
        found = f"{' and '.join(texts)}, both {value}"
        yield Problem(f"{where}: m", found, "each annotation count once")
    most = max(search.min_cluster_size for search in spec.search)
    if n_samples < n_clusters * most:
        expected = f"at least n_clusters · min_cluster_size = {n_clusters} · {most}"
        yield Problem(where, plural(n_samples, "sample"), expected)
    if not grid.supervised:
        return
    if not plan.has_labels and annotations is None and getattr(entry, "label_column", None) is None:
        expected = f"a label column: annotations for {', '.join(grid.supervised)} are drawn from them"
        yield Problem(where, "no true labels", expected, "or annotations, a file with those to draw from")
    if asked_of(grid.design) and spec.ask.batch.resolve(n_samples) < 1:
        found = f"{spec.ask.batch.text} of {n_samples} samples = 0"
        yield Problem(f"{file} [ask] batch, data set {entry.name!r}", found, "at least 1 question")
    other = [design for design in grid.design if design != UNIFORM]
    if other and pool is not None:
        found = f"{', '.join(map(repr, other))}, with the annotations in {annotations}"
        hint = "annotations that are there are drawn, all alike; put the table into a sweep of its own"
        yield Problem(f"{where}: design", found, f'"{UNIFORM}" alone', hint)


def cell_annotations(seed: int, cell: Cell, source: Source) -> NDArray[np.int32]:
    """Draw the annotations of a cell, as a function of its coordinates without the model.

    Parameters
    ----------
    seed : int
        Seed of the sweep.
    cell : Cell
        Cell of a design whose pairs are drawn.
    source : Source
        Features and true labels of the data set, or a pool of annotations to draw from. A draw from a pool
        does not depend on `p`, so that cells of different accuracies have the same annotations.

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
    where = annotation_seed(seed, cell.dataset, mixture=cell.mixture, p=p, m=m, replicate=replicate)
    rng = np.random.default_rng(where)
    if pool is not None:
        return pool[rng.choice(len(pool), size=m, replace=False)]
    X, labels = source.arrays(cell.mixture)
    labels_true = present(labels)
    if cell.design == NEAR:
        return draw_near(rng, labels_true, X, p=cell.p, m=m)
    if cell.design == BIASED:
        of_order = order_seed(seed, cell.dataset, mixture=cell.mixture, replicate=replicate)
        order = np.random.default_rng(of_order).permutation(len(labels_true))
        return draw_biased(rng, labels_true, order, p=cell.p, m=m)
    return draw_annotations(rng, labels_true, p=cell.p, m=m)
