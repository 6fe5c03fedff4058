"""The `sweep` command: its group, and the table of its commands.

`runs` has the commands on sweeps and their runs, `results` those on cubes, `fit` those on one table, and
`known` those on names. A command is loaded when it is called, and loads what it needs when it runs: help, and
errors in a command line, come at once.
"""

import logging
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click
from click.shell_completion import BashComplete, add_completion_class

from sweep_clustering.installation import InstallationError
from sweep_clustering.pipeline.commands.output import INTERRUPTS, STDOUT
from sweep_clustering.pipeline.common import BAD_INPUT, INTERNAL, PlainFormatter

# The module of this room and the name there, and the first sentence of its help.
COMMANDS = {
    "ask": ("fit:ask", "Choose the pairs of rows of FEATURES whose answers help most."),
    "board": ("results:board", "Write a static site of the lines of BUNDLE..., which may be cubes."),
    "bundle": (
        "results:bundle",
        "Write CUBE, and what others need to read, cite and check it, into one file.",
    ),
    "cancel": ("runs:cancel", "End the run of a cube, head and workers; what was finished is kept."),
    "cite": ("results:cite", "Print what to cite for CUBE, in BibTeX."),
    "compare": ("results:compare", "Compare the cells of CUBE_B with the same cells of CUBE_A."),
    "datasets": ("known:datasets", "List, fetch and check the data sets known by name."),
    "doctor": (
        "runs:doctor",
        "Try a compute cluster with one worker: queue, versions, clock, network, limits and shared folder.",
    ),
    "export": ("results:export", "Write labels, scores and summaries of CUBE for other programs."),
    "fit": ("fit:fit_command", "Cluster the rows of FEATURES, with annotations or without."),
    "init": ("runs:init", "Write a commented sweep file for TABLES of your own, to begin with."),
    "logs": ("runs:logs", "Show the end of the driver's log, or of another log of a run."),
    "merge": ("results:merge", "Write the cells of CUBE..., which may be bundles, into one cube."),
    "methods": ("known:methods", "List the methods that come with sweep, and try those of your own."),
    "open": ("results:open_page", "Show the page of a run of CUBE in a browser."),
    "plan": (
        "runs:plan",
        "Show how much work SPEC is: cells, restarts, batches, files, bytes and the memory of a worker.",
    ),
    "repair": ("results:repair", "Find damaged files of CUBE, and have what they held computed again."),
    "report": (
        "results:report",
        "Write a page of CUBE, its tables (CSV) and figures (SVG), and show a summary.",
    ),
    "schema": ("known:schema", "Print the JSON Schema of the sweep file."),
    "status": ("runs:status", "Show the progress of a cube, or of the cube of a sweep file."),
    "submit": ("runs:submit", "Run the sweep file SPEC, or resume it where it stopped."),
    "verify": ("results:verify", "Compute random cells of CUBE, or of BUNDLE, again and compare bits."),
    "why": ("runs:why", "Show the state of CELL, why it failed, and how to run it alone."),
}


# Parent of our loggers, whose messages are for users.
OURS = "sweep_clustering"


class Echo(logging.Handler):
    """Log handler that writes to the stderr of the time of the message."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(PlainFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Show one message; a terminal that has been closed is no reason to fail."""
        is_ours = record.name.partition(".")[0] == OURS
        if not is_ours and not logging.getLogger(OURS).isEnabledFor(logging.DEBUG):
            return  # a message of a library is in the log of the run
        with suppress(OSError):
            click.echo(self.format(record), err=True)


def set_verbose(ctx: click.Context, param: click.Parameter, verbose: bool) -> None:
    """Log more if the option stands before the command, or behind it."""
    if verbose:
        ctx.find_root().obj = True
        _log(logging.DEBUG, "info")


def _log(level: int, level_of_distributed: str) -> None:
    # distributed sets its own level when it is imported, at which it logs every connection
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", level_of_distributed)
    logging.getLogger(OURS).setLevel(level)


VERBOSE = click.Option(
    ["-v", "--verbose"],
    is_flag=True,
    expose_value=False,
    callback=set_verbose,
    help="Show all details of a fit, and log more on stderr.",
)


@add_completion_class
class Bash(BashComplete):
    """Completion in bash, in which names of cells, which contain "=", are one word."""

    source_template = "COMP_WORDBREAKS=${COMP_WORDBREAKS//[=:]/}\n" + BashComplete.source_template


class Sweep(click.Group):
    """Group of commands that ends with the code of a signal after Ctrl-C, and with a message on a full
    disk.
    """

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command, None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"sweep_clustering.pipeline.commands.{module}"), name)
        for subcommand in command.commands.values() if isinstance(command, click.Group) else [command]:
            if VERBOSE not in subcommand.params:
                subcommand.params.append(VERBOSE)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(self, *arguments: Any, **keywords: Any) -> Any:
        """Run a command line."""
        try:
            return super().main(*arguments, **keywords)
        except OSError as error:
            if error.filename != STDOUT:
                raise
            click.echo(f"{STDOUT}: {error.strerror}; the output above is not complete", err=True)
            sys.exit(INTERNAL)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except InstallationError as error:
            click.echo(f"sweep: {error}", err=True)
            sys.exit(BAD_INPUT)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would break off the end
            from sweep_clustering.kernels.interrupt import leave

            click.echo("\ninterrupted", err=True)
            leave(INTERRUPTS + signal.SIGINT)


@click.group(
    cls=Sweep,
    # stand-ins, by which click knows the names
    commands={name: click.Command(name, help=text) for name, (_, text) in COMMANDS.items()},
    params=[VERBOSE],
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(None, "-V", "--version", package_name="sweep-clustering", prog_name="sweep")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Benchmark sweeps of semi-supervised clustering with inaccurate pairwise annotations."""
    root = logging.getLogger()
    if not any(isinstance(handler, Echo) for handler in root.handlers):
        root.addHandler(Echo())
    if not ctx.obj:
        _log(logging.INFO, "warning")
