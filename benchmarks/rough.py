"""How far `sweep plan` guesses off without a pilot: CPU time of restarts, guessed and measured.

Real data sets that do not come with scikit-learn are looked for below ../shared/data/raw beside it.
"""

import tempfile
from pathlib import Path

from checkout import SHARED
from tables import Table

from sweep_clustering.kernels.search.genetic import warm_up
from sweep_clustering.pipeline.run.request import prepare
from sweep_clustering.pipeline.submit.overview import rough_seconds
from sweep_clustering.pipeline.work.records import Science, Solved, Span, Task
from sweep_clustering.pipeline.work.tasks import run_task
from sweep_clustering.pipeline.work.timing import pilot_cells

TABLE = Table("rough", ("data", "N", "D", "K", "published, ms", "guessed", "strong, ms", "guessed"))
TABLES = (TABLE,)

SETS = (
    *("diabetes", "iris", "wine", "thyroid"),
    *("vertebral", "ecoli", "breast-cancer", "pendigits-389"),
    *("wdbc", "digits-389"),
)
MIXTURES = (
    *((200, 16, 8), (1000, 16, 8), (4883, 10, 3)),
    *((2000, 16, 2), (2000, 16, 8), (1000, 16, 16)),
    *((1000, 2, 8), (1000, 64, 8)),
)
"""N, D and K: around those of the benchmark `growth`."""

METHODS = ("published", "strong")
MODELS = ("unsupervised", "likelihood", "posterior", "conditional-full")
RESTARTS = 1
SWEEP = """
name = "rough"
seed = 1

[grid]
datasets = [{datasets}]
p = [0.9]
m = ["0.5N", "2N"]
replicates = 1
models = [{models}]
restarts = 1

[search]
method = "{method}"

[data]
scale = "standard"
"""


def measure() -> dict[str, str]:
    """The table: means over the corners of the grid and over models."""
    warm_up()
    found: dict[str, list[object]] = {}
    mixtures = [
        f'{{ name = "mixture-{n}-{d}-{k}", mixture = {{ n_clusters = [{k}], count = 1, '
        f"n_samples = {n}, n_features = {d} }} }}"
        for n, d, k in MIXTURES
    ]
    for method in METHODS:
        names, models = ([f'"{name}"' for name in each] for each in (SETS, MODELS))
        datasets = ", ".join([*names, *mixtures])
        text = SWEEP.format(datasets=datasets, models=", ".join(models), method=method)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rough.toml"
            path.write_text(text)
            prepared = prepare(path, results=Path(folder), data_dir=SHARED / "data" / "raw")
        for plan in prepared.inputs.plans:
            science = Science(1, prepared.spec.search, plan.n_clusters)
            work = [Span(cell, 0, RESTARTS) for cell in pilot_cells(plan)]
            results = run_task(Task(science, plan.name, tuple(work), 0.0), prepared.inputs.sources[plan.name])
            measured = sum(each.cpu_seconds for each in results if isinstance(each, Solved))
            guessed = sum(rough_seconds(prepared.spec.search[0], plan, each) for each in work)
            each = 1000 / (RESTARTS * len(work))
            row = found.setdefault(plan.name, [plan.name, plan.n_samples, plan.n_features, plan.n_clusters])
            row += [f"{measured * each:.1f}", f"{guessed * each:.1f} (× {guessed / measured:.2f})"]
    return {TABLE.name: TABLE.markdown(found.values())}
