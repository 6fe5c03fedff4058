"""Names of the methods that come with sweep, to be set beside its models in the same cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import decode_source
from pathlib import Path
from typing import Literal

from sweeps.errors import InputError, Problem
from sweeps.files import read_file

Uses = Literal["links", "nothing"]

FORMS = "a shipped method, package.module:function, or file.py:function"
"""What can be called, in words."""

LONGEST_FILE = 2**20
"""Bytes of a file with a method: it goes to every worker with each batch."""

PER_CALL = 600.0
"""Seconds that a call may take where nothing else is said."""


@dataclass(frozen=True)
class Shipped:
    """What a sweep needs to know of a method before it runs.

    Parameters
    ----------
    uses : {"links", "nothing"}
        Whether it sees annotations. One that does not is a baseline: it depends on the data alone.
    restarts : int
        Calls for a cell unless the sweep file says otherwise: 10 where starts are random and an objective
        tells which call was best, else 1.
    text : str
        What it is, and where it was published.
    package : str
        Whose version its answers depend on; empty for one of our own.
    """

    uses: Uses
    restarts: int
    text: str
    package: str = ""


_EM = "by expectation maximisation (Dempster, Laird and Rubin 1977)"

SHIPPED: dict[str, Shipped] = {
    "k-means": Shipped(
        "nothing", 10, "k-means from k-means++ starts (Arthur and Vassilvitskii 2007)", "sklearn"
    ),
    "gaussian-mixture-spherical": Shipped(
        "nothing", 10, f"Gaussian mixture, one variance a cluster, {_EM}", "sklearn"
    ),
    "gaussian-mixture-diag": Shipped(
        "nothing", 10, f"Gaussian mixture, diagonal covariances, {_EM}", "sklearn"
    ),
    "gaussian-mixture-tied": Shipped(
        "nothing", 10, f"Gaussian mixture, one covariance for all, {_EM}", "sklearn"
    ),
    "gaussian-mixture-full": Shipped("nothing", 10, f"Gaussian mixture, a covariance each, {_EM}", "sklearn"),
    "ward": Shipped("nothing", 1, "agglomeration by least increase of inertia (Ward 1963)", "sklearn"),
    "spectral-links": Shipped(
        "links",
        1,
        "spectral clustering, links written into the affinity (Kamvar, Klein and Manning 2003)",
        "sklearn",
    ),
    "cop-kmeans": Shipped(
        "links", 10, "k-means that breaks no link (Wagstaff et al. 2001); no solution where links contradict"
    ),
    "pckmeans": Shipped(
        "links", 10, "k-means with a cost for each broken link (Basu, Banerjee and Mooney 2004)"
    ),
    "correlation-clustering": Shipped(
        "links", 10, "most agreement with the annotations alone, at most K clusters (Bansal et al. 2004)"
    ),
}
"""Methods by name. A name stays: cubes hold it."""


@cache
def installed_version(package: str) -> str:
    """Distribution and version of a top-level package; found once, as that reads all of them."""
    names = packages_distributions().get(package, [])
    return ", ".join(sorted(f"{name} {version(name)}" for name in set(names)))


def read_code(path: Path) -> bytes:
    """Content of a Python file with a method.

    Raises
    ------
    InputError
        If it cannot be read, or is too large.
    """
    return read_file(path, LONGEST_FILE, "a Python file")


def text_of_code(path: Path, content: bytes) -> str:
    """Text of a Python file as Python reads it, by its mark of byte order and its line on the coding.

    Raises
    ------
    InputError
        If it is not in that coding.
    """
    try:
        return decode_source(content)
    except (SyntaxError, ValueError) as error:
        found = f"bytes that are no text ({error})"
        raise InputError([Problem(str(path), found, "a Python file, in UTF-8 or as it says")]) from None
