"""Repeat the published evaluation: `python docs/repeat/build/run.py [NAME ...]`, hours.

The program runs the named sweep files of the repeat, or those that have no scores yet. It writes the scores
of the cells of each (`NAME.csv`) and its cost (`costs.json`). A sweep that was interrupted resumes where it
stopped. Cubes are in `results`, and real data are read as by `sweep submit`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from files import CHECKOUT, COSTS, cells_file, sweep_file

ORDER = (
    # The evaluation.
    "uci-p10",
    "mixtures-p10",
    "mixtures-p09",
    "uci-p09",
    "uci-p08",
    "mixtures-p08",
    # Sweeps that may explain its differences.
    "uci-one-restart",
    "one-restart",
    "stronger-p10",
    "others-k2",
    "others-k4",
    "others-k6",
    "uci-stronger",
    "uci-minmax",
    # The evaluation on features as they are.
    "uci-unscaled-p10",
    "uci-unscaled-p09",
    "uci-unscaled-p08",
    # The mixtures by a better search, also where annotations err.
    "stronger-p09",
    "stronger-p08",
)


def sweep(*arguments: str) -> str:
    """Run the command with its progress on the terminal, and return its output. If it fails, so does this."""
    command = [sys.executable, "-m", "sweep_clustering", *arguments]
    process = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT)
    if process.returncode:
        sys.exit(process.returncode)
    return process.stdout


def repeat(name: str) -> None:
    """Run one sweep, and write its scores and its cost."""
    spec = str(sweep_file(name))
    plan = json.loads(sweep("plan", spec, "--pilot", "--json"))
    start = time.time()
    sweep("submit", spec, "--strict")
    end = time.time()
    report = Path("results") / f"{name}.report"
    sweep("report", str(Path("results") / f"{name}.zarr"), "--out", str(report))
    costs = json.loads(COSTS.read_text(encoding="utf-8"))
    costs[name] = {
        "predicted_core_hours_of_all_restarts": round(plan["total"]["core_hours"], 3),
        "least_share_of_restarts": plan["least"],
        "hours_of_the_last_submit": round((end - start) / 3600, 3),
        "finished": time.strftime("%Y-%m-%d", time.gmtime(end)),
        "cores": len(os.sched_getaffinity(0)),
    }
    shutil.copyfile(CHECKOUT / report / "cells.csv", cells_file(name))
    COSTS.write_text(json.dumps(dict(sorted(costs.items())), indent=1) + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Run the named sweeps, or those without scores."""
    wrong_names = [name for name in names if name not in ORDER]
    if wrong_names:
        sys.stderr.write(f"found {', '.join(wrong_names)}, expected some of {', '.join(ORDER)}\n")
        sys.exit(2)
    for name in names or [name for name in ORDER if not cells_file(name).exists()]:
        repeat(name)


if __name__ == "__main__":
    main(sys.argv[1:])
