"""Numbers and times in words, and lines of a log that are ours alone."""

import logging

import pytest

from pipeline.common import PlainFormatter, duration, plural, span

FORGED = "12:00 INFO done"


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\u2028", "\x1b[2J\r", "\udcff\x00"])
def test_each_line_of_a_log_begins_as_ours_do(separator: str) -> None:
    text = f"a{separator}{FORGED}"
    record = logging.makeLogRecord({"name": "n", "levelname": "ERROR", "msg": "%s", "args": (text,)})
    lines = PlainFormatter("%(levelname)s %(name)s: %(message)s").format(record).split("\n")
    assert all(line.startswith("ERROR n: ") and line.isprintable() for line in lines)
    assert (record.msg, record.args) == ("%s", (text,)), "other handlers see it as it was"


def test_a_traceback_is_lines_of_ours_as_well() -> None:
    try:
        raise ValueError("a\x1b\nb")
    except ValueError as error:
        known = {"msg": "no", "exc_info": (ValueError, error, error.__traceback__)}
    lines = PlainFormatter("> %(message)s").format(logging.makeLogRecord(known)).split("\n")
    assert lines[0] == "> no"
    assert lines[-2:] == [r"> ValueError: a\x1b", "> b"]


def test_words() -> None:
    assert [duration(seconds) for seconds in (3661, -1)] == ["1:01:01", "0:00:00"]
    assert [span(seconds) for seconds in (86_400, 59.9)] == ["1 day", "59 seconds"]
    assert [plural(count, "mouse", "mice") for count in (0, 1, 2_000)] == ["0 mice", "1 mouse", "2,000 mice"]
