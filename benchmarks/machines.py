"""Last bits on other processors: `python -m benchmarks machines`, a quarter of an hour.

Two sweeps are computed again with the code that libraries have for other processors. `sweep` chooses one code
for all processors since 2013. The rows count the cells that differ from these if another code is forced.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from checkout import ROOT
from tables import Table

from sweep_clustering.installation import same_arithmetic
from sweep_clustering.pipeline.check import different_variables, is_rounded
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.manifest import read_manifest

KINDS = ("one Gaussian", "chosen shape", "any shape", "merged groups", "methods", "questions")
CELLS = Table("machines/cells", ("code for", *KINDS, "of them different", "CPU time"))
TABLES = (CELLS,)

SWEEPS = {
    "cells": """
name = "cells"
seed = 53
[grid]
datasets = ["iris", "wine", "wdbc", "digits-389"]
p = [0.9]
m = ["1N"]
replicates = 2
models = ["unsupervised", "unsupervised-full", "posterior", "posterior-full", "conditional",
  "conditional-diagonal", "conditional-tied", "conditional-full", "conditional-auto", "conditional-any",
  "conditional-groups"]
methods = ["k-means", "gaussian-mixture-full", "ward", "average", "spectral", "spectral-links", "cop-kmeans",
  "pckmeans", "correlation-clustering"]
restarts = 3
[data]
scale = "standard"
""",
    "questions": """
name = "questions"
seed = 53
[grid]
datasets = ["iris", "wine"]
p = [0.9]
m = ["0.5N"]
design = ["active", "committee"]
replicates = 2
models = ["posterior"]
restarts = 3
[data]
scale = "standard"
""",
}
NARROW = (
    "X86_V3 X86_V4 AVX512_ICL" if "X86_V4" in same_arithmetic().get("NPY_DISABLE_CPU_FEATURES", "") else ""
)
# Variables that make libraries choose a code.
CODES: dict[str, dict[str, str]] = {
    "all alike (`sweep`)": {},
    "this processor": {"OPENBLAS_CORETYPE": "", "NPY_DISABLE_CPU_FEATURES": ""},
    "AVX-512, numpy": {"NPY_DISABLE_CPU_FEATURES": ""},
    "AVX-512, OpenBLAS": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "before 2013, numpy": {"NPY_DISABLE_CPU_FEATURES": NARROW},
    "before 2013, OpenBLAS": {"OPENBLAS_CORETYPE": "Nehalem"},
    "before 2013, C library": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"},
    "any processor, kernels": {"NUMBA_CPU_NAME": "generic"},
}


def cells_of(cube: Path) -> dict[str, dict[str, Any]]:
    """Return the results of each cell by its name."""
    store = BlockStore(cube, read_only=True)
    cells = {}
    for block in (block for plan in read_manifest(cube).plans.values() for block in plan.blocks()):
        arrays = store.read(block)
        for number, cell in enumerate(block.cells()):
            rows = {name: number // (block.per_graph if name == "annotations" else 1) for name in arrays}
            cells[str(cell)] = {name: arrays[name][row : row + 1] for name, row in rows.items()}
    return cells


def compute(variables: dict[str, str], folder: Path) -> dict[str, dict[str, Any]]:
    """Compute all cells of both sweeps with some code, and return their results."""
    cells: dict[str, dict[str, Any]] = {}
    for name, text in SWEEPS.items():
        (folder / f"{name}.toml").write_text(text)
        command = ["-m", "sweep_clustering", "submit", f"{name}.toml", "--workers", "0", "--results", "."]
        inherited = {key: value for key, value in os.environ.items() if key not in same_arithmetic()}
        environment = inherited | {"PYTHONPATH": str(ROOT)} | variables
        subprocess.run(
            [sys.executable, *command], cwd=folder, env=environment, check=True, capture_output=True
        )
        cells |= {f"{name}/{cell}": rows for cell, rows in cells_of(folder / f"{name}.zarr").items()}
    return cells


def kind_of(cell: str) -> str:
    """Return the column of a cell."""
    sweep, model = cell.partition("/")[0], cell.rpartition("/")[2]
    if sweep == "questions":
        return "questions"
    shape = model.partition("-")[2]
    special = {"conditional-auto": "chosen shape", "conditional-any": "any shape"}
    special |= {"conditional-groups": "merged groups"}
    is_gaussian = model.partition("-")[0] in ("unsupervised", "posterior", "conditional")
    return special.get(model, "one Gaussian" if is_gaussian and shape != "links" else "methods")


def measure() -> dict[str, str]:
    """Return the table of the cells with other bits, by kind."""
    rows, results = [], {}
    for code, variables in CODES.items():
        with tempfile.TemporaryDirectory() as folder:
            results[code] = compute(variables, Path(folder))
    reference, *_ = results.values()
    totals = Counter(map(kind_of, reference))
    seconds = {
        code: sum(np.nansum(rows["cpu_seconds"]) for rows in cells.values())
        for code, cells in results.items()
    }
    for code, cells in results.items():
        unequal = [cell for cell in reference if different_variables(reference[cell], cells[cell])]
        n_unequal = Counter(map(kind_of, unequal))
        n_different = sum(not is_rounded(reference[cell], cells[cell]) for cell in unequal)
        shares = [f"{n_unequal[kind]} of {totals[kind]}" for kind in KINDS]
        rows.append((code, *shares, n_different, f"{seconds[code] / seconds['this processor']:.2f}"))
    return {CELLS.name: CELLS.markdown(rows)}
