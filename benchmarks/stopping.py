"""The savings and misses of the adaptive stop, on cells whose restarts were all run.

    python -m benchmarks stopping --cube results/uci.zarr ...

Each rule is applied to the objectives in restart order, as by a sweep with `[stop]`. A miss is a cell whose
best objective among the restarts run lies more than 1e-6 below that of all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tables import Table

from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.work.tasks import optimum_counts, restarts_enough, unseen_mass
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.sweeps.file.spec import RULES, Stop

RULE = Table(
    "stopping/rules",
    (
        "rule, risk",
        "ended early",
        "mean n",
        "missed, of all",
        "of those ended early",
        "work spared",
        "estimate at the end",
        "new",
        "better",
    ),
)
GROUP = Table("stopping/data", ("", "ended early", "mean n", "missed", "work spared"))
TABLES = (RULE, GROUP)

RISKS = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Full:
    """A cell with all of its restarts."""

    group: str
    objectives: NDArray[np.float64]
    seconds: float


def full_cells(path: Path) -> Iterator[Full]:
    """Yield the cells of a cube that was made without an adaptive stop."""
    for node in open_cube(path).subtree:
        cells = node.to_dataset(inherit=False)
        if "log_likelihood" not in cells:
            continue
        group = f"{path.stem} {node.path.split('/')[1]}"
        objectives = cells["log_likelihood"].values
        is_done = cells["status"].values.ravel() == DONE
        rows = objectives.reshape(-1, objectives.shape[-1])[is_done]
        for restarts, seconds in zip(rows, cells["seconds"].values.ravel()[is_done], strict=True):
            yield Full(group, restarts, float(seconds))


class Effect(NamedTuple):
    """Effect of a rule on some cells: numbers of cells, mean restarts, the share of work that is spared."""

    cells: int
    early: int
    mean: float
    missed: int
    spared: float
    estimate_new_better: tuple[str, ...]

    def rule_row(self, name: str) -> tuple[str, ...]:
        """Return the row of the table of rules."""
        missed = f"{100 * self.missed / self.cells:.2f} %", f"{100 * self.missed / max(self.early, 1):.2f} %"
        return (*self._counts(name), *missed, f"{100 * self.spared:.1f} %", *self.estimate_new_better)

    def group_row(self, name: str) -> tuple[str, ...]:
        """Return the row of the table of data sets."""
        return (*self._counts(name), f"{self.missed} of {self.cells}", f"{100 * self.spared:.0f} %")

    def _counts(self, name: str) -> tuple[str, str, str]:
        return name, f"{100 * self.early / self.cells:.1f} %", f"{self.mean:.1f}"


def effect(cells: list[Full], stop: Stop) -> Effect:
    """Return ends, misses and spared work under one rule, and the estimate at the ends beside the truth.

    The truth is the share of the restarts after the end with a new optimum, and of those that are better than
    all before.
    """
    ends = [restarts_enough(cell.objectives, stop, len(cell.objectives)) or 0 for cell in cells]
    n_missed, estimate, new, better, spared = 0, [], [], [], 0.0
    for cell, end in zip(cells, ends, strict=True):
        objectives, tail = cell.objectives[:end], cell.objectives[end:]
        n_missed += int(cell.objectives.max() - objectives.max() > SAME_OPTIMUM)
        spared += cell.seconds * len(tail) / len(cell.objectives)
        if len(tail):
            estimate.append(unseen_mass(objectives, stop.rule))
            new.append(np.mean([np.abs(objectives - value).min() > SAME_OPTIMUM for value in tail]))
            better.append(np.mean(tail > objectives.max() + SAME_OPTIMUM))
    total = sum(cell.seconds for cell in cells)
    early = len(estimate)
    means = tuple(f"{np.mean(values):.4f}" if early else "-" for values in (estimate, new, better))
    return Effect(len(cells), early, float(np.mean(ends)), n_missed, spared / total, means)


def measure(paths: Sequence[Path]) -> dict[str, str]:
    """Apply every rule to all cells, and the default to those of each data set."""
    cells = [cell for path in paths for cell in full_cells(path)]
    distinct = [len(optimum_counts(cell.objectives)) for cell in cells]
    rules = [
        effect(cells, Stop(rule=rule, risk=risk)).rule_row(f"{rule}, {risk}")
        for rule in RULES
        for risk in RISKS
    ]
    for r_min, step in ((5, 1), (10, 1), (20, 5)):
        stop = Stop(risk=0.05, r_min=r_min, step=step)
        rules.append(effect(cells, stop).rule_row(f"{RULES[0]}, 0.05, r_min {r_min}, step {step}"))
    groups = []
    for group in dict.fromkeys(cell.group for cell in cells):
        group_cells = [cell for cell in cells if cell.group == group]
        groups.append(effect(group_cells, Stop(risk=0.05)).group_row(group))
    optima = f"{len(cells)} cells; distinct optima: median {np.median(distinct):.0f}, most {max(distinct)}"
    return {
        RULE.name: RULE.markdown(rules),
        GROUP.name: GROUP.markdown(groups),
        "beside the tables": optima,
    }
