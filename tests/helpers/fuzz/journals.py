"""Journals whose records are whole, and whose contents no run wrote."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from fuzz.mutation import as_json, bytes_damaged, npy_damaged, tree_damaged

from storage.runfolder import journal


def record_damaged(rng: random.Random, content: bytes) -> bytes:
    """Other contents in one record, with a right length and checksum."""
    bodies = _bodies(content)
    at = rng.randrange(len(bodies))
    body = bodies[at]
    size = journal.TEXT_LENGTH.size
    (length,) = journal.TEXT_LENGTH.unpack_from(body)
    text, arrays = body[size : size + length], body[size + length :]
    how = rng.randrange(5)
    if how == 0:
        body = bytes_damaged(rng, body)
    elif how == 1:
        body = body[:size] + text + npy_damaged(rng, arrays)
    elif how == 2:
        body = body[:size] + text + bytes_damaged(rng, arrays)
    else:
        import json

        text = as_json(rng, tree_damaged(rng, json.loads(text)))
        body = journal.TEXT_LENGTH.pack(len(text)) + text + arrays
    bodies[at] = body
    if rng.random() < 0.2:
        bodies.insert(rng.randrange(len(bodies) + 1), rng.choice(bodies))
    return b"".join(journal._frame(each) for each in bodies)


def _bodies(content: bytes) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        path.write_bytes(content)
        return list(journal._bodies(path))
