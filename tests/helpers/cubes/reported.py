"""Cubes for the tests of reports are made here on disk and in memory."""

from pathlib import Path

import pandas as pd
from cubes import toy

from sweep_clustering.pipeline.report.elements import Content
from sweep_clustering.pipeline.scoring.tables import cell_table, summary_table
from sweep_clustering.storage.cube.manifest import append_run
from sweep_clustering.storage.provenance import RunRecord
from sweep_clustering.sweeps.plan import DatasetPlan


def make(folder: Path, *plans: DatasetPlan, scales: tuple[str, ...] = ("standard",)) -> Path:
    """Write a cube of several data sets after one run that lacked one more data set."""
    names = dict.fromkeys([*(plan.name for plan in plans), "wine"])
    entries = [{"name": name, "scale": scales[at % len(scales)]} for at, name in enumerate(names)]
    cube, grid = folder / "toy.zarr", {"datasets": entries, "m": ["0.5N", "1N"]}
    toy.write(cube, *plans, spec={"name": "toy", "seed": 7, "grid": grid})
    versions = {"sweep": "0.1.0", "numba": "0.62.0", "numpy": "2.1.0", "cpu": "a CPU"}
    skipped = {"wine": ("data directory: no wine.data", "download: no route")}
    record = RunRecord(started="2026-01-02T03:04:05Z", host="node", fingerprint=versions, skipped=skipped)
    append_run(cube, record)
    return cube


def tables(*plans: DatasetPlan) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, DatasetPlan]]:
    """Return cells, summary and plans of a cube in memory."""
    named = {plan.name: plan for plan in plans}
    cells = cell_table(toy.tree(*plans), named)
    return cells, summary_table(cells), named


def content(cells: pd.DataFrame | None = None, **parts: object) -> Content:
    """Return the content that a section reads of a cube in memory, without the rest."""
    nothing = dict.fromkeys(("manifest", "tree", "summary", "cell", "comparison", "published", "holder"))
    fields = {**nothing, "all_cells": cells, "failures": (), **parts}
    cached = {name: fields.pop(name) for name in ("m_texts",) if name in fields}
    content_read = Content(cells=cells, **fields)  # type: ignore[arg-type]
    content_read.__dict__.update(cached)
    return content_read
