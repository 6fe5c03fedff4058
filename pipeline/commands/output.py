"""How commands end and print: problems with their exit codes, lines or JSON, and the command that comes next.

Inside `reported` every problem ends the command with its exit code; `tell` prints results, and `typed` and
`as_typed` write commands for people to type.
"""

import io
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from sweep_clustering.pipeline.common import BAD_INPUT, INTERNAL, plural
from sweep_clustering.sweeps.errors import InputError, unstyled

# The exit code of a run that a signal ended is this plus the number of the signal.
INTERRUPTS = 128

STDOUT = "standard output"

# Width of a command that is printed, in characters.
WIDTH = 78


@contextmanager
def reported(*faults: type[Exception]) -> Iterator[None]:
    """End the command with a message: for bad input with code 2 and every problem, for the machine with 1.

    The texts of `faults` and of errors of disk and memory are whole messages; other errors are not handled.
    """
    from sweep_clustering.storage.files import StorageError, storage_errors

    try:
        try:
            yield
        except OSError as error:
            if not isinstance(error.filename, str):
                raise
            with storage_errors(Path(error.filename)):
                raise
    except InputError as error:
        click.echo(f"{plural(error.n_problems, 'problem')}, nothing was started:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        sys.exit(BAD_INPUT)
    except MemoryError as error:
        click.echo(f"out of memory, nothing was started ({str(error) or 'ulimit -v'})", err=True)
        sys.exit(INTERNAL)
    except Exception as error:
        if not isinstance(error, (StorageError, *faults)):
            raise
        click.echo(str(error), err=True)
        sys.exit(INTERNAL)


def put_file(path: Path, content: str | bytes) -> None:
    """Put a file in place in one step, so that a reader sees the old one or the new one."""
    from sweep_clustering.storage.files import PLAIN

    try:
        PLAIN.put(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:  # it names the temporary file
        raise OSError(error.errno, error.strerror, str(path)) from error


def show(document: Any) -> None:
    """Print lines for people, or anything else as one JSON document."""
    if isinstance(document, list):
        click.echo(unstyled("\n".join(document)))
    else:
        click.echo(json.dumps(document, indent=2, allow_nan=False))


def tell(result: Any, as_json: bool, *next_words: object) -> None:
    """Print a result as lines for people, with the command that comes next, or as one JSON document."""
    show(result.to_dict() if as_json else result.lines())
    if next_words and not as_json:
        next_step(*next_words)


def next_step(*words: object) -> None:
    """Print the command that comes next on stderr, so that what is piped on stays as it is."""
    click.echo(f"next: sweep {shlex.join(map(str, words))}", err=True)


def typed(command: click.Command, values: Mapping[str, Any]) -> str:
    """Return a command to type with the values that are not its defaults, broken into lines before
    options.
    """
    lines = [f"  sweep {command.name}"]
    for option in _words_of(command, values):
        words = shlex.join(option)
        if len(lines[-1]) + len(words) > WIDTH - 3:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {words}"
    return "\n".join(lines)


def as_typed(command: click.Command, **changes: Any) -> list[str]:
    """Return the words of a command with what was typed for the running one, and some changed values."""
    ctx = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    values = {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name) is source}
    return [str(command.name), *(word for words in _words_of(command, values | changes) for word in words)]


def _words_of(command: click.Command, values: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the words of each argument and option whose value is not the default."""
    for parameter in command.params:
        value = values.get(str(parameter.name))
        if value is None or value is False or value == parameter.default:
            continue
        option = [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]
        for item in value if isinstance(value, tuple) else (value,):
            yield option if item is True else [*option, str(item)]


def progress_bar(steps: Iterable[Any], title: str = "files") -> Iterable[Any]:
    """Go through steps, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(steps, title, console=console, transient=True, disable=not console.is_terminal)


class UnreadPipe(io.FileIO):
    """A stdout whose reader may leave, as `head` does: the command goes on, and ends with its own code."""

    is_unread = has_failed = False

    def write(self, data: Any) -> int:
        """Write, or drop what nobody reads."""
        if not self.has_failed:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.is_unread = True
            except OSError as error:  # raised once: the rest of the buffer would fail again at the end
                self.has_failed = True
                raise OSError(error.errno, error.strerror, STDOUT) from None
        return len(data)


def let_readers_leave() -> None:
    """Replace stdout by an `UnreadPipe`."""
    with suppress(OSError, ValueError, AttributeError):  # it is closed, or there is none
        plain, pipe = sys.stdout, io.BufferedWriter(UnreadPipe(sys.stdout.fileno(), "w", closefd=False))
        by_line = bool(plain.line_buffering)
        # a name of a file that is not UTF-8 is shown in escapes, and ends no command
        sys.stdout = io.TextIOWrapper(pipe, plain.encoding, "backslashreplace", line_buffering=by_line)


def has_no_reader() -> bool:
    """Whether the reader of stdout has left."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, UnreadPipe) and raw.is_unread
