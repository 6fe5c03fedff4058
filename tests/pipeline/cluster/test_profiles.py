"""cluster.yaml: where it is looked for, what it may say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import ROOT

from pipeline.cluster import profiles
from pipeline.cluster.profiles import Address, Local, Profile, Tls, find_file, load_profile
from pipeline.jobs.keys import HeadResources, SlurmQueue
from sweeps.errors import InputError


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "cluster.yaml"
        path.write_text(text)
        return path

    return written


def problems(file: Path, name: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_profile(name, file)
    return [str(problem).replace(str(file), "FILE") for problem in caught.value.problems]


def test_shipped_file_parses() -> None:
    assert load_profile("local", ROOT / "cluster.yaml") == Profile("local", Local(), ROOT / "cluster.yaml")


def test_commented_examples_of_the_shipped_file_parse(write: Callable[[str], Path], tmp_path: Path) -> None:
    shipped = (ROOT / "cluster.yaml").read_text()
    text = re.sub(r"^( *)# ( *\w+:)", r"\1\2", shipped, flags=re.MULTILINE)
    (tmp_path / "tls").mkdir()
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / "tls" / name).touch()
    path = write(text)
    assert load_profile("local", path).options == Local(workers=4, memory_limit=4 * 2**30)
    lab = load_profile("lab", path)
    folder = tmp_path / "tls"
    tls = Tls(ca=folder / "ca.pem", cert=folder / "client.pem", key=folder / "client.key")
    assert lab.options == Address(address="tls://scheduler.example.org:8786", tls=tls)
    assert lab.kind == "address"
    jobs = load_profile("slurm", path).options
    assert isinstance(jobs, SlurmQueue)
    assert (jobs.workers, jobs.cores, jobs.walltime_seconds) == (4, 8, 86_400.0)
    assert jobs.head.memory == 4_000_000_000
    left_out = [key for key in HeadResources.model_fields if not getattr(jobs.head, key)]
    assert left_out == []
    documented = {*jobs.keys, *SlurmQueue.model_fields}
    assert all(f"{key}:" in shipped for key in documented - {"processes"})


def test_local_needs_nothing(write: Callable[[str], Path]) -> None:
    assert load_profile("local", write("")) == Profile("local", Local(), None)


def test_search_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    work, config = tmp_path / "work", tmp_path / "config"
    work.mkdir()
    config.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(profiles.click, "get_app_dir", lambda name: str(config))
    assert find_file() == ROOT / "cluster.yaml"
    (config / "cluster.yaml").touch()
    assert find_file() == config / "cluster.yaml"
    (work / "cluster.yaml").touch()
    assert find_file() == work / "cluster.yaml"


def test_every_problem_at_once(write: Callable[[str], Path]) -> None:
    path = write("local: {kind: local, wokers: 3, dashboard_port: eighty, memory_limit: much}")
    assert problems(path, "local") == [
        "FILE local: dashboard_port: found 'eighty', expected a whole number 0..65535",
        "FILE local: memory_limit: found 'much', expected a size such as \"4GiB\"",
        "FILE local: found unknown key 'wokers', expected one of dashboard_port, kind, memory_limit, workers"
        " (did you mean 'workers'?)",
    ]


def test_only_the_wanted_profile_is_checked(write: Callable[[str], Path]) -> None:
    assert (
        load_profile("local", write("local: {kind: local}\nnext: {kind: slurm, queue: long}")).kind == "local"
    )


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("big: {kind: local}", "bigg", "no profile 'bigg', expected one of big, local (did you mean 'big'?)"),
        ("big: {kind: slrum}", "big", "lsf, htcondor, moab, oar (did you mean 'slurm'?)"),
        ("big: {queue: long}", "big", "kind: found nothing, expected this key"),
        ("big: 3", "big", "found 3, expected a table"),
        ("[1, 2]", "local", "found [1, 2], expected profiles by name"),
        ("local: {", "local", "a YAML error"),
        ("local: !!python/object/apply:os.getcwd []", "local", "a YAML error"),
        ("local: {kind: local, workers: 0}", "local", "workers: found 0, expected a whole number 1..10000"),
        ("big: {kind: local, 3: 4}", "big", "unknown key '3', expected one of dashboard_port"),
        ("a: {kind: address}", "a", "address: found nothing"),
        ("a: {kind: address, address: {b: 1}}", "a", "expected an address such as tls://host:8786"),
        ("a: {kind: address, address: [1]}", "a", "expected an address such as tls://host:8786"),
        ("a: {kind: slurm, cores: 1, memory: 1GB, queue: .nan}", "a", "queue: found nan, expected a text"),
        ("a: {kind: address, address: nowhere}", "a", "expected an address such as tls://host:8786"),
        ("a: {kind: address, address: 'http://host:80'}", "a", "expected an address such as"),
        ("a: {kind: address, address: 'tcp://host:99999'}", "a", "expected an address such as"),
        ("a: {kind: address, address: 'tcp://host:8786'}", "a", "expected a tls:// address, or one on this"),
        ("a: {kind: address, address: 'tls://host:8786'}", "a", "tls: found nothing"),
        ("a: {kind: address, address: 'tls://h:1', tls: {ca: a, cert: b}}", "a", "key: found nothing"),
        (
            "a: {kind: address, address: 'tls://h:1', tls: {ca: a, cert: b, key: c}}",
            "a",
            "a file that exists",
        ),
        ("a: {kind: address, address: '127.0.0.1:1', tls: {}}", "a", "as the key tls is given"),
    ],
)
def test_what_is_refused(write: Callable[[str], Path], text: str, name: str, says: str) -> None:
    assert says in "\n".join(problems(write(text), name))


@pytest.mark.parametrize("address", ["127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:8786"])
def test_loopback_needs_no_tls(write: Callable[[str], Path], address: str) -> None:
    options = load_profile("a", write(f"a: {{kind: address, address: '{address}'}}")).options
    assert options == Address(address=address if "://" in address else f"tcp://{address}")


def test_unreadable_file(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.yaml", "local") == [
        "FILE: found No such file or directory, expected a readable file of profiles"
    ]
