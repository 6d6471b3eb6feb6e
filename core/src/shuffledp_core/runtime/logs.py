"""Structured logs on standard error.

No value, no tag, and no link from a user to a message is ever logged.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from shuffledp_core.errors import ConfigError

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class LevelFilter:
    """Drops log lines below a level that can change while the process runs.

    structlog's own filter is fixed when a logger is bound, and rounds bind theirs when they open.
    """

    def __init__(self, level: str) -> None:
        if level not in LEVELS:
            raise ConfigError(f"log_level must be debug, info, warning or error, not {level!r}")
        self._configured = LEVELS[level]
        self._current = self._configured

    def __call__(
        self, logger: object, method_name: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Return the event if its level is logged, else raise `structlog.DropEvent`."""
        del logger
        if LEVELS.get(method_name, logging.CRITICAL) < self._current:
            raise structlog.DropEvent
        return event

    def toggle_debug(self) -> None:
        """Switch between the configured level and "debug", and log which one is in force."""
        debugging = self._current == logging.DEBUG
        self._current = self._configured if debugging else logging.DEBUG
        level = next(name for name, number in LEVELS.items() if number == self._current)
        structlog.get_logger().warning("log level changed", log_level=level)


def configure_logs(level: str) -> LevelFilter:
    """Log JSON lines of `level` ("debug", "info", "warning", "error") and above.

    Raises:
        ConfigError: there is no such level.
    """
    level_filter = LevelFilter(level.lower())
    structlog.configure(
        processors=[
            level_filter,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *_: structlog.PrintLogger(
            sys.stderr
        ),  # looked up when used: it may be replaced
    )
    return level_filter


def toggle_debug_on_signal() -> None:
    """Let SIGUSR1 switch the running event loop's process to debug lines and back.

    Does nothing where `configure_logs` was not called: there the signal keeps its meaning.
    """
    processors = structlog.get_config()["processors"]
    if processors and isinstance(processors[0], LevelFilter):
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, processors[0].toggle_debug)
