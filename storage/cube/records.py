"""Records a cube carries beside its plans, the resolved sweep file and the history of runs: checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from sweeps.data.tables import SCALES
from sweeps.errors import Problem, shown
from sweeps.file.datasets import name_check
from sweeps.file.spec import accuracy, annotation_count, read_search
from sweeps.file.stopping import read_stop
from sweeps.file.toml import Bad, Check, Table, array, choice, whole
from sweeps.models import BASELINES, MODEL_CODES
from sweeps.plan import DatasetPlan
from sweeps.seeds import accuracy_code


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


T = TypeVar("T")

LONGEST_TEXT = 10_000
SUPERVISED = tuple(model for model in MODEL_CODES if model not in BASELINES)


def plan_to_json(plan: DatasetPlan) -> dict[str, Any]:
    """Fields of a plan, without those that only some cubes need: cubes older than these stay readable."""
    record = asdict(plan)
    if not plan.adaptive:
        del record["adaptive"]
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
        problems.append(Problem(where, "no table of data sets", "one record for each"))
        return {}
    plans = {}
    for name, record in records.items():
        place = f"{where}: data set {name[:100]}"
        if isinstance(record, Mapping):
            plans[name] = _plan(place, name, record, problems)
        else:
            problems.append(Problem(place, shown(record), "a table"))
    return plans


def _plan(where: str, name: str, record: Mapping[str, Any], problems: list[Problem]) -> DatasetPlan:
    table = Table(f"{where}:", record, problems)
    length = whole(1, 10**6)
    plan = DatasetPlan(
        name=table.required("name", name_check, "unnamed"),
        n_samples=table.required("n_samples", whole(1, 10**9), 1),
        n_features=table.required("n_features", length, 1),
        n_clusters=table.required("n_clusters", whole(1, 32_767), 1),
        checksum=table.required("checksum", _text, ""),
        source=table.required("source", _text, ""),
        has_labels=table.required("has_labels", _flag, False),
        mixtures=table.required("mixtures", _nothing_or(length), None),
        p=table.required("p", _each(accuracy, accuracy_code), ()),
        m=table.required("m", _each(whole(1, 2**31 - 1), int), ()),
        replicates=table.required("replicates", length, 1),
        models=table.required("models", _each(choice(SUPERVISED), str), ()),
        baselines=table.required("baselines", _each(choice(BASELINES), str), ()),
        restarts=table.required("restarts", length, 1),
        mixture_chunk=table.required("mixture_chunk", length, 1),
        replicate_chunk=table.required("replicate_chunk", length, 1),
        model_chunk=table.required("model_chunk", length, 1),
        scale=table.required("scale", choice(SCALES), "none"),
        adaptive=table.optional("adaptive", _flag, False),
    )
    table.close()
    _check_grid(table, name, plan)
    return plan


def _check_grid(table: Table, name: str, plan: DatasetPlan) -> None:
    if plan.name != name:
        table.problem("name", repr(plan.name), repr(name))
    if not bool(plan.p) == bool(plan.m) == plan.supervised:
        table.problem("p, m and models", "some of them empty", "all of them, or none")


def _each(check: Check[T], identity: Callable[[T], object]) -> Check[tuple[T, ...]]:
    """A list, perhaps empty, that repeats nothing."""

    def checked(value: Any) -> tuple[T, ...]:
        items = tuple(check(item) for item in array(value))
        if len({identity(item) for item in items}) < len(items):
            raise Bad("each value once")
        return items

    return checked


def _nothing_or(check: Check[T]) -> Check[T | None]:
    return lambda value: None if value is None else check(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Bad("true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise Bad(f"a text of at most {LONGEST_TEXT:,} characters")
    return value
