"""cluster.yaml: where it is looked for, what it may say."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from checkout import ROOT

from pipeline.cluster import profiles
from pipeline.cluster.profiles import (
    MOST_BYTES,
    SCHEMA_NAME,
    Address,
    Local,
    Profile,
    Tls,
    cluster_schema,
    find_file,
    load_profile,
    read_entries,
)
from pipeline.jobs.keys import HeadResources, SlurmQueue
from sweeps.errors import InputError

# The text of cluster.yaml: keys as written, and everything that takes too much to read.

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(text.encode())
    return read_entries(path)


@pytest.mark.parametrize("key", ["on", "8787", "no", "null", "1.5", "2001-01-01", "0x10"])
def test_a_key_is_the_text_that_is_written(tmp_path: Path, key: str) -> None:
    assert read(tmp_path, f"{key}: {{{key}: 3}}") == {key: {key: 3}}
    path = tmp_path / "cluster.yaml"
    path.write_text(f"{key}: {{kind: local, {key}: 3}}")
    with pytest.raises(InputError, match=f"found unknown key '{key}', expected one of dashboard_port"):
        load_profile(key, path)
    with pytest.raises(InputError) as caught:
        load_profile("another", path)
    assert f"no profile 'another', expected one of {', '.join(sorted([key, 'local']))}" in str(caught.value)


def test_anchors_and_merged_tables_are_read(tmp_path: Path) -> None:
    text = "a: &a {kind: local, workers: 2}\nb: {<<: *a, workers: 3}\nc: *a\n"
    assert read(tmp_path, text) == {
        "a": {"kind": "local", "workers": 2},
        "b": {"kind": "local", "workers": 3},
        "c": {"kind": "local", "workers": 2},
    }


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("local: " + "[" * 5000, "nested deeper than 20 levels"),
        ("local: " + "{a: " * 5000, "nested deeper than 20 levels"),
        ("- " * 5000, "nested deeper than 20 levels"),
        ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 99)),
         "line 20: found 21 levels with its aliases"),
        (BOMB, "values with what its aliases repeat, expected at most 10,000"),
        ("local: &a [*a]", "an alias inside of what it stands for"),
        ("local: {workers: " + "9" * 9000 + "}", "a YAML error: Exceeds the limit"),
        ("local: 2001-13-45", "a YAML error: month must be in 1..12"),
        ("a: 1\nb: 2\na: 3\n", "line 3: found the key 'a' again, expected each key once"),
        ("? [a]: 1\n", "line 1: found a table or a list as a key"),
        ("a: \0", "a YAML error"),
        ("#" * (MOST_BYTES + 1), "262,145 bytes, expected at most 262,144"),
    ],
)  # fmt: skip
def test_what_is_refused_at_once(tmp_path: Path, text: str, found: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert found in str(caught.value)
    assert str(tmp_path / "cluster.yaml") in str(caught.value)
    assert time.perf_counter() - begin < 10


def test_a_number_too_long_to_write_is_described(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("local: {kind: local, workers: 0x" + "f" * 9000 + "}")
    with pytest.raises(InputError, match="found a number of thousands of digits, expected a whole number"):
        load_profile("local", path)


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


# The JSON Schema of cluster.yaml: the shipped one is this one, and takes what the reader takes.

SHIPPED = (ROOT / SCHEMA_NAME).read_text(encoding="utf-8")
PROFILES = (ROOT / "cluster.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wrong() -> Callable[[str], list[str]]:
    """Keys, or tables, that the schema finds wrong."""
    generated = json.loads(cluster_schema())
    jsonschema.Draft202012Validator.check_schema(generated)

    def found(text: str) -> list[str]:
        errors = jsonschema.Draft202012Validator(generated).iter_errors(yaml.safe_load(text))
        # Of the kinds of profiles the one that fits best.
        return [str(jsonschema.exceptions.best_match([error]).message) for error in errors]

    return found


def test_the_shipped_schema_is_the_one_that_is_generated() -> None:
    shipped, generated = json.loads(SHIPPED), json.loads(cluster_schema())
    if shipped["$comment"] != generated["$comment"]:
        pytest.skip(f"{shipped['$comment']}, and another one is installed")
    assert cluster_schema() == SHIPPED, f"write what cluster_schema() gives to {SCHEMA_NAME}"


def test_the_first_line_of_the_shipped_profiles_names_the_schema_beside_them() -> None:
    assert PROFILES.splitlines()[0] == f"# yaml-language-server: $schema={SCHEMA_NAME}"


def test_the_shipped_profiles_and_their_commented_examples_are_taken(
    wrong: Callable[[str], list[str]],
) -> None:
    assert wrong(PROFILES) == []
    examples = re.sub(r"^( *)# ( *\w+:)", r"\1\2", PROFILES, flags=re.MULTILINE)
    assert set(yaml.safe_load(examples)) == {"local", "lab", "slurm"}
    assert wrong(examples) == []


@pytest.mark.parametrize(
    "text",
    [
        "a: {kind: local, wokers: 3}",
        "a: {kind: local, workers: 0}",
        "a: {kind: local, workers: }",
        "a: {workers: 3}",
        "a: {kind: slrum}",
        "a: {kind: address}",
        "a: {kind: slurm, cores: 2}",
        "a: {kind: pbs, cores: 2, memory: 4GB, head: {cores: 1}}",
        "a: {kind: slurm, cores: 2, memory: 4GB, walltime: 36000}",
    ],
)
def test_what_the_reader_refuses_is_refused(text: str, wrong: Callable[[str], list[str]]) -> None:
    assert wrong(text) != []


def test_every_key_has_a_description() -> None:
    records: dict[str, Any] = json.loads(cluster_schema())["$defs"]
    keys = {
        (name, key): about for name, record in records.items() for key, about in record["properties"].items()
    }
    assert len(keys) > 100
    assert [key for key, about in keys.items() if not about.get("description")] == []
    assert "null" not in cluster_schema()
