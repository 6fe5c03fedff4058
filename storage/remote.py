"""Files behind an address, read only: what a cube has on a web server or in a bucket."""

import errno
import re
from pathlib import Path
from typing import Any

from sweep_clustering.sweeps.errors import InputError, Problem

# What begins an address. Others that fsspec knows, and chains of them, could name files of this machine.
ADDRESS = re.compile(r"^(https?|s3|memory):/+")

EXTRA = "pip install 'sweep-clustering[remote]'"
CREDENTIALS = (
    "credentials that may read it, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or FSSPEC_S3_ANON=true if anyone may"
)
# Errors of botocore, which need not be installed.
NO_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
)

# Longest silence of a web server.
ANSWER_SECONDS = 30

# Bytes that are read at once.
PART = 2**20


# Of a cube: a path of this machine, or an address, always as text.
Place = Path | str


def place_of(text: Place) -> Place:
    """A path as it is, or an address as text, which a `Path` may have taken for a path."""
    is_address = ADDRESS.match(str(text))
    return ADDRESS.sub(r"\1://", str(text)).rstrip("/") if is_address else Path(text)


def read(address: str, most: int) -> bytes:
    """Content of the file at an address.

    Parameters
    ----------
    address : str
        As `place_of` gives it.
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
    try:
        content = _read(address, most)
    except ImportError as error:
        found = f"nothing that reads it ({error})"
        raise InputError([Problem(address, found, "a package for such addresses", EXTRA)]) from None
    except Exception as error:  # of any of the libraries below
        told = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        # fsspec says that there is no file as well of a server that does not answer
        cut_off = isinstance(error, FileNotFoundError) and isinstance(error.__cause__, OSError)
        status = getattr(error, "status", 404 if isinstance(error, FileNotFoundError) else None)
        if status in (404, 410) and not cut_off:
            # a bucket says whether it is the bucket or the file that is not there
            found = told if isinstance(error, FileNotFoundError) and address not in told else "not there"
            raise FileNotFoundError(errno.ENOENT, found, address) from None
        refused = status in (401, 403) or isinstance(error, PermissionError)
        refused = refused or type(error).__name__ in NO_CREDENTIALS
        code = errno.EACCES if refused else errno.ENETUNREACH
        raise OSError(code, str(error.__cause__) if cut_off else told, address) from error
    if len(content) > most:
        raise InputError([Problem(address, f"more than {most:,} bytes", f"at most {most:,}")])
    return content


def _read(address: str, most: int) -> bytes:
    """Content of a file, of which no more than one byte beyond `most`."""
    import fsspec

    protocol = address.partition(":")[0]
    is_web = protocol in ("http", "https")
    files = fsspec.filesystem(protocol, **(_web_options() if is_web else {}))
    if not is_web:
        # one request; opened as a file it would be asked for its size first
        try:
            return bytes(files.cat_file(address, start=0, end=most + 1))
        except OSError as error:
            if error.errno != errno.EINVAL or files.size(address) != 0:
                raise
            return b""  # an empty file has no range to ask for
    content = bytearray()
    # As a stream: a server need not know of parts of files. With a size the server is not asked for it first.
    with files.open(address, "rb", block_size=0, size=most + 1) as file:
        while len(content) <= most and (part := file.read(PART)):
            content += part
    return bytes(content)


def _web_options() -> dict[str, Any]:
    """Options that let a server which does not answer fail after seconds, not after the usual minutes."""
    import aiohttp

    limits = aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS, sock_read=ANSWER_SECONDS)
    return {"client_kwargs": {"timeout": limits}}
