"""The place of the checkout, and of the files that some machines have beside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
HELPERS = ROOT / "tests" / "helpers"
