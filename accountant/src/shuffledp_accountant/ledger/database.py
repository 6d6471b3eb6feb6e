"""Database of the ledger: SQLite (default) or PostgreSQL, with the same errors for both.

SQLite runs in WAL mode with synchronous=FULL (a commit is on the disk when it returns), every
transaction begins IMMEDIATE (no two writers ever hold the same snapshot), and a busy database is
waited for. PostgreSQL keeps its defaults, which are as strict; what is read and then changed is
guarded by revisions in `ledger`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from shuffledp_accountant.ledger.patience import connect_with_patience
from shuffledp_core.errors import ConfigError, LedgerAwayError, LedgerError

BUSY_SECONDS: Final = 10
"""Limit for a transaction that waits for another writer; each holds the database for milliseconds.
"""

POOL_SECONDS: Final = 10
"""Limit for a thread that waits for a connection that others hold."""

_AWAY_CLASSES: Final = ("08", "53", "57")
"""SQLSTATE classes: connection lost, out of resources, the server starts or stops."""

_SERVER_PATIENCE: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""libpq parameters (seconds; the last in milliseconds): a server behind a cut line is given up, not
waited for.
"""

_ADVISORY_LOCK: Final = 0x73687564  # any constant; held while the schema is upgraded


def open_database(url: str) -> Engine:
    """Open a ledger's database, which is created or upgraded to this version's schema.

    Raises:
        ConfigError: the URL is not one, or its driver is not installed.
        LedgerError: the database is damaged, of a newer version, or cannot be reached.
    """
    address = _parse(url)
    with failures():
        engine = _engine(address)
    try:
        with failures(), engine.begin() as connection:
            _check_integrity(connection)
            _upgrade(connection)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def failures() -> Iterator[None]:
    """Context that turns errors of the database and its driver into `LedgerError`.

    Raises `LedgerAwayError` if the server is unreachable, starting, stopping or out of disk space:
    callers retry.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        if _is_full(error):
            raise LedgerAwayError(
                f"the ledger's disk is full: {cause}; nothing was changed; free some space and "
                f"retry"
            ) from error
        if _is_away(error):
            raise LedgerAwayError(
                f"the ledger's database does not answer: {cause}; start it and retry"
            ) from error
        raise LedgerError(
            f"the ledger's database failed: {cause}; nothing was changed; check the file or "
            "server, and restore a backup if it is damaged"
        ) from error


def _is_full(error: SQLAlchemyError | sqlite3.Error) -> bool:
    """True if SQLite found no disk space, for the database or for the index of its log."""
    cause = getattr(error, "orig", error)
    return getattr(cause, "sqlite_errorcode", 0) in {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }


def _is_away(error: SQLAlchemyError | sqlite3.Error) -> bool:
    """True if the database is unreachable at present.

    An error without an SQLSTATE is the driver's own: it found no server.
    """
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    if isinstance(
        error.orig, sqlite3.Error
    ):  # the low byte: SQLite's extended codes say more of the same kind
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in {
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_LOCKED,
        }
    state = getattr(error.orig, "sqlstate", None)
    return state is None or state[:2] in _AWAY_CLASSES


def _parse(url: str) -> URL:
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            "the ledger's URL is not a database URL such as sqlite:///state/ledger.db"
        ) from error
    kind = address.get_backend_name()
    # A ledger in memory would forget at every restart what was spent.
    if kind == "sqlite" and address.database in {None, "", ":memory:"}:
        raise ConfigError("the ledger's SQLite URL names no file; use sqlite:///path/to/ledger.db")
    if kind == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise ConfigError(f"the ledger runs on sqlite or postgresql, not on {kind!r}")
    return address


def _engine(address: URL) -> Engine:
    if address.get_backend_name() == "sqlite":
        _create_private(Path(str(address.database)))
        engine = create_engine(
            address, connect_args={"timeout": BUSY_SECONDS}, pool_timeout=POOL_SECONDS
        )
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_immediate)
        return engine
    try:
        # What the URL itself says goes first.
        patience = {
            key: value for key, value in _SERVER_PATIENCE.items() if key not in address.query
        }
        engine = create_engine(
            address, pool_pre_ping=True, pool_timeout=POOL_SECONDS, connect_args=patience
        )
    except ImportError as error:
        raise ConfigError(
            "PostgreSQL needs its driver: install shuffledp-accountant[postgres], or use a "
            "sqlite:/// URL"
        ) from error
    event.listen(engine, "do_connect", connect_with_patience)
    return engine


def _create_private(path: Path) -> None:
    """Create an empty file that only this user can read; SQLite's other files get the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before SQLite makes it with the process's umask. No O_TRUNC and no O_EXCL: an existing
        # ledger stays as it is.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ConfigError(
            f"cannot open the ledger {path}: {error.strerror}; check the path and permissions"
        ) from error


def _configure_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = (
        None  # the driver begins nothing by itself; `_begin_immediate` does
    )
    connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL, the custom with WAL, may lose the last commits with the power: a certificate would
    # lack its charge.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_immediate(connection: Connection) -> None:
    # A deferred transaction that reads first may fail when it writes: another writer's commit has
    # made it stale.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _check_integrity(connection: Connection) -> None:
    """Let SQLite check all its pages, to find damage at the start and not during a round."""
    if connection.dialect.name == "sqlite":
        verdict = connection.execute(text("PRAGMA integrity_check")).scalars().all()
        if verdict != ["ok"]:
            raise LedgerError(f"the ledger's database is damaged: {verdict[0]}; restore a backup")


def _upgrade(connection: Connection) -> None:
    """Upgrade the schema to this version's.

    Runs in the caller's transaction: all of it happens, or nothing.
    """
    if connection.dialect.name == "postgresql":
        # Of two accountants that start at once the second waits, and finds the schema upgraded; a
        # crash frees the lock.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    config = Config()
    config.set_main_option("script_location", "shuffledp_accountant.ledger:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        newest = ScriptDirectory.from_config(config).get_current_head()
        raise LedgerError(
            "the ledger was written by another version of this software (this one knows schema "
            f"{newest}): {error}; run the version that wrote it, or a newer one"
        ) from error
