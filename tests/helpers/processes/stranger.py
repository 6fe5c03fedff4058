"""Somebody who tries to reach a scheduler."""

from __future__ import annotations

from distributed import Client
from distributed.security import Security


async def connect(address: str, security: Security | None) -> None:
    """Connect, and close after a failure too: a client left to the garbage collector can hang the next."""
    client = Client(address, security=security, timeout=2, asynchronous=True)
    try:
        await client
    finally:
        await client.close()
