"""Bytes, texts, trees of values and archives are damaged here as a random generator says."""

import io
import json
import random
import re
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import google_crc32c
from numcodecs.zstd import Zstd

from sweep_clustering.storage.runfolder import journal

# Values of another type, at the bounds of one, or with a meaning of their own somewhere.
STRANGE: tuple[Any, ...] = (
    *(None, True, False, [], [[]], [None], ["a", 1], {}, {"": 0}, {"a": {"b": []}}, [1] * 500),
    *(0, 1, -1, 2, 7, 2**15, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**70), 10**400),
    *(0.0, -0.0, 0.5, 1.0, 1.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *("", " ", "a", "0", "1", "-1", "1.5N", "N", "nan", "1e999", "0x10", "GB", "99h", "on", "null"),
    *("x" * 5000, "9" * 5000, "\n", "\t", "a b", "\x1b[31m", "\x7f", "é", "\u2028", "\U0001f600"),
    *("..", "../..", "/", "/etc/passwd", "a/b", "-x", "%s%n", "{}", "[0]", "iris", "posterior"),
    *("tls://a:1", "2001-01-01"),
)
# Bytes with a meaning in some format.
BYTES = (
    *(bytes([code]) for code in b"\0\n\r\"',\t #_-.e[]{}:=\xff"),
    *(b"\xc3\x28", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"nan", b"inf", b"1e999", b"9" * 400),
)


def damage_bytes(rng: random.Random, content: bytes) -> bytes:
    """Change some bytes one to four times."""
    if rng.random() < 0.02:
        return rng.choice((b"", b"\0" * 100, b"[" * 100_000, b'{"a":' * 50_000, b"- " * 50_000))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        start, other = rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)
        stop = min(len(content), start + rng.choice((1, 1, 2, 8, 64, 1000)))
        part = content[start:stop]
        new, stop = rng.choice(
            (
                (bytes(code ^ 1 << rng.randrange(8) for code in part[:1]) + part[1:], stop),
                (rng.choice(BYTES), rng.choice((start, stop))),
                (b"", rng.choice((stop, len(content)))),
                (part * rng.choice((2, 3, 51)), stop),
                (rng.randbytes(len(part)), stop),
                (rng.choice((b"\0", b"\xff")) * len(part), stop),
                (content[other : other + 40], start),
            )
        )
        content = content[:start] + new + content[stop:]
    return content


def damage_tree(rng: random.Random, tree: Any, strange: Sequence[Any] = STRANGE) -> Any:
    """Change one to three values of a tree of tables and lists."""
    tree = deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(tree))
        if not places or rng.random() < 0.005:
            return rng.choice(strange)
        (holder, key), (other, place) = rng.choices(places, k=2)
        value, how = holder[key], rng.randrange(10)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            holder[rng.choice(("on", "8787", "more", "", "é", "__class__", "a.b", "x" * 300))] = value
        elif how == 1:
            holder.insert(key, deepcopy(value))
        elif how == 2:
            holder[key] = deepcopy(other[place])
        elif how == 3:
            for _ in range(rng.choice((1, 3, 30, 90))):
                value = rng.choice(([value], {"a": value}))
            holder[key] = value
        elif how == 4 and isinstance(value, (int, float)):
            holder[key] = rng.choice((-value, value + 1, value - 1, value * 1000, str(value), value // 2))
        elif how in (5, 6) and isinstance(value, str):
            holder[key] = damage_bytes(rng, value.encode(errors="replace")).decode(errors="replace")
        else:
            holder[key] = rng.choice(strange)
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every table or list with each of its keys."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from _places(tree[key])


def damage_json(rng: random.Random, content: bytes) -> bytes:
    """Change a value in a JSON text, sometimes to half a pair of UTF-16; or change bytes."""
    try:
        tree = json.loads(content)
    except ValueError:
        return damage_bytes(rng, content)
    if rng.random() < 0.25:
        return damage_bytes(rng, content)
    text = json.dumps(damage_tree(rng, tree), indent=rng.choice((None, 1)), default=str)
    return (text.replace('": "', r'": "\ud800', 1) if rng.random() < 0.05 else text).encode()


def damage_lines(rng: random.Random, content: bytes, words: Sequence[str]) -> bytes:
    """Change cells, lines and separators of a text table, or bytes."""
    if rng.random() < 0.25:
        return damage_bytes(rng, content)
    rows = damage_tree(rng, [line.split(",") for line in content.decode().split("\n")], words)
    separator = rng.choice((",", ",", ",", ",", "\t", " ", ";", ", "))
    lines = [separator.join(map(str, row)) if isinstance(row, list) else str(row) for row in rows]
    text = rng.choice(("\n", "\n", "\r\n", "\r")).join(lines * rng.choice((1, 1, 1, 1, 1, 1, 2, 20)))
    return text.encode(errors="replace")


TYPES = (
    *("<f8", ">f8", "<f2", "<f16", "<i4", "|b1", "<U3", ">U1", "|O", "|V8", "<c16", "<M8[s]", "S4", "f8,f8"),
    *("<U99999999", ""),
)
SHAPES = (
    *("()", "(3,)", "(18,)", "(-1, 2)", "(0, 2)", "(2, 0)", "(1, 1)", "(9, 2, 1)", "(True, 2)", "(2.0, 2)"),
    *("'a'", "None", "(10**9,)", "(((((())))))", "(" * 300, "(100000, 100000)", "(99999999999999999999, 2)"),
)


def damage_npy(rng: random.Random, data: bytes) -> bytes:
    """Change the header of an array, or its values."""
    if rng.random() < 0.25 or not data.startswith(b"\x93NUMPY"):
        return damage_bytes(rng, data)
    (length,) = struct.unpack_from("<H", data, 8)
    header, values = data[10 : 10 + length].decode("latin1"), data[10 + length :]
    how = rng.randrange(5)
    patterns = (("'descr': '[^']*", "'descr': '", TYPES), ("'shape': [^}]*", "'shape': ", SHAPES),
                ("False", "", ("True", "1", "None", "'no'", "[" * 500)))  # fmt: skip
    if how < 3:
        pattern, begin, others = patterns[how]
        header = re.sub(pattern, begin + rng.choice(others), header)
    elif how == 3:
        header = damage_bytes(rng, header.encode("latin1")).decode("latin1")
    else:
        values = damage_bytes(rng, values)
    text = header.encode("latin1")[:60_000]
    version = rng.choice((1, 1, 1, 2, 3, 9))
    packed = struct.pack("<H" if version == 1 else "<I", rng.choice((len(text), len(text), len(text) + 9, 0)))
    return b"\x93NUMPY" + bytes([version, 0]) + packed + text + values


METHODS = (zipfile.ZIP_STORED, *[zipfile.ZIP_DEFLATED] * 2, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def damage_archive(rng: random.Random, content: bytes) -> bytes:
    """Change a member of an .npz, add a foreign one, or change numbers in its directory, or bytes."""
    how = rng.randrange(4)
    if how == 0:
        return damage_bytes(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    name, data = members[at := rng.randrange(len(members))]
    members[at] = (name, damage_npy(rng, data))
    foreign = ((name, data), ("X", b"raw"), ("../X.npy", data), (" .npy", data), (".npy", b""))
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", rng.choice(METHODS)) as archive:
        warnings.simplefilter("ignore")
        for member, packed in [*members, *rng.choices(foreign, k=rng.random() < 0.2)]:
            archive.writestr(member, packed)
    whole = bytearray(buffer.getvalue())
    for _ in range(rng.choice((1, 2)) if how == 1 else 0):  # sizes, offsets, flags, method, checksum
        place = rng.randrange(whole.find(b"PK\1\2") + 4, len(whole) - 2)
        struct.pack_into("<H", whole, place, rng.choice((0, 1, 8, 12, 99, 0x7FFF, 0xFFFF)))
    return bytes(whole)


def damage_chunk(rng: random.Random, content: bytes) -> bytes:
    """Change the frame of a chunk, or values in it, and put its checksum right."""
    frame = content[:-4]
    if rng.random() < 0.3:
        frame = damage_bytes(rng, frame)
    else:
        try:
            values = bytes(Zstd().decode(frame))
        except RuntimeError:  # damaged before, in the same trial
            return damage_bytes(rng, content)
        other = damage_bytes(rng, values)
        frame = bytes(Zstd().encode((other + values)[: len(values)] if rng.random() < 0.7 else other))
    return frame + google_crc32c.value(frame).to_bytes(4, "little")


def damage_record(rng: random.Random, content: bytes) -> bytes:
    """Change one record of a journal, with a right length and checksum."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        path.write_bytes(content)
        bodies = list(journal._bodies(path))
    at, size = rng.randrange(len(bodies)), journal.TEXT_LENGTH.size
    body = bodies[at]
    (length,) = journal.TEXT_LENGTH.unpack_from(body)
    text, arrays = body[size : size + length], body[size + length :]
    how = rng.randrange(5)
    if how == 0:
        body = damage_bytes(rng, body)
    elif how in (1, 2):
        body = body[: size + length] + (damage_npy if how == 1 else damage_bytes)(rng, arrays)
    else:
        text = damage_json(rng, text)
        body = journal.TEXT_LENGTH.pack(len(text)) + text + arrays
    bodies[at] = body
    if rng.random() < 0.2:
        bodies.insert(rng.randrange(len(bodies) + 1), rng.choice(bodies))
    return b"".join(map(journal._frame, bodies))
