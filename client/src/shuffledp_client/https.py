"""The client's calls over HTTPS to a gateway, which forwards them. docs/reference/gateway.md.

The gateway is untrusted, as any relay: callers verify receipts, announcements and results, every
answer has a maximum length, and TLS checks the gateway's name under the roster's authority.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from shuffledp_client.http_api import (
    ANNOUNCEMENT,
    BOARD,
    BYTES,
    CURRENT,
    JSON,
    MAX_PROBLEM_BYTES,
    RESULT,
    SUBMISSIONS,
    TILE,
    ResultBody,
    SubmissionBody,
    raised_by,
)
from shuffledp_client.submission import PreparedSubmission, check_receipt
from shuffledp_client.transport import (
    BOARD_SECONDS,
    CALL_SECONDS,
    Backoff,
    RoundEnd,
    with_retries,
)
from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, Signed, from_json, to_json
from shuffledp_core.errors import (
    BadBatchError,
    ConfigError,
    NodeFault,
    NotInstalledError,
    UnreachableError,
)
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import require_current
from shuffledp_core.transparency.board_tiles import MAX_TILE_BYTES
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_core.vocabulary import ROUND_ID

try:
    import httpx
except ImportError as error:
    raise NotInstalledError(
        "talking to a gateway needs httpx: pip install 'shuffledp-client[https]'"
    ) from error

_CONNECT_SECONDS: Final = 10.0
_PIECE_SECONDS: Final = 30.0
"""Longest silence within an answer."""

T = TypeVar("T")


class HttpsLink:
    """A link to a gateway; each block has its own connections, as with gRPC."""

    def __init__(self, address: str, keys: Path, roster: Roster, backoff: Backoff) -> None:
        self._address = address
        self._keys = keys
        self._roster = roster
        self._backoff = backoff

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[_HttpsReader]:
        """See `links.Link`."""
        async with self._calls() as calls:
            yield _HttpsReader(calls)

    @asynccontextmanager
    async def entry(self, party: Party) -> AsyncIterator[_HttpsEntry]:
        """See `links.Link`."""
        async with self._calls() as calls:
            yield _HttpsEntry(calls, party)

    @asynccontextmanager
    async def _calls(self) -> AsyncIterator[_Calls]:
        client = httpx.AsyncClient(
            verify=_context(self._keys, self._roster),
            timeout=httpx.Timeout(_PIECE_SECONDS, connect=_CONNECT_SECONDS),
            headers={"accept-encoding": "identity", "user-agent": "shuffledp"},
            follow_redirects=False,
            # A proxy of the environment is for other people's authorities.
            trust_env=False,
        )
        # Closed with the block, also when that is cancelled: a pool that outlives a cancelled call
        # may lose its places.
        async with client:
            yield _Calls(client, self._address, self._backoff)


class _Calls:
    """Calls to one gateway."""

    def __init__(self, client: httpx.AsyncClient, address: str, backoff: Backoff) -> None:
        self._client = client
        self._name = f"the gateway at {address}"
        self._base = f"https://{address}"
        self._backoff = backoff

    async def get(self, path: str, kind: str, most: int, seconds: float = CALL_SECONDS) -> bytes:
        """The body at a path; retries while the gateway is unreachable.

        Raises:
            NodeFault: the answer is longer than `most` bytes, or not of this kind.
            ShuffleDPError: what the gateway refused it with; `UnreachableError`: no attempt was
                answered.
        """

        def ask() -> AbstractAsyncContextManager[httpx.Response]:
            return self._client.stream("GET", self._base + path, extensions=_OF_GATEWAY)

        return await with_retries(lambda: self._answer(ask, kind, most, seconds), self._backoff)

    async def post(self, path: str, body: bytes, most: int) -> bytes:
        """The response to JSON posted to a path; otherwise as `get`."""

        def ask() -> AbstractAsyncContextManager[httpx.Response]:
            return self._client.stream(
                "POST",
                self._base + path,
                content=body,
                headers={"content-type": JSON},
                extensions=_OF_GATEWAY,
            )

        return await with_retries(
            lambda: self._answer(ask, JSON, most, CALL_SECONDS), self._backoff
        )

    async def _answer(
        self,
        ask: Callable[[], AbstractAsyncContextManager[httpx.Response]],
        kind: str,
        most: int,
        seconds: float,
    ) -> bytes:
        try:
            async with asyncio.timeout(seconds), ask() as response:
                if response.status_code != httpx.codes.OK:
                    problem = await self._body(response, MAX_PROBLEM_BYTES)
                    refusal = raised_by(problem, response.status_code, self._name)
                    if isinstance(refusal, UnreachableError):
                        refusal.wait_seconds = _wait_seconds(response)
                    raise refusal
                content_type = response.headers.get("content-type", "").partition(";")[0].strip()
                if content_type != kind:
                    raise NodeFault(
                        f"{self._name} answered with {content_type[:80]!r}, not {kind}: "
                        "is it a gateway?"
                    )
                return await self._body(response, most)
        except TimeoutError as error:
            raise UnreachableError(f"{self._name} did not answer within {seconds:g} s") from error
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            ssl.SSLError,
            OSError,
            UnicodeError,
        ) as error:  # the last: of names
            reason = str(error) or type(error).__name__
            raise UnreachableError(f"{self._name} cannot be reached ({reason})") from error

    async def _body(self, response: httpx.Response, most: int) -> bytes:
        """The body exactly as sent: not decompressed, so that few bytes cannot become many."""
        pieces, size = [], 0
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > most:
                raise NodeFault(
                    f"{self._name} sent more than the {most} bytes that this answer may have"
                )
            pieces.append(piece)
        return b"".join(pieces)


class _HttpsReader:
    """Reads what the analyst publishes, with the methods of `transport.AnalystReader`."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls

    async def announcement(self, round_id: str | None = None) -> bytes:
        """The announcement of this round, or of the newest open one."""
        path = CURRENT if round_id is None else _path(ANNOUNCEMENT, round_id)
        return await self._calls.get(path, JSON, MAX_DOCUMENT_BYTES)

    async def result(self, round_id: str) -> Signed:
        """The signed result."""
        return (await self.ending(round_id)).result

    async def ending(self, round_id: str) -> RoundEnd:
        """The signed result and related documents."""
        data = await self._calls.get(_path(RESULT, round_id), JSON, 2 * MAX_DOCUMENT_BYTES)
        body = from_json(data, ResultBody)
        proof = body.log.encode() if isinstance(body.log, str) else None
        return RoundEnd(body.result, body.discards, proof)

    async def board(self, round_id: str, length: int) -> bytes:
        """The board of `length` bytes."""
        data = await self._calls.get(_path(BOARD, round_id), BYTES, length, BOARD_SECONDS)
        if len(data) != length:
            raise BadBatchError(
                f"the board should have {length} bytes, but {len(data)} arrived; fetch it again"
            )
        return data

    async def tile(self, round_id: str, index: int) -> bytes:
        """A tile of the board."""
        path = _path(TILE, round_id).replace("{index}", str(index))
        return await self._calls.get(path, BYTES, MAX_TILE_BYTES)


class _HttpsEntry:
    """Submits to the entry node, with the methods of `transport.EntryNode`."""

    def __init__(self, calls: _Calls, party: Party) -> None:
        self._calls = calls
        self._party = party

    async def submit(self, prepared: PreparedSubmission) -> Signed:
        """Send a submission and return the receipt, checked to be signed by the entry node."""
        body = SubmissionBody(
            credential=prepared.credential, claim=prepared.claim, envelope=prepared.envelope
        )
        path = _path(SUBMISSIONS, prepared.round_id)
        receipt = Signed.from_bytes(await self._calls.post(path, to_json(body), MAX_DOCUMENT_BYTES))
        check_receipt(prepared, self._party, receipt)
        return receipt


_OF_GATEWAY: Final = {"sni_hostname": str(GATEWAY)}
"""TLS asks for this name wherever the gateway is, as gRPC does for the names of parties."""


def _wait_seconds(response: httpx.Response) -> float:
    """`Retry-After` in seconds; 0 without one.

    The header's other form, a date, is ignored, because it depends on the gateway's clock.
    """
    header = response.headers.get("retry-after", "").strip()
    return float(header) if header.isascii() and header.isdecimal() else 0.0


def _path(pattern: str, round_id: str) -> str:
    if not ROUND_ID.fullmatch(round_id):  # it would change the path
        raise ValueError(f"a round id must be 32 lower-case hex digits, not {round_id!r}")
    return pattern.replace("{round_id}", round_id)


def _context(keys: Path, roster: Roster) -> ssl.SSLContext:
    """TLS that trusts only the roster's authority, with the device's certificate.

    Errors as `tls.channel_to`.
    """
    files = TLSFiles.load(keys, roster.tls_authority).require_valid()
    require_current(roster, system_clock())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=files.authority.decode())
    try:
        context.load_cert_chain(keys / "tls.pem", keys / "tls-key.pem")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"the TLS pair in {keys} cannot be used ({error}); install the device's bundle again"
        ) from error
    return context
