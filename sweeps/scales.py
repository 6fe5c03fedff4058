"""Names of the ways to scale features; `sweeps.data.tables.scale` does it.

They stand alone: the options of a command are made from them, before it is known whether arrays are needed.
"""

from __future__ import annotations

SCALES = ("none", "standard", "minmax")
