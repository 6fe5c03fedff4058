"""Add the four folders of the code, the profiles and the commit to a wheel or a source archive."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "sweep_clustering"
FOLDERS = ("kernels", "pipeline", "storage", "sweeps")
PROFILES = "cluster.yaml"
# File that `storage.provenance` reads. A source archive has it already when a wheel is built from it.
NOTE = "storage/commit.txt"


class CheckoutHook(BuildHookInterface):
    """Completes a build from a checkout; an editable installation stays the checkout itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders and profiles to a wheel, and the commit wherever git knows one."""
        if version == "editable":
            return
        root, is_wheel = Path(self.root), self.target_name == "wheel"
        added = build_data["force_include"]
        if is_wheel:
            added |= {str(root / name): f"{PACKAGE}/{name}" for name in FOLDERS}
            added[str(root / PROFILES)] = f"{PACKAGE}/{PROFILES}"
        if not (root / ".git").exists():
            return
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
        try:
            description = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            return
        self._folder = tempfile.TemporaryDirectory()
        note = Path(self._folder.name) / "commit.txt"
        note.write_text(description.stdout, encoding="utf-8")
        added[str(note)] = f"{PACKAGE}/{NOTE}" if is_wheel else NOTE
