"""What the adaptive stop spares and misses, on cells whose restarts were all run.

    python -m tests.benchmarks.stopping results/uci.zarr ...

Each rule is applied to the objectives in restart order, as by a sweep with `[stop]`. A miss is a cell whose
best objective among the restarts run lies more than 1e-6 below that of all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from pipeline.optima import SAME_OPTIMUM
from pipeline.work.stopping import optimum_counts, restarts_enough, unseen_mass
from storage.cube.cube import open_cube
from storage.cube.schema import DONE
from sweeps.file.stopping import RULES, Stop

RISKS = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Full:
    """A cell with all of its restarts."""

    group: str
    objectives: NDArray[np.float64]
    seconds: float


def full_cells(path: Path) -> Iterator[Full]:
    """Done cells of a cube that was made without an adaptive stop."""
    for node in open_cube(path).subtree:
        cells = node.to_dataset(inherit=False)
        if "log_likelihood" not in cells:
            continue
        group = f"{path.stem} {node.path.split('/')[1]}"
        objectives = cells["log_likelihood"].values
        done = cells["status"].values.ravel() == DONE
        rows = objectives.reshape(-1, objectives.shape[-1])[done]
        for row, seconds in zip(rows, cells["seconds"].values.ravel()[done], strict=True):
            yield Full(group, row, float(seconds))


def line(name: str, cells: list[Full], stop: Stop) -> str:
    """Ends, misses and work spared under one rule; the estimate where cells ended, and the truth.

    The truth is the share of the restarts after the end whose optimum none before it had found, and of those
    that were better than all before.
    """
    ends = [restarts_enough(cell.objectives, stop, len(cell.objectives)) or 0 for cell in cells]
    missed, estimate, new, better, spared, lost = 0, [], [], [], 0.0, []
    for cell, end in zip(cells, ends, strict=True):
        some, rest = cell.objectives[:end], cell.objectives[end:]
        lost.append(cell.objectives.max() - some.max())
        missed += int(lost[-1] > SAME_OPTIMUM)
        spared += cell.seconds * len(rest) / len(cell.objectives)
        if len(rest):
            estimate.append(unseen_mass(some, stop.rule))
            new.append(np.mean([np.abs(some - value).min() > SAME_OPTIMUM for value in rest]))
            better.append(np.mean(rest > some.max() + SAME_OPTIMUM))
    total = sum(cell.seconds for cell in cells)
    early = len(estimate)
    means = [f"{np.mean(values):.4f}" if early else "-" for values in (estimate, new, better)]
    return (
        f"{name:<34} {len(cells):>6} {early / len(cells):>7.1%} {np.mean(ends):>6.1f} "
        f"{missed / len(cells):>7.2%} {missed / max(early, 1):>7.2%} {np.mean(lost):>9.5f} "
        f"{spared / total:>7.1%}  " + " ".join(means)
    )


def main(paths: list[str]) -> None:
    """Print the tables."""
    cells = [cell for path in paths for cell in full_cells(Path(path))]
    distinct = [len(optimum_counts(cell.objectives)) for cell in cells]
    click.echo(f"{len(cells)} cells; distinct optima: median {np.median(distinct):.0f}, most {max(distinct)}")
    click.echo(
        f"{'rule, risk (r_min 10, step 5)':<34} {'cells':>6} {'early':>7} {'mean n':>6} {'missed':>7} "
        f"{'of e.':>7} {'lost/nats':>9} {'spared':>7}  estimate, new, better"
    )
    for rule in RULES:
        for risk in RISKS:
            click.echo(line(f"{rule}, {risk}", cells, Stop(rule, risk)))
    for r_min, step in ((5, 1), (10, 1), (20, 5)):
        click.echo(line(f"{RULES[0]}, 0.05, {r_min}, {step}", cells, Stop(RULES[0], 0.05, r_min, step)))
    click.echo(f"by data set: {RULES[0]}, 0.05")
    for group in dict.fromkeys(cell.group for cell in cells):
        click.echo(line(group, [cell for cell in cells if cell.group == group], Stop(RULES[0], 0.05)))


if __name__ == "__main__":
    main(sys.argv[1:])
