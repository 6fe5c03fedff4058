"""A command runs in a pseudo-terminal, which sends it keys and may be closed."""

import os
import re
import signal
import sys
from io import StringIO
from pathlib import Path

import pexpect

WAIT = 120.0
"""Seconds for anything to appear: the machine may be busy."""


class Pseudo:
    """`python -m sweep_clustering ...` in a terminal of 80 by 24."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        search = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}
        environment = {**os.environ, **search, "TERM": "xterm"}
        for size in ("COLUMNS", "LINES"):
            environment.pop(size, None)
        command = ["-m", "sweep_clustering", *arguments]
        text = {"encoding": "utf-8", "codec_errors": "replace"}
        # A shell lets background processes ignore Ctrl-C, and a child of it inherits that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self._child = pexpect.spawn(sys.executable, command, WAIT, cwd=folder, env=environment, **text)
        finally:
            signal.signal(signal.SIGINT, before)
        self._child.logfile_read = StringIO()
        self.wait_for = self._child.expect_exact
        self.type = self._child.send
        self.pid = self._child.pid
        self.send_signal = self._child.kill  # nothing happens where the command has ended

    @property
    def output(self) -> str:
        """Return all that it has shown."""
        return str(self._child.logfile_read.getvalue())

    def wait_for_end(self, text: str) -> None:
        """Read until a line with a text is the last one."""
        while not any(text in line for line in self.output.rsplit("\n", 2)[-2:]):
            self._child.expect(".+")

    def kill(self) -> None:
        """End it at once."""
        self._child.kill(signal.SIGKILL)

    def close(self) -> int:
        """Close the terminal and return the exit code of the command, below 0 for a signal."""
        os.close(self._child.fileno())
        return os.waitstatus_to_exitcode(os.waitpid(self._child.pid, 0)[1])

    def exit_code(self) -> int:
        """Read to the end and return the exit code of the command, below 0 for a signal."""
        self._child.expect(pexpect.EOF)
        self._child.close()
        return -self._child.signalstatus if self._child.signalstatus else int(self._child.exitstatus)

    def screens(self) -> list[list[str]]:
        """Return the lines that were shown after each clearing of the screen, without colours."""
        plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part) for part in self.output.split("\x1b[2J")]
        return [part.replace("\r", "").split("\n") for part in plain]
