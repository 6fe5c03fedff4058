"""The settings of the search as options of a command."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from kernels.settings import OFFERED, Setting
from pipeline.commands.options import Word

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
