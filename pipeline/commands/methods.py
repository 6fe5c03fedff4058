"""The `sweep methods` commands."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.commands.options import Word, json_option, next_step, reported, show
from pipeline.common import COMPLETE, FAILED_CELLS
from sweeps.errors import InputError, Problem, collecting, given, not_one_of
from sweeps.words import SHIPPED

if TYPE_CHECKING:
    from pipeline.methods.check import Outcome, Report
    from pipeline.methods.loading import MethodCall

USES = ("links", "nothing")


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
        click.echo(f"{name:<28}{shipped.uses:<9}{shipped.restarts:>8}")
        click.echo(f"{'':<4}{shipped.text}")
    next_step("methods", "template")


@methods.command("template")
def template() -> None:
    """Print a method to begin with, a Python file."""
    import pipeline.methods

    text = (Path(pipeline.methods.__file__).parent / "template.py").read_text(encoding="utf-8")
    click.echo(text, nl=False)
    next_step("methods", "check", "FILE.py:FUNCTION")


@methods.command("check")
@click.argument("method", metavar="NAME|FILE.py:FUNCTION|MODULE:FUNCTION")
@click.option(
    "--options",
    default="{}",
    show_default=False,
    metavar="JSON",
    help="Options of every call, as one JSON object.",
)
@click.option(
    "--uses",
    type=Word(USES),
    help='What the method sees, as in the sweep file.  [default: "links", or what a shipped method uses]',
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    metavar="SECONDS",
    help="Longest time of a call; each has 30 samples at most.",
)
@json_option
def check(method: str, options: str, uses: str | None, time_limit: float, as_json: bool) -> None:
    """Try a method on small problems and name all that it does not keep of its contract.

    Exits with 0 if it keeps the contract, with 3 if not, and with 2 if there is no such method.
    """
    from pipeline.methods.check import check as tried
    from pipeline.methods.process import MethodFailed, MethodProcess

    with reported():
        call, problems = _call(method, options, time_limit)
        if uses is not None and uses not in USES:
            problems.append(not_one_of("--uses", uses, USES))
        try:
            if problems:
                if call is not None:
                    with MethodProcess() as process, collecting(problems):
                        process.load(call)
                raise InputError(problems)
            seen = uses or (SHIPPED[method].uses if method in SHIPPED else "links")
            report = tried(given(call), seen)  # type: ignore[arg-type]  # one of USES
        except MethodFailed as error:
            click.echo(error.traceback, err=True)
            problem = Problem(f"method {method!r}", error.cause, "what can be imported")
            raise InputError([*problems, problem]) from None
    if as_json:
        show({"method": method, "uses": seen, **asdict(report)})
    else:
        show(_lines(method, report))
        if not report.breaches:
            next_step("plan", "sweeps/methods.toml")
    sys.exit(FAILED_CELLS if report.breaches else COMPLETE)


def _call(method: str, options: str, time_limit: float) -> tuple[MethodCall | None, list[Problem]]:
    """The call, without options that are wrong; None where there is no file."""
    from pipeline.methods.loading import MethodCall, read_source

    problems: list[Problem] = []
    chosen: Any = {}
    try:
        chosen = json.loads(options)
    except ValueError as error:
        problems.append(Problem("--options", f"{options!r} ({error})", 'JSON, such as {"gamma": 0.5}'))
    if not isinstance(chosen, dict):
        problems.append(Problem("--options", options, 'an object, such as {"gamma": 0.5}'))
        chosen = {}
    source = None
    try:
        source = read_source(method, Path())
    except InputError as error:
        return None, [*error.problems, *problems]
    return MethodCall(method, method, source, chosen, time_limit), problems


def _lines(method: str, report: Report) -> list[str]:
    version = f" ({report.version})" if report.version else ""
    lines = [f"{method}{version}", *map(_line, report.outcomes)]
    if not report.breaches:
        return [*lines, "keeps the contract"]
    count = len(report.breaches)
    lines.append(f"{count} breach{'es' if count > 1 else ''} of the contract:")
    for breach in report.breaches:
        where = f" ({breach.where})" if breach.where else ""
        lines.append(f"  {breach.what}: {breach.found}{where}")
        lines += [f"      {line}" for line in breach.traceback.splitlines()]
    return lines


def _line(outcome: Outcome) -> str:
    if outcome.seconds is None:
        return f"  {outcome.instance:<44}{outcome.note[:60]}"
    objective = "" if outcome.objective is None else f"  objective {outcome.objective:.6g}"
    clusters = f"{outcome.clusters} cluster{'' if outcome.clusters == 1 else 's'}"
    return f"  {outcome.instance:<44}{clusters}, {1000 * outcome.seconds:.1f} ms{objective}"
