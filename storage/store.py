"""The store that zarr writes blocks through."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from zarr.abc.store import Store
from zarr.storage import LocalStore

from storage.files import write_file

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer
    from zarr.core.common import AccessModeLiteral


class DurableStore(LocalStore):
    """A zarr store whose chunks are on disk before they replace what was there.

    zarr's own store renames without fsync: after a loss of power a name may point to an empty file, also
    where a good one stood before. A chunk that holds failed cells beside done ones is rewritten on a retry.
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
