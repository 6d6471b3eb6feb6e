"""Public parameters of a verified round, and the boxes of its records.

docs/mixing.md, "Notation" and "Claim".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from shuffledp_core.documents.signatures import check_signature
from shuffledp_core.errors import UnansweredError
from shuffledp_core.mixproof.batches import Elements
from shuffledp_core.mixproof.faults import node, user
from shuffledp_core.mixproof.group import WIDTH, Element, digest_parts, element, number
from shuffledp_core.mixproof.keys import Route
from shuffledp_core.mixproof.proofs import PROOF_BYTES, knows_each
from shuffledp_core.vocabulary import MIXPROOF_PROTOCOL

TAG_BYTES: Final = 16
"""What a box adds to its content."""

_SIGNED: Final = f"{MIXPROOF_PROTOCOL}/mixing\0".encode()

# Every key comes from a fresh x and seals one box, so that a constant nonce never repeats under a
# key.
_NONCE: Final = bytes(12)


@dataclass(frozen=True)
class MixTerms:
    """Public parameters of a verified round.

    `manifest` is μ, its digest in 32 bytes; `identities` are the Ed25519 keys of the nodes and then
    the analyst; `alphabet` symbols of `symbol_bytes`; reports count users. Every node adds
    `dummies` messages of its own, which it claims as a user does.
    """

    manifest: bytes
    route: Route
    identities: tuple[bytes, ...]
    messages_per_user: int
    symbol_bytes: int
    alphabet: int
    min_reports: int
    max_reports: int
    dummies: int = 0

    @property
    def hops(self) -> int:
        """L, the number of nodes."""
        return self.route.hops

    @property
    def analyst(self) -> int:
        """The analyst's position, L + 1."""
        return self.hops + 1

    @property
    def node_credentials(self) -> tuple[bytes, ...]:
        """Identity keys of the nodes, which sign the claims of their dummies, in route order.

        None in a round without dummies.
        """
        return self.identities[: self.hops] if self.dummies else ()

    @property
    def most_accused(self) -> int:
        """Most records that a party accuses: those of one user more than may be excluded."""
        return (self.max_reports - self.min_reports + 1) * self.messages_per_user

    def count_messages(self, users: int) -> int:
        """Number of records in a batch of this many users, with the dummies of all nodes."""
        return self.messages_per_user * users + self.hops * self.dummies

    def messages_of(self, credential: bytes) -> int:
        """Number of messages in the claim of this credential, of a user or a node."""
        return self.dummies if credential in self.node_credentials else self.messages_per_user

    def name_of(self, credential: bytes) -> str:
        """Name of the party that claims with this credential: a node or a user."""
        if credential in self.node_credentials:
            return node(self.node_credentials.index(credential) + 1, self.hops)
        return user(credential)

    def record_bytes(self, position: int) -> int:
        """Length of a record at a position, 1 to L + 1. Node 1 neither adds nor removes a layer."""
        layers = self.analyst - max(2, position)
        return WIDTH + TAG_BYTES * (layers + 1) + self.symbol_bytes + PROOF_BYTES

    def layer_key(self, position: int, share: Element) -> bytes:
        """K_i(S): the key of the layer at a position from the secret that user and node share."""
        return digest_parts("layer", self.manifest, number(position), share)

    def seal(self, position: int, share: Element, content: bytes) -> bytes:
        """Encrypt the content of one layer into its box."""
        return ChaCha20Poly1305(self.layer_key(position, share)).encrypt(_NONCE, content, None)

    def open(self, position: int, share: Element, box: bytes) -> bytes | None:
        """Decrypt a layer's box; None if it does not decrypt."""
        try:
            return ChaCha20Poly1305(self.layer_key(position, share)).decrypt(_NONCE, box, None)
        except InvalidTag:
            return None

    def content(self, position: int, key: Element, share: Element, box: bytes) -> bytes | None:
        """Decrypt a record with this key for the party at a position; None if that fails.

        For a node, the content of its box. For the analyst, symbol || proof if F1 and F2 hold; its
        share is the key itself.
        """
        return self.contents(position, Elements((key,)), (share,), (box,))[0]

    def contents(
        self, position: int, keys: Elements, shares: Sequence[Element], boxes: Sequence[bytes]
    ) -> tuple[bytes | None, ...]:
        """Vectorised `content`: decrypt every record of a batch."""
        opened = tuple(
            self.open(position, share, box) for share, box in zip(shares, boxes, strict=True)
        )
        if position <= self.hops:
            return opened
        faults = self.faults(keys, [message or b"" for message in opened])
        return tuple(
            None if fault else message for message, fault in zip(opened, faults, strict=True)
        )

    def statement(self, what: str, position: int, *parts: bytes) -> bytes:
        """The bytes that the party at a position signs: kind, round, position and inputs."""
        return _SIGNED + digest_parts(f"signed/{what}", self.manifest, number(position), *parts)

    def require_signed(self, position: int, statement: bytes, signature: bytes) -> None:
        """Check the signature on a statement by the party at a position.

        Raises `UnansweredError` if it is invalid: the statement may be someone else's.
        """
        if not verifies(self.identities[position - 1], statement, signature):
            raise UnansweredError(
                f"no answer: the party at position {position} did not sign its part of this answer"
            )

    def faults(self, keys: Elements, messages: Sequence[bytes]) -> list[str]:
        """The fault of each symbol || proof under its board key (F1, F2); "" for none.

        F1: the symbol is in the alphabet. F2: the proof of knowledge holds.
        """
        parts = [
            (message[: self.symbol_bytes], message[self.symbol_bytes :]) for message in messages
        ]
        contexts, proofs = (
            [(self.manifest, symbol) for symbol, _ in parts],
            [proof for _, proof in parts],
        )
        faults = []
        proved = knows_each("message", contexts, self.route.blinding[-1], keys, proofs)
        for (symbol, _), stands in zip(parts, proved, strict=True):
            if int.from_bytes(symbol, "big") >= self.alphabet:  # F1
                faults.append(
                    f"the symbol {symbol.hex()} is outside the alphabet of {self.alphabet}"
                )
            elif not stands:  # F2
                faults.append("the proof of knowledge (message) does not hold")
            else:
                faults.append("")
        return faults


def verifies(public_key: bytes, statement: bytes, signature: bytes) -> bool:
    """True for an Ed25519 signature by the one rule of all parties, `check_signature`."""
    try:
        check_signature(public_key, signature, statement)
    except InvalidSignature:
        return False
    return True


def split_record(record: bytes) -> tuple[bytes, bytes]:
    """(key, box) of a record; the key is not checked."""
    return record[:WIDTH], record[WIDTH:]


def key_of(record: bytes) -> Element:
    """The key of a record. Raises `ProofError` if it is not an element."""
    return element(record[:WIDTH])
