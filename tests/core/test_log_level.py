"""The log level changes while a process runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator

import pytest
import structlog

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.logs import configure_logs, toggle_debug_on_signal


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def printed_events(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]


def test_lines_below_the_configured_level_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("warning")
    log = structlog.get_logger().bind(round="r")
    log.debug("fine")
    log.info("plain")
    log.warning("odd")
    log.error("bad")
    assert printed_events(capsys) == ["odd", "bad"]


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="debug, info, warning or error, not 'loud'"):
        configure_logs("loud")


async def test_a_signal_switches_loggers_that_exist_to_debug_and_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("info")
    log = structlog.get_logger().bind(round="r")
    toggle_debug_on_signal()
    try:
        assert await events_after_signal(capsys) == ["log level changed"]
        log.debug("during")
        assert printed_events(capsys) == ["during"]
        assert await events_after_signal(capsys) == ["log level changed"]
        log.debug("after")
        assert printed_events(capsys) == []
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)


async def events_after_signal(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Send the signal and return the first events that are printed, however long it takes."""
    os.kill(os.getpid(), signal.SIGUSR1)
    while not (events := printed_events(capsys)):  # noqa: ASYNC110 - printed lines wake nobody
        await asyncio.sleep(0)
    return events
