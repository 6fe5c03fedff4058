"""Messages: what is said is heard, and whatever else comes is refused in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from pipeline.methods.frames import _HEAD, _MARK, Channel, Spoilt

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
