"""Attacks with a second encoding of a group element: with bit 255 set, which old libsodium versions ignore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mixing_cheats import secrets_of
from mixing_model import ENROLLED, credential_seed, randomness, terms

from shuffledp_core.randomness import RandomBytes
from shuffledp_core.verified.batches import Elements
from shuffledp_core.verified.blame import opening_context
from shuffledp_core.verified.claims import Prepared, check_claim, seal_record, sign_claim
from shuffledp_core.verified.group import WIDTH, Element
from shuffledp_core.verified.hops import Hop, Opened
from shuffledp_core.verified.proofs import prove_equal


def respelled(data: bytes) -> Element:
    """The same 255 bits with bit 255 set: the element that a lax decoder reads is the same."""
    return Element(data[: WIDTH - 1] + bytes([data[WIDTH - 1] | 0x80]))


class ShareRespeller(Hop):
    """Accuses a record that opens: its share is right, but spelled so that it hashes to another layer key."""

    def _opened(self, records: Sequence[bytes], keys: Elements) -> Opened:
        batch = super()._opened(records, keys)
        return replace(batch, contents=(None, *batch.contents[1:]))

    def _proved_share(self, index: int, random: RandomBytes) -> tuple[bytes, bytes]:
        key = self._taken.keys[index]
        share = respelled(self._taken.shares[index])
        pairs = self._terms.route.opener(self.position), (key, share)
        context = opening_context(self._terms, self.position)
        secret = self._secrets.opening
        return share, prove_equal("opening", context, *pairs, secret, random)


def key_in_two_spellings(user: int) -> Prepared:
    """A user whose two keys are two spellings of one element."""
    secret = secrets_of(user)[0]
    record = seal_record(terms(), secret, 0)
    records = [record, respelled(record[:WIDTH]) + record[WIDTH:]]
    return sign_claim(terms(), records, [secret] * 2, credential_seed(user), randomness("two spellings"))


def claim_with_two_spellings() -> None:
    """The round's first node checks such a claim."""
    check_claim(terms(), key_in_two_spellings(7).claim, ENROLLED)
