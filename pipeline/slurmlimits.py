"""Limits of a SLURM site, read from its commands."""

from __future__ import annotations

import re

from pipeline.slurm import SEPARATOR, CommandFailed, run


def partition(name: str | None) -> dict[str, str]:
    """What `scontrol show partition` says of a partition, of the default one where `name` is None.

    Raises
    ------
    CommandFailed
        If there is no such partition, or SLURM does not answer.
    """
    output = run(["scontrol", "--oneliner", "show", "partition", *([name] if name else [])])
    records = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in output.splitlines()]
    chosen = [record for record in records if name or record.get("Default") == "YES"]
    if not chosen:
        raise CommandFailed(["scontrol"], "no default partition", transient=False)
    return chosen[0]


def largest_node(name: str) -> tuple[int, int]:
    """Bytes of memory and number of cores of the largest node of a partition.

    Raises
    ------
    CommandFailed
        If SLURM does not answer.
    """
    output = run(["sinfo", "--noheader", f"--partition={name}", f"--format=%m{SEPARATOR}%c"])
    rows = [
        [int(re.sub(r"\D", "", text) or 0) for text in line.split(SEPARATOR)]
        for line in output.split()
        if SEPARATOR in line
    ]
    memory = max((row[0] for row in rows), default=0)
    return memory * 2**20, max((row[1] for row in rows), default=0)


def most_jobs() -> int:
    """How many jobs SLURM holds at once, 0 where it does not say.

    Raises
    ------
    CommandFailed
        If SLURM does not answer.
    """
    found = re.search(r"^MaxJobCount\s*=\s*(\d+)", run(["scontrol", "show", "config"]), re.MULTILINE)
    return int(found[1]) if found else 0
