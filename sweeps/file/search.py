"""The table `[search]` of a sweep file: the settings that `kernels.settings` declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernels.settings import SETTINGS, Settings, settings_of, wrong_settings
from sweeps.errors import did_you_mean, shown
from sweeps.file.toml import Table


@dataclass(frozen=True)
class Search(Settings):
    """Settings of the search (model.md section 3) and of the objective (section 2)."""

    def to_dict(self) -> dict[str, Any]:
        """Settings by name; those of later generations, which come last, only if not at their defaults.

        So a cube made before a setting was added stays growable.
        """
        return {
            each.name: getattr(self, each.name)
            for each in sorted(SETTINGS, key=lambda each: each.since)
            if each.since == 1 or getattr(self, each.name) != each.default
        }


def read_search(table: Table) -> Search:
    """Read the table; a key that is not there has its default, and so has one that is wrong."""
    values = {each.name: table.raw(each.name, each.default) for each in SETTINGS}
    for setting, found, expected in list(wrong_settings(values)):
        hint = did_you_mean(found, setting.choices) if isinstance(found, str) else ""
        table.problem(setting.name, shown(found), expected, hint)
        values[setting.name] = setting.default
    table.close()
    return Search(**vars(settings_of(values)))
