"""The cost of results and their origin: restarts, time, failures, versions and machines."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.common import SAME_OPTIMUM, cells_left_out, plural
from sweep_clustering.pipeline.report import elements, figures
from sweep_clustering.pipeline.report.elements import WORDS, Content, Part, Table, Value, are, number, words
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.storage.cube.manifest import Manifest
from sweep_clustering.storage.cube.schema import NO_SOLUTION, STATUS_WORDS
from sweep_clustering.storage.provenance import PROMISE
from sweep_clustering.sweeps.plan import AskedPath
from sweep_clustering.sweeps.words import CROWD, PREFIX, asks, is_model

# Width and height of a panel in inches.
PANEL = (2.3, 1.6)
# Points of a line that have a marker, or words beneath the pointer.
MOST_TIPS = 12
# Inches of a box.
BOX_HEIGHT = 0.24
# Letters that fit beside the boxes, and the inches that each further letter adds.
MOST_LETTERS = 28
LETTER = 0.085
# Look of the line at the probability that is enough.
NEARLY_ALL: dict[str, Any] = {"color": looks.GREY, "linewidth": 0.8, "linestyle": "-."}
# Rows of the table of failures, which keeps the page small. cells.csv has all of them.
MOST_FAILURES = 200


def restarts(content: Content) -> Iterator[Part]:
    """Yield what a hit is, hit rates, gaps to the best of a cell, and chances of finding it."""
    texts, table = WORDS["restarts"], tables.restart_table(content.cells)
    if table.empty:
        yield "No cell is done."
    else:
        yield texts["hit"].format(same=SAME_OPTIMUM)
        if table["restarts"].max() <= 1:
            yield texts["one"]
        if table["unseen"].notna().any():
            yield texts["rule"]
        enough = {name: [*map(_enough, table[name], table["most"])] for name in ("for_95", "for_99")}
        # a single restart always finds the best of its cell
        shares = 100 * table[["hit_rate", "once", "unseen"]].where(table["most"] > 1)
        yield elements.declared_table("restarts", table.assign(**shares, **enough))
    plans = content.manifest.plans
    names = {name: plans[name].baselines for name in elements.panel_datasets(plans)}
    gaps = tables.gap_table(content.tree, names, content.variants)
    yield "gaps", draw_gaps(gaps), texts["gaps"]
    yield "restarts", draw_chances(content.cells), texts["chances"]


def _enough(restarts: float, limit: int) -> Value:
    """Return an entry of a number of restarts, or that it is more than were run."""
    return Value(f"> {limit:,}", float(limit + 1)) if math.isinf(restarts) else number(restarts)


def draw_gaps(gaps: pd.DataFrame) -> Figure | None:
    """Draw the share of restarts in a `gap_table` by their gap to the best of the cell."""

    def finish(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_xticks([SAME_OPTIMUM, 1e-3, 1, 1e3], ["same", "0.001", "1", "1000"])
        axes.minorticks_off()

    # a method without an objective has no gaps, and none of its restarts is far from the best
    gaps = gaps[gaps.groupby(["dataset", "model"])["share"].transform("max") > 0]
    # each method has an objective in a unit of its own
    nats = "nats" if gaps["model"].map(is_model).all() else ""
    return _by_model(
        gaps,
        lambda rows: rows[["gap", "share"]].to_numpy(dtype=float).T,
        lambda gap, share: f": {share:.0%} of restarts within {gap:.2g} {nats}".rstrip(),
        finish,
        (f"gap to the best of the cell ({nats or 'objective'})", "restarts (share)"),
        has_steps=True,
    )


def draw_chances(cells: pd.DataFrame) -> Figure | None:
    """Draw the probability that so many restarts hold the best known optimum of a cell."""

    def chances(rows: pd.DataFrame) -> Any:
        chance = tables.chance_of_best(*rows[["restarts_done", "hits"]].to_numpy(dtype=np.int64).T)
        return np.stack([np.arange(1, len(chance) + 1), chance])

    def finish(axes: Axes) -> None:
        axes.axhline(0.95, **NEARLY_ALL)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))

    rows = tables.cells_with_hits(cells)
    n_restarts = rows.groupby(["dataset", "model"])["restarts_done"].transform("max")
    return _by_model(
        rows[n_restarts > 1],
        chances,
        lambda restarts, chance: f", {plural(int(restarts), 'restart')}: {chance:.3f}",
        finish,
        ("restarts (number)", "cells with the best (share)"),
        entries=[Line2D([], [], label="0.95", **NEARLY_ALL)],
    )


def _by_model(
    rows: pd.DataFrame,
    points: Callable[[pd.DataFrame], Any],
    tip: Callable[[float, float], str],
    finish: Callable[[Axes], None],
    labels: tuple[str, str],
    *,
    has_steps: bool = False,
    entries: Iterable[Line2D] = (),
) -> Figure | None:
    """Draw a panel for each data set with a line for each model.

    Points of short lines without steps have markers. Other lines have words at some places only.
    """

    def panel(axes: Axes, panel_rows: pd.DataFrame) -> None:
        for model, model_rows in panel_rows.groupby("model", sort=True):
            x, y = points(model_rows)
            look, places = looks.mark(str(model)), elements.subset(range(len(x)), MOST_TIPS)
            (line,) = axes.plot(x, y, color=look.color, linestyle=look.line, linewidth=1.6, label=model)
            tips = [f"{model}{tip(x[place], y[place])}" for place in places]
            if has_steps:
                line.set_drawstyle("steps-post")
            else:
                line.set(**look.markers, markersize=4 if len(places) == len(x) else 0)
            if has_steps or len(places) < len(x):
                figures.points(axes, x[places], y[places], tips)
            else:
                figures.hover(line, tips)
        finish(axes)
        axes.set(xlabel=labels[0], ylim=(-0.03, 1.05))
        axes.grid()
        axes.tick_params(labelbottom=True)

    panels = elements.by_dataset(rows, rows["dataset"])
    titled = [(figures.short(name), panel_rows) for name, panel_rows in panels.items()]
    return figures.panel_grid(titled, panel, PANEL, labels[1], share="all", entries=entries)


def times(content: Content) -> Iterator[Part]:
    """Yield the core-hours of everything that was computed, and the time of a cell, by data set and model."""
    table = tables.time_table(content.timed_cells)
    if table.empty:
        yield "No cell is done."
    else:
        yield _core_hours(table)
        if tables.SEARCH in content.variants:
            yield f"All searches together: {_core_hours(tables.time_table(content.all_cells))}"
        yield elements.declared_table("times", table.assign(restart_ms=1000 * table["restart_seconds"]))
    text = WORDS["times"]["boxes"].format(least=figures.LEAST_BOX)
    yield "seconds", draw_times(content.timed_cells), text


def _core_hours(table: pd.DataFrame) -> str:
    hours = table["cpu_hours"].sum()
    time = f"{hours:,.3f} core-hours" if hours >= 0.001 else f"{3600 * hours:.3g} CPU seconds"
    return f"{time} in kernels, for {plural(table['n'].sum(), 'cell')}."


def draw_times(cells: pd.DataFrame) -> Figure | None:
    """Draw seconds per cell as a box per data set and model, with whiskers to the first and last tenth."""
    rows = cells[cells["seconds"] > 0]
    if rows.empty:
        return None
    rows = rows[rows["dataset"].isin(elements.panel_datasets(rows["dataset"]))]
    names, seconds = zip(*rows.groupby(["dataset", "model"], sort=False)["seconds"], strict=True)
    labels = [f"{figures.short(name)}, {figures.short(model)}" for name, model in names]
    extra_width = LETTER * max(0, *(len(label) - MOST_LETTERS for label in labels))
    figure, axes = figures.panel(figures.HALF + extra_width, BOX_HEIGHT * len(names) + 1.0)
    boxes = axes.boxplot(
        [values if len(values) >= figures.LEAST_BOX else [] for values in seconds],
        orientation="horizontal",
        whis=(10, 90),
        widths=0.62,
    )["boxes"]
    for place, ((_, model), values, box) in enumerate(zip(names, seconds, boxes, strict=True), start=1):
        color = looks.mark(model).color
        box.set(facecolor=color, edgecolor=looks.INK, alpha=0.75, linewidth=0.8)
        if len(values) < figures.LEAST_BOX:
            (points,) = axes.plot(values, [place] * len(values), "o", color=color, markersize=5)
            figures.hover(points, [f"{model}: {value:.3g} s" for value in values])
    axes.set_yticks(np.arange(1, len(names) + 1), labels)
    axes.invert_yaxis()
    figures.log_axis(axes, (1, 2, 5))
    axes.set_xlabel(LABELS["seconds"].axis + " for all restarts of a cell")
    axes.grid(axis="x", color=looks.RULE)
    return figure


def failures(content: Content) -> Iterator[Part]:
    """Yield how many cells failed, with the last record of each cell."""
    failed_cells = content.all_cells[content.all_cells["status"] == "failed"]
    if failed_cells.empty:
        return
    yield f"{plural(len(failed_cells), 'cell')} failed."
    last = {record.cell: record for record in content.failures}
    rows = []
    for _, row in failed_cells.head(MOST_FAILURES).iterrows():
        cell = tables.row_cell(row)
        # a path of questions fails as a whole, with all cells on it
        path = str(AskedPath.of(cell)) if asks(cell.design) else ""
        record = last.get(str(cell)) or last.get(path)
        facts = (record.cause, record.node, record.at) if record else ("no record beside the cube", "", "")
        rows.append(tuple(map(words, (cell, *facts))))
    n_beyond = len(failed_cells) - len(rows)
    note = f"{n_beyond:,} more {are(n_beyond)} in cells.csv." if n_beyond else ""
    yield Table("Failed cells", ("cell", "cause", "node", "when"), tuple(rows), note=note)


def state(content: Content) -> list[str]:
    """Return paragraphs on how much of the sweep is there, on what is missing, and on other software."""
    manifest, cells = content.manifest, content.all_cells
    names = ("done", "failed", STATUS_WORDS[NO_SOLUTION])
    n_done, n_failed, n_unsolved = cells["status"].value_counts().reindex(names, fill_value=0)
    n_left = len(cells) - n_done - n_failed - n_unsolved
    n_left_out = cells_left_out(manifest.spec, manifest.skipped)
    total = plural(len(cells) + n_left_out, "cell")
    text = [f"{n_done:,} of {total} {are(n_done)} done, {n_failed:,} failed, {n_left:,} {are(n_left)} left."]
    if n_unsolved:
        text.append(f"{plural(n_unsolved, 'cell')} {'has' if n_unsolved == 1 else 'have'} no solution.")
    if content.holder is not None:
        text.append(f"This sweep is running: {content.holder}.")
    if n_left:
        text.append("It is not complete: every number below is over the cells that are done.")
    elif n_failed:
        text.append("Every number below is over the cells that are done.")
    paragraphs = [" ".join(text)]
    if manifest.skipped:
        left_out = f"{plural(n_left_out, 'cell')} of the sweep left out (sweep datasets list says why)"
        paragraphs.append(f"Not at hand: {', '.join(manifest.skipped)}; {left_out}.")
    if manifest.software:
        paragraphs.append(f"This sweep has {manifest.software}; {PROMISE}.")
    return paragraphs


def single_variants(manifest: Manifest, variants: Mapping[str, str]) -> tuple[str, ...]:
    """Name the design and the search that tables and figures are about, if there are several."""
    rows = (
        (tables.DESIGN, manifest.spec.grid.design, "Pairs were chosen", "designs and times"),
        (tables.SEARCH, manifest.spec.search_names, "Solutions were searched for", "searches"),
    )
    return tuple(
        f"{fact} in several ways: {', '.join(names)}. All but {parts} below is about {variants[key]}."
        for key, names, fact, parts in rows
        if len(names) > 1 and key in variants
    )


def scaling(manifest: Manifest) -> str:
    """Say how the features were scaled."""
    scales = {entry.name: entry.scale for entry in manifest.spec.grid.datasets}
    if len(set(scales.values())) == 1:
        return next(iter(scales.values()))
    return ", ".join(f"{name} {scale}" for name, scale in scales.items())


def head(content: Content) -> Iterator[Table]:
    """Yield what ran, on what, and when."""
    manifest = content.manifest
    rows = tuple((words(key), words(value)) for key, value in _facts(manifest).items())
    yield Table("Sweep", ("what", "value"), rows, n_lead=1)
    yield _datasets(manifest, content.all_cells)
    if manifest.runs:
        runs = tuple(
            (number(place), *map(words, (run.started, run.host, run.python, run.fingerprint.get("cpu", "?"))))
            for place, run in enumerate(manifest.runs, start=1)
        )
        yield Table("Runs", ("run", "started", "host", "python", "processor"), runs)


def _facts(manifest: Manifest) -> dict[str, object]:
    spec, grid = manifest.spec, manifest.spec.grid
    facts: dict[str, object] = {
        "sweep": spec.name,
        "cube": manifest.path,
        "format version": manifest.format_version,
        "seed": spec.seed,
        "features scaled": scaling(manifest),
        "accuracies p": grid.p,
        "annotations m": [count.text for count in grid.m],
        "designs": grid.design,
        "replicates": grid.replicates,
        "models": grid.models,
        "restarts of a cell": grid.restarts,
    }
    for search in spec.search:
        facts[f"search {search.name}" if search.name else "search"] = search.summary()
    if CROWD in grid.design:
        facts["crowd"] = dict(spec.crowd)
    if spec.stop is not None:
        facts["stop"] = dict(spec.stop)
    if manifest.runs:
        last = manifest.runs[-1]
        versions = last.made_with | last.versions
        processor = versions.pop("cpu", "unknown")
        solvers = {
            key.removeprefix(PREFIX): versions.pop(key) for key in list(versions) if key.startswith(PREFIX)
        }
        facts["versions of the last run"] = versions
        facts["solvers of the last run"] = solvers or "unknown"
        facts["processor"] = processor
        facts["commit"] = last.commit or "unknown"
    return {name: _fact_words(fact) for name, fact in facts.items()}


def _fact_words(fact: object) -> object:
    if isinstance(fact, Mapping):
        return ", ".join(f"{key} {value}" for key, value in fact.items())
    return (", ".join(map(str, fact)) or "none") if isinstance(fact, list | tuple) else fact


def _datasets(manifest: Manifest, cells: pd.DataFrame) -> Table:
    counts = pd.crosstab(cells["dataset"], cells["status"])
    counts = counts.reindex(columns=["done", "failed", "pending"], fill_value=0)
    counts["core_hours"] = cells.groupby("dataset")["cpu_seconds"].sum() / 3600
    rows = [
        SimpleNamespace(
            **vars(plan),
            **counts.loc[name],
            origin=Value(f"{plan.source}, {plan.checksum[:12]}", plan.source),
        )
        for name, plan in manifest.plans.items()
    ]
    has_file = any(plan.n_annotations for plan in manifest.plans.values())
    file_note = "If annotations come from a file, p is the accuracy that the models were given."
    return elements.declared_table("datasets", rows, file_note if has_file else "")
