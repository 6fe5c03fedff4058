"""The keeper of a process of methods: it ends everything that the method started, and marks its output.

`main` forks: one process runs methods (`pipeline.methods.child`); the other, the keeper, runs none and waits
until the method's process ends, the caller asks for it, or the caller is gone. The keeper then
ends every process that came from the method, and ends in the way the method's process did. On Linux a process
that has left its parent, as a daemon does, becomes a child of the keeper; elsewhere only the process group is
ended.

It imports nothing heavy, so that it costs 5 MiB beside the process it keeps.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from threading import Thread

from sweep_clustering.sweeps.errors import one_line, plain_lines

# Line that is printed after the process of methods has ended by itself.
LEFTOVER_WARNING = "warning: processes that a method left running are ended"

# Most bytes of a printed line; the rest of it becomes further lines.
LONGEST_LINE = 2000

# Seconds for killed processes to be gone, and for their output to be written.
PATIENCE = 3.0

# Seconds for helpers of a process that ended by itself, such as those of `multiprocessing`, to end too.
GRACE = 0.5

# options of prctl(2)
_PDEATHSIG = 1
_SUBREAPER = 36
_TERMINATED = b"%c" % signal.SIGTERM


def main(messages: int, lifeline: int, mark: str) -> None:
    """Start the process of methods, and see to its end.

    Parameters
    ----------
    messages : int
        descriptor of the socket to the caller
    lifeline : int
        descriptor of a socket that ends with the caller; nothing is ever written to it
    mark : str
        beginning of every printed line; may be empty
    """
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    former = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    _prctl(_SUBREAPER, 1)
    printed, output = os.pipe()
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(former)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        _prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it died before prctl could take effect
            os._exit(1)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for descriptor in (printed, output, woken, wake, lifeline):
            os.close(descriptor)
        os.set_inheritable(messages, False)
        from sweep_clustering.pipeline.methods.child import serve

        serve(messages)
        return
    os.close(messages)
    # a thread, because a terminal that stands still must not stop this process
    lines = Thread(target=_forward, args=(printed, one_line(mark).encode() + b" " * bool(mark)), daemon=True)
    lines.start()
    status, is_alone = _wait(child, lifeline, woken)
    if _end_others(child, GRACE if is_alone and status == 0 else 0.0) and is_alone:
        os.set_blocking(output, False)
        with suppress(OSError):
            os.write(output, f"\n{LEFTOVER_WARNING}\n".encode())
    os.close(output)
    lines.join(PATIENCE)  # it has not ended if a process that could not be ended holds the other end
    _end_as(status)


def _wait(child: int, lifeline: int, woken: int) -> tuple[int, bool]:
    """Return the status of the child, and whether it ended without our help."""
    is_alone = True
    while True:
        poll = select.poll()
        if is_alone:
            poll.register(lifeline, select.POLLIN)
        poll.register(woken, select.POLLIN)
        ready_descriptors = {number for number, _ in poll.poll()}
        signals = os.read(woken, 4096) if woken in ready_descriptors else b""
        if is_alone and (lifeline in ready_descriptors or _TERMINATED in signals):
            is_alone = False
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while (child_status := os.waitpid(-1, os.WNOHANG))[0]:
                if child_status[0] == child:
                    return child_status[1], is_alone


def _end_others(child: int, grace: float) -> bool:
    """End what the child leaves behind, and return whether anything was left after `grace` seconds."""
    has_left_any = _any_left(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while _any_left(0.02) and time.monotonic() < end:
        import psutil  # only here: most methods leave nothing

        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.kill()
    return has_left_any


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


def _forward(source: int, mark: bytes) -> None:
    """Print what comes, each line with a mark before it, until nobody is at the other end."""
    data, tail = b"\n", b""
    while data:
        data = os.read(source, 65536)
        *lines, tail = (tail + (data or b"\n").replace(b"\r", b"\n")).split(b"\n")
        if len(tail) > LONGEST_LINE:  # a line without an end is printed as it comes
            lines, tail = [*lines, tail], b""
        for line in lines:
            for start in range(0, len(line), LONGEST_LINE):
                text = plain_lines(line[start : start + LONGEST_LINE].decode(errors="replace"))
                output = b"".join(mark + part.encode() + b"\n" for part in text.splitlines())
                with suppress(OSError):  # nobody can read it any more
                    while output:
                        select.select([], [2], [])
                        output = output[os.write(2, output[: select.PIPE_BUF]) :]


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
