"""Start-up check: our four packages are ours."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("pipeline", "kernels", "sweeps", "storage")


class ShadowedPackageError(ImportError):
    """A package of another project stands before one of ours on the import path."""


def installed_at(package: str) -> Path | None:
    """Folder that holds the folder of `package`, None where there is no such package.

    The package is looked for, not imported: one of another project may do anything when imported.
    """
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations))).resolve().parent


def check_shadowing() -> str:
    """Check that all four packages come from one installation, on the driver or on a worker.

    PyPI has other packages called `kernels` and `sweeps`.

    Returns
    -------
    str
        Folder they were found in.

    Raises
    ------
    ShadowedPackageError
        Naming every package that was found elsewhere, or nowhere, and where.
    """
    home = Path(__file__).resolve().parents[1]
    places = {package: installed_at(package) for package in PACKAGES}
    strangers = [
        f"  {package}: found {'nowhere' if place is None else f'in {place}'}, expected in {home}"
        for package, place in places.items()
        if place != home
    ]
    if strangers:
        raise ShadowedPackageError(
            "packages of this project are shadowed by others of the same name:\n"
            + "\n".join(strangers)
            + "\nuninstall the other package, or use an environment of its own for this project"
        )
    return str(home)
