"""What keeps a machine from submitting the jobs of a profile."""

from __future__ import annotations

import re
import shlex
import shutil
import sys

import psutil

from pipeline.jobs.keys import JobQueue, cluster_class
from storage.runfolder.folder import RunFolder
from sweeps.errors import Problem

SAFE_PATH = re.compile(r"[\w./+@=,:-]+", re.ASCII)
"""What a path may consist of: dask-jobqueue quotes nothing in a script, and SLURM expands % in log names."""


def machine_problems(options: JobQueue, where: str) -> list[Problem]:
    """What keeps this machine from submitting the jobs of a profile."""
    problems = []
    command = shlex.split(cluster_class(options.kind).job_cls.submit_command)[0]
    if shutil.which(command) is None:
        expected = f"a machine that submits to {options.kind}"
        problems.append(Problem(where.rstrip(":"), f"no command {command!r} here", expected))
    interface, known = options.keys.get("interface"), psutil.net_if_addrs()
    if interface is not None and interface not in known:
        expected = "one of this machine's: " + ", ".join(sorted(known))
        problems.append(Problem(f"{where} interface", repr(interface), expected))
    return problems


def path_problems(run: RunFolder) -> list[Problem]:
    """Paths that would be split in a job script."""
    paths = {"--results": str(run.path.resolve()), "python": sys.executable}
    expected = "a path of letters, digits and ./+@=,:_-, as it is written into job scripts"
    return [Problem(name, path, expected) for name, path in paths.items() if not SAFE_PATH.fullmatch(path)]
