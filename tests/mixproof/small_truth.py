"""What is true of a small round, by those who know all secrets: P1, P2 (d) and P3 of
docs/mixing.md."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import small_users as users
from small_search import Broken

from shuffledp_core.mixproof.chain import Chain
from shuffledp_core.mixproof.evidence import Trace
from shuffledp_core.mixproof.group import WIDTH, Element, multiply
from shuffledp_core.mixproof.hops import Hop
from shuffledp_core.mixproof.terms import MixTerms, split_record

if TYPE_CHECKING:
    from small_table import Table


@cache
def boxes(terms: MixTerms, user: int, message: int) -> dict[int, bytes]:
    """The box of an honest user's message as it stands at each position, as the user made it."""
    prepared, width = users.honest(terms, user), terms.record_bytes(1)
    secret, box = (
        prepared.secrets[message],
        prepared.submission[WIDTH + message * width + WIDTH :][: width - WIDTH],
    )
    found = {1: box, 2: box}
    for position in range(2, terms.hops + 1):
        box = terms.open(position, multiply(secret, terms.route.opener(position)[1]), box) or b""
        found[position + 1] = box
    return found


def key_at(terms: MixTerms, user: int, message: int, position: int) -> Element:
    """The key of an honest user's message in the input of a position."""
    return multiply(users.honest(terms, user).secrets[message], terms.route.blinding[position - 1])


def check_crowd(game: Table, hop: Hop) -> None:
    """P1, of an honest node that let something out."""
    terms, at = game.terms, hop.position
    batch = {record[:WIDTH]: split_record(record)[1] for record in hop._input_batch.records}
    claims = {claim.credential: claim for claim in hop._listed.claims}
    excluded = {each.credential for each in hop.chain.excluded}
    people = set(claims) - set(terms.node_credentials)
    if not people <= game.enrolled:
        raise Broken("P1: somebody on an honest node's list is not enrolled")
    if len(people - excluded) < terms.min_reports:
        raise Broken("P1: an honest node lets something out for fewer users than it should")
    for user in game.honest_senders():
        own = users.honest(terms, user).claim
        listed = claims.get(own.credential)
        if listed is not None and listed != own:
            raise Broken("P1: an honest user is listed with another claim than its own")
        if listed is None and user >= users.OF_NODES:
            raise Broken("P1: an honest node lets something out without an honest node's dummies")
        for message in range(users.messages_of(terms, user)):
            found = batch.get(key_at(terms, user, message, at))
            if found != (boxes(terms, user, message)[at] if listed else None):
                raise Broken(
                    f"P1: honest node {at} lets a batch out in which an honest user's message is "
                    "not as it was"
                )
    left = hop._remaining()
    if len(left) != terms.count_messages(len(people) - len(excluded)):
        raise Broken("P1: an honest node lets out more or less than its list has messages")
    if any(hop._input_batch.contents[index] is None for index in left):
        raise Broken("P1: an honest node lets out a record that did not open")


def check_shown(game: Table, hop: Hop, trace: Trace) -> None:
    """P2 (d): what an honest node shows belongs to no honest user."""
    last = trace.steps[-1].record[:WIDTH] if hop.position > 1 else b""
    for user in game.honest_senders():
        own = users.credential(user)
        for message in range(users.messages_of(game.terms, user)):
            if last == key_at(game.terms, user, message, hop.position):
                raise Broken("P2 (d): an honest node shows a step of an honest user's record")
        if hop.position == 1 and trace.origin and trace.origin.credential == own:
            raise Broken("P2 (d): an honest node 1 shows whose record it was, of an honest user")


def check_board_truth(game: Table, chain: Chain, board: Sequence[bytes]) -> None:
    """P3, of a board that anybody takes."""
    terms, listed = game.terms, chain.case.listed.by_credential
    said = {message[:WIDTH]: message[WIDTH : WIDTH + terms.symbol_bytes] for message in board}
    people = len(set(listed) - set(terms.node_credentials))
    if len(said) != len(board) or len(board) != terms.count_messages(people - len(chain.excluded)):
        raise Broken("P3: the board has more or less than the messages of the users that are left")
    if any(int.from_bytes(symbol, "big") >= terms.alphabet for symbol in said.values()):
        raise Broken("P3: the board has a symbol that there is not")
    for user in game.honest_senders():
        own = users.honest(terms, user).claim
        if own.credential in listed:
            for message in range(users.messages_of(terms, user)):
                symbol = bytes([(user + message) % terms.alphabet])
                if said.get(key_at(terms, user, message, terms.analyst)) != symbol:
                    raise Broken("P3: the board has not every message of a listed honest user")
