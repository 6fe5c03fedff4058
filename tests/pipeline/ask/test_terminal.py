"""Where keys come from."""

from __future__ import annotations

import io
import os
import pty
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pipeline.ask.terminal import ClosedError, Pipe, Size, Terminal


def test_lines_of_a_pipe_are_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n\n  No\nq"))
    pipe = Pipe()
    assert [pipe.key() for _ in range(4)] == ["y", "n", "q", ""]
    assert pipe.size() == Size(80, 24)


class Screen:
    """Both ends of a pseudo-terminal, one of them as stdin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.far, near = pty.openpty()
        self.near = open(near, "rb", buffering=0)  # noqa: SIM115  # closed below
        monkeypatch.setattr(sys, "stdin", self.near)

    def type(self, keys: bytes) -> None:
        os.write(self.far, keys)
        select.select([self.near], [], [], 10)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    found = Screen(monkeypatch)
    yield found
    found.near.close()


@pytest.mark.parametrize(
    ("typed", "key"),
    [(b"Y", "y"), (b"\x04", ""), (b"\x1b[A", "\x1b[a"), (b"\xc3\x9f", "\u00df"), (b"\xff", "\ufffd")],
)
def test_keys_of_a_terminal(typed: bytes, key: str, screen: Screen) -> None:
    with Terminal().opened():
        screen.type(typed)
        assert Terminal().key() == key


def test_keys_typed_before_a_question_do_not_count(screen: Screen) -> None:
    terminal = Terminal()
    with terminal.opened():
        screen.type(b"yyy")
        terminal.show(["?"])
        screen.type(b"n")
        assert terminal.key() == "n"


def test_the_terminal_is_left_as_it_was(screen: Screen) -> None:
    before = termios.tcgetattr(screen.near)
    with suppress(KeyboardInterrupt), Terminal().opened():
        assert termios.tcgetattr(screen.near) != before
        raise KeyboardInterrupt
    assert termios.tcgetattr(screen.near) == before


def test_a_closed_terminal_is_the_end(screen: Screen) -> None:
    with Terminal().opened():
        os.close(screen.far)
        Terminal().show([])
        assert Terminal().key() == ""


def test_characters_that_the_terminal_lacks_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    Pipe().show(["a…b"])
    stream.flush()
    assert stream.buffer.getvalue() == b"\na?b\n"  # type: ignore[attr-defined]


def test_a_closed_output_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("click.echo", fail)
    with pytest.raises(ClosedError):
        Pipe().say("?")
