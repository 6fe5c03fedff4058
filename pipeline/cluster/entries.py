"""The text of cluster.yaml as plain values, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from sweeps.errors import InputError, Problem
from sweeps.files import read_file

MOST_BYTES = 2**18
"""Of a file: PyYAML reads about 100 kB a second."""

MOST_NESTED = 20
"""Levels of tables and lists; a profile has three."""

MOST_VALUES = 10_000
"""Keys and values, those that an alias repeats counted each time: nine lines can stand for 10^9."""

MERGE, TEXT = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:str"
READ_AS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null", "timestamp"))


class _Loader(yaml.SafeLoader):
    """Refuses a text that is nested too deep before Python's stack is used up."""

    _level = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self._level += 1
        if self._level > MOST_NESTED:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MOST_NESTED} levels", mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1


def read_entries(origin: Path) -> Any:
    """Read a YAML file; every key is the text that is written.

    Parameters
    ----------
    origin : Path
        The file.

    Raises
    ------
    InputError
        If it cannot be read, is larger, nested deeper or repeats more than a file of profiles needs, or has a
        key twice.
    """
    content = read_file(origin, MOST_BYTES, "a readable file of profiles", pipe=True)
    try:
        return _values(str(origin), content.decode())
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        found = f"a YAML error: {' '.join(str(error).split())}"
        raise InputError([Problem(str(origin), found, "a YAML file of profiles")]) from error


def _values(where: str, text: str) -> Any:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        count, _ = _measured(root, {}, where)
        if count > MOST_VALUES:
            found = f"{count:,} values with what its aliases repeat"
            raise InputError([Problem(where, found, f"at most {MOST_VALUES:,}")])
        problems = list(_key_problems(root, where, set()))
        if problems:
            raise InputError(problems)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [child for pair in node.value for child in pair]
    return [] if isinstance(node, ScalarNode) else list(node.value)


def _measured(node: Node, known: dict[int, tuple[int, int] | None], where: str) -> tuple[int, int]:
    """Number of values and depth below a node, what aliases repeat counted each time."""
    if id(node) in known:
        found = known[id(node)]
        if found is None:
            place = f"{where}, line {node.start_mark.line + 1}"
            raise InputError([Problem(place, "an alias inside of what it stands for", "values that end")])
        return found
    known[id(node)] = None
    below = [_measured(child, known, where) for child in _children(node)]
    count, depth = 1 + sum(n for n, _ in below), 1 + max((levels for _, levels in below), default=0)
    if depth > MOST_NESTED:
        place = f"{where}, line {node.start_mark.line + 1}"
        raise InputError([Problem(place, f"{depth} levels with its aliases", f"at most {MOST_NESTED}")])
    known[id(node)] = count, depth
    return count, depth


def _key_problems(node: Node, where: str, seen: set[int]) -> Iterator[Problem]:
    """Keys that are no texts or stand twice; one that YAML reads as a truth value or a number is its text.

    YAML 1.1 reads the key `on` as true and 8787 as a number; no profile has keys but texts.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    names: set[str] = set()
    for key, _ in node.value if isinstance(node, MappingNode) else ():
        place = f"{where}, line {key.start_mark.line + 1}"
        if not isinstance(key, ScalarNode):
            yield Problem(place, "a table or a list as a key", "a text as a key")
            continue
        key.tag = TEXT if key.tag in READ_AS else key.tag
        if key.value in names and key.tag != MERGE:
            yield Problem(place, f"the key {key.value[:60]!r} again", "each key once")
        names.add(key.value)
    for child in _children(node):
        yield from _key_problems(child, where, seen)
