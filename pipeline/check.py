"""Compute cells of a cube, or of a file of raw scores, again, and compare.

`verify` takes coordinates and inputs from the cube, `verify_scores` from a sweep file: it needs no cube.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from sweep_clustering.pipeline.common import Progress, plural, silent
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.scoring.raw import RawCell, RawScores, differences, software
from sweep_clustering.pipeline.scoring.scores import cell_scores
from sweep_clustering.pipeline.work.merge import BlockResult, CellResult
from sweep_clustering.pipeline.work.records import NO_ANSWERS, Answers, Failed, Science, Span, Task
from sweep_clustering.pipeline.work.tasks import ask_batch, method_calls, run_task
from sweep_clustering.storage.cube.blocks import UNPROMISED, BlockStore, differing_rows
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.cube.schema import ANSWERED, DONE, STATUS_WORDS
from sweep_clustering.storage.provenance import PROMISE, by_run, fingerprint, software_differences, unrecorded
from sweep_clustering.sweeps.data.lines import shortened
from sweep_clustering.sweeps.errors import InputError, Problem, cause_of, collecting, present
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.inputs import RealSource, Source, cell_annotations, load_inputs
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import CODES
from sweep_clustering.sweeps.words import SHIPPED, asks, is_model

# Cells for which one path is asked again: a path is as much work as some hundreds of restarts.
CELLS_PER_PATH = 10


Item = TypeVar("Item", Cell, RawCell)


@dataclass(frozen=True)
class CellCheck:
    """One cell, or one path of questions, computed again.

    `differs` has the variables with other bits than in the cube, or the scores with both values. `cause` has
    the reason why it could not be computed. Both are empty when the cell is reproduced.
    """

    cell: str
    differs: tuple[str, ...]
    cause: str = ""

    @property
    def good(self) -> bool:
        """Whether the cell was reproduced."""
        return not self.differs and not self.cause


@dataclass(frozen=True)
class Verification:
    """Cells of a cube, or of a file of raw scores, computed again, and the software with which it was made.

    `checks` are in the order in which cells were drawn, `paths` are paths of questions, and `left_out` counts
    cells of methods whose code was not to be run. `here` is the fingerprint of this machine, `there` are
    others with which the cube was made: bits are promised for equal ones alone. `software` has the
    differences in words, and `unrecorded` the facts that fingerprints there lack.
    """

    cube: Path
    checks: tuple[CellCheck, ...]
    here: dict[str, str]
    there: tuple[dict[str, str], ...]
    left_out: int = 0
    paths: tuple[CellCheck, ...] = ()
    what: str = "bits"
    notes: tuple[str, ...] = ()
    software: str = ""
    unrecorded: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether every cell, and every path, was reproduced."""
        return all(check.good for check in (*self.checks, *self.paths))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "cube": str(self.cube), "good": self.good}

    def lines(self) -> list[str]:
        """Return a summary as lines."""
        cells, paths = (sum(check.good for check in checks) for checks in (self.checks, self.paths))
        wrong = [check for check in (*self.checks, *self.paths) if not check.good]
        of_all, have = plural(len(self.checks), "cell"), "has" if cells == 1 else "have"
        lines = [f"{self.cube}: {cells} of {of_all} {have} the same {self.what}", *self.notes]
        if self.paths:
            lines.append(f"asked again: {paths} of {len(self.paths)} paths have the same answers")
        if self.left_out:
            lines.append(
                f"not looked at: {plural(self.left_out, 'cell')} of your own methods; see --run-methods"
            )
        lines += [f"DIFFERS {check.cell}: {check.cause or ', '.join(check.differs)}" for check in wrong]
        if self.software:
            lines.append(f"different software or processors: {self.software}")
        if wrong and self.unrecorded:
            lines.append(f"not recorded, and perhaps other than here: {', '.join(self.unrecorded)}")
        if self.software or (wrong and self.unrecorded):
            lines.append(PROMISE)
        return lines


def verify(
    path: Path, *, sample: int, seed: int = 0, run_methods: bool = False, progress: Progress = silent
) -> Verification:
    """Compute random cells again from their coordinates and the inputs in the cube.

    `sample` cells are drawn without replacement from those that are done. Annotations that were asked for are
    taken from the cube, and one of their paths is asked again for every `CELLS_PER_PATH` cells. Cells of
    methods that are not shipped are drawn only with `run_methods`: the cube names their code, and it may come
    from anywhere. `progress` goes through the cells, then through the paths.

    Raises
    ------
    InputError
        If there is no cube, or nothing in it is done, or the file of a method has changed.
    """
    manifest = read_manifest(path)
    store = BlockStore(path, read_only=True)
    methods = manifest.spec.grid.methods
    foreign = set() if run_methods else {method.name for method in methods if method.call not in SHIPPED}
    calls = method_calls(str(path), [method for method in methods if method.name not in foreign])
    answered = [cell for state in ANSWERED for cell in store.cells(manifest.plans.values(), state)]
    done = [cell for cell in answered if cell.model not in foreign]
    if not done:
        hint = f"--run-methods runs the code of {', '.join(sorted(foreign))}" if answered else ""
        raise InputError([Problem(str(path), "no cell that is done", "at least one", hint)])
    drawn = _drawn(done, sample, seed)
    tree = open_cube(path)
    checks = tuple(_check(manifest, calls, store, tree, cell) for cell in progress(drawn, "cells"))
    of_paths = [cell for cell in drawn if asks(cell.design)]
    longest = {AskedPath.of(cell): cell for cell in sorted(of_paths, key=lambda cell: cell.m or 0)}
    n_paths = -(-len(of_paths) // CELLS_PER_PATH)
    last_cells = list(longest.values())[:n_paths]
    steps = progress(last_cells, "paths of questions") if last_cells else ()  # a bar of nothing would move
    paths = tuple(_check_path(manifest, store, tree, cell) for cell in steps)
    verification = Verification(path, checks, {}, (), len(answered) - len(done), paths)
    return _beside(verification, fingerprint(manifest.spec), by_run(manifest.made_with))


def _drawn(items: Sequence[Item], sample: int, seed: int) -> list[Item]:
    size = min(sample, len(items))
    return [items[at] for at in np.random.default_rng(seed).choice(len(items), size=size, replace=False)]


def _beside(
    verification: Verification, here: dict[str, str], made: Sequence[tuple[str, Mapping[str, str]]]
) -> Verification:
    """Return a verification with the fingerprint of this machine beside those of the cells."""
    there = {
        tuple(sorted(values.items())): dict(values)
        for place, values in made
        if software_differences([(place, values), ("here", here)])
    }
    lacking = dict.fromkeys(name for _, values in made for name in unrecorded(values, here))
    return replace(
        verification,
        here=here,
        there=tuple(there[key] for key in sorted(there)),
        software=software_differences([*made, ("here", here)]),
        unrecorded=tuple(lacking),
    )


def _check(
    manifest: Manifest, calls: tuple[MethodCall, ...], store: BlockStore, tree: xr.DataTree, cell: Cell
) -> CellCheck:
    plan, spec = manifest.plans[cell.dataset], manifest.spec
    block = plan.block_of(cell)
    source, stored = _source(tree, cell), store.read(block)
    answers = stored["annotations"][block.graph(cell)] if asks(cell.design) else None
    merged = _again(spec, plan, calls, cell, source, answers)
    if isinstance(merged, Failed):
        return CellCheck(str(cell), (), merged.cause)
    fresh = BlockResult(block, {cell: merged}).into({name: values.copy() for name, values in stored.items()})
    if not block.node.baseline and answers is None:
        fresh["annotations"][block.graph(cell)] = cell_annotations(spec.seed, cell, source, spec.crowd)
    differs = []
    for name in (name for name in stored if name not in UNPROMISED):
        row = block.graph(cell) if name == "annotations" else block.position(cell)
        if differing_rows(stored[name], fresh[name])[row]:
            differs.append(name)
    return CellCheck(str(cell), tuple(differs))


def _again(
    spec: SweepSpec,
    plan: DatasetPlan,
    calls: tuple[MethodCall, ...],
    cell: Cell,
    source: Source,
    answers: Answers | None,
) -> CellResult | Failed:
    """Run all restarts of a cell once more, with its annotations if these were asked for."""
    stop, restarts = spec.stop if is_model(cell.model) else None, plan.restarts_of(cell.model)
    science = replace(Science.of(spec, plan, calls), stop=stop)
    task = Task(science, cell.dataset, (Span(cell, 0, restarts, answers=answers),), 0.0)
    result: Any
    (result,) = run_task(task, source)
    if isinstance(result, Failed):
        return result
    merged = CellResult(cell, restarts, stop)
    merged.add(result)
    return merged


def _check_path(manifest: Manifest, store: BlockStore, tree: xr.DataTree, cell: Cell) -> CellCheck:
    """Ask the questions of a cell again, batch by batch."""
    plan, path = manifest.plans[cell.dataset], AskedPath.of(cell)
    block = plan.block_of(cell)
    stored = store.read(block)["annotations"][block.graph(cell)]
    science, arrays = Science.of(manifest.spec, plan), _source(tree, cell).arrays(cell.mixture)
    batch = present(science.asking).batch
    name = f"{path}, {plural(len(stored), 'question')}"
    for start in range(0, len(stored), batch):
        try:
            answers = ask_batch(science, path, stored[:start], arrays)
        except Exception as error:
            return CellCheck(name, (), cause_of(error))
        there = stored[start : start + batch]
        differs = (answers[: len(there)] != there).any(axis=1)
        if differs.any():
            return CellCheck(name, (f"annotations from question {start + int(np.argmax(differs))} on",))
    return CellCheck(name, ())


def _source(tree: xr.DataTree, cell: Cell) -> RealSource:
    """Return the inputs of a cell as the cube has them."""
    node = tree[cell.dataset].to_dataset()
    where = {} if cell.mixture is None else {"mixture": cell.mixture}
    labels = node["labels_true"].sel(where).values if "labels_true" in node else None
    pool = node["annotation_pool"].values if "annotation_pool" in node else None
    X = np.ascontiguousarray(node["X"].sel(where).values, dtype=np.float64)
    return RealSource(X, labels, pool)


# Scores are compared up to what other orders of summation can do: that of one label fewer is far more.
RELATIVE = 1e-9
ABSOLUTE = 1e-12


def verify_scores(
    scores: RawScores,
    spec: SweepSpec,
    where: str,
    *,
    sample: int,
    seed: int = 0,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Verification:
    """Compute random cells of a file of raw scores again, from a sweep file alone, and compare scores.

    `sample` cells are drawn without replacement from those that have an answer in the file. The code of the
    sweep's methods is run. Raw data are searched in `data_dir` first, and `where` is the sweep file, for
    messages. `progress` goes through the cells.

    Raises
    ------
    InputError
        If the file is of another sweep, has cells that the sweep has not, or none with an answer.
    """
    problems = list[Problem]()
    with collecting(problems):
        calls = method_calls(where, spec.grid.methods, loaded=True)
    with collecting(problems):
        inputs = load_inputs(spec, where, data_dir=data_dir)
        plans = {plan.name: plan for plan in inputs.plans}
        problems += differences(scores, spec, plans, where)
        cells = {cell for plan in inputs.plans for block in plan.blocks() for cell in block.cells()}
        here = [raw for raw in scores.cells if raw.cell.dataset not in inputs.skipped]
        problems += [
            Problem(raw.where, repr(str(raw.cell)), f"a cell of {where}")
            for raw in here
            if raw.cell not in cells
        ]
        answered = [raw for raw in here if raw.status in (STATUS_WORDS[state] for state in ANSWERED)]
        if not answered:
            problems.append(Problem(str(scores.path), "no cell that is done", "at least one"))
    if problems:
        raise InputError(shortened(scores.path, problems))
    drawn, sources = _drawn(answered, sample, seed), inputs.sources
    checks = tuple(
        _check_scores(spec, plans, calls, sources[raw.cell.dataset], raw) for raw in progress(drawn, "cells")
    )
    counts = {
        "in the file without an answer": len(here) - len(answered),
        f"in {where} that the file lacks": len(cells) - len(here),
        "from data sets that are not available here": len(scores.cells) - len(here),
    }
    notes = tuple(f"not looked at: {plural(count, 'cell')} {what}" for what, count in counts.items() if count)
    made_with = scores.head.made_with
    there = [(f"in the file, {number}", values) for number, values in enumerate(made_with, start=1)]
    if len(there) == 1:
        there = [("in the file", made_with[0])]
    verification = Verification(scores.path, checks, {}, (), what="scores", notes=notes)
    return _beside(verification, fingerprint(spec) | software(spec), there)


def _check_scores(
    spec: SweepSpec,
    plans: Mapping[str, DatasetPlan],
    calls: tuple[MethodCall, ...],
    source: Source,
    raw: RawCell,
) -> CellCheck:
    cell, plan = raw.cell, plans[raw.cell.dataset]
    X, labels_true = source.arrays(cell.mixture)
    arrays: dict[str, Any] = {"X": X} if labels_true is None else {"X": X, "labels_true": labels_true}
    answers: Answers | None = None
    if asks(cell.design):
        answers, science = NO_ANSWERS, Science.of(spec, plan)
        while len(answers) < present(cell.m):
            try:
                batch = ask_batch(science, AskedPath.of(cell), answers, (X, labels_true))
            except Exception as error:
                return CellCheck(str(cell), (), cause_of(error))
            answers = np.concatenate([answers, batch])
        answers = answers[: cell.m]
    result = _again(spec, plan, calls, cell, source, answers)
    if isinstance(result, Failed):
        return CellCheck(str(cell), (), result.cause)
    if result.status != DONE or raw.status != STATUS_WORDS[DONE]:
        now = STATUS_WORDS[result.status]
        return CellCheck(str(cell), (f"{raw.status} in the file, {now} here",) if now != raw.status else ())
    best = present(result.best)
    arrays |= {name: getattr(best, name) for name in ("labels", "centroids", "covariances")}
    arrays |= {"log_likelihood": result.objectives, "covariance_shape": CODES[best.shape]}
    arrays["covariance_prior"] = spec.search_of(cell.search).settings.covariance_prior
    if cell.m is not None:
        drawn = cell_annotations(spec.seed, cell, source, spec.crowd) if answers is None else answers
        arrays["annotations"] = drawn
    values = dict.fromkeys(raw.scores, np.nan) | cell_scores(arrays)
    return CellCheck(
        str(cell),
        tuple(
            f"{name} {there!r} in the file, {values[name]!r} here"
            for name, there in raw.scores.items()
            if not np.isclose(there, values[name], rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
        ),
    )
