"""What results took, and what they came from: restarts, time, cells that failed, and what ran on what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.common import SAME_OPTIMUM, cells_left_out, plural
from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import Column, Table, Value, are, number, spread, words
from pipeline.scoring import tables
from pipeline.scoring.scores import LABELS
from storage.cube.manifest import FORMAT_VERSION, Manifest
from storage.cube.schema import NO_SOLUTION, STATUS_WORDS
from sweeps.plan import AskedPath, DatasetPlan
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


def restart_figures(content: Content) -> Iterator[figures.Drawn]:
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
        how, (gap, share) = look.mark(model), rows[["gap", "share"]].to_numpy(dtype=float).T
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
    return _by_model(gaps[known], line, "gap to the best of the cell (nats)", "restarts (share)")


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
        how = look.mark(model)
        chance = tables.chance_of_best(*rows[["restarts_done", "hits"]].to_numpy(dtype=np.int64).T)
        restarts, shown = np.arange(1, len(chance) + 1), spread(range(len(chance)), MOST_TIPS)
        (drawn,) = axes.plot(restarts, chance, color=how.color, linestyle=how.line, label=model)
        drawn.set(**how.markers, linewidth=1.6, markersize=4 if len(shown) == len(chance) else 0)
        tips = [f"{model}, {plural(restarts[at], 'restart')}: {chance[at]:.3f}" for at in shown]
        if len(shown) == len(chance):
            look.hover(drawn, tips)
        else:
            look.hover_unseen(axes, restarts[shown], chance[shown], tips)
        axes.axhline(0.95, color=look.GREY, linewidth=0.8, linestyle="-.", label="0.95")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))

    return _by_model(tables.cells_with_hits(cells), line, "restarts (number)", "cells with the best (share)")


def _by_model(
    rows: pd.DataFrame, line: Callable[[Axes, pd.DataFrame, str], None], across: str, up: str
) -> Figure | None:
    """A panel for each data set, and for each shape where there are many, with a line for each model."""

    def panel(axes: Axes, there: pd.DataFrame) -> None:
        for model, runs in there.groupby("model", sort=True):
            line(axes, runs, str(model))
        axes.set_xlabel(across)
        axes.set_ylim(-0.03, 1.05)
        axes.grid()
        axes.tick_params(labelbottom=True)

    shown = [(look.short(*item), there) for item, there in elements.by_shape(rows, rows["dataset"]).items()]
    return figures.wrapped(shown, panel, PANEL, up, share="all")


def time_figures(content: Content) -> Iterator[figures.Drawn]:
    """Boxes of the time of a cell."""
    yield "seconds", draw_times(content.timed_cells), BOXES


def time_words(content: Content) -> Iterator[str]:
    """Core-hours of everything that was computed."""
    if tables.time_table(content.timed_cells).empty:
        yield "No cell is done."
        return
    yield _core_hours(content.timed_cells)
    if tables.SEARCH in content.chosen:
        yield f"All searches together: {_core_hours(content.all_cells)}"


def _core_hours(cells: pd.DataFrame) -> str:
    table = tables.time_table(cells)
    return f"{table['cpu_hours'].sum():,.3f} core-hours in kernels, for {plural(table['n'].sum(), 'cell')}."


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
    shown = rows[rows["dataset"].isin(spread(list(rows["dataset"].unique()), look.MOST_DATASETS))]
    names, seconds = zip(*shown.groupby(["dataset", "model"], sort=False)["seconds"], strict=True)
    figure = Figure(figsize=(8.2, BOX_HEIGHT * len(names) + 1.0), layout="constrained")
    axes = figure.subplots()
    looks: dict[str, Any] = {"showfliers": False, "patch_artist": True, "widths": 0.62}
    drawn = axes.boxplot(seconds, orientation="horizontal", whis=(10, 90), **looks)
    for (_, model), box, median in zip(names, drawn["boxes"], drawn["medians"], strict=True):
        box.set(facecolor=look.mark(model).color, edgecolor=look.INK, alpha=0.75, linewidth=0.8)
        median.set(color=look.INK, linewidth=1.6)
    axes.set_yticks(np.arange(1, len(names) + 1), [f"{look.short(name)}, {model}" for name, model in names])
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
    nothing = SimpleNamespace(cause="no record beside the cube", node="", at="")
    rows = []
    for _, row in failed.head(MOST_FAILURES).iterrows():
        cell = tables.row_cell(row)
        # the path of questions fails as a whole, with all cells on it
        names = [str(cell), *([str(AskedPath.of(cell))] if asks(cell.design) else [])]
        record = next((last[name] for name in names if name in last), nothing)
        rows.append(tuple(map(words, (cell, record.cause, record.node, record.at))))
    beyond = len(failed) - len(rows)
    note = f"{beyond:,} more {are(beyond)} in cells.csv." if beyond else ""
    yield Table("Failed cells", ("cell", "cause", "node", "when"), tuple(rows), note=note)


def state(content: Content) -> list[str]:
    """How much of the sweep there is, and what is missing, in sentences."""
    manifest, cells = content.manifest, content.all_cells
    words = ("done", "failed", STATUS_WORDS[NO_SOLUTION])
    done, failed, without = cells["status"].value_counts().reindex(words, fill_value=0)
    left = len(cells) - done - failed - without
    total = plural(len(cells) + cells_left_out(manifest.spec, manifest.skipped), "cell")
    text = [f"{done:,} of {total} {are(done)} done, {failed:,} failed, {left:,} {are(left)} left."]
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
    if not manifest.skipped:
        return None
    cells = plural(cells_left_out(manifest.spec, manifest.skipped), "cell")
    left_out = f"{cells} of the sweep left out (sweep datasets list says why)"
    return f"Not at hand: {', '.join(manifest.skipped)}; {left_out}"


def of_one(manifest: Manifest, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """That tables and figures are of one design and of one search, and of which, where there are several."""
    variants = (
        (tables.DESIGN, manifest.spec.grid.design, "Pairs were chosen", "designs and times"),
        (tables.SEARCH, manifest.spec.search_names, "Solutions were searched for", "searches"),
    )
    return tuple(
        f"{what} in several ways: {', '.join(names)}. What follows is of {chosen[key]}, but for {others}."
        for key, names, what, others in variants
        if len(names) > 1 and key in chosen
    )


def scaling(manifest: Manifest) -> str:
    """How the features were scaled."""
    scales = {entry.name: entry.scale for entry in manifest.spec.grid.datasets}
    alike = len(set(scales.values())) == 1
    return ", ".join(set(scales.values()) if alike else (f"{name} {scales[name]}" for name in scales))


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
        note = f"{plural(beyond, 'earlier run')} {are(beyond)} left out." if beyond > 0 else ""
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
        versions = {key: value for key, value in (last.fingerprint | last.versions).items() if key != "cpu"}
        facts["versions of the last run"] = _pairs(versions)
        facts["processor"] = last.fingerprint.get("cpu", "unknown")
        facts["commit"] = last.commit or "unknown"
    return facts


def _datasets(manifest: Manifest, cells: pd.DataFrame) -> Table:
    counts = cells.groupby(["dataset", "status"]).size()
    hours = cells.groupby("dataset")["cpu_seconds"].sum() / 3600

    def cells_that(status: str) -> Callable[[DatasetPlan], int]:
        return lambda plan: counts.get((plan.name, status), 0)

    columns: tuple[Column, ...] = (
        ("data set", "name", ""),
        ("N", "n_samples", ",.0f"),
        ("D", "n_features", ",.0f"),
        ("K", "n_clusters", ",.0f"),
        ("mixtures", "mixtures", ",.0f"),
        ("scaled", "scale", ""),
        *(
            (head, cells_that(head if head != "left" else "pending"), ",.0f")
            for head in ("done", "failed", "left")
        ),
        ("core-hours", lambda plan: hours.get(plan.name, 0.0), ".3f"),
        ("source", lambda plan: Value(f"{plan.source}, {plan.checksum[:12]}", plan.source), ""),
    )
    note = (
        "Core-hours are CPU time in kernels of the cells that are done. "
        "Sources end with the start of a checksum."
    )
    if any(plan.n_annotations for plan in manifest.plans.values()):
        note += " Where annotations are those of a file, p is what the models were told."
    return elements.table("Data sets", manifest.plans.values(), columns, note=note)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values)) or "none"


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())
