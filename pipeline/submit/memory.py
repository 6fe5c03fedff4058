"""Memory that a worker of a sweep may take, and a warning if it gets less, before anything runs."""

from collections.abc import Iterator
from math import prod

from dask.utils import format_bytes

from sweep_clustering.pipeline.cluster.profiles import Address, Local, Profile
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.pipeline.methods.process import PROCESS_BYTES, processes_kept
from sweep_clustering.pipeline.run.request import Sweep
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, DIMS
from sweep_clustering.sweeps.words import chooses, is_model, shape_of

# Measured beside what they predict by `python -m benchmarks memory`, in docs/explanation/scale.md.

# Bytes of a worker's process that has loaded dask and compiles the kernels, and holds no data.
PROCESS = 500 * 2**20

# Bytes of the process that starts the workers of a job: 60 MiB measured.
NANNY = 65 * 2**20

# Copies of the features: as received, as read, centred, and along principal components.
COPIES = 4

# Bytes of an annotation that is drawn, and counted in tables of pairs.
DRAWN = 200

# Bytes of an annotation that is asked for, with all answers before.
ASKED = 600

# Tables with a number for each sample and cluster, such as squared distances and shares.
TABLES = 9

# Matrices of a cluster that a search has beside those of its population: inverses, sums, candidates.
MATRICES = 6


def worker_bytes(sweep: Sweep, plan: DatasetPlan) -> int:
    """Predict the most memory, in bytes, that a worker takes for a cell of a data set.

    Processes that run methods beside the worker are included. In each case of the benchmark the prediction
    was above the measured memory, and at most 2.6 times as much.
    """
    n, d, k = plan.n_samples, plan.n_features, plan.n_clusters
    of_answers = (ASKED if plan.asking_designs else DRAWN) * max(plan.m, default=0) + 12 * plan.n_annotations
    models = [model for model in (*plan.models, *plan.baselines) if is_model(model)]
    of_models = [_of_model(plan, model, search) for model in models for search in sweep.spec.search]
    # a method gets the features in a process of its own, and copies them as often
    calls = processes_kept(sweep.methods) * (PROCESS_BYTES + COPIES * 8 * n * d) if plan.methods else 0
    return PROCESS + COPIES * 8 * n * d + TABLES * 8 * n * k + of_answers + max(of_models, default=0) + calls


def _of_model(plan: DatasetPlan, model: str, search: Search) -> int:
    """Return the bytes of the partitions and parameters that a search of a model holds at once."""
    shapes = CANDIDATES if chooses(model) else (shape_of(model),)
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
    where = f"{profile.where} {key}" if profile is not None and has_file else "memory of this machine"
    for plan in sweep.inputs.plans:
        need = worker_bytes(sweep, plan)
        if need > limit:
            share = f"{format_bytes(limit)} for each of {plural(count, 'worker')}"
            yield (
                f"{where}: {share}, and data set {plan.name!r} may need up to {format_bytes(need)}; "
                f"if workers run out of memory, {_remedy(options, need, limit * count)}"
            )


def _remedy(options: object, need: int, whole: int) -> str:
    """Return the change by which a worker gets the memory that it may need."""
    if isinstance(options, JobQueue):
        memory = format_bytes(NANNY + options.cores * need)
        return f"set memory of a job to {memory} in cluster.yaml, or fewer cores"
    if isinstance(options, Local) and options.memory_limit is not None:
        return f"set memory_limit to {format_bytes(need)} in cluster.yaml, or leave it out"
    if whole // need:
        return f"take --workers {whole // need}, or set workers in cluster.yaml"
    return "take a machine with more memory, fewer rows, or principal components of the features"
