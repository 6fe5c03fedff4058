"""Check whether a changed sweep extends an existing cube."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from storage.cube.manifest import Manifest
from storage.cube.records import NAMES
from sweeps.errors import Problem
from sweeps.file.search import BY_METHOD, HELD_OUT, Search
from sweeps.file.spec import SweepSpec
from sweeps.plan import DatasetPlan
from sweeps.seeds import accuracy_code
from sweeps.shapes import DIMS, widest_dims
from sweeps.words import asked_of, shape_of

T = TypeVar("T")

HINT = "use another name"
NAME_HINT = "name them as the cube does, or use another name for it"
GROWING = {
    *("source", "mixtures", "p", "m", "replicates", "models", "baselines", "methods", "designs", "searches")
}
CHUNKS = {"mixture_chunk", "replicate_chunk", "model_chunk"}
FORMS = ("one variance a cluster", "a variance of each feature a cluster", "a matrix a cluster")
"""How covariances are stored, by the axes that each has beside the cluster."""
STATED = {"adaptive", "held_out"}
"""Follow from the sweep file: the difference there is reported instead."""


def differences(manifest: Manifest, spec: SweepSpec, plans: Iterable[DatasetPlan]) -> list[Problem]:
    """All differences that keep a sweep from extending the one in the cube.

    Parameters
    ----------
    manifest : Manifest
        The cube as it is.
    spec : SweepSpec
        The sweep asked for.
    plans : iterable of DatasetPlan
        The grid asked for, of the data sets that are available now.

    Returns
    -------
    list of Problem
        Empty if the sweep may be submitted to this cube.
    """
    new_plans = {plan.name: plan for plan in plans}
    problems = list(_spec_differences(manifest, spec))
    in_file = set(new_plans) | {entry.name for entry in spec.grid.datasets}
    for name, old in manifest.plans.items():
        if name in new_plans:
            problems += _plan_differences(manifest, old, new_plans[name])
        elif name not in in_file:
            where = f"{manifest.path}: grid.datasets"
            problems.append(Problem(where, f"no {name!r}", f"{name!r}, which the cube holds", HINT))
    return problems


def align(manifest: Manifest, plans: Iterable[DatasetPlan]) -> list[DatasetPlan]:
    """Plans with the layout of the cube.

    Parameters
    ----------
    manifest : Manifest
        The cube as it is.
    plans : iterable of DatasetPlan
        The grid asked for; `differences` must have found nothing.

    Returns
    -------
    list of DatasetPlan
        In the given order, with the chunk lengths and the source of the cube, and with its `p`, `m`,
        designs, searches and models before new ones.
    """
    return [_align(manifest.plans.get(plan.name), plan) for plan in plans]


def _align(old: DatasetPlan | None, new: DatasetPlan) -> DatasetPlan:
    if old is None:
        return new
    new = replace(
        new,
        source=old.source,
        mixture_chunk=old.mixture_chunk,
        baselines=_joined(old.baselines, new.baselines),
        searches=_joined(old.searches, new.searches),
        # a cube keeps the names it was made with, or none: they are in the metadata of what is there already
        **{key: getattr(old, key) for key in NAMES},
    )
    if not old.supervised:
        return new
    stored = {accuracy_code(p) for p in old.p}
    return replace(
        new,
        p=old.p + tuple(p for p in new.p if accuracy_code(p) not in stored),
        m=_joined(old.m, new.m),
        models=_joined(old.models, new.models),
        designs=_joined(old.designs, new.designs),
        replicate_chunk=old.replicate_chunk,
        model_chunk=old.model_chunk,
    )


def _joined(old: tuple[T, ...], new: tuple[T, ...]) -> tuple[T, ...]:
    """What the cube has, then what it has not."""
    return old + tuple(each for each in new if each not in old)


def _spec_differences(manifest: Manifest, spec: SweepSpec) -> Iterator[Problem]:
    yield from _changed(manifest, _fixed(manifest.spec), _fixed(spec))
    yield from _search_differences(manifest, spec)
    yield from _changed(manifest, _stop(manifest.spec), _stop(spec))
    yield from _method_differences(manifest, spec)
    yield from _design_differences(manifest, spec)


def _changed(manifest: Manifest, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    for key in dict.fromkeys([*old, *new]):
        stored, asked = old.get(key), new.get(key)
        if stored != asked:
            yield Problem(f"{manifest.path}: {key}", _show(asked), f"{_show(stored)}, as in the cube", HINT)


def _search_differences(manifest: Manifest, spec: SweepSpec) -> Iterator[Problem]:
    """Searches gone; several where the cube has no dimension for them; and other settings under one name."""
    where, stored, asked = f"{manifest.path}: search", manifest.spec.search_names, spec.search_names
    gone = [name for name in stored if name not in asked]
    if asked and gone:
        yield Problem(where, _listed(asked), f"also {', '.join(gone)}", _renamed(manifest.spec, spec) or HINT)
    elif bool(asked) != bool(stored):
        also = "also " if stored else "as in the cube, which has no room for more: "
        yield Problem(where, _listed(asked), also + _listed(stored), HINT)
    for search in manifest.spec.search:
        if search.name is None and not asked:
            yield from _setting_differences(where, search, spec.search[0], "[search]")
        elif search.name in asked:
            under = f"the search {search.name!r}"
            yield from _setting_differences(
                f"{where} {search.name}", search, spec.search_of(search.name), under
            )


def _renamed(stored: SweepSpec, asked: SweepSpec) -> str:
    """Searches of the cube that the file has under other names."""
    old = {each.settings: each.name for each in stored.search}
    found = {each.name: old[each.settings] for each in asked.search if each.settings in old}
    same = ", ".join(f"{new} is its {name}" for new, name in found.items() if new != name)
    return f"name them as the cube does: {same}" if same else ""


def _listed(searches: tuple[str, ...]) -> str:
    return f"searches {', '.join(searches)}" if searches else "one search"


def _setting_differences(where: str, stored: Search, asked: Search, under: str) -> Iterator[Problem]:
    """Settings that another search has, the method first."""
    of_cube, of_file = stored.written(), asked.written()
    told = of_cube["method"] != of_file["method"]
    if told:
        expected = f"{_settings(of_cube, stored)}, as in the cube"
        yield Problem(f"{where}.method", _settings(of_file, asked), expected, _to_grow(of_cube, under))
    for name in sorted([*vars(stored.settings), HELD_OUT]):
        old, new = getattr(stored, name), getattr(asked, name)
        if old != new and not (told and name in BY_METHOD):
            # what was left out may go by another method now, so that nothing in the file has to have changed
            hint = _to_grow({name: old}, under) if name in (*BY_METHOD, HELD_OUT) else HINT
            yield Problem(f"{where}.{name}", _show(new), f"{_show(old)}, as in the cube", hint)


def _method_differences(manifest: Manifest, spec: SweepSpec) -> Iterator[Problem]:
    """Methods that kept their name but not their code, options or calls: their cells would not compare."""
    asked = {method.name: method.science for method in spec.grid.methods}
    for method in manifest.spec.grid.methods:
        new = asked.get(method.name, method.science)
        for key, stored in method.science.items():
            if stored != new[key]:
                where = f"{manifest.path}: method {method.name}, {key}"
                hint = "give the method another name"
                yield Problem(where, _show(new[key]), f"{_show(stored)}, as in the cube", hint)


def _design_differences(manifest: Manifest, spec: SweepSpec) -> Iterator[Problem]:
    """Designs gone; several of them where the cube has no dimension for them; and other questions."""
    if not any(plan.supervised for plan in manifest.plans.values()):
        return
    where, stored, asked = f"{manifest.path}: grid.design", manifest.spec.grid.design, spec.grid.design
    if not spec.grid.supervised:
        return  # that all models are gone is reported
    gone = [design for design in stored if design not in asked]
    if gone or (len(asked) > 1) != (len(stored) > 1):
        room = f"as in the cube, which has no room for more: {', '.join(stored)}"
        yield Problem(where, ", ".join(asked), f"also {', '.join(gone)}" if len(stored) > 1 else room, HINT)
    if asked_of(stored):
        for key, (old, new) in _both(dict(manifest.spec.ask), dict(spec.ask)).items():
            if old != new:
                yield Problem(
                    f"{manifest.path}: ask.{key}", _show(new), f"{_show(old)}, as in the cube", HINT
                )


def _both(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {key: (getattr(old[key], "text", old[key]), getattr(new[key], "text", new[key])) for key in old}


def _settings(written: Mapping[str, Any], search: Search) -> str:
    """The method with all that goes by it."""
    values = ", ".join(f"{name} {_show(getattr(search, name))}" for name in BY_METHOD)
    return f"{_show(written['method'])} ({values})"


def _to_grow(stored: Mapping[str, Any], under: str) -> str:
    """What a sweep file has to say for the search of the cube."""
    keys = ", ".join(f"{name} = {json.dumps(value)}" for name, value in stored.items())
    return f"to grow this cube write {keys} under {under}, and no key that says otherwise; or {HINT}"


def _fixed(spec: SweepSpec) -> dict[str, Any]:
    """What of a sweep may not change, by table and key; `[data]` changes no number."""
    return {"name": spec.name, "seed": spec.seed, "grid.restarts": spec.grid.restarts}


def _stop(spec: SweepSpec) -> dict[str, Any]:
    stop = dict(spec.stop or ())
    return {f"stop.{key}": stop[key] for key in sorted(stop)}


def _plan_differences(manifest: Manifest, old: DatasetPlan, new: DatasetPlan) -> Iterator[Problem]:
    where = f"{manifest.path}: data set {old.name}"
    for key in sorted({each.name for each in fields(DatasetPlan)} - GROWING - CHUNKS - STATED - {*NAMES}):
        stored, asked = getattr(old, key), getattr(new, key)
        if stored != asked:
            yield Problem(f"{where}, {key}", _show(asked), f"{_show(stored)}, as in the cube", HINT)
    for key in NAMES:
        stored, asked = getattr(old, key), getattr(new, key)
        if stored and asked and stored != asked:
            yield Problem(f"{where}, {key}", _show(asked), f"{_show(stored)}, as in the cube", NAME_HINT)
    for gone in old.baselines:
        if gone not in new.baselines:
            yield Problem(f"{where}, models", f"no {gone!r}", f"{gone!r}, which the cube holds", HINT)
    yield from _length(where, "mixtures", old.mixtures, new.mixtures, old.mixture_chunk)
    if old.supervised:
        yield from _removed(where, "p", _by_code(old.p), _by_code(new.p))
        yield from _removed(where, "m", {m: m for m in old.m}, {m: m for m in new.m})
        yield from _removed(where, "models", {m: m for m in old.models}, {m: m for m in new.models})
        yield from _length(where, "replicates", old.replicates, new.replicates)
        yield from _length(where, "number of models", len(old.models), len(new.models), old.model_chunk)
        yield from _wider(where, old.models, new.models)


def _by_code(accuracies: Iterable[float]) -> dict[int, float]:
    return {accuracy_code(p): p for p in accuracies}


def _removed(where: str, key: str, old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Iterator[Problem]:
    gone = [_show(old[code]) for code in old if code not in new]
    if gone:
        found = ", ".join(_show(value) for value in new.values()) or "none"
        yield Problem(f"{where}, {key}", found, f"also {', '.join(gone)}, which the cube holds", HINT)


def _wider(where: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[Problem]:
    """Models whose covariances the cube has no room for: its chunks would have to be written again."""
    n_axes = len(widest_dims(map(shape_of, old)))
    if wider := [model for model in new if len(DIMS[shape_of(model)]) > n_axes]:
        found = f"{', '.join(map(repr, wider))} with {FORMS[len(widest_dims(map(shape_of, wider)))]}"
        yield Problem(f"{where}, models", found, f"{FORMS[n_axes]}, as in the cube", HINT)


def _length(where: str, key: str, old: int | None, new: int | None, chunk: int = 1) -> Iterator[Problem]:
    if old is None or new is None:
        if old != new:
            yield Problem(f"{where}, {key}", _show(new), f"{_show(old)}, as in the cube", HINT)
    elif new < old:
        yield Problem(f"{where}, {key}", str(new), f"at least the {old} in the cube", HINT)
    elif new % chunk:
        expected = f"a multiple of {chunk}, the length at creation"
        yield Problem(f"{where}, {key}", str(new), expected, HINT)


def _show(value: object) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    return "nothing" if value is None else repr(value)
