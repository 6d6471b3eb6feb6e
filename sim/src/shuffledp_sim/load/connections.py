"""Many separate TLS connections from one process.

gRPC lets channels of one process to one address share a connection ("global subchannel pool"), and
its calls would then queue at one socket as no real users' calls do. `own_connection` gives each
channel a pool of its own. Connections are made before the arrivals begin, and their handshakes are
timed apart: what is measured later is submitting alone.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_client.transport import Backoff, EntryNode
from shuffledp_client.verification import CheckedRound
from shuffledp_core.errors import UsageError
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import Deployment

HANDSHAKES: Final = 32
"""Most handshakes under way at once; more only queue at the processors of both sides."""

OTHER_FILES: Final = 256
"""Open files that driver and node need besides one per connection."""

_ONCE: Final = Backoff(attempts=1)
_ESTABLISHED: Final = "01"


@dataclass(frozen=True)
class EntryConnections:
    """Open connections. `handshakes`: seconds that each took, shape (connections,)."""

    entries: tuple[EntryNode, ...]
    handshakes: NDArray[np.float64]


def allow_open_files(connections: int) -> None:
    """Ensure that this process and its children may open this many connections.

    Raises:
        UsageError: the hard limit forbids it.
    """
    needed = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{connections} connections need {needed} open files, but this process may have only "
            f"{hard}; raise the hard limit (ulimit -Hn, or LimitNOFILE of the service) or ask "
            "for fewer --connections"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@asynccontextmanager
async def connect_users(
    deployment: Deployment,
    verified: CheckedRound,
    count: int,
    progress: Callable[[int, int], None],
) -> AsyncIterator[EntryConnections]:
    """Context with `count` connections to the round's entry node, each ready for calls.

    None of them retries by itself.

    Raises:
        UnreachableError: the node does not answer.
    """
    places = asyncio.Semaphore(HANDSHAKES)
    seconds: list[float] = []
    async with AsyncExitStack() as stack:
        keys, roster = deployment.keys_of(CLIENT), deployment.roster
        entries = [
            await stack.enter_async_context(
                EntryNode(verified.entry, keys, roster, _ONCE, own_connection=True)
            )
            for _ in range(count)
        ]

        async def shake(entry: EntryNode) -> None:
            async with places:
                began = time.perf_counter()
                await entry.ready()
                seconds.append(time.perf_counter() - began)
                progress(len(seconds), count)

        await asyncio.gather(*map(shake, entries))
        yield EntryConnections(tuple(entries), np.array(seconds))


def established_to(address: str) -> int | None:
    """Number of this process's open TCP connections to a port, from the kernel's table.

    None without one.
    """
    port = f"{int(address.rpartition(':')[2]):04X}"
    tables = [
        table
        for table in (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
        if table.exists()
    ]
    if not tables:
        return None
    # The table is that of the whole network namespace: only sockets among our own descriptors are
    # ours.
    ours = {_target(link) for link in Path("/proc/self/fd").iterdir()}
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return sum(
        row[2].rpartition(":")[2] == port
        and row[3] == _ESTABLISHED
        and f"socket:[{row[9]}]" in ours
        for row in rows
    )


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed since the folder was listed
        return ""
