"""Whether a recorded process lives."""

import subprocess
import sys
from pathlib import Path

import pytest
from processes.sweeping import wait_until

from storage.runfolder import process as module
from storage.runfolder.process import is_alive, this_process


@pytest.fixture(params=["proc", "psutil"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "psutil":
        monkeypatch.setattr(module, "PROC", Path("/nowhere"))
    return str(request.param)


def test_this_process_lives_and_no_other_start_or_id_of_it(way: str) -> None:
    me = this_process()
    assert me == this_process()
    assert me.process_start
    changes = {"host": "x", "process_start": "0", "pid": 2**22 + 1, "boot_id": "x", "pid_namespace": "x"}
    found = [is_alive(me.model_copy(update={key: value})) for key, value in changes.items()]
    assert found == [True, False, False, None, None]


def test_a_zombie_is_dead(way: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    start = module._process_start(child.pid) or ""
    recorded = this_process().model_copy(update={"pid": child.pid, "process_start": start})
    assert is_alive(recorded) is True
    child.stdin.close()
    wait_until(lambda: not is_alive(recorded))
    assert child.returncode is None, "nobody has waited for it"
    child.wait()
    assert is_alive(recorded) is False
