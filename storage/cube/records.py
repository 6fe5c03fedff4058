"""Plans of a cube as its attributes hold them, never trusted: a cube may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sweeps.errors import Problem, collecting, shown
from sweeps.file.spec import SweepSpec
from sweeps.plan import DatasetPlan
from sweeps.records import ABSENT, marked, read
from sweeps.words import BASELINES, DEFAULT, is_model

NAMES = ("feature_names", "class_names", "sample_names")
"""What a plan says of names."""


def plan_to_json(plan: DatasetPlan) -> dict[str, Any]:
    """Fields of a plan, without those that only some cubes need: cubes older than these stay readable."""
    record = asdict(plan)
    for name in ("adaptive", "held_out", "methods", "n_annotations", "annotations_checksum", *NAMES):
        if not record[name]:
            del record[name]
    if plan.designs == DEFAULT:
        del record["designs"]
    if not plan.searches:
        del record["searches"]
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
    if plan.feature_names and len(plan.feature_names) != plan.n_features:
        found, expected = f"{len(plan.feature_names)} names", f"none, or one for each of {plan.n_features}"
        problems.append(Problem(f"{where} feature_names", found, expected))
    if plan.mixtures is not None and any(getattr(plan, key) for key in NAMES):
        problems.append(Problem(f"{where} names", "some", "none, as the data are drawn"))
    most = max(plan.m, default=0) if plan.mixtures is None else math.inf
    if plan.n_annotations and most > plan.n_annotations:
        expected = "a real data set with at least as many as the largest m"
        problems.append(Problem(f"{where} n_annotations", str(plan.n_annotations), expected))
    return problems


def name_problems(where: str, spec: SweepSpec, plan: DatasetPlan) -> list[Problem]:
    """What a plan names that is no model, and no method, design or search of the sweep.

    Parameters
    ----------
    where : str
        The cube, for messages.
    spec : SweepSpec
        The sweep that the cube holds.
    plan : DatasetPlan
        Of one of its data sets.
    """
    methods = {method.plan for method in spec.grid.methods}
    uses = {method.name: method.uses for method in spec.grid.methods}
    place = f"{where}: data set {plan.name}:"
    problems = []
    for key, names, use in (("models", plan.models, "links"), ("baselines", plan.baselines, "nothing")):
        for name in names:
            known = (name in BASELINES) == (use == "nothing") if is_model(name) else uses.get(name) == use
            if not known:
                expected = "a model with annotations" if use == "links" else "a model without annotations"
                problems.append(Problem(f"{place} {key}", shown(name), f"{expected}, or such a method"))
    wrong = [each for each in plan.methods if each not in methods]
    wrong += [each for each in plan.methods if each.restarts > plan.restarts]
    unnamed = {*plan.models, *plan.baselines} - {each.name for each in plan.methods}
    wrong += [each for each in methods if each.name in unnamed]
    # a data set that was not available when designs were added has fewer
    other = [design for design in plan.designs if design not in spec.grid.design]
    if plan.supervised and (other or plan.has_designs != (len(spec.grid.design) > 1)):
        problems.append(Problem(f"{place} designs", shown(plan.designs), f"of {shown(spec.grid.design)}"))
    if not plan.supervised and plan.designs != DEFAULT:
        problems.append(Problem(f"{place} designs", shown(plan.designs), "none without annotations"))
    # and one that was not available when searches were added has fewer of these
    names = spec.search_names
    if any(search not in names for search in plan.searches) or bool(plan.searches) != bool(names):
        expected = f"of {shown(names)}" if names else "none, as the sweep has one"
        problems.append(Problem(f"{place} searches", shown(plan.searches), expected))
    problems += [Problem(f"{place} methods", shown(each.name), "the methods of the sweep") for each in wrong]
    return problems
