"""Reading files at an address: a cube on a web server or in a bucket."""

import errno
import re
from pathlib import Path
from typing import Any

from sweep_clustering.sweeps.errors import refused

# Begin of an address. Other protocols of fsspec, and chains of them, could name files of this machine.
ADDRESS = re.compile(r"^(https?|s3|memory):/+")

EXTRA = "pip install 'sweep-clustering[remote]'"
CREDENTIALS = (
    "credentials that may read it, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or FSSPEC_S3_ANON=true if anyone may"
)
# Names of errors of botocore, which may be missing.
NO_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
)

# Longest silence of a web server, in seconds.
ANSWER_SECONDS = 30

# Bytes that are read at once.
PART = 2**20

# Place of a cube: a path of this machine, or an address as text.
Place = Path | str


def place_of(text: Place) -> Place:
    """Return a path as it is, and an address as text, which a `Path` would change."""
    is_address = ADDRESS.match(str(text))
    return ADDRESS.sub(r"\1://", str(text)).rstrip("/") if is_address else Path(text)


def read(address: str, most: int) -> bytes:
    """Return the content of the file at an address, which has the form that `place_of` returns.

    Parameters
    ----------
    address : str
        address of the file
    most : int
        Largest size in bytes: no more is read, whatever size the server declares.

    Raises
    ------
    FileNotFoundError
        If there is none.
    OSError
        If it cannot be read.
    InputError
        If it is larger, or no package for such addresses is installed.
    """
    try:
        content = _read(address, most)
    except ImportError as error:
        reason = f"nothing that reads it ({error})"
        raise refused(address, reason, "a package for such addresses", EXTRA) from None
    except Exception as error:  # an error of any library below
        text = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        # fsspec reports a missing file also when the server does not answer
        cut_off = isinstance(error, FileNotFoundError) and isinstance(error.__cause__, OSError)
        status = getattr(error, "status", 404 if isinstance(error, FileNotFoundError) else None)
        if status in (404, 410) and not cut_off:
            # the message of a bucket says whether the bucket or the file is missing
            reason = text if isinstance(error, FileNotFoundError) and address not in text else "not there"
            raise FileNotFoundError(errno.ENOENT, reason, address) from None
        is_denied = status in (401, 403) or isinstance(error, PermissionError)
        is_denied = is_denied or type(error).__name__ in NO_CREDENTIALS
        code = errno.EACCES if is_denied else errno.ENETUNREACH
        raise OSError(code, str(error.__cause__) if cut_off else text, address) from error
    if len(content) > most:
        raise refused(address, f"more than {most:,} bytes", f"at most {most:,}")
    return content


def _read(address: str, most: int) -> bytes:
    """Return the content of a file, at most one byte more than `most`."""
    import fsspec

    protocol = address.partition(":")[0]
    is_web = protocol in ("http", "https")
    files = fsspec.filesystem(protocol, **(_web_options() if is_web else {}))
    if not is_web:
        # one request; to open it as a file would take another one for its size
        try:
            return bytes(files.cat_file(address, start=0, end=most + 1))
        except OSError as error:
            if error.errno != errno.EINVAL or files.size(address) != 0:
                raise
            return b""  # an empty file has no range to ask for
    content = bytearray()
    # A stream, because a server need not support parts of files. With a size there is no request for it.
    with files.open(address, "rb", block_size=0, size=most + 1) as file:
        while len(content) <= most and (part := file.read(PART)):
            content += part
    return bytes(content)


def _web_options() -> dict[str, Any]:
    """Return options by which a silent server fails after seconds, not after the usual minutes."""
    import aiohttp

    limits = aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS, sock_read=ANSWER_SECONDS)
    return {"client_kwargs": {"timeout": limits}}
