"""Exit codes of the commands. A run that a signal ends has 128 plus the number of the signal."""

from __future__ import annotations

COMPLETE = 0
INTERNAL = 1
"""A fault of the machine, a lease that is held, or a check that found a difference."""
BAD_INPUT = 2
"""Nothing was started, and nothing is lost."""
FAILED_CELLS = 3
"""Finished, but cells failed; with `--strict`, also when data sets were skipped."""
