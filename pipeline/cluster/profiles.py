"""Compute-cluster profiles: what cluster.yaml says, checked."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import yaml

from pipeline.jobs.keys import CLASSES, JobQueue, read_job_queue
from pipeline.jobs.values import size
from sweeps.errors import InputError, Problem, did_you_mean, shown
from sweeps.file.toml import Bad, Table, choice, whole

FILE_NAME = "cluster.yaml"
DEFAULT = "local"


@dataclass(frozen=True)
class Local:
    """Worker processes on this machine.

    Parameters
    ----------
    workers : int or None
        Number of processes; None for one per processor that may be used.
    dashboard_port : int
        Port wanted for the dashboard; a free one is taken when it is busy.
    memory_limit : int or None
        Bytes of each worker; None for an equal share of the machine's memory.
    """

    workers: int | None = None
    dashboard_port: int = 8787
    memory_limit: int | None = None


@dataclass(frozen=True)
class Tls:
    """Certificate files of an encrypted connection."""

    ca: Path
    cert: Path
    key: Path


@dataclass(frozen=True)
class Address:
    """A scheduler that is already running, with its workers."""

    address: str
    tls: Tls | None = None


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
        if isinstance(self.options, JobQueue):
            return self.options.system
        return "local" if isinstance(self.options, Local) else "address"


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
        known = sorted({*map(str, entries), DEFAULT})
        hint = did_you_mean(name, known)
        raise InputError([Problem(str(origin), f"no profile {name!r}", "one of " + ", ".join(known), hint)])
    problems: list[Problem] = []
    options = _options(f"{origin} {name}:", entries[name], origin.parent, problems)
    if problems or options is None:
        raise InputError(problems)
    return Profile(name, options, origin)


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


def _read(origin: Path) -> dict[Any, Any]:
    try:
        entries = yaml.safe_load(origin.read_text(encoding="utf-8"))
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError([Problem(str(origin), found, "a readable file of profiles")]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        found = f"a YAML error: {' '.join(str(error).split())}"
        raise InputError([Problem(str(origin), found, "a YAML file of profiles")]) from error
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise InputError([Problem(str(origin), shown(entries), "profiles by name")])
    return entries


def _options(
    where: str, entry: object, folder: Path, problems: list[Problem]
) -> Local | Address | JobQueue | None:
    table = Table(where, entry, problems)
    kind = table.required("kind", choice(("local", "address", *CLASSES)), "")
    if kind in CLASSES:
        jobs = read_job_queue(table, kind)
        table.close()
        return jobs
    if kind == "local":
        local = Local(
            workers=table.optional("workers", whole(1, 10_000), None),
            dashboard_port=table.optional("dashboard_port", whole(0, 65_535), Local.dashboard_port),
            memory_limit=table.optional("memory_limit", size, None),
        )
        table.close()
        return local
    if kind == "address":
        address = table.required("address", _scheduler_address, "")
        _check_encryption(table, address)
        tls = table.raw("tls")
        table.close()
        return Address(address, None if tls is None else _tls(f"{where} tls:", tls, folder, problems))
    # With a wrong kind nobody knows which of the other keys are right.
    return None


def _check_encryption(table: Table, address: str) -> None:
    if address.startswith("tls://") and "tls" not in table:
        table.problem("tls", "nothing", "the files {ca, cert, key}")
    if address.startswith("tcp://"):
        if "tls" in table:
            table.problem("address", address, "a tls:// address, as the key tls is given")
        elif not _is_loopback(urlsplit(address).hostname):
            table.problem("address", address, "a tls:// address, or one on this machine's loopback")


def _tls(where: str, entry: object, folder: Path, problems: list[Problem]) -> Tls:
    table = Table(where, entry, problems)

    def readable(value: Any) -> Path:
        if not isinstance(value, str) or not value:
            raise Bad("a file")
        path = folder / Path(value).expanduser()
        if not path.is_file():
            raise Bad("a file that exists", f"looked for {path}")
        return path

    ca, cert, key = (table.required(name, readable, folder) for name in ("ca", "cert", "key"))
    table.close()
    return Tls(ca, cert, key)


def _scheduler_address(value: Any) -> str:
    expected = "an address such as tls://host:8786"
    if not isinstance(value, str):
        raise Bad(expected)
    address = value if "://" in value else f"tcp://{value}"
    try:
        parts = urlsplit(address)
        complete = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:
        complete = False
    if not complete or not re.fullmatch(r"\w+://[^/?#@\s]+", address):
        raise Bad(expected)
    return address


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
