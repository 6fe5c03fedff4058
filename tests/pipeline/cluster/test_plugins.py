"""Plugins of workers: what a worker says of a connection that broke."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from distributed import Worker
from distributed.comm import CommClosedError

from pipeline.cluster.connect import connect
from pipeline.cluster.plugins import LOSSES, LossesInOneLine
from pipeline.cluster.profiles import Local, Profile
from storage.runfolder.lease import Lease

WORKER = "distributed.worker"
STREAM = "Worker stream died during communication"
HEARTBEAT = "Failed to communicate with scheduler during heartbeat."
GONE = "in <TLS  tls://127.0.0.1:1>:\nStream is closed"


@pytest.fixture
def loggers() -> Iterator[Mapping[str, logging.Logger]]:
    """Those of workers in this process, with the plugin's filter set up twice, as by two workers."""
    loggers = {name: logging.getLogger(name) for name, _ in LOSSES}
    before = [(logger, list(logger.filters), logger.level) for logger in loggers.values()]
    for logger in loggers.values():
        logger.filters.clear()
        logger.setLevel(logging.INFO)
    for _ in range(2):
        LossesInOneLine().setup(None)
    assert {len(logger.filters) for logger in loggers.values()} == {1}
    yield loggers
    for logger, filters, level in before:
        logger.filters[:] = filters
        logger.setLevel(level)


def said(logger: logging.Logger, level: int, error: Exception, message: object, *args: object) -> str:
    """Text that a handler of this level shows of a failure that the logger reports."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    try:
        raise error
    except type(error):
        logger.exception(message, *args)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "message", "args", "start"),
    [
        (WORKER, HEARTBEAT, (), "Failed to communicate with scheduler during heartbeat"),
        (WORKER, "failed during get data with %s -> %s", ("a", "b"), "failed during get data with a -> b"),
        (WORKER, f"{STREAM}: %s", ("b",), f"{STREAM}: b"),
        ("distributed.nanny", "Worker process died unexpectedly", (), "Worker process died unexpectedly"),
    ],
)
def test_a_connection_that_broke_is_one_warning(
    loggers: Mapping[str, logging.Logger], name: str, message: str, args: tuple[str, ...], start: str
) -> None:
    error = CommClosedError(GONE)
    expected = f"WARNING {start}: CommClosedError: in <TLS tls://127.0.0.1:1>: Stream is closed\n"
    assert said(loggers[name], logging.INFO, error, message, *args) == expected
    assert said(loggers[name], logging.ERROR, error, message, *args) == "", "as local workers show it"
    loggers[name].setLevel(logging.ERROR)
    assert said(loggers[name], logging.INFO, error, message, *args) == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CommClosedError(GONE), "Unexpected exception during heartbeat. Closing worker."),
        (CommClosedError(GONE), CommClosedError(GONE)),
        (ValueError("a fault"), HEARTBEAT),
    ],
)
def test_any_other_report_keeps_its_traceback(
    loggers: Mapping[str, logging.Logger], error: Exception, message: object
) -> None:
    text = said(loggers[WORKER], logging.ERROR, error, message)
    assert text.startswith(f"ERROR {message}\nTraceback")


class Leaving:
    """A scheduler that has closed its connections."""

    async def heartbeat_worker(self, **report: object) -> None:
        raise CommClosedError(GONE)


async def lose_a_heartbeat(dask_worker: Worker) -> int:
    """Make one heartbeat of a worker fail; how many filters its logger has."""
    scheduler, dask_worker.scheduler = dask_worker.scheduler, Leaving()
    try:
        await dask_worker.heartbeat()
    finally:
        dask_worker.scheduler = scheduler
    await dask_worker.heartbeat()
    return len(logging.getLogger(WORKER).filters)


def test_a_heartbeat_that_fails_shows_no_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As when the scheduler closes before its workers: a run that is stopped ends without one."""
    profile = Profile("local", Local(workers=2, dashboard_port=0), None)
    with Lease.acquire(tmp_path / "a.zarr") as lease, connect(profile, lease=lease) as client:
        assert list(client.run(lose_a_heartbeat).values()) == [1, 1]
        assert len(client.nthreads()) == 2, "a heartbeat that failed ends no worker"
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert "heartbeat" not in out + err
