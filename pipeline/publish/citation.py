"""Sources of a cube, and their entries in BibTeX: the software, the paper, each data set and each method."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from sweep_clustering.storage.cube.manifest import Manifest
from sweep_clustering.sweeps.data.builtin import REGISTRY
from sweep_clustering.sweeps.file.methods import Method
from sweep_clustering.sweeps.file.spec import Mixtures, UserTable
from sweep_clustering.sweeps.words import SHIPPED

OWN: dict[str, dict[str, str]] = tomllib.loads(
    (files("sweep_clustering.pipeline.publish") / "references.toml").read_text(encoding="utf-8")
)
KIND = "type"
LICENCES = "https://spdx.org/licenses/{}.html"
DOI = re.compile(r"\b10\.\d{4,9}/[^\s{}\\\"<>]*[^\s{}\\\"<>.,;)]")

# Characters that mean something to BibTeX or LaTeX, and how they are written as themselves.
ESCAPES = {character: f"\\{character}" for character in "{}&%$#_"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


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
        fields = dict(OWN[package])
        yield Origin(package, fields.pop("licence"), fields["url"], fields)


def _of_method(method: Method) -> Origin:
    if method.call not in SHIPPED:
        return Origin(method.name, "", "", _of_text(method.name, method.citation))
    package = SHIPPED[method.call].package
    source = OWN[package or "software"]
    return Origin(method.name, source["licence"], source.get("url", ""), SHIPPED[method.call].reference)


def bibliography(cube: Manifest) -> str:
    """Return the entries in BibTeX of all that a cube was made with; what has one source shares an entry."""
    version = cube.runs[-1].fingerprint.get("sweep", "") if cube.runs else ""
    software = {key: value for key, value in OWN["software"].items() if key != "licence"}
    origins = [
        ("sweep", Origin("", OWN["software"]["licence"], "", software | {"version": version})),
        ("source-paper", Origin("", "", "", OWN["paper"])),
        *((f"data-{name}", origin) for name, origin in data_origins(cube).items()),
        *((f"method-{origin.name}", origin) for origin in method_origins(cube)),
    ]
    shared: dict[tuple[tuple[str, str], ...], list[tuple[str, Origin]]] = {}
    for key, origin in origins:
        shared.setdefault(tuple(origin.fields.items()), []).append((key, origin))
    return "\n".join(_entry(group[0][0], [origin for _, origin in group]) for group in shared.values())


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
    text = "".join(ESCAPES.get(character, character) for character in " ".join(value.split()))
    # braces keep the letters of a title as they are
    return f"{{{text}}}" if name == "title" else text
