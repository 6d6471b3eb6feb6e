"""Requests to the witnesses of the public log for cosignatures (C2SP tlog-witness)."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import structlog

from shuffledp_core.documents.models import Witness
from shuffledp_core.errors import ConfigError, DocumentError, LogProofError, UnreachableError
from shuffledp_core.transparency.cosignatures import check_cosignature, witness_key
from shuffledp_core.transparency.notes import parse_note
from shuffledp_core.transparency.proofs import AddCheckpoint
from shuffledp_core.transparency.tree import MerkleTree

SECONDS: Final = 3.0
"""Longest time for an answer of a witness; all are asked at the same time."""

_MOST_BYTES: Final = 4096
"""Longest answer of a witness."""

_SIZE_DIGITS: Final = 19


class WitnessAnswer(StrEnum):
    """Outcome of a request to a witness for one cosignature."""

    COSIGNED = "cosigned"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


CountAnswer: TypeAlias = Callable[[str, WitnessAnswer], None]
"""Called with a witness's name and its answer, from several threads."""


class WitnessClient:
    """Client of one witness: requests cosignatures and checks them."""

    def __init__(self, witness: Witness, seconds: float = SECONDS) -> None:
        address = urlsplit(witness.address)
        if address.scheme not in {"http", "https"} or address.hostname is None:
            raise ConfigError(
                f"the address of witness {witness.name!r} in the roster is not an http(s) URL: "
                f"{witness.address[:80]!r}"
            )
        self.name = witness.name
        self._address = address
        self._key = witness_key(witness.name, bytes.fromhex(witness.public_key))
        self._seconds = seconds
        self._size = 0

    def cosign(self, note: str, tree: MerkleTree) -> str:
        """The checked cosignature line under a checkpoint over all of a tree.

        Raises:
            UnreachableError: the witness does not answer in time.
            LogProofError: the witness refuses, because it has seen another history or for another
                reason.
            DocumentError: the witness's answer is not its cosignature.
        """
        status, answer = self._ask(note, tree)
        if status == http.HTTPStatus.CONFLICT:
            # It knows another size than we remember, such as after our restart.
            self._size = self._parse_size(answer, tree)
            status, answer = self._ask(note, tree)
        if status != http.HTTPStatus.OK:
            raise LogProofError(f"witness {self.name} refuses to cosign (HTTP status {status})")
        line = self._own_line(note, answer)
        self._size = tree.size
        return line

    def _ask(self, note: str, tree: MerkleTree) -> tuple[int, bytes]:
        proof = tree.consistency_proof(self._size)
        body = AddCheckpoint(self._size, tuple(proof), note.encode()).to_bytes()
        path = f"{self._address.path.rstrip('/')}/add-checkpoint"
        try:
            with self._connection() as connection:
                connection.request("POST", path, body, {"Content-Type": "text/plain"})
                answer = connection.getresponse()
                data = answer.read(_MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"witness {self.name} does not answer: {error}") from error
        if len(data) > _MOST_BYTES:
            raise LogProofError(f"witness {self.name} answered with more than {_MOST_BYTES} bytes")
        return answer.status, data

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        """Context with a connection that is closed after `seconds`, however slow its bytes are."""
        is_tls = self._address.scheme == "https"
        kind = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
        connection = kind(self._address.hostname or "", self._address.port, timeout=self._seconds)
        connection.connect()
        watch = threading.Timer(self._seconds, _shut, [connection.sock])
        watch.daemon = True
        watch.start()
        try:
            yield connection
        finally:
            watch.cancel()
            connection.close()

    def _parse_size(self, answer: bytes, tree: MerkleTree) -> int:
        digits = answer.removesuffix(b"\n")
        if not digits.isdigit() or len(digits) > _SIZE_DIGITS or int(digits) > tree.size:
            raise LogProofError(
                f"witness {self.name} has cosigned another history: this log of {tree.size:,} "
                "entries does not extend what it has signed"
            )
        return int(digits)

    def _own_line(self, note: str, answer: bytes) -> str:
        lines = answer.decode(errors="replace").splitlines(keepends=True)
        for line in lines:
            if not line.startswith(f"\N{EM DASH} {self.name} "):
                continue
            try:
                check_cosignature(parse_note((note + line).encode()), self._key)
            except DocumentError:
                continue
            return line
        raise LogProofError(f"witness {self.name} answered without its cosignature")


def ignore_answer(name: str, answer: WitnessAnswer) -> None:
    """Ignore a witness's answer; the default if no caller counts the answers."""


def collect_cosignatures(
    clients: Sequence[WitnessClient],
    note: str,
    tree: MerkleTree,
    count_answer: CountAnswer = ignore_answer,
) -> dict[str, str]:
    """Cosignature lines by witness; a witness that does not sign is omitted and logged.

    `count_answer` is called once for each witness.
    """
    if not clients:
        return {}
    with ThreadPoolExecutor(len(clients)) as pool:
        lines = pool.map(lambda client: _try_cosign(client, note, tree, count_answer), clients)
        return {client.name: line for client, line in zip(clients, lines, strict=True) if line}


def _try_cosign(
    client: WitnessClient, note: str, tree: MerkleTree, count_answer: CountAnswer
) -> str | None:
    try:
        line = client.cosign(note, tree)
    except (UnreachableError, DocumentError) as error:
        is_away = isinstance(error, UnreachableError)
        count_answer(client.name, WitnessAnswer.UNREACHABLE if is_away else WitnessAnswer.REFUSED)
        structlog.get_logger().warning(
            "checkpoint not cosigned", witness=client.name, reason=str(error)
        )
        return None
    count_answer(client.name, WitnessAnswer.COSIGNED)
    return line


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):  # it has ended by itself
        connected.shutdown(socket.SHUT_RDWR)
