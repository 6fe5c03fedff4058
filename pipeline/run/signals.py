"""Signals that a run hears and gives: it stops on those that ask for it, but never in the middle of a write.

`log_file` keeps its log. `Notices` runs the command of a profile when the run ends, fails, or has had no
worker for long. That command never decides anything: it may take `LIMIT` seconds, and what goes wrong with it
is only logged.
"""

import atexit
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType

import psutil

from sweep_clustering.pipeline.common import PlainFormatter, duration, plural
from sweep_clustering.pipeline.monitor.status import read_status
from sweep_clustering.storage.files import StorageError, storage_errors
from sweep_clustering.storage.runfolder.folder import RunFolder

# Sent by Ctrl-C, a machine that shuts down, a queue before the walltime, and a terminal that closes. Grid
# Engine also sends the signal of an interrupt, below.
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


# Sent by a thread of this process, to have its reason raised where the main thread waits.
INTERRUPT = signal.SIGUSR2

# Times Ctrl-C is pressed until a process ends at once, whatever it still closes.
PATIENCE_OF_USERS = 3

# Shows the cursor of a terminal again, which a bar of progress hides.
SHOW_CURSOR = "\x1b[?25h"

# Outputs that are terminals; one that has been closed does not say so any more.
_TERMINALS = [number for number in (1, 2) if os.isatty(number)]

LONG_WAIT_EVENT = "waiting"

# Seconds that the command may take.
LIMIT = 10.0

# Seconds without any worker after which the command runs.
LONG_WAIT = 1800.0

# Characters of the output of a command that are logged.
MOST_CHARACTERS = 2000

# Seconds between two looks whether there is a worker.
LOOK_SECONDS = 1.0


class StopSignal(BaseException):
    """A signal asked the driver to stop; what was reported done is kept."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


# Signals of Ctrl-C since a run began.
_presses: list[int] = []


def _note(number: int) -> None:
    """Count a Ctrl-C, and end the process at the last one that a user has patience for."""
    if number == signal.SIGINT:
        _presses.append(number)
        if len(_presses) >= PATIENCE_OF_USERS:
            end_at_once()


def end_at_once() -> None:
    """End this process and all processes that it has started, with one line.

    No file is damaged: files are written aside and renamed.
    """
    with suppress(psutil.Error):
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "resource_tracker" not in " ".join(process.cmdline()):  # it removes names of semaphores
                    process.kill()
    cursor = SHOW_CURSOR if 2 in _TERMINALS else ""
    line = f"{cursor}\nended at once by the third Ctrl-C; what was finished is kept, submit again to resume\n"
    with suppress(OSError):
        os.write(2, line.encode())
    os._exit(128 + signal.SIGINT)


# Raises an exception in the main thread, called from another one.
Interrupt = Callable[[Exception], None]


@contextmanager
def stop_on_signal() -> Iterator[Interrupt]:
    """Turn the first of `NUMBERS` into `StopSignal`, raised in the main thread; yield a function that raises
    others there.

    Another Ctrl-C while workers and files are closed would only break that off, with tracebacks of libraries:
    such signals are ignored to the end of the process, which the third Ctrl-C ends. A signal after a
    `StopSignal` that was lost, as in a finaliser of an object, raises another one.
    """
    _presses.clear()
    reasons: list[Exception] = []
    raised: weakref.ref[StopSignal] | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        # One without a reason is from outside: Grid Engine sends it before it ends a job.
        if number == INTERRUPT and reasons:
            raise reasons.pop()
        _note(number)
        if number == signal.SIGHUP:
            _discard_output()
        if raised is None or raised() is None:
            stop_signal = StopSignal(number)
            raised = weakref.ref(stop_signal)
            try:
                raise stop_signal
            finally:
                del stop_signal  # this frame, which the exception knows, would keep it alive

    def interrupt(reason: Exception) -> None:
        reasons.append(reason)
        signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)

    with _handled_by(stop):
        try:
            yield interrupt
        except StopSignal:
            ignore_signals()
            raise


def ignore_signals() -> None:
    """Ignore `NUMBERS` to the end of the process: the first of them ends it already.

    The third Ctrl-C ends it at once: something hangs that cannot be closed.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGINT, _count)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: _discard_output())


def _count(number: int, frame: FrameType | None) -> None:
    _note(number)


@atexit.register
def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in the last steps of a process that ends: Python would restore the default there."""
    if signal.getsignal(signal.SIGINT) is _count:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _discard_output() -> None:
    """Discard the output of terminals: every write to one that has been closed would be another error."""
    with open(os.devnull, "w") as null_device:
        for output in _TERMINALS:
            os.dup2(null_device.fileno(), output)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back while files are written; they are delivered when the block ends.

    An exception raised by a signal inside zarr's event loop leaves tasks behind that log errors at exit.
    """
    held_signals: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        _note(number)
        held_signals.append(number)

    with _handled_by(hold):
        yield
    # They are counted when they are delivered.
    del _presses[len(_presses) - held_signals.count(signal.SIGINT) :]
    for number in held_signals:
        signal.raise_signal(number)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread alone
        return
    old_handlers = {number: signal.getsignal(number) for number in (*NUMBERS, INTERRUPT)}
    if old_handlers[signal.SIGHUP] is signal.SIG_IGN:
        del old_handlers[signal.SIGHUP]  # started by nohup: it stays ignored
    for number in old_handlers:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in old_handlers.items():
            if signal.getsignal(number) is handler:  # and not to be ignored from now on
                signal.signal(number, old)


# The log of a run beside its cube: the lines of the terminal, with times.

logger = logging.getLogger(__name__)

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogFile(logging.FileHandler):
    """A log that stops with one warning when the disk is full: results matter more than the log."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Log what the disk needs, and write nothing more."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        logging.getLogger().removeHandler(self)
        try:
            with storage_errors(Path(self.baseFilename)):
                raise error
        except StorageError as need:
            logger.warning("%s; this log ends here", need)


@contextmanager
def log_file(path: Path) -> Iterator[None]:
    """Write the log to a file, too, with warnings of libraries, which say nothing to a user."""
    with storage_errors(path):
        handler = LogFile(path, encoding="utf-8")
    handler.setFormatter(PlainFormatter(FORMAT))
    root, showwarning = logging.getLogger(), warnings.showwarning
    root.addHandler(handler)

    def keep(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
        text = f"{category.__name__}: {message}"
        handler.handle(logging.LogRecord("warnings", logging.WARNING, filename, lineno, text, None, None))

    warnings.showwarning = keep  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = showwarning
        root.removeHandler(handler)
        with suppress(OSError):  # a full disk, which has been reported
            handler.close()


class Notices(AbstractContextManager["Notices"]):
    """Run a command, if there is one, once for each long wait for workers, and when the block ends.

    `count_workers` returns their number. `event` and `description` say how the run ended; without an `event`
    it did not begin, or its head is going to resume.
    """

    def __init__(self, command: Sequence[str] | None, run: RunFolder) -> None:
        self.count_workers: Callable[[], int] = int  # none
        self.event = self.description = ""
        self._command, self._run = list(command or ()), run
        self._has_waited = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="notices", daemon=True)

    def __enter__(self) -> "Notices":
        if self._command:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._command:
            return
        self._stop.set()
        self._thread.join()
        if self.event:
            with suppress(StorageError), log_file(self._run.log):
                self._note_wait(False)
                self._send(self.event, self.description)

    def begin(self, *, is_resumed: bool) -> None:
        """Note that the run has begun; a head that resumes does not repeat what the one before it sent."""
        self._has_waited = self._run.notified.exists()
        self._note_wait(self._has_waited and is_resumed)
        self.event, self.description = "failed", "ended by an error"

    def _watch(self) -> None:
        alive_at = time.monotonic()
        while not self._stop.wait(LOOK_SECONDS):
            is_alive = not self.event
            with suppress(Exception):  # a scheduler that is closing answers nothing
                is_alive = is_alive or self.count_workers() > 0
            if is_alive:
                alive_at = time.monotonic()
                self._note_wait(self._has_waited and not self.event)
            elif time.monotonic() - alive_at >= LONG_WAIT and not self._has_waited:
                self._note_wait(True)
                self._send(LONG_WAIT_EVENT, f"no worker for {duration(LONG_WAIT)}")

    def _note_wait(self, has_waited: bool) -> None:
        """Note that a long wait was reported, or is over, in a file for the next head of this run."""
        if has_waited != self._has_waited:
            self._has_waited = has_waited
            with suppress(OSError):
                self._run.notified.touch() if has_waited else self._run.notified.unlink()

    def _send(self, event: str, description: str) -> None:
        """Run the command with a line of text and the state of the run on its input."""
        reason = description.partition("\n")[0] or event  # an error may have no text
        text, state = f"{self._run.path.stem}: {reason}", None
        with suppress(Exception):  # the files of a run that failed may be what has failed
            status = read_status(self._run.cube)
            total, jobs = status.total, status.jobs.jobs if status.jobs and event == LONG_WAIT_EVENT else ()
            text += f"; {total.done:,} of {total.cells:,} cells done" if total.cells else ""
            counts = Counter(job.state for job in jobs)
            text += "".join(f"; {plural(counts[word], 'job')} {word}" for word in sorted(counts))
            state = status.to_dict()
        document = {"event": event, "text": text, "how": description, "status": state}
        try:
            with (
                TemporaryFile("w+", encoding="utf-8", errors="replace") as words,
                TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
            ):
                words.write(f"{text}\n{json.dumps(document)}\n")
                words.seek(0)
                process = subprocess.Popen(
                    self._command,
                    stdin=words,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                try:
                    reason = f"exit code {process.wait(LIMIT)}"
                except subprocess.TimeoutExpired:
                    reason = f"it took more than {LIMIT:g} s"
                    os.killpg(process.pid, signal.SIGKILL)
                if process.wait():
                    output.seek(0)
                    lines = " ".join(output.read(MOST_CHARACTERS).split())
                    logger.warning("the command of notify failed (%s): %s", reason, lines or "no output")
        except OSError as error:
            logger.warning("the command of notify cannot be run: %s", error)
