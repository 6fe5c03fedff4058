"""A stranger with an account on this machine looks for ports and tries to run code as their owner.

As a program, `stranger.py PORT ...`, it prints what it ran, as JSON: as this user, and as another one.
"""

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import psutil
from distributed import Client, LocalCluster
from distributed.comm import connect as open_comm
from distributed.core import send_recv
from distributed.protocol.pickle import dumps
from distributed.security import Security

WAYS = ("plain tcp", "no certificate", "own certificate")
CODE = "(__import__('os').getpid(), __import__('os').getuid())"
"""What it makes another process do, and how it knows that it did."""

LISTENS = "0A"
NOBODY = 65534
SECONDS = 3.0
"""For each attempt."""


class Anyone(Security):  # type: ignore[misc]
    """Believes every server, and shows no certificate, or one of its own."""

    def __init__(self, certificate: str | None = None) -> None:
        super().__init__(require_encryption=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            with NamedTemporaryFile("w") as file:
                file.write(certificate)
                file.flush()
                context.load_cert_chain(file.name)
        self._arguments = {"ssl_context": context, "require_encryption": True, "extra_conn_args": {}}

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """Return the same for every role."""
        return self._arguments


@cache
def security(way: str) -> Security | None:
    """Return the security with which a stranger comes, for each of `WAYS`."""
    if way == "plain tcp":
        return None
    if way == "no certificate":
        return Anyone()
    credentials = Security.temporary()
    return Anyone(credentials.tls_client_key + credentials.tls_client_cert)


async def connect(address: str, security: Security | None) -> None:
    """Connect, and close after a failure too: a client left to the garbage collector can hang the next."""
    client = Client(address, security=security, timeout=2, asynchronous=True)
    try:
        await client
    finally:
        await client.close()


def listening(pid: int) -> dict[tuple[str, int], int]:
    """Return host and port of each TCP socket that a process and its children listen on, by process."""
    process = psutil.Process(pid)
    return {
        (connection.laddr.ip, connection.laddr.port): member.pid
        for member in (process, *process.children(recursive=True))
        for connection in member.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def attack(ports: Iterable[int]) -> list[dict[str, Any]]:
    """Try each port in each of `WAYS`, as a client and by bare messages, and return what ran elsewhere."""

    async def try_all() -> list[list[dict[str, Any]]]:
        tries = product(ports, WAYS, (_by_client, _by_message))
        return await asyncio.gather(*(_try(*attempt) for attempt in tries))

    return [code_run for runs in asyncio.run(try_all()) for code_run in runs]


def attack_by_others(ports: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Attack from a process of this user without any secret, which becomes another user if it can.

    By user: `seen`, the ports that it found by itself, and `ran`.
    """
    command = [sys.executable, __file__, *map(str, ports)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return {report["user"]: report for report in map(json.loads, process.stdout.splitlines())}


async def _try(port: int, way: str, attempt: Callable[..., Any]) -> list[dict[str, Any]]:
    scheme = "tcp" if way == "plain tcp" else "tls"
    address = f"{scheme}://127.0.0.1:{port}"
    try:
        ran = await asyncio.wait_for(attempt(address, security(way)), SECONDS)
    # Whatever a refusal looks like; that an attempt can succeed is shown where nothing refuses it.
    except Exception:
        return []
    return [{"port": port, "way": way, "where": where, "ran": list(pair)} for where, pair in ran.items()]


async def _by_client(address: str, security: Security | None) -> dict[str, Any]:
    client = Client(address, security=security, timeout=SECONDS / 2, asynchronous=True)
    try:
        await client
        ran = {"scheduler": await client.run_on_scheduler(eval, CODE)}
        for place, nanny in (("worker", False), ("nanny", True)):
            answers = await client.run(eval, CODE, nanny=nanny)
            ran |= {f"{place} {at}": pair for at, pair in answers.items()}
        return ran
    finally:
        await client.close()


async def _by_message(address: str, security: Security | None) -> dict[str, Any]:
    arguments = {} if security is None else security.get_connection_args("client")
    comm = await open_comm(address, timeout=SECONDS / 2, **arguments)
    try:
        kind = (await send_recv(comm, op="identity"))["type"]
        operation = "run_function" if kind == "Scheduler" else "run"
        answer = await send_recv(comm, op=operation, function=dumps(eval), args=dumps((CODE,)))
        return {kind: answer["result"]}
    finally:
        comm.abort()


if __name__ == "__main__":
    for way in WAYS:
        security(way)  # made with the temporary folder of the one before
    # First on a cluster of one's own, so that every module is loaded that the attack needs: the Python of a
    # test may lie where the other user cannot read, as in a folder of mode 0700.
    quiet = {"n_workers": 1, "processes": False, "host": "127.0.0.1", "dashboard_address": None}
    with LocalCluster(protocol="tcp", **quiet) as cluster:
        works = attack([int(cluster.scheduler.address.rpartition(":")[2])])
    assert works, "it does not work where nothing refuses it"
    for user in (os.getuid(), NOBODY) if os.getuid() == 0 else (os.getuid(),):
        if user == NOBODY:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        # every port of TCP that something listens on; the kernel shows them to everybody
        files = filter(Path.exists, map(Path, ("/proc/net/tcp", "/proc/net/tcp6")))
        rows = [line.split() for file in files for line in file.read_text().splitlines()[1:]]
        visible = {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENS}
        ports = sorted(visible & set(map(int, sys.argv[1:])))
        print(json.dumps({"user": os.getuid(), "seen": ports, "ran": attack(ports)}))  # noqa: T201
