"""Measure the error of `sweep plan` without a pilot: CPU time of restarts, guessed and measured.

Real data sets that do not come with scikit-learn are read from ../shared/data/raw beside the checkout.
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
# N, D and K, around those of the benchmark `growth`.
MIXTURES = (
    *((200, 16, 8), (1000, 16, 8), (4883, 10, 3)),
    *((2000, 16, 2), (2000, 16, 8), (1000, 16, 16)),
    *((1000, 2, 8), (1000, 64, 8)),
)

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
    """Return the table of means over the corners of the grid and over models."""
    warm_up()
    rows: dict[str, list[object]] = {}
    mixtures = [
        f'{{ name = "mixture-{n}-{d}-{k}", mixture = {{ n_clusters = [{k}], count = 1, '
        f"n_samples = {n}, n_features = {d} }} }}"
        for n, d, k in MIXTURES
    ]
    for method in METHODS:
        names, models = ([f'"{word}"' for word in words] for words in (SETS, MODELS))
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
            cpu_seconds = sum(result.cpu_seconds for result in results if isinstance(result, Solved))
            rough = sum(rough_seconds(prepared.spec.search[0], plan, span) for span in work)
            per_restart = 1000 / (RESTARTS * len(work))
            row = rows.setdefault(plan.name, [plan.name, plan.n_samples, plan.n_features, plan.n_clusters])
            row += [
                f"{cpu_seconds * per_restart:.1f}",
                f"{rough * per_restart:.1f} (× {rough / cpu_seconds:.2f})",
            ]
    return {TABLE.name: TABLE.markdown(rows.values())}
