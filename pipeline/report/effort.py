"""What results took, and what they came from: restarts, time, cells that failed, and what ran on what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.common import SAME_OPTIMUM, cells_left_out, plural
from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import Table, Value, number, spread, words
from pipeline.report.figures import Drawn
from pipeline.report.look import GREY, INK, MOST_DATASETS, mark, short
from pipeline.scoring import tables
from pipeline.scoring.scores import LABELS
from storage.cube.manifest import FORMAT_VERSION, Manifest
from storage.cube.schema import NO_SOLUTION, STATUS_WORDS
from sweeps.plan import AskedPath
from sweeps.words import asks

PANEL = (2.75, 1.9)
# Points of a line that have a marker, or words beneath the pointer.
MOST_TIPS = 12
GAPS = "Share of restarts whose objective is no further from the best of its cell."
CHANCES = (
    "Probability that so many restarts hold the best that all of a cell's restarts found, over cells"
    " and over all orders of the restarts."
)
HIT = (
    f"A hit is a restart whose objective is within {SAME_OPTIMUM:g} nats of the best of its cell. The"
    " best known may not be the best there is: where a cell's best was found once only, more restarts"
    " may find a better one, or another search: method and generations in the sweep file."
)
RULE = (
    "Cells were ended by a rule when their optima repeated, so those with few restarts are the easy"
    " ones, and what was not found there cannot count."
)
RESTARTS = (
    ("data set", "dataset", ""),
    ("model", "model", ""),
    ("cells", "cells", ",.0f"),
    ("restarts of a cell", "restarts", ".1f"),
    ("hit rate, %", lambda row: 100 * row.hit_rate, ".1f"),
    ("found once, %", lambda row: 100 * row.once, ".1f"),
    ("enough for 95 %", "for_95", ",.0f"),
    ("enough for 99 %", "for_99", ",.0f"),
    ("unseen, %", lambda row: 100 * row.unseen, ".2f"),
)
ENOUGH = (
    "Enough are as many restarts as hold the best of their cell with that probability. Where a rule ended"
    " the restarts, the last column is their mean estimate of the chance of an optimum not seen before."
)

# Inches of one box.
BOX_HEIGHT = 0.24
TIMES = (
    ("data set", "dataset", ""),
    ("model", "model", ""),
    ("cells", "n", ",.0f"),
    ("mean, CPU s", "cpu_seconds", ".3g"),
    ("mean, s", "seconds", ".3g"),
    ("quickest tenth, s", "seconds_10", ".3g"),
    ("median, s", "seconds_50", ".3g"),
    ("slowest tenth, s", "seconds_90", ".3g"),
    ("a restart, ms", lambda row: 1000 * row.restart_seconds, ",.3g"),
    ("all, core-hours", "cpu_hours", ".4f"),
)
TIMED = "Of cells that are done, all restarts of a cell together. times.csv holds these numbers in full."
BOXES = "Time in kernels: boxes are quartiles, whiskers the slowest and the quickest tenth."

# Rows of the tables of failures, which keeps the page small (cells.csv has all of them), and of runs.
MOST_FAILURES, MOST_RUNS = 200, 50


def restart_figures(content: Content) -> Iterator[Drawn]:
    """Gaps to the best of a cell, and chances of finding it."""
    names = {name: plan.baselines for name, plan in content.manifest.plans.items()}
    gaps = tables.gap_table(tables.tree_of(content.tree, content.chosen), names)
    yield "gaps", draw_gaps(gaps), GAPS
    yield "restarts", draw_chances(content.cells), CHANCES


def restart_words(content: Content) -> Iterator[str]:
    """What a hit is, and what the numbers do not say."""
    found = tables.restart_table(content.cells)
    if found.empty:
        yield "No cell is done."
        return
    yield HIT
    if found["restarts"].max() <= 1:
        yield "These cells ran one restart each, which says nothing of how many are needed."
    if found["unseen"].notna().any():
        yield RULE


def restart_tables(content: Content) -> Iterator[Table]:
    """Hit rates; none where nothing is done."""
    found = tables.restart_table(content.cells)
    if len(found):
        yield elements.table("Restarts", found, RESTARTS, note=ENOUGH)


def draw_gaps(gaps: pd.DataFrame) -> Figure | None:
    """Draw the share of restarts by their gap to the best of the cell, a panel per data set.

    Parameters
    ----------
    gaps : pandas.DataFrame
        From `pipeline.scoring.tables.gap_table`.

    Returns
    -------
    Figure or None
        None if nothing is done.
    """

    def line(axes: Axes, rows: pd.DataFrame, model: str) -> None:
        how = mark(model)
        gap, share = rows["gap"].to_numpy(dtype=float), rows["share"].to_numpy(dtype=float)
        (drawn,) = axes.plot(gap, share, color=how.color, linestyle=how.line, label=model)
        drawn.set(linewidth=1.6, drawstyle="steps-post")
        axes.set_xscale("log")
        shown = spread(range(len(gap)), MOST_TIPS)
        tips = [f"{model}: {share[at]:.0%} of restarts within {gap[at]:.2g} nats" for at in shown]
        look.hover_unseen(axes, gap[shown], share[shown], tips)
        axes.set_xticks([SAME_OPTIMUM, 1e-3, 1, 1e3], ["same", "0.001", "1", "1000"])
        axes.minorticks_off()

    # a method without an objective has no gaps, and none of its restarts is far from the best
    known = gaps.groupby(["dataset", "model"])["share"].transform("max") > 0
    return _by_dataset(gaps[known], line, "gap to the best of the cell (nats)", "restarts (share)")


def draw_chances(cells: pd.DataFrame) -> Figure | None:
    """Draw the probability that so many restarts hold the best known, a panel per data set.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    Figure or None
        None if no cell is done.
    """

    def line(axes: Axes, rows: pd.DataFrame, model: str) -> None:
        how = mark(model)
        counts = (rows[name].to_numpy(dtype=np.int64) for name in ("restarts_done", "hits"))
        chance = tables.chance_of_best(*counts)
        restarts = np.arange(1, len(chance) + 1)
        (drawn,) = axes.plot(restarts, chance, color=how.color, linestyle=how.line, label=model)
        drawn.set(**how.markers, linewidth=1.6, markersize=4 if len(chance) <= MOST_TIPS else 0)
        shown = spread(range(len(chance)), MOST_TIPS)
        tips = [f"{model}, {plural(restarts[at], 'restart')}: {chance[at]:.3f}" for at in shown]
        if len(shown) == len(chance):
            look.hover(drawn, tips)
        else:
            look.hover_unseen(axes, restarts[shown], chance[shown], tips)
        axes.axhline(0.95, color=GREY, linewidth=0.8, linestyle="-.", label="0.95")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))

    up = "cells with the best (share)"
    return _by_dataset(tables.cells_with_hits(cells), line, "restarts (number)", up)


def _by_dataset(
    rows: pd.DataFrame, line: Callable[[Axes, pd.DataFrame, str], None], across: str, up: str
) -> Figure | None:
    """A panel for each data set, and for each shape where there are many, with a line for each model."""
    if rows.empty:
        return None
    groups = elements.shape_groups(rows["model"].unique())
    names = spread(list(rows["dataset"].unique()), MOST_DATASETS)

    def panel(axes: Axes, item: tuple[str, str]) -> None:
        there = rows[(rows["dataset"] == item[0]) & rows["model"].isin(groups[item[1]])]
        for model, runs in there.groupby("model", sort=True):
            line(axes, runs, str(model))
        axes.set_xlabel(across)
        axes.set_ylim(-0.03, 1.05)
        axes.grid()
        axes.tick_params(labelbottom=True)

    shown = [(short(*item), item) for item in product(names, groups)]
    return figures.wrapped(shown, panel, PANEL, up, share="all")


def time_figures(content: Content) -> Iterator[Drawn]:
    """Boxes of the time of a cell."""
    yield "seconds", draw_times(content.timed_cells), BOXES


def time_words(content: Content) -> Iterator[str]:
    """Core-hours of everything that was computed."""
    hours = [tables.time_table(cells) for cells in (content.timed_cells, content.all_cells)]
    said = [
        f"{table['cpu_hours'].sum():,.3f} core-hours in kernels, for {plural(int(table['n'].sum()), 'cell')}."
        for table in hours
        if len(table)
    ]
    yield said[0] if len(hours[0]) else "No cell is done."
    if len(hours[0]) and tables.SEARCH in content.chosen:
        yield f"All searches together: {said[1]}"


def time_tables(content: Content) -> Iterator[Table]:
    """Time of a cell, by data set and model."""
    found = tables.time_table(content.timed_cells)
    if len(found):
        yield elements.table("Time of a cell", found, TIMES, note=TIMED)


def draw_times(cells: pd.DataFrame) -> Figure | None:
    """Draw seconds per cell: a box per data set and model, from quickest to slowest tenth by whiskers.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    Figure or None
        None if no time is known.
    """
    rows = cells[cells["seconds"] > 0]
    if rows.empty:
        return None
    names = spread(list(rows["dataset"].unique()), MOST_DATASETS)
    groups = rows[rows["dataset"].isin(names)].groupby(["dataset", "model"], sort=False)["seconds"]
    seconds = {(str(dataset), str(model)): group.to_numpy() for (dataset, model), group in groups}
    figure = Figure(figsize=(8.2, BOX_HEIGHT * len(seconds) + 1.0), layout="constrained")
    axes = figure.subplots()
    drawn = axes.boxplot(
        list(seconds.values()),
        orientation="horizontal",
        whis=(10, 90),
        showfliers=False,
        patch_artist=True,
        widths=0.62,
    )
    for (_, model), box, median in zip(seconds, drawn["boxes"], drawn["medians"], strict=True):
        box.set(facecolor=mark(model).color, edgecolor=INK, alpha=0.75, linewidth=0.8)
        median.set(color=INK, linewidth=1.6)
    labels = [f"{short(name)}, {model}" for name, model in seconds]
    axes.set_yticks(np.arange(1, len(seconds) + 1), labels)
    axes.invert_yaxis()
    figures.log_axis(axes, (1, 2, 5))
    axes.set_xlabel(LABELS["seconds"].axis + " of a cell, all restarts")
    axes.grid(axis="x", color=look.RULE)
    return figure


def failed_cells(content: Content) -> pd.DataFrame:
    """Rows of cells that failed."""
    return content.all_cells[content.all_cells["status"] == "failed"]


def failure_words(content: Content) -> Iterator[str]:
    """How many failed."""
    yield f"{plural(len(failed_cells(content)), 'cell')} failed."


def failure_tables(content: Content) -> Iterator[Table]:
    """Cells that failed with their last record."""
    failed = failed_cells(content)
    last = {record.cell: record for record in content.failures}
    rows = []
    for _, row in failed.head(MOST_FAILURES).iterrows():
        cell = tables.row_cell(row)
        record = last.get(str(cell)) or (last.get(str(AskedPath.of(cell))) if asks(cell.design) else None)
        known = (record.cause, record.node, record.at) if record else ("no record beside the cube", "", "")
        rows.append(tuple(words(text) for text in (str(cell), *known)))
    beyond = len(failed) - len(rows)
    note = f"{beyond:,} more {_are(beyond)} in cells.csv." if beyond else ""
    yield Table("Failed cells", ("cell", "cause", "node", "when"), tuple(rows), note=note)


def state(content: Content) -> list[str]:
    """How much of the sweep there is, and what is missing, in sentences."""
    manifest, cells = content.manifest, content.all_cells
    counts = cells["status"].value_counts()
    done, failed, without = (
        int(counts.get(word, 0)) for word in ("done", "failed", STATUS_WORDS[NO_SOLUTION])
    )
    left = len(cells) - done - failed - without
    total = plural(len(cells) + cells_left_out(manifest.spec, manifest.skipped), "cell")
    text = [f"{done:,} of {total} {_are(done)} done, {failed:,} failed, {left:,} {_are(left)} left."]
    if without:
        text.append(f"{plural(without, 'cell')} {'has' if without == 1 else 'have'} no solution.")
    if content.holder is not None:
        text.append(f"This sweep is running: {content.holder}.")
    if left:
        text.append("It is not complete: every number below is over the cells that are done.")
    elif failed:
        text.append("Every number below is over the cells that are done.")
    if (gone := without_data(manifest)) is not None:
        text.append(f"{gone}.")
    return text


def without_data(manifest: Manifest) -> str | None:
    """Data sets that were not available to the last run, and what that leaves out; None where all were."""
    names = list(manifest.skipped)
    if not names:
        return None
    cells = plural(cells_left_out(manifest.spec, names), "cell")
    return f"Not at hand: {', '.join(names)}; {cells} of the sweep left out (sweep datasets list says why)"


def of_one(manifest: Manifest, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """That tables and figures are of one design and of one search, and of which, where there are several."""
    designs, searches = manifest.spec.grid.design, manifest.spec.search_names
    lines = []
    if len(designs) > 1 and tables.DESIGN in chosen:
        rest = f"What follows is of {chosen[tables.DESIGN]}, but for designs and times."
        lines.append(f"Pairs were chosen in several ways: {_listed(designs)}. {rest}")
    if tables.SEARCH in chosen:
        rest = f"What follows is of {chosen[tables.SEARCH]}, but for searches."
        lines.append(f"Solutions were searched for in several ways: {_listed(searches)}. {rest}")
    return tuple(lines)


def scaling(manifest: Manifest) -> str:
    """How the features were scaled."""
    scales = {entry.name: entry.scale for entry in manifest.spec.grid.datasets}
    if len(set(scales.values())) == 1:
        return str(next(iter(scales.values())))
    return ", ".join(f"{name} {scale}" for name, scale in scales.items())


def head_tables(content: Content) -> Iterator[Table]:
    """What ran, on what, and when."""
    manifest = content.manifest
    rows = tuple((words(key), words(value)) for key, value in _facts(manifest).items())
    yield Table("Sweep", ("what", "value"), rows)
    yield _datasets(manifest, content.all_cells)
    if manifest.runs:
        runs = tuple(
            (number(at), *map(words, (run.started, run.host, run.python, run.fingerprint.get("cpu", "?"))))
            for at, run in enumerate(manifest.runs, start=1)
        )
        beyond = len(runs) - MOST_RUNS
        note = f"{plural(beyond, 'earlier run')} {_are(beyond)} left out." if beyond > 0 else ""
        yield Table("Runs", ("run", "started", "host", "python", "processor"), runs[-MOST_RUNS:], note=note)


def _facts(manifest: Manifest) -> dict[str, object]:
    spec, grid = manifest.spec, manifest.spec.grid
    facts: dict[str, object] = {
        "sweep": spec.name,
        "cube": manifest.path,
        "format version": FORMAT_VERSION,
        "seed": spec.seed,
        "features scaled": scaling(manifest),
        "accuracies p": _listed(grid.p),
        "annotations m": _listed(count.text for count in grid.m),
        "designs": _listed(grid.design),
        "replicates": grid.replicates,
        "models": _listed(grid.models),
        "restarts of a cell": grid.restarts,
        **{f"search {each.name}" if each.name else "search": _pairs(each.named()) for each in spec.search},
    }
    if spec.stop is not None:
        facts["stop"] = _pairs(dict(spec.stop))
    if manifest.runs:
        last = manifest.runs[-1]
        versions = {**last.fingerprint, **last.versions}
        versions.pop("cpu", None)
        facts["versions of the last run"] = _pairs(versions)
        facts["processor"] = last.fingerprint.get("cpu", "unknown")
        facts["commit"] = last.commit or "unknown"
    return facts


def _datasets(manifest: Manifest, cells: pd.DataFrame) -> Table:
    counts = cells.groupby(["dataset", "status"]).size()
    hours = cells.groupby("dataset")["cpu_seconds"].sum() / 3600
    rows = tuple(
        (
            words(name),
            *(number(size) for size in (plan.n_samples, plan.n_features, plan.n_clusters, plan.mixtures)),
            words(plan.scale),
            *(number(float(counts.get((name, word), 0))) for word in ("done", "failed", "pending")),
            number(float(hours.get(name, 0.0)), ".3f"),
            Value(f"{plan.source}, {plan.checksum[:12]}", plan.source),
        )
        for name, plan in manifest.plans.items()
    )
    head = ("data set", "N", "D", "K", "mixtures", "scaled", "done", "failed", "left", "core-hours", "source")
    note = (
        "Core-hours are CPU time in kernels of the cells that are done. "
        "Sources end with the start of a checksum."
    )
    if any(plan.n_annotations for plan in manifest.plans.values()):
        note += " Where annotations are those of a file, p is what the models were told."
    return Table("Data sets", head, rows, note=note)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values) or "none"


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())
