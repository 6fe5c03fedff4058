"""What ends a run because the compute cluster does not work."""

from __future__ import annotations


class ComputeClusterError(RuntimeError):
    """No worker is available: what was finished is kept."""
