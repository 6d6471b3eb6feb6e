"""Structured logs on standard error.

No value, no tag, and no link from a user to a message is ever logged.
"""

from __future__ import annotations

import logging
import sys

import structlog

from shuffledp_core.errors import ConfigError


def configure_logs(level: str) -> None:
    """JSON lines from `level` ("debug", "info", "warning", "error") upwards."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ConfigError(f"log_level must be debug, info, warning or error, not {level!r}")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: structlog.PrintLogger(
            sys.stderr
        ),  # looked up when used: it may be replaced
    )
