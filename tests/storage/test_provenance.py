"""Fingerprints of runs: what they say, what differs between them, and what older ones lack."""

import pytest

from sweep_clustering.storage import provenance

OLD = {"sweep": "0.1.0", "numba": "0.68.1", "numpy": "2.4.6", "libc": "glibc 2.36", "cpu": "a CPU"}


def test_a_fingerprint_has_the_minor_version_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance.platform, "python_version_tuple", lambda: ("3", "13", "7"))
    assert provenance.fingerprint()["python"] == "3.13"


def test_an_older_record_says_python_and_scipy_elsewhere() -> None:
    record = provenance.RunRecord(
        python="3.11.7", versions={"scipy": "1.17.1", "zarr": "3.1.6"}, fingerprint=OLD
    )
    assert record.made_with == OLD | {"python": "3.11", "scipy": "1.17.1"}


def test_a_fingerprint_is_completed_only_from_keys_that_the_record_has() -> None:
    assert provenance.RunRecord(fingerprint=OLD).made_with == OLD
    newer = OLD | {"python": "3.13"}
    assert provenance.RunRecord(python="3.11.7", fingerprint=newer).made_with == newer


def test_values_that_differ_are_named_with_their_places() -> None:
    made = [("run 1", {"python": "3.11", "numpy": "2"}), ("run 2", {"python": "3.13", "numpy": "2"})]
    assert provenance.software_differences(made) == "python: 3.11 (run 1), 3.13 (run 2)"
    assert provenance.software_differences([*made, ("here", {"python": "3.11", "numpy": "3"})]) == (
        "python: 3.11 (run 1, here), 3.13 (run 2); numpy: 2 (run 1, run 2), 3 (here)"
    )


def test_what_is_unknown_differs_from_nothing() -> None:
    assert provenance.software_differences([("run 1", OLD), ("here", OLD | {"python": "3.13"})]) == ""


def test_runs_in_a_row_that_are_alike_have_one_place() -> None:
    made = [{"cpu": "a"}, {"cpu": "a"}, {"cpu": "b"}, {"cpu": "a"}]
    assert [place for place, _ in provenance.by_run(made)] == ["runs 1 to 2", "run 3", "run 4"]


def test_what_a_release_did_not_record_is_named() -> None:
    here = OLD | {"python": "3.13", "solver of posterior": "1"}
    assert provenance.unrecorded(OLD, here) == ["python", "solver of posterior"]


def test_a_model_that_came_later_was_not_left_out() -> None:
    here = OLD | {"solver of posterior": "1", "solver of likelihood": "1"}
    assert provenance.unrecorded(OLD | {"solver of posterior": "1"}, here) == []
