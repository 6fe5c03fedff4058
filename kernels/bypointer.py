"""Named tuples that kernels hand to each other by pointer: which, without loading the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C", bound=type)

_declared: list[type] = []
_listeners: list[Callable[[type], None]] = []


def by_pointer(cls: C) -> C:
    """Have kernels hand over instances of a named tuple by pointer; they read its fields, by name alone."""
    _declared.append(cls)
    for listen in _listeners:
        listen(cls)
    return cls


def on_each(listen: Callable[[type], None]) -> None:
    """Call a function with each such class, those declared later too."""
    for cls in _declared:
        listen(cls)
    _listeners.append(listen)
