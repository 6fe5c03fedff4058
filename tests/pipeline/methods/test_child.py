"""Messages of a process of methods arrive as they were sent, and all else is refused in time."""

import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from sweep_clustering.pipeline.methods.child import HEAD, MARK, MOST_TEXT, Channel, Spoilt

Ends = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


def test_what_is_said_is_heard(ends: Ends) -> None:
    channel, theirs = ends
    note = {"": None, "é\n": "\ud800", "number": -0.1}
    shapes = ((), (0, 3), (4,), (2, 3))
    arrays = [np.arange(6)[: np.prod(shape, dtype=int)].reshape(shape) for shape in shapes]
    arrays += [np.array([[0.0, np.nan], [-0.0, 5e-324]]).T, np.array([7], np.int16)]
    Channel(theirs).send(3, 4, note, *arrays)
    kind, number, heard, arrays_heard = channel.receive(limit=5)
    assert kind == 3
    assert number == 4
    assert heard == note
    for array, original in zip(arrays_heard, arrays, strict=True):
        assert array.dtype == original.dtype
        assert array.shape == original.shape
        assert array.tobytes() == original.tobytes()
        if array.size:
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)


@pytest.mark.parametrize(
    "content",
    [
        b"x" * HEAD.size,
        HEAD.pack(MARK, 1, 1, 2**40, 0),
        HEAD.pack(MARK, 1, 1, 2, 2**40),
        HEAD.pack(MARK, 1, 1, 2, 0) + b"{]",
        HEAD.pack(MARK, 1, 1, 17, 0) + b'[{}, [["O", [1]]]',
        HEAD.pack(MARK, 1, 1, 18, 0) + b'[{}, [["O", [1]]]]',
        HEAD.pack(MARK, 1, 1, 21, 101) + b'[{}, [["i1", [101]]]]' + bytes(101),
        HEAD.pack(MARK, 1, 1, 23, 8) + b'[{}, [["f8", [100000]]]]',
        HEAD.pack(MARK, 1, 1, 22, 8) + b'[{}, [["f8", [1, -1]]]]' + b"12345678",
    ],
)
def test_what_is_no_message_is_refused_before_room_is_made(ends: Ends, content: bytes) -> None:
    channel, theirs = ends
    theirs.sendall(content + bytes(64))
    with pytest.raises(Spoilt):
        channel.receive(limit=5, max_bytes=100)


def test_a_message_may_be_as_large_as_its_bounds(ends: Ends) -> None:
    channel, theirs = ends
    numbers = np.arange(100, dtype=np.uint8)
    Channel(theirs).send(1, 1, {}, numbers)
    assert channel.receive(limit=5, max_bytes=100).arrays[0].tolist() == numbers.tolist()
    for length, max_bytes in ((MOST_TEXT, 0.0), (MOST_TEXT + 1, np.inf)):
        note = {"a": "x" * (length - len('[{"a": ""}, []]'))}
        thread = threading.Thread(target=Channel(theirs).send, args=(1, 1, note))
        thread.start()
        assert channel.receive(limit=5, max_bytes=max_bytes).note == note
        thread.join()
    theirs.sendall(HEAD.pack(MARK, 1, 1, MOST_TEXT + 1, 0))
    with pytest.raises(Spoilt):
        channel.receive(limit=5, max_bytes=100)


def test_a_connection_is_quiet_while_nothing_comes_and_it_is_open(ends: Ends) -> None:
    channel, theirs = ends
    assert channel.is_quiet()
    theirs.sendall(b"x")
    assert not channel.is_quiet()
    other, closed = map(Channel, socket.socketpair())
    closed.close()
    assert not other.is_quiet()
    other.close()


def test_a_message_that_comes_in_bits_has_one_limit(ends: Ends) -> None:
    channel, theirs = ends

    def drip() -> None:
        for byte in HEAD.pack(MARK, 1, 1, 7, 0) + b"[{},[]]":
            theirs.sendall(bytes([byte]))
            time.sleep(0.02)

    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(TimeoutError):
        channel.receive(limit=0.2)
    thread.join()
    with pytest.raises(TimeoutError):  # nobody waits for ever to be heard
        channel.send(1, 1, {}, np.zeros(10**6), limit=0.1)
