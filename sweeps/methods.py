"""Names of the methods that come with sweep, to be set beside its models in the same cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions, version
from typing import Literal

Uses = Literal["links", "nothing"]

FORMS = "a shipped method, package.module:function, or file.py:function"
"""What can be called, in words."""

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
