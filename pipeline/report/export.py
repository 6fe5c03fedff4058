"""What a cube holds as tables and grids for other programs: labels, scores, summaries."""

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

from sweep_clustering.pipeline.report.elements import cells_of, check_folder
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
        The cube, or its address; a sweep may be writing to it. Several are read as one.
    folder : Path
        Made if it is not there.
    how : {"csv", "parquet", "netcdf", "raw"}
        Tables with one row for each cell (`cells`), for each group of cells and score (`summary`), and for
        each sample of each cell, of one data set (`labels-<data set>`); or grids, a file for each node of the
        cube with the scores and labels of its cells; or, "raw", one table of the scores of all cells
        (`scores`) with what another needs to compute them again.
    overwrite : bool
        Whether files of these names may be there.

    Returns
    -------
    list of Path
        What was written.

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
    making = folder.with_name(f".{folder.name}.{os.getpid()}")
    with storage_errors(folder):
        making.mkdir(parents=True)
        try:
            if how == "raw":
                file = making / f"scores{FORMATS[how]}"
                file.write_text(
                    raw_text(tree, manifest.spec, manifest.plans, manifest.made_with), encoding="utf-8"
                )
                names = [file.name]
            else:
                write = _write_grids if how == "netcdf" else _write_tables
                names = list(write(tree, manifest.plans, making, FORMATS[how]))
            written = [folder / name for name in names]
            folder.mkdir(parents=True, exist_ok=True)
            for path in written:
                (making / path.name).replace(path)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return written


def _write_tables(
    tree: xr.DataTree, plans: dict[str, DatasetPlan], folder: Path, suffix: str
) -> Iterator[str]:
    cells = cell_table(tree, plans)
    tables: dict[str, Iterable[pd.DataFrame]] = {"cells": [cells], "summary": [summary_table(cells)]}
    tables |= {f"labels-{name}": label_tables(tree, plan) for name, plan in plans.items()}
    for name, parts in tables.items():
        write_rows(folder / f"{name}{suffix}", parts)
        yield f"{name}{suffix}"


def label_tables(tree: xr.DataTree, plan: DatasetPlan) -> Iterator[pd.DataFrame]:
    """Labels of all cells that are done, a table for some of them at a time.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    plan : DatasetPlan
        Grid of the data set.

    Yields
    ------
    pandas.DataFrame
        Coordinates of the cell, `model`, `sample` (its name, or its number from 1), `label` from 0 and, where
        it is known, `label_true`, the name of the class or its code.
    """
    data = tree[plan.name].to_dataset()
    nodes = [tree[plan.name][model].to_dataset().assign_coords(model=model) for model in plan.baselines]
    if plan.supervised:
        places = product(range(len(plan.p)), range(len(plan.m)))
        nodes += [data.isel(p=[i], m=[j]) for i, j in places]
    for place, node in enumerate(nodes):
        table = _labels(node, data, plan)
        if len(table) or place == 0:  # one without rows has the columns
            yield table


def _labels(node: xr.Dataset, data: xr.Dataset, plan: DatasetPlan) -> pd.DataFrame:
    """Rows of the samples of each cell that is done, with all columns."""
    found = node[["labels", "status"]]
    if plan.has_labels:
        found = found.assign(label_true=data["labels_true"])
    if "sample" not in data.coords:
        found = found.assign_coords(sample=np.arange(1, plan.n_samples + 1))
    cell = [dim for dim in found["labels"].dims if dim != "sample"]
    rows = found.to_dataframe([*cell, "sample"]).reset_index()
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
                cells_of(table).to_csv(file, index=False, header=number == 0, lineterminator="\n")
        return
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with ExitStack() as closing:
        writer = None
        for table in tables:
            # all types from the whole table: of a part, a column may have no value
            of = {"design": pa.string(), "search": pa.string()}
            found = pa.Table.from_pandas(table, preserve_index=False)
            fields = [field.with_type(of.get(field.name, field.type)) for field in found.schema]
            found = found.cast(pa.schema(fields, metadata=found.schema.metadata))
            writer = writer or closing.enter_context(parquet.ParquetWriter(path, found.schema))
            writer.write_table(found)


def _write_grids(
    tree: xr.DataTree, plans: dict[str, DatasetPlan], folder: Path, suffix: str
) -> Iterator[str]:
    for plan in plans.values():
        for path, found in score_datasets(tree, plan.name).items():
            node = tree[path].to_dataset()
            grid = plain(found.assign(labels=node["labels"], status=node["status"]))
            if plan.class_names:
                grid.attrs["class_names"] = "\n".join(plan.class_names)
            file = f"{path.replace('/', '-')}{suffix}"
            # version 3 of the format, which every reader has, needs no library of its own
            grid.drop_encoding().to_netcdf(folder / file, engine="scipy")
            yield file
