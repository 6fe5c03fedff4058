"""Tables of the benchmarks: rendered in one place, and kept between markers in the documents."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from checkout import ROOT
from numpy.typing import NDArray

BLOCK = re.compile(r"(<!-- benchmark: (?P<name>[\w/]+) -->\n)(?P<text>.*?)(\n<!-- /benchmark -->)", re.DOTALL)
"""What a benchmark wrote into a document."""


@dataclass(frozen=True)
class Table:
    """A table that a benchmark owns.

    Parameters
    ----------
    name : str
        Of its markers: the module, and what it shows if the module has several.
    columns : tuple of str
        Heads.
    """

    name: str
    columns: tuple[str, ...]

    @property
    def form(self) -> str:
        """The first line in Markdown."""
        return _line(self.columns)

    def markdown(self, rows: Iterable[Iterable[object]]) -> str:
        """The table in Markdown."""
        return "\n".join([self.form, "|---" * len(self.columns) + "|", *map(_line, rows)])

    def fits(self, text: str) -> bool:
        """Whether a document has a table of these columns."""
        return text.partition("\n")[0] == self.form


@dataclass(frozen=True)
class Sentence:
    """A sentence with numbers that a benchmark owns.

    Parameters
    ----------
    name : str
        Of its markers.
    form : str
        With `{}` for each number.
    """

    name: str
    form: str

    def fits(self, text: str) -> bool:
        """Whether a document has this sentence, whatever the numbers."""
        return re.fullmatch(re.escape(self.form).replace(r"\{\}", r"[\d.]+"), text) is not None


def documents() -> list[Path]:
    """Every document that may hold a table."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Name and content of every block of a document."""
    for found in BLOCK.finditer(text):
        yield found["name"], found["text"]


def replaced(text: str, measured: Mapping[str, str]) -> str:
    """A document with what was measured in place of what stood between its markers."""

    def block(found: re.Match[str]) -> str:
        return found[1] + measured.get(found["name"], found["text"]) + found[4]

    return BLOCK.sub(block, text)


def show(measured: Mapping[str, str], *, write: bool, commit: str = "") -> None:
    """Print what was measured, by the name of its block, and put it into the documents if `write`.

    `commit` is that with which the measured results were computed, if it is not the present one.
    """
    for name, text in measured.items():
        click.echo(f"{name}\n\n{text}\n")
    for path in documents() if write else ():
        before = path.read_text(encoding="utf-8")
        if (after := replaced(before, measured)) != before:
            path.write_text(after, encoding="utf-8")
            click.echo(f"written: {path}")
    if write:
        log_numbers(measured, commit)


LOG = ROOT / "docs" / "side-by-side" / "LOG.md"
"""Call, commit and numbers of each block of the README."""


def log_numbers(measured: Mapping[str, str], commit: str) -> None:
    """Write the line of the log for each block of the README that was measured."""
    if not commit:
        command = ["git", "rev-parse", "--short=8", "HEAD"]
        commit = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    call = shlex.join(["python", "-m", "benchmarks", *words])
    names = [name for name, _ in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if name in measured]
    lines = LOG.read_text(encoding="utf-8").splitlines() if names else []
    for name in names:
        numbers = ", ".join(re.findall(r"\d+(?:\.\d+)?", measured[name]))
        new = _line((name, numbers, f"`{call}`", commit))
        lines = [new if line.startswith(f"| {name} |") else line for line in lines]
    if names:
        LOG.write_text("\n".join(lines) + "\n", encoding="utf-8")


def mean_error(values: NDArray[np.float64]) -> str:
    """Mean and its standard error."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def _line(cells: Iterable[object]) -> str:
    return "".join(f"| {cell} " if str(cell) else "| " for cell in cells) + "|"
