"""Hosts under a detached sweep on a SLURM of several hosts are cut off from the network, or lost.

`pytest -m heavy -n 0 tests/trials/test_partitions.py -s` shows counts and times. All hosts share the file
system, also while they are cut off: then a head that SLURM has given up still reads and writes the run.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from hosts.namespaces import network
from hosts.queueing import cluster
from hosts.trial import LOOK_EVERY, Look, Trial
from processes.sweeping import tiny, write_spec

MIXTURES = [{"mixture": {"n_clusters": [2, 3], "count": 2, "n_samples": 30, "n_features": 3}}]
SPEC = tiny(17, datasets=MIXTURES, p=[0.8, 0.9, 1.0], m=["0.5N", "1N", "2N"], restarts=80)
"""Some minutes for three workers that take a twentieth of a second for each restart."""

BRIEF, LONG = 30, 360
"""Seconds of a cut: about as long as SLURM needs to give a node up, and much longer than anything waits."""

SETTLED = 45
"""Seconds after which nothing may have come back: a node that joins again answers within a few."""

ENOUGH = 5
"""Blocks that are written before anything is done to the sweep, of twenty."""


@contextmanager
def trial(folder: Path, reference: Path) -> Iterator[Trial]:
    """Yield a sweep with some of its blocks written."""
    with cluster() as place:
        with Trial(place, write_spec(folder, SPEC), folder / "results", reference) as sweep:
            sweep.wait_for_blocks(ENOUGH)
            try:
                yield sweep
            finally:
                sweep.show()
        assert sweep.false_statements() == {}


@pytest.mark.slow
def test_hosts_see_each_other_unless_cut() -> None:
    call = "import socket; socket.create_connection(('host0', 9), timeout=1)"
    with network(3) as net:
        first, second, third = net.hosts
        assert [host.run("hostname").strip() for host in net.hosts] == ["host0", "host1", "host2"]
        boots = {host.run("cat", "/proc/sys/kernel/random/boot_id") for host in net.hosts}
        assert len(boots) == 3
        for cut, answer in ((False, "refused"), (True, "timed out"), (False, "refused")):
            (net.cut if cut else net.heal)(second)
            with pytest.raises(subprocess.SubprocessError, match=answer):
                second.run(sys.executable, "-c", call)
            with pytest.raises(subprocess.SubprocessError, match="refused"):
                third.run(sys.executable, "-c", call)
        second.run("touch", second.local / "own")
        assert third.run("ls", third.local) == ""
        third.lose()
        with pytest.raises(subprocess.SubprocessError):
            third.run("true")
        assert first.processes("import os, time")


def cut_off(host: str, seconds: float) -> Callable[[Trial], AbstractContextManager[None]]:
    def begin(sweep: Trial) -> AbstractContextManager[None]:
        nodes = {
            "worker": sweep.worker_node,
            "head": sweep.head_node,
            "controller": lambda: sweep.cluster.login,
        }
        return sweep.cut_off(nodes[host](), seconds)

    return begin


@contextmanager
def lose_node(sweep: Trial) -> Iterator[None]:
    """Lose the node of the head for good."""
    node = sweep.head_node()
    node.lose()
    sweep.note(f"{node.name} lost")
    yield


@contextmanager
def given_up(sweep: Trial) -> Iterator[None]:
    """Kill the daemon of its node: the head reaches everything, and is started elsewhere as well."""
    node = sweep.head_node()
    assert node.kill("slurmd") > 0
    sweep.note(f"slurmd of {node.name} killed")
    yield


# SLURM drains every node after a long cut of its controller, until somebody resumes them.
CUTS = (("worker", BRIEF), ("worker", LONG), ("head", BRIEF), ("head", LONG), ("controller", BRIEF))
EVENTS: dict[str, Callable[[Trial], AbstractContextManager[None]]] = {
    "nothing": lambda sweep: nullcontext(),  # the others are compared with this
    **{f"{host} cut off for {seconds} s": cut_off(host, seconds) for host, seconds in CUTS},
    "node of the head lost": lose_node,
    "node given up that lives": given_up,
}


@pytest.mark.heavy
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("event", EVENTS)
def test_a_sweep_ends_whatever_happens_to_a_host(event: str, tmp_path: Path, reference: Path) -> None:
    with trial(tmp_path, reference) as sweep:
        with EVENTS[event](sweep):
            sweep.finish()
        sweep.check(SETTLED)
        assert event != "nothing" or sweep.n_repeated() == 0


@pytest.mark.heavy
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_cancel_reaches_a_head_that_is_cut_off(state: str, tmp_path: Path, reference: Path) -> None:
    """By the order of events, its job waits again or runs on another node."""
    with trial(tmp_path, reference) as sweep:
        node = sweep.head_node()
        with sweep.cut_off(node, LONG):
            sweep.wait(
                lambda look: has_moved(look, state, node.name), 240, f"the head's job {state} elsewhere"
            )
            sweep.note("cancel")
            cancelled = sweep.sweep("cancel", sweep.cube)
            sweep.note(f"cancel ended: {cancelled.returncode} {cancelled.stdout} {cancelled.stderr}")
            assert cancelled.returncode == 0, cancelled.stderr
            # One that has lost the lease writes no more, and ends its workers.
            sweep.wait(lambda look: not look.runs, 90, "the end of every head")
            sweep.stay_quiet(LOOK_EVERY * 6)
        sweep.stay_quiet(SETTLED)
        assert "submit again" in sweep.sweep("status", sweep.cube).stdout
        again = sweep.submit()
        assert again.returncode == 0, again.stderr
        sweep.finish()
        sweep.check(SETTLED)


@contextmanager
def standing_still(sweep: Trial) -> Iterator[None]:
    """Stop the head until the block ends; then the sweep goes to its end."""
    (head,) = sweep.heads()
    os.kill(head.pid, signal.SIGSTOP)
    sweep.note("the head stopped")
    try:
        yield
    finally:
        os.kill(head.pid, signal.SIGCONT)
    sweep.note("the head goes on")
    sweep.finish()
    sweep.check(SETTLED)


@pytest.mark.heavy
@pytest.mark.timeout(2400)
def test_a_head_that_stands_still(tmp_path: Path, reference: Path) -> None:
    with trial(tmp_path, reference) as sweep, standing_still(sweep):
        for seconds in (60, 90, 30):  # the lease is fresh, then stale
            time.sleep(seconds)
            second = sweep.submit()
            sweep.note(f"second submit: {second.returncode} {second.stderr}")
            assert second.returncode == 1, second.stderr


@pytest.mark.heavy
@pytest.mark.timeout(2400)
def test_another_submit_takes_over_from_a_head_that_stands_still(tmp_path: Path, reference: Path) -> None:
    """It starts where users log in, without the queue; the first head wakes up amid its work."""
    with trial(tmp_path, reference) as sweep, standing_still(sweep):
        deadline = time.monotonic() + 300
        while (second := sweep.submit("login")).returncode != 0:
            assert "is being written by" in second.stderr
            assert time.monotonic() < deadline, second.stderr
            time.sleep(10)
        sweep.note("second submit took over")
        time.sleep(30)


def has_moved(look: Look, state: str, node: str) -> bool:
    """Return whether the head's job was taken from a node and is in some state now."""
    heads = [(now, place) for name, now, place in look.jobs.values() if name.endswith("-head")]
    return any(now == state and place != node for now, place in heads)
