"""Many classes, with pairs as people choose them: `python -m benchmarks people CUBE [--write]`, some seconds.

CUBE is the finished cube of sweeps/people.toml. The benchmark writes the tables and the picture of the page
people. A line without annotations has the same score at every accuracy and for every way to choose pairs.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import pandas as pd
from checkout import ROOT
from matplotlib.figure import Figure
from tables import Sentence, Table, show

from sweep_clustering.pipeline.looks import mark
from sweep_clustering.pipeline.report.figures import house_style, legend, panels
from sweep_clustering.pipeline.scoring.tables import cell_table
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest

PICTURE = ROOT / "docs" / "pictures" / "people.png"
METHOD = "conditional-groups"
# A line wins if its ARI is ahead by more than this.
LOSS = 0.03
# Largest number of winners that a row names.
MOST_NAMED = 3
DESIGNS = ("uniform", "near", "crowd", "merges")
# Lines of the picture.
LINES = (METHOD, "conditional-any", "spectral-links", "genie", "average", "k-means")

LOSSES = Table("people/losses", ("data set", "pairs", METHOD, "ahead of it"))
MEANS = Table("people/means", ("", *DESIGNS, "mean", "p = .7", "p = .8", "p = .9", "CPU s a cell"))
SETS = Table("people/sets", ("data set", "N", "K", *DESIGNS, "without annotations"))
RUN = Sentence("people/run", "All {} cells together took {} minutes of a processor, without the questions.")
TABLES = (LOSSES, MEANS, SETS, RUN)


def scores(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the adjusted Rand index of each line on each data set, design and accuracy."""
    cells = cells.assign(ari=cells["adjusted_rand"].fillna(0.0))
    supervised = cells[cells["p"].notna()]
    keys = ["dataset", "design", "p"]
    plain = cells[cells["p"].isna()][["dataset", "model", "ari", "cpu_seconds"]]
    settings = supervised[keys].drop_duplicates()
    rows = [supervised[[*keys, "model", "ari", "cpu_seconds"]], settings.merge(plain, on="dataset")]
    return pd.concat(rows, ignore_index=True)


def losses(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """Yield a row for each data set and design on which another line is clearly ahead of ours."""
    for (name, design), rows in table.groupby(["dataset", "design"], sort=False):
        lines = rows.groupby("model")["ari"].mean().sort_values(ascending=False)
        ahead = lines[lines > lines[METHOD] + LOSS]
        if len(ahead):
            winners = ", ".join(f"{model} {value:.3f}" for model, value in ahead.head(MOST_NAMED).items())
            rest_text = f" and {len(ahead) - MOST_NAMED} more" if len(ahead) > MOST_NAMED else ""
            yield str(name), str(design), f"{lines[METHOD]:.3f}", winners + rest_text


def means(table: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """Yield a line for each model and method, the best mean first."""
    by_design = table.pivot_table("ari", "model", "design")[list(DESIGNS)]
    by_p = table.pivot_table("ari", "model", "p")
    seconds = table.groupby("model")["cpu_seconds"].mean()
    for model, mean in by_design.mean(axis=1).sort_values(ascending=False).items():
        values = [*by_design.loc[model], mean, *by_p.loc[model]]
        yield str(model), *(f"{value:.3f}" for value in values), f"{seconds[model]:.2f}"


def data_sets(table: pd.DataFrame, sizes: dict[str, tuple[int, int]]) -> Iterator[tuple[str, ...]]:
    """Yield our mean on each data set by design, and the best line without annotations."""
    for name, rows in table.groupby("dataset", sort=False):
        means = rows[rows["model"] == METHOD].pivot_table("ari", "dataset", "design").loc[name]
        spread = rows.groupby("model")["ari"].agg(["min", "max", "mean"])
        plain = spread[spread["min"] == spread["max"]]["mean"]
        best = f"{plain.max():.3f} ({plain.idxmax()})"
        n_samples, n_classes = sizes[str(name)]
        values = (f"{means[design]:.3f}" for design in DESIGNS)
        yield str(name), f"{n_samples:,}", str(n_classes), *values, best


def draw(table: pd.DataFrame) -> Figure:
    """Draw the score over the accuracy: a row for each data set, a column for each design."""
    names = list(table["dataset"].unique())
    figure, grid = panels(len(names), len(DESIGNS), (2.0, 1.7), "all")
    for name, row in zip(names, grid, strict=True):
        for design, axes in zip(DESIGNS, row, strict=True):
            part = table[(table["dataset"] == name) & (table["design"] == design)]
            for model in LINES:
                line = part[part["model"] == model].sort_values("p")
                look = mark(model)
                axes.plot(
                    line["p"], line["ari"], color=look.color, linestyle=look.line, **look.markers, label=model
                )
            axes.set(ylim=(-0.03, 1.03), xticks=[0.7, 0.8, 0.9])
            axes.grid()
            if name == names[0]:
                axes.set_title(design)
            if name == names[-1]:
                axes.set_xlabel("p")
        row[0].set_ylabel(f"{name}\nARI")
    legend(figure, [grid[0][0]])
    return figure


@click.command(help=__doc__)
@click.argument("cube", type=click.Path(path_type=Path, exists=True))
@click.option("--write", is_flag=True, help="Put the tables and the picture into the documents.")
def main(cube: Path, write: bool) -> None:
    """See above."""
    plans = read_manifest(cube).plans
    cells = cell_table(open_cube(cube), plans)
    if n_open := int((~cells["status"].isin(["done", "no solution"])).sum()):
        raise click.ClickException(f"found {n_open:,} cells that are not done, expected a finished cube")
    table, sizes = scores(cells), {name: (plan.n_samples, plan.n_clusters) for name, plan in plans.items()}
    texts = {
        LOSSES.name: LOSSES.markdown(losses(table)),
        MEANS.name: MEANS.markdown(means(table)),
        SETS.name: SETS.markdown(data_sets(table, sizes)),
        RUN.name: RUN.form.format(len(cells), f"{cells['cpu_seconds'].sum() / 60.0:.1f}"),
    }
    show(texts, write=write)
    if write:
        with house_style():
            draw(table).savefig(PICTURE, dpi=110)
