"""Texts of every machine: docstrings and functions of the standard library, with their modules as classes.

Each row has length one: the first 100 singular vectors of word counts, which depend on the version of Python.
"""

import ast
import re
import sysconfig
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

# Words of a text at least and at most, and texts of a module at least.
WORDS = (8, 60)
MIN_TEXTS = 10

# Functions of each module.
FUNCTIONS = 25

DIMS = 100
LEFT_OUT = {"site-packages", "test", "tests", "idle_test"}

Data = tuple[NDArray[np.float64], NDArray[np.int64]]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def docstrings(minimum: int = MIN_TEXTS) -> Data:
    """Return the docstrings of modules that have so many, as many as each has."""
    texts = {name: sorted(part) for name, part in _texts(_docstring).items() if len(part) >= minimum}
    return _rows([text for part in texts.values() for text in part], [len(part) for part in texts.values()])


def functions(minimum: int = FUNCTIONS) -> Data:
    """Return the names in functions, so many of each module that has as many: 25, from ninety modules."""
    texts = {name: sorted(part) for name, part in _texts(_names).items() if len(part) >= minimum}
    rng = np.random.default_rng(0)
    sample = [text for part in texts.values() for text in rng.choice(part, minimum, replace=False).tolist()]
    return _rows(sample, [minimum] * len(texts))


def _texts(read: Callable[[Definition], str]) -> dict[str, set[str]]:
    """Return what is read of each function and class, by the first part of the name of its module."""
    root, texts = Path(sysconfig.get_path("stdlib")), defaultdict[str, set[str]](set)
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if LEFT_OUT.intersection(parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="ignore"))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, Definition):
                words = re.sub("[^A-Za-z]+", " ", read(node)).split()
                if len(words) >= WORDS[0]:
                    texts[parts[0].removesuffix(".py")].add(" ".join(words[: WORDS[1]]))
    return texts


def _docstring(node: Definition) -> str:
    return ast.get_docstring(node) or ""


def _names(node: Definition) -> str:
    """Return the names of variables and attributes in a function or class."""
    nodes = ast.walk(node)
    return " ".join(
        part.id if isinstance(part, ast.Name) else part.attr
        for part in nodes
        if isinstance(part, ast.Name | ast.Attribute)
    )


def _rows(texts: list[str], sizes: list[int]) -> Data:
    counts = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=2).fit_transform(texts)
    rows = TruncatedSVD(DIMS, random_state=0).fit_transform(counts)
    lengths, labels = np.linalg.norm(rows, axis=1), np.repeat(np.arange(len(sizes)), sizes)
    is_kept = lengths > 0.0
    return rows[is_kept] / lengths[is_kept, None], labels[is_kept]
