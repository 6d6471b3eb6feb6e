"""Attacks with a second encoding of a group element: with bit 255 set, which old libsodium versions
ignore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mixing_cheats import secrets_of
from mixing_model import ENROLLED, credential_seed, randomness, terms

from shuffledp_core.mixproof.batches import Elements
from shuffledp_core.mixproof.blame import opening_context
from shuffledp_core.mixproof.claims import PreparedClaim, check_claim, seal_record, sign_claim
from shuffledp_core.mixproof.group import WIDTH, Element
from shuffledp_core.mixproof.headers import Header, signed_header
from shuffledp_core.mixproof.hops import DecryptedBatch, Hop
from shuffledp_core.mixproof.proofs import prove_equal
from shuffledp_core.mixproof.vectors import with_bit_255
from shuffledp_core.sampling.randomness import RandomBytes


def respelled(data: bytes) -> Element:
    """The second spelling of an element, which a decoder that ignores bit 255 takes for the
    first."""
    return Element(with_bit_255(data))


def respelled_share(hop: Hop, index: int, random: RandomBytes) -> tuple[Element, bytes]:
    """The true share of a record in its second spelling, with a proof over that spelling."""
    key = hop._input_batch.keys[index]
    share = respelled(hop._input_batch.shares[index])
    pairs = hop._terms.route.opener(hop.position), (key, share)
    context = opening_context(hop._terms, hop.position)
    return share, prove_equal("opening", context, *pairs, hop._secrets.opening, random)


def respelled_sum(hop: Hop, header: Header, random: RandomBytes) -> Header:
    """The header with its sum in the second spelling, proved and signed."""
    said = replace(header, total=respelled(header.total))
    pairs = hop._terms.route.blinder(hop.position), (hop.chain.total, Element(said.total))
    context = (hop._terms.manifest, *said.parts())
    proof = prove_equal("hop", context, *pairs, hop._secrets.blinding, random)
    proved = replace(said, proof=proof)
    return replace(proved, signature=hop._sign(signed_header(hop._terms, proved)))


class ShareRespeller(Hop):
    """Accuses a record that opens: its share is right, but spelled so that it hashes to another
    layer key."""

    def _open(self, records: Sequence[bytes], keys: Elements) -> DecryptedBatch:
        batch = super()._open(records, keys)
        return replace(batch, contents=(None, *batch.contents[1:]))

    def _proved_share(self, index: int, random: RandomBytes) -> tuple[bytes, bytes]:
        return respelled_share(self, index, random)


def key_in_two_spellings(user: int) -> PreparedClaim:
    """A user whose two keys are two spellings of one element."""
    secret = secrets_of(user)[0]
    record = seal_record(terms(), secret, 0)
    records = [record, respelled(record[:WIDTH]) + record[WIDTH:]]
    return sign_claim(
        terms(), records, [secret] * 2, credential_seed(user), randomness("two spellings")
    )


def claim_with_two_spellings() -> None:
    """The round's first node checks such a claim."""
    check_claim(terms(), key_in_two_spellings(7).claim, ENROLLED)
