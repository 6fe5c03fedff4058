"""What a run says of where it ran."""

from __future__ import annotations

import json
import re

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
