"""Profiles of compute clusters, read from cluster.yaml and checked."""

import ipaddress
import json
import os
import re
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self, Union
from urllib.parse import urlsplit

import click
import yaml
from pydantic import Field, TypeAdapter, ValidationInfo, field_validator, model_validator
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from sweep_clustering.pipeline.common import core_count
from sweep_clustering.pipeline.jobs import keys
from sweep_clustering.sweeps.errors import InputError, Problem, did_you_mean, refused, short_text
from sweep_clustering.sweeps.files import read_file
from sweep_clustering.sweeps.records import Choice, NoNull, Parser, Record, Terse, read, refusal

# The text of cluster.yaml as plain values, within bounds.

# Size of a file: PyYAML reads about 100 kB a second.
MOST_BYTES = 2**18

# Levels of tables and lists; a profile has three.
MOST_NESTED = 20

# Keys and values, those that an alias repeats counted each time: nine lines can stand for 10^9.
MOST_VALUES = 10_000

MERGE = "tag:yaml.org,2002:merge"
TEXT = "tag:yaml.org,2002:str"
READ_AS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null", "timestamp"))


class _Loader(yaml.SafeLoader):
    """Read every key as the text that is written."""

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        """Compose a table; a key that YAML reads as a truth value or a number is its text.

        YAML 1.1 reads the key `on` as true and 8787 as a number; all keys of profiles are texts.
        """
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                raise _refusal(key, "a table or a list as a key", "a text as a key")
            key.tag = TEXT if key.tag in READ_AS else key.tag
            if key.value in names and key.tag != MERGE:
                raise _refusal(key, f"the key {key.value[:60]!r} again", "each key once")
            names.add(key.value)
        return node


def _refusal(node: Node, reason: str, expected: str) -> InputError:
    mark = node.start_mark
    return InputError([Problem(f"{mark.name}, line {mark.line + 1}", reason, expected)])


def _check_size(top: Node) -> None:
    """Refuse a file of too many values or levels; an alias counts as what it stands for, each time."""
    stack, count = [(top, 1)], 0
    while stack:
        node, level = stack.pop()
        count += 1
        if level > MOST_NESTED:  # also an alias inside of what it stands for
            raise _refusal(node, f"more than {MOST_NESTED} levels with its aliases", "fewer")
        if count > MOST_VALUES:
            raise _refusal(top, f"more than {MOST_VALUES:,} values with what aliases repeat", "fewer")
        children = node.value if isinstance(node, CollectionNode) else ()
        flat = chain.from_iterable(children) if isinstance(node, MappingNode) else children
        stack += [(child, level + 1) for child in flat]


def read_entries(origin: Path) -> Any:
    """Read a YAML file; every key is the text that is written.

    An `InputError` says that the file cannot be read, is larger, nested deeper or repeats more than a file of
    profiles needs, or has a key twice.
    """
    content = read_file(origin, MOST_BYTES, "a readable file of profiles", pipe=True)
    try:
        loader = _Loader(content.decode())
        loader.name = str(origin)  # as marks say it
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = f"a YAML error: {' '.join(str(error).split())}"
        raise refused(origin, reason, "a YAML file of profiles") from error


FILE_NAME = "cluster.yaml"
DEFAULT = "local"


def scheduler_address(value: object) -> str:
    """Return an address with its scheme, which is tcp by default."""
    address = value if isinstance(value, str) else ""
    address = address if "://" in address else f"tcp://{address}"
    try:
        parts = urlsplit(address)
        is_complete = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:
        is_complete = False
    if not is_complete or not re.fullmatch(r"\w+://[^/?#@\s]+", address):
        raise refusal("an address such as tls://host:8786")
    return address


class Kind(Record, extra="ignore"):
    """The kind of a profile; the other keys depend on it."""

    kind: Annotated[str, Choice(("local", "address", *keys.CLASSES))]


class Local(keys.AnyCluster):
    """Worker processes on this machine."""

    kind: Literal["local"] = Field(default="local", description="What the profile is.")
    workers: Annotated[keys.Count | None, NoNull()] = Field(
        None, description="Number of processes; default: one per processor that may be used."
    )
    dashboard_port: keys.Port = Field(8787, description=keys.PORT_WANTED)
    memory_limit: Annotated[keys.Size | None, NoNull()] = Field(
        None, description="Memory of each worker; default: an equal share of the machine's memory."
    )


class Tls(Record):
    """Certificate files of an encrypted connection, relative to cluster.yaml."""

    ca: Path = Field(description="Certificate of the authority.")
    cert: Path = Field(description="Certificate of the client.")
    key: Path = Field(description="Key of the client.")

    @field_validator("ca", "cert", "key", mode="before")
    @classmethod
    def _exists(cls, value: object, info: ValidationInfo) -> Path:
        if not isinstance(value, (str, Path)) or not str(value):
            raise refusal("a file")
        path = (info.context or {}).get("folder", Path()) / Path(value).expanduser()
        # os.path: that of a Path raises for a name that is too long.
        if not os.path.isfile(path):
            raise refusal("a file that exists", f"looked for {path}")
        return Path(path)


class Address(keys.AnyCluster):
    """A scheduler that is already running, with its workers."""

    kind: Literal["address"] = Field(default="address", description="What the profile is.")
    address: Annotated[str, Parser(scheduler_address, {"type": "string"})] = Field(
        description="Address of the scheduler, such as tls://host:8786; tcp:// only on loopback."
    )
    tls: Annotated[Tls | None, NoNull()] = Field(None, description="Files of an encrypted connection.")

    @model_validator(mode="after")
    def _encrypted(self) -> Self:
        """Refuse an address without the files that it needs, and one that strangers could listen to."""
        parts = urlsplit(self.address)
        if parts.scheme == "tls" and self.tls is None:
            raise refusal("the files {ca, cert, key}", key="tls", value="nothing")
        if parts.scheme == "tcp" and (self.tls is not None or not _is_loopback(parts.hostname)):
            detail = "or one on this machine's loopback" if self.tls is None else "as the key tls is given"
            raise refusal(f"a tls:// address, {detail}", key="address", value=self.address)
        return self


@dataclass(frozen=True)
class Profile:
    """A named compute cluster; `origin` is None for the built-in `local`."""

    name: str
    options: Local | Address | keys.JobQueue
    origin: Path | None

    @property
    def location(self) -> str:
        """File and name, for messages."""
        return f"{self.origin} {self.name}:"

    def process_count(self, workers: int | None = None) -> int:
        """Return the number of worker processes of a run; `workers` replaces the profile's number."""
        if isinstance(self.options, keys.JobQueue):
            return (workers or self.options.workers) * self.options.cores
        of_profile = self.options.workers if isinstance(self.options, Local) else None
        return workers or of_profile or core_count()


def load_profile(name: str = DEFAULT, file: Path | None = None) -> Profile:
    """Read one profile; `local` exists even if the file does not list it.

    Without `file`, ./cluster.yaml is read, then that in the user's configuration directory, then the packaged
    one. An `InputError` has every problem of the file and of this profile; other profiles are not checked.
    """
    origin = file or find_file()
    entries = read_entries(origin) or {}
    if not isinstance(entries, dict):
        raise refused(origin, short_text(entries), "profiles by name")
    if name not in entries:
        if name == DEFAULT:
            return Profile(name, Local(), None)
        names = sorted({*entries, DEFAULT})
        hint = did_you_mean(name, names)
        raise refused(origin, f"no profile {name!r}", "one of " + ", ".join(names), hint)
    location, entry = f"{origin} {name}:", entries[name]
    # With a wrong kind it is unknown which other keys are right.
    kind = read(Kind, entry, location).kind
    record: Any = {"local": Local, "address": Address}.get(kind) or keys.job_queue(kind)
    return Profile(name, read(record, entry, location, context={"folder": origin.parent}), origin)


def find_file() -> Path:
    """Return the first cluster.yaml of the working directory, the user's configuration and the package."""
    # In a wheel the last is the package, and in a checkout the folder of the four packages.
    folders = (Path.cwd(), Path(click.get_app_dir("sweep")), Path(__file__).resolve().parents[2])
    places = [folder / FILE_NAME for folder in folders]
    return next(filter(Path.is_file, places), places[-1])


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def cluster_schema() -> str:
    """Return the JSON Schema of cluster.yaml; queues have the keys of the installed dask-jobqueue.

    An editor completes and checks the file by `cluster.schema.json`, which stands beside this module.
    """
    kinds = (Local, Address, *map(keys.job_queue, keys.CLASSES))
    profile = Annotated[Union[kinds], Field(discriminator="kind")]  # type: ignore[valid-type]  # noqa: UP007
    schema = TypeAdapter(dict[str, profile]).json_schema(schema_generator=Terse)
    for record in schema["$defs"].values():
        # In Python a profile of a class needs no kind; in the file nothing else tells what it is.
        if "kind" in record["properties"]:
            record["required"] = ["kind", *(key for key in record.get("required", ()) if key != "kind")]
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Keys of dask-jobqueue {version('dask-jobqueue')}",
        "title": "Profiles of compute clusters",
    }
    return json.dumps({**about, **schema}, indent=1) + "\n"
