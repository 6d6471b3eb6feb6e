"""The chained keys of a route, with proofs: docs/mixing.md, "Keys"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shuffledp_core.errors import ProofError, RoundKeyError
from shuffledp_core.mixproof.faults import at_fault, node
from shuffledp_core.mixproof.group import (
    GENERATOR,
    Element,
    Scalar,
    digest_parts,
    element,
    multiply,
    number,
    random_scalar,
)
from shuffledp_core.mixproof.proofs import prove_knowledge, verify_knowledge
from shuffledp_core.sampling.randomness import RandomBytes


@dataclass(frozen=True)
class NodeSecret:
    """A node's two secrets of one round: b_i blinds keys, m_i opens boxes."""

    blinding: Scalar = field(repr=False)
    opening: Scalar = field(repr=False)


@dataclass(frozen=True)
class NodeKey:
    """A node's public keys B_i and M_i with a proof each.

    Node 1 opens nothing: its M and proof are empty.
    """

    blinding: bytes
    blinding_proof: bytes
    opening: bytes = b""
    opening_proof: bytes = b""


@dataclass(frozen=True)
class Route:
    """Checked keys of a route: `blinding` is B_0..B_L, `opening` is M_2..M_L."""

    blinding: tuple[Element, ...]
    opening: tuple[Element, ...]

    @property
    def hops(self) -> int:
        """L, the number of nodes."""
        return len(self.blinding) - 1

    def opener(self, position: int) -> tuple[Element, Element]:
        """Base and point of the secret m_i of the node at `position` >= 2: (B_(i-1), M_i)."""
        return self.blinding[position - 1], self.opening[position - 2]

    def blinder(self, position: int) -> tuple[Element, Element]:
        """Base and point of the secret b_i of the node at `position`: (B_(i-1), B_i)."""
        return self.blinding[position - 1], self.blinding[position]


def route_context(deployment: str, round_id: str, certificate_digest: str) -> bytes:
    """ρ: the context that binds a node's keys to deployment, round and certificate.

    The keys are made before there is a manifest.
    """
    return digest_parts(
        "route", deployment.encode(), round_id.encode(), certificate_digest.encode()
    )


def make_key(
    context: bytes, name: str, position: int, base: Element, random: RandomBytes
) -> tuple[NodeSecret, NodeKey]:
    """Create a node's keys for a round, on the base B_(i-1) of the nodes before it.

    Check those first (`check_route`).
    """
    secret = NodeSecret(random_scalar(random), random_scalar(random))
    bound = (context, name.encode(), number(position))
    blinding = multiply(secret.blinding, base)
    proof = prove_knowledge("blinding", bound, base, blinding, secret.blinding, random)
    if position == 1:
        return secret, NodeKey(blinding, proof)
    opening = multiply(secret.opening, base)
    return secret, NodeKey(
        blinding,
        proof,
        opening,
        prove_knowledge("opening", bound, base, opening, secret.opening, random),
    )


def check_route(context: bytes, names: Sequence[str], keys: Sequence[NodeKey]) -> Route:
    """Check the keys of a route's first nodes, one for each name; return them as a route.

    1. K1: each is a group element, not the identity; node 1 has no M.
    2. K2, K3: its node proved that it knows the logarithm to the base that the nodes before it lead
       to.

    Without K2 a node could choose a multiple of its predecessor's base, which cancels the
    predecessor's secret.

    Raises:
        RoundKeyError: a check failed; the message names the node.
        ValueError: there are not as many keys as names (our own misuse).
    """
    blinding, opening = [GENERATOR], []
    for position, (name, key) in enumerate(zip(names, keys, strict=True), start=1):
        bound, base = (context, name.encode(), number(position)), blinding[-1]
        with at_fault(RoundKeyError, node(position, position)):
            blinding.append(element(key.blinding))  # K1
            verify_knowledge("blinding", bound, base, blinding[-1], key.blinding_proof)  # K2
            if position == 1 and (key.opening or key.opening_proof):
                raise ProofError("node 1 decrypts no record, so it must have no opening key")
            if position > 1:
                opening.append(element(key.opening))  # K1
                verify_knowledge("opening", bound, base, opening[-1], key.opening_proof)  # K3
    return Route(tuple(blinding), tuple(opening))
