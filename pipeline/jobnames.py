"""Names of a sweep's jobs in a queue: by them they are found again, whatever else is lost."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path


def run_id(run: Path) -> str:
    """Name of a sweep's runs in the queue: the same for every run on one cube, and for no other cube."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", run.name.removesuffix(".run"))
    return f"{name}-{hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:8]}"


def job_prefix(run: Path) -> str:
    """What the names of all jobs of a sweep start with."""
    return f"sweep-{run_id(run)}-"


def head_name(run: Path) -> str:
    """Name of the job of a detached head; no worker job has it."""
    return f"{job_prefix(run)}head"
