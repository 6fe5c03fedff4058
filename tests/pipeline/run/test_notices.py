"""The command of a profile hears each event once, whatever it does itself."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import slurm_site, sweeping
from processes.commandline import sweep

from sweep_clustering.pipeline.run import signals
from sweep_clustering.storage.runfolder.folder import RunFolder

Heard = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return the folder of a run; time passes faster than in a real one."""
    monkeypatch.setattr(signals, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(signals, "LONG_WAIT", 0.1)
    folder = RunFolder(tmp_path / "tiny.zarr")
    folder.make()
    return folder


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Return a command that keeps its input, a line of text and a document."""
    return ["sh", "-c", f"cat >> {tmp_path}/heard"]


@pytest.fixture
def messages_heard(tmp_path: Path) -> Heard:
    """Return what the command heard so far."""

    def read() -> list[dict[str, Any]]:
        lines = (tmp_path / "heard").read_text().splitlines() if (tmp_path / "heard").exists() else []
        documents = [json.loads(line) for line in lines[1::2]]
        assert [document["text"] for document in documents] == lines[::2]
        return documents

    return read


def test_an_end_is_one_notice_and_a_head_that_resumes_is_none(
    run: RunFolder, command: list[str], messages_heard: Heard
) -> None:
    for event in ("", "finished"):
        with signals.Notices(command, run) as hearer:
            hearer.begin(is_resumed=False)
            hearer.event, hearer.description = event, "finished\nwith more lines"
    (document,) = messages_heard()
    assert document["event"] == "finished"
    assert document["text"] == "tiny: finished"
    assert document["how"] == "finished\nwith more lines"
    assert document["status"]["cube"] == str(run.cube)
    with signals.Notices(command, run):
        pass  # another head held the lease: this was no run
    with signals.Notices(None, run) as hearer:
        hearer.begin(is_resumed=False)
    assert len(messages_heard()) == 1


def test_an_error_without_text_is_a_notice(run: RunFolder, command: list[str], messages_heard: Heard) -> None:
    with signals.Notices(command, run) as hearer:
        hearer.begin(is_resumed=False)
        hearer.description = str(OSError())
    assert [document["text"] for document in messages_heard()] == ["tiny: failed"]


def test_a_long_wait_is_one_notice_until_a_worker_comes(
    run: RunFolder, command: list[str], messages_heard: Heard
) -> None:
    def wait_for(count: int) -> None:
        sweeping.wait_until(lambda: len(messages_heard()) == count, seconds=20)

    with signals.Notices(command, run) as hearer:
        time.sleep(0.3)  # for the lease
        assert messages_heard() == []
        hearer.begin(is_resumed=False)
        wait_for(1)
        hearer.event = ""
    with signals.Notices(command, run) as hearer:
        hearer.begin(is_resumed=True)
        time.sleep(0.3)
        assert len(messages_heard()) == 1
        hearer.count_workers = lambda: 1
        sweeping.wait_until(lambda: not run.notified.exists(), seconds=20)
        hearer.count_workers = int
        wait_for(2)
        hearer.event = ""
    with signals.Notices(command, run) as hearer:
        hearer.begin(is_resumed=False)  # a user submitted again
        wait_for(3)
    assert [document["event"] for document in messages_heard()] == ["waiting", "waiting", "waiting", "failed"]
    assert {document["text"] for document in messages_heard()[:3]} == {"tiny: no worker for 0:00:00"}
    assert not run.notified.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sh", "-c", "echo no such hook; exit 7"], "failed (exit code 7): no such hook"),
        (["sh", "-c", "echo slow; sleep 60 & sleep 60"], "failed (it took more than 0.5 s): slow"),
        (["no-such-command"], "cannot be run: [Errno 2] No such file"),
    ],
)
def test_a_command_that_fails_or_hangs_is_logged_once(
    words: list[str], says: str, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "LIMIT", 0.5)
    began = time.monotonic()
    with signals.Notices(words, run) as hearer:
        hearer.begin(is_resumed=False)
    assert time.monotonic() - began < 10
    (line,) = run.log.read_text().splitlines()
    assert f"the command of notify {says}" in line


@pytest.mark.slow
def test_a_local_run_that_finishes(tmp_path: Path, messages_heard: Heard) -> None:
    file = tmp_path / "cluster.yaml"
    listener = f"notify: sh -c 'cat >> {tmp_path}/heard'"
    file.write_text(f"local: {{kind: local, workers: 1, dashboard_port: 0, {listener}}}")
    spec = sweeping.write_spec(tmp_path)
    places = "--results", tmp_path, "--cluster", file
    assert sweep("submit", spec, *places).exit_code == 0
    assert sweep("submit", spec, *places).exit_code == 0  # nothing to run
    (document,) = messages_heard()
    total = document["status"]["total"]
    assert document["text"] == f"tiny: finished; {total['done']} of {total['cells']} cells done"
    assert document["status"]["head"]["state"] == "ended"


@pytest.fixture
def site() -> Iterator[Path]:
    with slurm_site.slurm_site() as home:
        yield home


@pytest.mark.slow
def test_jobs_that_wait_on_a_real_slurm(
    site: Path, tmp_path: Path, messages_heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "LONG_WAIT", 5.0)
    file = tmp_path / "cluster.yaml"
    keys = "cores: 1, memory: 1GB, queue: closed, interface: lo, start_timeout: 10s"
    file.write_text(f"slurm: {{kind: slurm, {keys}, notify: [sh, -c, 'cat >> {tmp_path}/heard']}}")
    places = "--results", tmp_path, "--cluster", file, "--profile", "slurm"
    result = sweep("submit", sweeping.write_spec(tmp_path), *places)
    assert result.exit_code == 1
    waiting, failed = messages_heard()
    assert waiting["text"] == "tiny: no worker for 0:00:05; 1 job pending (PartitionDown)"
    assert failed["event"] == "failed"
    assert failed["text"] == "tiny: no worker for 0:00:10 (start_timeout): 1 pending (PartitionDown)"
