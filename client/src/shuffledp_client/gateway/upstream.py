"""The gateway's calls to analyst and entry nodes, each without retries: devices retry."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_client.http_api import MAX_DISCARDS, ResultBody, SubmissionBody
from shuffledp_client.transport import AnalystReader, Backoff, EntryNode
from shuffledp_client.verification import parse_announcement
from shuffledp_core.documents.models import Manifest, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    BadBatchError,
    ForeignDocumentError,
    MalformedDocumentError,
    RoundKeyError,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Role

_ONCE: Final = Backoff(attempts=1)

MAX_ROUNDS: Final = 1000
"""Rounds whose entry node is remembered."""


class Upstream:
    """Open channels to analyst and entry nodes.

    Every method raises the parties' own errors, and `UnreachableError`.
    """

    def __init__(self, keys: Path, roster: Roster) -> None:
        self._keys = keys
        self._roster = roster
        self._analyst = AnalystReader.of(keys, roster, _ONCE)
        self._nodes: dict[str, EntryNode] = {}
        self._entries: OrderedDict[str, str] = OrderedDict()

    async def announcement(self, round_id: str | None = None) -> bytes:
        """The announcement, exactly as the analyst sent it."""
        return await self._analyst.announcement(round_id)

    async def ending(self, round_id: str) -> ResultBody:
        """Result, discards and proof of the public log, exactly as the analyst sent them."""
        end = await self._analyst.ending(round_id)
        try:
            log = msgspec.UNSET if end.log is None else end.log.decode()
        except UnicodeDecodeError as error:
            raise MalformedDocumentError("the proof of the public log is not text") from error
        return ResultBody(result=end.result, discards=end.discards[:MAX_DISCARDS], log=log)

    async def board(self, round_id: str) -> AsyncGenerator[bytes, None]:
        """The board, in pieces as they arrive."""
        # A connection of its own: the analyst hangs up on a reader who stalls, and others must not
        # hang with it.
        reader = AnalystReader(
            self._roster.analyst, self._keys, self._roster, _ONCE, own_connection=True
        )
        async with reader as analyst, aclosing(analyst.pieces(round_id)) as pieces:
            size = 0
            async for offset, data in pieces:
                if offset != size:
                    raise BadBatchError(
                        f"the next piece should begin at offset {size}, but one at offset "
                        f"{offset} arrived"
                    )
                size += len(data)
                yield data

    async def tile(self, round_id: str, index: int) -> bytes:
        """A tile of the board, exactly as the analyst sent it."""
        return await self._analyst.tile(round_id, index)

    async def submit(self, round_id: str, body: SubmissionBody) -> Signed:
        """Forward a sealed submission to its round's entry node; return the unverified receipt."""
        node = await self._entry(round_id)
        return await node.deliver(round_id, body.credential, body.claim, body.envelope)

    async def close(self) -> None:
        """Close all channels."""
        for channel in (self._analyst, *self._nodes.values()):
            await channel.__aexit__(None, None, None)

    async def _entry(self, round_id: str) -> EntryNode:
        name = self._entries.get(round_id)
        if name is None:
            # The analyst's signature decides where envelopes go. Devices check more, and seal for
            # what they checked.
            announcement = parse_announcement(await self._analyst.announcement(round_id))
            manifest = verify_from(self._roster.analyst, announcement.manifest, Manifest)
            if manifest.round_id != round_id:
                raise ForeignDocumentError(
                    "the analyst answered with the announcement of a different round"
                )
            name = manifest.route[0].signer if manifest.route else ""
            if name not in {
                party.name for party in self._roster.parties if party.role == Role.NODE
            }:
                raise RoundKeyError(
                    f"the round's entry node {name[:80]!r} is not a node of the roster"
                )
            self._entries[round_id] = name
            if len(self._entries) > MAX_ROUNDS:
                self._entries.popitem(last=False)
        if name not in self._nodes:
            self._nodes[name] = EntryNode(self._roster.party(name), self._keys, self._roster, _ONCE)
        return self._nodes[name]
