"""Descriptions of a cube for people and for programs: sources, README, Croissant 1.0 and RO-Crate 1.1.

`data_origins` and `method_origins` are the sources of a cube; `bibliography` has their entries in BibTeX,
with those of the software and the paper.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

from sweep_clustering.pipeline.common import ESCAPES
from sweep_clustering.storage.archive import CUBE_SUFFIX
from sweep_clustering.storage.cube.manifest import TITLE, Manifest
from sweep_clustering.storage.cube.schema import ANSWERED_WORDS
from sweep_clustering.sweeps.data.builtin import REGISTRY
from sweep_clustering.sweeps.file.methods import Method
from sweep_clustering.sweeps.file.spec import Mixtures, UserTable
from sweep_clustering.sweeps.records import Record, Text, Whole
from sweep_clustering.sweeps.words import SHIPPED

if TYPE_CHECKING:
    import pandas as pd

FOLDER = files("sweep_clustering.pipeline.publish")
SOURCES: dict[str, dict[str, str]] = tomllib.loads((FOLDER / "references.toml").read_text(encoding="utf-8"))
KIND = "type"
LICENCES = "https://spdx.org/licenses/{}.html"
DOI = re.compile(r"\b10\.\d{4,9}/[^\s{}\\\"<>]*[^\s{}\\\"<>.,;)]")

DECLARED = tomllib.loads((FOLDER / "members.toml").read_text(encoding="utf-8"))
# Type of the content of each member of a bundle, and what it is.
MEMBERS: dict[str, tuple[str, str]] = {name: tuple(texts) for name, texts in DECLARED["members"].items()}

CROISSANT = "http://mlcommons.org/croissant/1.0"
RO_CRATE = "https://w3id.org/ro/crate/1.1"
TYPES = {"i": "sc:Integer", "f": "sc:Float"}


@dataclass(frozen=True)
class Origin:
    """Something that a cube was made with or of: its origin, and how it is cited."""

    name: str
    licence: str  # SPDX identifier; empty if none is known
    home: str
    fields: Mapping[str, str]  # fields of the entry in BibTeX

    @property
    def doi(self) -> str:
        """DOI, if there is one."""
        return self.fields.get("doi", "")

    @property
    def address(self) -> str:
        """Address of its DOI or its home, if there is one."""
        return f"https://doi.org/{self.doi}" if self.doi else self.home


def data_origins(cube: Manifest) -> dict[str, Origin]:
    """Return the data sets of a cube that were not drawn by the sweep, by name."""
    origins = dict[str, Origin]()
    for entry in cube.spec.grid.datasets:
        name = entry.name
        if name not in cube.plans or isinstance(entry, Mixtures):
            continue
        if isinstance(entry, UserTable):
            origins[name] = Origin(name, entry.licence, "", _of_text(name, entry.citation))
        elif (data_set := REGISTRY.get(name)) is not None:
            origins[name] = Origin(name, data_set.licence, data_set.landing_page, data_set.reference)
        else:  # another release has it
            origins[name] = Origin(name, "", "", {"title": name})
    return origins


def _of_text(name: str, citation: str) -> dict[str, str]:
    """Return an entry for something that a user describes in a text."""
    doi = DOI.search(citation)
    return {"title": name, **({"note": citation} if citation else {}), **({"doi": doi[0]} if doi else {})}


def method_origins(cube: Manifest) -> Iterator[Origin]:
    """Yield the methods of a cube beside the models, and the packages that compute them."""
    packages = dict[str, None]()
    for method in cube.spec.grid.methods:
        yield _of_method(method)
        if method.call in SHIPPED and (package := SHIPPED[method.call].package):
            packages[package] = None
    for package in packages:
        fields = dict(SOURCES[package])
        yield Origin(package, fields.pop("licence"), fields["url"], fields)


def _of_method(method: Method) -> Origin:
    if method.call not in SHIPPED:
        return Origin(method.name, "", "", _of_text(method.name, method.citation))
    package = SHIPPED[method.call].package
    source = SOURCES[package or "software"]
    return Origin(method.name, source["licence"], source.get("url", ""), SHIPPED[method.call].reference)


def bibliography(cube: Manifest) -> str:
    """Return the entries in BibTeX of all that a cube was made with; what has one source shares an entry."""
    version = cube.runs[-1].fingerprint.get("sweep", "") if cube.runs else ""
    software = {key: value for key, value in SOURCES["software"].items() if key != "licence"}
    origins = [
        ("sweep", Origin("", SOURCES["software"]["licence"], "", software | {"version": version})),
        ("source-paper", Origin("", "", "", SOURCES["paper"])),
        *((f"data-{name}", origin) for name, origin in data_origins(cube).items()),
        *((f"method-{origin.name}", origin) for origin in method_origins(cube)),
    ]
    groups: dict[tuple[tuple[str, str], ...], list[tuple[str, Origin]]] = {}
    for key, origin in origins:
        groups.setdefault(tuple(origin.fields.items()), []).append((key, origin))
    return "\n".join(_entry(group[0][0], [origin for _, origin in group]) for group in groups.values())


def _entry(key: str, origins: list[Origin]) -> str:
    """Return an entry in BibTeX of what has one source."""
    first, values = origins[0], dict(origins[0].fields)
    kind = values.pop(KIND, "misc")
    licences = dict.fromkeys(f"licence {origin.licence}" for origin in origins if origin.licence)
    names = ", ".join(origin.name for origin in origins)
    notes = (values.pop("note", ""), names and f"used as {names}", *licences)
    values |= {"url": first.home, "note": "; ".join(filter(None, notes))}
    lines = [f"  {name} = {{{_value(name, value)}}}," for name, value in values.items() if value]
    return "\n".join([f"@{kind}{{{key.replace('/', ':')},", *lines, "}\n"])


def _value(name: str, value: str) -> str:
    if name not in ("title", "note"):  # users write these two
        return value
    text = " ".join(value.split()).translate(ESCAPES)
    # braces keep the letters of a title as they are
    return f"{{{text}}}" if name == "title" else text


class Listing(Record):
    """Size in bytes and checksum of a member."""

    size: Annotated[int, Whole(0)]
    sha256: Annotated[str, Text("64 digits of a checksum", pattern="^[0-9a-f]{64}$")]

    def __str__(self) -> str:
        return f"{self.size:,} bytes with sha256 {self.sha256}"


def facts_of(cube: Manifest) -> dict[str, Any]:
    """Return what both descriptions say about a cube, in words of schema.org."""
    data = data_origins(cube)
    published = [data[name].licence for name in data if not cube.plans[name].left_out]
    addresses = [origin.address for origin in (*data.values(), *method_origins(cube))]
    return {
        "name": cube.spec.name,
        "description": TITLE.format(name=cube.spec.name),
        "datePublished": max((run.started for run in cube.runs), default="")[:10],
        "keywords": ["clustering", "semi-supervised", "benchmark"],
        "license": [LICENCES.format(licence) for licence in dict.fromkeys(published)],
        "citation": [address for address in dict.fromkeys(addresses) if address],
    }


def _member(cube: Manifest, name: str, listing: Listing) -> dict[str, str]:
    kind, text = MEMBERS[name if name in MEMBERS else "CUBE"]
    return {"name": name, "description": text, "encodingFormat": kind, "contentSize": str(listing.size)}


def croissant(cube: Manifest, listings: Mapping[str, Listing], scores: pd.DataFrame) -> dict[str, Any]:
    """Return the description of a bundle in Croissant: its files, and the columns of its scores."""
    member_nodes = [
        {"@type": "cr:FileObject", "@id": name, "contentUrl": name, "sha256": listing.sha256}
        | _member(cube, name, listing)
        for name, listing in listings.items()
    ]
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"scores/{name}",
            "name": name,
            "dataType": TYPES.get(getattr(column.dtype, "kind", ""), "sc:Text"),
            "source": {"fileObject": {"@id": "scores.parquet"}, "extract": {"column": name}},
        }
        for name, column in scores.items()
    ]
    record_set = {"@type": "cr:RecordSet", "@id": "scores", "name": "scores", "field": fields}
    context = DECLARED["croissant"]["context"] | {
        term: f"cr:{term}" for term in DECLARED["croissant"]["terms"]
    }
    head = {"@context": context, "@type": "sc:Dataset", "conformsTo": CROISSANT}
    head |= facts_of(cube) | {"citeAs": bibliography(cube)}
    return head | {"distribution": member_nodes, "recordSet": [record_set]}


def ro_crate(cube: Manifest, listings: Mapping[str, Listing]) -> dict[str, Any]:
    """Return the description of a bundle in RO-Crate: its files, its runs, and what it was made with."""
    facts, versions = facts_of(cube), [run.fingerprint.get("sweep", "unknown") for run in cube.runs]
    addresses = [*facts["citation"], *facts["license"]]
    links = {key: [{"@id": address} for address in facts[key]] for key in ("citation", "license")}
    root = {
        "@id": "./",
        "@type": "Dataset",
        **facts,
        **links,
        "hasPart": [{"@id": name} for name in listings],
    }
    metadata = {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "about": {"@id": "./"}}
    software = {"@id": "#sweep", "@type": "SoftwareApplication", "name": "sweep-clustering"}
    run = {"@type": "CreateAction", "instrument": {"@id": "#sweep"}}
    result = {"result": {"@id": cube.spec.name + CUBE_SUFFIX}}
    graph = [
        metadata | {"conformsTo": {"@id": RO_CRATE}},
        root,
        *({"@id": name, "@type": "File"} | _member(cube, name, listings[name]) for name in listings),
        software | {"softwareVersion": ", ".join(dict.fromkeys(versions))},
        *(
            run | {"@id": f"#run-{number}", "name": f"run {number}", "startTime": record.started} | result
            for number, record in enumerate(cube.runs, start=1)
        ),
        *({"@id": address, "@type": "CreativeWork", "name": address} for address in addresses),
    ]
    return {"@context": f"{RO_CRATE}/context", "@graph": graph}


def readme(cube: Manifest, scores: pd.DataFrame, version: str) -> str:
    """Return the README of a bundle."""
    import jinja2  # `sweep cite` does without

    name, text = cube.spec.name, (FOLDER / "readme.md").read_text(encoding="utf-8")
    template = jinja2.Template(
        text, trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    is_answered = scores["status"].isin(ANSWERED_WORDS)
    own_methods = {method.name for method in cube.spec.grid.methods if method.call not in SHIPPED}
    rendered: str = template.render(
        name=name,
        cube=name + CUBE_SUFFIX,
        version=version,
        n_cells=len(scores),
        n_done=int(is_answered.sum()),
        n_models=scores["model"].nunique(),
        needs_code=is_answered.any() and {*scores["model"][is_answered]} <= own_methods,
        plans=cube.plans.values(),
        origins=data_origins(cube),
        members={member.replace("CUBE", name + CUBE_SUFFIX): text for member, (_, text) in MEMBERS.items()},
    )
    return rendered
