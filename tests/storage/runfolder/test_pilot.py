"""What a pilot leaves for the next run: times, and when and where they were measured."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
from cubes.writer import next_generation

from storage.runfolder.pilot import Moment, Pilot, TimedQuestions, TimedRestart, read_pilot


def test_times_and_their_moment_survive_the_file(tmp_path: Path) -> None:
    generation = next_generation(tmp_path / "tiny.zarr")
    assert read_pilot(generation.run) == Pilot()
    pilot = Pilot(
        timed=(TimedRestart("a", "posterior", 0.8, 10, 0.5, 0.25, 0.75),),
        questions=(TimedQuestions("a", "active", 0.8, 16, 2.0, 0.9),),
        moment=Moment(1000.0, "n1", 0.5),
    )
    pilot.write(generation.pilot, generation.files)
    assert read_pilot(generation.run) == pilot


def test_a_file_of_a_version_that_did_not_measure_the_processor_is_read(tmp_path: Path) -> None:
    generation = next_generation(tmp_path / "tiny.zarr")
    Pilot(timed=(TimedRestart("a", "posterior", 0.8, 10, 0.5),)).write(generation.pilot, generation.files)
    values = json.loads(generation.pilot.read_text())
    del values["moment"], values["timed"][0][6:]
    generation.pilot.write_text(json.dumps(values))
    (row,) = read_pilot(generation.run).timed
    assert (row.seconds, row.busy) == (0.5, 1.0)
    assert read_pilot(generation.run).moment is None


def test_now_is_here() -> None:
    moment = Moment.now()
    assert moment.host == socket.gethostname()
    assert moment.at == pytest.approx(time.time(), abs=60)
    assert 0 <= moment.age < 60
    assert moment.load >= 0
