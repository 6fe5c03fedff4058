"""How much memory a worker of a sweep takes, and whether it gets that much, before anything runs."""

from collections.abc import Iterator
from math import prod

from dask.utils import format_bytes

from sweep_clustering.pipeline.cluster.profiles import Address, Local, Profile
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.pipeline.methods.process import PROCESS_BYTES, processes_kept
from sweep_clustering.pipeline.run.request import Sweep
from sweep_clustering.sweeps.errors import Problem
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, DIMS
from sweep_clustering.sweeps.words import chooses, is_model, shape_of

# Measured beside what they predict by `python -m benchmarks memory`, in docs/explanation/scale.md.

# A worker's process that has loaded dask and the kernels and compiles them, and holds no data.
PROCESS = 500 * 2**20

# Process that starts the workers of a job: 60 MiB measured.
NANNY = 65 * 2**20

# Of the features: as received, as read, centred, and along principal components.
COPIES = 4

# Bytes of an annotation in a cell: drawn, and counted in tables of pairs; or asked, with all answers before.
DRAWN, ASKED = 200, 600

# Tables with a number for each sample and cluster, such as squared distances and shares.
TABLES = 9

# Matrices of the clusters that a search holds beside those of its population: inverses, sums, candidates.
MATRICES = 6


def worker_bytes(sweep: Sweep, plan: DatasetPlan) -> int:
    """Predict the most memory that a worker takes for a cell of a data set.

    It was above what was measured in each case of the benchmark, and at most 2.6 times as much.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    plan : DatasetPlan
        Of the data set.

    Returns
    -------
    int
        Bytes of the process, with the processes that run methods beside it.
    """
    n, d, k = plan.n_samples, plan.n_features, plan.n_clusters
    of_one = ASKED if plan.asked else DRAWN
    of_answers = of_one * max(plan.m, default=0) + 12 * plan.n_annotations
    models = [model for model in (*plan.models, *plan.baselines) if is_model(model)]
    of_models = [_of_model(plan, model, search) for model in models for search in sweep.spec.search]
    # a method gets the features in a process of its own, and copies them as often
    calls = processes_kept(sweep.methods) * (PROCESS_BYTES + COPIES * 8 * n * d) if plan.methods else 0
    return PROCESS + COPIES * 8 * n * d + TABLES * 8 * n * k + of_answers + max(of_models, default=0) + calls


def _of_model(plan: DatasetPlan, model: str, search: Search) -> int:
    """Partitions and parameters that a search of a model holds at once."""
    shapes = CANDIDATES if chooses(model) else (shape_of(model),)
    of_cluster = max(prod(plan.n_features for _ in DIMS.get(shape, ())) for shape in shapes)
    solution = 2 * plan.n_samples + 8 * plan.n_clusters * plan.n_features
    held = search.population + search.offspring + plan.restarts
    return held * solution + (MATRICES + plan.restarts) * 8 * plan.n_clusters * of_cluster


def memory_problems(sweep: Sweep, profile: Profile | None, workers: int | None) -> Iterator[Problem]:
    """Data sets whose cells do not fit into the memory that a worker gets.

    Of a scheduler that runs already nobody knows it before, and nothing is checked.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    profile : Profile or None
        Where it is computed; None for this process.
    workers : int or None
        Worker processes in place of those of the profile; not of a queue, whose jobs have as many as cores.
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
    known = profile is not None and profile.origin is not None
    where = f"{profile.where} {key}" if profile is not None and known else "memory of this machine"
    for plan in sweep.inputs.plans:
        need = worker_bytes(sweep, plan)
        if need <= limit:
            continue
        found = f"{format_bytes(limit)} for each of {plural(count, 'worker')}"
        expected = f"the {format_bytes(need)} that a worker takes for data set {plan.name!r}"
        yield Problem(where, found, expected, _remedy(options, need, limit * count))


def _remedy(options: object, need: int, whole: int) -> str:
    """What to change so that a worker gets what it needs."""
    if isinstance(options, JobQueue):
        each = format_bytes(NANNY + options.cores * need)
        return f"in cluster.yaml set memory of a job to {each}, or fewer cores"
    if isinstance(options, Local) and options.memory_limit is not None:
        return f"in cluster.yaml set memory_limit to {format_bytes(need)} or more, or leave it out"
    if whole // need:
        return f"--workers {whole // need} gives each enough, and so does workers in cluster.yaml"
    return "take a machine with more memory, fewer rows, or principal components of the features"
