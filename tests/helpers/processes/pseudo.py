"""A command in a pseudo-terminal, for what it does with keys and with being closed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

WAIT = 120.0
"""Seconds for anything to appear: the machine may be busy."""


class Pseudo:
    """`python -m pipeline ...` in a terminal of 80 by 24."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        start = (
            f"import os, runpy; os.chdir({str(folder)!r}); runpy.run_module('pipeline', run_name='__main__')"
        )
        command = [sys.executable, "-c", start, *arguments]
        environment = {
            **os.environ,
            "TERM": "xterm",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONSAFEPATH": "1",
        }
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)
        self._handle, own = pty.openpty()
        fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.pid = os.posix_spawn(
            sys.executable,
            command,
            environment,
            # opened by the leader of a session: Ctrl-C and hanging up come from it
            file_actions=[
                (os.POSIX_SPAWN_OPEN, number, os.ttyname(own), os.O_RDWR, 0) for number in range(3)
            ],
            setsid=True,
        )
        os.close(own)
        self.output = ""

    def wait_for(self, text: str) -> None:
        """Read until the output has a text."""
        self._wait(lambda: text in self.output, text)

    def wait_for_end(self, text: str) -> None:
        """Read until a line with a text is the last one."""
        self._wait(lambda: any(text in line for line in self.output.rsplit("\n", 2)[-2:]), text)

    def _wait(self, seen: Callable[[], bool], text: str) -> None:
        end = time.monotonic() + WAIT
        while not seen():
            assert time.monotonic() < end, self.output[-2000:]
            assert self._read(), f"ended before {text!r}: {self.output[-2000:]}"

    def _read(self, timeout: float = 1.0) -> bool:
        if not select.select([self._handle], [], [], timeout)[0]:
            return True
        try:
            found = os.read(self._handle, 65536)
        except OSError:  # the other end is closed
            return False
        self.output += found.decode(errors="replace")
        return bool(found)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._handle, keys.encode())

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> int:
        """Close the terminal; exit code of the command, below 0 for a signal."""
        os.close(self._handle)
        self._handle = -1
        return self._ended()

    def ended(self) -> int:
        """Read to the end; exit code of the command, below 0 for a signal."""
        end = time.monotonic() + WAIT
        while self._read():
            assert time.monotonic() < end, self.output[-2000:]
        code = self._ended()
        os.close(self._handle)
        return code

    def _ended(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def screens(self) -> list[list[str]]:
        """What was shown after each clearing of the screen, line by line, without colours."""
        plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part) for part in self.output.split("\x1b[2J")]
        return [part.replace("\r", "").split("\n") for part in plain]
