"""Lengths of messages and envelopes of a round, from public parameters alone (invariant 7)."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.mechanisms.work import check_work
from shuffledp_core.onion.suites import check_suite, suite_named
from shuffledp_core.vocabulary import Mix

TAG_BYTES: Final = 16
"""A receipt tag: random, so that two of 2^40 collide with probability below 2^-48."""

_KEY_BYTES: Final = 32
_PROOF_BYTES: Final = 64
_BOX_BYTES: Final = 16
_SEED_BYTES: Final = 32
"""Verified mixing: a group element, a proof or signature, what a box adds, and the seed of the
salts.
"""

MixField: TypeAlias = Mix | msgspec.UnsetType
"""The field `mix` of a document: `Mix.VERIFIED`, or absent for plain mixing, so that the documents
of plain rounds are what they always were.
"""

MAX_MESSAGES_PER_USER: Final = 1_000_000
MAX_HOPS: Final = 16

MAX_DUMMIES_PER_NODE: Final = 10_000_000
"""Most dummies of a node in one round: as many as a batch of ten million users has messages."""


def refuse_plain(mix: MixField) -> None:
    """Raise `ValueError` for "plain" in a document, where plain mixing is an absent field."""
    if mix == Mix.PLAIN:
        raise ValueError('mix must be "verified" or left out, not "plain"')


class Geometry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Hops, messages per user and symbol width of a round, which determine all lengths.

    No length depends on a value: a number of messages or a symbol's width that did would tell every
    observer on the wire what the noise is meant to hide.

    The plain message is `symbol || tag`. Hop 1 receives one envelope per user around its m inner
    onions; hops 2..L receive one onion per message. docs/protocol.md, section "Onions". With `mix`
    "verified" they are those of docs/mixing.md, and the plain message is `key || symbol || proof`.
    Every node adds `dummies_per_node` messages: to the batch that it mixes, or with `mix`
    "verified" to the messages of the users, before any node mixes.
    """

    suite: str
    hops: int
    messages_per_user: int
    symbol_bytes: int
    mix: MixField = msgspec.UNSET
    dummies_per_node: int = 0

    def __post_init__(self) -> None:
        refuse_plain(self.mix)
        # With a single hop the node that knows the senders would also see the symbols, and no one
        # else would mix.
        if not 2 <= self.hops <= MAX_HOPS:
            raise ValueError(f"hops must be from 2 to {MAX_HOPS}, not {self.hops}")
        if not 1 <= self.messages_per_user <= MAX_MESSAGES_PER_USER:
            raise ValueError(
                f"messages_per_user must be from 1 to {MAX_MESSAGES_PER_USER}, not "
                f"{self.messages_per_user}"
            )
        if not 1 <= self.symbol_bytes <= 4:
            raise ValueError(f"symbol_bytes must be from 1 to 4, not {self.symbol_bytes}")
        if not 0 <= self.dummies_per_node <= MAX_DUMMIES_PER_NODE:
            raise ValueError(
                f"dummies_per_node must be from 0 to {MAX_DUMMIES_PER_NODE}, not "
                f"{self.dummies_per_node}"
            )
        if self.mix == Mix.VERIFIED:
            try:
                check_suite(self.suite, self.mix)
            except ShuffleDPError as error:
                raise ValueError(str(error)) from error

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        suite: str,
        hops: int,
        mix: Mix | msgspec.UnsetType = msgspec.UNSET,
    ) -> Geometry:
        """The geometry of a round that runs `mechanism` over `hops` nodes with `suite`.

        Raises:
            ValueError: no round has these lengths, or a device or node could not draw its noise in
                useful time (`ParameterError`).
            ConfigError: there is no such suite.
        """
        check_work(mechanism)
        width = (mechanism.alphabet - 1).bit_length()
        return cls(
            suite=suite_named(suite).name,
            hops=hops,
            messages_per_user=mechanism.messages_per_user,
            symbol_bytes=max(1, -(-width // 8)),
            mix=Mix.VERIFIED if mix == Mix.VERIFIED else msgspec.UNSET,
            dummies_per_node=mechanism.dummies_per_node,
        )

    def count_records(self, position: int, users: int, dropped: int = 0) -> int:
        """Number of records in the batch that the node at `position` (2..hops + 1) receives.

        The messages of `users` reports and the dummies of all nodes before, less those that these
        nodes `dropped`; with `mix` "verified" the dummies of all nodes. Hops + 1 is the analyst.

        Raises:
            ValueError: there is no such position.
        """
        if not 2 <= position <= self.hops + 1:
            raise ValueError(f"position must be from 2 to {self.hops + 1}, not {position}")
        nodes = self.hops if self.mix == Mix.VERIFIED else position - 1
        return users * self.messages_per_user + nodes * self.dummies_per_node - dropped

    @property
    def symbol_at(self) -> slice:
        """Slice of a plain message that holds the symbol."""
        start = _KEY_BYTES if self.mix == Mix.VERIFIED else 0
        return slice(start, start + self.symbol_bytes)

    @property
    def tag_at(self) -> slice:
        """Slice of the field by which a sender recognises its message: receipt tag or key."""
        return (
            slice(0, _KEY_BYTES)
            if self.mix == Mix.VERIFIED
            else slice(self.symbol_bytes, self.plain_bytes)
        )

    @property
    def plain_bytes(self) -> int:
        """Length of `symbol || tag`, or in a verified round of `key || symbol || proof`."""
        if self.mix == Mix.VERIFIED:
            return _KEY_BYTES + self.symbol_bytes + _PROOF_BYTES
        return self.symbol_bytes + TAG_BYTES

    def record_bytes(self, position: int) -> int:
        """Length in bytes of one record that the node at `position` (2..hops) receives.

        Hops + 1 is the analyst.
        """
        if not 2 <= position <= self.hops + 1:
            raise ValueError(f"position must be from 2 to {self.hops + 1}, not {position}")
        if self.mix == Mix.VERIFIED:
            # Node 1 takes no layer off, and behind node L the analyst's is left.
            return self.plain_bytes + (self.hops + 2 - position) * _BOX_BYTES
        return self.plain_bytes + (self.hops + 1 - position) * suite_named(self.suite).overhead

    @property
    def envelope_bytes(self) -> int:
        """Length of one user's submission: hop 1's layer around m inner onions.

        In a verified round a claim precedes it.
        """
        if self.mix == Mix.VERIFIED:
            records = self.messages_per_user * self.record_bytes(2)
            return self.claim_bytes + suite_named(self.suite).overhead + _SEED_BYTES + records
        return self.messages_per_user * self.record_bytes(2) + suite_named(self.suite).overhead

    @property
    def claim_bytes(self) -> int:
        """Length of a user's packed claim in a verified round (`mixproof.claiming`)."""
        expiry = 8
        enrolment = _PROOF_BYTES
        return expiry + enrolment + _claimed_bytes(self.messages_per_user)

    @property
    def dummies_claim_bytes(self) -> int:
        """Length of a node's packed claim of its dummies in a verified round."""
        return _claimed_bytes(self.dummies_per_node)

    @property
    def dummies_bytes(self) -> int:
        """Bytes that a node sends to node 1 in a verified round: a claim, and its dummies."""
        records = self.dummies_per_node * self.record_bytes(2)
        overhead = suite_named(self.suite).overhead
        return self.dummies_claim_bytes + overhead + _SEED_BYTES + records


def _claimed_bytes(messages: int) -> int:
    """Length of the signed fields of a claim: credential, root, proof, keys and signature."""
    return 2 * _KEY_BYTES + 2 * _PROOF_BYTES + _KEY_BYTES * messages
