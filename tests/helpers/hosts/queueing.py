"""A SLURM on several hosts, each with daemons of its own: any of them may be cut off, or lost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts.namespaces import INTERFACE, Host, Network, network
from processes.slurm_site import SHAPE, munged, skip_without_slurm, write_key, write_settings

NODES = 3
DOWN_AFTER = 20
"""Seconds without an answer after which SLURM gives a node up, and queues its jobs again: a site's 300."""

PROFILE = f"""
slurm: {{kind: slurm, cores: 1, memory: 1GB, walltime: "00:30:00", interface: {INTERFACE}, workers: {NODES},
        head: {{cores: 1, memory: 1GiB}}}}
login: {{kind: local, workers: {NODES}}}
"""


class Cluster:
    """A controller, where users log in, and compute nodes.

    Parameters
    ----------
    net : Network
        Its hosts.
    """

    def __init__(self, net: Network) -> None:
        self.net = net
        self.login, *self.nodes = net.hosts
        self.home = self.login.home
        self.profile = self.home / "cluster.yaml"
        self.profile.write_text(PROFILE)

    def node(self, name: str) -> Host:
        """The compute node of that name."""
        return next(node for node in self.nodes if node.name == name)

    def queue(self) -> dict[str, tuple[str, str, str]]:
        """Name, state and node of each job in the queue by its number, completing ones left out."""
        shown = self.login.run("squeue", "--noheader", "--format=%i|%j|%T|%N").splitlines()
        rows = [line.strip().split("|") for line in shown]
        return {number: (name, state, node) for number, name, state, node in rows if state != "COMPLETING"}

    def states(self) -> dict[str, str]:
        """What the controller thinks of each node."""
        rows = self.login.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return dict(row.split() for row in rows)


@contextmanager
def cluster(down_after: int = DOWN_AFTER) -> Iterator[Cluster]:
    """Start hosts and their daemons, `SLURM_CONF` points at them meanwhile, and end them all.

    Skips the test where SLURM or such hosts are not to be had.

    Parameters
    ----------
    down_after : int
        Seconds without an answer after which a node is given up.
    """
    skip_without_slurm()
    with network(1 + NODES) as net, pytest.MonkeyPatch.context() as patch:
        place = Cluster(net)
        patch.setenv("SLURM_CONF", str(_configure(place, down_after)))
        try:
            _start(place)
        except (subprocess.SubprocessError, TimeoutError) as error:
            pytest.skip(f"SLURM does not start here: {error}")
        yield place


def _configure(place: Cluster, down_after: int) -> Path:
    home, local = place.home, place.login.local
    settings = {
        "SlurmctldHost": f"{place.login.name}({place.login.address})",
        "AuthInfo": f"socket={local}/munge/socket,cred_expire=6",
        "StateSaveLocation": local / "state",
        "SlurmdSpoolDir": local / "spool",
        "SlurmctldPidFile": local / "slurmctld.pid",
        "SlurmdPidFile": local / "slurmd.pid",
        "SlurmctldLogFile": home / "slurmctld.log",
        "SlurmdLogFile": home / "slurmd.%n.log",
        "SlurmdTimeout": down_after,
        # The least loaded node first: a head and its workers stand on several.
        "SelectTypeParameters": "CR_Core_Memory,CR_LLN",
    }
    nodes = [f"NodeName={n.name} NodeHostname={n.name} NodeAddr={n.address} {SHAPE}" for n in place.nodes]
    names = ",".join(node.name for node in place.nodes)
    partition = f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP"
    file = home / "slurm.conf"
    write_settings(file, settings, [*nodes, partition])
    return file


def _start(place: Cluster) -> None:
    key = place.home / "key"
    write_key(key)
    for host in place.net.hosts:
        folders = [host.local / name for name in ("munge", "state", "spool")]
        host.run("mkdir", "--mode=0755", *folders)
        host.run(*munged(folders[0], key))
    configuration = os.environ["SLURM_CONF"]
    place.login.run("slurmctld", "-f", configuration)
    for node in place.nodes:
        node.run("slurmd", "-f", configuration)
    deadline = time.monotonic() + 30
    while set(place.states().values()) != {"idle"}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the nodes are not idle after 30 s: {place.states()}")
        time.sleep(0.1)
