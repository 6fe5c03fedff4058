"""The process between a caller and a method: it ends all that the method started, and marks what it prints.

`main` forks: one process runs methods (`pipeline.methods.child`); the other, the keeper, runs none and waits.
Whatever happens first, the method's process ends, the caller says so, or the caller is gone: the keeper then
ends every process that came from the method, and ends in the way the method's process did. On Linux a process
that has left its parent, as a daemon does, becomes a child of the keeper; elsewhere only the process group is
ended.

It imports nothing heavy, so that it costs 5 MiB beside the process it keeps.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

from sweeps.errors import one_line, plain_lines

LEFT = "warning: processes that a method left running are ended"
"""Said once the process of methods has ended by itself."""

LONGEST_LINE = 2000
"""Bytes of a printed line; the rest of it becomes lines of its own."""

PATIENCE = 3.0
"""Seconds for processes that were killed to be gone, and for what was printed to be written."""

GRACE = 0.5
"""Seconds for helpers of a process that ended by itself, such as those of `multiprocessing`, to end too."""

_PDEATHSIG, _SUBREAPER = 1, 36  # of prctl(2)
_TERMINATED = b"%c" % signal.SIGTERM


def main(messages: int, lifeline: int, mark: str) -> None:
    """Start the process of methods, and see to its end.

    Parameters
    ----------
    messages : int
        Descriptor of the socket to the caller.
    lifeline : int
        Descriptor of a pipe that ends with the caller: nothing is ever written to it.
    mark : str
        Begins every line that is printed; nothing leaves what is printed as it is.
    """
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    _prctl(_SUBREAPER, 1)
    heard, said = os.pipe() if mark else (-1, -1)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(before)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        _prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it died before it could be said to matter
            os._exit(1)
        if mark:
            os.dup2(said, 1)
            os.dup2(said, 2)
        for each in (woken, wake, heard, said, lifeline):
            if each >= 0:
                os.close(each)
        os.set_inheritable(messages, False)
        from pipeline.methods.child import serve

        serve(messages)
        return
    for each in (messages, said):
        if each >= 0:
            os.close(each)
    lines = _Lines(heard, f"{one_line(mark)} ".encode() if mark else b"")
    status, alone = _wait(child, lifeline, woken, lines)
    ended = _end_others(child, GRACE if alone and status == 0 else 0.0)
    lines.drain()
    if ended and alone:
        lines.say(LEFT.encode())
    _end_as(status)


def _wait(child: int, lifeline: int, woken: int, lines: _Lines) -> tuple[int, bool]:
    """Status of the child, and whether it ended without our help."""
    alone = True
    while True:
        waiting = select.poll()
        if alone:
            waiting.register(lifeline, select.POLLIN)
        waiting.register(woken, select.POLLIN)
        lines.register(waiting)
        ready = {number for number, _ in waiting.poll()}
        signals = os.read(woken, 4096) if woken in ready else b""
        if alone and (lifeline in ready or _TERMINATED in signals):
            alone = False
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == child:
                    return found[1], alone
        lines.move(ready)


def _end_others(child: int, grace: float) -> bool:
    """End what the child leaves behind; whether something was still there after `grace` seconds."""
    found = _any_left(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while _any_left(0.02) and time.monotonic() < end:
        import psutil  # only here: most methods leave nothing

        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.kill()
    return found


def _any_left(seconds: float) -> bool:
    """Whether there is any child after so many seconds."""
    end = time.monotonic() + seconds
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < end:
            time.sleep(0.002)
        return True
    return False


def _end_as(status: int) -> None:
    """End this process in the way another one did, so that the caller sees how that was."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


class _Lines:
    """What the child prints, on its way to where the keeper prints.

    Parameters
    ----------
    source : int
        Descriptor to read from; below 0 there is nothing to do.
    mark : bytes
        Begins every line.
    """

    def __init__(self, source: int, mark: bytes) -> None:
        self._source, self._mark = source, mark
        self._rest, self._out = b"", b""
        if source >= 0:
            os.set_blocking(source, False)

    def register(self, waiting: select.poll) -> None:
        """Wait for more, or for room: a terminal that stands still must not keep us from our other task."""
        if self._out:
            waiting.register(2, select.POLLOUT)
        elif self._source >= 0:
            waiting.register(self._source, select.POLLIN)

    def move(self, ready: set[int]) -> None:
        """Read or write once."""
        if self._out and 2 in ready:
            try:
                self._out = self._out[os.write(2, self._out[: select.PIPE_BUF]) :]
            except OSError:
                self._out = b""  # nobody can read it any more
        elif self._source in ready:
            self._read()

    def say(self, line: bytes) -> None:
        """Print a line of our own."""
        self._out += self._mark + line + b"\n"
        self.drain()

    def drain(self) -> None:
        """Write all that was printed; for some seconds at most."""
        end = time.monotonic() + PATIENCE
        while (self._out or self._source >= 0) and time.monotonic() < end:
            waiting = select.poll()
            self.register(waiting)
            ready = {number for number, _ in waiting.poll(100)}
            if not ready and not self._out:
                break  # somebody who could not be ended holds the other end
            self.move(ready)

    def _read(self) -> None:
        try:
            data = os.read(self._source, 65536)
        except BlockingIOError:
            return
        if not data:
            os.close(self._source)
            self._source = -1
            data = b"\n" if self._rest else b""
        *whole, self._rest = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        while len(self._rest) > LONGEST_LINE:
            whole.append(self._rest[:LONGEST_LINE])
            self._rest = self._rest[LONGEST_LINE:]
        for line in whole:
            for start in range(0, len(line), LONGEST_LINE):
                text = plain_lines(line[start : start + LONGEST_LINE].decode(errors="replace"))
                self._out += b"".join(self._mark + each.encode() + b"\n" for each in text.splitlines())


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
