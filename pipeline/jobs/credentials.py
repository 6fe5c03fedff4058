"""Fresh TLS credentials of one run, shared with its jobs through files of their owner alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed.security import Security

CA, CERT, KEY = "ca.pem", "cert.pem", "key.pem"


@contextmanager
def fresh_credentials(folder: Path) -> Iterator[Security]:
    """Create new credentials, and remove them at the end.

    Parameters
    ----------
    folder : Path
        For the files; mode 0700, each file 0600. Left-over files of a killed run are replaced.

    Yields
    ------
    distributed.security.Security
        One key and certificate for scheduler, workers and client. Without them no connection is accepted.
    """
    made = Security.temporary()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)  # whatever the umask
    try:
        _write(folder / CA, made.tls_ca_file)
        _write(folder / CERT, made.tls_client_cert)
        _write(folder / KEY, made.tls_client_key)
        yield credentials(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def credentials(folder: Path) -> Security:
    """Credentials by the names of their files, which need not exist yet."""
    roles = ("client", "scheduler", "worker")
    return Security(
        require_encryption=True,
        tls_ca_file=str(folder / CA),
        **{f"tls_{role}_cert": str(folder / CERT) for role in roles},
        **{f"tls_{role}_key": str(folder / KEY) for role in roles},
    )


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
