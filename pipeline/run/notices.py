"""The command of a profile that hears when a run ends, fails, or has had no worker for long.

It never decides anything: it may take `LIMIT` seconds, and what goes wrong with it is only logged.
"""

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from tempfile import TemporaryFile

from sweep_clustering.pipeline import common
from sweep_clustering.pipeline.monitor.status import read_status
from sweep_clustering.pipeline.run import signals
from sweep_clustering.storage.files import StorageError
from sweep_clustering.storage.runfolder.folder import RunFolder

logger = logging.getLogger(__name__)

WAITING = "waiting"

# Seconds that the command may take.
LIMIT = 10.0

# Seconds without any worker after which the command runs.
LONG_WAIT = 1800.0

# Characters of the output of a command that are logged.
MOST_CHARACTERS = 2000

# Seconds between two looks whether there is a worker.
LOOK_SECONDS = 1.0


class Notices(AbstractContextManager["Notices"]):
    """Run a command, if there is one, once for each long wait for workers, and when the block ends.

    `connected` returns the number of workers. `event` and `how` say how the run ended; if `event` is empty,
    it did not begin, or its head is going to resume.
    """

    def __init__(self, command: Sequence[str] | None, run: RunFolder) -> None:
        self.connected: Callable[[], int] = int  # none
        self.event = self.how = ""
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
            with suppress(StorageError), signals.log_file(self._run.log):
                self._note_wait(False)
                self._send(self.event, self.how)

    def begin(self, *, is_resumed: bool) -> None:
        """Note that the run has begun; a head that resumes does not repeat what the one before it sent."""
        self._has_waited = self._run.notified.exists()
        self._note_wait(self._has_waited and is_resumed)
        self.event, self.how = "failed", "ended by an error"

    def _watch(self) -> None:
        alive_at = time.monotonic()
        while not self._stop.wait(LOOK_SECONDS):
            is_alive = not self.event
            with suppress(Exception):  # a scheduler that is closing answers nothing
                is_alive = is_alive or self.connected() > 0
            if is_alive:
                alive_at = time.monotonic()
                self._note_wait(self._has_waited and not self.event)
            elif time.monotonic() - alive_at >= LONG_WAIT and not self._has_waited:
                self._note_wait(True)
                self._send(WAITING, f"no worker for {common.duration(LONG_WAIT)}")

    def _note_wait(self, has_waited: bool) -> None:
        """Note that a long wait was reported, or is over, in a file for the next head of this run."""
        if has_waited != self._has_waited:
            self._has_waited = has_waited
            with suppress(OSError):
                self._run.notified.touch() if has_waited else self._run.notified.unlink()

    def _send(self, event: str, how: str) -> None:
        """Run the command with a line of text and the state of the run on its input."""
        reason = how.partition("\n")[0] or event  # an error may have no text
        text, state = f"{self._run.path.stem}: {reason}", None
        with suppress(Exception):  # the files of a run that failed may be what has failed
            status = read_status(self._run.cube)
            total, jobs = status.total, status.jobs.jobs if status.jobs and event == WAITING else ()
            text += f"; {total.done:,} of {total.cells:,} cells done" if total.cells else ""
            counts = Counter(job.state for job in jobs)
            text += "".join(f"; {common.plural(counts[word], 'job')} {word}" for word in sorted(counts))
            state = status.to_dict()
        document = {"event": event, "text": text, "how": how, "status": state}
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
