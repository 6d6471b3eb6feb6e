"""A node's signed header of its output batch: docs/mixing.md, "Hop i"."""

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

    `previous` is the digest of the fields of the header before it (for node 1: of the list). So if
    a node signs two headers, the second cannot replace the first in front of later headers.
    `exclusions` is the digest of all exclusions at positions up to its own; the proof covers all
    fields before it.
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
        """The fields to which the proof is bound: position, digests, count, root and sum."""
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
    """The bytes that the node signs: every field and the proof."""
    return terms.statement("header", header.position, *header.parts(), header.proof)


def link(terms: MixTerms, header: Header) -> bytes:
    """Reference of the next header to this one: the digest of its fields.

    The proof is not part of it, so headers that differ only in the proof are the same.
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
    """Add sum, proof and signature to the header `stated`, which has none.

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
