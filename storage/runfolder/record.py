"""JSON records in the folder of a run: whole or absent, and never a reason for a reader to fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

from storage.errors import storage_errors
from storage.files import PLAIN, Files
from sweeps.errors import InputError, Problem, one_line, shown

VERSION = 2
"""Of every record; those of another version are refused with a message."""

Line = Annotated[str, AfterValidator(one_line)]
"""A text that is shown: one line, also where an older release or somebody else wrote more."""

HALVES = re.compile("[\ud800-\udfff]")
"""Of characters, of file names that are not UTF-8: JSON holds them, and pydantic refuses them there."""


class Record(BaseModel):
    """Values of the very types declared, without any other key, never changed.

    Programs write and read these: problems of one are not reported, in contrast to those of files that people
    write.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    finite: ClassVar[bool] = False
    """Whether infinities and NaN make a text no record: readers do sums with times, and print JSON."""

    @classmethod
    def parse(cls, text: bytes | str, where: Path) -> Self | None:
        """The record in a JSON text of `to_text`, None where there is none.

        Raises
        ------
        InputError
            If it is one of another format version.
        """
        try:
            values = json.loads(text)
            version = values.pop("version")
            del values["generation"]
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            return None
        if version != VERSION:
            hint = "use the release that wrote it, or remove the folder of the run to begin anew"
            raise InputError([Problem(str(where), f"format version {shown(version)}", str(VERSION), hint)])
        try:
            plain = json.dumps(values, allow_nan=not cls.finite, ensure_ascii=False)
            if HALVES.search(plain):
                return cls.model_validate(values, strict=False)  # lists for tuples, as JSON has them
            return cls.model_validate_json(plain)
        except ValueError:
            return None

    def to_text(self, generation: int, indent: int | None = None) -> str:
        """The record as JSON, with the format version and the generation of the lease that writes it."""
        values: dict[str, Any] = {"version": VERSION, "generation": generation}
        return json.dumps(values | self.model_dump(), indent=indent)


class FileRecord(Record):
    """A record that is a file of its own."""

    finite: ClassVar[bool] = True

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The record at `path`, None where there is none.

        Raises
        ------
        InputError
            If it is one of another format version.
        """
        try:
            return cls.parse(path.read_bytes(), path)
        except OSError:
            return None

    def write(self, path: Path, files: Files = PLAIN) -> None:
        """Put it at `path` in one step.

        Raises
        ------
        StorageError
            If the file system refuses.
        LeaseLost
            If `files` are those of a holder of the lease that has been taken over.
        """
        with storage_errors(path):
            files.put(path, self.to_text(files.generation, indent=1).encode())
