"""Methods of a sweep file: shipped ones by name, and your own in a package or in a file beside it.

A file has a `MethodEntry`, which names what is called; a cube keeps a `Method`, which says what it was.
"""

from __future__ import annotations

import ast
import hashlib
import math
import tomllib
from collections.abc import Mapping
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sweep_clustering.sweeps import records, words
from sweep_clustering.sweeps.errors import InputError, did_you_mean, refused, short_text
from sweep_clustering.sweeps.files import read_file
from sweep_clustering.sweeps.plan import Citation, Length, MethodPlan, Name

# Bytes of a module of a package, which may be machine code.
MOST_OF_MODULE = 2**28

SECONDS = records.Real("a number of seconds above 0, at most 86,400", gt=0, le=86_400)


def _options(value: object) -> dict[str, Any]:
    """Check a table of values that TOML and JSON both have."""
    if not isinstance(value, Mapping):
        raise records.refusal("a table of options")
    for item in value.values():
        if not _is_plain(item):
            raise records.refusal(
                "numbers, texts, true or false, and lists and tables of them", value=short_text(item)
            )
    return dict(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, list | Mapping):
        return all(map(_is_plain, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


Options = Annotated[dict[str, Any], records.Parser(_options, {"type": "object"})]
# a path may have blanks inside
CALL_PATTERN = r"^[^:\s]([^:\n]*[^:\s])?(:[A-Za-z_][A-Za-z0-9_.]*)?$"
Call = Annotated[str, records.Text(words.FORMS, pattern=CALL_PATTERN, max_length=1000)]
Uses = Annotated[str, records.Choice(("links", "nothing"))]


class MethodKeys(records.Record):
    """Keys of a method in a sweep file."""

    name: Name = Field(description="Name in the cube; default: the name of the shipped method.")
    call: Call = Field(
        description=f"Function to call: {words.FORMS}. A file is relative to the folder of this one."
    )
    uses: Annotated[Uses | None, records.NoNull()] = Field(
        None, description='Whether it sees the annotations: "links" (default) or "nothing".'
    )
    restarts: Annotated[Annotated[int, records.Whole(1, 10**6)] | None, records.NoNull()] = Field(
        None, description="Calls for each cell, at most restarts of [grid]; default: 1."
    )
    time_limit: Annotated[float, SECONDS] = Field(words.PER_CALL, description="Seconds that a call may take.")
    options: Options = Field(default_factory=dict, description="Arguments of the call, by name.")
    citation: Citation = Field("", description="How to cite it: authors, year, title, place and DOI.")


class Method(MethodKeys):
    """A method as a cube keeps it.

    Its answers depend on `call`, `code`, `options` and `uses`; a cube grows by the same method alone.
    """

    uses: Uses = "links"
    restarts: Length
    code: Annotated[str, records.Text(max_length=200)] = Field(
        "", description="Checksum of a file, version of a package."
    )
    path: Annotated[str, records.Text(max_length=10_000)] = Field("", description="Absolute path of a file.")

    @property
    def plan(self) -> MethodPlan:
        """Name and restarts of the method for the plan."""
        return MethodPlan(self.name, self.restarts)

    @property
    def science(self) -> dict[str, Any]:
        """Values by key that the answers depend on."""
        file, _, function = self.call.rpartition(":")
        call = f"{Path(file).name}:{function}" if self.path else self.call
        return {"call": call, **self.model_dump(include={"code", "options", "restarts", "uses"})}

    def source(self) -> str | None:
        """Return the text of the file, None for a method of a package.

        Raises
        ------
        ValueError
            If the file is not the one whose checksum is kept, or is gone.
        """
        if not self.path:
            return None
        try:
            content = words.read_code(Path(self.path))
            if (code := checksum(content)) != self.code:
                raise ValueError(f"{self.path} with {code}, not {self.code}")
            return words.text_of_code(Path(self.path), content)
        except InputError as error:
            raise ValueError(f"{self.path}: {error.problems[0].value}") from None

    def as_file(self) -> dict[str, Any]:
        """Return the table of a sweep file that gives this method."""
        call = f"{self.path}:{self.call.rpartition(':')[2]}" if self.path else self.call
        return {**self.model_dump(exclude={"call", "code", "path"}), "call": call}


class MethodEntry(MethodKeys):
    """A method as a sweep file asks for it."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        """Make a table of a shipped method from its name; a table of one needs no other name."""
        if isinstance(value, str):
            if value not in words.SHIPPED:
                hint = 'one of your own is {name = "...", call = "file.py:function"}'
                model = "it is a model: it belongs in models of [grid]" if value in words.MODEL_CODES else ""
                hint = model or did_you_mean(value, words.SHIPPED) or hint
                raise records.refusal("one of " + ", ".join(words.SHIPPED) + ", or a table", hint)
            return {"name": value, "call": value}
        if not isinstance(value, Mapping | records.StandIn):
            raise records.refusal("the name of a method, or a table")
        if isinstance(value, Mapping) and "name" not in value and value.get("call") in words.SHIPPED:
            return {"name": value["call"], **value}
        return value

    @field_validator("call")
    @classmethod
    def _is_there(cls, call: str, info: ValidationInfo) -> str:
        """Check that the function exists, here and now, so that it is reported with what else is wrong."""
        if ":" not in call and call not in words.SHIPPED:
            raise records.refusal(
                words.FORMS, did_you_mean(call, words.SHIPPED) or "shipped ones: " + ", ".join(words.SHIPPED)
            )
        context: Any = info.context
        _code(call, context["folder"])
        return call

    @field_validator("restarts")
    @classmethod
    def _at_most(cls, restarts: int | None, info: ValidationInfo) -> int | None:
        context: Any = info.context
        if restarts is not None and restarts > context["restarts"]:
            raise records.refusal(f"at most the {context['restarts']} restarts of [grid]")
        return restarts

    @model_validator(mode="after")
    def _check_name(self) -> MethodEntry:
        if self.name in words.MODEL_CODES:
            raise records.refusal("another name", "a model of this name is one of [grid] models", key="name")
        if self.name in words.SHIPPED and self.call != self.name:
            raise records.refusal(
                f"another name, or call = {self.name!r}", "it is the name of a shipped method", key="name"
            )
        if self.call in words.SHIPPED and self.uses not in (None, words.SHIPPED[self.call].uses):
            expected = f"{words.SHIPPED[self.call].uses!r}, or nothing"
            raise records.refusal(expected, f"of {self.call}", key="uses", value=short_text(self.uses))
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        table = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "enum": list(words.SHIPPED)}, table]}


def _method(entry: MethodEntry, info: ValidationInfo) -> Method:
    """Add the checksum or version of its code to a method.

    The context of validation has the `folder` of the sweep file, and the most `restarts` that a cell has.
    """
    context: Any = info.context
    shipped = words.SHIPPED.get(entry.call)
    default = 1 if shipped is None else min(shipped.restarts, context["restarts"])
    uses = entry.uses or ("links" if shipped is None else shipped.uses)
    code, path = _code(entry.call, context["folder"])
    values = {"uses": uses, "restarts": entry.restarts or default, "code": code, "path": path}
    return Method(**{**dict(entry), **values})


# Methods as a sweep file asks for them.
METHODS = Annotated[
    tuple[Annotated[MethodEntry, AfterValidator(_method)], ...],
    records.Set(lambda entry: name_of(entry), shortest=0),
]


def name_of(entry: object) -> object:
    """Return the name of an entry, or the value and its type if it is neither name nor table."""
    if isinstance(entry, Mapping):
        return entry.get("name", entry.get("call"))
    return entry if isinstance(entry, str) else (type(entry), entry)  # 1 == true


def entry_of(text: str) -> dict[str, Any]:
    """Make the entry of a sweep file in any folder from a method of a command line.

    The text is a call, whose file is relative to the working directory. The method is then named by the file,
    or by the function of a package. In braces, the text is a table as a sweep file has it.
    """
    entry: dict[str, Any] = {"call": text}
    if text.startswith("{"):
        try:
            entry = tomllib.loads(f"method = {text}")["method"]
        except ValueError as error:
            raise refused("METHOD", f"a TOML error: {error}", "a table in one line") from None
    call = entry.get("call")
    if not isinstance(call, str) or call in words.SHIPPED:
        return entry
    place, colon, function = call.rpartition(":")
    is_file = place.endswith(".py") or "/" in place
    name_key = {"name": Path(place).stem if is_file else function.rpartition(".")[2]} if colon else {}
    return name_key | entry | ({"call": f"{Path(place).resolve()}:{function}"} if is_file else {})


def uses_links(entry: object) -> bool:
    """Say whether a method sees annotations, before its entry is checked."""
    table = entry if isinstance(entry, Mapping) else {"call": entry}
    call = table.get("call")
    shipped = words.SHIPPED.get(call) if isinstance(call, str) else None
    return bool(table.get("uses", "links" if shipped is None else shipped.uses) != "nothing")


def checksum(content: bytes) -> str:
    """Return the checksum of a file with a method, as a cube keeps it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _code(call: str, folder: Path) -> tuple[str, str]:
    """Return checksum and absolute path of a file, or the version of a package and no path."""
    shipped = words.SHIPPED.get(call)
    if shipped is not None:
        if shipped.install_command:
            raise records.refusal(
                shipped.package, shipped.install_command, value=f"no {shipped.package}, which {call} calls"
            )
        return (words.installed_version(shipped.package) if shipped.package else ""), ""
    place, _, function = call.rpartition(":")
    if not (place.endswith(".py") or "/" in place):
        return _package_code(place), ""
    path = (folder / place).resolve()
    try:
        content = words.read_code(path)
        nodes = list(ast.walk(ast.parse(words.text_of_code(path, content))))
    except InputError as error:
        (problem,) = error.problems
        raise records.refusal(problem.expected or "a Python file", value=f"{path}: {problem.value}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise records.refusal("a Python file", value=f"{path}: {error or type(error).__name__}") from None
    # what a module may define or import: names of its text, at whatever level
    definitions = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = definitions + [node.asname or node.name for node in nodes if isinstance(node, ast.alias)]
    names += [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    if function.partition(".")[0] not in names:
        hint = did_you_mean(function, names) or "it has " + (", ".join(dict.fromkeys(definitions)) or "none")
        raise records.refusal("a function or a class of the file", hint, value=f"no {function!r} in {path}")
    return checksum(content), str(path)


def _package_code(module: str) -> str:
    """Return the version of the package of a module, or the checksum of the module's file if it has none."""
    package, *parts = module.split(".")
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        hint = "install it where the driver and the workers run"
        raise records.refusal("a package that is installed", hint, value=f"no package {package!r}")
    for n_parts in range(1, len(parts) + 1):  # nothing of it is imported
        name, places = ".".join([package, *parts[:n_parts]]), spec.submodule_search_locations
        spec = PathFinder.find_spec(name, places) if places else None
        if spec is None:
            raise records.refusal("a module of it", value=f"package {package!r} without {'.'.join(parts)!r}")
    return words.installed_version(package) or (
        checksum(read_file(Path(spec.origin), MOST_OF_MODULE)) if spec.origin else ""
    )
