"""Files behind an address, read only: what a cube has on a web server or in a bucket."""

from __future__ import annotations

import errno
import re
from pathlib import Path, PosixPath

from sweeps.errors import InputError, Problem

ADDRESS = re.compile(r"^(https?|s3|memory):/+")
"""What begins an address. Others that fsspec knows, and chains of them, could name files of this machine."""

EXTRA = "pip install 'sweep-clustering[remote]'"
CREDENTIALS = (
    "credentials that may read it, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or FSSPEC_S3_ANON=true if anyone may"
)
NO_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
)
"""Errors of botocore, which need not be installed."""

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
        try:
            content = _read(address, most)
        except FileNotFoundError as error:
            # fsspec says the same of a server that does not answer
            if isinstance(error.__cause__, OSError):
                raise OSError(errno.ENETUNREACH, str(error.__cause__), address) from error
            told = _told(error)  # a bucket says whether it is the bucket or the file that is not there
            raise FileNotFoundError(errno.ENOENT, "not there" if address in told else told, address) from None
        except ImportError as error:
            found = f"nothing that reads it ({error})"
            raise InputError([Problem(address, found, "a package for such addresses", EXTRA)]) from None
        except Exception as error:  # of any of the libraries below
            status = getattr(error, "status", None)
            if status in (404, 410):
                raise FileNotFoundError(errno.ENOENT, "not there", address) from None
            refused = status in (401, 403) or isinstance(error, PermissionError)
            refused = refused or type(error).__name__ in NO_CREDENTIALS
            raise OSError(errno.EACCES if refused else errno.ENETUNREACH, _told(error), address) from error
        if len(content) > most:
            raise InputError([Problem(address, f"more than {most:,} bytes", f"at most {most:,}")])
        return content

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


def _told(error: Exception) -> str:
    """What a library says, on one line."""
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


def _read(address: str, most: int) -> bytes:
    """Content of a file, of which no more than one byte beyond `most`."""
    import fsspec

    protocol = address.partition(":")[0]
    files = fsspec.filesystem(protocol)
    if protocol not in ("http", "https"):
        # one request; opened as a file it would be asked for its size first
        try:
            return bytes(files.cat_file(address, start=0, end=most + 1))
        except OSError as error:
            if error.errno != errno.EINVAL or files.size(address) != 0:
                raise
            return b""  # an empty file has no range to ask for
    content = bytearray()
    # as a stream: a server need not know of parts of files
    with files.open(address, "rb", block_size=0) as file:
        while len(content) <= most and (part := file.read(PART)):
            content += part
    return bytes(content)
