"""Whether a recorded process lives."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from storage.runfolder import process as module
from storage.runfolder.process import is_alive, this_process


@pytest.fixture(params=["proc", "psutil"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "psutil":
        monkeypatch.setattr(module, "PROC", Path("/nowhere"))
    return str(request.param)


def test_this_process_lives(way: str) -> None:
    me = this_process()
    assert is_alive(me) is True
    assert me.process_start
    assert me == this_process()


def test_another_start_or_id_is_dead(way: str) -> None:
    me = this_process()
    assert is_alive(replace(me, process_start="0")) is False
    assert is_alive(replace(me, pid=2**22 + 1)) is False


def test_a_zombie_is_dead(way: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    recorded = replace(this_process(), pid=child.pid, process_start=module._process_start(child.pid) or "")
    assert is_alive(recorded) is True
    child.stdin.close()
    end = time.monotonic() + 20
    while is_alive(recorded):
        assert time.monotonic() < end
        time.sleep(0.005)
    assert child.returncode is None, "nobody has waited for it"
    child.wait()
    assert is_alive(recorded) is False


@pytest.mark.parametrize("key", ["boot_id", "pid_namespace"])
def test_what_cannot_be_seen_is_unknown(way: str, key: str) -> None:
    assert is_alive(replace(this_process(), **{key: "another"})) is None


def test_the_job_of_the_batch_system_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in module.JOB_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert this_process().job_id == ""
    monkeypatch.setenv("PBS_JOBID", "12.server")
    assert this_process().job_id == "12.server"
