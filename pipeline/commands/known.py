"""Commands on what sweep files know by name: `datasets`, `methods`, and `schema`, which an editor reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweep_clustering.pipeline.commands import options as shared
from sweep_clustering.pipeline.commands.options import flag, json_option, next_step, reported
from sweep_clustering.pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL, plural
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean
from sweep_clustering.sweeps.words import SHIPPED

if TYPE_CHECKING:
    from sweep_clustering.pipeline.methods.check import Report

NEXT_SWEEP = "submit", "sweeps/uci.toml"

names_argument = click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=shared.complete_datasets
)


@click.command()
@flag("--cluster", help="Print the schema of cluster.yaml instead.")
def schema(cluster: bool) -> None:
    """Print the JSON Schema of the sweep file."""
    if cluster:
        from sweep_clustering.pipeline.cluster.profiles import cluster_schema as printed
    else:
        from sweep_clustering.sweeps.file.reading import sweep_schema as printed
    click.echo(printed(), nl=False)


@click.group()
def datasets() -> None:
    """List, fetch and check the data sets known by name."""


@datasets.command("list")
@names_argument
@shared.data_dir_option
@json_option
def list_datasets(names: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Show sizes, licence, and where each data set would come from on this machine.

    NAMES are data sets, or patterns in quotes, such as suite/uci/* for a battery. Without
    any, a suite is one line.
    """
    from sweep_clustering.sweeps.data.builtin import catalogue

    with reported():
        records = catalogue(data_dir, _known(names))
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
        return
    shown = [record for record in records if names or "/" not in record.name]
    width = max(16, *(len(record.name) + 2 for record in shown))
    click.echo(f"{'name':<{width}}{'N':>6}{'D':>4}{'K':>4}  source")
    for record in shown:
        source = record.source or "not on this machine: sweep datasets fetch"
        sizes = f"{record.n_samples:>6}{record.n_features:>4}{record.n_clusters:>4}"
        click.echo(f"{record.name:<{width}}{sizes}  {source}")
        for line in (f"{record.licence}; {record.landing_page}", *(() if record.source else record.reasons)):
            click.echo(f"{'':<{width + 16}}{line}")
    if rest := [record for record in records if record not in shown]:
        here = sum(bool(record.source) for record in rest)
        click.echo(
            f"{'suite/*':<{width + 16}}{here} of {len(rest)} data sets of the clustering suite are here:"
        )
        click.echo(f"{'':<{width + 16}}sweep datasets list 'suite/*'")
    next_step(*(NEXT_SWEEP if all(record.source for record in shown) else ("datasets", "fetch")))


# Data sets that cannot be had, of which it is said why; the others are counted.
TOLD = 3


@datasets.command("fetch")
@names_argument
@shared.data_dir_option
def fetch_datasets(names: tuple[str, ...], data_dir: Path | None) -> None:
    """Download what is not on this machine yet, for nodes without a network; what is here stays.

    NAMES are data sets, or patterns in quotes, such as suite/* for a whole suite; by default
    all data sets but those of the suite.
    """
    from rich.console import Console
    from rich.progress import track

    from sweep_clustering.sweeps.data.builtin import Unavailable, find

    missing, console = list[str](), Console(stderr=True)
    with reported():
        wanted = [name for name in _known(names) if names or "/" not in name]
        shown = track(wanted, "data sets", console=console, transient=True, disable=not console.is_terminal)
        for name in shown:
            try:
                click.echo(f"{name}: {find(name, data_dir=data_dir).path}")
            except Unavailable as unavailable:
                missing.append(name)
                if len(missing) <= TOLD:
                    click.echo(f"{name}: not available: {'; '.join(unavailable.reasons)}", err=True)
    if missing:
        have = len(wanted) - len(missing)
        again = f"{len(missing)} of {len(wanted)} are not available, {have} are here; the same again goes on"
        click.echo(f"{again}: {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}", err=True)
        sys.exit(INTERNAL)
    next_step(*NEXT_SWEEP)


@datasets.command("check")
@names_argument
@shared.data_dir_option
@json_option
def check_datasets(names: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Verify the checksums of what is on this machine; exit with 1 if something is missing or damaged.

    NAMES are data sets, or patterns in quotes, such as suite/uci/* for a battery; by
    default all data sets but those of the suite.
    """
    from sweep_clustering.sweeps.data.builtin import catalogue

    with reported():
        records = catalogue(data_dir, [name for name in _known(names) if names or "/" not in name])
    missing = [record.name for record in records if not record.source]
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
    else:
        for record in records:
            found = f"good, {record.source}" if record.source else f"MISSING: {'; '.join(record.reasons)}"
            click.echo(f"{record.name}: {found}")
        next_step(*(("datasets", "fetch", *missing) if missing else NEXT_SWEEP))
    sys.exit(INTERNAL if missing else COMPLETE)


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    """Data sets of these names and patterns, each once; all without a name."""
    from sweep_clustering.sweeps.data.registry import BUILTIN, KNOWN, fitting

    unknown = [name for name in names if not fitting(name)]
    if unknown:
        raise InputError(Problem("NAME", repr(name), KNOWN, did_you_mean(name, BUILTIN)) for name in unknown)
    return tuple(dict.fromkeys(each for name in names for each in fitting(name))) or BUILTIN


@click.group()
def methods() -> None:
    """List the methods that come with sweep, and try those of your own."""


@methods.command("list")
@json_option
def list_methods(as_json: bool) -> None:
    """Show the methods that sweep files know by name."""
    if as_json:
        rows = [{"name": name, **asdict(shipped)} for name, shipped in SHIPPED.items()]
        click.echo(json.dumps(rows, indent=2))
        return
    click.echo(f"{'name':<28}{'uses':<9}{'restarts':>8}")
    for name, shipped in SHIPPED.items():
        click.echo(f"{name:<28}{shipped.uses:<9}{shipped.restarts:>8}\n    {shipped.text}")
        if shipped.missing:
            click.echo(f"    needs {shipped.package}, which is not installed: {shipped.missing}")
    next_step("methods", "template")


@methods.command("template")
def template() -> None:
    """Print a method to begin with, a Python file."""
    text = (files("sweep_clustering.pipeline.methods") / "template.py").read_text(encoding="utf-8")
    click.echo(text, nl=False)
    next_step("methods", "check", "FILE.py:FUNCTION")


@methods.command("sweep")
@click.argument(
    "called", nargs=-1, required=True, metavar="METHOD...", shell_complete=shared.complete_methods
)
@shared.place("--like", default="sweeps/suite.toml", help="Sweep file whose cells they are to have.")
def sweep_of_methods(called: tuple[str, ...], like: Path) -> None:
    """Print a sweep file of METHOD on the data sets, annotations and seeds of another one.

    METHOD is FILE.py:FUNCTION, MODULE:FUNCTION or a name of "sweep methods list"; or, in braces, a table as
    in a sweep file: '{name = "mine", call = "own.py:cluster", restarts = 5}'.
    """
    from sweep_clustering.sweeps.file.reading import as_toml

    with reported():
        text = as_toml(shared.sweep_of(like, called))
    click.echo(text, nl=False)
    next_step("submit", "FILE.toml")


@methods.command("check")
@click.argument(
    "method", metavar="NAME|FILE.py:FUNCTION|MODULE:FUNCTION", shell_complete=shared.complete_methods
)
@click.option(
    "--options",
    default="{}",
    show_default=False,
    metavar="JSON",
    help="Options for every call: one JSON object.",
)
@click.option(
    "--uses",
    type=click.Choice(("links", "nothing")),
    help='What the method sees, as in the sweep file.  [default: "links", or what a shipped method uses]',
)
@click.option(
    "--time-limit",
    type=shared.SECONDS,
    default=10.0,
    metavar="SECONDS",
    help="Longest time of a call; each has 30 samples at most.",
)
@json_option
def check_method(method: str, options: str, uses: str | None, time_limit: float, as_json: bool) -> None:
    """Try a method on small problems and name all that it does not keep of its contract.

    Exits with 0 if it keeps the contract, with 3 if not, and with 2 if there is no such method.
    """
    from sweep_clustering.pipeline.methods.check import check
    from sweep_clustering.pipeline.methods.loading import MethodCall, read_source
    from sweep_clustering.pipeline.methods.process import MethodFailed

    seen = uses or (SHIPPED[method].uses if method in SHIPPED else "links")
    problems: list[Problem] = []
    chosen: Any = None
    with suppress(ValueError):
        chosen = json.loads(options)
    if not isinstance(chosen, dict):
        problems.append(Problem("--options", options, 'a JSON object, such as {"gamma": 0.5}'))
    with reported():
        with collecting(problems):
            source = read_source(method)
        if problems:
            raise InputError(problems)
        try:
            report = check(MethodCall(method, method, source, chosen, time_limit), seen)  # type: ignore[arg-type]
        except MethodFailed as error:
            click.echo(error.traceback, err=True)
            problem = Problem(f"method {method!r}", error.cause, "what can be imported")
            raise InputError([problem]) from None
    if as_json:
        shared.show({"method": method, "uses": seen, **asdict(report)})
    else:
        shared.show(list(_lines(method, report)))
        if not report.breaches:
            next_step("methods", "sweep", method)
    sys.exit(FAILED_CELLS if report.breaches else COMPLETE)


def _lines(method: str, report: Report) -> Iterator[str]:
    """What a check found, for people."""
    yield f"{method} ({report.version})" if report.version else method
    for each in report.outcomes:
        text = each.note[:60]
        if each.clusters is not None and each.seconds is not None:
            text = f"{plural(each.clusters, 'cluster')}, {1000 * each.seconds:.1f} ms"
            text += "" if each.objective is None else f"  objective {each.objective:.6g}"
        yield f"  {each.instance:<44}{text}"
    if not report.breaches:
        yield "keeps the contract"
        return
    yield f"{plural(len(report.breaches), 'breach', 'breaches')} of the contract:"
    for breach in report.breaches:
        where = f" ({breach.where})" if breach.where else ""
        yield f"  {breach.what}: {breach.found}{where}"
        yield from (f"      {line}" for line in breach.traceback.splitlines())
