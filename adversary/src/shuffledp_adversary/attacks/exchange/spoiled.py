"""Cheating users of a verified round: messages that fail to decrypt, and keys in two encodings."""

from __future__ import annotations

from shuffledp_adversary.attacks.exchange.framing import second_spelling
from shuffledp_client.submission import Member, PreparedSubmission, wrap_claim
from shuffledp_client.verification import CheckedRound
from shuffledp_core.mixproof.claims import board_message, seal_record, sign_claim
from shuffledp_core.mixproof.group import GENERATOR, Element, Scalar, multiply, random_scalar
from shuffledp_core.mixproof.terms import MixTerms, split_record
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.sampling.randomness import system_random


def spoiled_submission(verified: CheckedRound, member: Member, layer: int) -> PreparedSubmission:
    """A submission whose first message fails to decrypt at position `layer`, from 2 to L + 1.

    Its claim is in order.

    Raises:
        ValueError: the round is a plain one.
    """
    if verified.mixing is None:
        raise ValueError("a spoiled record needs a verified round, but the round's mixing is plain")
    terms, geometry = verified.mixing, verified.geometry
    secrets = [random_scalar(system_random) for _ in range(geometry.messages_per_user)]
    records = [
        spoiled_record(terms, secrets[0], layer),
        *(seal_record(terms, secret, 0) for secret in secrets[1:]),
    ]
    prepared = sign_claim(terms, records, secrets, member.private_key, system_random)
    return wrap_claim(verified, member, prepared, _zeros(geometry))


def respelled_submission(verified: CheckedRound, member: Member) -> PreparedSubmission:
    """A valid submission except that its first two keys are two encodings of one element.

    A party that ignores bit 255 and compares bytes finds two different keys. The entry node
    multiplies both by its secret, and then they are equal: the next party would convict it.

    Raises:
        ValueError: the round is a plain one, or has one message a user.
    """
    if verified.mixing is None or verified.geometry.messages_per_user < 2:
        raise ValueError("equal keys need a verified round with at least two messages per user")
    terms, geometry = verified.mixing, verified.geometry
    twice, *others = [random_scalar(system_random) for _ in range(geometry.messages_per_user - 1)]
    first = seal_record(terms, twice, 0)
    key, box = split_record(first)
    second = second_spelling(Element(key)) + box
    records = [first, second, *(seal_record(terms, other, 0) for other in others)]
    prepared = sign_claim(
        terms, records, [twice, twice, *others], member.private_key, system_random
    )
    return wrap_claim(verified, member, prepared, _zeros(geometry))


def spoiled_record(terms: MixTerms, secret: Scalar, layer: int) -> bytes:
    """The record of a message with a damaged box at one layer, inside all earlier layers."""
    key, content = split_record(board_message(terms, secret, 0))
    box = b""
    for position in range(terms.analyst, 1, -1):
        share = (
            Element(key)
            if position == terms.analyst
            else multiply(secret, terms.route.opener(position)[1])
        )
        box = terms.seal(position, share, content if position == terms.analyst else box)
        box = box[:-1] + bytes([box[-1] ^ 1]) if position == layer else box
    return multiply(secret, GENERATOR) + box


def _zeros(geometry: Geometry) -> bytes:
    return bytes(geometry.symbol_bytes * geometry.messages_per_user)
