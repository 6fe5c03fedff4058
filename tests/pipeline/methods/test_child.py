"""What runs in the process of the methods, tried in this one."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from pipeline.methods import child
from pipeline.methods.child import (
    _HEAD,
    _MARK,
    BEGUN,
    FAILED,
    LOAD,
    LOADED,
    NONE,
    REFUSED,
    SOLVE,
    SOLVED,
    TABLE,
    TEXT,
    Channel,
    Host,
    Message,
    Spoilt,
)

# Messages: what is said is heard, and whatever else comes is refused in time.

Ends = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    note=some.dictionaries(some.text(), some.text() | some.floats(allow_nan=False) | some.none()),
    given=some.lists(arrays.arrays(some.sampled_from(["f8", "i8", "i2"]), arrays.array_shapes(min_side=0))),
)
def test_what_is_said_is_heard(ends: Ends, note: dict[str, object], given: list[np.ndarray]) -> None:
    channel, theirs = ends
    Channel(theirs).send(3, 4, note, *given)
    kind, number, heard, found = channel.receive(limit=5)
    assert (kind, number, heard) == (3, 4, note)
    assert [(each.dtype, each.shape) for each in found] == [(each.dtype, each.shape) for each in given]
    assert all(
        np.array_equal(*pair, equal_nan=pair[0].dtype.kind == "f") for pair in zip(found, given, strict=True)
    )
    for each in (each for each in found if each.size):
        with pytest.raises(ValueError, match="WRITEABLE"):
            each.setflags(write=True)


@pytest.mark.parametrize(
    "said",
    [
        b"x" * _HEAD.size,
        _HEAD.pack(_MARK, 1, 1, 2**40, 0),
        _HEAD.pack(_MARK, 1, 1, 2, 2**40),
        _HEAD.pack(_MARK, 1, 1, 2, 0) + b"{]",
        _HEAD.pack(_MARK, 1, 1, 17, 0) + b'[{}, [["O", [1]]]',
        _HEAD.pack(_MARK, 1, 1, 18, 0) + b'[{}, [["O", [1]]]]',
        _HEAD.pack(_MARK, 1, 1, 23, 8) + b'[{}, [["f8", [100000]]]]',
        _HEAD.pack(_MARK, 1, 1, 22, 8) + b'[{}, [["f8", [1, -1]]]]' + b"12345678",
    ],
)
def test_what_is_no_message_is_refused_before_room_is_made(ends: Ends, said: bytes) -> None:
    channel, theirs = ends
    theirs.sendall(said)
    theirs.sendall(bytes(64))
    with pytest.raises(Spoilt):
        channel.receive(limit=5, most=100)


@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_a_message_that_comes_in_bits_has_one_limit(ends: Ends, pause: float) -> None:
    channel, theirs = ends
    message = _HEAD.pack(_MARK, 1, 1, 6, 0) + b"[{},[]]"[:6]
    stop = threading.Event()

    def drip() -> None:
        for each in message[:-1]:
            theirs.sendall(bytes([each]))
            if stop.wait(pause):
                return

    thread = threading.Thread(target=drip)
    thread.start()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        channel.receive(limit=0.2)
    stop.set()
    thread.join()
    assert time.monotonic() - started < 5


def test_the_end_of_the_other_side_and_what_is_left_over_are_seen(ends: Ends) -> None:
    channel, theirs = ends
    assert channel.is_quiet()
    theirs.sendall(b"x")
    assert not channel.is_quiet()
    theirs.close()
    with pytest.raises(EOFError):
        channel.receive(limit=5)
    assert not channel.is_quiet()


def test_nobody_waits_for_ever_to_be_heard(ends: Ends) -> None:
    channel, _ = ends
    with pytest.raises(TimeoutError):
        channel.send(1, 1, {}, np.zeros(10**6), limit=0.1)


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


class Caller:
    """The other end of a channel, and what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def send(self, kind: int, number: int, note: dict[str, Any], *arrays: Any) -> None:
        assert number == 7
        self.heard.append((kind, note, *arrays))


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that says something to a host, and returns what it hears."""
    monkeypatch.setattr(child, "threadpool_limits", lambda limits: None)
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    caller = Caller()
    host = Host(caller)  # type: ignore[arg-type]
    links, ones = read_only(np.array([[0, 1]])), read_only(np.ones(1))
    host.answer(Message(TABLE, 0, {}, [read_only(np.arange(4.0).reshape(2, 2))]))

    def say(attribute: str, seed: int = 0, *, kind: int = SOLVE, source: str = SOURCE, **options: Any) -> Any:
        caller.heard.clear()
        method = {"name": "mine", "call": f"mine.py:{attribute}", "source": source, "options": options}
        note = {"n_clusters": 3, "accuracy": None, "random_state": 1, "global_seed": seed, "method": method}
        host.answer(Message(kind, 7, note, [links, links, ones, ones]))
        return list(caller.heard)

    yield say
    random.setstate(before[0])
    np.random.set_state(before[1])  # noqa: NPY002


def read_only(array: Any) -> Any:
    """As it comes out of a channel."""
    return np.frombuffer(memoryview(array.tobytes()), array.dtype).reshape(array.shape)


def test_an_answer_is_checked_and_timed(talk: Any) -> None:
    begun, (kind, note, labels) = talk("labels")
    assert begun == (BEGUN, {})
    assert (kind, note["given"], note["objective"]) == (SOLVED, ["labels"], 6.0)
    assert labels.dtype == np.int16
    assert 0 <= note["cpu_seconds"] < 10
    assert 0 < note["seconds"] < 10


def test_what_is_drawn_globally_goes_by_its_seed(talk: Any) -> None:
    drawn = [talk("labels", seed)[1][2].tolist() for seed in (*range(8), *range(8))]
    assert drawn[:8] == drawn[8:]
    assert len({tuple(each) for each in drawn}) > 1


def test_numpy_settings_of_a_call_end_with_it(talk: Any) -> None:
    before = np.geterr()
    talk("labels")
    assert np.geterr() == before


def test_no_solution_and_failures_are_told_apart(talk: Any) -> None:
    kind, note = talk("none")[1]
    assert (kind, note.pop("reason")) == (NONE, "no way")
    assert all(0 <= each < 10 for each in note.values())
    bad = {"cause": "BadAnswer: labels: found 7, expected 0 to 2", "traceback": ""}
    assert talk("bad")[1] == (FAILED, bad)
    kind, note = talk("leaves")[1]
    assert (kind, note["cause"]) == (FAILED, "SystemExit: 3")
    assert note["traceback"].splitlines()[1] == '  File "mine.py", line 14, in leaves'
    ((kind, note),) = talk("labls")
    assert kind == REFUSED
    assert "did you mean 'labels'" in note["problems"][0]["hint"]


@pytest.mark.parametrize("what", ["X", "must", "weights"])
def test_nothing_can_be_written_to(talk: Any, what: str) -> None:
    kind, note = talk("writes", what=what)[1]
    assert kind == FAILED
    assert note["cause"].startswith("ValueError: ")
    assert "read-only" in note["cause"] or "WRITEABLE" in note["cause"]


def test_loading_tells_the_version(talk: Any) -> None:
    assert talk("labels", kind=LOAD) == [(LOADED, {"version": ""})]
    ((kind, note),) = talk("labels", kind=LOAD, source="raise OSError('no licence')")
    assert (kind, note["cause"]) == (FAILED, "OSError: no licence")
    assert note["traceback"].splitlines()[1] == '  File "mine.py", line 1, in <module>'


@pytest.mark.parametrize("text", ["'x' * 10**7", "'\\udcff\\x00\\u202e'", "Odd()"])
def test_whatever_an_error_says_travels(talk: Any, text: str) -> None:
    source = (
        "class Odd:\n    def __str__(self):\n        raise KeyError\n"
        "class Wrong(Exception):\n    def __str__(self):\n        return self.args[0]\n"
        f"def f(X, *links, **more):\n    raise Wrong({text})\n"
    )
    kind, note = talk("f", source=source)[1]
    assert (kind, note["cause"][:5]) == (FAILED, "Wrong")
    assert len(json.dumps(note)) < TEXT
