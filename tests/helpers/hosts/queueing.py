"""A SLURM runs on several hosts with separate daemons, and any host may be cut off or lost."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts.namespaces import INTERFACE, Host, Network, network
from processes import slurm_site
from processes.sweeping import wait_until

NODES = 3
DOWN_AFTER = 20
"""Seconds without an answer after which SLURM gives a node up, and queues its jobs again: a site's 300."""

PROFILE = f"""
slurm: {{kind: slurm, cores: 1, memory: 1GB, walltime: "00:30:00", interface: {INTERFACE}, workers: {NODES},
        head: {{cores: 1, memory: 1GiB}}}}
login: {{kind: local, workers: {NODES}}}
"""


class Cluster:
    """A controller, where users log in, and compute nodes."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.login, *self.nodes = net.hosts
        self.home = self.login.home
        self.profile = self.home / "cluster.yaml"
        self.profile.write_text(PROFILE)

    def node(self, name: str) -> Host:
        """Return the compute node of that name."""
        return next(node for node in self.nodes if node.name == name)

    def queue(self) -> dict[str, tuple[str, str, str]]:
        """Return name, state and node of each job in the queue by its number, without completing ones."""
        lines = self.login.run("squeue", "--noheader", "--format=%i|%j|%T|%N").splitlines()
        rows = [line.strip().split("|") for line in lines]
        return {number: (name, state, node) for number, name, state, node in rows if state != "COMPLETING"}


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start hosts and their daemons, `SLURM_CONF` points at them meanwhile, and end them all.

    Skips the test where SLURM or such hosts are not to be had.
    """
    slurm_site.skip_without_slurm()
    with network(1 + NODES) as net, pytest.MonkeyPatch.context() as patch:
        place = Cluster(net)
        configuration = _configure(place)
        patch.setenv("SLURM_CONF", str(configuration))
        try:
            slurm_site.write_key(place.home / "key")
            for host in net.hosts:
                folders = [host.local / name for name in ("munge", "state", f"spool.{host.name}")]
                host.run("mkdir", "--mode=0755", *folders)
                host.run(*slurm_site.munged(folders[0], place.home / "key"))
            place.login.run("slurmctld", "-f", configuration)
            for node in place.nodes:
                node.run("slurmd", "-f", configuration)
            states = ("sinfo", "--noheader", "--Node", "--format=%T")
            wait_until(lambda: set(place.login.run(*states).split()) == {"idle"}, seconds=30)
        except (subprocess.SubprocessError, AssertionError) as error:
            pytest.skip(f"SLURM does not start here: {error}")
        yield place


def _configure(place: Cluster) -> Path:
    settings = {
        "SlurmctldHost": f"{place.login.name}({place.login.address})",
        "SlurmdTimeout": DOWN_AFTER,
        # The least loaded node first: a head and its workers stand on several.
        "SelectTypeParameters": "CR_Core_Memory,CR_LLN",
    }
    shape, names = slurm_site.SHAPE, ",".join(node.name for node in place.nodes)
    nodes = [f"NodeName={n.name} NodeHostname={n.name} NodeAddr={n.address} {shape}" for n in place.nodes]
    partition = f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP"
    return slurm_site.write_settings(place.home, place.login.local, settings, [*nodes, partition])
