"""Who wins on the clustering suite: `python -m benchmarks contest CUBE --published FILE [--write]`, a minute.

CUBE is the finished cube of sweeps/suite.toml, which takes hours. FILE is published.csv of the suite. The
benchmark writes the tables of the pages side-by-side and contest, the first result in the README, ranks.png,
and the raw scores, as `sweep export --format raw` has them, to docs/side-by-side/scores.csv. If these scores
are given in place of CUBE, it draws ranks.png alone again.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import click
import matplotlib.pyplot as plt
import pandas as pd
import xarray as xr
from checkout import ROOT
from matplotlib.figure import Figure
from tables import Sentence, Table, show

from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.report.figures import house_style
from sweep_clustering.pipeline.report.scores import read_published
from sweep_clustering.pipeline.scoring.ranking import (
    RANKED,
    Ranking,
    facts,
    rank,
    rank_published,
    ranks_by_kind,
)
from sweep_clustering.pipeline.scoring.raw import raw_text, scored_cells
from sweep_clustering.pipeline.scoring.tables import cell_table, time_table, written_counts
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest

RANKS = Table(
    "contest/ranks",
    ("", "mean rank, ARI", "ARI", "mean rank, NMI", "NMI", "won, tied, lost", "solved", "CPU s a cell"),
)
PUBLISHED = Table("contest/published", ("", "mean rank, ARI", "ARI", "won, tied, lost", "best on"))
# Models whose ranks are shown for each kind of data.
LINES = ("conditional-any", "conditional-auto", "posterior", "genie", "spectral-links", "pckmeans", "k-means")
KINDS = Table("contest/kinds", ("mean ARI on", "sets", *LINES))
FIRST = Sentence(
    "contest/first",
    "On {} data sets of the clustering suite there were half an answer or one answer for each row, and 80,"
    " 90 or 100 % of the answers were right. The mean adjusted Rand index is {} without options, {} by Genie,"
    " which sees no answers, {} by spectral clustering with links, and {} by k-means.",
)
AGAINST = Sentence(
    "contest/against",
    "`conditional-any` takes {} times the CPU of spectral clustering with links. Genie has {} on *spiral*,"
    " where it has {}. On the sets of UCI, which are measured and not drawn, its mean is only {}.",
)
BEHIND = Table("contest/behind", ("set", "ARI of `conditional-any`", "best line", "its ARI"))
COST = Sentence(
    "contest/cost",
    "`conditional-any` takes {} times the CPU of spectral clustering with links in a cell, and {} times that"
    " of Genie."
    " On the tables of UCI, which are measured and not drawn, its mean ARI is {}; on all sets it is {}."
    " *Yeast* stays at {} and *glass* at {}.",
)
TABLES = (RANKS, PUBLISHED, KINDS, FIRST, AGAINST, BEHIND, COST)
# Least lead in ARI of a line that is named because it is ahead of the default on a data set.
LEAST_LEAD = 0.05
# Models of the first sentence.
QUOTED = ("conditional-any", "genie", "spectral-links", "k-means")
DOCS = ROOT / "docs"


def duels(line: pd.Series) -> str:
    """Return the numbers of duels that are won, tied and lost."""
    return f"{line['wins']:.0f}, {line['ties']:.0f}, {line['losses']:.0f}"


def rows(ari: Ranking, nmi: Ranking, seconds: dict[str, float]) -> Iterable[tuple[str, ...]]:
    """Yield a line for each model or method, best mean rank by ARI first."""
    nmi_table = nmi.table().set_index("model")
    for model, line in ari.table().set_index("model").iterrows():
        ranks = [(scores["mean_rank"], scores["mean"]) for scores in (line, nmi_table.loc[model])]
        texts = [text for mean_rank, mean in ranks for text in (f"{mean_rank:.1f}", f"{mean:.3f}")]
        solved = f"{line['done'] / (line['done'] + line['no_solution']):.0%}"
        yield str(model), *texts, duels(line), solved, f"{seconds[str(model)]:.2f}"


def behind(means: pd.DataFrame) -> Iterable[tuple[str, ...]]:
    """Yield the data sets on which another line is clearly ahead of `conditional-any`, largest lead first."""
    default, rivals = means["conditional-any"], means.drop(columns="conditional-any")
    leads = (rivals.max(axis=1) - default).sort_values(ascending=False)
    for dataset in leads[leads > LEAST_LEAD].index:
        best = rivals.loc[dataset].idxmax()
        yield (
            f"*{dataset.removeprefix('suite/')}*",
            f"{default[dataset]:.3f}",
            best,
            f"{rivals.loc[dataset, best]:.3f}",
        )


def tables(tree: xr.DataTree, manifest: Manifest, published: Path) -> tuple[dict[str, str], Ranking]:
    """Return the blocks of the documents, and the ranking of models among published labels."""
    plans = manifest.plans
    cells = cell_table(tree, plans)
    if n_open := int((~cells["status"].isin(["done", "no solution"])).sum()):
        raise click.ClickException(f"found {n_open:,} cells that are not done, expected a finished cube")
    nmi, ari = (rank(cells, score) for score in RANKED)
    ranking = rank_published(cells, read_published(published)).ranking
    seconds = time_table(cells).groupby("model")["cpu_seconds"].mean().to_dict()
    kinds = ranks_by_kind(ari, facts(plans, tree), written_counts(plans, manifest.spec.grid.m))
    parts = ["what", "kind", "n_datasets"]
    by_kind = kinds[kinds["model"].isin(LINES)].pivot_table("mean", parts, "model", sort=False)
    means = ari.means.mean()
    quotes = len(ari.datasets), *(f"{means[model]:.3f}" for model in QUOTED)
    any_seconds, link_seconds = seconds["conditional-any"], seconds["spectral-links"]
    uci_mean = ari.means["conditional-any"].filter(like="/uci/").mean()
    spiral = ari.means.loc["suite/sipu/spiral"]
    comparison = (
        f"{any_seconds / link_seconds:.0f}",
        *(f"{spiral[model]:.3f}" for model in ("genie", "conditional-any")),
    )
    texts = {
        RANKS.name: RANKS.markdown(rows(ari, nmi, seconds)),
        PUBLISHED.name: PUBLISHED.markdown(
            (line["model"], f"{line['mean_rank']:.1f}", f"{line['mean']:.3f}", duels(line), line["best"])
            for _, line in ranking.table().iterrows()
        ),
        KINDS.name: KINDS.markdown(
            (kind, n_sets, *(f"{line[model]:.3f}" for model in LINES))
            for (_, kind, n_sets), line in by_kind.iterrows()
        ),
        FIRST.name: FIRST.form.format(*quotes),
        BEHIND.name: BEHIND.markdown(behind(ari.means)),
        COST.name: COST.form.format(
            comparison[0],
            f"{any_seconds / seconds['genie']:.0f}",
            f"{uci_mean:.3f}",
            quotes[1],
            *(f"{ari.means.loc[f'suite/uci/{name}', 'conditional-any']:.2f}" for name in ("yeast", "glass")),
        ),
        AGAINST.name: AGAINST.form.format(*comparison, f"{uci_mean:.3f}"),
    }
    return texts, ranking


BEST = 12  # lines of the picture
WIDTH = 6.4  # inches
HEIGHT = 3.7  # inches
PIXELS = 200  # for an inch, so that the picture has 1,280, and is shown at 640
# Models and methods that see no answers have an open marker.
BLIND = re.compile(r"unsupervised|genie|spectral$|gaussian-mixture|k-means|.*\*$")


def draw_best(ranking: Ranking) -> Figure:
    """Draw the mean ranks of the best lines. Bars join lines whose ranks the data do not separate."""
    models, ranks = ranking.models[:BEST], ranking.ranks.mean()
    figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
    last = float(ranks[models[-1]])
    for place, model in enumerate(models):
        color = looks.GREY if BLIND.match(model) else looks.BLUE
        axes.plot([1, ranks[model]], [place, place], color=looks.RULE, linewidth=1, zorder=1)
        face = "white" if BLIND.match(model) else color
        axes.plot(ranks[model], place, "o", color=color, markerfacecolor=face, markersize=8)
        axes.annotate(
            f"{ranks[model]:.1f}", (ranks[model], place), (9, 0), textcoords="offset points", va="center"
        )
    for level, (first, end) in enumerate(ranking.groups):
        if first < min(end, BEST - 1):
            x = last + 1.5 + 0.35 * level
            axes.plot([x, x], [first - 0.2, min(end, BEST - 1) + 0.2], color=looks.INK, linewidth=3)
    axes.set(ylim=(len(models) - 0.4, -0.6), yticks=range(len(models)), yticklabels=models)
    axes.set_xlim(1, last + 1.8 + 0.35 * len(ranking.groups))
    axes.set_xlabel(f"mean rank of {len(ranking.models)} on {len(ranking.datasets)} data sets (1 is best)")
    axes.tick_params(axis="y", length=0)
    axes.spines[["left", "right", "top"]].set_visible(False)
    return figure


def save_picture(ranking: Ranking) -> None:
    """Draw and save ranks.png."""
    with house_style(), plt.rc_context({"font.size": 11, "axes.labelsize": 10, "ytick.labelsize": 11}):
        figure = draw_best(ranking)
        figure.savefig(DOCS / "pictures" / "ranks.png", dpi=PIXELS)
        plt.close(figure)


@click.command(help=__doc__)
@click.argument("cube", type=click.Path(path_type=Path, exists=True))
@click.option("--published", required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--write", is_flag=True, help="Put the tables, the picture and the scores into the documents.")
@click.option("--commit", default="", help="Commit that computed CUBE, for the log.  [default: this]")
def main(cube: Path, published: Path, write: bool, commit: str) -> None:
    """See above."""
    if cube.suffix == ".csv":
        save_picture(rank_published(pd.read_csv(cube, comment="#"), read_published(published)).ranking)
        return
    tree, manifest = open_cube(cube), read_manifest(cube)
    texts, ranking = tables(tree, manifest, published)
    show(texts, write=write, commit=commit)
    if not write:
        return
    raw = raw_text(scored_cells(tree, manifest.plans, ()), manifest)
    (DOCS / "side-by-side").mkdir(exist_ok=True)
    (DOCS / "side-by-side" / "scores.csv").write_text(raw, encoding="utf-8")
    save_picture(ranking)
