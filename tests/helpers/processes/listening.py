"""Ports that processes of this machine listen on."""

import psutil


def listening(pid: int) -> dict[tuple[str, int], int]:
    """Host and port of every TCP socket that a process and its children listen on, and which process does."""
    process = psutil.Process(pid)
    return {
        (connection.laddr.ip, connection.laddr.port): member.pid
        for member in (process, *process.children(recursive=True))
        for connection in member.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
