"""Generations of the lease: closing those before, and taking over what they hold."""

from __future__ import annotations

import logging
import os
from contextlib import suppress

from storage.errors import storage_errors
from storage.files import PARTIAL, FencedFiles, Notes, remove, sync_directory
from storage.runfolder.failures import merged_lines
from storage.runfolder.folder import GenerationFolder, RunFolder
from storage.runfolder.journal import Journal

logger = logging.getLogger(__name__)


class Generation(GenerationFolder):
    """Folder of the holder of the lease, and how it writes, there and in the cube.

    Attributes
    ----------
    files : FencedFiles
        Writes only until another process has taken the lease.
    """

    def __init__(self, run: RunFolder, number: int) -> None:
        super().__init__(run, number)
        self.files = FencedFiles(self.writing, number, Notes(run.cube, self.written, self.root))

    def open(self) -> None:
        """Make the folder, before the lease counts as taken: so a later holder finds it and closes it.

        Raises
        ------
        LeaseLost
            If a later holder has removed it already.
        """
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        with self.files.fenced():
            self.writing.mkdir(mode=0o700, exist_ok=True)


def close_older(run: RunFolder, number: int) -> None:
    """Keep all holders before the n-th from writing: from here on every rename of theirs fails.

    One look at the folder is enough. A holder makes its folder, then makes sure that no higher number is
    taken, and only then writes. So one whose folder appears after this look finds our number, and gives up.

    Parameters
    ----------
    run : RunFolder
        Whose lease the caller has just taken.
    number : int
        Of its lease.
    """
    for generation in _older(run, number):
        with suppress(FileNotFoundError):
            os.rename(generation.writing, generation.closed)
            sync_directory(generation.path)


def inherit(run: RunFolder, generation: Generation, *, fresh: bool = False) -> None:
    """Take over what older generations hold, then remove them.

    Records of their journals, timings, failures, and notes on files of the cube become files of this
    generation. A kill on the way loses nothing: the older ones are removed last, and what was copied twice is
    found to be the same.

    Parameters
    ----------
    run : RunFolder
        Of the lease.
    generation : Generation
        Of its holder.
    fresh : bool
        Whether the cube is yet to be made: what is here is then of one that was removed, maybe of another
        sweep, and is removed too. Results would be taken for those of the new one.

    Raises
    ------
    JournalDamaged
        If a journal holds what no kill leaves behind.
    StorageError
        If the file system refuses.
    """
    older = _older(run, generation.number)
    with storage_errors(run.path):
        if fresh:
            if any(each.journal.exists() and each.journal.stat().st_size for each in older):
                logger.warning(
                    "%s was removed: results in %s that were to go there are dropped", run.cube, run.path
                )
            for each in older:
                remove(each.path)
            return
        with Journal(generation.journal, generation.files) as journal:
            journal.copy(each.journal for each in older)
        for name in ("pilot", "root"):
            newest = [file for each in (*older, generation) if (file := getattr(each, name)).exists()][-1:]
            if newest and newest != [getattr(generation, name)]:
                generation.files.put(getattr(generation, name), newest[0].read_bytes())
        for name in ("failures", "written"):
            lines = merged_lines(getattr(each, name) for each in (*older, generation))
            if lines:
                generation.files.put(getattr(generation, name), lines)
        sync_directory(generation.path)
        for each in older:
            remove(each.path)
        for partial in run.path.glob(f"*{PARTIAL}"):
            remove(partial)


def _older(run: RunFolder, number: int) -> list[GenerationFolder]:
    return [generation for generation in run.generations() if generation.number < number]
