"""What ran, when and on what: how much of it is there for the top of a page, the rest for its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from pipeline.report.parts.parts import Section, Table, Value, number, words
from pipeline.report.sections.content import Content
from pipeline.scoring.tables import DESIGN, SEARCH
from pipeline.text import cells_left_out, plural
from storage.cube.manifest import FORMAT_VERSION, Manifest
from storage.cube.schema import NO_SOLUTION, STATUS_WORDS
from storage.provenance import RunRecord

MOST_RUNS = 50
"""Rows of the table of runs."""


def section(content: Content) -> Section:
    """What ran, on what, and when."""
    manifest = content.manifest
    tables = [_facts(manifest), _datasets(manifest, content.all_cells)]
    if manifest.runs:
        tables.append(_runs(manifest))
    return Section("head", "What ran", tables=tuple(tables))


def state(content: Content) -> list[str]:
    """How much of the sweep there is, and what is missing, in sentences."""
    manifest, cells = content.manifest, content.all_cells
    counts = cells["status"].value_counts()
    done, failed = int(counts.get("done", 0)), int(counts.get("failed", 0))
    without = int(counts.get(STATUS_WORDS[NO_SOLUTION], 0))
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


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def of_one(manifest: Manifest, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """That tables and figures are of one design and of one search, and of which, where there are several."""
    designs, searches = manifest.spec.grid.design, manifest.spec.search_names
    lines = []
    if len(designs) > 1 and DESIGN in chosen:
        rest = f"What follows is of {chosen[DESIGN]}, but for designs and times."
        lines.append(f"Pairs were chosen in several ways: {_listed(designs)}. {rest}")
    if SEARCH in chosen:
        rest = f"What follows is of {chosen[SEARCH]}, but for searches."
        lines.append(f"Solutions were searched for in several ways: {_listed(searches)}. {rest}")
    return tuple(lines)


def scaling(manifest: Manifest) -> str:
    """How the features were scaled."""
    scales = {entry.name: entry.scale for entry in manifest.spec.grid.datasets}
    if len(set(scales.values())) == 1:
        return str(next(iter(scales.values())))
    return ", ".join(f"{name} {scale}" for name, scale in scales.items())


def _facts(manifest: Manifest) -> Table:
    spec, runs, grid = manifest.spec, manifest.runs, manifest.spec.grid
    facts = {
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
    if runs:
        facts |= _versions(runs[-1])
    return Table(
        "Sweep", ("what", "value"), tuple((words(key), words(value)) for key, value in facts.items())
    )


def _versions(run: RunRecord) -> dict[str, str]:
    """What the last run ran on."""
    versions = {**run.fingerprint, **run.versions}
    versions.pop("cpu", None)
    return {
        "versions of the last run": _pairs(versions),
        "processor": run.fingerprint.get("cpu", "unknown"),
        "commit": run.commit or "unknown",
    }


def _datasets(manifest: Manifest, cells: pd.DataFrame) -> Table:
    counts = cells.groupby(["dataset", "status"]).size().unstack(fill_value=0)
    hours = cells.groupby("dataset")["cpu_seconds"].sum() / 3600
    rows = []
    for name, plan in manifest.plans.items():
        state = counts.loc[name] if name in counts.index else pd.Series(dtype=int)
        numbers = (plan.n_samples, plan.n_features, plan.n_clusters, plan.mixtures)
        rows.append(
            (
                words(name),
                *(number(value) for value in numbers),
                words(plan.scale),
                *(number(float(state.get(word, 0))) for word in ("done", "failed", "pending")),
                number(float(hours.get(name, 0.0)), ".3f"),
                Value(f"{plan.source}, {plan.checksum[:12]}", plan.source),
            )
        )
    head = ("data set", "N", "D", "K", "mixtures", "scaled", "done", "failed", "left", "core-hours", "source")
    note = (
        "Core-hours are CPU time in kernels of the cells that are done. "
        "Sources end with the start of a checksum."
    )
    if any(plan.n_annotations for plan in manifest.plans.values()):
        note += " Where annotations are those of a file, p is what the models were told."
    return Table("Data sets", head, tuple(rows), note=note)


def _runs(manifest: Manifest) -> Table:
    rows = [
        (
            number(position),
            *(words(value) for value in (run.started, run.host, run.python)),
            words(run.fingerprint.get("cpu", "?")),
        )
        for position, run in enumerate(manifest.runs, start=1)
    ]
    beyond = len(rows) - MOST_RUNS
    note = f"{plural(beyond, 'earlier run')} {_are(beyond)} left out." if beyond > 0 else ""
    head = ("run", "started", "host", "python", "processor")
    return Table("Runs", head, tuple(rows[-MOST_RUNS:]), note=note)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values) or "none"


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())
