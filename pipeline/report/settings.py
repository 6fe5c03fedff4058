"""What two cubes were asked for differently: every key of their sweep files, at its value or its default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernels.settings import LENGTHS, method_words
from storage.cube.manifest import Manifest
from sweeps.file.search import BY_METHOD, HELD_OUT, Search
from sweeps.file.spec import SweepSpec

NONE = "none"
"""A table or a list that a sweep file leaves out, and that has no keys by default."""


def differences(a: Manifest, b: Manifest) -> Iterator[str]:
    """Lines on what the sweeps of two cubes have differently, and what that means for pairs.

    Parameters
    ----------
    a, b : Manifest
        Of the two cubes.

    Yields
    ------
    str
        A key with both of its values, which are those that the runs used: a default is a value too. A data
        set or a search that one of them lacks is named.
    """
    for side, mine, its in (("A", a.spec, b.spec), ("B", b.spec, a.spec)):
        called = search_called(mine, its)
        if not mine.search_names and called in its.search_names:
            yield f"search: the one of {side} is {called} of {'B' if side == 'A' else 'A'}"
    searches = [_searches(a.spec, b.spec), _searches(b.spec, a.spec)]
    shared = {name for name in searches[0] if name in searches[1]}
    sides = zip((a, b), searches, strict=True)
    found = [_keys(each.spec, {name: side[name] for name in side if name in shared}) for each, side in sides]
    for key in dict.fromkeys([*found[0], *found[1]]):
        values = [side.get(key, NONE) for side in found]
        if values[0] != values[1]:
            yield f"{key}: A {values[0]}, B {values[1]}"
    for name in dict.fromkeys([*searches[0], *searches[1]]):
        if name not in shared:
            where = "B" if name in searches[1] else "A"
            told = {**searches[0], **searches[1]}[name].named()
            yield f"search {name}: only in {where} ({', '.join(f'{key} {told[key]}' for key in told)})"
    entries = [_datasets(each.spec) for each in (a, b)]
    for name in dict.fromkeys([*entries[0], *entries[1]]):
        lacking = [name not in side for side in entries]
        if any(lacking):
            yield f"data set {name}: only in {'B' if lacking[0] else 'A'}"
            continue
        one, other = (side[name] for side in entries)
        for key in dict.fromkeys([*one, *other]):
            values = [side.get(key, NONE) for side in (one, other)]
            if values[0] != values[1]:
                yield f"{name}.{key}: A {values[0]}, B {values[1]}"
    if a.spec.seed != b.spec.seed:
        yield "the seeds differ: pairs have the same coordinates, but not the same draws"
    for name in a.plans:
        if name in b.plans and a.plans[name].checksum != b.plans[name].checksum:
            yield f"{name} is not the same data in both: the checksums differ"


def search_called(spec: SweepSpec, other: SweepSpec) -> str:
    """What the only search of a sweep is called in another: by its settings, else by its method."""
    first = spec.search[0]
    names = (each.name for each in other.search if each.name and each.settings == first.settings)
    return next(names, method_words(first))


def _searches(spec: SweepSpec, other: SweepSpec) -> dict[str | None, Search]:
    """Searches by name; the only one of a sweep has one where the other sweep has several."""
    called = search_called(spec, other) if other.search_names else None
    return {each.name or called: each for each in spec.search}


def _keys(spec: SweepSpec, searches: Mapping[str | None, Search]) -> dict[str, str]:
    """Every key but those of the data sets, by its path; a search by its method and what that leaves open."""
    plain = spec.model_dump(mode="json", exclude={"name"})
    every = {name: _every(each) for name, each in searches.items()}
    plain["search"] = every.get(None, every)
    del plain["grid"]["datasets"]
    return dict(_flat(plain))


def _every(search: Search) -> dict[str, Any]:
    told = set(BY_METHOD) - LENGTHS
    others = {name: value for name, value in vars(search.settings).items() if name not in told}
    return {**search.named(), **others, HELD_OUT: search.held_out}


def _datasets(spec: SweepSpec) -> dict[str, dict[str, str]]:
    plain = spec.model_dump(mode="json")["grid"]["datasets"]
    return {entry["name"]: dict(_flat({k: v for k, v in entry.items() if k != "name"})) for entry in plain}


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        elif value is not None:
            yield above + key, _words(value)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_words(each) for each in value) or NONE
    if isinstance(value, Mapping):
        return str(value.get("name", dict(value)))
    return str(value).lower() if isinstance(value, bool) else str(value)
