"""Numbers and times become words, and every line of a log is ours."""

import logging
import math
import os
from pathlib import Path

import pytest

from sweep_clustering.pipeline.common import PlainFormatter, core_count, duration, memory_limit, plural, span

FORGED = "12:00 INFO done"


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\u2028", "\x1b[2J\r", "\udcff\x00"])
def test_each_line_of_a_log_begins_as_ours_do(separator: str) -> None:
    text = f"a{separator}{FORGED}"
    record = logging.makeLogRecord({"name": "n", "levelname": "ERROR", "msg": "%s", "args": (text,)})
    lines = PlainFormatter("%(levelname)s %(name)s: %(message)s").format(record).split("\n")
    assert all(line.startswith("ERROR n: ") and line.isprintable() for line in lines)
    assert record.msg == "%s"
    assert record.args == (text,), "other handlers see it as it was"


def test_a_traceback_is_lines_of_ours_as_well() -> None:
    try:
        raise ValueError("a\x1b\nb")
    except ValueError as error:
        fields = {"msg": "no", "exc_info": (ValueError, error, error.__traceback__)}
    lines = PlainFormatter("> %(message)s").format(logging.makeLogRecord(fields)).split("\n")
    assert lines[0] == "> no"
    assert lines[-2:] == [r"> ValueError: a\x1b", "> b"]


def test_words() -> None:
    assert [duration(seconds) for seconds in (3661, -1)] == ["1:01:01", "0:00:00"]
    assert [span(seconds) for seconds in (86_400, 59.9)] == ["1 day", "59 seconds"]
    assert [plural(count, "mouse", "mice") for count in (0, 1, 2_000)] == ["0 mice", "1 mouse", "2,000 mice"]


# Cores, with files that stand for those of the system.

V1, V2 = "4:memory:/a\n3:cpu,cpuacct:{0}\n0::/\n", "0::{0}\n"


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(os, "process_cpu_count", lambda: 8, raising=False)


def system(root: Path, groups: str, quotas: dict[str, str]) -> Path:
    files = {"proc/self/cgroup": groups} if groups else {}
    files |= {f"sys/fs/cgroup/{name}": text for name, text in quotas.items()}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def first_version(folder: str, quota: int) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("groups", "quotas", "count"),
    [
        (V2, {"cpu.max": "max 100000\n"}, 8),
        (V2, {"cpu.max": "300000 100000\n"}, 3),  # the top is that of a container
        (V2, {"a/b/cpu.max": "250000 100000\n"}, 3),  # part of a core is one
        (V2, {"a/b/cpu.max": "10000 100000\n"}, 1),
        (V2, {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n"}, 2),
        (V2, {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "600000 100000\n"}, 4),
        (V2, {"a/b/cpu.max": "1600000 100000\n"}, 8),
        (V2, {"other/cpu.max": "100000 100000\n"}, 8),
        (V2, {"a/b/cpu.max": "nonsense\n"}, 8),
        (V1, first_version("cpu,cpuacct/a/b", 200000), 2),
        (V1, first_version("cpuacct,cpu/a", 300000), 3),
        (V1, first_version("cpu", 400000), 4),
        (V1, first_version("cpu/a/b", -1), 8),
        (V1, {"unified/cpu.max": "500000 100000\n"}, 5),
        (V1, {}, 8),
        ("", {}, 8),  # a system without control groups
    ],
)
@pytest.mark.usefixtures("eight_cores")
def test_quotas_of_control_groups_bound_the_cores(
    tmp_path: Path, groups: str, quotas: dict[str, str], count: int
) -> None:
    assert core_count(system(tmp_path, groups.format("/a/b"), quotas)) == count


@pytest.mark.parametrize(("cores", "count"), [(6, 6), (None, 1)])
def test_a_system_without_affinity_has_all_cores_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int | None, count: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "process_cpu_count", os.cpu_count, raising=False)
    assert core_count(tmp_path) == count


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        (V2, {"a/b/memory.max": "max\n"}, math.inf),
        (V2, {"a/b/memory.max": "4096\n", "a/memory.max": "2048\n"}, 2048),
        (V2, {"other/memory.max": "4096\n"}, math.inf),
        (V1, {"memory/a/memory.limit_in_bytes": "8192\n"}, 8192),
        ("", {}, math.inf),  # a system without control groups
    ],
)
def test_limits_of_control_groups_bound_the_memory(
    tmp_path: Path, groups: str, files: dict[str, str], limit: float
) -> None:
    assert memory_limit(system(tmp_path, groups.format("/a/b"), files)) == limit
