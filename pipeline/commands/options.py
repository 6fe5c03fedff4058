"""Options and guards that commands share."""

from __future__ import annotations

import functools
import io
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from kernels.settings import OFFERED, Setting
from pipeline.common import BAD_INPUT, INTERNAL, plural
from storage.remote import Url, place_of
from storage.runfolder.folder import CUBE_SUFFIX, RunFolder, cube_path
from sweeps.errors import InputError, Problem, unstyled
from sweeps.words import CATEGORIES, MISSING

# What the arguments of commands name: a sweep file, a cube, a run.


def find_spec(path: Path) -> tuple[Path, bool]:
    """Sweep file at `path`, or the installed one of that name; whether the installed one was taken.

    Raises
    ------
    InputError
        If there is neither.
    """
    if path.exists():
        return path, False
    shipped = Path(__file__).resolve().parents[2] / "sweeps"
    if (
        path.suffix == ".toml"
        and path.parent in (Path("."), Path("sweeps"))
        and (shipped / path.name).is_file()
    ):
        return shipped / path.name, True
    names = ", ".join(sorted(f"sweeps/{file.name}" for file in shipped.glob("*.toml")))
    raise InputError([Problem(str(path), "no such file", f"a sweep file, or an installed one: {names}")])


def find_cube(path: Path, results: Path, *, remote: bool = False) -> Path:
    """Cube at `path`, or the cube of the sweep file at `path`; an address, where it is only read.

    Raises
    ------
    InputError
        If there is neither.
    """
    place = place_of(path)
    if isinstance(place, Url):
        if remote:
            return place
        raise InputError([Problem(str(place), "an address", "a cube on this machine")])
    if path.suffix != ".toml":
        if path.is_dir():
            return path
        raise InputError([Problem(str(path), "no such directory", "a cube, or a sweep file (.toml)")])
    cube = cube_of(path, results)
    if not cube.is_dir():
        raise InputError([Problem(str(cube), "nothing", f"the cube of {path}", 'run "sweep submit" first')])
    return cube


def beside(cube: Path, suffix: str) -> Path:
    """Where files on a cube go: beside it, or, of one at an address, into the working directory."""
    return Path(cube.name).with_suffix(suffix) if isinstance(cube, Url) else cube.with_suffix(suffix)


def find_run(path: Path, results: Path) -> Path:
    """Cube at `path`, or of the sweep file at `path`; it need not exist where there is a run folder.

    Raises
    ------
    InputError
        If there is neither a cube nor a run, or if the run folder leads out of its directory.
    """
    cube = path
    if path.suffix == ".toml":
        cube = cube_of(path, results)
    run = RunFolder(cube)
    run.check()
    known = cube.suffix == CUBE_SUFFIX and run.path.is_dir()
    return cube if known else find_cube(path, results)


def cube_of(path: Path, results: Path) -> Path:
    """Where the cube of a sweep file is, or would be.

    Raises
    ------
    InputError
        If there is no such file, or it is no sweep file.
    """
    # Loaded here: a command that is given a cube does not need what reads sweep files.
    from sweeps.file.reading import load_sweep

    spec, _ = find_spec(path)
    return cube_path(results, load_sweep(spec).name)


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


# The settings of the search as options of a command.

Command = Callable[..., None]


def takes_settings(**others: int | float | str) -> Callable[[Command], Command]:
    """Add an option for each setting and for the method; the command gets all, by name, as `chosen`.

    Parameters
    ----------
    **others : int, float or str
        Defaults that are others than the declared ones.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_settings(**given: Any) -> None:
            chosen = {each.name: given.pop(each.name) for each in OFFERED}
            command(chosen=chosen, **given)

        # click shows first what was added last
        for setting in reversed(OFFERED):
            option = click.option(
                setting.option,
                type=_type(setting),
                default=others.get(setting.name, setting.offered),
                show_default=setting.unless_given or True,
                help=setting.meaning,
            )
            option(with_settings)
        return with_settings

    return decorate


def _type(setting: Setting) -> click.ParamType[Any]:
    if setting.choices:
        return Word(setting.choices)
    if setting.words:
        return _RealOrWord(setting.low, setting.high, setting.words)
    kind: Any = _Whole if isinstance(setting.default, int) else _Real
    numbers: click.ParamType[Any] = kind(setting.low, setting.high)
    return numbers


# Help shows the ranges; they are checked with files and other options, so that all problems are said at once.


class _Whole(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return click.INT.convert(value, param, ctx)


class _Real(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return click.FLOAT.convert(value, param, ctx)


class _RealOrWord(_Real):
    """What is no number is a word: the right one or, as is checked later, a wrong one."""

    def __init__(self, low: float, high: float | None, words: tuple[str, ...]) -> None:
        super().__init__(low, high)
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "|".join(["FLOAT", *self.words])
