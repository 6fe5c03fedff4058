"""Signals: raised at once, or held back while files are written."""

from __future__ import annotations

import signal

import pytest

from pipeline.run.signals import Stopped, stop_on_signal, uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_stops_at_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as caught, stop_on_signal():
        signal.raise_signal(number)
    assert caught.value.number == number
    assert signal.getsignal(number) is before


def test_under_nohup_a_closed_terminal_stops_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signal(), uninterrupted():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_waits_for_the_end_of_a_write() -> None:
    done = []

    def write() -> None:
        with stop_on_signal(), uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            done.append("written")

    with pytest.raises(Stopped):
        write()
    assert done == ["written"]
