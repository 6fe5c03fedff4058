"""The stores that zarr reads and writes a cube through."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from zarr.abc.store import Store
from zarr.storage import LocalStore

from storage.files import check_regular, write_file

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype
    from zarr.core.common import AccessModeLiteral


class CubeStore(LocalStore):
    """A zarr store that reads regular files only: no link leads out of the cube, no pipe blocks."""

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Content of a file, None where there is none."""
        try:
            check_regular(self.root / key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return await super().get(key, prototype, byte_range)


class DurableStore(CubeStore):
    """A zarr store whose chunks are on disk before they replace what was there.

    zarr's own store renames without fsync: after a loss of power a name may point to an empty file, even
    where a good one was before. A chunk that holds failed cells beside done ones is rewritten on a retry.
    """

    async def _open(self, *, mode: AccessModeLiteral | None = None) -> None:
        if not self.root.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.root))
        await Store._open(self)

    async def set(self, key: str, value: Buffer) -> None:
        """Write one chunk; directories are never made, so that a vanished cube is noticed."""
        self.set_sync(key, value)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write one chunk, without the event loop."""
        self._check_writable()
        write_file(self.root / key, value.to_bytes())
