"""Logs of a deliberately corrupt node, which follows the protocol and records all it learns.

For experiments: the guarantee is (ε, δ) if one node is honest and ε_L if none is, and an attack
that joins these logs demonstrates both. A corrupt node says so in its round key, and with it in
every manifest, in its status and in its log. docs/protocol.md, section "Corrupt nodes".

LOG/<round>.npz    numpy arrays without pickle, whole or absent, for the owner only:
    header         a `LogHeader` as JSON, in bytes: what the log is of, and the SHA-256 of every
                   other array
    permutation    int64 (records,): outgoing record i is pool record permutation[i]. At node 1 the
                   pool holds m
                   records of each user, in the order of the spool; elsewhere it is the incoming
                   batch, peeled. The node's own dummies follow the pool, at pool.. A pool
                   record that was dropped is nowhere
    incoming       uint8 (units, 16): truncated SHA-256 of every unit that came in; node 1:
                   envelopes, others: records
    outgoing       uint8 (records, 16): as `incoming`, of every record that went out, in the order
                   of the batch
    credentials    uint8 (users, 32), at node 1 only: the sender of each envelope, in the order of
                   the spool
"""

from __future__ import annotations

import hashlib
import sqlite3
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from shuffledp_core.errors import ConfigError, CorruptLogError
from shuffledp_core.runtime.files import commit_part, make_folder, open_part
from shuffledp_shuffler.mixing import Recorder
from shuffledp_shuffler.peel_worker import Layer
from shuffledp_shuffler.permutation import Records
from shuffledp_shuffler.round_state import ENTRY, RoundRecord
from shuffledp_shuffler.store import RoundFolder

VERSION: Final = 1
LINK_BYTES: Final = 16
"""Bytes of SHA-256 by which records of two logs are matched; among 2^40 records two digests are
equal with probability below 2^-48.
"""

CREDENTIAL_BYTES: Final = 32
SUFFIX: Final = ".npz"

_ROWS: Final = 2**14
"""Number of records digested at a time."""

_HEADER: Final = "header"

_UNREADABLE: Final = (
    OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, MemoryError, OverflowError,
    SyntaxError,
    zipfile.BadZipFile, zlib.error, msgspec.MsgspecError,
)  # fmt: skip
"""Exceptions that zip, numpy and JSON raise for a file in another format."""

Arrays: TypeAlias = dict[str, NDArray[np.uint8] | NDArray[np.int64]]
"""Arrays of a log by name."""


class LogHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Round, node and record counts of a log.

    `batch` is the digest of the relayed batch; `arrays` the SHA-256 of each array.

    `records` went out, of which the node added `dummies`; `dropped` more were in the pool.
    """

    version: int
    deployment: str
    round_id: str
    node: str
    position: int
    users: int
    records: int
    batch: str
    arrays: dict[str, str]
    dropped: int = 0
    dummies: int = 0

    @property
    def pool(self) -> int:
        """Number of records before any is dropped or added."""
        return self.records + self.dropped - self.dummies

    @property
    def units(self) -> int:
        """Number of incoming units: envelopes at node 1, records elsewhere."""
        return self.users if self.position == ENTRY else self.pool


@dataclass(frozen=True)
class CorruptLog:
    """A corrupt node's log of one round; array shapes are in the module's docstring.

    `credentials` is present at node 1 only.
    """

    header: LogHeader
    permutation: NDArray[np.int64]
    incoming: NDArray[np.uint8]
    outgoing: NDArray[np.uint8]
    credentials: NDArray[np.uint8] | None


@dataclass(frozen=True)
class Corruption:
    """The log folder of a corrupt node, with its name and deployment."""

    folder: Path
    deployment: str
    node: str

    @classmethod
    def into(cls, folder: Path, deployment: str, node: str) -> Corruption:
        """Create the folder; raise `ConfigError` if that fails."""
        try:
            make_folder(folder)
        except OSError as error:
            raise ConfigError(
                f"cannot use the folder {folder} for --corrupt: {error.strerror}"
            ) from error
        return cls(folder, deployment, node)

    def recorder(self, record: RoundRecord, layer: Layer, folder: RoundFolder) -> Recorder | None:
        """Callback for `mix` that writes the log once the permuted batch is on disk.

        None for a round whose key does not say "corrupt".

        A round that is mixed again after a crash is recorded again, before anything is relayed, so
        the final log describes the order that was sent. If a log cannot be written, that is
        reported, and the round continues.

        Args:
            record: the round's record, with the number of users.
            layer: the layer that the mix removes.
            folder: the round's folder, with the units that are mixed, the outgoing batch, and at
                node 1 the spool's index.
        """
        if not record.own_key().corrupt:
            return None

        geometry = layer.geometry
        pool = (
            record.accepted * geometry.messages_per_user
            if record.is_entry
            else geometry.count_records(record.position, record.accepted, record.dropped_before)
        )
        dummies = geometry.dummies_per_node
        source = folder.envelopes if record.is_entry else folder.incoming

        def write(permutation: NDArray[np.int64], batch: str) -> None:
            units = record.accepted if record.is_entry else pool
            try:
                incoming = _map_rows(source, units, layer.unit_bytes)
                width = geometry.record_bytes(layer.position + 1)
                arrays: Arrays = {
                    "permutation": permutation,
                    "incoming": link_digests(incoming),
                    "outgoing": link_digests(_map_rows(folder.outgoing, len(permutation), width)),
                }
                if record.is_entry:
                    arrays["credentials"] = _senders(incoming, folder.index)
                dropped = pool + dummies - len(permutation)
                header = self._header(record, batch, arrays, dropped, dummies)
                write_log(self.folder / f"{record.round_id}{SUFFIX}", header, arrays)
            except (OSError, sqlite3.Error) as error:
                structlog.get_logger().error(
                    "this corrupt node could not write its log of the round",
                    round=record.round_id,
                    reason=str(error),
                )

        return write

    def _header(
        self, record: RoundRecord, batch: str, arrays: Arrays, dropped: int, dummies: int
    ) -> LogHeader:
        return LogHeader(
            version=VERSION,
            deployment=self.deployment,
            round_id=record.round_id,
            node=self.node,
            position=record.position,
            users=record.accepted,
            records=len(arrays["permutation"]),
            batch=batch,
            arrays={name: _sha256(array) for name, array in arrays.items()},
            dropped=dropped,
            dummies=dummies,
        )


def _map_rows(path: Path, rows: int, width: int) -> Records:
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(rows, width))


def link_digests(records: Records) -> NDArray[np.uint8]:
    """The first 16 bytes of the SHA-256 of every record; shape (records, 16).

    Needs memory for the result and one piece.
    """
    links = np.empty((len(records), LINK_BYTES), dtype=np.uint8)
    for start in range(0, len(records), _ROWS):
        piece = np.ascontiguousarray(records[start : start + _ROWS])
        joined = b"".join(hashlib.sha256(row).digest()[:LINK_BYTES] for row in piece)
        links[start : start + len(piece)] = np.frombuffer(joined, dtype=np.uint8).reshape(
            -1, LINK_BYTES
        )
    return links


def write_log(path: Path, header: LogHeader, arrays: Arrays) -> None:
    """Write a log atomically; raise `OSError` if that fails."""
    head = np.frombuffer(msgspec.json.encode(header), dtype=np.uint8)
    with open_part(path) as file:
        np.savez(file, allow_pickle=False, **{_HEADER: head}, **arrays)
        commit_part(path, file)


def read_log(path: Path) -> CorruptLog:
    """Read and check a log.

    1. It is complete and of this version, and every array has the digest that the header states.
    2. The arrays have the shapes that the header's counts give; credentials are there at node 1,
       and only there.
    3. The permutation is one of the pool records that were not dropped, and of the dummies.

    Raises:
        CorruptLogError: a check failed; the message names the file and what is wrong.
    """
    try:  # 1
        # Without pickle: a log may come from someone else, and a pickle runs what its author
        # likes.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = msgspec.json.decode(archive[_HEADER].tobytes(), type=LogHeader)
            arrays = {name: archive[name] for name in header.arrays}
    except _UNREADABLE as error:
        raise CorruptLogError(
            f"{path} is truncated, or is not a log of a corrupt node: {error}; copy it again"
        ) from error
    if header.version != VERSION:
        raise CorruptLogError(f"{path} has version {header.version}, this software reads {VERSION}")
    for name, array in arrays.items():
        if _sha256(array) != header.arrays[name]:
            raise CorruptLogError(
                f"{path}: {name} does not have the digest in the header; copy the log again"
            )
    _check_arrays(path, header, arrays)  # 2
    order = arrays["permutation"]  # 3
    candidates = header.pool + header.dummies
    if len(np.unique(order)) != header.records or order.min() < 0 or order.max() >= candidates:
        raise CorruptLogError(
            f"{path}: the permutation does not choose {header.records} records of {candidates}"
        )
    return CorruptLog(
        header,
        arrays["permutation"],
        arrays["incoming"],
        arrays["outgoing"],
        arrays.get("credentials"),
    )


def read_logs(folder: Path, deployment: str, round_id: str) -> dict[int, CorruptLog]:
    """Read all logs of one round in `folder`, by position on the route.

    1. There is at least one.
    2. Each is of this round and deployment.
    3. No two are of one position.
    4. All state the same number of users and dummies, and along the route the number of records
       grows only by the dummies.

    Raises:
        CorruptLogError: one of these checks failed, or `read_log` refused a log.
    """
    paths = sorted(folder.rglob(f"{round_id}{SUFFIX}"))
    if not paths:  # 1
        others = sorted({path.stem for path in folder.rglob(f"*{SUFFIX}")})
        raise CorruptLogError(
            f"{folder} holds no log of round {round_id}; it holds logs of: "
            f"{', '.join(others) or 'no round'}"
        )
    logs: dict[int, CorruptLog] = {}
    for path in paths:
        log = read_log(path)
        origin = (log.header.deployment, log.header.round_id)
        if origin != (deployment, round_id):  # 2
            raise CorruptLogError(
                f"{path} is of round {origin[1]} of deployment {origin[0]!r}, not of {round_id} of "
                f"{deployment!r}"
            )
        if log.header.position in logs:  # 3
            raise CorruptLogError(
                f"{path} is a second log for position {log.header.position}; keep only the right "
                "one"
            )
        logs[log.header.position] = log
    _check_alike([logs[position].header for position in sorted(logs)])  # 4
    return logs


def _check_arrays(path: Path, header: LogHeader, arrays: Arrays) -> None:
    expected: dict[str, tuple[tuple[int, ...], type]] = {
        "permutation": ((header.records,), np.int64),
        "incoming": ((header.units, LINK_BYTES), np.uint8),
        "outgoing": ((header.records, LINK_BYTES), np.uint8),
    }
    if header.position == ENTRY:
        expected["credentials"] = ((header.users, CREDENTIAL_BYTES), np.uint8)
    for name in sorted(expected.keys() ^ arrays.keys()):
        raise CorruptLogError(
            f"{path}: {name} {'is missing' if name in expected else 'does not belong there'}"
        )
    for name, (shape, kind) in expected.items():
        if arrays[name].shape != shape or arrays[name].dtype != kind:
            raise CorruptLogError(
                f"{path}: {name} has shape {arrays[name].shape}, but the header's counts require "
                f"{shape}"
            )
    if (
        header.users < 1
        or header.records < 1
        or header.dummies < 0
        or header.pool < 1
        or (header.position == ENTRY and header.pool % header.users)
    ):
        raise CorruptLogError(
            f"{path}: {header.pool} records are not a multiple of {header.users} users"
        )


def _check_alike(headers: Sequence[LogHeader]) -> None:
    for before, after in pairwise(headers):
        adjacent = after.position == before.position + 1
        between = after.position - before.position - 1
        lost = before.records + between * before.dummies - after.pool
        alike = (before.users, before.dummies) == (after.users, after.dummies)
        if not alike or lost < 0 or (adjacent and lost):
            counts = [(header.users, header.pool, header.records) for header in headers]
            raise CorruptLogError(
                f"the logs disagree on users, records in and records out: {counts}; one of them "
                "is of another run"
            )


def _senders(envelopes: Records, index: Path) -> NDArray[np.uint8]:
    """The credential of every envelope, looked up in the spool's index by digest."""
    database = sqlite3.connect(f"{index.absolute().as_uri()}?mode=ro", uri=True)
    try:
        # By digest, since the index keeps no order of arrival.
        accepted = database.execute("SELECT digest, credential FROM accepted")
        packed = b"".join(digest + sender for digest, sender in accepted)
    finally:
        database.close()
    rows = np.frombuffer(packed, dtype=np.uint8).reshape(-1, 32 + CREDENTIAL_BYTES)
    digests = as_keys(rows[:, :32])
    order = np.argsort(digests)
    searched = b"".join(hashlib.sha256(envelope.tobytes()).digest() for envelope in envelopes)
    places = np.searchsorted(
        digests[order], as_keys(np.frombuffer(searched, dtype=np.uint8).reshape(-1, 32))
    )
    return np.ascontiguousarray(rows[order[places], 32:])


def as_keys(rows: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Rows as single values that compare byte by byte, for sorting and searching."""
    # numpy ignores trailing zero bytes of an `S` item; items of one width stay distinct all the
    # same.
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}").ravel()


def _sha256(array: NDArray[np.uint8] | NDArray[np.int64]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
