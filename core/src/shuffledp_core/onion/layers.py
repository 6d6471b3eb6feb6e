"""Sealing a user's messages and peeling a node's records. Pure: keys and bytes in, bytes out.

Peeling runs in worker processes, so this module and what it imports stay light (no numpy, no gRPC).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shuffledp_core.errors import BadBatchError, InvalidSubmissionError
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.suites import DOES_NOT_OPEN, suite_named
from shuffledp_core.sampling.randomness import RandomBytes, system_random
from shuffledp_core.vocabulary import PROTOCOL

ENVELOPE_DOES_NOT_OPEN: Final = (
    "the envelope does not open under this round's key: it is damaged or sealed for another round"
)


def binding(round_id: str, position: int) -> bytes:
    """The `info` string that binds a layer to the node at `position` of round `round_id`."""
    # A layer taken to another round, or to another hop of this one, must not open there: its sender
    # would be linked.
    return f"{PROTOCOL}/onion/{round_id}/{position}".encode()


def seal_envelope(
    geometry: Geometry,
    round_id: str,
    public_keys: Sequence[bytes],
    messages: Sequence[bytes],
    source: RandomBytes = system_random,
) -> bytes:
    """Seal one user's submission: each message in layers for hops L..2, all in one envelope.

    The envelope is for hop 1.

    Args:
        geometry: lengths of the round.
        round_id: bound into every layer where the suite can.
        public_keys: round keys of hops 1..L, in that order.
        messages: m plain messages `symbol || tag` of `geometry.plain_bytes` each.
        source: bytes for the ephemeral keys of a reproducible suite, the last hop's first.

    Returns:
        `geometry.envelope_bytes` bytes.

    Raises:
        ValueError: the arguments do not fit the geometry (our own misuse).
    """
    return seal_envelopes(geometry, round_id, public_keys, [messages], [source])[0]


def seal_envelopes(
    geometry: Geometry,
    round_id: str,
    public_keys: Sequence[bytes],
    users: Sequence[Sequence[bytes]],
    sources: Sequence[RandomBytes],
) -> list[bytes]:
    """Seals the submissions of many users, each the same as by `seal_envelope` with its own source.

    In one call, since an accelerator computes several seals at a time, and a user alone may have
    only one message.

    Raises:
        ValueError: as `seal_envelope`.
    """
    messages = geometry.messages_per_user
    if len(public_keys) != geometry.hops or any(
        len(user_messages) != messages for user_messages in users
    ):
        raise ValueError("the number of round keys or of messages does not fit the geometry")
    # One message of another length could be followed by it through every shuffle.
    if any(
        len(message) != geometry.plain_bytes for user_messages in users for message in user_messages
    ):
        raise ValueError(f"every message must have {geometry.plain_bytes} bytes")
    plain = [message for user_messages in users for message in user_messages]
    repeated_sources = [source for source in sources for _ in range(messages)]
    # Hop 1 gets one envelope, because it must check one submission per user; from there on each
    # message is an onion of its own, or those of one user would stay together through every
    # shuffle.
    records = seal_records(geometry, round_id, public_keys, 1, plain, repeated_sources)
    packed = [
        b"".join(records[start : start + messages]) for start in range(0, len(records), messages)
    ]
    suite = suite_named(geometry.suite)
    return suite.seal_batch(public_keys[0], binding(round_id, 1), packed, sources)


def seal_records(
    geometry: Geometry,
    round_id: str,
    public_keys: Sequence[bytes],
    position: int,
    messages: Sequence[bytes],
    sources: Sequence[RandomBytes],
) -> list[bytes]:
    """Seals each plain message in the layers of all hops behind `position`.

    The result is one record for each message, as the node at `position` passes them on; behind the
    last hop it is the message itself.

    Args:
        geometry: lengths of the round.
        round_id: bound into every layer where the suite can.
        public_keys: round keys of hops 1..L, in that order.
        position: 1..L, the hop that adds or passes on the records.
        messages: plain messages of `geometry.plain_bytes` each.
        sources: for each message, the random bytes of its ephemeral keys, the last hop's first.

    Raises:
        ValueError: the arguments do not fit each other.
    """
    suite = suite_named(geometry.suite)
    records = list(messages)
    # The last hop's layer is innermost.
    for hop in range(geometry.hops, position, -1):
        records = suite.seal_batch(public_keys[hop - 1], binding(round_id, hop), records, sources)
    return records


def open_envelope(geometry: Geometry, round_id: str, private_key: bytes, envelope: bytes) -> bytes:
    """Opens an envelope as hop 1: m packed records of `geometry.record_bytes(2)` bytes.

    Raises:
        InvalidSubmissionError: wrong length, or it does not open under this round's key.
    """
    # Before any decryption: the right length is public, so that this refusal costs nothing and
    # tells nothing.
    if len(envelope) != geometry.envelope_bytes:
        raise InvalidSubmissionError(
            f"the envelope has {len(envelope)} bytes, but this round needs "
            f"{geometry.envelope_bytes}; fetch the manifest again and seal for its geometry"
        )
    try:
        return suite_named(geometry.suite).opener(private_key, binding(round_id, 1))(envelope)
    except BadBatchError as error:
        raise InvalidSubmissionError(ENVELOPE_DOES_NOT_OPEN) from error


def open_envelopes(
    geometry: Geometry, round_id: str, private_key: bytes, envelopes: Sequence[bytes]
) -> list[bytes | None]:
    """Vectorised `open_envelope`: one batch; None for an envelope that fails to decrypt.

    Raises:
        ValueError: an envelope does not have the geometry's length.
    """
    if any(len(envelope) != geometry.envelope_bytes for envelope in envelopes):
        raise ValueError(f"every envelope must have {geometry.envelope_bytes} bytes")
    opened = suite_named(geometry.suite).open_batch(
        private_key, binding(round_id, 1), b"".join(envelopes), geometry.envelope_bytes
    )
    closed = set(opened.closed)
    width = geometry.messages_per_user * geometry.record_bytes(2)
    plain = iter(range(0, len(opened.data), width))
    return [
        None if index in closed else opened.data[(start := next(plain)) : start + width]
        for index in range(len(envelopes))
    ]


def peel(
    geometry: Geometry, round_id: str, position: int, private_key: bytes, packed: bytes
) -> bytes:
    """Removes one layer from every record of a packed chunk; order is kept (the caller permutes).

    Args:
        geometry: lengths of the round.
        round_id: the round.
        position: 2..L, the node that peels.
        private_key: the node's private round key.
        packed: a whole number of records of `geometry.record_bytes(position)` bytes.

    Returns:
        The same number of records, of `geometry.record_bytes(position + 1)` bytes each.

    Raises:
        BadBatchError: the chunk is torn, or a record does not open.
    """
    width = geometry.record_bytes(position)
    if len(packed) % width:
        raise BadBatchError(
            f"the batch has {len(packed)} bytes, not a whole number of {width}-byte records: it "
            "is damaged"
        )
    opened = suite_named(geometry.suite).open_batch(
        private_key, binding(round_id, position), packed, width
    )
    if opened.closed:
        raise BadBatchError(f"layer {opened.closed[0]} of {len(packed) // width}: {DOES_NOT_OPEN}")
    return opened.data
