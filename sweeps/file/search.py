"""The table `[search]` of a sweep file: the settings that `kernels.settings` declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, ValidatorFunctionWrapHandler, create_model
from pydantic_core import CoreSchema, core_schema

from kernels.settings import (
    LENGTHS,
    OFFERED,
    SETTINGS,
    Setting,
    Settings,
    method_of,
    method_words,
    settings_of,
    wrong_settings,
)
from sweeps.keytypes import Given
from sweeps.plan import Flag, Name
from sweeps.validation import Record, refusal, refused

BY_METHOD = tuple(each.name for each in SETTINGS if each.by_method)
"""Settings that a method names."""

NAME = "name"
HELD_OUT = "held_out"
HELD_OUT_KEY = (
    Flag,
    Field(
        False,
        description="Whether every model predicts held-out annotations: five short searches a cell.",
    ),
)


@dataclass(frozen=True)
class Search(Settings):
    """Settings of the search (docs/model.md, sections 3 and 6) and of the objective (section 2).

    What a cube keeps: values alone, whatever named them. So a cube says what it was made with also when a
    method has other values by then, and is grown by any file that comes to the same values.

    Parameters
    ----------
    held_out : bool
        Whether every model with annotations is asked to predict those that it has not seen, in short searches
        beside the restarts. No setting: no solution depends on it.
    name : str or None
        What it is called in a sweep of several searches. No setting either.
    """

    held_out: bool = False
    name: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Settings by name; those of later generations, which come last, only if not at their defaults.

        So a cube made before a setting was added stays growable.
        """
        settings = {
            each.name: getattr(self, each.name)
            for each in sorted(SETTINGS, key=lambda each: each.since)
            if each.since == 1 or getattr(self, each.name) != each.default
        }
        name = {} if self.name is None else {NAME: self.name}
        return name | settings | ({HELD_OUT: True} if self.held_out else {})

    @property
    def settings(self) -> Settings:
        """The settings alone."""
        return Settings(**{each.name: getattr(self, each.name) for each in SETTINGS})

    def named(self) -> dict[str, Any]:
        """The method, and the settings that its name does not tell, as `to_dict`: for people."""
        told = {NAME, *BY_METHOD} - LENGTHS
        others = {name: value for name, value in self.to_dict().items() if name not in told}
        return {"method": method_words(self), **others, **({HELD_OUT: "true"} if self.held_out else {})}

    def written(self) -> dict[str, Any]:
        """Fewest keys of a sweep file that give what goes by the method: its name, and what differs."""
        method, others = method_of(self)
        return {"method": method, **others}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            cls._taken,
            handler.generate_schema(KeptTable),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )

    @classmethod
    def _taken(cls, value: Any, table: ValidatorFunctionWrapHandler) -> Search:
        return value if isinstance(value, cls) else cls(**dict(table(value)))


def asked(**given: Any) -> Search:
    """Search by the method and settings that are given, as in a sweep file."""
    held_out, name = bool(given.get(HELD_OUT, False)), given.get(NAME)
    return Search(**vars(settings_of(given)), held_out=held_out, name=name)


@dataclass(frozen=True)
class Declared:
    """Type of a key: what its setting is declared to be, or None where that stands for the method's value."""

    setting: Setting
    may_be_none: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        alone = refused(self._type(), self.setting.expected, options=self.setting.choices)
        return core_schema.with_info_wrap_validator_function(self._with_others, alone)

    def _type(self) -> CoreSchema:
        low, high, choices = self.setting.low, self.setting.high, self.setting.choices
        if choices:
            return core_schema.literal_schema(list(choices))
        if isinstance(self.setting.default, int):
            return core_schema.int_schema(strict=True, ge=int(low), le=None if high is None else int(high))
        number = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=low, le=high)
        if not self.setting.words:
            return number
        return core_schema.union_schema([number, core_schema.literal_schema(list(self.setting.words))])

    def _with_others(
        self, value: Any, alone: ValidatorFunctionWrapHandler, info: core_schema.ValidationInfo
    ) -> Any:
        """Refuse a value, right by itself, that the settings declared before this one rule out."""
        if self.may_be_none and value is None:
            if "method" not in info.data:  # it was refused: nothing to judge
                return None
        else:
            value = alone(value)
        # a table may name several methods, each of which has to allow the value
        methods = info.data.get("method")
        for each in [{"method": method} for method in methods] if isinstance(methods, tuple) else [{}]:
            for setting, found, expected in wrong_settings({**info.data, **each, self.setting.name: value}):
                if setting == self.setting:
                    raise refusal(expected, found=found)
        return value


def _key(setting: Setting, default: Any) -> Any:
    """A key of a table; a default may be ruled out by a setting that is given, so it is validated as well."""
    kind: Any = Annotated[type(setting.default), Declared(setting, may_be_none=default is None)]
    return kind, Field(default, description=described(setting), validate_default=True)


def described(setting: Setting) -> str:
    """What an editor says of a key."""
    return f"{setting.meaning} Left out: {setting.unless_given}." if setting.by_method else setting.meaning


SearchTable = create_model(
    "Search",
    __base__=Record,
    __doc__="Settings of the search and of its objective.",
    **{each.name: _key(each, each.offered) for each in OFFERED},
    held_out=HELD_OUT_KEY,
)
KeptTable = create_model(
    "Kept",
    __base__=Record,
    **{each.name: _key(each, each.default) for each in SETTINGS},
    held_out=HELD_OUT_KEY,
    name=(Annotated[Name | None, Given()], None),
)
