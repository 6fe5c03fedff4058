"""cluster.yaml is found in its places, and everything wrong with it is named."""

import json
import re
import time
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from checkout import ROOT

from sweep_clustering.pipeline.cluster import profiles
from sweep_clustering.pipeline.jobs.keys import HeadResources, KnownQueue
from sweep_clustering.sweeps.errors import InputError

PROFILES = (ROOT / "cluster.yaml").read_text(encoding="utf-8")
EXAMPLES = re.sub(r"^( *)# ( *\w+:)", r"\1\2", PROFILES, flags=re.MULTILINE)
"""The shipped file with its commented examples."""


FILES = json.dumps(dict.fromkeys(("ca", "cert", "key"), __file__))


def write(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_bytes(text.encode())
    return path


def problems(file: Path, name: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        profiles.load_profile(name, file)
    return [str(problem).replace(str(file), "FILE") for problem in caught.value.problems]


def test_a_key_is_the_text_that_is_written_and_tables_are_merged(tmp_path: Path) -> None:
    for key in ("on", "8787", "no", "null", "1.5", "2001-01-01", "0x10"):
        path = write(tmp_path, f"{key}: {{kind: local, {key}: 3}}")
        assert f"found unknown key '{key}', expected one of dashboard_port" in problems(path, key)[0]
    text = "a: &a {kind: local, workers: 2}\nb: {<<: *a, workers: 3}\nc: *a\n"
    entries = {name: {"kind": "local", "workers": n} for name, n in (("a", 2), ("b", 3), ("c", 2))}
    assert profiles.read_entries(write(tmp_path, text)) == entries


def repeat_aliases(first: str, form: str) -> str:
    """Return a text whose aliases repeat the first value nine times nine times nine and so on."""
    nine = (form.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 12))
    return "".join(f"a{n}: &a{n} {value}\n" for n, value in enumerate((first, *nine)))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 5000, "a YAML error: maximum recursion depth"),
        ("- " * 25 + "a", "line 1: found more than 20 levels"),
        ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 99)),
         "line 80: found more than 20 levels"),
        (repeat_aliases("[x]", "[{}]"), "more than 10,000 values with what aliases repeat"),
        (repeat_aliases("{x: 1}", "{{<<: [{}]}}"), "more than 20 levels"),
        ("local: &a [*a]", "line 1: found more than 20 levels"),
        ("a: {workers: " + "9" * 9000 + "}", "a YAML error: Exceeds the limit"),
        ("a: {kind: local, workers: 0x" + "f" * 9000 + "}", "found a number of thousands of digits"),
        ("local: 2001-13-45", "a YAML error: month must be in 1..12"),
        ("a: 1\nb: 2\na: 3\n", "line 3: found the key 'a' again, expected each key once"),
        ("? [a]: 1\n", "line 1: found a table or a list as a key"),
        ("#" * (profiles.MOST_BYTES + 1), "262,145 bytes, expected at most 262,144"),
        ("[1, 2]", "found [1, 2], expected profiles by name"),
        ("local: !!python/object/apply:os.getcwd []", "a YAML error"),
        ("a: 1\n--- {}", "a YAML error: expected a single document"),
        ("a: {kind: slrum}", "lsf, htcondor, moab, oar (did you mean 'slurm'?)"),
        ("a: 3", "found 3, expected a table"),
        ("a: {kind: address}", "address: missing key"),
        ("a: {kind: slurm, cores: 1, memory: 1GB, queue: .nan}", "queue: found nan, expected a text"),
        ("a: {kind: address, address: 'http://host:80'}", "expected an address such as"),
        ("a: {kind: address, address: 'tcp://host:8786'}", "expected a tls:// address, or one on this"),
        ("a: {kind: address, address: 'tls://host:8786'}", "tls: found nothing"),
        ("a: {kind: address, address: 'tls://h:1', tls: {ca: a, cert: b}}", "key: missing key"),
        ("a: {kind: address, address: 'tls://h:1', tls: {ca: a, cert: b, key: c}}", "a file that exists"),
        ("a: {kind: address, address: '127.0.0.1:1', tls: {}}", "tls ca: missing key"),
        (f"a: {{kind: address, address: '127.0.0.1:1', tls: {FILES}}}", "as the key tls is given"),
    ],
    ids=count(),
)  # fmt: skip
def test_what_is_refused_at_once(tmp_path: Path, text: str, message: str) -> None:
    begin = time.perf_counter()
    lines = problems(write(tmp_path, text), "a")
    assert message in "\n".join(lines)
    assert lines[0][:4] == "FILE"
    assert time.perf_counter() - begin < 10


def test_shipped_file_and_its_commented_examples(tmp_path: Path) -> None:
    assert profiles.load_profile("local", ROOT / "cluster.yaml") == profiles.Profile(
        "local", profiles.Local(), ROOT / "cluster.yaml"
    )
    assert profiles.load_profile("local", write(tmp_path, "")) == profiles.Profile(
        "local", profiles.Local(), None
    )
    (tmp_path / "tls").mkdir()
    names = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    for name in names.values():
        (tmp_path / "tls" / name).touch()
    tls = profiles.Tls(**{key: tmp_path / "tls" / name for key, name in names.items()})
    path = write(tmp_path, EXAMPLES)
    assert profiles.load_profile("local", path).options == profiles.Local(
        workers=4, memory_limit=4 * 2**30, notify="mail -s sweep me@example.org"
    )
    lab = profiles.Address(address="tls://scheduler.example.org:8786", tls=tls)
    assert profiles.load_profile("lab", path).options == lab
    jobs = profiles.load_profile("slurm", path).options
    assert isinstance(jobs, KnownQueue)
    assert jobs.workers == 4
    assert jobs.cores == 8
    assert jobs.walltime_seconds == 86_400.0
    assert jobs.head.memory == 4_000_000_000
    assert [key for key in HeadResources.model_fields if not getattr(jobs.head, key)] == []
    documented = {*jobs.keys, *KnownQueue.model_fields}
    assert all(f"{key}:" in PROFILES for key in documented - {"processes"})


def test_search_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiles.click, "get_app_dir", lambda name: str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    for folder in (ROOT, tmp_path / "config", tmp_path):
        (folder / "cluster.yaml").touch()
        assert profiles.find_file() == folder / "cluster.yaml"


def test_every_problem_of_the_wanted_profile_at_once(tmp_path: Path) -> None:
    local = "local: {kind: local, wokers: 3, dashboard_port: eighty, memory_limit: much}"
    lab = "lab: {kind: address, address: 'tls://h:1', tsl: {}}"
    path = write(tmp_path, f"{local}\nlocl: {{kind: local}}\n{lab}")
    assert [text.partition(", ")[0] for text in problems(path, "local")] == [
        "FILE local: dashboard_port: found 'eighty'",
        "FILE local: memory_limit: found 'much'",
        "FILE local: found unknown key 'wokers'",
    ]
    assert problems(path, "lab")[0].startswith("FILE lab: found unknown key 'tsl'")
    assert profiles.load_profile("locl", path).options == profiles.Local()
    assert problems(path, "lob")[0].endswith("(did you mean 'lab'?)")
    assert "no such file" in problems(tmp_path / "none.yaml", "local")[0]
    for address in ("127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:8786"):  # loopback needs no TLS
        options = profiles.load_profile(
            "a", write(tmp_path, f"a: {{kind: address, address: '{address}'}}")
        ).options
        assert options == profiles.Address(address=address if "://" in address else f"tcp://{address}")


# The JSON Schema of cluster.yaml: the shipped one is this one, and takes what the reader takes.

GENERATED = profiles.cluster_schema()


def fits(text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(json.loads(GENERATED)).is_valid(yaml.safe_load(text)))


def test_the_shipped_schema_is_the_one_that_is_generated_and_stands_beside_the_profiles() -> None:
    name = "pipeline/cluster/cluster.schema.json"
    shipped = (ROOT / name).read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(GENERATED))
    assert PROFILES.splitlines()[0] == f"# yaml-language-server: $schema={name}"
    if json.loads(shipped)["$comment"] != json.loads(GENERATED)["$comment"]:
        pytest.skip("another dask-jobqueue is installed")
    assert shipped == GENERATED, f"write what cluster_schema() gives to {name}"


def test_the_schema_takes_what_is_shipped_and_refuses_what_the_reader_refuses() -> None:
    assert set(yaml.safe_load(EXAMPLES)) == {"local", "lab", "slurm"}
    assert fits(PROFILES)
    assert fits(EXAMPLES)
    local = ("kind: local, wokers: 3", "kind: local, workers: 0", "kind: local, workers: ", "workers: 3")
    jobs = ("pbs, cores: 2, memory: 4GB, head: {cores: 1}", "slurm, cores: 2, memory: 4GB, walltime: 36000")
    kinds = ("slrum", "address", "slurm, cores: 2", *jobs)
    for profile in (*local, *(f"kind: {kind}" for kind in kinds)):
        assert not fits(f"a: {{{profile}}}"), profile
    records: dict[str, Any] = json.loads(GENERATED)["$defs"]
    keys = [about for record in records.values() for about in record["properties"].values()]
    assert len(keys) > 100
    assert all(about.get("description") for about in keys)
    assert "null" not in GENERATED
