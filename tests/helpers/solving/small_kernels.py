"""A copy of the package `kernels` with two kernels that compile in a moment."""

from __future__ import annotations

import shutil
from pathlib import Path

import kernels

INNER = "from kernels.jit import jit\n\n@jit\ndef inner(x):\n    return x + {}\n"
OUTER = (
    "from kernels.inner import inner\nfrom kernels.jit import jit\n\n"
    "@jit\ndef outer(x):\n    return 10 * inner(x)\n"
)


def copy_of_kernels(folder: Path) -> Path:
    """The package in `folder`, with a kernel that calls one of another module: outer(1) is 20."""
    package = folder / "kernels"
    source = Path(kernels.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "inner.py").write_text(INNER.format(1))
    (package / "outer.py").write_text(OUTER)
    return package
