"""One machine acts as several: each is a set of Linux namespaces on a network with cables to pull.

A host has its own processes, network, name, mounts and start id, so that a program on one sees those of
another only through files and the network. Nothing has a name outside: the kernel removes all of it when the
first process of a host ends, and that one ends with the test, also by kill -9.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

PROGRAMS = ("setpriv", "unshare", "nsenter", "ip", "bridge", "mount", "hostname")
INTERFACE = "eth0"

MORTAL = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: it ends when the thread that started it does."""

FIRST_PROCESS = """
import os, time
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.1)
"""
"""Process 1 of a host: it buries orphans."""


@dataclass(frozen=True)
class Host:
    """One machine: its process 1 by its number outside, a folder that all share, and a disk of its own."""

    name: str
    address: str
    first: int
    home: Path
    local: Path

    def command(self, *command: str | Path, folder: Path | None = None) -> list[str]:
        """Return the command to call outside to run a command inside."""
        inside = ["nsenter", "--target", str(self.first), "--all", "--"]
        return [*inside, "env", f"--chdir={folder or self.home}", *map(str, command)]

    def run(self, *command: str | Path) -> str:
        """Return the output of a command; raise where it fails."""
        return _output(self.command(*command))

    def processes(self, *words: str) -> list[psutil.Process]:
        """Return its processes without zombies whose command lines have all of these words."""
        processes: list[psutil.Process] = []
        with suppress(OSError):  # it was lost
            namespace = _space(self.first, "pid")
            for process in psutil.process_iter():
                with suppress(psutil.Error, OSError):
                    line = " ".join(process.cmdline()) if _space(process.pid, "pid") == namespace else ""
                    lives = line and process.status() != psutil.STATUS_ZOMBIE
                    processes += [process] if lives and all(word in line for word in words) else []
        return processes

    def kill(self, *words: str) -> int:
        """Kill -9 the processes with these words and return their number."""
        processes = self.processes(*words)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return len(processes)

    def lose(self) -> None:
        """End all of its processes at once and for good, as a loss of power does."""
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self.first)
            first.kill()
            while first.status() != psutil.STATUS_ZOMBIE:  # it is one once all others have ended
                time.sleep(0.01)


@dataclass(frozen=True)
class Network:
    """Hosts, and a process in the namespace of the switch between them."""

    switch: int
    hosts: list[Host]

    def cut(self, host: Host) -> None:
        """Drop everything from and to a host in silence, so that no host sees its link go down."""
        _at_switch(self.switch, "bridge", "link", "set", "dev", host.name, "state", "0")  # blocked

    def heal(self, host: Host) -> None:
        """End a cut."""
        _at_switch(self.switch, "bridge", "link", "set", "dev", host.name, "state", "3")  # forwarding


@contextmanager
def network(count: int) -> Iterator[Network]:
    """Make hosts, `host0` and up, and remove them at the end; skip the test where that is impossible."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip(f"hosts in namespaces need root on Linux, and {', '.join(missing) or 'no more programs'}")
    with ExitStack() as stack:
        home = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="sweep-hosts-", ignore_cleanup_errors=True)
            )
        )
        home.chmod(0o755)
        (home / "local").mkdir()
        (home / "hosts").touch()
        try:
            switch = stack.enter_context(_mortal_process("unshare", "--net"))
            _at_switch(switch, "ip", "link", "add", "switch", "type", "bridge")
            _at_switch(switch, "ip", "link", "set", "switch", "up")
            hosts = [stack.enter_context(_host(number, home, switch)) for number in range(count)]
        except subprocess.SubprocessError as error:
            pytest.skip(f"no hosts in namespaces here: {error}")
        names = [f"{host.address} {host.name}" for host in hosts]
        (home / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        yield Network(switch, hosts)


@contextmanager
def _host(number: int, home: Path, switch: int) -> Iterator[Host]:
    spaces = ("--net", "--uts", "--mount", "--ipc", "--pid", "--mount-proc")
    first = (sys.executable, "-I", "-S", "-c", FIRST_PROCESS)
    with _mortal_process("unshare", *spaces, "--fork", "--kill-child", then=first) as starter:
        # process 1 of the host, once its namespaces are complete
        pid = _wait(
            lambda: next(
                (c.pid for c in psutil.Process(starter).children() if FIRST_PROCESS in c.cmdline()), 0
            )
        )
        host = Host(f"host{number}", f"10.77.0.{10 + number}", pid, home, home / "local")
        boot = home / f"boot.{host.name}"
        boot.write_text(f"{uuid.uuid4()}\n")
        cable = ("type", "veth", "peer", "name", INTERFACE, "netns", str(pid))
        _at_switch(switch, "ip", "link", "add", host.name, *cable)
        _at_switch(switch, "ip", "link", "set", host.name, "master", "switch", "up")
        for command in (
            ("hostname", host.name),
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{host.address}/24", "dev", INTERFACE),
            ("ip", "link", "set", INTERFACE, "up"),
            ("mount", "-t", "tmpfs", "local", host.local),
            ("mount", "--bind", home / "hosts", "/etc/hosts"),
            # Machines differ in it; a reader of it must not take two hosts for one.
            ("mount", "--bind", boot, "/proc/sys/kernel/random/boot_id"),
        ):
            host.run(*command)
        # The kernel says a moment later that a link is up, and refuses to forward before that.
        _wait(lambda: "state UP" in _at_switch(switch, "ip", "link", "show", host.name))
        try:
            yield host
        finally:
            host.lose()


@contextmanager
def _mortal_process(*command: str, then: Sequence[str] = ("sleep", "infinity")) -> Iterator[int]:
    with subprocess.Popen([*MORTAL, *command, *then], stdin=subprocess.DEVNULL) as process:
        try:
            # A command that ran too early would change the network of this machine.
            _wait(lambda: _space(process.pid, "net") != _space(os.getpid(), "net"))
            yield process.pid
        finally:
            process.kill()


def _wait(condition: Callable[[], int]) -> int:
    """Return the first value of a condition that is true; it may fail while processes begin."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(psutil.Error):
            if value := condition():
                return value
        time.sleep(0.02)
    raise subprocess.SubprocessError("no namespaces within 20 s")


def _space(pid: int, kind: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def _at_switch(switch: int, *command: str) -> str:
    return _output(["nsenter", "--target", str(switch), "--net", "--", *command])


def _output(command: list[str]) -> str:
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if process.returncode:
        raise subprocess.SubprocessError(f"{' '.join(command)}: {process.stdout}{process.stderr}")
    return process.stdout
