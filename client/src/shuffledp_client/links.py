"""Links from a device to analyst and entry node: by gRPC, or through an HTTPS gateway.

A link only transports: the device verifies everything that comes over it, whichever link it is.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shuffledp_client.config import ClientConfig
from shuffledp_client.submission import PreparedSubmission
from shuffledp_client.transport import AnalystReader, Announcing, Backoff, EntryNode, RoundEnd
from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.documents.signed import Signed


class Reader(Announcing, Protocol):
    """Reads the documents that the analyst publishes, without verifying them.

    `transport.AnalystReader` has the details.
    """

    async def ending(self, round_id: str) -> RoundEnd:
        """The signed result and related documents. Raises `UnknownRoundError` before the end."""
        ...

    async def result(self, round_id: str) -> Signed:
        """The signed result alone."""
        ...

    async def board(self, round_id: str, length: int) -> bytes:
        """The board of `length` bytes. Raises `BadBatchError` if another length arrives."""
        ...

    async def tile(self, round_id: str, index: int) -> bytes:
        """A tile of the board. Raises `UnknownRoundError` if there is none."""
        ...


class EntryLink(Protocol):
    """Destination of submissions; `transport.EntryNode` has the details."""

    async def submit(self, prepared: PreparedSubmission) -> Signed:
        """Send a submission, with retries, and return the checked receipt."""
        ...


class Link(Protocol):
    """Connections to analyst and entry node; each is opened for a `with` block."""

    def reader(self) -> AbstractAsyncContextManager[Reader]:
        """Open a connection to read what the analyst publishes."""
        ...

    def entry(self, party: Party) -> AbstractAsyncContextManager[EntryLink]:
        """Open a connection to the entry node of a round."""
        ...


@dataclass(frozen=True)
class GrpcLink:
    """A link by gRPC calls to analyst and entry node themselves."""

    keys: Path
    roster: Roster
    backoff: Backoff

    def reader(self) -> AnalystReader:
        """See `Link`."""
        return AnalystReader.of(self.keys, self.roster, self.backoff)

    def entry(self, party: Party) -> EntryNode:
        """See `Link`."""
        return EntryNode(party, self.keys, self.roster, self.backoff)


def link_to(config: ClientConfig, roster: Roster, backoff: Backoff) -> Link:
    """The link that a configuration names: to its gateway, if it has one.

    Raises `NotInstalledError` without httpx.
    """
    if config.gateway is None:
        return GrpcLink(config.keys, roster, backoff)
    from shuffledp_client.https import HttpsLink

    return HttpsLink(config.gateway.address, config.keys, roster, backoff)
