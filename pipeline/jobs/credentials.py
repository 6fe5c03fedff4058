"""Fresh TLS credentials of one run: in memory, or shared with its jobs through files of their owner alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed.security import Security

CA, CERT, KEY = "ca.pem", "cert.pem", "key.pem"
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sweep")])
BACKWARDS, FORWARDS = timedelta(days=1), timedelta(days=365)
"""Before now, as clocks of nodes differ, and after it: how long a certificate is valid."""


def new_credentials() -> Security:
    """Create new credentials, in memory: processes that are started with them get them through a pipe.

    Returns
    -------
    distributed.security.Security
        One key and certificate for scheduler, workers and client. Without them no connection is accepted.
    """
    # Of an elliptic curve: made in 0.1 ms with its certificate; an RSA key of 2048 bits takes 10 ms at best.
    secret = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(tz=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKWARDS)
        .not_valid_after(now + FORWARDS)
        .sign(secret, hashes.SHA256())
    )
    cert = certificate.public_bytes(serialization.Encoding.PEM).decode()
    key = secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return _security(cert, cert, key)


@contextmanager
def fresh_credentials(folder: Path) -> Iterator[Security]:
    """Create new credentials in files, and remove them at the end.

    Parameters
    ----------
    folder : Path
        For the files; mode 0700, each file 0600. Left-over files of a killed run are replaced.

    Yields
    ------
    distributed.security.Security
        As of `new_credentials`, by the names of the files.
    """
    made = new_credentials()
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
    return _security(*(str(folder / name) for name in (CA, CERT, KEY)))


def _security(ca: str, cert: str, key: str) -> Security:
    roles = ("client", "scheduler", "worker")
    return Security(
        require_encryption=True,
        tls_ca_file=ca,
        **{f"tls_{role}_cert": cert for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
