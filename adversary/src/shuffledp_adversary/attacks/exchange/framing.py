"""Framing: a node of a verified round accuses a record that it can decrypt.

If the accusation stood, the round would trace the record to its user, show all of that user's
records to the accuser, and leave the user out: an honest user would be named, and lose its
anonymity and its report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from shuffledp_core.documents.models import Roster
from shuffledp_core.mixproof.blame import opening_context, signed_accused
from shuffledp_core.mixproof.evidence import AccusedRecord
from shuffledp_core.mixproof.group import Element, Scalar, multiply
from shuffledp_core.mixproof.history import Accusation, pack_document
from shuffledp_core.mixproof.proofs import prove_equal
from shuffledp_core.mixproof.terms import MixTerms, key_of
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.mixproof.mixing import take_input

FRAME: Final = "frame"
"""Order to accuse a record that opens, with the right share in a second spelling."""


def second_spelling(point: Element) -> Element:
    """A second, invalid encoding of an element: its 255 bits, with bit 255 set.

    A decoder that ignores that bit reads the same element, for which the proof of the share holds.
    A layer key is a hash of the bytes: with that of the second spelling the box does not open, as
    if its user had sent nonsense.
    """
    return Element(point[:-1] + bytes([point[-1] | 0x80]))


def leave_accusation(
    live: LiveRound,
    identity: Identity,
    roster: Roster,
    *,
    choose: Callable[[int], int],
    spell: Callable[[Element], Element] = lambda share: share,
    change: Callable[[AccusedRecord], AccusedRecord] = lambda accused: accused,
) -> None:
    """Store a signed accusation of a valid record where an honest node stores its own.

    Call it before the node mixes; it then finds that accusation and waits for its settlement.

    Args:
        live: the node's verified round with its batch; not that of node 1, which opens nothing.
        identity: the node's.
        roster: the deployment's.
        choose: gives the index of the record to accuse, from the number of records.
        spell: how the share is written in the accusation and in its proof.
        change: what is done to the accusation before it is signed.
    """
    hop, history = take_input(live, identity, roster)
    case, position = hop.chain.case, hop.position
    batch = live.folder.incoming.read_bytes()[len(history.to_bytes()) :]
    width = case.terms.record_bytes(position)
    records = [batch[at : at + width] for at in range(0, len(batch), width)]
    secret = live.require_secret().opening
    index = choose(len(records))
    accusation = change(false_accusation(case.terms, position, records, index, secret, spell))
    accusation = replace(
        accusation, signature=identity.sign_bytes(signed_accused(case, position, accusation))
    )
    write_atomic(live.folder.accusation, pack_document(Accusation(history, (accusation,))))


def false_accusation(
    terms: MixTerms,
    position: int,
    records: Sequence[bytes],
    index: int,
    secret: Scalar,
    spell: Callable[[Element], Element],
) -> AccusedRecord:
    """An unsigned accusation of a record valid at `position`, with its share encoded by `spell`."""
    key = key_of(records[index])
    share = spell(multiply(secret, key))
    pairs = terms.route.opener(position), (key, share)
    proof = prove_equal("opening", opening_context(terms, position), *pairs, secret, system_random)
    return AccusedRecord(index, records[index], Tree(records).path(index), share, proof)


def frame(live: LiveRound, identity: Identity, roster: Roster) -> None:
    """Carry out the order `FRAME`, once per round."""
    if not live.folder.accusation.exists():
        leave_accusation(live, identity, roster, choose=lambda _: 0, spell=second_spelling)
