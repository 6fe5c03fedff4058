"""Where a session shows its questions, and where its keys come from: a terminal, or lines of a pipe."""

from __future__ import annotations

import os
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple, Protocol

import click

CTRL_D, ESCAPE = "\x04", "\x1b"

LONGEST_KEY = 16
"""Bytes."""


class ClosedError(Exception):
    """Nobody is there to see a question."""


class Size(NamedTuple):
    """Of a terminal, in characters."""

    width: int
    height: int


class Console(Protocol):
    """What a session needs."""

    def size(self) -> Size:
        """Room for a question."""

    def show(self, lines: Sequence[str]) -> None:
        """Show a screen, in place of the last one where that can be."""

    def say(self, text: str) -> None:
        """Show one line more."""

    def key(self) -> str:
        """The next key, a small letter; an empty text at the end of the input."""

    def opened(self) -> AbstractContextManager[None]:
        """Prepare for keys inside the block."""


class Terminal:
    """A real terminal: each question has the screen for itself, and keys need no Enter.

    Keys typed before a question is on the screen do not count: they were no answer to it.
    """

    def size(self) -> Size:
        """As it is now: it may have been resized."""
        return Size(*shutil.get_terminal_size((80, 24)))

    def show(self, lines: Sequence[str]) -> None:
        """Clear, and show."""
        with suppress(termios.error):  # the terminal was closed: the next key says so
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        with suppress(OSError):
            click.clear()
        for line in lines:
            self.say(line)

    def say(self, text: str) -> None:
        """Show one line."""
        _echo(text)

    def key(self) -> str:
        """Wait for a key; for one that sends several characters, such as an arrow, these."""
        try:
            sys.stdout.flush()
            found = os.read(sys.stdin.fileno(), LONGEST_KEY)
        except OSError:  # the terminal was closed
            return ""
        text = found.decode(errors="replace").lower()
        return "" if text in ("", CTRL_D) else text if text.startswith(ESCAPE) else text[0]

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hand over keys one by one, without showing them, inside the block."""
        handle = sys.stdin.fileno()
        before = termios.tcgetattr(handle)
        tty.setcbreak(handle)
        try:
            yield
        finally:
            with suppress(termios.error):
                termios.tcsetattr(handle, termios.TCSADRAIN, before)


class Pipe:
    """Lines from stdin, of which the first letter counts."""

    def size(self) -> Size:
        """That of a usual terminal."""
        return Size(80, 24)

    def show(self, lines: Sequence[str]) -> None:
        """Show the lines below the others."""
        for line in ["", *lines]:
            _echo(line)

    def say(self, text: str) -> None:
        """Show one line."""
        _echo(text)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Nothing is to be prepared."""
        yield

    def key(self) -> str:
        """First letter of the next line that is not blank."""
        for line in iter(sys.stdin.readline, ""):
            if line.strip():
                return str(line.strip()[0].lower())
        return ""


def drop_output() -> None:
    """Send nowhere what is still to be written: at its end Python would fail with it."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _echo(text: str) -> None:
    """Print a line, with what the terminal's encoding lacks replaced."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        click.echo(text.encode(encoding, "replace").decode(encoding))
    except OSError as error:
        raise ClosedError("the terminal was closed") from error
