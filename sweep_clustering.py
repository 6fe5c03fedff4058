"""Entry of the `sweep` command, and checks of the installation that need none of our four packages.

It stands beside them under a name that no script, folder or package of a user has: an entry inside `pipeline`
could not say that another `pipeline` is found in its place.
"""

import os
import re
import signal
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("pipeline", "kernels", "sweeps", "storage")

BAD_INPUT = 2  # of pipeline.common, which is out of reach where it is needed here


class InstallationError(ImportError):
    """Nothing can be computed with this installation; the text says why, and what to do."""


class ShadowedPackageError(InstallationError):
    """Something else stands before one of our packages on the import path."""


class ArchiveError(InstallationError):
    """The packages are imported from an archive, such as a wheel on the import path."""


class UnsupportedNumpyError(InstallationError):
    """The compiler of the kernels does not support the installed numpy."""


WITHOUT_CHECKS = (
    "Python was started with -O or PYTHONOPTIMIZE, and leaves out statements that zarr needs to read a cube; "
    "expected neither of the two"
)


def main() -> None:
    """Run the command, or say in one message why it cannot."""
    open_standard_streams()
    try:
        if not __debug__:
            raise ImportError(WITHOUT_CHECKS)
        check_shadowing()
    except ImportError as error:
        print(f"sweep: {error}", file=sys.stderr)  # noqa: T201  # click would be loaded for this alone
        sys.exit(BAD_INPUT)
    try:
        from pipeline.commands.main import main as command
        from pipeline.commands.options import let_readers_leave

        let_readers_leave()
        command(prog_name="sweep")
    except KeyboardInterrupt:  # while modules are loaded; later the command itself says so
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("\ninterrupted", file=sys.stderr)  # noqa: T201
        sys.exit(128 + signal.SIGINT)


def open_standard_streams() -> None:
    """Lead standard streams that are closed to nowhere: what is opened next would be taken for one."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # the lowest number that is free, which is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # as long as the process


def check_installation() -> None:
    """Check that our packages are ours and that numba supports numpy, without importing any of them.

    Raises
    ------
    InstallationError
        Where one of the two is not so.
    """
    check_shadowing()
    check_numpy()


def check_numpy() -> None:
    """Check that the installed numba declares support of the installed numpy."""
    from packaging.specifiers import SpecifierSet  # here, as `sweep --help` does without

    try:
        numpy = version("numpy")
    except PackageNotFoundError:  # the import of numpy says more
        return
    if not SpecifierSet(_supported_numpy()).contains(numpy, prereleases=True):
        raise unsupported_numpy(numpy)


def unsupported_numpy(numpy: str, refusal: str = "") -> UnsupportedNumpyError:
    """Return the error that names the versions of numba and numpy, and the command that repairs it.

    Parameters
    ----------
    numpy : str
        Installed version of numpy.
    refusal : str
        Text of the error that numba raised, which may name the newest version that it supports.
    """
    newest = re.search(r"NumPy (\d+)\.(\d+) or less", refusal)
    supported = f"<{newest[1]}.{int(newest[2]) + 1}" if newest else _supported_numpy()
    text = f"numba {version('numba')} does not support numpy {numpy}: pip install 'numpy{supported}'"
    return UnsupportedNumpyError(text)


def _supported_numpy() -> str:
    """Return the versions of numpy that the installed numba declares, such as `<2.6,>=1.22`."""
    from packaging.requirements import Requirement

    try:
        declared = map(Requirement, requires("numba") or ())
    except PackageNotFoundError:
        return ""
    return next((str(requirement.specifier) for requirement in declared if requirement.name == "numpy"), "")


def check_shadowing() -> str:
    """Check that all four packages come from this installation: in a command, a script, or on a worker.

    PyPI has other packages called `kernels` and `sweeps`, and a user may have a `pipeline.py`. A folder of
    the same name without `__init__.py` does no harm: Python prefers ours.

    Returns
    -------
    str
        Folder they were found in.

    Raises
    ------
    ShadowedPackageError
        Naming everything that was found in place of a package, and what to do.
    ArchiveError
        If this installation is an archive, which has no files for compiled kernels and worker processes.
    """
    if not os.path.isfile(__file__):
        archive = next((place for place in Path(__file__).parents if place.is_file()), Path(__file__).parent)
        raise ArchiveError(
            f"found this project in the archive {archive}, expected files, which compiled kernels and worker"
            f" processes need: pip install {archive}"
        )
    home = Path(__file__).resolve().parent
    found = {package: location(package) for package in PACKAGES}
    strangers = {package: place for package, place in found.items() if place != home / package}
    if strangers:
        lines = ["packages of this project are shadowed by others of the same name:"]
        lines += [
            f"  {package}: found {place or 'nothing'}, expected {home / package}"
            for package, place in strangers.items()
        ]
        raise ShadowedPackageError("\n".join([*lines, *dict.fromkeys(map(_remedy, strangers.values()))]))
    return str(home)


def location(package: str) -> Path | None:
    """File or folder that `import package` takes; None where there is nothing of that name.

    It is looked for, not imported: code of others may do anything when imported.
    """
    found = find_spec(package)
    if found is None:
        return None
    folders = list(found.submodule_search_locations or [])
    return Path(folders[0] if folders else found.origin or "").resolve()


def _remedy(place: Path | None) -> str:
    if place is None:
        return "install this project again"
    if {"site-packages", "dist-packages"} & set(place.parts):
        return "uninstall the other package, or use an environment of its own for this project"
    safe = "with PYTHONSAFEPATH=1, which leaves out the current directory and that of the script"
    return f"rename {place}, or run in another directory, without it in PYTHONPATH, or {safe}"


if __name__ == "__main__":
    main()
