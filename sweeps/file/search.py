"""The table `[search]` of a sweep file: the settings that `kernels.settings` declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, ValidatorFunctionWrapHandler, create_model
from pydantic_core import CoreSchema, core_schema

from kernels.settings import SETTINGS, Setting, Settings, wrong_settings
from sweeps.validation import Record, refusal, refused


@dataclass(frozen=True)
class Search(Settings):
    """Settings of the search (docs/model.md, section 3) and of the objective (section 2)."""

    def to_dict(self) -> dict[str, Any]:
        """Settings by name; those of later generations, which come last, only if not at their defaults.

        So a cube made before a setting was added stays growable.
        """
        return {
            each.name: getattr(self, each.name)
            for each in sorted(SETTINGS, key=lambda each: each.since)
            if each.since == 1 or getattr(self, each.name) != each.default
        }

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            cls._taken,
            handler.generate_schema(SearchTable),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )

    @classmethod
    def _taken(cls, value: Any, table: ValidatorFunctionWrapHandler) -> Search:
        return value if isinstance(value, cls) else cls(**dict(table(value)))


@dataclass(frozen=True)
class Declared:
    """Type of a key: what its setting is declared to be."""

    setting: Setting

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        alone = refused(self._type(), self.setting.expected, options=self.setting.choices)
        return core_schema.with_info_after_validator_function(self._with_others, alone)

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

    def _with_others(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        """Refuse a value, right by itself, that the settings declared before this one rule out."""
        for _, _, expected in wrong_settings({**info.data, self.setting.name: value}):
            raise refusal(expected)
        return value


# a default may be ruled out by a setting that is given, so defaults are validated as well
KEYS: dict[str, Any] = {
    each.name: (
        Annotated[type(each.default), Declared(each)],
        Field(each.default, description=each.meaning, validate_default=True),
    )
    for each in SETTINGS
}
SearchTable = create_model(
    "Search", __base__=Record, __doc__="Settings of the search and of its objective.", **KEYS
)
