"""Files behind an address, read only: what a cube has on a web server or in a bucket."""

from __future__ import annotations

import errno
import re
from pathlib import Path, PosixPath
from typing import Any

from sweeps.errors import InputError, Problem

ADDRESS = re.compile(r"^(https?|s3|memory):/+")
"""What begins an address. Others that fsspec knows, and chains of them, could name files of this machine."""

EXTRA = "pip install 'sweep-clustering[remote]'"
PART = 2**20
"""Bytes that are read at once."""


class Url(PosixPath):
    """An address, in the place of a path: what is below it is joined as to a path.

    Nothing of it is on this machine: whatever the operating system is asked of it is not there.
    """

    def __str__(self) -> str:
        return ADDRESS.sub(lambda found: f"{found.group(1)}://", super().__str__())

    def read(self, most: int) -> bytes:
        """Content of the file.

        Parameters
        ----------
        most : int
            Largest size in bytes: no more is read, whatever the server says.

        Raises
        ------
        FileNotFoundError
            If there is none.
        OSError
            If it cannot be read.
        InputError
            If it is larger, or what reads such addresses is not installed.
        """
        address = str(self)
        content = bytearray()
        try:
            with _opened(address) as file:
                while len(content) <= most and (part := file.read(PART)):
                    content += part
        except FileNotFoundError as error:
            # fsspec says the same of a server that does not answer
            if isinstance(error.__cause__, OSError):
                raise OSError(errno.ENETUNREACH, str(error.__cause__), address) from error
            raise FileNotFoundError(errno.ENOENT, "not there", address) from None
        except ImportError as error:
            found = f"nothing that reads it ({error})"
            raise InputError([Problem(address, found, "a package for such addresses", EXTRA)]) from None
        except Exception as error:  # of any of the libraries below
            if getattr(error, "status", None) in (404, 410):
                raise FileNotFoundError(errno.ENOENT, "not there", address) from None
            told = " ".join(str(error).split())[:200] or type(error).__name__
            raise OSError(errno.ENETUNREACH, told, address) from error
        if len(content) > most:
            raise InputError([Problem(address, f"more than {most:,} bytes", f"at most {most:,}")])
        return bytes(content)

    def is_there(self) -> bool:
        """Whether there is a file; the first of its bytes are asked for."""
        try:
            self.read(PART)
        except FileNotFoundError:
            return False
        except InputError:
            return True
        return True


def place_of(text: str | Path) -> Path:
    """A path as it is, or an address as a `Url`, which a `Path` may have taken for a path."""
    return Url(str(text)) if ADDRESS.match(str(text)) else Path(text)


def _opened(address: str) -> Any:
    import fsspec

    protocol = address.partition(":")[0]
    files = fsspec.filesystem(protocol)
    if protocol in ("http", "https"):
        # as a stream: a server need not know of parts of files
        return files.open(address, "rb", block_size=0)
    return files.open(address, "rb")
