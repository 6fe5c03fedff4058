"""The sweeps in `tests/golden/sweeps` run here, and everything that commands show of them is text.

What differs from run to run is set to fixed values before anything is shown (`settle`), or replaced by a mark
(`stable`). What people read is kept word by word. Columns of tables, and the data of figures, are kept as
counts, ranges and digests. Figures are described and not drawn, so that a new matplotlib changes nothing.
"""

import contextlib
import hashlib
import io
import json
import re
import shutil
import socket
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import zarr
from checkout import ROOT
from matplotlib.collections import Collection, LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from processes.commandline import sweep

from sweep_clustering.storage.provenance import fingerprint

GOLDEN = ROOT / "tests" / "golden"
HOST = "golden"
SWEEPS = {"everything": 3, "sibling": 0, "answered": 0}
"""Sweep files by name, with the exit codes of their runs: a method of everything.toml fails in some cells."""

PACKAGED = "quick"
"""Sweep file of the package whose bits are kept, too."""

RUN_DEPENDENT = {
    "seconds": "wall-clock time of the kernels",
    "cpu_seconds": "CPU time of the kernels",
    "machine": "class of the machine",
}
"""Arrays of a cube that differ from run to run, and why. Everything else is compared, inputs too."""

FAILED = "drawn_k3/mixture=1/broken"
CHOSEN = "own/p=0.8/m=30/design=active/replicate=1/search=strong/conditional-auto"
UNSOLVED = "own/p=0.8/m=30/design=active/replicate=0/search=strong/nearest"
COMMANDS: dict[str, tuple[str, ...]] = {
    "everything/status": ("status", "results/everything.zarr"),
    "everything/status-json": ("status", "everything.toml", "--json"),
    # the folder has no cube: predictions come from sizes alone, and not from measured times
    "everything/plan": ("plan", "everything.toml", "--workers", "4", "--results", "none"),
    "everything/plan-json": ("plan", "everything.toml", "--workers", "4", "--results", "none", "--json"),
    "everything/plan-resolved": ("plan", "everything.toml", "--resolved"),
    "everything/why": ("why", "everything.toml"),
    "everything/why-failed": ("why", "everything.toml", FAILED),
    "everything/why-failed-json": ("why", "results/everything.zarr", FAILED, "--json"),
    "everything/why-chosen": ("why", "results/everything.zarr", CHOSEN),
    "everything/why-unsolved": ("why", "results/everything.zarr", UNSOLVED),
    "everything/why-none": ("why", "results/everything.zarr", CHOSEN.replace("strong", "stron")),
    "everything/report": (
        "report",
        "--png",
        "--full",
        "results/everything.zarr",
        "--against",
        "published.csv",
        "--cell",
        CHOSEN,
    ),
    "everything/export-scores": ("export", "results/everything.zarr", "--scores"),
    "everything/compare": ("compare", "--png", "results/everything.zarr", "results/sibling.zarr"),
    "sibling/plan": ("plan", "sibling.toml", "--workers", "4", "--results", "none"),
    "sibling/status": ("status", "sibling.toml"),
    "answered/status": ("status", "answered.toml"),
    "answered/plan": ("plan", "answered.toml", "--workers", "4", "--results", "none"),
    "answered/plan-resolved": ("plan", "answered.toml", "--resolved"),
    "answered/report": ("report", "--png", "results/answered.zarr", "--json"),
    "answered/compare-json": ("compare", "--png", "results/answered.zarr", "results/answered.zarr", "--json"),
}
"""What is shown, by the name of its text."""

FOLDERS = {
    "everything/report": "everything.report",
    "everything/compare": "sibling-against-everything.compare",
    "answered/report": "answered.report",
}
"""Folders that commands have written, of which every table, page and figure is kept."""

Digests = dict[str, str]


class Everything(NamedTuple):
    """The digests of arrays by cube and array, and the texts by name, that sweeps gave."""

    bits: dict[str, Digests]
    texts: dict[str, str]


def run_everything(folder: Path) -> Everything:
    """Run the sweeps in one process in an empty folder, and return everything that they gave."""
    shutil.copytree(GOLDEN / "sweeps", folder, dirs_exist_ok=True)
    figures: dict[str, str] = {}
    with (
        contextlib.chdir(folder),
        patch.object(socket, "gethostname", return_value=HOST),
        label_figures(figures),
    ):
        bits, texts = {}, {}
        for name, code in SWEEPS.items():
            bits[name] = run_sweep(name, code)
            if name in ("everything", "answered"):
                texts[f"{name}/cube.txt"] = layout(Path("results", f"{name}.zarr"))
            settle(Path("results", f"{name}.zarr"))
        for name, arguments in COMMANDS.items():
            figures.clear()
            text = stable_text(transcript(*arguments), folder)
            texts[f"{name}.txt"] = RECORDS.sub(lambda match: records_text(match[0]), text)
            if name in FOLDERS:
                texts |= {f"{name}/{path}": text for path, text in page_texts(Path("results", FOLDERS[name]))}
                drawings = (f"# {path}\n{text}" for path, text in sorted(figures.items()))
                texts[f"{name}/figures.txt"] = "\n".join(drawings)
        bits["everything.scores"] = digests(Path("results", "everything.scores.zarr"), ())
    return Everything(bits, {name: stable_text(text, folder) for name, text in texts.items()})


def run_packaged(folder: Path) -> dict[str, Digests]:
    """Run the sweep of the package in a folder, and return the digests of its cube by its name."""
    shutil.copy(ROOT / "sweeps" / f"{PACKAGED}.toml", folder)
    with contextlib.chdir(folder):
        return {PACKAGED: run_sweep(PACKAGED)}


def run_sweep(name: str, exit_code: int = 0) -> Digests:
    """Run a sweep file of the current folder in this process, and return the digests of its cube."""
    result = sweep("submit", f"{name}.toml", "--workers", 0)
    assert result.exit_code == exit_code, result.output
    return digests(Path("results", f"{name}.zarr"))


def digests(cube: Path, without: tuple[str, ...] = tuple(RUN_DEPENDENT)) -> Digests:
    """Return the sha256 of data type, shape and bytes of every array, by its path."""
    return {
        path: _digest(array[...]) for path, array in _arrays(cube) if path.rpartition("/")[2] not in without
    }


def layout(cube: Path) -> str:
    """Return lines of groups and arrays, then the codecs and attributes that arrays share."""
    root = zarr.open_group(cube, mode="r")
    lines = [f"/ {_json(root.attrs.asdict() | {'runs': len(root.attrs['runs'])})}"]
    shared: dict[str, dict[str, int]] = {"codecs": {}, "attributes": {}}
    for path, node in sorted(root.members(max_depth=None), key=lambda member: member[0]):
        if not isinstance(node, zarr.Array):
            lines.append(f"{path} {_json(node.attrs.asdict())}")
            continue
        stored = node.metadata.to_dict()
        texts = {"codecs": _json(stored["codecs"]), "attributes": _json(node.attrs.asdict())}
        places = {key: shared[key].setdefault(text, len(shared[key])) for key, text in texts.items()}
        fields = [stored.get(key) for key in ("data_type", "dimension_names", "shape", "fill_value")]
        lines.append(f"{path} {_json([*fields, node.chunks])} {places}")
    for key, texts in shared.items():
        lines += [f"{key} {place} {text}" for text, place in texts.items()]
    return "".join(f"{line}\n" for line in lines)


def settle(cube: Path) -> None:
    """Set all that differs from run to run to fixed values, through files of the cube alone."""
    for path, array in _arrays(cube, mode="r+"):
        if path.rpartition("/")[2] in RUN_DEPENDENT:
            first = int.from_bytes(hashlib.sha256(path.encode()).digest()[:2], "big")
            times = 1e-3 * (1 + (first + 7919 * np.arange(array.size)) % 1000).reshape(array.shape)
            is_time = array.dtype.kind == "f"
            array[...] = (
                np.where(np.isnan(array[...]), np.nan, times) if is_time else np.minimum(array[...], 1)
            )
    place = cube / "zarr.json"
    document = json.loads(place.read_text())
    document["attributes"]["machines"] = {"1": "a machine"}
    for run in document["attributes"]["runs"]:
        run |= {"started": "2026-01-02T03:04:05Z", "host": HOST, "python": "3", "commit": "c0ffee"}
        run |= {key: dict.fromkeys(run[key], "1.0") for key in ("versions", "fingerprint")}
    place.write_text(json.dumps(document))


def transcript(*arguments: str) -> str:
    """Return a command, its output and its exit code as text."""
    result = sweep(*arguments)
    errors = "".join(f"! {line}\n" for line in result.stderr.splitlines())
    return f"$ sweep {' '.join(arguments)}\n{result.stdout}{errors}exit {result.exit_code}\n"


def page_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the pages of a folder, the columns of its tables, and the names of all files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    yield "files.txt", "".join(f"{path.relative_to(folder)}\n" for path in files)
    pages = (path for path in files if path.suffix == ".html")
    yield from ((f"{path.name}.txt", page_text(path.read_text(encoding="utf-8"))) for path in pages)
    tables = (path for path in files if path.suffix == ".csv")
    yield "tables.txt", "\n".join(f"# {path.name}\n{table_text(read_table(path))}" for path in tables)


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV file, with a name for each column, and numbers of nine digits."""
    table = pd.read_csv(io.StringIO(stable_text(path.read_text(encoding="utf-8"), path.parent)), dtype=str)
    return table.fillna("")


def table_text(table: pd.DataFrame) -> str:
    """Return a line for each column of a table: counts, range or ends, and a digest of the values."""
    lines = [f"{len(table)} rows"]
    for name, values in table.items():
        filled = values[values != ""].tolist()
        try:
            numbers = [float(value) for value in filled]
            extent = (
                f"{min(numbers):.6g} to {max(numbers):.6g}, mean {np.mean(numbers):.6g}" if filled else ""
            )
        except ValueError:
            extent = f"{len(set(filled))} texts, {filled[0]} to {filled[-1]}"
        lines.append(f"  {name}: {len(filled)} of {len(values)}, {extent}, {_short_digest(values.tolist())}")
    return "".join(f"{line}\n" for line in lines)


RECORDS = re.compile(r"\[\s*\{[^][]*\}\s*\]")
"""A list of many objects within a document, such as the rows of a table."""


def records_text(text: str) -> str:
    """Return the columns of a list of objects, which stays as it is if it is short."""
    records = json.loads(text)
    if len(records) < 8:
        return text
    table = pd.DataFrame(records).map(lambda value: "" if value is None or value != value else str(value))
    return f"[{table_text(table)}]"


def stable_text(text: str, folder: Path) -> str:
    """Return the text with marks for times, the folder and this release, and numbers of nine digits."""
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( UTC|Z|\+00:00)", "TIME", text)
    text = re.sub(r'("since": )[\d.]+', r"\1TIME", text)
    text = re.sub(r"(by sweep )\d[\w.]*", r"\1VERSION", text)
    return re.sub(r"-?\d+\.\d{9,}(e-?\d+)?", lambda number: f"{float(number[0]):.9g}", text)


@contextlib.contextmanager
def label_figures(figures: dict[str, str]) -> Iterator[None]:
    """Describe each figure by its name and do not draw it, which saves nine tenths of the time."""

    def save(figure: Figure, target: Any, **options: object) -> None:
        if isinstance(target, Path):
            target.touch()
            figures[f"figures/{target.stem}.txt"] = figure_text(figure)
        else:
            target.write("<svg></svg>")

    with patch.object(Figure, "savefig", save):
        yield


def figure_text(figure: Figure) -> str:
    """Return the words of a figure, and for each panel counts and a digest of what is drawn in it."""
    lines = [f"texts {_texts(figure.texts)}", *(f"legend {_texts(key.texts)}" for key in figure.legends)]
    for axes in figure.axes:
        words = (axes.get_title(), axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel())
        lines.append(f"axes {_json([*words, axes.get_xscale(), axes.get_yscale()])}")
        if axes.get_legend() is not None:
            lines.append(f"  legend {_texts(axes.get_legend().texts)}")
        lines += [f"  text {_texts(axes.texts)}"] if axes.texts else []
        drawn = [_line(line) for line in axes.lines] + [_points(points) for points in axes.collections]
        drawn += [_numbers(image.get_array()) for image in axes.images]
        counts = f"{len(axes.lines)} lines, {len(axes.collections)} collections, {len(axes.patches)} patches"
        lines.append(f"  {counts} {_short_digest(drawn)}")
    return "\n".join(lines) + "\n"


def _line(line: Line2D) -> list[Any]:
    look = [line.get_color(), line.get_linestyle(), line.get_marker()]
    return [look, _numbers(line.get_xydata()), line.get_gid()]


def _points(points: Collection) -> list[Any]:
    """Return segments, vertices of areas, or places of points, and the identifier with the words on them."""
    if isinstance(points, LineCollection):
        places = points.get_segments()
    elif isinstance(points, PolyCollection):
        places = [path.vertices for path in points.get_paths()]
    else:
        places = [points.get_offsets()]
    return [*map(_numbers, places), points.get_gid()]


def _numbers(values: Any) -> list[list[float | None]]:
    """Return rows of six digits."""
    rows = np.atleast_2d(np.ma.filled(values, np.nan)).astype(float)
    return [[None if np.isnan(x) else float(f"{x:.6g}") for x in row] for row in rows]


def _short_digest(values: Any) -> str:
    return hashlib.sha256(_json(values).encode()).hexdigest()[:10]


class _PageText(HTMLParser):
    """Words of a page, a line for each block, heading, figure and row of a table; no drawings and scripts."""

    BLOCKS = ("p", "li", "tr", "title", "figcaption", "footer", "summary", "a", "dt", "dd", "pre", "section")
    HEADINGS = ("h1", "h2", "h3", "h4")
    SILENT = ("svg", "style", "script")

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in self.SILENT
        if tag in self.HEADINGS:
            self.lines.append(f"\n{'#' * int(tag[1])} ")
        elif tag in self.BLOCKS:
            self.lines.append(f"{tag}: ")
        elif tag in ("figure", "table", "details", "nav", "main"):
            self.lines.append(" ".join([f"<{tag}>", dict(attrs).get("class") or ""]).rstrip())
        elif tag in ("td", "th"):
            self.lines[-1] += "| "

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in self.SILENT

    def handle_data(self, data: str) -> None:
        if not self.silent and data.strip():
            self.lines[-1] += " ".join(data.split()) + " "


def page_text(html: str) -> str:
    """Return text and tables of a page."""
    parser = _PageText()
    parser.feed(html)
    return "".join(f"{line.rstrip()}\n" for line in parser.lines[1:])


def made_with() -> dict[str, str]:
    """Return the software for which equal bits are promised in every release."""
    return {key: value for key, value in fingerprint().items() if key != "sweep"}


def _arrays(cube: Path, mode: Any = "r") -> list[tuple[str, zarr.Array]]:
    members = zarr.open_group(cube, mode=mode).members(max_depth=None)
    return sorted((path, node) for path, node in members if isinstance(node, zarr.Array))


def _digest(values: Any) -> str:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        content, kind = json.dumps(array.tolist()).encode(), "text"
    else:
        content, kind = np.ascontiguousarray(array).tobytes(), array.dtype.str
    return hashlib.sha256(f"{kind} {array.shape} ".encode() + content).hexdigest()[:32]


def _texts(texts: Any) -> str:
    return _json([text.get_text() for text in texts])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
