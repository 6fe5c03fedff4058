"""Measure the figures of the documents on speed and quality: `python -m benchmarks [NAME ...] [--write]`.

Without a name, all benchmarks run that need no files: half an hour. The command prints the tables. With
`--write` they replace those between the markers of README.md and docs/. `--check` measures nothing: every
block of a document must have its benchmark, every table of a benchmark its block, and both the same columns.
`stopping` needs `--cube`. `scale`, `suite`, `unseen`, `no_options`, `contest`, `people`, `texts`, `near`,
`asking_many`, `asking_open`, `unknown_accuracy`, `open_clusters`, `averages` and `versions` have commands of
their own: `python -m benchmarks scale --help`.
"""

import importlib
import sys
from pathlib import Path

import click

FOLDER = Path(__file__).resolve().parent
# As in the settings of pytest: small sweeps and ways into kernels are those of the tests.
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "tests" / "helpers"), str(FOLDER.parent)]

from tables import Sentence, Table, blocks, documents, show  # noqa: E402

BENCHMARKS = (
    "speed",
    "compiling",
    "quality",
    "strong",
    "growth",
    "biased_pairs",
    "common_variance",
    "feature_weight",
    "shapes",
    "shapes_mixtures",
    "shapes_biased",
    "any_shape",
    "hard",
    "clusters",
    "annotators",
    "crowd",
    "confidence",
    "checksums",
    "breadth",
    "large",
    "links",
    "memory",
    "rough",
    "methods",
    "asking",
    "asking_any",
    "numbering",
    "labels",
    "live",
    "machines",
)
FROM_CUBES = "stopping"
# Tables that take hours, or join runs on quiet and busy machines; these benchmarks have their own commands.
BY_HAND = (
    *("scale", "suite", "unseen", "no_options", "contest", "people", "texts", "near", "asking_many"),
    *("asking_open", "unknown_accuracy", "open_clusters", "averages", "versions"),
)


def problems() -> list[str]:
    """Return the differences between documents and benchmarks."""
    tables = {table.name: table for name in (*BENCHMARKS, FROM_CUBES, *BY_HAND) for table in tables_of(name)}
    names: list[str] = []
    messages = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for name, block in blocks(text):
            names.append(name)
            if name not in tables:
                messages.append(f"{path}: found a block of {name}, expected one of {', '.join(tables)}")
            elif not tables[name].fits(block):
                first = block.partition("\n")[0]
                messages.append(f"{path}, {name}: found {first}, expected {tables[name].form}")
        if text.count("<!-- benchmark:") != len(list(blocks(text))):
            messages.append(f"{path}: found a marker without its end, expected <!-- /benchmark -->")
    counts = {name: names.count(name) for name in tables}
    return messages + [f"{name}: found {n} blocks, expected one" for name, n in counts.items() if n != 1]


def tables_of(name: str) -> tuple[Table | Sentence, ...]:
    """Return the tables and sentences that one benchmark writes."""
    tables: tuple[Table | Sentence, ...] = importlib.import_module(name).TABLES
    return tables


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice([*BENCHMARKS, FROM_CUBES]))
@click.option("--write", is_flag=True, help="Put the tables into the documents.")
@click.option("--cube", "cubes", multiple=True, type=click.Path(path_type=Path, exists=True))
@click.option("--check", is_flag=True, help="Compare markers and columns, and measure nothing.")
def main(names: tuple[str, ...], write: bool, cubes: tuple[Path, ...], check: bool) -> None:
    """See above."""
    if (FROM_CUBES in names) != bool(cubes):
        raise click.UsageError(f"--cube and {FROM_CUBES} need each other")
    messages = problems()
    if messages:
        raise click.ClickException("\n".join(messages))
    for name in () if check else names or BENCHMARKS:
        module = importlib.import_module(name)
        texts = module.measure(cubes) if name == FROM_CUBES else module.measure()
        show(texts, write=write)


if __name__ == "__main__":
    program = "python -m benchmarks"
    if sys.argv[1:2] and sys.argv[1] in BY_HAND:
        importlib.import_module(sys.argv[1]).main(sys.argv[2:], prog_name=f"{program} {sys.argv[1]}")
    else:
        main(prog_name=program)
