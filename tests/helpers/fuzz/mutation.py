"""Damage to bytes, texts, trees of values and archives, each a function of a random generator."""

from __future__ import annotations

import io
import json
import random
import struct
import tempfile
import warnings
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import google_crc32c
from numcodecs.zstd import Zstd

from storage.runfolder import journal

STRANGE: tuple[Any, ...] = (
    *(None, True, False, [], [[]], [None], ["a", 1], {}, {"": 0}, {"a": {"b": []}}, [1] * 500),
    *(0, 1, -1, 2, 7, 2**15, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**70), 10**400),
    *(0.0, -0.0, 0.5, 1.0, 1.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *("", " ", "a", "0", "1", "-1", "1.5N", "N", "nan", "1e999", "0x10", "GB", "99h", "on", "null"),
    *("x" * 5000, "9" * 5000, "\n", "\t", "a b", "\x1b[31m", "\x7f", "é", "\u2028", "\U0001f600"),
    *("..", "../..", "/", "/etc/passwd", "a/b", "-x", "%s%n", "{}", "[0]", "iris", "posterior"),
    *("tls://a:1", "2001-01-01"),
)
"""Values of another type, at the bounds of one, or with a meaning of their own somewhere."""

BYTES = (
    *(bytes([code]) for code in b"\0\n\r\"',\t #_-.e[]{}:=\xff"),
    *(b"\xc3\x28", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"nan", b"inf", b"1e999", b"9" * 400),
)
"""With a meaning in some format."""

Path_ = tuple[Any, ...]


def bytes_damaged(rng: random.Random, content: bytes) -> bytes:
    """One to four changes of some bytes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        stop = min(len(data), start + rng.choice((1, 1, 2, 8, 64, 1000)))
        how = rng.randrange(9)
        if how == 0 and data:
            data[start % len(data)] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[start:start] = rng.choice(BYTES)
        elif how == 2:
            del data[start:stop]
        elif how == 3:
            del data[start:]
        elif how == 4:
            data[start:start] = data[start:stop] * rng.choice((1, 2, 50))
        elif how == 5:
            data[start:stop] = rng.randbytes(stop - start)
        elif how == 6:
            data[start:stop] = rng.choice((b"\0", b"\xff")) * (stop - start)
        elif how == 7:
            data[start:stop] = rng.choice(BYTES)
        else:
            other = rng.randrange(len(data) + 1)
            data[start:start] = data[other : other + 40]
    if rng.random() < 0.02:
        return rng.choice((b"", b"\0" * 100, b"[" * 100_000, b'{"a":' * 50_000, b"- " * 50_000))
    return bytes(data)


def tree_damaged(rng: random.Random, tree: Any) -> Any:
    """One to three values of a tree of tables and lists changed."""
    tree = deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(tree, ()))
        if not places:
            return rng.choice(STRANGE)
        holder, key = rng.choice(places)
        _change(rng, holder, key, places)
    return rng.choice(STRANGE) if rng.random() < 0.01 else tree


def _places(tree: Any, path: Path_) -> Any:
    """Every table or list with each of its keys."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key], (*path, key))


def _change(rng: random.Random, holder: Any, key: Any, places: list[Any]) -> None:
    how = rng.randrange(12)
    try:
        value = holder[key]
    except (KeyError, IndexError):  # gone with an earlier change
        return
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[rng.choice(("on", "8787", "more", "", "é", "__class__", "a.b", "x" * 300))] = value
    elif how == 2 and isinstance(holder, dict):
        holder[rng.choice(list(holder))] = deepcopy(value)
    elif how == 3 and isinstance(holder, list):
        holder.insert(key, deepcopy(value))
    elif how == 4:
        holder[key] = rng.choice(([value], {"a": value}, [value, value]))
    elif how == 5:
        other, place = rng.choice(places)
        holder[key] = deepcopy(other[place]) if _has(other, place) else None
    elif how == 6:
        for _ in range(rng.choice((3, 30, 90))):
            value = rng.choice(([value], {"a": value}))
        holder[key] = value
    elif how == 7 and isinstance(value, str):
        holder[key] = bytes_damaged(rng, value.encode(errors="replace")).decode(errors="replace")
    elif how == 8 and isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[key] = rng.choice(
            (-value, value + 1, value - 1, value * 1000, float(value), str(value), value // 2)
        )
    else:
        holder[key] = rng.choice(STRANGE)


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def json_damaged(rng: random.Random, content: bytes) -> bytes:
    """Another value somewhere in a JSON text, or other bytes."""
    if rng.random() < 0.25:
        return bytes_damaged(rng, content)
    try:
        tree = json.loads(content)
    except ValueError:
        return bytes_damaged(rng, content)
    return as_json(rng, tree_damaged(rng, tree))


def as_json(rng: random.Random, tree: Any) -> bytes:
    """JSON text, sometimes with half a pair of UTF-16 in a text, which JSON can say and Unicode not."""
    text = json.dumps(tree, indent=rng.choice((None, 1)), default=str)
    if rng.random() < 0.05:
        text = text.replace('": "', r'": "\ud800', 1)
    return text.encode()


def lines_damaged(rng: random.Random, content: bytes, words: tuple[str, ...]) -> bytes:
    """Other cells, lines and separators of a text table, or other bytes."""
    if rng.random() < 0.25:
        return bytes_damaged(rng, content)
    lines = content.decode().split("\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(lines))
        cells = lines[at].split(",")
        how = rng.randrange(8)
        if how == 0:
            lines.insert(at, rng.choice(("", "  ", "# x", "a,b", '"', lines[at])))
        elif how == 1:
            del lines[at]
            lines = lines or [""]
        elif how == 2:
            cells.insert(rng.randrange(len(cells) + 1), rng.choice(words))
            lines[at] = ",".join(cells)
        elif how == 3:
            del cells[rng.randrange(len(cells))]
            lines[at] = ",".join(cells)
        elif how == 4:
            lines = [line.replace(",", rng.choice(("\t", " ", ";", ", "))) for line in lines]
        elif how == 5:
            lines = lines * rng.choice((2, 20))
        else:
            cells[rng.randrange(len(cells))] = rng.choice(words)
            lines[at] = ",".join(cells)
    return rng.choice(("\n", "\n", "\r\n", "\r")).join(lines).encode(errors="replace")


def archive_damaged(rng: random.Random, content: bytes) -> bytes:
    """An .npz with damaged members, foreign ones, or other bytes of its own."""
    how = rng.randrange(4)
    if how == 0:
        return bytes_damaged(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = rng.randrange(len(members))
    name, data = members[at]
    members[at] = (name, npy_damaged(rng, data))
    if rng.random() < 0.2:
        members.append(
            rng.choice(((name, data), ("X", b"raw"), ("../X.npy", data), (" .npy", data), (".npy", b"")))
        )
    method = rng.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", method) as archive:
        warnings.simplefilter("ignore")
        for each, packed in members:
            archive.writestr(each, packed)
    if how == 1:
        return _directory_damaged(rng, made.getvalue())
    return made.getvalue()


TYPES = (
    *("<f8", ">f8", "<f2", "<f16", "<i4", "|b1", "<U3", ">U1", "|O", "|V8", "<c16", "<M8[s]", "S4", "f8,f8"),
    *("<U99999999", ""),
)
SHAPES = (
    *("()", "(3,)", "(18,)", "(-1, 2)", "(0, 2)", "(2, 0)", "(1, 1)", "(9, 2, 1)", "(True, 2)", "(2.0, 2)"),
    *("'a'", "None", "(10**9,)", "(((((())))))", "(" * 300, "(100000, 100000)", "(99999999999999999999, 2)"),
)


def npy_damaged(rng: random.Random, data: bytes) -> bytes:
    """An array whose header says something else, or whose values end early."""
    if rng.random() < 0.25 or not data.startswith(b"\x93NUMPY"):
        return bytes_damaged(rng, data)
    (length,) = struct.unpack_from("<H", data, 8)
    header, values = data[10 : 10 + length].decode("latin1"), data[10 + length :]
    for _ in range(rng.choice((1, 1, 2))):
        how = rng.randrange(5)
        if how == 0:
            start = header.index("'descr': '") + 10 if "'descr': '" in header else 0
            header = header[:start] + rng.choice(TYPES) + header[header.find("'", start) :]
        elif how == 1 and "'shape': " in header:
            header = header[: header.index("'shape': ") + 9] + rng.choice(SHAPES) + ", }"
        elif how == 2:
            header = header.replace("False", rng.choice(("True", "1", "None", "'no'", "[" * 500)))
        elif how == 3:
            header = bytes_damaged(rng, header.encode("latin1")).decode("latin1")
        else:
            values = bytes_damaged(rng, values)
    text = header.encode("latin1")[:60_000]
    version = rng.choice((1, 1, 1, 2, 3, 9))
    packed = struct.pack("<H" if version == 1 else "<I", rng.choice((len(text), len(text), len(text) + 9, 0)))
    return b"\x93NUMPY" + bytes([version, 0]) + packed + text + values


def _directory_damaged(rng: random.Random, content: bytes) -> bytes:
    """Another number in the directory of an archive: sizes, offsets, flags, method, checksum."""
    data = bytearray(content)
    begin = data.find(b"PK\1\2")
    for _ in range(rng.choice((1, 2))):
        at = rng.randrange(begin + 4, len(data) - 2)
        struct.pack_into("<H", data, at, rng.choice((0, 1, 8, 12, 99, 0x7FFF, 0xFFFF)))
    return bytes(data)


def chunk_damaged(rng: random.Random, content: bytes) -> bytes:
    """Another frame, or other values in it, with a checksum that is right."""
    frame = content[:-4]
    if rng.random() < 0.3:
        frame = bytes_damaged(rng, frame)
    else:
        try:
            values = bytes(Zstd().decode(frame))
        except RuntimeError:  # damaged before, in the same trial
            return bytes_damaged(rng, content)
        changed = bytes_damaged(rng, values)
        frame = Zstd().encode((changed + values)[: len(values)] if rng.random() < 0.7 else changed)
    return bytes(frame) + google_crc32c.value(bytes(frame)).to_bytes(4, "little")


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
