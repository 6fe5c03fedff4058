"""Records in the directory beside a cube are whole or absent, and of one format version."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT
from cubes.writer import next_generation
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_clustering.storage.files import LeaseLost
from sweep_clustering.storage.runfolder import folder
from sweep_clustering.storage.runfolder import folder as records
from sweep_clustering.sweeps.errors import InputError


def test_it_is_its_owners_alone_and_where_nobody_else_may_replace_it(tmp_path: Path) -> None:
    assert folder.RunFolder(Path("results/v1.2.zarr")).path == Path("results/v1.2.run")
    run = folder.RunFolder(tmp_path / "results" / "uci.zarr")
    for mode in (0o755, 0o700):
        assert run.make().stat().st_mode & 0o777 == 0o700
        run.path.chmod(mode)
    (tmp_path / "uci.run").write_text("")
    with pytest.raises(InputError, match=r"uci\.run: found a file"):
        folder.RunFolder(tmp_path / "uci.zarr").make()
    run.path.parent.chmod(0o777)
    with pytest.raises(InputError, match=r"results: found .* may replace folders .mode 0777"):
        run.make()
    run.path.parent.chmod(0o1777)
    run.make()


def test_the_last_run_is_the_last_that_had_a_head(tmp_path: Path) -> None:
    run = folder.RunFolder(tmp_path / "tiny.zarr")
    assert run.generations() == []
    assert not run.last_run.head.exists()
    run.make()
    for number in (2, 10, 9):
        folder.GenerationFolder(run, number).path.mkdir()
    (run.path / "generation.x").mkdir()
    assert [generation.number for generation in run.generations()] == [2, 9, 10]
    assert not run.last_run.head.exists()
    for number in (2, 9):
        folder.GenerationFolder(run, number).head.write_text("")
    assert run.last_run.number == 9


def test_a_folder_of_format_version_1_is_said(tmp_path: Path) -> None:
    for name in ("journal", "head.json", "pilot.json"):
        run = folder.RunFolder(tmp_path / f"{name}.zarr")
        (run.make() / name).write_text("")
        with pytest.raises(InputError, match=f"{name} of format version 1, expected .* of format version 2"):
            run.make()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("planted", ["", "head.sh", "generation.1", "generation.1/journal"])
def test_what_another_user_has_planted_is_refused_even_by_root(tmp_path: Path, planted: str) -> None:
    run = folder.RunFolder(tmp_path / "tiny.zarr")
    path = run.make() / planted
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text("")
    os.chown(path, 54321, -1)
    with pytest.raises(InputError) as caught:
        run.make()
    (problem,) = caught.value.problems
    assert problem.where == str(path)
    assert problem.value == "a file or directory of user 54321"


def test_a_file_of_the_run_is_named_here_and_nowhere_else() -> None:
    run = folder.RunFolder(Path("a.zarr"))
    files = [*vars(run).items(), *vars(folder.GenerationFolder(run, 1)).items()]
    names = {file.name for key, file in files if isinstance(file, Path) and key not in ("cube", "path")}
    assert len(names) == 19
    # names with an ending count anywhere, `log` and the like where a path is made
    words = "|".join(rf'{"" if "." in name else "/ "}"{re.escape(name)}"' for name in names)
    paths = [path for package in ("pipeline", "storage", "sweeps") for path in (ROOT / package).rglob("*.py")]
    for path in set(paths) - {Path(folder.__file__).resolve()}:
        assert re.findall(words, path.read_text(encoding="utf-8")) == [], path


class Example(records.FileRecord):
    name: str
    size: int = 3
    at: float = 0.0


def test_a_record_says_its_version_and_who_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    Example(name="a").write(path)
    assert Example.read(path) == Example(name="a", size=3)
    head = {"version": records.VERSION, "generation": 0}
    assert json.loads(path.read_text()) == head | {"name": "a", "size": 3, "at": 0}
    generation = next_generation(tmp_path / "tiny.zarr")
    Example(name="b").write(path, generation.files)
    assert json.loads(path.read_text())["generation"] == 1
    generation.writing.rename(generation.closed_writing)
    with pytest.raises(LeaseLost):
        Example(name="c").write(path, generation.files)
    assert Example.read(path) == Example(name="b")


HEAD_OF_FILE = b'{"version": 2, "generation": 1'
WRONG = [b'"name": 5', b'"name": "a", "more": 1', b'"name": "a", "size": 1.5']
WRONG += [b'"name": "a", "at": ' + number for number in (b"NaN", b"-Infinity", b"1e999")]


def test_what_is_no_record_reads_as_none_and_another_version_is_said_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    contents = [b"", b"[1]", b"null", b"\xff", b"{", b"[" * 100_000]
    contents += [b'{"name": "a"}', b'{"version": 2, "name": "a"}', HEAD_OF_FILE + b"}"]
    for content in (*contents, *(HEAD_OF_FILE + b", " + fields + b"}" for fields in WRONG)):
        path.write_bytes(content)
        assert Example.read(path) is None, content
    assert Example.read(tmp_path / "nothing.json") is None
    assert Example.read(tmp_path) is None
    message = r"example\.json: found format version .*, expected 2.*release that"
    for version in (1, 3, "2", None, [2]):
        path.write_text(json.dumps({"version": version, "generation": 1, "name": "a"}))
        with pytest.raises(InputError, match=message):
            Example.read(path)


# What the driver and the watch of worker jobs write, as others read it.


def job(number: int, workers: int = 1) -> records.JobRecord:
    values = {"name": f"sweep-a-{number}", "job": str(number), "node": "n1", "state": "running"}
    return records.JobRecord(**values, workers=workers)


def test_the_list_of_jobs_is_written_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "run" / "jobs.json"
    file = records.JobListFile(path, 2)
    file.show([job(1)])  # readers alone need it: a run does not end for a disk that refuses
    path.parent.mkdir()
    file.show([job(1)])
    path.unlink()
    file.show([job(1)])
    assert not path.exists()
    for number in range(records.JOBS_LISTED + 5):
        file.lose(job(number), "was lost")
    file.show([job(98, workers=3), job(99, workers=0)])
    job_list = records.JobList.read(path)
    assert job_list is not None
    assert job_list.n_jobs == 2
    assert job_list.n_running == 1
    assert job_list.workers == 3
    assert job_list.n_lost == records.JOBS_LISTED + 5
    assert [lost.job for lost in job_list.lost] == [
        str(number) for number in range(5, records.JOBS_LISTED + 5)
    ]
    values = json.loads(json.dumps(job_list.to_dict()))
    assert values["running"] == 1
    assert values["workers"] == 3
    assert values["jobs"][0]["workers"] == 3


def test_times_and_states_survive_the_file_and_older_ones_are_read(tmp_path: Path) -> None:
    generation = next_generation(tmp_path / "tiny.zarr")
    assert records.read_pilot(generation.run) == records.Pilot()
    where = ("a", "posterior", 0.8, 10, 0.5)
    timed = records.TimedRestart(*where, 0.25, 0.75)
    questions = records.TimedQuestions("a", "active", 0.8, 16, 2.0)
    pilot = records.Pilot(timed=(timed,), questions=(questions,), moment=records.Moment(1000.0, "n1", 0.5))
    pilot.write(generation.pilot, generation.files)
    assert records.read_pilot(generation.run) == pilot
    older = json.loads(generation.pilot.read_text())
    del older["moment"], older["questions"], older["timed"][0][5:]
    generation.pilot.write_text(json.dumps(older))
    assert records.read_pilot(generation.run) == records.Pilot(timed=(records.TimedRestart(*where),))
    generation.pilot.write_text("{")
    assert records.read_pilot(generation.run) == records.Pilot()
    values = {"restarts": 1, "total": 10, "workers": 2, "left": 4.5, "at": 1.0}
    older = json.loads(records.Progress(**values, answers=12, questions=48).to_text(1))
    del older["asked"], older["questions"]
    assert records.Progress.parse(json.dumps(older), Path()) == records.Progress(**values)


# Failures: what is appended comes back, whatever a kill or another release left.


def failure(attempt: int = 1, **changes: Any) -> records.FailureRecord:
    values: dict[str, Any] = {"cause": "ValueError: X", "node": "n1", "job": "34", "attempt": attempt}
    values |= {"traceback": "line one\nline two é", "cell": "iris/p=0.8/m=75/replicate=0/posterior"}
    values |= {"work": records.FailedWork(start=0, stop=5, objectives=(-1.5, float("-inf")))}
    return records.FailureRecord(**(values | {"at": "2026-01-02T03:04:05+00:00"} | changes))


def test_torn_lines_and_what_other_releases_wrote(tmp_path: Path) -> None:
    generation = next_generation(tmp_path / "tiny.zarr")
    run, path = generation.run, generation.failures
    assert records.read_failures(run) == []
    records.append_failure(path, failure(), generation.files)
    text = path.read_text()
    assert text.count("\n") == 1
    assert json.loads(text)["generation"] == 1
    path.write_text(text + "\n".join(text[:cut] for cut in range(0, len(text), 17)) + "\n")
    records.append_failure(path, failure(2))
    assert records.read_failures(run) == [failure(), failure(2)]
    later = json.loads(text) | {"machine": "x"}
    later["work"]["batch"] = 7
    path.write_text(json.dumps(later) + '\n[1]\n{"cell": 3}\nnull\n{"version": 2, "generation": 1}\n')
    assert records.read_failures(run) == [failure()]
    path.write_text(json.dumps(json.loads(text) | {"cause": "a\n" * 9_000 + "\x1b[2J\udcff"}) + "\n")
    (older,) = records.read_failures(run)
    assert len(older.cause) == 500
    assert older.cause[:4] == "a a "
    assert older.cause.isprintable()
    path.write_text('{"version": 3, "generation": 1}\n')
    with pytest.raises(InputError, match="format version 3, expected 2"):
        records.read_failures(run)


ANY = st.text(st.characters(exclude_categories=()), max_size=50)


@settings(max_examples=40)
@given(cause=ANY, traceback=ANY, node=ANY, cell=ANY)
def test_any_text_is_stored_and_comes_back(cause: str, traceback: str, node: str, cell: str) -> None:
    record = failure(cause=cause, traceback=traceback, node=node, cell=cell)
    assert records.FailureRecord.parse(record.to_text(1), Path()) == record
    assert record.cause.isprintable()
    assert Example.parse(Example(name=cell).to_text(1), Path()) == Example(name=cell)
