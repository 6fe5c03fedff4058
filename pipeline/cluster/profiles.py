"""Compute-cluster profiles: what cluster.yaml says, checked."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import click
from pydantic import Field, ValidationInfo, field_validator

from pipeline.cluster.entries import read_entries
from pipeline.jobs.keys import CLASSES, JobQueue, job_queue
from pipeline.jobs.values import Size
from sweeps.errors import InputError, Problem, collecting, did_you_mean, shown
from sweeps.records import Checked, Choice, Given, Record, Whole, read, refusal

FILE_NAME = "cluster.yaml"
DEFAULT = "local"


def scheduler_address(value: Any) -> str:
    """Address with its scheme, tcp where it has none."""
    address = value if isinstance(value, str) else ""
    address = address if "://" in address else f"tcp://{address}"
    try:
        parts = urlsplit(address)
        complete = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:
        complete = False
    if not complete or not re.fullmatch(r"\w+://[^/?#@\s]+", address):
        raise refusal("an address such as tls://host:8786")
    return address


class Kind(Record, extra="ignore"):
    """What a profile is; the other keys depend on it."""

    kind: Annotated[str, Choice(("local", "address", *CLASSES))]


class Local(Record):
    """Worker processes on this machine."""

    kind: Literal["local"] = Field(default="local", description="What the profile is.")
    workers: Annotated[Annotated[int, Whole(1, 10_000)] | None, Given()] = Field(
        default=None, description="Number of processes; default: one per processor that may be used."
    )
    dashboard_port: Annotated[int, Whole(0, 65_535)] = Field(
        default=8787, description="Port wanted for the dashboard; a free one is taken when it is busy."
    )
    memory_limit: Annotated[Size | None, Given()] = Field(
        default=None, description="Memory of each worker; default: an equal share of the machine's memory."
    )


class Tls(Record):
    """Certificate files of an encrypted connection, relative to cluster.yaml."""

    ca: Path = Field(description="Certificate of the authority.")
    cert: Path = Field(description="Certificate of the client.")
    key: Path = Field(description="Key of the client.")

    @field_validator("ca", "cert", "key", mode="before")
    @classmethod
    def _exists(cls, value: Any, info: ValidationInfo) -> Path:
        if not isinstance(value, (str, Path)) or not str(value):
            raise refusal("a file")
        path = (info.context or {}).get("folder", Path()) / Path(value).expanduser()
        # os.path: that of a Path raises for a name that is too long.
        if not os.path.isfile(path):
            raise refusal("a file that exists", f"looked for {path}")
        return Path(path)


class Address(Record):
    """A scheduler that is already running, with its workers."""

    kind: Literal["address"] = Field(default="address", description="What the profile is.")
    address: Annotated[str, Checked(scheduler_address, {"type": "string"})] = Field(
        description="Of the scheduler, such as tls://host:8786; tcp:// on this machine's loopback only."
    )
    tls: Annotated[Tls | None, Given()] = Field(default=None, description="Files of an encrypted connection.")


@dataclass(frozen=True)
class Profile:
    """A named compute cluster.

    Parameters
    ----------
    name : str
        Name in the file.
    options : Local, Address or JobQueue
        What it is, and its settings.
    origin : Path or None
        The file it was read from; None for the built-in `local`.
    """

    name: str
    options: Local | Address | JobQueue
    origin: Path | None

    @property
    def where(self) -> str:
        """File and name, for messages."""
        return f"{self.origin} {self.name}:"

    @property
    def kind(self) -> str:
        """`"local"`, `"address"` or the short name of a queueing system."""
        return self.options.kind


def load_profile(name: str = DEFAULT, file: Path | None = None) -> Profile:
    """Read one profile.

    Parameters
    ----------
    name : str
        Name of the profile. `local` exists even where the file does not list it.
    file : Path or None
        The file; None looks for ./cluster.yaml, then in the user's configuration directory, then takes the
        packaged one.

    Returns
    -------
    Profile

    Raises
    ------
    InputError
        With every problem of the file and of this profile. Other profiles of the file are not looked at.
    """
    origin = file if file is not None else find_file()
    entries = _read(origin)
    if name not in entries:
        if name == DEFAULT:
            return Profile(name, Local(), None)
        known = sorted({*entries, DEFAULT})
        hint = did_you_mean(name, known)
        raise InputError([Problem(str(origin), f"no profile {name!r}", "one of " + ", ".join(known), hint)])
    return Profile(name, _options(f"{origin} {name}:", entries[name], origin.parent), origin)


def find_file() -> Path:
    """First cluster.yaml of working directory, user's configuration directory and installation."""
    here = Path(__file__).resolve().parents[1]
    places = (
        Path.cwd() / FILE_NAME,
        Path(click.get_app_dir("sweep")) / FILE_NAME,
        here / FILE_NAME,  # in a wheel
        here.parent / FILE_NAME,  # in a checkout
    )
    return next((place for place in places if place.is_file()), places[-1])


def _read(origin: Path) -> dict[str, Any]:
    entries = read_entries(origin)
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise InputError([Problem(str(origin), shown(entries), "profiles by name")])
    return entries


def _options(where: str, entry: object, folder: Path) -> Local | Address | JobQueue:
    # With a wrong kind it is unknown which other keys are right.
    kind = read(Kind, entry, where).kind
    if kind in CLASSES:
        return read(job_queue(kind), entry, where)
    if kind == "local":
        return read(Local, entry, where)
    problems: list[Problem] = []
    with collecting(problems):
        options = read(Address, entry, where, context={"folder": folder})
    problems += _encryption_problems(where, entry)
    if problems:
        raise InputError(problems)
    return options


def _encryption_problems(where: str, entry: Any) -> Iterator[Problem]:
    """What is wrong between an address and its files."""
    try:
        address = scheduler_address(entry.get("address"))
    except ValueError:
        return
    if address.startswith("tls://") and "tls" not in entry:
        yield Problem(f"{where} tls", "nothing", "the files {ca, cert, key}")
    if address.startswith("tcp://") and "tls" in entry:
        yield Problem(f"{where} address", address, "a tls:// address, as the key tls is given")
    elif address.startswith("tcp://") and not _is_loopback(urlsplit(address).hostname):
        yield Problem(f"{where} address", address, "a tls:// address, or one on this machine's loopback")


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
