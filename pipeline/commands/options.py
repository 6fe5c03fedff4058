"""What commands share: the places their arguments name, options made from declarations, guards, output.

`find_spec`, `find_cube` and `find_run` say what an argument names; `declared` makes an option of a parameter
that `kernels.settings` declares; inside `reported` every problem ends the command with its exit code.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from sweep_clustering.kernels.settings import OFFERED, PARAMETERS, Setting
from sweep_clustering.pipeline.common import BAD_INPUT, INTERNAL, plural
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, unstyled
from sweep_clustering.sweeps.files import shipped_files

if TYPE_CHECKING:
    from sweep_clustering.storage.remote import Place
    from sweep_clustering.sweeps.file.spec import SweepSpec

# What the arguments of commands name: a sweep file, a cube, a run. Storage and what reads sweep files are
# loaded where they are needed: help needs neither, and a command that is given a cube no sweep file.


def find_spec(path: Path) -> tuple[Path, bool]:
    """Sweep file at `path`, or the installed one of that name; whether the installed one was taken.

    Raises
    ------
    InputError
        If there is neither.
    """
    if path.exists():
        return path, False
    installed = {file.name: file for file in shipped_files()}
    if path.name in installed and path.parent in (Path("."), Path("sweeps")):
        return installed[path.name], True
    names = ", ".join(f"sweeps/{name}" for name in installed)
    raise InputError([Problem(str(path), "no such file", f"a sweep file, or an installed one: {names}")])


def sweep_of(spec: Path, called: Sequence[str]) -> SweepSpec:
    """Sweep of the file at `spec`, or of these methods on its cells, as `find_spec` finds the file.

    Raises
    ------
    InputError
        With everything that is wrong.
    """
    from sweep_clustering.sweeps.file.methods import entry_of
    from sweep_clustering.sweeps.file.reading import load_sweep

    problems, entries = list[Problem](), list[dict[str, Any]]()
    for text in called:
        with collecting(problems):
            entries.append(entry_of(text))
    with collecting(problems):
        found = load_sweep(find_spec(spec)[0], entries)
    if problems:
        raise InputError(problems)
    return found


def find_place(path: Path, results: Path) -> Place:
    """Cube that is only read: at an address, or at `path`, or that of the sweep file at `path`.

    Raises
    ------
    InputError
        If there is none of them.
    """
    from sweep_clustering.storage.remote import place_of

    place = place_of(path)
    if isinstance(place, str):
        return place
    cube = cube_of(path, results)
    if cube.is_dir():
        return cube
    if cube == path:
        raise InputError([Problem(str(path), "no such directory", "a cube, or a sweep file (.toml)")])
    parts = _parts_of(path, results)
    hint = f"its parts are {', '.join(map(str, parts[:8]))}" if parts else 'run "sweep submit" first'
    raise InputError([Problem(str(cube), "nothing", f"the cube of {path}", hint)])


def find_cube(path: Path, results: Path) -> Path:
    """Cube on this machine, as `find_place` finds it.

    Raises
    ------
    InputError
        If there is none.
    """
    place = find_place(path, results)
    if isinstance(place, str):
        raise InputError([Problem(place, "an address", "a cube on this machine")])
    return place


def find_places(paths: Sequence[Path], results: Path) -> tuple[Place, ...]:
    """Cubes that are only read, as one: as `find_place` finds each, or all parts of a sweep file's sweep.

    Raises
    ------
    InputError
        With every path where there is none.
    """
    problems: list[Problem] = []
    places: list[Place] = []
    for path in paths:
        with collecting(problems):
            places += _parts_of(path, results) or [find_place(path, results)]
    if problems:
        raise InputError(problems)
    return tuple(dict.fromkeys(places))


def find_runs(paths: Sequence[Path], results: Path) -> tuple[Path, ...]:
    """Cubes of runs, as `find_run` finds each, or those of all parts of a sweep file's sweep.

    Raises
    ------
    InputError
        With every path where there is none.
    """
    problems, runs = list[Problem](), list[Path]()
    for path in paths:
        with collecting(problems):
            runs += _parts_of(path, results) or [find_run(path, results)]
    if problems:
        raise InputError(problems)
    return tuple(dict.fromkeys(runs))


def _parts_of(path: Path, results: Path) -> list[Path]:
    """Cubes of the parts of the sweep file at `path`, where there is none of the whole."""
    if path.suffix != ".toml":
        return []
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX
    from sweep_clustering.sweeps.parts import part_named

    whole = cube_of(path, results)
    if whole.exists():
        return []
    parts = [(part_named(cube.stem), cube) for cube in results.glob(f"*.part-*{CUBE_SUFFIX}")]
    own = [(part, cube) for part, cube in parts if part is not None and part.sweep == whole.stem]
    return [cube for _, cube in sorted(own, key=lambda each: (each[0].of, each[0].number))]


def whole_of(places: Sequence[Place]) -> Place:
    """A cube, or where the cube of the whole would be, of several that are parts of one sweep."""
    from sweep_clustering.sweeps.parts import part_named

    first = places[0]
    part = part_named(Path(first).stem)
    if len(places) == 1 or part is None:
        return first
    return (Path() if isinstance(first, str) else first.parent) / f"{part.sweep}.zarr"


def beside(cube: Place, suffix: str) -> Path:
    """Where files on a cube go: beside it, or, of one at an address, into the working directory."""
    return (cube if isinstance(cube, Path) else Path(Path(cube).name)).with_suffix(suffix)


def find_run(path: Path, results: Path) -> Path:
    """Cube at `path`, or of the sweep file at `path`; it need not exist where there is a run folder.

    Raises
    ------
    InputError
        If there is neither a cube nor a run, or if the run folder leads out of its directory.
    """
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX, RunFolder

    cube = cube_of(path, results)
    run = RunFolder(cube)
    run.check()
    known = cube.suffix == CUBE_SUFFIX and run.path.is_dir()
    return cube if known else find_cube(path, results)


def cube_of(path: Path, results: Path, part: str | None = None) -> Path:
    """Where the cube at a path, or of the sweep file there or a part of it, is or would be.

    The ending of a cube, `.zarr`, may be left out.

    Raises
    ------
    InputError
        If there is no such file, or it is no sweep file.
    """
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX, RunFolder, cube_path

    if path.suffix != ".toml":
        full = path.with_name(path.name + CUBE_SUFFIX) if path.name else path
        is_cube = path.name.endswith(CUBE_SUFFIX) or (path / "zarr.json").exists()
        return path if is_cube or not (full.is_dir() or RunFolder(full).path.is_dir()) else full
    from sweep_clustering.sweeps.file.reading import load_sweep

    spec = load_sweep(find_spec(path)[0])
    if part is not None:
        from sweep_clustering.sweeps.parts import part_of

        spec = part_of(spec, part)
    return cube_path(results, spec.name)


# What a shell completes beside words of options: names of data sets and methods, and cells of a cube.

# Cells that a shell offers, and those that are looked at for it.
MOST_OFFERED, MOST_LOOKED_AT = 200, 50_000


def complete_datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of data sets that begin like this."""
    from sweep_clustering.sweeps.data.registry import BUILTIN

    return [name for name in BUILTIN if name.startswith(incomplete)]


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of shipped methods that begin like this, or else files."""
    from sweep_clustering.sweeps.words import SHIPPED

    names = [CompletionItem(name, help=SHIPPED[name].text) for name in SHIPPED if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, "file")]


def complete_cells(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Cells of the cube of this command that begin like this; those that failed come first."""
    given = ctx.params
    named = [given[name] for name in ("cube_or_spec", "cubes", "cube", "spec") if given.get(name)]
    named += ctx.args  # click has not yet given arguments their names when an option lacks its value
    if not named:
        return []
    from sweep_clustering.storage.cube.blocks import failed_cells
    from sweep_clustering.storage.cube.manifest import read_manifest

    try:
        first = Path(named[0][0] if isinstance(named[0], tuple) else named[0])
        cube = find_cube(first, Path(given.get("results") or "results"))
        plans = [plan for plan in read_manifest(cube).plans.values() if _may_begin(plan.name, incomplete)]
        every = (cell for plan in plans for block in plan.blocks() for cell in block.cells())
        looked_at = map(str, itertools.islice(every, MOST_LOOKED_AT))
        fitting = (name for name in looked_at if name.startswith(incomplete))
        failed = [name for name in map(str, failed_cells(cube, plans)) if name.startswith(incomplete)]
        return list(dict.fromkeys([*failed, *itertools.islice(fitting, MOST_OFFERED)]))[:MOST_OFFERED]
    except (InputError, OSError, ValueError):
        return []  # a shell has no place for a message


def _may_begin(dataset: str, incomplete: str) -> bool:
    """Whether a cell of a data set may have a name that begins like this."""
    return dataset.startswith(incomplete) or f"{incomplete}/".startswith(f"{dataset}/")


# Options and arguments that several commands have, and what those of a kind have in common.

PLACE = click.Path(path_type=Path)
SECONDS = click.FloatRange(min=0, min_open=True)

place = functools.partial(click.option, type=PLACE)
flag = functools.partial(click.option, is_flag=True)
several = functools.partial(click.option, multiple=True)

results_option = place("--results", default="results", help="Folder of the cubes.")
data_dir_option = place(
    "--data-dir",
    envvar="SWEEP_DATA_DIR",
    show_envvar=True,
    help="Folder with raw data files, searched first.",
)
part_option = click.option(
    "--part",
    metavar="K/N",
    help="Take the K-th of N parts of SPEC alone, such as 1/4: some data sets, or a range of mixtures, with a"
    " cube of its own.",
)
json_option = flag("--json", "as_json", help="One JSON document on stdout.")


# Parameters and settings as options of a command. Help shows words and ranges; they are checked with files
# and other options, so that all problems are said at once.


class Word(click.Choice[str]):
    """A word of some; any is taken."""

    convert = click.ParamType.convert


class Whole(click.IntRange):
    """A whole number; any is taken."""

    convert = click.types.IntParamType.convert


class WholeOrWord(click.IntRange):
    """A whole number or a word; any is taken."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Any whole number; what is none as it is."""
        with suppress(ValueError):
            return int(value)
        return value


class Real(click.FloatRange):
    """A number; any text may be a word of its setting."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Any number; what is none as it is."""
        with suppress(ValueError):
            return float(value)
        return value


Command = Callable[..., None]


def declared(setting: Setting | str, **others: Any) -> Callable[[Command], Command]:
    """Option of a parameter or setting.

    Parameters
    ----------
    setting : Setting or str
        As declared, or the name of one of `PARAMETERS`.
    **others
        What differs from the declaration: `default`, `help`.
    """
    setting = PARAMETERS[setting] if isinstance(setting, str) else setting
    whole = WholeOrWord if setting.words else Whole
    number: Any = whole if setting.is_whole else Real
    bounded = number(setting.low, setting.high, min_open=setting.above)
    given: dict[str, Any] = {
        "type": Word(setting.choices) if setting.choices else bounded,
        "metavar": "|".join((number.name.split()[0].upper(), *setting.words)) if setting.words else None,
        "default": setting.offered,
        "show_default": setting.unless_given or True,
        "help": setting.meaning,
    }
    return click.option(setting.option, **given | others)


def takes_settings(**others: int | float | str) -> Callable[[Command], Command]:
    """Add an option for the method and for each setting.

    Parameters
    ----------
    **others : int, float or str
        Defaults that are others than the declared ones.
    """
    return stacked(*(declared(each, default=others.get(each.name, each.offered)) for each in OFFERED))


def settings_in(given: dict[str, Any]) -> dict[str, Any]:
    """Take the method and the settings, by name, out of what a command was given."""
    return {each.name: given.pop(each.name) for each in OFFERED}


def stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one."""
    # click shows first what was added last
    return lambda command: functools.reduce(lambda made, option: option(made), reversed(options), command)


# Of a command that is shown, in characters.
WIDTH = 78


def typed(command: click.Command, values: Mapping[str, Any]) -> str:
    """A command as to be typed, in lines that are broken before options.

    Parameters
    ----------
    command : Command
        Its declared options say which values are shown, in their order, and which are the usual ones.
    values : mapping of str to object
        By name of the parameter; others than those of the command play no part.
    """
    lines = [f"  sweep {command.name}"]
    for each in _words_of(command, values):
        words = shlex.join(each)
        if len(lines[-1]) + len(words) > WIDTH - 3:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {words}"
    return "\n".join(lines)


def _words_of(command: click.Command, values: Mapping[str, Any]) -> Iterator[list[str]]:
    """Words of each argument and option whose value is not the usual one."""
    for each in command.params:
        found = values.get(str(each.name))
        if found is None or found is False or found == each.default:
            continue
        for value in found if isinstance(found, tuple) else (found,):
            option = [] if isinstance(each, click.Argument) else [each.opts[0]]
            yield [*option, *([] if found is True else [str(value)])]


def as_typed(command: click.Command, **changes: Any) -> list[str]:
    """A command with what was typed for the running one: for the line that says what comes next.

    Parameters
    ----------
    command : Command
        The running one, or one that has the same arguments and options.
    **changes : object
        Values by name of the parameter that replace those that were typed.
    """
    ctx = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    given = {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name) is source}
    return [str(command.name), *(word for words in _words_of(command, given | changes) for word in words)]


class Grouped(click.Command):
    """A command whose help shows the usual options; all of them, in groups, with `--help-all`.

    Parameters
    ----------
    usual : sequence of str
        Names of the parameters that help shows.
    groups : mapping of str to sequence of str
        Names of the others under a title each; what is in no group stands under the last one.
    """

    def __init__(
        self, *arguments: Any, usual: Sequence[str], groups: Mapping[str, Sequence[str]], **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.usual, self.groups = usual, groups
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=self._show_all,
                help="Show all options and exit.",
            )
        )

    @staticmethod
    def _show_all(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            ctx.meta[__name__] = True
            click.echo(ctx.get_help())
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usual options, or all of them in their groups."""
        # click has a name of its own for the option that shows help
        names = {each: "help" if "--help" in each.opts else str(each.name) for each in self.get_params(ctx)}
        records = {
            name: each.get_help_record(ctx) for each, name in names.items() if isinstance(each, click.Option)
        }
        shown = {name: record for name, record in records.items() if record is not None}
        last = list(self.groups)[-1]
        titles = {name: title for title, names in self.groups.items() for name in names}
        titles |= dict.fromkeys(self.usual, "Options")
        wanted = ["Options", *self.groups] if ctx.meta.get(__name__) else ["Options"]
        for title in wanted:
            inside = self.usual if title == "Options" else shown
            rows = [shown[name] for name in inside if name in shown and titles.get(name, last) == title]
            with formatter.section(title):
                formatter.write_dl(rows)


takes_cube = stacked(click.argument("cube", type=PLACE), results_option)
argument_of_several = functools.partial(click.argument, type=PLACE, nargs=-1, required=True)
takes_cubes = stacked(argument_of_several("cubes", metavar="CUBE..."), results_option)
takes_runs = stacked(argument_of_several("cubes_or_spec", metavar="CUBE...|SPEC"), results_option)
takes_run = stacked(click.argument("cube_or_spec", metavar="CUBE|SPEC", type=PLACE), results_option)
takes_spec = stacked(click.argument("spec", type=PLACE), results_option)
# The options that say what the columns of a table are.
takes_table = stacked(
    several(
        "--columns",
        metavar="COLUMN",
        help="Columns of FEATURES that are features, by header, or position from 0; several with commas, or"
        " the option repeated.  [default: all that are not named by another option]",
    ),
    click.option(
        "--index-column", metavar="COLUMN", help="Names of the rows, each once; annotations may use them."
    ),
    declared("first_row"),
    click.option("--label-column", metavar="COLUMN", help="True classes in FEATURES."),
    declared("missing"),
    declared("links_outside"),
    declared("categories"),
    click.option("--sheet", metavar="NAME", help="Sheet of an .xlsx workbook.  [default: the first]"),
)


# Guards, and what is shown.


@contextmanager
def reported(*faults: type[Exception]) -> Iterator[None]:
    """End the command with a message: of bad input with exit code 2 and every problem, of the machine with 1.

    Parameters
    ----------
    *faults : type
        Errors whose text says all that there is to say, beside those of disk and memory.
    """
    try:
        try:
            yield
        except OSError as error:
            if not isinstance(error.filename, str):
                raise
            from sweep_clustering.storage.errors import storage_errors

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
        from sweep_clustering.storage.errors import StorageError

        if not isinstance(error, (StorageError, *faults)):
            raise
        click.echo(str(error), err=True)
        sys.exit(INTERNAL)


def put_file(path: Path, content: str | bytes) -> None:
    """Put a file in place in one step: a reader sees the old one or the new one."""
    from sweep_clustering.storage.files import PLAIN

    try:
        PLAIN.put(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:  # of a file beside it, which would have become this one
        raise OSError(error.errno, error.strerror, str(path)) from error


# A run that a signal ended has this and the number of the signal.
INTERRUPTS = 128

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


def tell(found: Any, as_json: bool, *following: object) -> None:
    """Print what a command found: lines for people, and the command that comes next; or one JSON document."""
    show(found.to_dict() if as_json else found.lines())
    if following and not as_json:
        next_step(*following)


def progress_bar(steps: Iterable[Any], title: str = "files") -> Iterable[Any]:
    """What is gone through, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(steps, title, console=console, transient=True, disable=not console.is_terminal)
