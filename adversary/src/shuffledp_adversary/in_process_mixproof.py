"""Parties of a verified round in one process, for exercises and measurements.

They run the same core as real parties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from nacl import bindings

from shuffledp_core.mixproof.claims import Claim, PreparedClaim, list_digest, signed_list
from shuffledp_core.mixproof.headers import Signer
from shuffledp_core.mixproof.keys import NodeKey, NodeSecret, check_route, make_key, route_context
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.sampling.randomness import RandomBytes, system_random

_CONTEXT: Final = route_context("in-process", "00" * 16, "00" * 32)


@dataclass(frozen=True)
class Parties:
    """Keys and terms of the nodes and the analyst of one round.

    Attributes:
        terms: public.
        secrets: secrets of the nodes, in the order of the route.
        signers: signers of the nodes and then the analyst.
    """

    terms: MixTerms
    secrets: tuple[NodeSecret, ...]
    signers: tuple[Signer, ...]

    @classmethod
    def fresh(
        cls,
        hops: int,
        messages_per_user: int,
        alphabet: int,
        reports: tuple[int, int],
        random: RandomBytes = system_random,
    ) -> Self:
        """Draw new keys for a round; `reports` are its least and largest number of reports.

        The digest of its manifest is random.
        """
        names = [f"node-{position}" for position in range(1, hops + 1)]
        key_pairs = list[tuple[NodeSecret, NodeKey]]()
        for position, name in enumerate(names, start=1):
            base = check_route(
                _CONTEXT, names[: position - 1], [key for _, key in key_pairs]
            ).blinding[-1]
            key_pairs.append(make_key(_CONTEXT, name, position, base, random))
        identities = [bindings.crypto_sign_seed_keypair(random(32)) for _ in range(hops + 1)]
        terms = MixTerms(
            manifest=random(32),
            route=check_route(_CONTEXT, names, [key for _, key in key_pairs]),
            identities=tuple(public for public, _ in identities),
            messages_per_user=messages_per_user,
            symbol_bytes=max(1, -(-(alphabet - 1).bit_length() // 8)),
            alphabet=alphabet,
            min_reports=reports[0],
            max_reports=reports[1],
        )
        return cls(
            terms,
            tuple(secret for secret, _ in key_pairs),
            tuple(_signer(private) for _, private in identities),
        )

    def list_signature(self, claims: Sequence[Claim]) -> bytes:
        """Node 1's signature on the list of these claims, without any check."""
        return self.signers[0](signed_list(self.terms, list_digest(self.terms, claims)))


def claims_of(users: Sequence[PreparedClaim]) -> list[Claim]:
    """The users' claims in list order: by ascending credential."""
    return sorted((user.claim for user in users), key=lambda claim: claim.credential)


def _signer(private: bytes) -> Signer:
    return lambda statement: bindings.crypto_sign(statement, private)[: bindings.crypto_sign_BYTES]
