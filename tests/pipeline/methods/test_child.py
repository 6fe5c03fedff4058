"""What runs in the process of the methods, tried in this one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pipeline.methods import child
from pipeline.methods.child import BEGUN, FAILED, LOAD, LOADED, NONE, REFUSED, SOLVE, SOLVED, TABLE, Host
from pipeline.methods.loading import MethodCall

SOURCE = """
import random
import numpy as np
from pipeline import NoSolution, Solution

def labels(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    np.seterr(all="raise")
    return Solution([random.randrange(3), np.random.randint(3)], X.sum())

def none(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    raise NoSolution("no way")

def leaves(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    raise SystemExit(3)

def writes(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, what="X"):
    array = {"X": X, "must": must_link, "weights": weights[0]}[what]
    if what == "X":
        array.setflags(write=True)
    array[0] = 0

def bad(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    return [7, 7]
"""


class Parent:
    """The other end of a connection: what it says, and what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.table = b""

    def send(self, message: tuple[Any, ...]) -> None:
        self.heard.append(message)

    def recv_bytes(self) -> bytes:
        return self.table


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that says something to a host, and returns what it hears."""
    monkeypatch.setattr(child, "threadpool_limits", lambda limits: None)
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    parent = Parent()
    host = Host(parent)  # type: ignore[arg-type]
    parent.table = np.arange(4.0).tobytes()
    host.answer((TABLE, (2, 2)))

    def say(attribute: str, seed: int = 0, **options: Any) -> list[tuple[Any, ...]]:
        parent.heard.clear()
        links = np.array([[0, 1]])
        arguments = {"n_clusters": 3, "must_link": links, "cannot_link": links.copy(), "accuracy": None}
        arguments |= {"weights": (np.ones(1), np.ones(1)), "random_state": 1}
        host.answer((SOLVE, MethodCall("mine", f"mine.py:{attribute}", SOURCE, options), seed, arguments))
        return list(parent.heard)

    say.host, say.parent = host, parent  # type: ignore[attr-defined]
    yield say
    random.setstate(before[0])
    np.random.set_state(before[1])  # noqa: NPY002


def test_an_answer_is_checked_and_timed(talk: Any) -> None:
    begun, (kind, solution, seconds, cpu_seconds) = talk("labels")
    assert begun == (BEGUN,)
    assert kind == SOLVED
    assert solution.labels.dtype == np.int16
    assert solution.objective == 6.0
    assert 0 <= cpu_seconds < 10
    assert 0 < seconds < 10


def test_what_is_drawn_globally_goes_by_its_seed(talk: Any) -> None:
    drawn = [talk("labels", seed)[1][1].labels.tolist() for seed in (*range(8), *range(8))]
    assert drawn[:8] == drawn[8:]
    assert len({tuple(each) for each in drawn}) > 1


def test_numpy_settings_of_a_call_end_with_it(talk: Any) -> None:
    before = np.geterr()
    talk("labels")
    assert np.geterr() == before


def test_no_solution_and_failures_are_told_apart(talk: Any) -> None:
    kind, reason, *seconds = talk("none")[1]
    assert (kind, reason) == (NONE, "no way")
    assert all(0 <= each < 10 for each in seconds)
    assert talk("bad")[1] == (FAILED, "BadAnswer: labels: found 7, expected 0 to 2", "")
    kind, cause, text = talk("leaves")[1]
    assert (kind, cause) == (FAILED, "SystemExit: 3")
    assert text.splitlines()[1] == '  File "mine.py", line 14, in leaves'
    ((kind, error),) = talk("labls")
    assert kind == REFUSED
    assert "did you mean 'labels'" in str(error)


@pytest.mark.parametrize("what", ["X", "must", "weights"])
def test_nothing_can_be_written_to(talk: Any, what: str) -> None:
    kind, cause, _ = talk("writes", what=what)[1]
    assert kind == FAILED
    assert cause.startswith("ValueError: ")
    assert "read-only" in cause or "WRITEABLE" in cause


def test_loading_tells_the_version(talk: Any) -> None:
    talk.parent.heard.clear()
    talk.host.answer((LOAD, MethodCall("mine", "mine.py:labels", SOURCE)))
    talk.host.answer((LOAD, MethodCall("mine", "mine.py:labels", "raise OSError('no licence')")))
    loaded, (kind, cause, text) = talk.parent.heard
    assert loaded == (LOADED, "")
    assert (kind, cause) == (FAILED, "OSError: no licence")
    assert text.splitlines()[1] == '  File "mine.py", line 1, in <module>'
