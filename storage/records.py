"""Records a cube carries beside its plans, the resolved sweep file and the history of runs: checked."""

from __future__ import annotations

from typing import Any

from sweeps.entries import name_check
from sweeps.errors import Problem
from sweeps.spec import annotation_count, read_search
from sweeps.stopping import read_stop
from sweeps.tables import SCALES
from sweeps.tomlcheck import Bad, Table, array, choice, shown, whole


def spec_problems(where: str, spec: object) -> list[Problem]:
    """What of a resolved sweep file is not as one is kept: the keys that are read again, and their types.

    Parameters
    ----------
    where : str
        The cube, for messages.
    spec : object
        Its attribute `spec`.
    """
    problems: list[Problem] = []
    table = Table(f"{where}: spec", spec, problems)
    table.required("name", name_check, "")
    table.required("seed", whole(0, 2**63 - 1), 0)
    grid = Table(f"{where}: grid", table.raw("grid"), problems)
    grid.required("datasets", _data_sets, None)
    grid.optional("m", _counts, None)
    restarts = grid.optional("restarts", whole(1, 10**6), 1)
    read_search(Table(f"{where}: search", table.raw("search", {}), problems))
    Table(f"{where}: data", table.raw("data", {}), problems)
    if "stop" in table:
        read_stop(Table(f"{where}: stop", table.raw("stop"), problems), restarts)
    return problems


def run_problems(where: str, runs: object) -> list[Problem]:
    """What of the history of runs is not as it is written: the keys that are read again, and their types.

    Parameters
    ----------
    where : str
        The cube, for messages.
    runs : object
        Its attribute `runs`.
    """
    if isinstance(runs, list) and all(_is_run(run) for run in runs):
        return []
    return [Problem(f"{where}: runs", shown(runs), "a list of records")]


def _data_sets(value: Any) -> None:
    for entry in array(value):
        if not isinstance(entry, dict):
            raise Bad("a table for each data set")
        name_check(entry.get("name"))
        choice(SCALES)(entry.get("scale"))


def _counts(value: Any) -> None:
    for text in array(value):
        if not isinstance(text, str):
            raise Bad("a text for each annotation count")
        annotation_count(int(text) if text.isdecimal() and len(text) < 12 else text)


def _is_run(run: object) -> bool:
    if not isinstance(run, dict):
        return False
    fingerprint, skipped = run.get("fingerprint", {}), run.get("skipped", {})
    if not isinstance(fingerprint, dict) or not isinstance(skipped, dict):
        return False
    reasons = [reason for found in skipped.values() for reason in (found if isinstance(found, list) else [0])]
    return all(isinstance(text, str) for text in (*fingerprint.values(), *reasons))
