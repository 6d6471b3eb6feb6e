"""What a node says of the batch that it puts out: docs/mixing.md, "Hop i"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from shuffledp_core.mixproof.group import Element, Scalar, digest_parts, element, multiply, number
from shuffledp_core.mixproof.proofs import prove_equal, verify_equal
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.sampling.randomness import RandomBytes

Signer: TypeAlias = Callable[[bytes], bytes]
"""Signs a statement with a party's Ed25519 identity key: 64 bytes."""


@dataclass(frozen=True)
class Header:
    """A node's signed statement: `count` records under `root`, whose keys add up to `total`, Σ_i.

    `previous` is the digest of the fields of the header before it, for node 1 of the list: a node
    that signs two headers cannot put the other one before a header that rests on the first.
    `exclusions` is the digest of all that was excluded at positions up to its own; the proof is
    over all before it.
    """

    position: int
    previous: bytes
    list_digest: bytes
    exclusions: bytes
    count: int
    root: bytes
    total: bytes = b""
    proof: bytes = b""
    signature: bytes = b""

    def parts(self) -> tuple[bytes, ...]:
        """Position, digests, count, root and sum: what the proof is bound to."""
        return (
            number(self.position),
            self.previous,
            self.list_digest,
            self.exclusions,
            number(self.count),
            self.root,
            self.total,
        )


def signed_header(terms: MixTerms, header: Header) -> bytes:
    """What its node signs: every field and the proof."""
    return terms.statement("header", header.position, *header.parts(), header.proof)


def link(terms: MixTerms, header: Header) -> bytes:
    """What the next header says of this one: the digest of its fields.

    Another proof of them is the same header.
    """
    return digest_parts("header", terms.manifest, *header.parts())


def make_header(
    terms: MixTerms,
    stated: Header,
    incoming: Element,
    blinding: Scalar,
    sign: Signer,
    random: RandomBytes,
) -> Header:
    """The header with its sum, proof and signature: `stated` has none.

    `incoming` is Σ' of the node's input.
    """
    outgoing = multiply(blinding, incoming)
    unproved = replace(stated, total=outgoing)
    pairs = terms.route.blinder(unproved.position), (incoming, outgoing)
    proved = replace(
        unproved,
        proof=prove_equal("hop", (terms.manifest, *unproved.parts()), *pairs, blinding, random),
    )
    return replace(proved, signature=sign(signed_header(terms, proved)))


def verify_sum(terms: MixTerms, header: Header, incoming: Element) -> Element:
    """Checks that Σ_i is b_i times the sum that came in, H6; returns Σ_i. Raises `ProofError`."""
    outgoing = element(header.total)
    pairs = terms.route.blinder(header.position), (incoming, outgoing)
    verify_equal("hop", (terms.manifest, *header.parts()), *pairs, header.proof)  # H6
    return outgoing
