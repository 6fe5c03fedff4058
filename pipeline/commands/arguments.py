"""Options and arguments that several commands have, and the sweep files, cubes and runs that they name.

`declared` makes an option of a parameter that `kernels.settings` declares. Help shows its words and its
range, but its value is checked together with files and other options, so that all problems are reported at
once. Storage and the reader of sweep files are loaded where they are needed: help needs neither, and a
command on a cube needs no sweep file.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from sweep_clustering.kernels.settings import OFFERED, PARAMETERS, Setting
from sweep_clustering.sweeps.errors import InputError, Problem, collected, collecting, raise_all, refused
from sweep_clustering.sweeps.files import NO_FILE, shipped_files

if TYPE_CHECKING:
    from sweep_clustering.storage.files import Place
    from sweep_clustering.sweeps.file.spec import SweepSpec

Command = Callable[..., None]

PATH = click.Path(path_type=Path)
SECONDS = click.FloatRange(min=0, min_open=True)

path_option = functools.partial(click.option, type=PATH)
flag = functools.partial(click.option, is_flag=True)
repeatable = functools.partial(click.option, multiple=True)

results_option = path_option("--results", default="results", help="Folder of the cubes.")
data_dir_option = path_option(
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


class Word(click.Choice[str]):
    """One of several words; any text is accepted here."""

    convert = click.ParamType.convert


class WholeNumber(click.IntRange):
    """A whole number in a range; any whole number is accepted here."""

    convert = click.types.IntParamType.convert


class WholeOrWord(click.IntRange):
    """A whole number in a range or a word; any text is accepted here."""

    number: Callable[[Any], Any] = int

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number, or the text that is none."""
        with suppress(ValueError):
            return type(self).number(value)
        return value


class Real(click.FloatRange):
    """A number in a range or a word; any text is accepted here."""

    number: Callable[[Any], Any] = float
    convert = WholeOrWord.convert


def declared(setting: Setting | str, **changes: Any) -> Callable[[Command], Command]:
    """Return the option of a setting, or of one of `PARAMETERS`, with changes to its `default` or `help`."""
    setting = PARAMETERS[setting] if isinstance(setting, str) else setting
    integer = WholeOrWord if setting.words else WholeNumber
    number: Any = integer if setting.is_whole else Real
    bounded = number(setting.low, setting.high, min_open=setting.is_low_excluded)
    keywords: dict[str, Any] = {
        "type": Word(setting.choices) if setting.choices else bounded,
        "metavar": "|".join((number.name.split()[0].upper(), *setting.words)) if setting.words else None,
        "default": setting.preset,
        "show_default": setting.default_words or True,
        "help": setting.meaning,
    }
    return click.option(setting.option, **keywords | changes)


def takes_settings(**defaults: int | float | str) -> Callable[[Command], Command]:
    """Return options for the method and for each setting, some with other defaults than the declared ones."""
    return stacked(
        *(declared(setting, default=defaults.get(setting.name, setting.preset)) for setting in OFFERED)
    )


def settings_in(values: dict[str, Any]) -> dict[str, Any]:
    """Take the method and the settings, by name, out of the values of a command."""
    return {setting.name: values.pop(setting.name) for setting in OFFERED}


def stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return several options as one."""
    # click shows first what was added last
    return lambda command: functools.reduce(lambda target, option: option(target), reversed(options), command)


class GroupedCommand(click.Command):
    """A command whose help shows the usual options; with `--help-all` it shows all of them, in groups.

    Parameters
    ----------
    main_names : sequence of str
        names of the parameters that help shows
    groups : mapping of str to sequence of str
        names of the others by title; those in no group have the last title
    """

    def __init__(
        self, *arguments: Any, main_names: Sequence[str], groups: Mapping[str, Sequence[str]], **keywords: Any
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.main_names, self.groups = main_names, groups
        show_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=self._show_all,
            help="Show all options and exit.",
        )
        self.params.append(show_all)

    @staticmethod
    def _show_all(ctx: click.Context, param: click.Parameter, is_set: bool) -> None:
        if is_set and not ctx.resilient_parsing:
            ctx.meta[__name__] = True
            click.echo(ctx.get_help())
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usual options, or all of them in their groups."""
        records = {}
        for option in self.get_params(ctx):
            # click has a name of its own for the option that shows help
            name = "help" if "--help" in option.opts else str(option.name)
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)) is not None:
                records[name] = record
        titles = dict.fromkeys(records, list(self.groups)[-1])
        titles |= {name: title for title, names in self.groups.items() for name in names}
        titles |= dict.fromkeys(self.main_names, "Options")
        for title in ["Options", *self.groups] if ctx.meta.get(__name__) else ["Options"]:
            names = self.main_names if title == "Options" else records
            with formatter.section(title):
                formatter.write_dl(
                    [records[name] for name in names if name in records and titles[name] == title]
                )


takes_cube = stacked(click.argument("cube", type=PATH), results_option)
paths_argument = functools.partial(click.argument, type=PATH, nargs=-1, required=True)
takes_cubes = stacked(paths_argument("cubes", metavar="CUBE..."), results_option)
takes_runs = stacked(paths_argument("cubes_or_spec", metavar="CUBE...|SPEC"), results_option)
takes_run = stacked(click.argument("cube_or_spec", metavar="CUBE|SPEC", type=PATH), results_option)
takes_profile = stacked(
    click.option("--profile", default="local", help="Compute cluster, named in cluster.yaml."),
    path_option("--cluster", "cluster_file", help="This cluster.yaml, instead of searching for one."),
)
takes_spec = stacked(click.argument("spec", type=PATH), results_option)
# Options that describe the columns of a table.
takes_table = stacked(
    repeatable(
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


# Number of cells that a shell offers.
MOST_OFFERED = 200
# Number of cells that are searched for them.
MOST_SEARCHED = 50_000


def find_spec(path: Path) -> tuple[Path, bool]:
    """Return the sweep file at a path or the installed one of that name, and whether it is the installed
    one.
    """
    if path.exists():
        return path, False
    installed = {file.name: file for file in shipped_files()}
    if path.name in installed and path.parent in (Path("."), Path("sweeps")):
        return installed[path.name], True
    names = ", ".join(f"sweeps/{name}" for name in installed)
    raise refused(path, "no such file", f"a sweep file, or an installed one: {names}")


def sweep_of(spec: Path, methods: Sequence[str]) -> SweepSpec:
    """Return the sweep of a file that `find_spec` finds, with these methods in place of its own, if any."""
    from sweep_clustering.sweeps.file.methods import entry_of
    from sweep_clustering.sweeps.file.reading import load_sweep

    problems, entries = list[Problem](), list[dict[str, Any]]()
    for text in methods:
        with collecting(problems):
            entries.append(entry_of(text))
    with collecting(problems):
        sweep = load_sweep(find_spec(spec)[0], entries)
    raise_all(problems)
    return sweep


def cube_of(path: Path, results: Path, part: str | None = None) -> Path:
    """Return the path of a cube, or of the cube of a sweep file or a part of it, which need not exist.

    The ending of a cube, `.zarr`, may be left out.
    """
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX, RunFolder, cube_path

    if path.suffix != ".toml":
        full = path.with_name(path.name + CUBE_SUFFIX) if path.name else path
        is_cube = path.name.endswith(CUBE_SUFFIX) or (path / "zarr.json").exists()
        return path if is_cube or not (full.is_dir() or RunFolder(full).path.is_dir()) else full
    from sweep_clustering.sweeps.file.reading import load_sweep

    spec = load_sweep(find_spec(path)[0])
    if part is not None:
        from sweep_clustering.sweeps.file.spec import part_of

        spec = part_of(spec, part)
    return cube_path(results, spec.name)


def find_place(path: Path, results: Path) -> Place:
    """Return a cube that is only read: at an address, at a path, in a bundle, or of a sweep file."""
    from sweep_clustering.storage.files import place_of

    place = place_of(path)
    if isinstance(place, str):
        return place
    from sweep_clustering.storage.archive import CUBE_SUFFIX, ZIP_SUFFIX, is_zip

    cube = path if is_zip(path) else cube_of(path, results)
    if cube.is_dir() or cube.name.endswith(CUBE_SUFFIX):
        return cube
    if is_zip(cube):
        from sweep_clustering.pipeline.publish.bundle import check_bundle

        check_bundle(cube)
        return cube
    if path.suffix == ZIP_SUFFIX:
        raise refused(path, NO_FILE, "a bundle")
    if cube == path:
        raise refused(path, "no such directory", "a cube, or a sweep file (.toml)")
    parts = _parts_of(path, results)
    hint = f"its parts are {', '.join(map(str, parts[:8]))}" if parts else 'run "sweep submit" first'
    raise refused(cube, "nothing", f"the cube of {path}", hint)


def find_cube(path: Path, results: Path, *, bundle: bool = False) -> Path:
    """Return a cube on this machine, as `find_place` does; one in a bundle only if `bundle`."""
    from sweep_clustering.storage.archive import is_zip
    from sweep_clustering.storage.files import place_of

    if isinstance(address := place_of(path), str):
        raise refused(address, "an address", "a cube on this machine")
    if is_zip(path) and not bundle:
        raise refused(path, "a bundle, which is only read", "a cube in a folder")
    return Path(find_place(path, results))


def find_run(path: Path, results: Path) -> Path:
    """Return the cube at a path, or of the sweep file there; it need not exist if there is a run folder."""
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX, RunFolder

    cube = cube_of(path, results)
    run = RunFolder(cube)
    run.check()
    has_run = cube.suffix == CUBE_SUFFIX and run.path.is_dir()
    return cube if has_run else find_cube(path, results)


def find_places(
    paths: Sequence[Path], results: Path, find: Callable[[Path, Path], Place] = find_place
) -> tuple[Any, ...]:
    """Return the cubes of a function such as `find_run`, or all parts of a sweep file's sweep."""
    places = collected(lambda path: _parts_of(path, results) or [find(path, results)], paths)
    return tuple(dict.fromkeys(itertools.chain(*places)))


def _parts_of(path: Path, results: Path) -> Sequence[Place]:
    """Return the cubes of the parts of the sweep file at a path, if there is none of the whole."""
    if path.suffix != ".toml":
        return []
    from sweep_clustering.storage.runfolder.folder import CUBE_SUFFIX
    from sweep_clustering.sweeps.file.spec import part_named

    full_cube = cube_of(path, results)
    if full_cube.exists():
        return []
    cubes = {cube: part_named(cube.stem) for cube in results.glob(f"*.part-*{CUBE_SUFFIX}")}
    parts = {cube: part for cube, part in cubes.items() if part is not None and part.sweep == full_cube.stem}
    return sorted(parts, key=lambda cube: (parts[cube].of, parts[cube].number))


def whole_of(places: Sequence[Place]) -> Place:
    """Return the only cube, or the place of the whole of several that are parts of one sweep."""
    from sweep_clustering.sweeps.file.spec import part_named

    first = places[0]
    part = part_named(Path(first).stem)
    if len(places) == 1 or part is None:
        return first
    return (Path() if isinstance(first, str) else first.parent) / f"{part.sweep}.zarr"


def path_beside(cube: Place, suffix: str) -> Path:
    """Return the path for files about a cube: beside it, or in the working directory if it is at an
    address.
    """
    return (cube if isinstance(cube, Path) else Path(Path(cube).name)).with_suffix(suffix)


def complete_datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of data sets that begin like this."""
    from sweep_clustering.sweeps.data.builtin import BUILTIN

    return [name for name in BUILTIN if name.startswith(incomplete)]


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of shipped methods that begin like this, or else files."""
    from sweep_clustering.sweeps.words import SHIPPED

    names = [CompletionItem(name, help=SHIPPED[name].text) for name in SHIPPED if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, "file")]


def complete_cells(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the cells of the cube of this command that begin like this, failed ones first."""
    values = [ctx.params.get(name) for name in ("cube_or_spec", "cubes", "cube", "spec")]
    # click has not yet given arguments their names when an option lacks its value
    arguments = [value for value in values if value] + ctx.args
    if not arguments:
        return []
    from sweep_clustering.storage.cube.blocks import failed_cells
    from sweep_clustering.storage.cube.manifest import read_manifest

    try:
        first = Path(arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0])
        cube = find_cube(first, Path(ctx.params.get("results") or "results"))
        plans = [plan for plan in read_manifest(cube).plans.values() if _may_begin(plan.name, incomplete)]
        cells = (cell for plan in plans for block in plan.blocks() for cell in block.cells())
        names = map(str, itertools.chain(failed_cells(cube, plans), itertools.islice(cells, MOST_SEARCHED)))
        matches = (name for name in names if name.startswith(incomplete))
        # a failed cell comes twice
        return list(dict.fromkeys(itertools.islice(matches, 2 * MOST_OFFERED)))[:MOST_OFFERED]
    except (InputError, OSError, ValueError):
        return []  # a shell has no place for a message


def _may_begin(dataset: str, incomplete: str) -> bool:
    """Whether the name of a cell of a data set may begin like this."""
    return dataset.startswith(incomplete) or f"{incomplete}/".startswith(f"{dataset}/")
