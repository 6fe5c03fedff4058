"""The state of a cell: the cause of its failure, its log, and the command that runs it alone.

`explain` takes one cell, `failed_causes` all that are marked failed; both read files only.
"""

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.monitor.status import submit_words
from sweep_clustering.storage.cube.blocks import BlockStore, failed_cells
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import ANSWERED, NO_SOLUTION, STATUS_WORDS
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.records import FailureRecord, read_failures
from sweep_clustering.sweeps.plan import AskedPath, find_cell
from sweep_clustering.sweeps.shapes import CODES
from sweep_clustering.sweeps.words import asks, chooses

# Lines of the end of a traceback.
TRACEBACK_LINES = 12

UNKNOWN = "unknown"
NO_FAILURE = "no failure is recorded"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The facts about one cell.

    Parameters
    ----------
    cell : str
        Name of the cell.
    state : str
        `done`, `failed`, `pending` or `no solution`.
    restarts, seconds : int and float, or None
        Restarts of a cell that is done, and the solver's seconds for all of them.
    failures : tuple of FailureRecord
        All recorded failures, oldest first.
    log : str
        Command that shows the log of the job, or of the driver, with the last failure; empty if the cell is
        done or never failed.
    command : str
        Command that runs the cell alone.
    covariance : str or None
        Shape of covariances that a cell that is done has chosen; None if its model has one.
    questions : str
        Path whose answers the cell waits for; empty if it waits for none.
    closed : str
        Reason why failures cannot be read; empty if they can.
    """

    cell: str
    state: str
    restarts: int | None = None
    seconds: float | None = None
    failures: tuple[FailureRecord, ...]
    log: str = ""
    command: str
    covariance: str | None = None
    questions: str = ""
    closed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        failures = [
            {**record.model_dump(exclude={"work"}), "restarts": (record.work.start, record.work.stop)}
            for record in self.failures
        ]
        return {**asdict(self), "failures": failures}

    def lines(self) -> list[str]:
        """Return lines for people."""
        last = self.failures[-1] if self.failures else None
        if self.restarts is not None:
            text = f"done, {plural(self.restarts, 'restart')} in"
            if self.state == STATUS_WORDS[NO_SOLUTION]:
                text = f"the method found no solution in {self.restarts} calls,"
            text = f"{self.cell}: {text} {self.seconds:.3g} s"
            text += f"; it chose {self.covariance} covariances" if self.covariance else ""
            if last is None:
                return [text]
            times = f"failed {plural(len(self.failures), 'time')} before, last at {last.at or UNKNOWN}"
            return [text, f"{times}: {last.cause}"]
        lines = [f"{self.cell}: {'pending: not finished yet' if self.state == 'pending' else self.state}"]
        lines += [self.questions] if self.questions else []
        if last is not None:
            facts = {
                "cause": last.cause,
                "when": last.at or UNKNOWN,
                ("restarts" if last.work.cell else "questions"): f"{last.work.start}..{last.work.stop - 1}",
                "node": last.node or UNKNOWN,
                "job": last.job or "none",
                "attempts": f"{len(self.failures)} failed",
            }
            lines += [f"  {key + ':':<10}{value}" for key, value in facts.items()]
            if trace := last.traceback.strip().splitlines()[-TRACEBACK_LINES:]:
                lines += ["", "the end of the traceback:", *(f"  {line}" for line in trace)]
            lines += ["", "to see the log:", f"  {self.log}"]
        elif self.state == "failed":
            lines.append(self.closed or NO_FAILURE)
        return [*lines, "", "to run it alone:", f"  {self.command}"]


def explain(cube: Path, name: str, spec: Path | None = None) -> Explanation:
    """Collect the facts about a cell, from files only.

    The command runs `spec`, or the sweep file that was submitted last. An `InputError` says that there is no
    such cell, or no cube.
    """
    plans, run, store = read_manifest(cube).plans, RunFolder(cube), BlockStore(cube, read_only=True)
    cell = find_cell(name, list(plans.values()))
    names = {str(cell), str(AskedPath.of(cell))} if asks(cell.design) else {str(cell)}
    failures = tuple(record for record in read_failures(run) if record.cell in names)
    block = plans[cell.dataset].block_of(cell)
    position = block.position(cell)
    status = int(store.statuses(block)[position])
    explanation = Explanation(
        cell=str(cell),
        state=STATUS_WORDS.get(status, "pending"),
        failures=failures,
        command=shlex.join([*submit_words(cube, "--workers", "0", spec=spec), "--only", str(cell)]),
        closed=run.closed,
    )
    if status not in ANSWERED:
        job = ["--job", failures[-1].job] if failures and failures[-1].job else []
        return replace(
            explanation,
            log=shlex.join(["sweep", "logs", str(cube), *job]) if failures else "",
            questions=f"its annotations are answers of {AskedPath.of(cell)}" if asks(cell.design) else "",
        )
    arrays = store.read(block)
    restarts, seconds = int(arrays["restarts_done"][position]), float(arrays["seconds"][position])
    explanation = replace(explanation, restarts=restarts, seconds=seconds)
    if not chooses(cell.model):
        return explanation
    code = int(arrays["covariance_shape"][position])
    # the code of a shape that no solver writes is shown as it is
    shapes = {value: shape for shape, value in CODES.items()}
    return replace(explanation, covariance=shapes.get(code, str(code)))


def failed_causes(cube: Path) -> dict[str, str]:
    """Return the last cause of each cell that is marked failed, by name, from files only."""
    cells = failed_cells(cube, read_manifest(cube).plans.values())
    causes = {record.cell: record.cause for record in read_failures(RunFolder(cube))}
    of_paths = {cell: causes.get(str(AskedPath.of(cell))) for cell in cells if asks(cell.design)}
    unknown = RunFolder(cube).closed or NO_FAILURE
    return {str(cell): causes.get(str(cell)) or of_paths.get(cell) or unknown for cell in cells}
