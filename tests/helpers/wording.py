"""The faults that make code hard to read for an engineer from elsewhere are counted here."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache

from checkout import ROOT

FOLDERS = ("kernels", "pipeline", "storage", "sweeps", "sweep_clustering")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
VAGUE = {"each", "found", "given", "made", "own", "said", "seen", "shown", "told", "wanted"}
# Prepositions, adverbs, pronouns and bare verbs: a name of the packages says what the thing is.
NO_NOUN = re.compile(
    "_?(above|after|again|agreed|agrees|along|also|among|apart|before|began|below|beside|between|beyond|both"
    "|drawn|every|few|inside|kept|lacking|leading|leaving|listed|marked|merged|more|most|needed|now|over|packed"
    "|says|settled|shared|some|taken|tested|used|waiting|who|within|without|written)"
)
DESCRIPTION = re.compile(r"(?<=\n)( {4,})(?:Of|What)\b")


LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def modules(*folders: str) -> Iterator[str]:
    """Yield the text of each module of some folders, without those behind the links of the package."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.resolve() == path:
                yield path.read_text(encoding="utf-8")


def sizes(text: str, nodes: list[ast.AST]) -> Counter[str]:
    """Return the numbers of lines of code, of docstrings and of imports, without blank lines."""
    docstrings: set[int] = set()
    imports: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif (
            isinstance(node, (ast.Module, ast.ClassDef, *DEFINITIONS)) and ast.get_docstring(node) is not None
        ):
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    n_code = len(lines - docstrings - imports)
    return Counter(
        {
            "modules with code": int(n_code > 0),
            "lines of code": n_code,
            "lines of docstrings": len(docstrings),
            "lines of imports": len(imports),
        }
    )


def bound_names(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names of variables and parameters, once for each place that gives them a value."""
    for node in nodes:
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


def has_several_constants(node: ast.AST) -> bool:
    """Whether a statement gives values to several constants."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and all(isinstance(name, ast.Name) and name.id.isupper() for name in node.targets[0].elts)
    )


@cache
def counts() -> Counter[str]:
    """Return the number of lines of the package, and how often its code has each fault."""
    total: Counter[str] = Counter()
    for text in modules(*FOLDERS):
        nodes = list(ast.walk(ast.parse(text)))
        total += sizes(text, nodes)
        names = list(bound_names(nodes))
        total["vague names"] += sum(name in VAGUE for name in names)
        total["names that are no nouns"] += len([name for name in names if NO_NOUN.fullmatch(name)])
        for node in nodes:
            total["uses of Any"] += isinstance(node, ast.Name) and node.id == "Any"
            total["statements with several constants"] += has_several_constants(node)
            if isinstance(node, ast.Call):
                total["calls with splats"] += any(keyword.arg is None for keyword in node.keywords)
            if not isinstance(node, (ast.Module, ast.ClassDef, *DEFINITIONS)):
                continue
            docstring = ast.get_docstring(node)
            if docstring is not None:
                total["descriptions with Of or What"] += len(DESCRIPTION.findall(docstring))
            if isinstance(node, DEFINITIONS):
                total["tuples of three"] += is_long_tuple(node.returns)
                if docstring is not None and len(node.body) > 1:
                    is_longer = n_lines(node.body[0], node.body[0]) > n_lines(node.body[1], node.body[-1])
                    total["docstring longer than body"] += is_longer
    for text in modules("benchmarks", "docs", "tests"):
        nodes = list(ast.walk(ast.parse(text)))
        total["vague names"] += sum(name in VAGUE for name in bound_names(nodes))
    total["lines of docstrings for 100 lines of code"] = (
        100 * total["lines of docstrings"] // total["lines of code"]
    )
    return total
