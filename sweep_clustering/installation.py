"""Checks of the installation, which load neither the kernels nor any library that may be missing."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

WITHOUT_CHECKS = (
    "Python was started with -O or PYTHONOPTIMIZE, and leaves out statements that zarr needs to read a cube; "
    "expected neither of the two"
)


class InstallationError(ImportError):
    """Nothing can be computed with this installation; the text says why, and what to do."""


class ArchiveError(InstallationError):
    """The package is imported from an archive, such as a wheel on the import path."""


class UnsupportedNumpyError(InstallationError):
    """The compiler of the kernels does not support the installed numpy."""


def check_files() -> None:
    """Raise ArchiveError for an import from an archive, which has no files for kernels and workers."""
    if not Path(__file__).is_file():
        archive = next((place for place in Path(__file__).parents if place.is_file()), Path(__file__).parent)
        raise ArchiveError(
            f"found this project in the archive {archive}, expected files, which compiled kernels and worker"
            f" processes need: pip install {archive}"
        )


def check_numpy() -> None:
    """Raise UnsupportedNumpyError if the installed numba does not declare support of the installed numpy."""
    from packaging.specifiers import SpecifierSet  # not above, because `sweep --help` needs no packaging

    try:
        numpy = version("numpy")
    except PackageNotFoundError:  # the import of numpy says more
        return
    if not SpecifierSet(_supported_numpy()).contains(numpy, prereleases=True):
        raise unsupported_numpy(numpy)


def unsupported_numpy(numpy: str, refusal: str = "") -> UnsupportedNumpyError:
    """Return the error that names the versions of numba and numpy, and the command that repairs it.

    `refusal` is the text of numba's own error, which may name the newest version that it supports.
    """
    newest = re.search(r"NumPy (\d+)\.(\d+) or less", refusal)
    supported = f"<{newest[1]}.{int(newest[2]) + 1}" if newest else _supported_numpy()
    text = f"numba {version('numba')} does not support numpy {numpy}: pip install 'numpy{supported}'"
    return UnsupportedNumpyError(text)


def same_arithmetic() -> dict[str, str]:
    """Return variables by which all processors of the kind x86-64-v3 and later compute the same last bits.

    numpy and OpenBLAS choose their code by the processor, when they are loaded. With these variables, which
    cost no time (docs/explanation/machines.md), they choose that of 2013. Other processors get none.
    """
    flags = set[str]()
    if platform.machine() in ("x86_64", "AMD64"):
        with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((set(line.split()) for line in file if line.startswith("flags")), flags)
    if not {"avx2", "fma"} <= flags:
        return {}
    older = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
    is_grouped = tuple(map(int, version("numpy").split(".")[:2])) >= (2, 4)
    wide = "X86_V4 AVX512_ICL" if is_grouped else older
    return {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": wide}


def _supported_numpy() -> str:
    """Return the versions of numpy that the installed numba declares, such as `<2.6,>=1.22`."""
    from packaging.requirements import Requirement

    try:
        declared = map(Requirement, requires("numba") or ())
    except PackageNotFoundError:
        return ""
    return next((str(requirement.specifier) for requirement in declared if requirement.name == "numpy"), "")
