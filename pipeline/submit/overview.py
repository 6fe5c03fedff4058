"""How much work a sweep is, before it runs, and a warning if its workers may get too little memory."""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np
from dask.utils import format_bytes

from sweep_clustering.kernels.problem.problem import unused_priors
from sweep_clustering.kernels.settings import DEFAULT, FOLD_GENERATIONS, FOLDS, method_words
from sweep_clustering.pipeline.cluster.profiles import Address, Local, Profile
from sweep_clustering.pipeline.common import at_hand, core_count, estimate, plural, span
from sweep_clustering.pipeline.fit.data_notes import data_notes
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.pipeline.methods.process import PROCESS_BYTES, processes_kept
from sweep_clustering.pipeline.run.ledger import WRITE_SECONDS, Collector, Work, read_ledger
from sweep_clustering.pipeline.run.request import Selection, Sweep
from sweep_clustering.pipeline.work.records import NO_ANSWERS, Failed, Science, Span, Task
from sweep_clustering.pipeline.work.tasks import run_task
from sweep_clustering.pipeline.work.timing import TIMED, Timing, target_seconds
from sweep_clustering.storage.cube.schema import ArraySpec, Role, array_specs
from sweep_clustering.storage.runfolder.folder import Moment
from sweep_clustering.sweeps import words
from sweep_clustering.sweeps.annotations.draw import around_median
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.file.spec import Stop, SweepSpec
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, DIMS

# Measured beside what they predict by `python -m benchmarks memory`, in docs/explanation/scale.md.

# Bytes of a worker's process that has loaded dask and compiles the kernels, and holds no data.
PROCESS = 500 * 2**20

# Bytes of the process that starts the workers of a job: 60 MiB measured.
NANNY = 65 * 2**20

# Copies of the features: as received, as read, centred, and along principal components.
COPIES = 4

# Bytes of an annotation that is drawn, and counted in tables of pairs.
DRAWN_BYTES = 200

# Bytes of an annotation that is asked for, with all answers before.
ASKED_BYTES = 600

# Tables with a number for each sample and cluster, such as squared distances and shares.
TABLES = 9

# Matrices of a cluster that a search has beside those of its population: inverses, sums, candidates.
MATRICES = 6

# Bytes of the candidates of a model that chooses everything, whose matrices are of few principal components.
UNION = 200 * 2**20


def worker_bytes(sweep: Sweep, plan: DatasetPlan) -> int:
    """Predict the most memory, in bytes, that a worker takes for a cell of a data set.

    Processes that run methods beside the worker are included. In each case of the benchmark the prediction
    was above the measured memory, and at most 2.5 times as much.
    """
    n, d, k = plan.n_samples, plan.n_features, plan.n_clusters
    answer_bytes = ASKED_BYTES if plan.asking_designs else DRAWN_BYTES
    of_answers = answer_bytes * max(plan.m, default=0) + 12 * plan.n_annotations
    models = [model for model in (*plan.models, *plan.baselines) if words.is_model(model)]
    of_models = [_of_model(plan, model, search) for model in models for search in sweep.spec.search]
    # a method gets the features in a process of its own, and copies them as often
    calls = processes_kept(sweep.methods) * (PROCESS_BYTES + COPIES * 8 * n * d) if plan.methods else 0
    return PROCESS + COPIES * 8 * n * d + TABLES * 8 * n * k + of_answers + max(of_models, default=0) + calls


def _of_model(plan: DatasetPlan, model: str, search: Search) -> int:
    """Return the bytes of the partitions and parameters that a search of a model holds at once."""
    if words.is_any(model):
        return UNION
    shapes = CANDIDATES if words.chooses(model) else (words.shape_of(model),)
    of_cluster = max(prod(plan.n_features for _ in DIMS.get(shape, ())) for shape in shapes)
    solution = 2 * plan.n_samples + 8 * plan.n_clusters * plan.n_features
    n_solutions = search.population + search.offspring + plan.restarts
    return n_solutions * solution + (MATRICES + plan.restarts) * 8 * plan.n_clusters * of_cluster


def memory_warnings(sweep: Sweep, profile: Profile | None, workers: int | None) -> Iterator[str]:
    """Warn of data sets whose cells may take more memory than a worker gets.

    Without a profile this process computes. `workers` replaces the processes of a local profile; the jobs of
    a queue have as many as cores. Nobody knows the memory of a running scheduler, and it is not checked.
    """
    from distributed.system import MEMORY_LIMIT  # the machine's, or that of its control group

    options = None if profile is None else profile.options
    if isinstance(options, Address):
        return
    count, limit, key = 1, MEMORY_LIMIT, ""
    if profile is not None and isinstance(options, Local):
        count = profile.process_count(workers)
        limit, key = MEMORY_LIMIT // count, "workers"
        if options.memory_limit is not None:
            limit, key = options.memory_limit, "memory_limit"
    elif isinstance(options, JobQueue):
        count, limit, key = options.cores, max(0, options.memory - NANNY) // options.cores, "memory"
    has_file = profile is not None and profile.origin is not None
    location = f"{profile.location} {key}" if profile is not None and has_file else "memory of this machine"
    for plan in sweep.inputs.plans:
        need = worker_bytes(sweep, plan)
        if need > limit:
            share = f"{format_bytes(limit)} for each of {plural(count, 'worker')}"
            yield (
                f"{location}: {share}, and data set {plan.name!r} may need up to {format_bytes(need)}; "
                f"if workers run out of memory, {_remedy(options, need, limit * count)}"
            )


def _remedy(options: object, need: int, total: int) -> str:
    """Return the change by which a worker gets the memory that it may need."""
    if isinstance(options, JobQueue):
        memory = format_bytes(NANNY + options.cores * need)
        return f"set memory of a job to {memory} in cluster.yaml, or fewer cores"
    if isinstance(options, Local) and options.memory_limit is not None:
        return f"set memory_limit to {format_bytes(need)} in cluster.yaml, or leave it out"
    if total // need:
        return f"take --workers {total // need}, or set workers in cluster.yaml"
    return "take a machine with more memory, fewer rows, or principal components of the features"


# Notes on a sweep before it is run: settings without effect, and data sets.


def search_notes(spec: SweepSpec) -> list[str]:
    """Return notes on settings that no model of the sweep uses, and on baselines that it lacks."""
    shapes, models = list(dict.fromkeys(map(words.shape_of, spec.grid.models))), spec.grid.models
    baselines = {model: words.baseline_of(model) for model in models if model not in words.BASELINES}
    return [
        f"the relative NMI of {model} needs {baselines[model]} among models of [grid], too"
        for model in baselines
        if baselines[model] not in models
    ] + [
        f"[search] {name} is not used by {', '.join(shapes)} covariances"
        for name in unused_priors(shapes)
        if any(getattr(search, name) != getattr(DEFAULT, name) for search in spec.search)
    ]


def sweep_notes(sweep: Sweep) -> dict[str, list[str]]:
    """Return notes on the data sets of a sweep by name; of mixtures the first one is checked."""
    inputs, is_bounded = sweep.inputs, all(search.variance_prior > 0 for search in sweep.spec.search)
    notes = {}
    lack = "the cube lacks its features and classes, so that new cells get no scores that need them"
    remedy = f"sweep merge {sweep.cube} --out NEW.zarr writes a cube with the data and all scores"
    for plan in inputs.plans:
        X, _ = inputs.sources[plan.name].arrays(plan.dims[0].values[0])
        models = (*plan.models, *plan.baselines)
        is_free = any(words.chooses(model) or words.shape_of(model) == words.SPHERICAL for model in models)
        notes[plan.name] = [
            *inputs.notes.get(plan.name, ()),
            *([f"{lack}: {remedy}"] if plan.left_out else ()),
            *data_notes(X, plan.n_clusters, may_degenerate=is_free and not is_bounded),
        ]
    return {name: texts for name, texts in notes.items() if texts}


# A number, with the plural that follows from it.
NUMBER = re.compile(r"\d[\d,.]*|\b(?:is|are|has|have)\b|(?<=row)s\b|(?<=feature)s\b")

# Data sets with notes of one kind, from which on only the first is shown.
MANY_DATASETS = 4


def note_lines(of_search: Sequence[str], of_datasets: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the notes of a sweep as lines; many that differ only in numbers and names are one line."""
    groups = defaultdict[str, list[tuple[str, str]]](list)
    for name, texts in of_datasets.items():
        for text in texts:
            groups[NUMBER.sub("", text.partition(":")[0])].append((name, text))
    lines = [f"NOTE {text}" for text in of_search]
    for notes in groups.values():
        name, text = notes[0]
        names = [other for other, _ in notes[1:]]
        if len(names) < MANY_DATASETS:
            lines += [f"NOTE data set {name}: {text}" for name, text in notes]
        else:
            rest_text = f"{', '.join(names[:2])} and {len(names) - 2} more"
            lines.append(f"NOTE data set {name}: {text} (the same kind: {rest_text}; all: sweep plan --json)")
    return lines


# A guess at the CPU time of a sweep, before anything was timed.
#
# Powers of the sizes, fitted to restarts of both methods on the tables of sweeps/ten-tables.toml and on
# mixtures of 200 to 4,883 samples, 2 to 64 features and 2 to 16 clusters: `python -m benchmarks rough`.

# CPU seconds of the local search of an offspring with one sample, one cluster and hardly any feature.
SEARCH_SECONDS = 3.7e-8

# Power of the number of samples, that of clusters, and that of 1 + D / 16.
SAMPLES_POWER = 1.27
CLUSTERS_POWER = 0.89
FEATURES_POWER = 0.52

# Additional power of 1 + D / 16 for shapes with a full matrix.
MATRICES_POWER = 2.05

# Factor of diagonal covariances.
DIAGONAL = 1.5

# Factor of a model with a block model of its annotations.
BLOCK_FACTOR = 1.69

# Generations until a restart with patience ends, as a multiple of it, for each cluster: more take longer.
PATIENT = 0.2

# The least and the most that searches take, as multiples of a guess. On the machine of the benchmark, its
# data sets took 0.6 to 1.9 times their guesses, and single cells of full covariances up to 3 times.
LOW_FACTOR = 0.5
HIGH_FACTOR = 2.5

# The most seconds that the start of a run takes: workers, and the search that is compiled on a new machine.
START_SECONDS = 30.0

# CPU seconds of a cell that chooses everything: for each sample, and for each of its coordinates and classes.
UNION_SECONDS = 1.3e-3
UNION_DISTANCE = 5e-7

# Factor of a model that tries merged groups, too.
GROUPS_FACTOR = 1.6

# Guess of the time of a call of a method.
CALL_SECONDS = 0.1


def rough_seconds(search: Search, plan: DatasetPlan, work: Span[Cell]) -> float:
    """Guess the CPU seconds of a cell: those of its restarts, and of folds if it holds some out."""
    cell = work.unit
    if not words.is_model(cell.model):
        return work.size * CALL_SECONDS
    if words.is_any(cell.model):
        seconds = plan.n_samples * (UNION_SECONDS + UNION_DISTANCE * plan.n_clusters * plan.n_features)
        return seconds * (GROUPS_FACTOR if words.has_groups(cell.model) else 1.0)
    term = BLOCK_FACTOR if words.split_model(cell.model)[0] in ("likelihood", "posterior") else 1.0

    size: float = plan.n_samples**SAMPLES_POWER * plan.n_clusters**CLUSTERS_POWER
    base = 1.0 + plan.n_features / 16.0

    def restart_seconds(shape: str, generations: int) -> float:
        if search.patience:
            generations = min(generations, round(PATIENT * search.patience * plan.n_clusters))
        # a local search from a random start costs as much as one of an offspring
        searches = search.population + generations * search.offspring
        diagonal = DIAGONAL if shape == "diagonal" else 1.0
        features: float = base**FEATURES_POWER * (base**MATRICES_POWER if len(DIMS[shape]) > 1 else diagonal)
        return searches * SEARCH_SECONDS * term * size * features

    short = min(search.generations, FOLD_GENERATIONS)
    shapes = CANDIDATES if words.chooses(cell.model) else (words.shape_of(cell.model),)
    seconds = work.size * restart_seconds(words.shape_of(cell.model), search.generations)
    if words.holds_out(cell.model, search.held_out):
        seconds += FOLDS * sum(restart_seconds(shape, short) for shape in shapes)
    return seconds


def rough_batch_seconds(spec: SweepSpec, plan: DatasetPlan, answers: int) -> float:
    """Guess the seconds of a batch of questions: a fit with restarts and folds, and chains as long."""
    ask = spec.ask
    restarts = ask.restarts * (2 + (FOLDS if ask.covariance in (words.AUTO, *words.OPEN_SHAPES) else 0))
    model = "conditional" if ask.covariance == "spherical" else f"conditional-{ask.covariance}"
    cell = Cell(plan.name, plan.dims[0].values[0], plan.p[0], answers, 0, model)
    return rough_seconds(spec.search[0], plan, Span(cell, 0, restarts))


logger = logging.getLogger(__name__)

# Values of a plan, or of a part of it, as its JSON has them.
Values = Mapping[str, Any]

# Restarts and questions, each with the number of its kind.
Portions = list[tuple[Span[Any], int]]


SUMMED = (
    *("cells", "cells_done", "cells_failed", "cells_left", "restarts", "restarts_left", "restarts_least"),
    *("blocks", "files", "bytes", "core_hours", "core_hours_least", "worker_hours"),
    *("paths", "questions", "questions_left", "asking_hours"),
)

# Columns of the table of a plan: head, value, place in the line, and form.
COLUMNS = (
    ("data set", "name", "<18", ""),
    ("N", "n_samples", ">7", ""),
    ("D", "n_features", ">5", ""),
    ("K", "n_clusters", ">4", ""),
    ("cells", "cells", ">9", ","),
    ("restarts", "restarts", ">11", ","),
    ("left", "restarts_left", ">11", ","),
    ("files", "files", ">7", ","),
    ("MB", "megabytes", ">9", ".1f"),
    ("s/restart", "seconds_per_restart", ">11", ".3g"),
    ("core-h", "core_hours", ">9", ".3g"),
)


def plan_lines(sweep: Sweep, plan: Values) -> list[str]:
    """Return a plan of `plan_overview` as lines with a table."""
    total, bound = plan["total"], "" if sweep.spec.stop is None else "at most "
    kind = " of restarts" if total["paths"] else ""
    work = f"{plural(plan['batches'], 'batch', 'batches')}{kind} for {plural(plan['workers'], 'worker')}"
    time = estimate(*(3600 * hours for hours in plan["hours"]))
    is_over = not total["restarts_left"] and not total["questions_left"]
    searches = [
        f"search{'' if search.name is None else ' ' + search.name}: "
        + ", ".join(f"{key} {value}" for key, value in search.summary().items())
        for search in sweep.spec.search
    ]
    # the number that is left tells something only if it is not the whole
    columns = [column for column in COLUMNS if column[1] != "restarts_left" or _is_begun(total)]
    lines = [
        "".join(f"{head:{place}}" for head, _, place, _ in columns),
        *(_row(record, columns) for record in (*plan["datasets"], {"name": "total", **total})),
        *_progress_lines(total, bound),
        "nothing to run" if is_over else f"{work}, {bound}{time} ({_time_source(plan)})",
        f"memory of a worker: about {format_bytes(plan['worker_bytes'])}",
    ]
    if plan["least"] < 1:
        minimum = f"{plural(total['restarts_least'], 'restart')}, {total['core_hours_least']:.3g} core-h"
        lines.append(f"at most: the adaptive stop may end after {minimum}")
    if total["questions_left"]:
        n_left, questions = total["questions_left"], plural(total["questions"], "question")
        share = f"{n_left:,} of {questions}" if n_left < total["questions"] else questions
        paths = plural(total["paths"], "path")
        lines.append(f"{share} to ask in {paths}, {total['asking_hours']:.3g} core-h of these")
    return [
        *lines,
        *_crowds(sweep.spec),
        *searches,
        f"results: {plan['cube']}",
        *filter(None, [plan["at_hand"]]),
        *note_lines(plan["search_notes"], plan["notes"]),
    ]


def _crowds(spec: SweepSpec) -> Iterator[str]:
    """Say what accuracies annotators of the design "crowd" have, for each p."""
    crowd = spec.crowd
    shares, values = np.array(crowd.accuracies).T
    for p in spec.grid.p if words.CROWD in spec.grid.design else ():
        accuracies = around_median(values, crowd.accuracies, p) if p < 1.0 else np.ones(len(values))
        parts = (f"{100 * share:.12g} % {value:.2f}" for share, value in zip(shares, accuracies, strict=True))
        answers = f"{plural(crowd.answers, 'answer')} each, {100 * crowd.unsure:.12g} % unsure"
        yield f"crowd p={p:.12g}: accuracies of at most {', '.join(parts)}; {answers}"


def _progress_lines(total: Values, bound: str) -> Iterator[str]:
    """Say how much of a sweep is done, failed, not selected and left, if there is a cube or a selection."""
    if not _is_begun(total):
        return
    restarts = f"{bound}{plural(total['restarts'], 'restart')}"
    n_others = total["cells"] - total["cells_done"] - total["cells_failed"] - total["cells_left"]
    yield f"done: {total['cells_done']:,} of {plural(total['cells'], 'cell')}"
    rest_text = f"{plural(total['cells_left'], 'cell')} with {bound}{total['restarts_left']:,} of {restarts}"
    if total["cells_left"]:
        yield f"left: {rest_text}"
    if total["cells_failed"]:
        yield f"{plural(total['cells_failed'], 'cell')} failed: sweep submit --retry-failed tries them again"
    if n_others:
        yield f"{plural(n_others, 'other cell')} not asked for"


def _is_begun(total: Values) -> bool:
    """Whether something of a sweep is done, or not selected."""
    return bool(total["restarts_left"] != total["restarts"] or total["questions_left"] != total["questions"])


def _time_source(plan: Values) -> str:
    """Say where the times come from."""
    if not plan["timed"]:
        return "rough, for a quiet machine; --pilot measures"
    if plan["moment"] is None:
        return "timed by an earlier run; --pilot measures now"
    moment = Moment(**plan["moment"])
    busy = f"at a load of {moment.load:.1f} for each core"
    if plan["measured_now"]:
        return f"measured now, {busy}"
    return f"timed {span(moment.age)} ago on {moment.host}, {busy}; --pilot measures now"


def plan_overview(
    sweep: Sweep, *, workers: int | None = None, pilot: bool = False, selection: Selection | None = None
) -> dict[str, Any]:
    """Count the work of a sweep, and how much of it its cube leaves to do.

    With `pilot`, a restart at the corners of each grid is timed, now and in this process; otherwise timings
    of an earlier run are taken, or a rough guess. Without `workers` the plan is for one on each core, and
    without `selection` for all cells that are not done and not marked failed. A `JournalDamaged` or a
    `Mismatch` is raised if the journal holds what no run of this sweep wrote.

    Returns
    -------
    dict
        Plain values for JSON, with totals. `datasets` has the work of each data set that is available.
        `cells`, `restarts` and `questions` are those of the whole sweep, with `_left` those that are still to
        be run. Times are those of what is left, measured, or rough guesses where nothing was timed:
        `worker_hours` are time that passes for a worker, `core_hours` CPU time, and `seconds_per_restart` is
        the mean over the whole sweep. Questions are counted in whole batches; both include them, and the
        `asking_hours` are their CPU time. `hours` are the least and the most time that is likely to pass.
        `restarts_least` and `core_hours_least` are those of what is left that an adaptive stop cannot spare,
        and `least` is their share of the restarts that are left. `worker_bytes` is a prediction of the most
        memory that a worker takes. `moment` says when and where was timed, None if that is not recorded.
    """
    selection = selection or Selection()
    workers = workers or core_count()
    timing = Timing() if pilot else Timing.load(sweep.run)
    if pilot:
        _time_corners(sweep, timing)
    ledger = read_ledger(sweep, selection)
    datasets = [_dataset(sweep, plan, timing, ledger, selection) for plan in sweep.inputs.plans]
    length = target_seconds(3600 * sum(dataset["worker_hours"] for dataset in datasets), workers)
    batches = 0
    for dataset in datasets:
        n_restarts = max(1, math.floor(length / max(dataset["seconds_per_restart"], 1e-9)))
        batches += math.ceil(dataset["restarts_left"] / n_restarts)
    is_timed = not any(timing.untimed_cells(plan) for plan in sweep.inputs.plans)
    spec, reasons = sweep.spec, sweep.inputs.skipped
    total = {key: sum(dataset[key] for dataset in datasets) for key in SUMMED}
    least_share = total["restarts_least"] / total["restarts_left"] if total["restarts_left"] else 1.0
    searches = [
        {"method": method_words(search)}
        | ({} if search.name is None else {"name": search.name})
        | {**vars(search.settings), "held_out": search.held_out}
        for search in spec.search
    ]
    return {
        "name": spec.name,
        "cube": str(sweep.cube),
        "datasets": datasets,
        "skipped": {name: list(texts) for name, texts in reasons.items()},
        "at_hand": at_hand(spec, reasons),
        "notes": sweep_notes(sweep),
        "search": searches[0] if len(searches) == 1 else searches,
        "search_notes": search_notes(spec),
        "workers": workers,
        "worker_bytes": max((dataset["worker_bytes"] for dataset in datasets), default=0),
        "batches": batches,
        "timed": is_timed,
        "moment": timing.moment._asdict() if is_timed and timing.moment else None,
        "measured_now": pilot,
        "least": least_share,
        "hours": _hours(total, workers, is_timed),
        "total": total,
    }


def _time_corners(sweep: Sweep, timing: Timing) -> None:
    from sweep_clustering.kernels.search.genetic import warm_up

    warm_up()
    for plan in sweep.inputs.plans:
        science = Science.of(sweep.spec, plan, sweep.methods)
        source = sweep.inputs.sources[plan.name]
        # with pairs drawn uniformly: nothing is kept, and how they are chosen hardly changes the time
        cells = timing.untimed_cells(plan)
        spans: list[Any] = [tuple(Span(replace(cell, design=None), 0, 1) for cell in cells)]
        for path in timing.untimed_paths(plan):
            span = replace(_questions_of(path, max(plan.m), science), answers=NO_ANSWERS)
            spans.append((replace(span, stop=min(span.stop, TIMED * span.step)),))
        tasks = (Task(science, plan.name, spans_of_task, 0.0) for spans_of_task in spans)
        for result in chain.from_iterable(run_task(task, source) for task in tasks):
            if not isinstance(result, Failed):
                timing.note(result)
            elif isinstance(unit := result.span.unit, AskedPath) or words.is_model(unit.model):
                raise RuntimeError(f"{result.span}: {result.cause}")
            else:
                logger.warning("%s failed, and is taken to last a second: %s", result.span, result.cause)


def _questions_of(path: AskedPath, m: int, science: Science) -> Span[AskedPath]:
    """Return the questions of a path that `m` answers need, in whole batches."""
    batch = present(science.asking).batch
    return Span(path, 0, -(-m // batch) * batch, step=batch)


# Dimensions along which cells are predicted to last equally long.
EQUAL_DIMS = ("mixture", "design", "replicate")


@dataclass(frozen=True)
class Workload:
    """Work on a data set: its amount, and its restarts and questions, each with their number."""

    work: Work
    spans: Portions


def _dataset(
    sweep: Sweep, plan: DatasetPlan, timing: Timing, ledger: Collector | None, selection: Selection
) -> dict[str, Any]:
    science = Science.of(sweep.spec, plan)
    total = _total_work(plan, science)
    backlog = total if ledger is None and not selection.cells else _backlog(plan, science, ledger, selection)

    def seconds(spans: Portions, kind: type) -> list[float]:
        untimed = timing.untimed_cells(plan) if kind is Cell else timing.untimed_paths(plan)
        of_kind = [(span, times) for span, times in spans if type(span.unit) is kind]
        return _seconds(sweep, plan, timing, of_kind, not untimed)

    (of_all, _), (of_rest, cpu) = seconds(total.spans, Cell), seconds(backlog.spans, Cell)
    asking, asking_cpu = seconds(backlog.spans, AskedPath)
    cells = [(span, times) for span, times in backlog.spans if isinstance(span.unit, Cell)]
    least_spans = [(_before_stop(span, sweep.spec.stop), times) for span, times in cells]
    _, least_cpu = seconds(least_spans, Cell)
    specs = array_specs(plan)
    chunks = (math.prod(map(math.ceil, np.divide(spec.shape, spec.chunks))) for spec in specs)
    return {
        "name": plan.name,
        "n_samples": plan.n_samples,
        "n_features": plan.n_features,
        "n_clusters": plan.n_clusters,
        "cells": plan.n_cells,
        "cells_done": backlog.work.cells_done,
        "cells_failed": backlog.work.cells_failed,
        "cells_left": backlog.work.cells - backlog.work.cells_done - backlog.work.cells_failed,
        "restarts": plan.n_restarts,
        "restarts_left": backlog.work.restarts_left,
        "restarts_least": sum(span.size * times for span, times in least_spans),
        "blocks": sum(1 for _ in plan.blocks()),
        "files": len({spec.node for spec in specs}) + len(specs) + sum(chunks),
        "bytes": sum(_bytes(spec) for spec in specs),
        "worker_bytes": worker_bytes(sweep, plan),
        "seconds_per_restart": of_all / plan.n_restarts,
        "core_hours": (cpu + asking_cpu) / 3600,
        "core_hours_least": (least_cpu + asking_cpu) / 3600,
        "worker_hours": (of_rest + asking) / 3600,
        "paths": plan.n_paths,
        "questions": total.work.questions,
        "questions_left": backlog.work.questions_left,
        "asking_hours": asking_cpu / 3600,
    }


def _before_stop(span: Span[Cell], stop: Stop | None) -> Span[Cell]:
    """Return the restarts of a cell that are run before an adaptive stop may end it."""
    if stop is None or not words.is_model(span.unit.model):
        return span
    tests = range(stop.r_min, span.stop, stop.step)
    return replace(span, stop=next((end for end in tests if end > span.start), span.stop))


def _total_work(plan: DatasetPlan, science: Science) -> Workload:
    """Return all the work of a data set; cells that last equally long are one span."""
    spans: Portions = []
    for node in plan.nodes:
        cells = list(node.cells({dim.name: dim.values[:1] for dim in node.dims if dim.name in EQUAL_DIMS}))
        n_equal = node.n_cells // len(cells)
        spans += [(Span(cell, 0, plan.restarts_of(cell.model)), n_equal) for cell in cells]
    mixture = plan.dims[0].values[0]
    paths = [
        AskedPath(plan.name, mixture, p, 0, design) for p, design in product(plan.p, plan.asking_designs)
    ]
    batches = [(_questions_of(path, max(plan.m), science), plan.n_paths // len(paths)) for path in paths]
    questions = sum(span.size * times for span, times in batches)
    work = Work(plan.n_cells, 0, 0, plan.n_restarts, plan.n_restarts, questions, questions)
    return Workload(work, spans + batches)


def _backlog(plan: DatasetPlan, science: Science, ledger: Collector | None, selection: Selection) -> Workload:
    """Return what cube and journal leave of a data set, and what the sweep has grown by."""
    work, spans = Work(), Portions()
    old_plan = None if ledger is None else ledger.plans.get(plan.name)
    if ledger is not None and old_plan is not None:
        work = ledger.work(old_plan)
        spans = [(span, 1) for span in ledger.count(old_plan)]
        if old_plan == plan:
            return Workload(work, spans)
    selected = filter(selection.runs, chain.from_iterable(node.cells({}) for node in plan.nodes))
    cells = [cell for cell in selected if old_plan is None or not old_plan.has(cell)]
    new = [Span(cell, 0, plan.restarts_of(cell.model)) for cell in cells]
    answer_counts = dict[AskedPath, int]()
    for cell in (cell for cell in cells if words.asks(cell.design)):
        path = AskedPath.of(cell)
        answer_counts[path] = max(answer_counts.get(path, 0), present(cell.m))
    batches = list[Span[AskedPath]]()
    for path, m in answer_counts.items():
        if ledger is not None and old_plan is not None and old_plan.has_path(path):
            batches += filter(None, [ledger.paths.remaining_for(path, m)])
        else:
            batches.append(_questions_of(path, m, science))
    restarts, questions = sum(span.size for span in new), sum(span.size for span in batches)
    growth = Work(len(cells), 0, 0, restarts, restarts, questions, questions)
    return Workload(work + growth, [*spans, *((span, 1) for span in new), *((span, 1) for span in batches)])


def _seconds(sweep: Sweep, plan: DatasetPlan, timing: Timing, spans: Portions, is_timed: bool) -> list[float]:
    """Return the elapsed and the CPU seconds of some spans, each with its number."""
    total = np.zeros(2)
    for work, times in spans:
        if is_timed:
            total += times * np.array([timing.seconds(work), timing.seconds(work, of_cpu=True)])
        elif isinstance(work.unit, Cell):
            total += times * rough_seconds(sweep.spec.search_of(work.unit.search), plan, work)
        else:
            batch = rough_batch_seconds(sweep.spec, plan, max(plan.m) // 2)
            total += times * (work.size // work.step * batch)
    return [float(seconds) for seconds in total]


def _bytes(spec: ArraySpec) -> int:
    """Return the size before compression."""
    if spec.variable.role is Role.COORDINATE or spec.variable.dtype == "string":
        return 8 * math.prod(spec.shape)
    return math.prod(spec.shape) * np.dtype(spec.variable.dtype).itemsize


def _row(record: Values, columns: Sequence[tuple[str, str, str, str]]) -> str:
    values = {"megabytes": record["bytes"] / 1e6, **record}
    texts = ((format(values[key], form) if key in values else "", place) for _, key, place, form in columns)
    return "".join(f"{text:{place}}" for text, place in texts)


def _hours(total: Values, workers: int, is_timed: bool) -> tuple[float, float]:
    """Return the least and the most hours that the rest of a sweep is likely to take."""
    if not total["restarts_left"] and not total["questions_left"]:
        return 0.0, 0.0
    low = (1.0 if is_timed else LOW_FACTOR) * total["core_hours_least"] / workers
    high = (total["worker_hours"] if is_timed else HIGH_FACTOR * total["core_hours"]) / workers
    overhead = START_SECONDS + total["blocks"] * WRITE_SECONDS
    return low, max(high, low) + overhead / 3600
