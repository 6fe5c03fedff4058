"""Notes the commit that a wheel or a source archive is built from: a cube says what it was made with."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOTE = "storage/commit.txt"
"""Read by `storage.provenance`; an archive that is built from again already has it."""


class CommitHook(BuildHookInterface):
    """Puts the commit of the checkout into what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the note, unless there is no checkout or git, or the checkout itself is installed."""
        root = Path(self.root)
        if version == "editable" or not (root / ".git").exists():
            return
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
        try:
            done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            return
        self._folder = tempfile.TemporaryDirectory()
        note = Path(self._folder.name) / "commit.txt"
        note.write_text(done.stdout, encoding="utf-8")
        build_data["force_include"][str(note)] = NOTE
