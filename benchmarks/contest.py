"""Models and methods side by side: `python -m benchmarks contest`, a quarter of an hour.

Submits sweeps/methods.toml, with fewer replicates and restarts, in two worker processes; data are looked for
below ../shared/data/raw beside the checkout. Draws ranks.png of the documents.
"""

import tempfile
from pathlib import Path

from checkout import ROOT, SHARED
from processes.sweeping import run
from tables import Table

from pipeline.report.look import house_style
from pipeline.report.winners import draw_ranks
from pipeline.scoring.ranking import Ranking, rank
from pipeline.scoring.tables import cell_table, time_table
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest

REPLICATES, RESTARTS = 3, 5
SCORES = ("nmi", "adjusted_rand")
RANKS = Table(
    "contest/ranks",
    ("", "mean rank, NMI", "NMI", "mean rank, ARI", "ARI", "won, tied, lost", "solved", "CPU ms a cell"),
)
SETS = (
    *("diabetes", "iris", "wine", "thyroid"),
    *("vertebral", "ecoli", "breast-cancer", "pendigits-389"),
)
NMI = Table("contest/nmi", ("NMI", *SETS))
TABLES = (RANKS, NMI)


def submitted(folder: Path) -> Path:
    """Cube of the sweep."""
    text = (ROOT / "sweeps" / "methods.toml").read_text(encoding="utf-8")
    text = text.replace("replicates = 10", f"replicates = {REPLICATES}")
    text = text.replace("restarts = 10", f"restarts = {RESTARTS}").replace('"skip"', '"error"')
    spec = folder / "methods.toml"
    spec.write_text(text, encoding="utf-8")
    if code := run(spec, folder, workers=2, data_dir=SHARED / "data" / "raw"):
        raise RuntimeError(f"exit code {code}")
    return folder / "methods.zarr"


def rows(rankings: dict[str, Ranking], milliseconds: dict[str, float]) -> list[tuple[str, ...]]:
    """A line for each model or method, best mean rank first."""
    tables = {score: ranking.table().set_index("model") for score, ranking in rankings.items()}
    nmi, ari = (tables[score] for score in SCORES)
    found = []
    for model, line in nmi.iterrows():
        cells = line["done"] + line["no_solution"]
        found.append(
            (
                str(model),
                *(f"{each:.{digits}f}" for each, digits in ((line["mean_rank"], 1), (line["mean"], 3))),
                *(f"{ari.loc[model, key]:.{digits}f}" for key, digits in (("mean_rank", 1), ("mean", 3))),
                f"{line['wins']}, {line['ties']}, {line['losses']}",
                f"{line['done'] / cells:.0%}",
                f"{milliseconds[str(model)]:.0f}",
            )
        )
    return found


def measure() -> dict[str, str]:
    """Both tables, and the diagram."""
    with tempfile.TemporaryDirectory() as folder:
        cube = submitted(Path(folder))
        cells = cell_table(open_cube(cube), read_manifest(cube).plans)
    rankings = {score: rank(cells, score) for score in SCORES}
    times = time_table(cells)
    milliseconds = (1e3 * times.groupby("model")["cpu_seconds"].mean()).to_dict()
    with house_style():
        figure = draw_ranks(rankings["nmi"])
        assert figure is not None
        figure.savefig(ROOT / "docs" / "pictures" / "ranks.png", dpi=110)
    means = rankings["nmi"].means
    return {
        RANKS.name: RANKS.markdown(rows(rankings, milliseconds)),
        NMI.name: NMI.markdown(
            (model, *(f"{means.loc[name, model]:.3f}" for name in SETS)) for model in rankings["nmi"].models
        ),
    }
