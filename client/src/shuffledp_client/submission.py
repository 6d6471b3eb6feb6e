"""Randomises and seals one user's value.

Pure CPU on picklable values, so that worker processes can do it in bulk.

Imports stay light: no gRPC, no numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_client.encoding import add_tags, pack, symbols
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Party, Receipt
from shuffledp_core.documents.signed import Signed, sign_each
from shuffledp_core.documents.signing import public_keys
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.errors import DocumentError, ForeignDocumentError
from shuffledp_core.mixproof.claiming import enrolled_claim, pack_claim
from shuffledp_core.mixproof.claims import PreparedClaim, make_claim
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, seal_envelopes
from shuffledp_core.onion.seeds import SEED_BYTES, stream
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import Identity, verify_all_from
from shuffledp_core.sampling.randomisers import Recall, randomise
from shuffledp_core.sampling.randomness import RandomBytes, RandomIntegers, system_random


@dataclass(frozen=True)
class Member:
    """One user of a population: its private key (raw Ed25519, 32 bytes) and its signed credential.

    Picklable. `public_key` spares computing it again; empty where it is not at hand.
    """

    private_key: bytes = field(repr=False)
    credential: Signed
    public_key: bytes = b""

    @classmethod
    def of(cls, key: Ed25519PrivateKey, credential: Signed) -> Member:
        """The member with this private key and credential."""
        return cls(key.private_bytes_raw(), credential)

    def identity(self) -> Identity:
        """The identity that signs the member's claims, named by the public key in hex."""
        key = Ed25519PrivateKey.from_private_bytes(self.private_key)
        return Identity(key.public_key().public_bytes_raw().hex(), key)


class PreparedSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One user's submission to one round, with secrets that identify its messages on the board.

    `symbols` (m of them, packed) and `seed` are the user's secret: together they give its messages,
    and with the published board those say which were whose. They are never sent, logged or printed,
    unless the user shows evidence. In a verified round, `board` holds the messages themselves, and
    there is no seed.
    """

    deployment: str
    round_id: str
    entry: str
    geometry: Geometry
    certificate_digest: str
    closes_at: int
    envelope: bytes
    claim: Signed
    credential: Signed
    symbols: bytes
    seed: bytes
    board: bytes | msgspec.UnsetType = msgspec.UNSET

    @property
    def messages(self) -> bytes:
        """The m packed messages as on the board; secret, like `symbols` and `seed`."""
        if isinstance(self.board, bytes):
            return self.board
        return b"".join(add_tags(self.geometry, self.symbols, stream(self.seed)))

    def __repr__(self) -> str:
        # Without symbols and seed: a repr ends up in logs and tracebacks.
        return f"<PreparedSubmission to round {self.round_id} at {self.entry}>"


def seal(
    geometry: Geometry, round_id: str, public_keys: Sequence[bytes], packed: bytes, seed: bytes
) -> bytes:
    """Seal packed symbols into an envelope, with tags and ephemeral keys from the seed.

    See `onion.seeds.stream`.

    Raises:
        ValueError: the arguments do not fit the geometry.
    """
    return seal_all(geometry, round_id, public_keys, [(packed, seed)])[0]


def seal_all(
    geometry: Geometry,
    round_id: str,
    public_keys: Sequence[bytes],
    users: Sequence[tuple[bytes, bytes]],
) -> list[bytes]:
    """Vectorised `seal` of many users' (packed symbols, seed), in one batch.

    Raises:
        ValueError: the arguments do not fit the geometry.
    """
    return _seal_messages(geometry, round_id, public_keys, users)[0]


def _seal_messages(
    geometry: Geometry,
    round_id: str,
    public_keys: Sequence[bytes],
    users: Sequence[tuple[bytes, bytes]],
) -> tuple[list[bytes], list[list[bytes]]]:
    """The envelopes of `seal_all`, and each user's messages with their tags."""
    sources = [
        stream(seed) for _, seed in users
    ]  # one stream each: all tags come before the first ephemeral key
    messages = [
        add_tags(geometry, packed, source)
        for (packed, _), source in zip(users, sources, strict=True)
    ]
    return seal_envelopes(geometry, round_id, public_keys, messages, sources), messages


def prepare(
    verified: CheckedRound,
    value: int,
    member: Member,
    random: RandomBytes = system_random,
    recall: Recall | None = None,
) -> PreparedSubmission:
    """Randomise, encode, seal and sign a value.

    Call it once per round and user, and keep the submission.

    Calling it twice for one value and round would spend the user's privacy twice: to send again,
    send the same. The value is randomised first, by the operating system's draws; tags and seals
    come from a seed that is kept.

    Args:
        verified: the round.
        value: the user's own value.
        member: who submits.
        random: the operating system's CSPRNG; tests may pass a recorded stream.
        recall: the device's kept responses (`randomise`); None for a user who is asked once.

    Raises:
        UsageError: the value is outside the round's domain.
    """
    # Not from the seed, which evidence reveals: with it the randomisation could be undone.
    answer = randomise(verified.mechanism, value, RandomIntegers(random), recall)
    return prepare_answer(verified, answer, member, random)


def prepare_all(
    verified: CheckedRound,
    users: Sequence[tuple[int, Member]],
    random: RandomBytes = system_random,
    kept_responses: Sequence[int] | None = None,
) -> list[PreparedSubmission]:
    """Vectorised `prepare`: one submission for each (value, member), sealed in one batch.

    For simulated users, who share a process.

    Args:
        verified: the round.
        users: values and members.
        random: the operating system's CSPRNG; tests may pass a recorded stream.
        kept_responses: the response that each user keeps, for mechanisms that memoise responses;
            None for users who are asked once.

    Raises:
        UsageError: a value is outside the round's domain.
        ValueError: there is not one kept response for each user.
    """
    prepared = prepare_with_messages(verified, users, random, kept_responses)
    return [submission for submission, _ in prepared]


def prepare_with_messages(
    verified: CheckedRound,
    users: Sequence[tuple[int, Member]],
    random: RandomBytes = system_random,
    kept_responses: Sequence[int] | None = None,
) -> list[tuple[PreparedSubmission, bytes]]:
    """`prepare_all` with the `messages` of each submission, so that no one recomputes them."""
    responses: Sequence[int | None] = (
        [None] * len(users) if kept_responses is None else kept_responses
    )
    answers = (
        randomise(
            verified.mechanism,
            value,
            RandomIntegers(random),
            None if response is None else _keeping(response),
        )
        for (value, _), response in zip(users, responses, strict=True)
    )
    drawn = [_draw(verified, answer, random) for answer in answers]
    return _seal(verified, drawn, [member for _, member in users], random)


def _keeping(response: int) -> Recall:
    """A `Recall` that always returns this memoised response."""

    def recall(_name: str, _draw: Callable[[], int]) -> int:
        return response

    return recall


def prepare_answer(
    verified: CheckedRound, answer: int, member: Member, random: RandomBytes = system_random
) -> PreparedSubmission:
    """Encode, seal and sign an answer that is already randomised.

    See `prepare`, which devices call.

    This is a separate step for experiments whose users randomise, or cheat, in their own way.

    Raises:
        ValueError: the round's mechanism does not allow this answer.
    """
    return _seal(verified, [_draw(verified, answer, random)], [member], random)[0][0]


def prepare_symbols(
    verified: CheckedRound,
    chosen: Sequence[int],
    member: Member,
    random: RandomBytes = system_random,
) -> PreparedSubmission:
    """Seal and sign these symbols, shape (m,), even if they encode no answer.

    A step of its own for experiments whose users lie; `prepare` is what devices call.
    """
    drawn = (pack(verified.geometry, chosen), random(SEED_BYTES))
    return _seal(verified, [drawn], [member], random)[0][0]


def _draw(verified: CheckedRound, answer: int, random: RandomBytes) -> tuple[bytes, bytes]:
    """Packed symbols of an answer, and a fresh seed."""
    # Not from the seed either: pieces that it gave could be told from others by whoever is shown
    # it.
    packed = pack(verified.geometry, symbols(verified.mechanism, answer, RandomIntegers(random)))
    return packed, random(SEED_BYTES)


def _seal(
    verified: CheckedRound,
    drawn: Sequence[tuple[bytes, bytes]],
    members: Sequence[Member],
    random: RandomBytes,
) -> list[tuple[PreparedSubmission, bytes]]:
    if verified.mixing is not None:
        claims = [
            _claim(verified, verified.mixing, member, packed, random)
            for member, (packed, _) in zip(members, drawn, strict=True)
        ]
        return [(claim, claim.messages) for claim in claims]
    envelopes, messages = _seal_messages(
        verified.geometry, verified.round_id, verified.public_keys, drawn
    )
    prepared = _sign_all(verified, members, envelopes, drawn)
    return list(zip(prepared, map(b"".join, messages), strict=True))


def _claim(
    verified: CheckedRound, terms: MixTerms, member: Member, packed: bytes, random: RandomBytes
) -> PreparedSubmission:
    """A submission to a verified round: the claim, then the envelope with the records."""
    width = verified.geometry.symbol_bytes
    answer_symbols = [
        int.from_bytes(packed[start : start + width], "big")
        for start in range(0, len(packed), width)
    ]
    return wrap_claim(
        verified, member, make_claim(terms, answer_symbols, member.private_key, random), packed
    )


def wrap_claim(
    verified: CheckedRound, member: Member, prepared: PreparedClaim, packed: bytes
) -> PreparedSubmission:
    """Make the submission from a claim and its packed symbols.

    This is a separate step for users who cheat in experiments.
    """
    claim = pack_claim(enrolled_claim(prepared.claim, member.credential))
    suite = suite_named(verified.geometry.suite)
    envelope = suite.sealer(verified.public_keys[0], binding(verified.round_id, 1))(
        prepared.submission
    )
    # Its secrets end here: what finds the messages on the board is what stands there.
    signed = _sign(verified, member, claim + envelope, packed, b"")
    return msgspec.structs.replace(signed, board=b"".join(prepared.messages))


def _sign(
    verified: CheckedRound, member: Member, envelope: bytes, packed: bytes, seed: bytes
) -> PreparedSubmission:
    return _sign_all(verified, [member], [envelope], [(packed, seed)])[0]


def _sign_all(
    verified: CheckedRound,
    members: Sequence[Member],
    envelopes: Sequence[bytes],
    drawn: Sequence[tuple[bytes, bytes]],
) -> list[PreparedSubmission]:
    """Signed submissions from sealed envelopes and their (packed symbols, seed)."""
    keys = [member.private_key for member in members]
    names = [public_key.hex() for public_key in _public_keys(members)]
    claims = [
        SubmissionClaim(
            round_id=verified.round_id, credential=name, envelope_digest=digest(envelope)
        )
        for name, envelope in zip(names, envelopes, strict=True)
    ]
    return [
        PreparedSubmission(
            deployment=verified.deployment,
            round_id=verified.round_id,
            entry=verified.entry.name,
            geometry=verified.geometry,
            certificate_digest=verified.certificate_digest,
            closes_at=verified.closes_at,
            envelope=envelope,
            claim=claim,
            credential=member.credential,
            symbols=packed,
            seed=seed,
        )
        for member, envelope, (packed, seed), claim in zip(
            members, envelopes, drawn, sign_each(claims, names, keys), strict=True
        )
    ]


def _public_keys(members: Sequence[Member]) -> list[bytes]:
    if all(member.public_key for member in members):
        return [member.public_key for member in members]
    return public_keys([member.private_key for member in members])


def expected_receipt(prepared: PreparedSubmission) -> Receipt:
    """The content that the receipt of this submission must have."""
    return Receipt(
        round_id=prepared.round_id,
        credential=prepared.claim.signer,
        submission_digest=digest(prepared.envelope),
    )


def check_receipt(prepared: PreparedSubmission, entry: Party, signed: Signed) -> Receipt:
    """Check that a receipt is the entry node's for exactly this submission; return its content.

    docs/protocol.md, section "Submit".

    1. It is signed by the entry node.
    2. It names this round, this credential and the digest of this envelope.

    Raises:
        DocumentError: step 1, as `verify`.
        ForeignDocumentError: step 2.
    """
    expected = expected_receipt(prepared)
    (error,) = find_receipt_errors(entry, [(expected, signed)])
    if error is not None:
        raise error
    return expected


def find_receipt_errors(
    entry: Party, receipts: Sequence[tuple[Receipt, Signed]]
) -> list[DocumentError | None]:
    """Vectorised `check_receipt` of (expected content, receipt): its error, or None."""
    signed = [receipt for _, receipt in receipts]
    return [
        _receipt_error(entry, expected, receipt)
        for (expected, _), receipt in zip(
            receipts, verify_all_from(entry, signed, Receipt), strict=True
        )
    ]


def _receipt_error(
    entry: Party, expected: Receipt, receipt: Receipt | DocumentError
) -> DocumentError | None:
    if isinstance(receipt, DocumentError):  # 1
        return receipt
    if receipt != expected:  # 2
        return ForeignDocumentError(
            f"the receipt of {entry.name!r} is for another submission; send the same again"
        )
    return None
