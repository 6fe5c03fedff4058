"""Render the tables of the benchmarks, and keep them between markers in the documents."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click
import numpy as np
from checkout import ROOT
from numpy.typing import NDArray

# A block of a document between its markers, which a benchmark writes; a new one is empty.
END = "<!-- /benchmark -->"
BLOCK = re.compile(rf"(<!-- benchmark: (?P<name>[\w/]+) -->\n)(?P<text>.*?)\n?{END}", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """A table that a benchmark writes.

    Parameters
    ----------
    name : str
        Name in the markers: the module, and the part that the table shows if the module has several.
    columns : tuple of str
        Heads of the columns.
    """

    name: str
    columns: tuple[str, ...]

    @property
    def form(self) -> str:
        """Return the first line in Markdown."""
        return _line(self.columns)

    def markdown(self, rows: Iterable[Iterable[object]]) -> str:
        """Return the table in Markdown."""
        return "\n".join([self.form, "|---" * len(self.columns) + "|", *map(_line, rows)])

    def fits(self, text: str) -> bool:
        """Whether a document has a table with these columns."""
        return text.partition("\n")[0] == self.form


@dataclass(frozen=True)
class Sentence:
    """A sentence with numbers that a benchmark writes.

    Parameters
    ----------
    name : str
        Name in the markers.
    form : str
        The sentence, with `{}` for each number.
    """

    name: str
    form: str

    def fits(self, text: str) -> bool:
        """Whether a document has this sentence with any numbers."""
        return re.fullmatch(re.escape(self.form).replace(r"\{\}", r"[\d.]+"), text) is not None


def documents() -> list[Path]:
    """Return every document that may have a table."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every block of a document."""
    for match in BLOCK.finditer(text):
        yield match["name"], match["text"]


def replace_blocks(text: str, texts: Mapping[str, str]) -> str:
    """Return a document in which new texts stand in the blocks that were measured."""

    def new_block(match: re.Match[str]) -> str:
        return f"{match[1]}{texts.get(match['name'], match['text'])}\n{END}"

    return BLOCK.sub(new_block, text)


def show(texts: Mapping[str, str], *, write: bool, commit: str = "") -> None:
    """Print the new text of each block by its name, and put it into the documents if `write`.

    `commit` is the one that computed the results, if it is not the present one.
    """
    for name, text in texts.items():
        click.echo(f"{name}\n\n{text}\n")
    for path in documents() if write else ():
        old_text = path.read_text(encoding="utf-8")
        if (new_text := replace_blocks(old_text, texts)) != old_text:
            path.write_text(new_text, encoding="utf-8")
            click.echo(f"written: {path}")
    if write:
        log_numbers(texts, commit)


# The log has the call, the commit and the numbers of each block of the README.
LOG = ROOT / "docs" / "side-by-side" / "LOG.md"


def log_numbers(texts: Mapping[str, str], commit: str) -> None:
    """Write the line of the log for each block of the README that was measured."""
    if not commit:
        command = ["git", "rev-parse", "--short=8", "HEAD"]
        commit = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    call = shlex.join(["python", "-m", "benchmarks", *words])
    names = [name for name, _ in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if name in texts]
    lines = LOG.read_text(encoding="utf-8").splitlines() if names else []
    for name in names:
        numbers = ", ".join(re.findall(r"\d+(?:\.\d+)?", texts[name]))
        new = _line((name, numbers, f"`{call}`", commit))
        lines = [new if line.startswith(f"| {name} |") else line for line in lines]
    if names:
        LOG.write_text("\n".join(lines) + "\n", encoding="utf-8")


def fail(message: str) -> NoReturn:
    """Report that data are missing, and end with exit code 2."""
    click.echo(message, err=True)
    sys.exit(2)


def mean_error(values: NDArray[np.float64]) -> str:
    """Return the mean and its standard error."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def _line(cells: Iterable[object]) -> str:
    return "".join(f"| {cell} " if str(cell) else "| " for cell in cells) + "|"
