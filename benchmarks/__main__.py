"""Measure what the documents say of speed and quality: `python -m benchmarks [NAME ...] [--write]`.

Without a name all that need nothing but time: half an hour. Prints the tables; with `--write` they replace
those between the markers of README.md and docs/. `--check` measures nothing: every block of a document must
have its benchmark, every table of a benchmark its block, and both the same columns. `stopping` needs
`--cube`; `scale`, `suite`, `unseen`, `no_options`, `contest`, `people`, `texts`, `asking_many`,
`unknown_accuracy` and `versions` have commands of their own: `python -m benchmarks scale --help`.
"""

import importlib
import sys
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
# As `pytest.ini` has it for what pytest measures: small sweeps and ways into kernels are those of the tests.
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "helpers"), str(HERE.parent)]

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
BY_HAND = ("scale", "suite", "unseen", "no_options", "contest", "people", "texts", "asking_many")
BY_HAND += ("unknown_accuracy", "versions")
"""Their tables take hours, or join runs on quiet and busy machines; they have commands of their own."""


def problems() -> list[str]:
    """What documents and benchmarks say differently."""
    every = {each.name: each for name in (*BENCHMARKS, FROM_CUBES, *BY_HAND) for each in owned(name)}
    found: list[str] = []
    wrong = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for name, block in blocks(text):
            found.append(name)
            if name not in every:
                wrong.append(f"{path}: found a block of {name}, expected one of {', '.join(every)}")
            elif not every[name].fits(block):
                first = block.partition("\n")[0]
                wrong.append(f"{path}, {name}: found {first}, expected {every[name].form}")
        if text.count("<!-- benchmark:") != len(list(blocks(text))):
            wrong.append(f"{path}: found a marker without its end, expected <!-- /benchmark -->")
    counts = {name: found.count(name) for name in every}
    return wrong + [f"{name}: found {n} blocks, expected one" for name, n in counts.items() if n != 1]


def owned(name: str) -> tuple[Table | Sentence, ...]:
    """What one benchmark writes."""
    owners: tuple[Table | Sentence, ...] = importlib.import_module(name).TABLES
    return owners


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
        show(measured, write=write)


if __name__ == "__main__":
    program = "python -m benchmarks"
    if sys.argv[1:2] and sys.argv[1] in BY_HAND:
        importlib.import_module(sys.argv[1]).main(sys.argv[2:], prog_name=f"{program} {sys.argv[1]}")
    else:
        main(prog_name=program)
