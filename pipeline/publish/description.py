"""Texts of a bundle for people and for programs: README, Croissant 1.0 and RO-Crate 1.1."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Any

import jinja2
import pandas as pd

from sweep_clustering.pipeline.publish.citation import LICENCES, bibliography, data_origins, method_origins
from sweep_clustering.storage.archive import CUBE_SUFFIX
from sweep_clustering.storage.cube.manifest import TITLE, Manifest
from sweep_clustering.sweeps.records import Record, Text, Whole

FOLDER = files("sweep_clustering.pipeline.publish")
DECLARED = tomllib.loads((FOLDER / "members.toml").read_text(encoding="utf-8"))
# Type of the content of each member of a bundle, and what it is.
MEMBERS: dict[str, tuple[str, str]] = {name: tuple(of) for name, of in DECLARED["members"].items()}

CROISSANT = "http://mlcommons.org/croissant/1.0"
RO_CRATE = "https://w3id.org/ro/crate/1.1"
TYPES = {"i": "sc:Integer", "f": "sc:Float"}


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
    name, text = cube.spec.name, (FOLDER / "readme.md").read_text(encoding="utf-8")
    template = jinja2.Template(
        text, trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    answered = scores["status"].isin(["done", "no solution"])
    rendered: str = template.render(
        name=name,
        cube=name + CUBE_SUFFIX,
        version=version,
        n_cells=len(scores),
        n_done=int(answered.sum()),
        n_models=scores["model"].nunique(),
        plans=cube.plans.values(),
        origins=data_origins(cube),
        members={member.replace("CUBE", name + CUBE_SUFFIX): text for member, (_, text) in MEMBERS.items()},
    )
    return rendered
