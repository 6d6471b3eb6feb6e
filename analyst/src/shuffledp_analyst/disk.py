"""The analyst on a full disk: it refuses new work, and open rounds wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import structlog

from shuffledp_analyst.peers import MAX_RETRY_SECONDS, RETRY_SECONDS
from shuffledp_core.errors import DiskError
from shuffledp_core.runtime.files import is_disk_full

T = TypeVar("T")


@contextmanager
def typed_disk_errors() -> Iterator[None]:
    """Context that logs every `OSError` of the block and raises it as `DiskError`."""
    try:
        yield
    except OSError as error:
        structlog.get_logger().error("disk failure in the state folder", reason=str(error))
        raise DiskError(
            f"the analyst cannot write to its state folder ({error.strerror or error}): free "
            f"some space or repair the disk, then retry"
        ) from error


async def write_when_room(write: Callable[[], Awaitable[T]]) -> T:
    """Repeat a write until the disk has room for it; return its result.

    Args:
        write: the write; if it fails, it must leave a state from which it can be repeated.

    Raises:
        OSError: the write failed for another reason than a full disk.
    """
    log = structlog.get_logger()
    pause = RETRY_SECONDS
    paused = False
    while True:
        try:
            written = await write()
        except OSError as error:
            if not is_disk_full(error):
                raise
            if not paused:
                log.warning(
                    "disk of the state folder is full: rounds wait for free space",
                    reason=str(error),
                )
            paused = True
        else:
            if paused:
                log.info("disk of the state folder has free space again")
            return written
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_RETRY_SECONDS)
