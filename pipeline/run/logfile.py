"""The log of a run beside its cube: what is shown on the terminal, with times."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.common import PlainFormatter
from storage.errors import StorageError, storage_errors

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
    """Keep what is logged in a file, too.

    Raises
    ------
    StorageError
        If the file cannot be opened.
    """
    with storage_errors(path):
        handler = LogFile(path, encoding="utf-8")
    handler.setFormatter(PlainFormatter(FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        with suppress(OSError):  # a full disk, which has been reported
            handler.close()
