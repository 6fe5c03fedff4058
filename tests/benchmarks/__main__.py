"""Measure what the documents say of speed and quality: `python -m tests.benchmarks [NAME ...] [--write]`.

Without a name all that need nothing but time: half an hour. Prints the tables; with `--write` they replace
those between the markers of README.md and docs/. `--check` measures nothing: every block of a document must
have its benchmark, every table of a benchmark its block, and both the same columns. `stopping` needs `--cube`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
# The modules stand beside this file, their helpers and the packages of the checkout where pytest has them.
sys.path[:0] = [str(HERE), str(HERE.parent / "helpers"), str(HERE.parents[1])]

from tables import blocks, documents, replaced  # noqa: E402

BENCHMARKS = ("speed", "quality", "growth", "biased_pairs", "common_variance", "annotators")
FROM_CUBES = "stopping"
BY_HAND = "scale"
"""Its tables join runs of an hour, on a quiet machine and on a busy one: `python -m tests.benchmarks.scale`."""


def problems() -> list[str]:
    """What documents and benchmarks say differently."""
    heads = {table.name: table.head for name in (*BENCHMARKS, FROM_CUBES, BY_HAND) for table in owned(name)}
    found = {}
    wrong = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for name, block in blocks(text):
            found[name] = path
            head = block.partition("\n")[0]
            if name not in heads:
                wrong.append(f"{path}: found a block of {name}, expected one of {', '.join(heads)}")
            elif head != heads[name]:
                wrong.append(f"{path}, {name}: found the columns {head}, expected {heads[name]}")
        if text.count("<!-- benchmark:") != len(list(blocks(text))):
            wrong.append(f"{path}: found a marker without its end, expected <!-- /benchmark -->")
    return wrong + [f"{name}: found in no document, expected a block" for name in heads if name not in found]


def owned(name: str) -> tuple:
    """Tables of one benchmark."""
    return importlib.import_module(name).TABLES


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice([*BENCHMARKS, FROM_CUBES]))
@click.option("--write", is_flag=True, help="Put the tables into the documents.")
@click.option("--cube", "cubes", multiple=True, type=click.Path(path_type=Path, exists=True))
@click.option("--check", is_flag=True, help="Compare markers and columns, and measure nothing.")
def main(names: tuple[str, ...], write: bool, cubes: tuple[Path, ...], check: bool) -> None:
    """See above."""
    if (FROM_CUBES in names) != bool(cubes):
        raise click.UsageError(f"--cube and {FROM_CUBES} need each other")
    wrong = problems()
    if wrong:
        raise click.ClickException("\n".join(wrong))
    for name in () if check else names or BENCHMARKS:
        module = importlib.import_module(name)
        measured = module.measure(cubes) if name == FROM_CUBES else module.measure()
        for block, text in measured.items():
            click.echo(f"{block}\n\n{text}\n")
        for path in documents() if write else ():
            before = path.read_text(encoding="utf-8")
            after = replaced(before, measured)
            if after != before:
                path.write_text(after, encoding="utf-8")
                click.echo(f"written: {path}")


if __name__ == "__main__":
    main()
