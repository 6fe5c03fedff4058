"""What a head is told of the choices that a user made."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from pipeline.cluster.profiles import Local, Profile
from pipeline.commands.main import main
from pipeline.jobs.keys import JobQueue, job_queue
from pipeline.prepare.request import NOT_FORWARDED, Options, Request
from pipeline.prepare.sweep import prepare
from pipeline.prepare.wanted import Wanted


def test_a_head_is_told_every_choice(tmp_path: Path) -> None:
    options = Options(
        tmp_path,
        "p",
        Path("c.yaml"),
        3,
        only=("a/b", "c"),
        retry_failed=True,
        strict=True,
        data_dir=Path("d"),
    )
    flags = options.flags()
    assert flags[:6] == ["--profile", "p", "--cluster", str(Path("c.yaml").resolve()), "--workers", "3"]
    assert flags[6:8] == ["--retry-failed", "--strict"]
    assert flags[-4:] == ["--only", "a/b", "--only", "c"]
    known = {option for parameter in main.commands["submit"].params for option in parameter.opts}
    for field in fields(Options):
        if field.name not in NOT_FORWARDED:
            value = ("x",) if field.name == "only" else True
            changed = replace(Options(tmp_path), **{field.name: value})
            assert changed.flags()[0] in known, field.name


def test_choices_left_at_their_default_are_not_told(tmp_path: Path) -> None:
    assert Options(tmp_path, detach=True, dry_run=True).flags() == []
    assert Options(tmp_path, workers=0).flags() == ["--workers", "0"]


def queue(kind: str) -> JobQueue:
    return job_queue(kind)(kind=kind, cores=1, memory="1GB")


def test_only_jobs_of_slurm_are_queued_workers(finished: Path) -> None:
    spec = finished / "tiny.toml"
    prepared = prepare(spec, results=finished, data_dir=None)
    serial = Request(spec, prepared, Wanted(), None, Options(finished))
    assert serial.settled
    assert not serial.queued
    for options, queued in (
        (queue("slurm"), True),
        (queue("pbs"), False),
        (Local(), False),
    ):
        assert replace(serial, profile=Profile("p", options, None)).queued == queued
