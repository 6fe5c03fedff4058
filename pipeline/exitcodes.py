"""Exit codes of the commands. A run that a signal ends has 128 plus the number of the signal."""

from __future__ import annotations

COMPLETE = 0
INTERNAL = 1
"""A fault of the machine, a lease that is held, or, of a check, something that does not agree."""
BAD_INPUT = 2
"""Nothing was started, and nothing is lost."""
FAILED_CELLS = 3
"""Finished, but cells failed; with `--strict`, also when data sets were skipped."""
