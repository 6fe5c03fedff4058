"""Compute cells of a cube, or of a file of raw scores, again, and compare.

`verify` takes coordinates and inputs from the cube, `verify_scores` from a sweep file: it needs no cube.

`write_record` makes a record of a verification: who computed which cells again, where, and with which
answers. `read_records` reads the records of some files. A record has the hash of its file; it is refused with
another file, or with other cells than the file draws. Nobody vouches for the name and the answers in it: a
reader who doubts them verifies the file.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from math import prod
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import numpy as np
import xarray as xr
from pydantic import Field

from sweep_clustering.pipeline.common import Progress, plural, silent
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.scoring import raw
from sweep_clustering.pipeline.scoring.raw import RawCell, RawScores
from sweep_clustering.pipeline.scoring.scores import cell_scores
from sweep_clustering.pipeline.work.merge import BlockResult, CellResult
from sweep_clustering.pipeline.work.records import NO_ANSWERS, Answers, Failed, Science, Span, Task
from sweep_clustering.pipeline.work.tasks import ask_batch, method_calls, run_task
from sweep_clustering.storage import provenance
from sweep_clustering.storage.cube.blocks import UNPROMISED, Arrays, BlockStore, content_hash, differing_rows
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.cube.schema import ANSWERED, ANSWERED_WORDS, DONE, STATUS_WORDS
from sweep_clustering.storage.damage import loaded_again
from sweep_clustering.storage.files import storage_errors, write_new
from sweep_clustering.sweeps.data.lines import MOST_BYTES, shortened
from sweep_clustering.sweeps.errors import (
    Problem,
    cause_of,
    collected,
    collecting,
    present,
    raise_all,
    refused,
)
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.files import opened, read_file
from sweep_clustering.sweeps.inputs import RealSource, Source, cell_annotations, load_inputs
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan
from sweep_clustering.sweeps.records import Choice, List, Record, Text, Whole, read
from sweep_clustering.sweeps.shapes import CODES
from sweep_clustering.sweeps.words import SHIPPED, asks, is_model

# Cells for which one path is asked again: a path is as much work as some hundreds of restarts.
CELLS_PER_PATH = 10

# Percentage of wrong cells for which a verification says how probably it would have seen one.
WRONG_PERCENT = 5

# Answers of a cell, or path, that is computed again.
EQUAL = "equal"
ROUNDED = "equal within rounding"
DIFFERENT = "different"
ANSWERS = (EQUAL, ROUNDED, DIFFERENT)

# Scores and objectives are compared up to what other orders of summation can do: one label less is far more.
RELATIVE = 1e-9
ABSOLUTE = 1e-12

# Results that are equal within rounding only if no bit of them differs.
EXACT = ("status", "restarts_done", "covariance_shape", "structure", "annotations")

Item = TypeVar("Item", Cell, str, AskedPath)

# Records of verifications.
FORMAT = "sweep verification"
FORMAT_VERSION = 1

# Largest file of a record, in bytes.
LONGEST = 2**26

Line = Annotated[str, Text("a line of at most 1,000 characters", max_length=1_000, pattern=r"^[^\n\r]*$")]
Count = Annotated[int, Whole(0)]


@dataclass(frozen=True)
class CellCheck:
    """One cell, or one path of questions, computed again.

    `differs` has the variables with other bits than in the cube, or the scores with both values. `cause` has
    the reason why it could not be computed. Both are empty when the cell is reproduced. `machine` is the
    class of the machine that computed the cell, if it is another one than here. If `is_rounded`, machine or
    software is another one, and what differs is rounding.
    """

    cell: str
    differs: tuple[str, ...]
    cause: str = ""
    is_rounded: bool = False
    machine: str = ""

    @property
    def answer(self) -> str:
        """Whether the cell is equal, equal within rounding, or different."""
        return EQUAL if not self.differs and not self.cause else ROUNDED if self.is_rounded else DIFFERENT


# Words for one and several, and for the work.
CELLS = ("cell", "cells", "computed again")
PATHS = ("path of questions", "paths of questions", "asked again")


def statement(answers: Sequence[str], n_all: int, words: tuple[str, str, str]) -> str:
    """Say how many of all cells, or paths, were computed again, with which answers, and what follows.

    The probability is exact: that of at least one wrong cell in a sample without replacement.
    """
    (noun, nouns, verb), n, counts = words, len(answers), Counter(answers)
    n_wrong = max(1, n_all * WRONG_PERCENT // 100)
    sentence = f"{n:,} of {plural(n_all, noun, nouns)} {'was' if n == 1 else 'were'} {verb}"
    if set(counts) == {EQUAL}:
        sentence += ", and is equal" if n == 1 else ", and all are equal"
    else:
        sentence += ": " + ", ".join(f"{counts[answer]:,} {answer}" for answer in ANSWERS if counts[answer])
    if counts[DIFFERENT] or n == n_all:
        return f"{sentence}."
    missed = prod((n_all - n_wrong - i) / (n_all - i) for i in range(n))
    chance = "above .99" if missed < 0.01 else f"{1 - missed:.2f}"[1:]
    share = f"{WRONG_PERCENT} % of the {nouns} were" if n_wrong > 1 else f"one {noun} was"
    return f"{sentence}. If {share} wrong, this would have been seen with probability {chance}."


@dataclass(frozen=True)
class Verification:
    """Cells of a cube, or of a file of raw scores, computed again, and the software with which it was made.

    `checks` are in the order in which cells were drawn from `n_cells`, by a random stream of `digest`, a hash
    of the file, and of `seed`. `paths` are paths of questions, drawn from `n_paths`. `left_out` counts
    cells of methods whose code was not to be run. `here` is the fingerprint of this machine, `there` are
    others with which the cube was made: bits are promised for equal ones alone. `software` has the
    differences in words, and `unrecorded` the facts that fingerprints there lack.
    """

    cube: Path
    digest: str
    seed: int | None
    checks: tuple[CellCheck, ...]
    n_cells: int
    here: dict[str, str] = field(default_factory=dict)
    there: tuple[dict[str, str], ...] = ()
    left_out: int = 0
    paths: tuple[CellCheck, ...] = ()
    n_paths: int = 0
    notes: tuple[str, ...] = ()
    software: str = ""
    unrecorded: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether every cell, and every path, was reproduced, perhaps within rounding."""
        return all(check.answer != DIFFERENT for check in (*self.checks, *self.paths))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "cube": str(self.cube), "good": self.good}

    def lines(self) -> list[str]:
        """Return a summary as lines."""
        wrong = [check for check in (*self.checks, *self.paths) if check.answer != EQUAL]
        cells, paths = ([check.answer for check in checks] for checks in (self.checks, self.paths))
        lines = [f"{self.cube}: {statement(cells, self.n_cells, CELLS)}", *self.notes]
        if paths:
            lines.append(statement(paths, self.n_paths, PATHS))
        if self.left_out:
            lines.append(
                f"not looked at: {plural(self.left_out, 'cell')} of your own methods; see --run-methods"
            )
        for check in wrong:
            place = f" (computed on {check.machine})" if check.machine else ""
            lines.append(f"{check.answer}: {check.cell}: {check.cause or ', '.join(check.differs)}{place}")
        if self.software:
            lines.append(f"different software or processors: {self.software}")
        if wrong and self.unrecorded:
            lines.append(f"not recorded, and perhaps other than here: {', '.join(self.unrecorded)}")
        if self.software or (wrong and self.unrecorded):
            lines.append(provenance.PROMISE)
        return lines


def verify(
    path: Path,
    *,
    sample: int,
    seed: int | None = None,
    run_methods: bool = False,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Verification:
    """Compute random cells again from their coordinates and the inputs in the cube.

    Inputs that a bundle leaves out are taken from their source, raw data in `data_dir` first. The scores in
    a bundle, or beside a merged cube, have to follow from the cells.

    `sample` cells are drawn without replacement from those that are done, by what the cube holds and `seed`.
    Annotations that were asked for are taken from the cube, and one path of questions is drawn and asked
    again for every `CELLS_PER_PATH` cells. Cells of methods that are not shipped are drawn only with
    `run_methods`: the cube names their code, and it may come from anywhere. `progress` goes through the
    cells, then through the paths.

    Raises
    ------
    InputError
        If there is no cube, or nothing in it is done, the file of a method has changed, or data that are left
        out are not here.
    """
    manifest, store = read_manifest(path), BlockStore(path, read_only=True)
    drawable = Drawable.of(path, run_methods)
    methods = [method for method in manifest.spec.grid.methods if method.name not in drawable.foreign]
    calls = method_calls(str(path), methods)
    if not drawable.cells:
        if not drawable.needs_code:
            raise refused(path, "no cell that is done", "at least one")
        fault = f"{plural(drawable.left_out, 'cell')} of own methods, and no other one that is done"
        expected = "cells of models or of shipped methods, whose code is here"
        hint = f"--run-methods runs the code of {', '.join(drawable.foreign)}, if it is here and unchanged"
        raise refused(path, fault, expected, hint)
    digest, asked_cells = published_hash(path), drawable.asked_cells
    drawn_cells = draw(drawable.cells, sample, digest, seed)
    n_paths = -(-sum(asks(cell.design) for cell in drawn_cells) // CELLS_PER_PATH)
    last_cells = [asked_cells[walk] for walk in draw(asked_cells, n_paths, digest, seed)]
    facts, fingerprints = provenance.fingerprint(manifest.spec), provenance.by_run(manifest.made_with)
    verification = _add_facts(Verification(path, digest, seed, (), len(drawable.cells)), facts, fingerprints)
    of_runs = [(place, {**values, "machine": facts["machine"]}) for place, values in fingerprints]
    unknown_facts = {*verification.unrecorded} - {"machine"}
    is_other = bool(provenance.software_differences([*of_runs, ("here", facts)]) or unknown_facts)
    # cells of cubes before format 5 do not know their own machine
    machines = {values.get("machine", "") for _, values in fingerprints}
    machine = machines.pop() if len(machines) == 1 else ""
    names = dict.fromkeys(cell.dataset for cell in (*drawn_cells, *last_cells))
    plans_without_data = [plan for plan in map(manifest.plans.__getitem__, names) if plan.left_out]
    loaded_inputs = collected(lambda plan: loaded_again(manifest, plan, data_dir), plans_without_data)
    sources = {name: source for inputs in loaded_inputs for name, source in inputs.sources.items()}
    tree, lines = open_cube(path), _lines(path, drawn_cells)

    def work_on(cell: Cell) -> Recomputation:
        source = _source(tree, sources, cell)
        return Recomputation(manifest.spec, manifest.plans[cell.dataset], calls, cell, source)

    checks = tuple(
        _check(manifest, store, work_on(cell), is_other, machine, lines.get(cell))
        for cell in progress(drawn_cells, "cells")
    )
    steps = progress(last_cells, "paths of questions") if last_cells else ()  # a bar of nothing would move
    paths = tuple(_check_path(store, work_on(cell)) for cell in steps)
    left_out = drawable.left_out
    return replace(verification, checks=checks, paths=paths, n_paths=len(asked_cells), left_out=left_out)


def _lines(path: Path, cells: Iterable[Cell]) -> dict[Cell, RawCell]:
    """Return the lines of some cells in the scores of a bundle, or in those beside a merged cube.

    A bundle has a line for each cell. A cube may have grown since it was merged.
    """
    if (scores := raw.stored_scores(path)) is None:
        return {}
    name = scores.path.name
    lines = {cell: RawCell(name, cell, "nothing", {}) for cell in cells if path.is_file()}
    return lines | {
        line.cell: replace(line, location=name)
        for line in scores.cells
        if path.is_file() or line.status in ANSWERED_WORDS
    }


def published_hash(path: Path) -> str:
    """Return the hash of a bundle, which is that of its file, or of what a cube and its scores hold."""
    if not path.is_file():
        scores_path, digest = path.with_suffix(raw.SCORES_SUFFIX), content_hash(path)
        if not scores_path.exists():
            return digest
        return hashlib.sha256(digest.encode() + read_file(scores_path, MOST_BYTES)).hexdigest()
    with opened(path, sys.maxsize) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Drawable:
    """The cells of a file that can be drawn.

    `foreign` are methods whose code is not to be run, and `left_out` is the number of their cells.
    """

    cells: tuple[Cell, ...]
    foreign: tuple[str, ...]
    left_out: int

    @classmethod
    def of(cls, path: Path, run_methods: bool) -> Self:
        """Return the cells of a cube or a bundle that have an answer."""
        manifest, store = read_manifest(path), BlockStore(path, read_only=True)
        methods = () if run_methods else manifest.spec.grid.methods
        foreign = tuple(sorted(method.name for method in methods if method.call not in SHIPPED))
        answered_cells = [cell for state in ANSWERED for cell in store.cells(manifest.plans.values(), state)]
        cells = tuple(cell for cell in answered_cells if cell.model not in foreign)
        return cls(cells, foreign, len(answered_cells) - len(cells))

    @property
    def needs_code(self) -> bool:
        """Whether no cell can be drawn unless the code of these methods is run."""
        return self.left_out > 0 and not self.cells

    @property
    def asked_cells(self) -> dict[AskedPath, Cell]:
        """A cell with all answers of each path of questions."""
        cells = sorted(self.cells, key=lambda cell: cell.m or 0)
        return {AskedPath.of(cell): cell for cell in cells if asks(cell.design)}


def draw(items: Iterable[Item], sample: int, digest: str, seed: int | None) -> list[Item]:
    """Draw items by the hash of a file, so that its author cannot know them before it is final."""
    items = sorted(items, key=str)
    stream = np.random.SeedSequence(int(digest, 16), spawn_key=() if seed is None else (seed,))
    size = min(sample, len(items))
    return [items[i] for i in np.random.default_rng(stream).choice(len(items), size=size, replace=False)]


def _add_facts(
    verification: Verification, facts: dict[str, str], fingerprints: Sequence[tuple[str, Mapping[str, str]]]
) -> Verification:
    """Return a verification with the fingerprint of this machine beside those of the cells."""
    other_fingerprints = {
        tuple(sorted(values.items())): dict(values)
        for place, values in fingerprints
        if provenance.software_differences([(place, values), ("here", facts)])
    }
    names = dict.fromkeys(name for _, values in fingerprints for name in provenance.unrecorded(values, facts))
    return replace(
        verification,
        here=facts,
        there=tuple(other_fingerprints[key] for key in sorted(other_fingerprints)),
        software=provenance.software_differences([*fingerprints, ("here", facts)]),
        unrecorded=tuple(names),
    )


@dataclass(frozen=True)
class Recomputation:
    """A cell, and everything that it is computed again from."""

    spec: SweepSpec
    plan: DatasetPlan
    calls: tuple[MethodCall, ...]
    cell: Cell
    source: Source

    def run(self, answers: Answers | None) -> CellResult | Failed:
        """Run all restarts once more, with the annotations of the cell if these were asked for."""
        stop = self.spec.stop if is_model(self.cell.model) else None
        restarts = self.plan.restarts_of(self.cell.model)
        science = replace(Science.of(self.spec, self.plan, self.calls), stop=stop)
        task = Task(science, self.cell.dataset, (Span(self.cell, 0, restarts, answers=answers),), 0.0)
        result: Any
        (result,) = run_task(task, self.source)
        if isinstance(result, Failed):
            return result
        cell_result = CellResult(self.cell, restarts, stop)
        cell_result.add(result)
        return cell_result

    def ask(self, answers: Answers) -> Answers:
        """Ask the batch of questions that follows some answers."""
        science, arrays = Science.of(self.spec, self.plan), self.source.arrays(self.cell.mixture)
        return ask_batch(science, AskedPath.of(self.cell), answers, arrays)

    def annotations(self) -> Answers:
        """Draw the annotations of the cell."""
        return cell_annotations(self.spec.seed, self.cell, self.source, self.spec.crowd)

    def differing_scores(
        self, line: RawCell, result: CellResult, answers: Answers | None, relative: float = RELATIVE
    ) -> tuple[str, ...]:
        """Return the scores of a line that do not follow from the result, with both values."""
        status = STATUS_WORDS[result.status]
        if result.status != DONE or line.status != status:
            return (f"{line.status} in {line.location}, {status} here",) if status != line.status else ()
        X, labels_true = self.source.arrays(self.cell.mixture)
        arrays: dict[str, Any] = {"X": X} if labels_true is None else {"X": X, "labels_true": labels_true}
        best = present(result.best)
        arrays |= {name: getattr(best, name) for name in ("labels", "centroids", "covariances")}
        arrays |= {"log_likelihood": result.objectives, "covariance_shape": CODES[best.shape]}
        arrays["covariance_prior"] = self.spec.search_of(self.cell.search).settings.covariance_prior
        if self.cell.m is not None:
            arrays["annotations"] = self.annotations() if answers is None else answers
        values = dict.fromkeys(line.scores, np.nan) | cell_scores(arrays)
        return tuple(
            f"{name} {file_score!r} in {line.location}, {values[name]!r} here"
            for name, file_score in line.scores.items()
            if not np.isclose(file_score, values[name], rtol=relative, atol=ABSOLUTE, equal_nan=True)
        )


def _check(
    manifest: Manifest,
    store: BlockStore,
    work: Recomputation,
    is_other: bool,
    machine: str,
    line: RawCell | None,
) -> CellCheck:
    cell, block = work.cell, work.plan.block_of(work.cell)
    arrays = store.read(block)
    answers = arrays["annotations"][block.graph(cell)] if asks(cell.design) else None
    result = work.run(answers)
    if isinstance(result, Failed):
        return CellCheck(str(cell), (), result.cause)
    results = BlockResult(block, {cell: result}).into({name: array.copy() for name, array in arrays.items()})
    if not block.node.baseline and answers is None:
        results["annotations"][block.graph(cell)] = work.annotations()
    rows = {name: block.graph(cell) if name == "annotations" else block.position(cell) for name in arrays}
    old_row, new_row = (
        {name: values[name][row : row + 1] for name, row in rows.items()} for values in (arrays, results)
    )
    if "machine" in old_row:
        machine = manifest.machines.get(str(old_row["machine"][0]), "")
    is_elsewhere = machine != provenance.machine_class()
    is_one_solution = (is_other or is_elsewhere) and is_rounded(old_row, new_row)
    differences = different_variables(old_row, new_row)
    if line is not None:
        if work.plan.left_out:  # a cube that has grown without its data lacks scores, and claims nothing
            scores = {name: value for name, value in line.scores.items() if not np.isnan(value)}
            line = replace(line, scores=scores)
        # other last bits of a solution are many more in a distance of its Gaussians from the true ones
        relative = RELATIVE**0.5 if differences and is_one_solution else RELATIVE
        wrong = work.differing_scores(line, result, answers, relative)
        is_one_solution, differences = is_one_solution and not wrong, differences + wrong
    return CellCheck(str(cell), differences, "", is_one_solution, machine if is_elsewhere else "")


def different_variables(old_row: Arrays, new_row: Arrays) -> tuple[str, ...]:
    """Return the promised variables of a cell with other bits; each array has one row."""
    names = (name for name in old_row if name not in UNPROMISED)
    return tuple(name for name in names if differing_rows(old_row[name], new_row[name])[0])


def is_rounded(old_row: Arrays, new_row: Arrays) -> bool:
    """Whether two results of a cell are one solution, whose numbers differ by rounding alone.

    Labels are the same up to the numbers of the clusters, and the objective of the best restart up to
    `RELATIVE`. Other restarts may have taken other ways: the solution does not depend on them.
    """
    labels = list(zip(old_row["labels"][0].tolist(), new_row["labels"][0].tolist(), strict=True))
    sides = len({label for label, _ in labels}), len({label for _, label in labels})
    first, second = (float(np.nanmax(row["log_likelihood"], initial=-np.inf)) for row in (old_row, new_row))
    return (
        all(np.array_equal(old_row[name], new_row[name]) for name in EXACT if name in old_row)
        and sides == (len(set(labels)),) * 2
        and (first == second or abs(first - second) <= RELATIVE * max(1.0, abs(first)))
    )


def _check_path(store: BlockStore, work: Recomputation) -> CellCheck:
    """Ask the questions of a cell again, batch by batch."""
    block, batch = work.plan.block_of(work.cell), work.spec.ask.batch.resolve(work.plan.n_samples)
    stored_answers = store.read(block)["annotations"][block.graph(work.cell)]
    name = f"{AskedPath.of(work.cell)}, {plural(len(stored_answers), 'question')}"
    for start in range(0, len(stored_answers), batch):
        try:
            answers = work.ask(stored_answers[:start])
        except Exception as error:
            return CellCheck(name, (), cause_of(error))
        stored_batch = stored_answers[start : start + batch]
        is_different = (answers[: len(stored_batch)] != stored_batch).any(axis=1)
        if is_different.any():
            return CellCheck(name, (f"annotations from question {start + int(np.argmax(is_different))} on",))
    return CellCheck(name, ())


def _source(tree: xr.DataTree, sources: Mapping[str, Source], cell: Cell) -> Source:
    """Return the inputs of a cell as the cube has them, or from a source that was loaded again."""
    if cell.dataset in sources:
        return sources[cell.dataset]
    node = tree[cell.dataset].to_dataset()
    coordinates = {} if cell.mixture is None else {"mixture": cell.mixture}
    labels = node["labels_true"].sel(coordinates).values if "labels_true" in node else None
    pool = node["annotation_pool"].values if "annotation_pool" in node else None
    X = np.ascontiguousarray(node["X"].sel(coordinates).values, dtype=np.float64)
    return RealSource(X, labels, pool)


def verify_scores(
    scores: RawScores,
    spec: SweepSpec,
    origin: str,
    *,
    sample: int,
    seed: int | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Verification:
    """Compute random cells of a file of raw scores again, from a sweep file alone, and compare scores.

    `sample` cells are drawn without replacement from those that have an answer in the file, by a hash of it
    and by `seed`. The code of the
    sweep's methods is run. Raw data are searched in `data_dir` first, and `origin` is the sweep file, for
    messages. `progress` goes through the cells.

    Raises
    ------
    InputError
        If the file is of another sweep, has cells that the sweep has not, or none with an answer.
    """
    problems = list[Problem]()
    with collecting(problems):
        calls = method_calls(origin, spec.grid.methods, is_tried=True)
    with collecting(problems):
        inputs = load_inputs(spec, origin, data_dir=data_dir)
        plans = {plan.name: plan for plan in inputs.plans}
        problems += raw.differences(scores, spec, plans, origin)
        cells = {cell for plan in inputs.plans for block in plan.blocks() for cell in block.cells()}
        lines = [line for line in scores.cells if line.cell.dataset not in inputs.skipped]
        problems += [
            Problem(line.location, repr(str(line.cell)), f"a cell of {origin}")
            for line in lines
            if line.cell not in cells
        ]
        answered_lines = [line for line in lines if line.status in ANSWERED_WORDS]
        if not answered_lines:
            problems.append(Problem(str(scores.path), "no cell that is done", "at least one"))
    raise_all(shortened(scores.path, problems))
    digest, sources = hashlib.sha256(read_file(scores.path, MOST_BYTES)).hexdigest(), inputs.sources
    lines_by_name = {str(line.cell): line for line in answered_lines}
    drawn_lines = [lines_by_name[name] for name in draw(lines_by_name, sample, digest, seed)]
    checks = tuple(
        _check_scores(
            Recomputation(spec, plans[line.cell.dataset], calls, line.cell, sources[line.cell.dataset]), line
        )
        for line in progress(drawn_lines, "cells")
    )
    counts = {
        "in the file without an answer": len(lines) - len(answered_lines),
        f"in {origin} that the file lacks": len(cells) - len(lines),
        "from data sets that are not available here": len(scores.cells) - len(lines),
    }
    notes = tuple(f"not looked at: {plural(count, 'cell')} {text}" for text, count in counts.items() if count)
    made_with = scores.head.made_with
    fingerprints = [(f"in the file, {number}", values) for number, values in enumerate(made_with, start=1)]
    if len(fingerprints) == 1:
        fingerprints = [("in the file", made_with[0])]
    verification = Verification(scores.path, digest, seed, checks, len(answered_lines), notes=notes)
    return _add_facts(verification, provenance.fingerprint(spec) | raw.software(spec), fingerprints)


def _check_scores(work: Recomputation, line: RawCell) -> CellCheck:
    cell, answers = line.cell, NO_ANSWERS if asks(line.cell.design) else None
    while answers is not None and len(answers) < present(cell.m):
        try:
            answers = np.concatenate([answers, work.ask(answers)])[: cell.m]
        except Exception as error:
            return CellCheck(str(cell), (), cause_of(error))
    result = work.run(answers)
    if isinstance(result, Failed):
        return CellCheck(str(cell), (), result.cause)
    return CellCheck(str(cell), work.differing_scores(replace(line, location="the file"), result, answers))


class Answer(Record):
    """A cell, or a path of questions, that was computed again."""

    cell: Line
    answer: Annotated[str, Choice(ANSWERS)]
    differs: Annotated[tuple[Line, ...], List()] = ()
    cause: Line = ""


class VerificationRecord(Record):
    """A verification of a file, as a board shows it."""

    format: Annotated[str, Choice((FORMAT,))]
    format_version: Annotated[int, Whole(FORMAT_VERSION, FORMAT_VERSION)]
    file: Line  # name of the file when it was verified
    sha256: Annotated[str, Text("64 digits of a hash", pattern="^[0-9a-f]{64}$")]
    by: Line
    at: Line  # time, UTC
    seed: Count | None  # None if the file alone decided which cells were drawn
    n_cells: Count  # those that could have been drawn
    cells: Annotated[tuple[Answer, ...], List()] = Field(min_length=1)
    n_paths: Count = 0
    paths: Annotated[tuple[Answer, ...], List()] = ()
    left_out: Count = 0  # cells of methods whose code was not run
    made_with: dict[str, Line]  # software and class of the machine

    @property
    def statements(self) -> list[str]:
        """Conclusions about the cells, and about the paths of questions, in words."""
        pairs = (self.cells, self.n_cells, CELLS), (self.paths, self.n_paths, PATHS)
        return [
            statement([answer.answer for answer in answers], n_all, nouns)
            for answers, n_all, nouns in pairs
            if answers
        ]


def write_record(path: Path, verification: Verification, author: str) -> None:
    """Write the outcome of a verification, and the name of who made it."""
    record = VerificationRecord(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        file=Path(verification.cube).name,
        sha256=verification.digest,
        by=author,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=verification.seed,
        n_cells=verification.n_cells,
        cells=tuple(map(_answer, verification.checks)),
        n_paths=verification.n_paths,
        paths=tuple(map(_answer, verification.paths)),
        left_out=verification.left_out,
        made_with=verification.here,
    )
    with storage_errors(path):
        write_new(path, (record.model_dump_json(indent=1) + "\n").encode())


def _answer(check: CellCheck) -> Answer:
    return Answer(cell=check.cell, answer=check.answer, differs=check.differs, cause=check.cause[:1_000])


def read_records(
    paths: Iterable[Path], hashes: Mapping[Path, str], nearby_paths: Iterable[Path] = ()
) -> dict[Path, list[VerificationRecord]]:
    """Read records of cubes and bundles, whose hashes are known, by the file that each is of.

    Records at `nearby_paths` may be of other files, such as the bundle of a cube, which they name.

    Raises
    ------
    InputError
        With the problems of all records: those that are none, those of no such file, and those with other
        cells than the file draws.
    """
    problems, cells_of = list[Problem](), cache(Drawable.of)
    files = {digest: file for file, digest in hashes.items()}
    records: dict[Path, list[VerificationRecord]] = {file: [] for file in hashes}
    paths, names = set(paths), {file.name for file in hashes}
    for path in sorted(paths.union(nearby_paths)):
        with collecting(problems):
            record = _read(path)
            if record.sha256 not in files:
                if path not in paths and record.file not in names:
                    continue
                expected = f"the hash of one of {', '.join(map(str, hashes))}"
                hint = "a file that has changed since has another hash"
                raise refused(f"{path}: sha256", record.sha256, expected, hint)
            file = files[record.sha256]
            cells = cells_of(file, not record.left_out).cells
            drawn_names = [str(cell) for cell in draw(cells, len(record.cells), record.sha256, record.seed)]
            if (len(cells), drawn_names) != (record.n_cells, [answer.cell for answer in record.cells]):
                description = f"{len(record.cells)} of {record.n_cells} cells"
                raise refused(f"{path}: cells", description, "those that the file draws")
            records[file].append(record)
    raise_all(problems)
    return records


def _read(path: Path) -> VerificationRecord:
    content = read_file(path, LONGEST)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise refused(path, f"no JSON ({error})", "a record of `sweep verify --record`") from None
    return read(VerificationRecord, values, f"{path}:")
