"""Options and arguments that several commands have, and options made from declared parameters and settings.

`declared` makes an option of a parameter that `kernels.settings` declares. Help shows its words and its
range, but its value is checked together with files and other options, so that all problems are reported at
once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from sweep_clustering.kernels.settings import OFFERED, PARAMETERS, Setting

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


class Whole(click.IntRange):
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
    whole = WholeOrWord if setting.words else Whole
    number: Any = whole if setting.is_whole else Real
    bounded = number(setting.low, setting.high, min_open=setting.above)
    keywords: dict[str, Any] = {
        "type": Word(setting.choices) if setting.choices else bounded,
        "metavar": "|".join((number.name.split()[0].upper(), *setting.words)) if setting.words else None,
        "default": setting.offered,
        "show_default": setting.unless_given or True,
        "help": setting.meaning,
    }
    return click.option(setting.option, **keywords | changes)


def takes_settings(**defaults: int | float | str) -> Callable[[Command], Command]:
    """Return options for the method and for each setting, some with other defaults than the declared ones."""
    return stacked(
        *(declared(setting, default=defaults.get(setting.name, setting.offered)) for setting in OFFERED)
    )


def settings_in(values: dict[str, Any]) -> dict[str, Any]:
    """Take the method and the settings, by name, out of the values of a command."""
    return {setting.name: values.pop(setting.name) for setting in OFFERED}


def stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return several options as one."""
    # click shows first what was added last
    return lambda command: functools.reduce(lambda made, option: option(made), reversed(options), command)


class Grouped(click.Command):
    """A command whose help shows the usual options; with `--help-all` it shows all of them, in groups.

    Parameters
    ----------
    usual : sequence of str
        names of the parameters that help shows
    groups : mapping of str to sequence of str
        names of the others by title; those in no group have the last title
    """

    def __init__(
        self, *arguments: Any, usual: Sequence[str], groups: Mapping[str, Sequence[str]], **keywords: Any
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.usual, self.groups = usual, groups
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
        titles |= dict.fromkeys(self.usual, "Options")
        for title in ["Options", *self.groups] if ctx.meta.get(__name__) else ["Options"]:
            names = self.usual if title == "Options" else records
            with formatter.section(title):
                formatter.write_dl(
                    [records[name] for name in names if name in records and titles[name] == title]
                )


takes_cube = stacked(click.argument("cube", type=PATH), results_option)
paths_argument = functools.partial(click.argument, type=PATH, nargs=-1, required=True)
takes_cubes = stacked(paths_argument("cubes", metavar="CUBE..."), results_option)
takes_runs = stacked(paths_argument("cubes_or_spec", metavar="CUBE...|SPEC"), results_option)
takes_run = stacked(click.argument("cube_or_spec", metavar="CUBE|SPEC", type=PATH), results_option)
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
