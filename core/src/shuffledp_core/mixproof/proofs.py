"""Proofs of knowledge: Schnorr's of logarithms, Chaum and Pedersen's of equal logarithms.

A proof is challenge || response, 64 bytes. It binds its purpose, the caller's context and every
element of its statement. docs/mixing.md, "Notation".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from shuffledp_core.errors import ProofError
from shuffledp_core.mixproof.batches import Elements, multiples
from shuffledp_core.mixproof.group import (
    GENERATOR,
    WIDTH,
    Element,
    Scalar,
    challenge,
    minus,
    multiply,
    multiply_add,
    scalar,
)
from shuffledp_core.sampling.randomness import RandomBytes

PROOF_BYTES: Final = 2 * WIDTH

Context: TypeAlias = tuple[bytes, ...]
"""What a proof is bound to beside its statement: digests, names, positions."""


def nonce(random: RandomBytes, secret: Scalar, statement: Context) -> Scalar:
    """The nonce r of one proof: fresh randomness hashed with the secret and the statement.

    If a machine is resumed from a snapshot with the same randomness, two different statements still
    get different r; the same r for both would reveal the secret.
    """
    return challenge("nonce", secret, random(WIDTH), *statement)


def no_randomness(size: int) -> bytes:
    """Zeros instead of randomness, so that a nonce depends on secret and statement alone."""
    return bytes(size)


def prove_knowledge(
    purpose: str,
    context: Context,
    base: Element,
    point: Element,
    secret: Scalar,
    random: RandomBytes,
) -> bytes:
    """Proves knowledge of `secret`, where point = secret · base."""
    label, statement = f"knows/{purpose}", (*context, base, point)
    r = nonce(random, secret, (label.encode(), *statement))
    c = challenge(label, *statement, multiply(r, base))
    return c + multiply_add(c, secret, r)


def verify_knowledge(
    purpose: str, context: Context, base: Element, point: Element, proof: bytes
) -> None:
    """Check a proof of `prove_knowledge`. Raises `ProofError`."""
    c, z = _split_proof(proof)
    commitment = minus(multiply(z, base), multiply(c, point))
    if c != challenge(f"knows/{purpose}", *context, base, point, commitment):
        raise ProofError(f"the proof of knowledge ({purpose}) does not verify")


def prove_each(
    purpose: str,
    contexts: Sequence[Context],
    base: Element,
    secrets: Sequence[Scalar],
    random: RandomBytes,
) -> tuple[list[Element], list[bytes]]:
    """For each secret, under its own context: the point secret · base, and its proof."""
    label, points = f"knows/{purpose}", multiples(base, secrets)
    statements = [(*context, base, point) for context, point in zip(contexts, points, strict=True)]
    pairs = list(zip(secrets, statements, strict=True))
    nonces = [nonce(random, secret, (label.encode(), *statement)) for secret, statement in pairs]
    commitments = zip(pairs, nonces, multiples(base, nonces), strict=True)
    proofs = []
    for (secret, statement), r, commitment in commitments:
        c = challenge(label, *statement, commitment)
        proofs.append(c + multiply_add(c, secret, r))
    return points, proofs


def knows_each(
    purpose: str,
    contexts: Sequence[Context],
    base: Element,
    points: Elements,
    proofs: Sequence[bytes],
) -> list[bool]:
    """For each point, context and proof: True if `verify_knowledge` accepts the proof."""
    numbers = [_numbers(proof) for proof in proofs]
    commitments = points.commitments(base, [both or (_ZERO, _ZERO) for both in numbers])
    return [
        both is not None
        and commitment is not None
        and both[0] == challenge(f"knows/{purpose}", *context, base, point, commitment)
        for both, commitment, context, point in zip(
            numbers, commitments, contexts, points, strict=True
        )
    ]


def prove_equal(
    purpose: str,
    context: Context,
    first: tuple[Element, Element],
    second: tuple[Element, Element],
    secret: Scalar,
    random: RandomBytes,
) -> bytes:
    """Proves that both pairs (base, point) have the logarithm `secret`."""
    label, statement = f"equal/{purpose}", (*context, *first, *second)
    r = nonce(random, secret, (label.encode(), *statement))
    c = challenge(label, *statement, multiply(r, first[0]), multiply(r, second[0]))
    return c + multiply_add(c, secret, r)


def verify_equal(
    purpose: str,
    context: Context,
    first: tuple[Element, Element],
    second: tuple[Element, Element],
    proof: bytes,
) -> None:
    """Check a proof of `prove_equal`. Raises `ProofError`.

    Sound for any prover: an accepted second point is the only right value.
    """
    c, z = _split_proof(proof)
    commitments = [minus(multiply(z, base), multiply(c, point)) for base, point in (first, second)]
    if c != challenge(f"equal/{purpose}", *context, *first, *second, *commitments):
        raise ProofError(f"the proof of equal logarithms ({purpose}) does not verify")


def prove_all(
    context: Context, points: Sequence[bytes], secrets: Sequence[Scalar], random: RandomBytes
) -> bytes:
    """One proof of all logarithms to G of the points (batch Schnorr, Gennaro et al. 2004)."""
    statement = (*context, b"".join(points))
    r = nonce(random, Scalar(b"".join(secrets)), (b"claim", *statement))
    c = challenge("claim", *statement, multiply(r, GENERATOR))
    # z = r + c x_1 + c² x_2 + ..: powers, because a plain sum would let two keys hide a stranger's
    # in their sum.
    power, z = c, r
    for secret in secrets:
        z = multiply_add(power, secret, z)
        power = multiply_add(power, c, _ZERO)
    return c + z


def verify_all(context: Context, points: Elements, proof: bytes) -> None:
    """Check a proof of `prove_all`, with one multiplication per point.

    Raises `ProofError`. Soundness error m/q for m points.
    """
    c, z = _split_proof(proof)
    commitment = minus(multiply(z, GENERATOR), points.powers(c))
    if c != challenge("claim", *context, b"".join(points), commitment):
        raise ProofError("the proof of knowledge of all keys does not verify")


def _split_proof(proof: bytes) -> tuple[Scalar, Scalar]:
    if len(proof) != PROOF_BYTES:
        raise ProofError(f"a proof must have {PROOF_BYTES} bytes, not {len(proof)}")
    return scalar(proof[:WIDTH]), scalar(proof[WIDTH:])


def _numbers(proof: bytes) -> tuple[Scalar, Scalar] | None:
    try:
        return _split_proof(proof)
    except ProofError:
        return None


_ZERO: Final = Scalar(bytes(WIDTH))
