"""Counts of what makes the code hard to read for an engineer from elsewhere."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from checkout import ROOT

FOLDERS = ("kernels", "pipeline", "storage", "sweeps", "sweep_clustering")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DESCRIPTION = re.compile(r"(?<=\n)( {4,})(?:Of|What)\b")


def modules() -> Iterator[ast.Module]:
    """Yield the syntax tree of each module, without those behind the links of the package."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.resolve() == path:
                yield ast.parse(path.read_text(encoding="utf-8"))


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of variables and parameters, once for each place that gives them a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def n_lines(first: ast.stmt, last: ast.stmt) -> int:
    """Return the number of lines from one statement to another."""
    return (last.end_lineno or last.lineno) - first.lineno + 1


def is_long_tuple(annotation: ast.expr | None) -> bool:
    """Whether an annotation is a tuple of three or more elements."""
    if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value) != "tuple":
        return False
    return isinstance(annotation.slice, ast.Tuple) and (
        len(annotation.slice.elts) >= 3 and "..." not in map(ast.unparse, annotation.slice.elts)
    )


@cache
def counts() -> Counter[str]:
    """Return how often each fault occurs in the code of the package."""
    total: Counter[str] = Counter()
    for tree in modules():
        names = Counter(bound_names(tree))
        total["found"] += names["found"]
        total["each"] += names["each"]
        total["told, said"] += sum(
            isinstance(node, ast.Name) and node.id in ("told", "said") for node in ast.walk(tree)
        )
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Module, ast.ClassDef, *DEFINITIONS)):
                continue
            text = ast.get_docstring(node)
            if text is not None:
                total["descriptions with Of or What"] += len(DESCRIPTION.findall(text))
            if isinstance(node, DEFINITIONS):
                total["tuples of three"] += is_long_tuple(node.returns)
                if text is not None and len(node.body) > 1:
                    is_longer = n_lines(node.body[0], node.body[0]) > n_lines(node.body[1], node.body[-1])
                    total["docstring longer than body"] += is_longer
    return total
