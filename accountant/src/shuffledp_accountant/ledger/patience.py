"""PostgreSQL connections with a time limit for every answer of the server.

A server that is frozen keeps its connections, and its kernel acknowledges what is sent: no time-out
of TCP or of the server itself ends the waiting. So the client does. The driver is imported when it
is used: it is an extra.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

ANSWER_SECONDS: Final = 8.0
"""Limit for the answer to one question; a healthy server answers in milliseconds."""


def connect_with_patience(
    _dialect: Any, _record: Any, args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Handler of SQLAlchemy's `do_connect`: every wait is limited to `ANSWER_SECONDS`."""
    return _patient_connection().connect(*args, **options)


@cache
def _patient_connection() -> Any:
    import psycopg

    class PatientConnection(psycopg.Connection[Any]):
        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            """The driver's `wait`, with a time limit.

            Raises `OperationalError` without SQLSTATE, as for a server that is away.

            An unanswered commit may have succeeded: a repeated call then finds its certificate.
            """
            bound = ANSWER_SECONDS if timeout is None else min(timeout, ANSWER_SECONDS)
            began = time.monotonic()
            try:
                return super().wait(gen, interval, timeout=bound)
            except psycopg.OperationalError as error:
                if time.monotonic() - began < bound:
                    raise
                # what it still waits for would be taken for the answer to the next question
                self.pgconn.finish()
                raise psycopg.OperationalError(f"no answer for {bound:g} s") from error

    return PatientConnection
