"""Fingerprints of runs name their software and their differences, also where older ones lack fields."""

import os
import subprocess
import sys

import pytest

from sweep_clustering.installation import same_arithmetic
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
    runs = [("run 1", {"python": "3.11", "numpy": "2"}), ("run 2", {"python": "3.13", "numpy": "2"})]
    assert provenance.software_differences(runs) == "python: 3.11 (run 1), 3.13 (run 2)"
    assert provenance.software_differences([*runs, ("here", {"python": "3.11", "numpy": "3"})]) == (
        "python: 3.11 (run 1, here), 3.13 (run 2); numpy: 2 (run 1, run 2), 3 (here)"
    )


def test_what_is_unknown_differs_from_nothing() -> None:
    assert provenance.software_differences([("run 1", OLD), ("here", OLD | {"python": "3.13"})]) == ""


def test_the_class_of_a_machine_counts_and_not_its_processor() -> None:
    run, here = OLD | {"machine": "a"}, OLD | {"machine": "a", "cpu": "another"}
    assert provenance.software_differences([("run 1", run), ("here", here)]) == ""
    assert "cpu: " in provenance.software_differences([("run 1", OLD), ("here", here)])
    runs = [("run 1", run), ("here", here | {"machine": "b"})]
    assert provenance.software_differences(runs) == "machine: a (run 1), b (here)"


# Code of other processors, which libraries take for these variables.
EMULATED = {
    "narrower numpy": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512F AVX2 AVX512_ICL"},
    "older BLAS": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "oldest BLAS": {"OPENBLAS_CORETYPE": "Nehalem"},
    "no fused multiplication": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"},
}


def class_in(environment: dict[str, str], start: str = "pass") -> str:
    code = (
        f"import os; {start}; from sweep_clustering.storage.provenance import machine_class as c; print(c())"
    )
    without = {key: text for key, text in os.environ.items() if key not in same_arithmetic()}
    process = subprocess.run(
        [sys.executable, "-c", code], env=without | environment, capture_output=True, text=True, check=True
    )
    return process.stdout.strip()


@pytest.mark.skipif(not same_arithmetic(), reason="another kind of processor has code of its own")
def test_processors_that_round_differently_are_of_other_classes_until_commands_make_them_one() -> None:
    """Every command begins with these variables; values that a user has set stay."""
    plain = class_in({})
    assert class_in({}) == plain
    classes = {name: class_in(environment) for name, environment in EMULATED.items()}
    assert len({plain, *classes.values()}) == 1 + len(EMULATED), classes
    start = "from sweep_clustering.__main__ import main, sys; sys.argv[1:] = ['--version']"
    start += "\ntry: main()\nexcept SystemExit: pass\n0"
    with_start = class_in({}, start).splitlines()[-1]
    assert with_start == provenance.machine_class() == class_in(same_arithmetic())
    with_choice = class_in({"OPENBLAS_CORETYPE": "Nehalem"}, start)
    assert "BLAS Nehalem" in with_choice


def test_runs_in_a_row_that_are_alike_have_one_place() -> None:
    fingerprints = [{"cpu": "a"}, {"cpu": "a"}, {"cpu": "b"}, {"cpu": "a"}]
    assert [place for place, _ in provenance.by_run(fingerprints)] == ["runs 1 to 2", "run 3", "run 4"]


def test_what_a_release_did_not_record_is_named() -> None:
    here = OLD | {"python": "3.13", "solver of posterior": "1"}
    assert provenance.unrecorded(OLD, here) == ["python", "solver of posterior"]


def test_a_model_that_came_later_was_not_left_out() -> None:
    here = OLD | {"solver of posterior": "1", "solver of likelihood": "1"}
    assert provenance.unrecorded(OLD | {"solver of posterior": "1"}, here) == []
