"""What a run says of where it ran."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from storage import provenance
from storage.provenance import RunRecord, fingerprint, run_record


def test_a_record_is_plain_and_says_what_bits_depend_on() -> None:
    record = run_record({"ecoli": ("no file", "no network")})
    assert RunRecord.model_validate(json.loads(json.dumps(record.dump()))) == record
    assert record.dump()["skipped"] == {"ecoli": ["no file", "no network"]}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record.started)
    assert set(record.fingerprint) == {"sweep", "numba", "numpy", "libc", "cpu"}
    assert all(record.fingerprint.values())
    assert fingerprint() == record.fingerprint
    assert {"xarray", "zarr", "distributed"} <= set(record.versions)


def test_a_wheel_knows_what_it_was_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "storage" / "provenance.py"))
    assert run_record({}).commit == ""
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "commit.txt").write_text("0123abc-dirty\n")
    assert run_record({}).commit == "0123abc-dirty"
