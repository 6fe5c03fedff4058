"""JSON records in the folder of a run: whole or absent, and never a reason for a reader to fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from storage.errors import storage_errors
from storage.files import write_file


class Record(BaseModel):
    """Values of the very types declared, without any other key, never changed.

    Programs write and read these: problems of one are not reported, in contrast to those of files that people
    write.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class FileRecord(Record):
    """A record that is a file of its own."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The record at `path`, None where there is none, or none of this version."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError):
            return None

    def to_json(self) -> bytes:
        """Content of the file."""
        return json.dumps(self.model_dump(), indent=1).encode()

    def write(self, path: Path) -> None:
        """Put it at `path` in one step.

        Raises
        ------
        StorageError
            If the file system refuses.
        """
        with storage_errors(path):
            write_file(path, self.to_json())
