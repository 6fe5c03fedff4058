"""Files of a cube are damaged here in every way."""

from collections.abc import Iterator
from pathlib import Path

from sweep_clustering.storage.cube.chunks import chunk_position
from sweep_clustering.storage.cube.manifest import read_manifest


def kinds(cube: Path) -> Iterator[str]:
    """Yield the key of the last chunk file of each array of a cube."""
    for path in sorted(read_manifest(cube).metadata):
        files = sorted(file.name for file in (cube / path).iterdir() if chunk_position(file.name) is not None)
        yield from (f"{path}/{name}" for name in files[-1:])


def turn_bit(file: Path, bit: int = 100) -> None:
    """Change one bit of a file."""
    content = bytearray(file.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    file.write_bytes(bytes(content))
