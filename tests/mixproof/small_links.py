"""Whether those who are corrupt can tell whose message one is that an honest node put out: P4 of
docs/mixing.md.

They see all claims, batches and shares, know their own secrets, and try what can be made of them:
products with up to two known secrets, and shares less their own part. Two sides are kept apart:
what hangs together with a user's claim, and what hangs together with a record behind the honest
node. If something of one side opens a box of the other, the record is linked; if a side opens all
of its own, the claim's symbol is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import small_users as users
from small_search import Broken
from small_truth import boxes, key_at

from shuffledp_core.errors import ProofError
from shuffledp_core.mixproof.group import WIDTH, Element, Scalar, minus, multiply
from shuffledp_core.mixproof.terms import MixTerms

if TYPE_CHECKING:
    from small_table import Table

LINKED, READ = "linked", "read"
"""What those who are corrupt can do with a box. What an honest node put out they may read, and must
not link.
"""


def check_links(game: Table) -> None:
    """P4 at the first honest node, if it let something out or showed a share."""
    honest = [at for at in range(1, game.setting.nodes + 1) if not game.is_corrupt(f"node {at}")]
    if not honest:
        return
    at, terms, left = honest[0], game.terms, _shares(game, honest[0])
    out = {record[:WIDTH]: record[WIDTH:] for record in game.outputs.get(at, ())}
    messages = [
        (user, message)
        for user in game.honest_senders()
        for message in range(users.messages_of(terms, user))
    ]
    behind = [
        key for user, message in messages if (key := key_at(terms, user, message, at + 1)) in out
    ]
    right = _products(game.known, behind)
    for user, message in messages:
        own = _products(
            game.known,
            [*left, *(key_at(terms, user, message, before) for before in range(1, at + 1))],
        )
        seen = _peeled(terms, at, boxes(terms, user, message)[at], own, right) if at > 1 else ""
        if seen == READ:
            raise Broken("P4: the symbol of an honest user's claim is read")
        if seen == LINKED or any(
            _peeled(terms, at + 1, out[key], _products(game.known, [key]), own) == LINKED
            for key in behind
        ):
            raise Broken("P4: a message that an honest node put out is linked to its user")


def _shares(game: Table, at: int) -> list[Element]:
    """What the honest node showed, and that less what colluders hid in a key."""
    shown = [share for position, share in game.shown if position == at]
    if at == 1:
        return shown
    opening = game.terms.route.opener(at)[1]
    found = list(shown)
    for share in shown:
        for own in game.colluders():
            for secret in own:
                try:
                    found.append(minus(share, multiply(secret, opening)))
                except ProofError:
                    continue  # it was a colluder's own share
    return found


def _products(known: Iterable[Scalar], elements: Iterable[Element]) -> set[Element]:
    scalars = list(known)
    found = set(elements)
    for element in list(found):
        for first in scalars:
            found.add(one := multiply(first, element))
            found.update(multiply(second, one) for second in scalars)
    return found


def _peeled(
    terms: MixTerms, position: int, box: bytes, own: set[Element], other: set[Element]
) -> str:
    """`LINKED` where something of the other side opens a layer, `READ` where this side opens all of
    them."""
    for layer in range(position, terms.analyst + 1):
        if any(terms.open(layer, share, box) is not None for share in other - own):
            return LINKED
        box = next(
            (found for share in own if (found := terms.open(layer, share, box)) is not None), b""
        )
        if not box:
            return ""
    return READ
