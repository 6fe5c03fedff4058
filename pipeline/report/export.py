"""Tables and grids of a cube for other programs: labels, scores, summaries."""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.report.elements import check_folder, spreadsheet
from sweep_clustering.pipeline.scoring.raw import raw_text
from sweep_clustering.pipeline.scoring.scores import plain, score_datasets
from sweep_clustering.pipeline.scoring.tables import cell_table, summary_table
from sweep_clustering.storage.cube.parts import Places, read_parts
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.cube.store import open_parts
from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.sweeps.errors import InputError, Problem
from sweep_clustering.sweeps.plan import DatasetPlan

logger = logging.getLogger(__name__)

# End of a file's name, by format.
FORMATS = {"csv": ".csv", "parquet": ".parquet", "netcdf": ".nc", "raw": ".csv"}

EXTRA = "pip install 'sweep-clustering[tables]'"
# Coordinates of a cell beside its model.
CELL = ("mixture", "p", "m", "m_over_n", "design", "replicate", "search")


def write_export(cube: Places, folder: Path, how: str, *, overwrite: bool = False) -> list[Path]:
    """Write labels, scores and summaries of a cube to a folder, each file whole or not at all.

    Parameters
    ----------
    cube : Path, str or sequence of them
        The cube, or its address, to which a sweep may be writing. Several are read as one.
    folder : Path
        Output folder, which is made if it is missing.
    how : {"csv", "parquet", "netcdf", "raw"}
        Tables with one row for each cell (`cells`), for each group of cells and score (`summary`), and for
        each sample of each cell (`labels-<data set>`); or grids, a file for each node of the
        cube with the scores and labels of its cells; or, "raw", one table of the scores of all cells
        (`scores`) with what another needs to compute them again.
    overwrite : bool
        Whether files of these names may be there.

    Returns
    -------
    list of Path
        Files that were written.

    Raises
    ------
    InputError
        If this is not a cube, or something is there already.
    StorageError
        If the file system refuses.
    """
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        hint = "--force overwrites the files of these names in it"
        raise InputError([Problem(str(folder), "files", "an empty folder, or none", hint)])
    if how == "parquet" and find_spec("pyarrow") is None:
        raise InputError([Problem("--format parquet", "no pyarrow", "pyarrow", EXTRA)])
    parts = read_parts(cube)
    manifest, tree = parts.manifest, open_parts(parts)
    if parts.missing:
        logger.warning(parts.missing)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    with storage_errors(folder):
        temporary.mkdir(parents=True)
        try:
            if how == "raw":
                names = [f"scores{FORMATS[how]}"]
                text = raw_text(tree, manifest.spec, manifest.plans, manifest.made_with)
                (temporary / names[0]).write_text(text, encoding="utf-8")
            else:
                write = _write_grids if how == "netcdf" else _write_tables
                names = list(write(tree, manifest.plans, temporary, FORMATS[how]))
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                (temporary / name).replace(folder / name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return [folder / name for name in names]


def _write_tables(
    tree: xr.DataTree, plans: dict[str, DatasetPlan], folder: Path, suffix: str
) -> Iterator[str]:
    cells = cell_table(tree, plans)
    tables: dict[str, Iterable[pd.DataFrame]] = {"cells": [cells], "summary": [summary_table(cells)]}
    tables |= {f"labels-{name}": _label_tables(tree, plan) for name, plan in plans.items()}
    for name, parts in tables.items():
        write_rows(folder / f"{name}{suffix}", parts)
        yield f"{name}{suffix}"


def _label_tables(tree: xr.DataTree, plan: DatasetPlan) -> Iterator[pd.DataFrame]:
    """Yield labels of all cells of a data set that are done, with a table for some of them at a time.

    Columns are the coordinates of the cell, `model`, `sample` (its name, or its number from 1), `label` from
    0, and `label_true`, the name of the class or its code, if it is known.
    """
    data = tree[plan.name].to_dataset()
    nodes = [tree[plan.name][model].to_dataset().assign_coords(model=model) for model in plan.baselines]
    if plan.supervised:
        places = product(range(len(plan.p)), range(len(plan.m)))
        nodes += [data.isel(p=[i], m=[j]) for i, j in places]
    for place, node in enumerate(nodes):
        table = _labels(node, data, plan)
        if len(table) or place == 0:  # a table without rows has the columns
            yield table


def _labels(node: xr.Dataset, data: xr.Dataset, plan: DatasetPlan) -> pd.DataFrame:
    """Return rows of the samples of each cell that is done, with all columns."""
    labels = node[["labels", "status"]]
    if plan.has_labels:
        labels = labels.assign(label_true=data["labels_true"])
    if "sample" not in data.coords:
        labels = labels.assign_coords(sample=np.arange(1, plan.n_samples + 1))
    cell = [dim for dim in labels["labels"].dims if dim != "sample"]
    rows = labels.to_dataframe([*cell, "sample"]).reset_index()
    rows = rows[rows["status"] == DONE].rename(columns={"labels": "label"}).assign(dataset=plan.name)
    if plan.class_names and plan.has_labels:
        rows["label_true"] = np.array(plan.class_names, dtype=object)[rows["label_true"]]
    whole = dict.fromkeys(("mixture", "m", "replicate"), "Int64")
    real = dict.fromkeys(("p", "m_over_n"), "Float64")
    last = ("model", "sample", "label", *(["label_true"] if plan.has_labels else []))
    table = rows.reindex(columns=["dataset", *CELL, *last]).reset_index(drop=True)
    return table.astype({**whole, **real, "design": object, "search": object, "dataset": str, "model": str})


def write_rows(path: Path, tables: Iterable[pd.DataFrame]) -> None:
    """Write tables with the same columns, one after the other, to one file of CSV or Parquet."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            for number, table in enumerate(tables):
                spreadsheet(table).to_csv(file, index=False, header=number == 0, lineterminator="\n")
        return
    import pyarrow as pa
    import pyarrow.parquet as parquet

    # a part may have no value in one of these columns, and so not its type
    types = {"design": pa.string(), "search": pa.string()}
    with ExitStack() as closing:
        writer = None
        for table in tables:
            part = pa.Table.from_pandas(table, preserve_index=False)
            fields = [field.with_type(types.get(field.name, field.type)) for field in part.schema]
            part = part.cast(pa.schema(fields, metadata=part.schema.metadata))
            writer = writer or closing.enter_context(parquet.ParquetWriter(path, part.schema))
            writer.write_table(part)


def _write_grids(
    tree: xr.DataTree, plans: dict[str, DatasetPlan], folder: Path, suffix: str
) -> Iterator[str]:
    for plan in plans.values():
        for path, scores in score_datasets(tree, plan.name).items():
            node = tree[path].to_dataset()
            grid = plain(scores.assign(labels=node["labels"], status=node["status"]))
            if plan.class_names:
                grid.attrs["class_names"] = "\n".join(plan.class_names)
            file = f"{path.replace('/', '-')}{suffix}"
            # version 3 of the format, which every reader has, needs no library of its own
            grid.drop_encoding().to_netcdf(folder / file, engine="scipy")
            yield file
