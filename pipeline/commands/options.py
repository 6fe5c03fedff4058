"""Options and guards that commands share."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from pipeline.common import BAD_INPUT, INTERNAL, plural
from sweeps.errors import InputError, unstyled
from sweeps.words import CATEGORIES, MISSING

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default="results",
    show_default=True,
    help="Folder of the cubes.",
)
data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="SWEEP_DATA_DIR",
    show_envvar=True,
    help="Folder with raw data files, searched first.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
cube_argument = click.argument("cube_or_spec", metavar="CUBE|SPEC", type=click.Path(path_type=Path))
spec_argument = click.argument("spec", type=click.Path(path_type=Path))


class Word(click.Choice[str]):
    """A word of some, which help shows; it is checked with files and other options, to report all at once."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Any word."""
        return value


class OneCount(click.types.IntParamType):
    """A number of clusters, where several cannot be compared."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A whole number; of several it is said which command takes them."""
        if isinstance(value, str) and (".." in value or "," in value):
            hint = f"sweep fit -k {value} chooses among several"
            self.fail(f"found {value!r}, expected one number of clusters ({hint}).", param, ctx)
        return super().convert(value, param, ctx)


TABLE_OPTIONS = (
    click.option(
        "--columns",
        multiple=True,
        metavar="COLUMN",
        help="The features: columns of FEATURES by header, or position from 0; several with commas, or the"
        " option repeated.  [default: all that are nothing else]",
    ),
    click.option(
        "--index-column", metavar="COLUMN", help="Names of the rows, each once; annotations may use them."
    ),
    click.option("--label-column", metavar="COLUMN", help="True classes in FEATURES."),
    click.option(
        "--missing",
        type=Word(MISSING),
        default="error",
        show_default=True,
        help="Rows with an empty cell: refused, or left out.",
    ),
    click.option(
        "--categories",
        type=Word(CATEGORIES),
        default="error",
        show_default=True,
        help="Features of texts: refused, or a column of 0 and 1 for each of their texts.",
    ),
    click.option("--sheet", metavar="NAME", help="Of an .xlsx workbook.  [default: the first]"),
)
"""What the columns of a table are."""


def takes_table(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a table."""
    for option in reversed(TABLE_OPTIONS):
        command = option(command)
    return command


@contextmanager
def reported() -> Iterator[None]:
    """Show every problem of a bad input on stderr and leave with exit code 2; with 1 where the disk fails."""
    try:
        yield
    except InputError as error:
        click.echo(f"{plural(len(error.problems), 'problem')}, nothing was started:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        sys.exit(BAD_INPUT)
    except MemoryError as error:
        click.echo(f"out of memory, nothing was started ({str(error) or 'ulimit -v'})", err=True)
        sys.exit(INTERNAL)
    except Exception as error:
        from storage.errors import StorageError, storage_errors  # help needs nothing of storage

        found: Exception = error
        if isinstance(error, OSError) and isinstance(error.filename, str):
            try:
                with storage_errors(Path(error.filename)):
                    raise error
            except StorageError as named:
                found = named
        if not isinstance(found, StorageError):
            raise
        click.echo(str(found), err=True)
        sys.exit(INTERNAL)


STDOUT = "standard output"


class UnreadPipe(io.FileIO):
    """A stdout whose reader may leave, as `head` does: a command then goes on, and ends with its own code."""

    unread = failed = False

    def write(self, data: Any) -> int:
        """Write, or drop what nobody reads."""
        if not self.failed:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.unread = True
            except OSError as error:  # said once: what is left in the buffer would fail again at the end
                self.failed = True
                raise OSError(error.errno, error.strerror, STDOUT) from None
        return len(data)


def let_readers_leave() -> None:
    """Put an `UnreadPipe` in the place of stdout."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or none at all
        plain, pipe = sys.stdout, io.BufferedWriter(UnreadPipe(sys.stdout.fileno(), "w", closefd=False))
        by_line = bool(plain.line_buffering)
        # a name of a file that is not UTF-8 is shown in escapes, and ends no command
        sys.stdout = io.TextIOWrapper(pipe, plain.encoding, "backslashreplace", line_buffering=by_line)


def nobody_reads() -> bool:
    """Whether the reader of stdout has left."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, UnreadPipe) and raw.unread


def next_step(*words: object) -> None:
    """Say which command comes next, on stderr: what is piped on stays as it is."""
    click.echo(f"next: sweep {shlex.join(map(str, words))}", err=True)


def show(document: Any) -> None:
    """Print lines for people, or anything else as one JSON document."""
    if isinstance(document, list):
        click.echo(unstyled("\n".join(document)))
    else:
        click.echo(json.dumps(document, indent=2, allow_nan=False))
