"""Submissions that are sealed before users arrive, on disk.

They fit the keys of one round and no other.

Sealing takes a user's device milliseconds, but a machine that simulates thousands of users needs
all its cores for it: a test that seals while users arrive would measure the sealing. Records lie
one after the other in one file and are read one by one, so that memory does not grow with the
corpus.

    corpus.json     round id, number of users, geometry
    offsets.npy     uint64, shape (users + 1,): where each record begins
    submissions     the records, msgpack of `PreparedSubmission`; secret until the round is over, as
                    on a device
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
import numpy as np

from shuffledp_client.submission import Member, PreparedSubmission
from shuffledp_client.verification import CheckedRound
from shuffledp_core.errors import UsageError
from shuffledp_core.onion.geometry import Geometry
from shuffledp_sim.users.sealing import WORKERS, seal_users

_ABOUT: Final = "corpus.json"
_OFFSETS: Final = "offsets.npy"
_RECORDS: Final = "submissions"


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Round, size and geometry of a corpus."""

    round_id: str
    users: int
    geometry: Geometry


def exists(folder: Path) -> bool:
    """True if the folder has a complete corpus; `corpus.json` is written last."""
    return (folder / _ABOUT).exists()


async def seal_corpus(
    folder: Path,
    verified: CheckedRound,
    chunks: Iterable[list[tuple[int, Member]]],
    pool: ProcessPoolExecutor,
    progress: Callable[[int, int], None],
    total: int,
) -> None:
    """Seal every user's submission into `folder`, which is created and must be empty.

    Args:
        folder: folder of the corpus, readable only by its owner.
        verified: the round.
        chunks: the users in pieces, each the work of one task.
        pool: sealing processes.
        progress: called with the number of users sealed, and their total.
        total: users in all chunks.
    """
    _take(folder)
    loop = asyncio.get_running_loop()
    offsets = [0]
    under_way: deque[asyncio.Future[list[PreparedSubmission]]] = deque()
    with os.fdopen(
        os.open(folder / _RECORDS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
    ) as file:

        async def write_oldest() -> None:
            for prepared in await under_way.popleft():
                offsets.append(offsets[-1] + file.write(msgspec.msgpack.encode(prepared)))
            progress(len(offsets) - 1, total)

        for users in chunks:
            under_way.append(loop.run_in_executor(pool, seal_users, verified, users))
            if len(under_way) >= 2 * WORKERS:
                await write_oldest()
        while under_way:
            await write_oldest()
    np.save(folder / _OFFSETS, np.array(offsets, dtype=np.uint64))
    about = About(verified.round_id, len(offsets) - 1, verified.geometry)
    (folder / _ABOUT).write_bytes(msgspec.json.encode(about))


def _take(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(
                f"{folder} is not empty and holds no complete corpus of submissions; choose a "
                "new folder"
            )
        folder.chmod(0o700)  # it may have been there before
    except OSError as error:
        raise UsageError(
            f"cannot write a corpus of submissions into {folder} ({error.strerror}); choose a "
            "new folder"
        ) from error


class Corpus:
    """A corpus on disk, open for reading. Use as a context manager."""

    def __init__(self, folder: Path, round_id: str, users: int) -> None:
        """Open the corpus; raise `UsageError` if it is damaged, too small, or of another round."""
        try:
            self.about = msgspec.json.decode((folder / _ABOUT).read_bytes(), type=About)
            if self.about.round_id != round_id:
                raise UsageError(
                    f"{folder} was sealed for round {self.about.round_id}, not {round_id}, and "
                    "round keys differ: make a new corpus"
                )
            if self.about.users < users:
                raise UsageError(
                    f"{folder} holds {self.about.users} users; ask for at most that many with "
                    "--users"
                )
            self._offsets = np.load(folder / _OFFSETS, mmap_mode="r", allow_pickle=False)
            if self._offsets.shape != (self.about.users + 1,):
                raise UsageError(
                    f"{folder} is damaged: {_OFFSETS} is not for {self.about.users} users; make "
                    "the corpus again"
                )
            self._file = os.open(
                folder / _RECORDS, os.O_RDONLY
            )  # last: nothing below can fail and leave it open
        except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
            raise UsageError(f"{folder} is not a corpus: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def __getitem__(self, user: int) -> PreparedSubmission:
        """One user's submission, read from disk."""
        begin = int(self._offsets[user])
        end = int(self._offsets[user + 1])
        return msgspec.msgpack.decode(
            os.pread(self._file, end - begin, begin), type=PreparedSubmission
        )
