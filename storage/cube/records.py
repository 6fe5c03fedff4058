"""Plans of a cube as its attributes hold them, never trusted: a cube may come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sweeps.errors import Problem, collecting, shown
from sweeps.plan import DatasetPlan
from sweeps.validation import ABSENT, marked, read


def plan_to_json(plan: DatasetPlan) -> dict[str, Any]:
    """Fields of a plan, without those that only some cubes need: cubes older than these stay readable."""
    record = asdict(plan)
    for name in ("adaptive", "held_out"):
        if not record[name]:
            del record[name]
    return record


def read_plans(where: str, records: object, problems: list[Problem]) -> dict[str, DatasetPlan]:
    """Plans by name, from the attributes of a cube.

    Parameters
    ----------
    where : str
        The cube, for messages.
    records : object
        What the attribute `datasets` holds.
    problems : list of Problem
        Grows with everything that no sweep would have written.
    """
    if not isinstance(records, Mapping):
        problems.append(Problem(where, "not a table of data sets", "one record for each"))
        return {}
    known = [field.name for field in fields(DatasetPlan)]
    plans = {}
    for name, record in records.items():
        place = f"{where}: data set {name[:100]}:"
        if not isinstance(record, Mapping):
            problems.append(Problem(place.rstrip(":"), shown(record), "a table"))
            continue
        with collecting(problems):
            # The default of a plan is not one of a cube: every cube says how its features were scaled.
            plans[name] = read(DatasetPlan, {"scale": ABSENT, **marked(record, known)}, place)
            problems += _grid_problems(place, name, plans[name])
    return plans


def _grid_problems(where: str, name: str, plan: DatasetPlan) -> list[Problem]:
    problems = []
    if plan.name != name:
        problems.append(Problem(f"{where} name", repr(plan.name), repr(name)))
    if not bool(plan.p) == bool(plan.m) == plan.supervised:
        problems.append(Problem(f"{where} p, m and models", "some of them empty", "all of them, or none"))
    return problems
