"""Run trials with damaged files: `python -m tests.fuzz KIND SEED`, or `KIND START:STOP` for many.

Prints what is wrong with each trial that fails, keeps its files, and exits with 1 if any did. Memory is
limited to 1 GiB more than the process has once its packages are loaded.
"""

import resource
import sys
import tempfile
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
# The helpers and the packages of the checkout where pytest has them.
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parents[1])]

from fuzz import trial  # noqa: E402


@click.command(help=__doc__)
@click.argument("kind", type=click.Choice([*trial.KINDS, "all"]))
@click.argument("seeds")
@click.option("--processes", is_flag=True, help="Run each command as a process of its own.")
@click.option("--folder", type=click.Path(path_type=Path), help="For the files.  [default: a temporary one]")
def main(kind: str, seeds: str, processes: bool, folder: Path | None) -> None:
    start, _, stop = seeds.partition(":")
    numbers = range(int(start), int(stop or int(start) + 1))
    folder = folder or Path(tempfile.mkdtemp(prefix="sweep-fuzz-"))
    # Before the limit: templates, and one good run of every kind, load what there is to load.
    templates = trial.make_templates(folder / "templates")
    memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = memory + trial.MOST_BYTES
    run = partial(trial.as_a_process, most=most) if processes else trial.in_this_process
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    warnings.simplefilter("error")
    failed, codes = 0, Counter[int]()
    for name in [kind] if kind != "all" else trial.KINDS:
        for seed in numbers:
            place = folder / f"{name}-{seed}"
            outcome = trial.run_trial(name, seed, templates, place, run)
            codes[outcome.code] += 1
            if outcome.fault or len(numbers) == 1:
                click.echo(f"--- {name} {seed}: exit code {outcome.code}\n{outcome}\nfiles: {place}")
            failed += bool(outcome.fault)
    ends = ", ".join(f"{count} ended with {code}" for code, count in sorted(codes.items()))
    click.echo(f"{len(numbers)} seeds of {kind}: {failed} failed; {ends}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
