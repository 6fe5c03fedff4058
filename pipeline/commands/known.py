"""Commands on names that sweep files know: `datasets`, `methods`, and `schema`, which an editor reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweep_clustering.pipeline.commands import arguments as shared
from sweep_clustering.pipeline.commands.output import next_step, progress_bar, reported, show
from sweep_clustering.pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL, plural
from sweep_clustering.sweeps.errors import Problem, collecting, did_you_mean, raise_all, refused
from sweep_clustering.sweeps.words import SHIPPED

if TYPE_CHECKING:
    from sweep_clustering.pipeline.methods.process import Report

NEXT_SWEEP = "submit", "sweeps/uci.toml"

takes_names = shared.stacked(
    click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=shared.complete_datasets),
    shared.data_dir_option,
)


@click.command()
@shared.flag("--cluster", help="Print the schema of cluster.yaml instead.")
def schema(cluster: bool) -> None:
    """Print the JSON Schema of the sweep file."""
    if cluster:
        from sweep_clustering.pipeline.cluster.profiles import cluster_schema as json_schema
    else:
        from sweep_clustering.sweeps.file.reading import sweep_schema as json_schema
    click.echo(json_schema(), nl=False)


@click.group()
def datasets() -> None:
    """List, fetch and check the data sets known by name."""


@datasets.command("list")
@takes_names
@shared.json_option
def list_datasets(names: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Show sizes, licence, and where each data set would come from on this machine.

    NAMES are data sets, or patterns in quotes, such as suite/uci/* for a battery. Without
    any, a suite is one line.
    """
    from sweep_clustering.sweeps.data.builtin import catalogue

    with reported():
        records = catalogue(data_dir, _names_of(names))
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
        return
    shown_records = [record for record in records if names or "/" not in record.name]
    width = max(16, *(len(record.name) + 2 for record in shown_records))
    click.echo(f"{'name':<{width}}{'N':>6}{'D':>4}{'K':>4}  source")
    for record in shown_records:
        source = record.source or "not on this machine: sweep datasets fetch"
        sizes = f"{record.n_samples:>6}{record.n_features:>4}{record.n_clusters:>4}"
        click.echo(f"{record.name:<{width}}{sizes}  {source}")
        for line in (
            f"{record.licence or 'no known licence'}; {record.landing_page}",
            *(() if record.source else record.reasons),
        ):
            click.echo(f"{'':<{width + 16}}{line}")
    if suite := [record for record in records if record not in shown_records]:
        n_here = sum(bool(record.source) for record in suite)
        click.echo(
            f"{'suite/*':<{width + 16}}{n_here} of {len(suite)} data sets of the clustering suite are here:"
        )
        click.echo(f"{'':<{width + 16}}sweep datasets list 'suite/*'")
    next_step(*(NEXT_SWEEP if all(record.source for record in shown_records) else ("datasets", "fetch")))


@datasets.command("fetch")
@takes_names
def fetch_datasets(names: tuple[str, ...], data_dir: Path | None) -> None:
    """Download what is not on this machine yet, for nodes without a network; what is here stays.

    NAMES are data sets, or patterns in quotes, such as suite/* for a whole suite; by default
    all data sets but those of the suite.
    """
    from sweep_clustering.sweeps.data.builtin import Unavailable, causes, find

    reasons = dict[str, Sequence[str]]()
    with reported():
        datasets = [name for name in _names_of(names) if names or "/" not in name]
        for name in progress_bar(datasets, "data sets"):
            try:
                click.echo(f"{name}: {find(name, data_dir=data_dir).path}")
            except Unavailable as unavailable:
                reasons[name] = unavailable.reasons
    if reasons:
        n_here = len(datasets) - len(reasons)
        state = f"{len(reasons)} of {len(datasets)} are not available, {n_here} are here"
        names_text = ", ".join([*reasons][:5]) + (", ..." if len(reasons) > 5 else "")
        click.echo(f"{state}; the same again goes on: {names_text}", err=True)
        for cause in causes(reasons.values()):
            click.echo(f"  {cause}", err=True)
        click.echo(
            "without a network, save their files into a folder for --data-dir: sweep datasets list", err=True
        )
        sys.exit(INTERNAL)
    next_step(*NEXT_SWEEP)


@datasets.command("check")
@takes_names
@shared.json_option
def check_datasets(names: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Verify the checksums of what is on this machine; exit with 1 if something is missing or damaged.

    NAMES are data sets, or patterns in quotes, such as suite/uci/* for a battery; by
    default all data sets but those of the suite.
    """
    from sweep_clustering.sweeps.data.builtin import catalogue

    with reported():
        records = catalogue(data_dir, [name for name in _names_of(names) if names or "/" not in name])
    missing_names = [record.name for record in records if not record.source]
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
    else:
        for record in records:
            state = f"good, {record.source}" if record.source else f"MISSING: {'; '.join(record.reasons)}"
            click.echo(f"{record.name}: {state}")
        next_step(*(("datasets", "fetch", *missing_names) if missing_names else NEXT_SWEEP))
    sys.exit(INTERNAL if missing_names else COMPLETE)


def _names_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the data sets of these names and patterns, each once, or all known ones."""
    from sweep_clustering.sweeps.data.builtin import BUILTIN, KNOWN_NAMES, fitting

    wrong_names = (name for name in names if not fitting(name))
    raise_all(Problem("NAME", repr(name), KNOWN_NAMES, did_you_mean(name, BUILTIN)) for name in wrong_names)
    return tuple(dict.fromkeys(match for name in names for match in fitting(name))) or BUILTIN


@click.group()
def methods() -> None:
    """List the methods that come with sweep, and try those of your own."""


@methods.command("list")
@shared.json_option
def list_methods(as_json: bool) -> None:
    """Show the methods that sweep files know by name."""
    if as_json:
        rows = [{"name": name, **asdict(shipped)} for name, shipped in SHIPPED.items()]
        click.echo(json.dumps(rows, indent=2))
        return
    click.echo(f"{'name':<28}{'uses':<9}{'restarts':>8}")
    for name, shipped in SHIPPED.items():
        click.echo(f"{name:<28}{shipped.uses:<9}{shipped.restarts:>8}\n    {shipped.text}")
        if shipped.install_command:
            click.echo(f"    needs {shipped.package}, which is not installed: {shipped.install_command}")
    next_step("methods", "template")


@methods.command("template")
def template() -> None:
    """Print a method to begin with, a Python file."""
    text = (files("sweep_clustering.pipeline.methods") / "template.py").read_text(encoding="utf-8")
    click.echo(text, nl=False)
    next_step("methods", "check", "FILE.py:FUNCTION")


@methods.command("sweep")
@click.argument("calls", nargs=-1, required=True, metavar="METHOD...", shell_complete=shared.complete_methods)
@shared.path_option("--like", default="sweeps/suite.toml", help="Sweep file whose cells they are to have.")
def sweep_of_methods(calls: tuple[str, ...], like: Path) -> None:
    """Print a sweep file of METHOD on the data sets, annotations and seeds of another one.

    METHOD is FILE.py:FUNCTION, MODULE:FUNCTION or a name of "sweep methods list"; or, in braces, a table as
    in a sweep file: '{name = "mine", call = "own.py:cluster", restarts = 5}'.
    """
    from sweep_clustering.sweeps.file.reading import as_toml

    with reported():
        text = as_toml(shared.sweep_of(like, calls))
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
@shared.json_option
def check_method(method: str, options: str, uses: str | None, time_limit: float, as_json: bool) -> None:
    """Try a method on small problems and name all that it does not keep of its contract.

    Exits with 0 if it keeps the contract, with 3 if not, and with 2 if there is no such method.
    """
    from sweep_clustering.pipeline.methods.loading import MethodCall, read_source
    from sweep_clustering.pipeline.methods.process import MethodFailed, check

    annotations = uses or (SHIPPED[method].uses if method in SHIPPED else "links")
    problems: list[Problem] = []
    keywords: Any = None
    with suppress(ValueError):
        keywords = json.loads(options)
    if not isinstance(keywords, dict):
        problems.append(Problem("--options", options, 'a JSON object, such as {"gamma": 0.5}'))
    with reported():
        with collecting(problems):
            source = read_source(method)
        raise_all(problems)
        try:
            call = MethodCall(method, method, source, keywords, time_limit)
            report = check(call, annotations)  # type: ignore[arg-type]
        except MethodFailed as error:
            click.echo(error.traceback, err=True)
            raise refused(f"method {method!r}", error.cause, "what can be imported") from None
    if as_json:
        show({"method": method, "uses": annotations, **report.to_dict()})
    else:
        show(list(_lines(method, report)))
        if not report.breaches:
            next_step("methods", "sweep", method)
    sys.exit(FAILED_CELLS if report.breaches else COMPLETE)


def _lines(method: str, report: Report) -> Iterator[str]:
    """Yield the report of a check for people."""
    yield f"{method} ({report.version})" if report.version else method
    for outcome in report.outcomes:
        text = outcome.note[:60]
        if outcome.clusters is not None and outcome.seconds is not None:
            text = f"{plural(outcome.clusters, 'cluster')}, {1000 * outcome.seconds:.1f} ms"
            text += "" if outcome.objective is None else f"  objective {outcome.objective:.6g}"
        yield f"  {outcome.instance:<44}{text}"
    if not report.breaches:
        yield "keeps the contract"
        return
    yield f"{plural(len(report.breaches), 'breach', 'breaches')} of the contract:"
    for breach in report.breaches:
        location = f" ({breach.where})" if breach.where else ""
        yield f"  {breach.what}: {breach.cause}{location}"
        yield from (f"      {line}" for line in breach.traceback.splitlines())
