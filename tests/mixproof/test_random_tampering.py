"""Random tampering by one node at each position, and by one user: nothing passes, and nobody honest
is blamed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random

import pytest
from mixing_cheats import secrets_of, spoiled_user, unchecked
from mixing_model import (
    ENROLLED,
    MESSAGES,
    NODES,
    USERS,
    World,
    credential_seed,
    find,
    honest_user,
    honest_users,
    randomness,
    symbols,
    terms,
)
from nacl import bindings

from shuffledp_adversary.attacks.exchange.random_changes import (
    change_field,
    change_records,
    flip_bit,
)
from shuffledp_core.errors import ShuffleDPError, TooFewReportsError, UnansweredError
from shuffledp_core.mixproof.claims import (
    PreparedClaim,
    check_claim,
    claim_bytes,
    open_submission,
    seal_record,
    sign_claim,
)
from shuffledp_core.mixproof.evidence import AccusedRecord, Moves, Passage, Trace
from shuffledp_core.mixproof.headers import Header, make_header, signed_header
from shuffledp_core.mixproof.hops import Hop, TraceQuestion
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.sampling.randomness import RandomBytes

HONEST = range(USERS - 1)
"""User 7 colludes with whoever tampers, or is the one who does."""


class Tamperer(Hop):
    """Does one random wrong thing, at one random place, and goes on as if nothing had been."""

    draw: Random
    where: str

    def release(self, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        if self._output is None and self.where == "output":
            header, records = super().release(random)
            if self.draw.random() < 0.3:
                header = change_field(header, self.draw)
                if self.draw.random() < 0.8:
                    header = replace(
                        header, signature=self._sign(signed_header(self._terms, header))
                    )
            else:
                records = tuple(change_records(records, self.draw))
                if self.draw.random() < 0.8:
                    header = self.own_header(records, random)
            self._output = header, records
        return super().release(random)

    def own_header(self, records: Sequence[bytes], random: RandomBytes) -> Header:
        chain, root = self.chain, Tree(records).root
        stated = Header(
            self.position, chain.link, self._listed.digest, chain.digest, len(records), root
        )
        return make_header(
            self._terms, stated, chain.total, self._secrets.blinding, self._sign, random
        )

    def accuse(self, random: RandomBytes) -> tuple[AccusedRecord, ...]:
        if self.where != "accusation" or self.position == 1:
            return super().accuse(random)
        accused = self._accuse(self.draw.randrange(len(self._input_batch.records)), random)
        self._accusation = (
            self._sign_accused(
                accused if self.draw.random() < 0.2 else change_field(accused, self.draw)
            ),
        )
        return self._accusation

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:
        found = super().show(question, random)
        if self.where != "step":
            return found
        case, asked = unchecked(self, question)[0], question.trace
        if found.origin is not None:
            return replace(
                found, origin=self._sign_answer(case, asked, change_field(found.origin, self.draw))
            )
        return replace(
            found,
            steps=(
                *asked.steps,
                self._sign_answer(case, asked, change_field(found.steps[-1], self.draw)),
            ),
        )

    def show_passage(
        self, question: TraceQuestion, passage: Passage, random: RandomBytes
    ) -> Passage:
        found = super().show_passage(question, passage, random)
        if self.where != "passage":
            return found
        moves, at = list(found.hops[-1].moves), self.draw.randrange(MESSAGES)
        moves[at] = change_field(moves[at], self.draw)
        return self._sign_moves(unchecked(self, question)[0], passage, Moves(tuple(moves)))


@cache
def before(position: int) -> World:
    """A round, with a spoiled message of user 7 at the analyst, up to what reaches a position."""
    world = World(users=(*honest_users()[:-1], spoiled_user(7, NODES + 1)))
    world.hops[0].take({user.claim.credential: user.submission for user in world.users})
    records: tuple[bytes, ...] = ()
    for hop in world.hops[:position]:
        if hop.position > 1:
            hop.receive(world.headers, [], records)
        if hop.position < position:
            hop.accuse(world.random)
            header, records = hop.release(world.random)
            world.headers.append(header)
    return world


def finish(world: World, position: int) -> None:
    """Goes on with a round from the release at a position."""
    records: tuple[bytes, ...] = ()
    for party in (*world.hops[position - 1 :], world.analyst):
        if party.position > position:
            party.receive(world.headers, world.transcripts, records)
        accused = party.accuse(world.random)
        if accused:
            world.settle(party, accused)
        if isinstance(party, Hop):
            header, records = party.release(world.random)
            world.headers.append(header)
    world.board, world.board_signature = world.analyst.board()
    world.check()


def tamper_at(position: int, draw: Random) -> World:
    start = before(position)
    world = World(users=start.users, headers=list(start.headers), random=start.random)
    world.hops[: position - 1] = start.hops[: position - 1]
    cheat = copy.copy(start.hops[position - 1])
    cheat.__class__ = Tamperer
    assert isinstance(cheat, Tamperer)
    cheat.draw, cheat.where = (
        draw,
        draw.choice(["output", "output", "accusation", "step", "passage"]),
    )
    world.hops[position - 1] = cheat
    finish(world, position)
    return world


def count(culprit: str, play: Callable[[], World]) -> str:
    """Plays once: "caught", "no answer", or "harmless": published with every honest message once
    and unchanged.

    Anything else fails: an honest party was blamed, or an honest message is missing.
    """
    try:
        world = play()
    except (UnansweredError, TooFewReportsError):
        return "no answer"
    except ShuffleDPError as error:
        if str(error).startswith("no claim:"):
            return "no answer"
        blamed = str(error)
    else:
        blamed = ""
    if blamed:
        assert blamed.split(":")[0] == culprit, blamed
        return "caught"
    assert [find(world, honest_user(user)) for user in HONEST] == [symbols(user) for user in HONEST]
    assert {each.credential for each in world.analyst.chain.excluded} <= {
        honest_user(7).claim.credential
    }
    assert len(world.board) <= USERS * MESSAGES
    return "harmless"


def changed_claim(draw: Random) -> PreparedClaim:
    """The honest claim with one change, which user 7 signs, or the network made."""
    user = honest_user(7)
    claim = change_field(user.claim, draw)
    if claim.credential == user.claim.credential and draw.random() < 0.5:
        private = bindings.crypto_sign_seed_keypair(credential_seed(7))[1]
        claim = replace(
            claim, signature=bindings.crypto_sign(claim_bytes(terms(), claim), private)[:64]
        )
    return replace(user, claim=claim)


def tampered_user(draw: Random) -> World:
    """User 7 tampers with its claim, its envelope, or seals nonsense at some layer."""
    where = draw.choice(["claim", "envelope", "box", "symbol", "proof"])
    message = draw.randrange(MESSAGES)
    if where in {"box", "symbol", "proof"}:
        return with_spoiled(
            draw.randrange(2, NODES + 2) if where == "box" else NODES + 1, where, message
        )
    user = changed_claim(draw) if where == "claim" else swapped(draw)
    if user.claim.credential != honest_user(7).claim.credential:
        assert user.claim.credential not in ENROLLED
        raise UnansweredError("no answer: nobody enrolled has this credential")
    check_claim(terms(), user.claim, ENROLLED)
    open_submission(terms(), user.claim, user.submission)
    return World(users=(*honest_users()[:-1], user)).play()


@cache
def with_spoiled(layer: int, how: str, message: int) -> World:
    """A round with user 7's message spoiled so, from which it must have been excluded."""
    world = World(users=(*honest_users()[:-1], spoiled_user(7, layer, how, message))).play()
    assert [each.credential for each in world.analyst.chain.excluded] == [
        honest_user(7).claim.credential
    ]
    return world


def swapped(draw: Random) -> PreparedClaim:
    """A submission that is not, or not quite, the claim's."""
    other = [seal_record(terms(), secret, 0) for secret in secrets_of(7)]
    foreign = sign_claim(terms(), other, secrets_of(7), credential_seed(7), randomness("p"))
    own = honest_user(7)
    sent = draw.choice(
        [
            flip_bit(own.submission, draw),
            foreign.submission,
            own.submission[:-1],
            own.submission + b"x",
        ]
    )
    return replace(own, submission=sent)


def tally(culprit: str, play: Callable[[Random], World], trials: int) -> dict[str, int]:
    found = [
        count(culprit, partial(play, Random(f"{culprit} {seed}")))  # noqa: S311
        for seed in range(trials)
    ]
    return {kind: found.count(kind) for kind in ("caught", "no answer", "harmless")}


@pytest.mark.parametrize("position", range(1, NODES + 1))
def test_one_node_tampers_fifteen_times(position: int) -> None:
    found = tally(f"node {position}", lambda draw: tamper_at(position, draw), 15)
    assert found["caught"] > 5, found


def test_one_user_tampers_fifteen_times() -> None:
    found = tally(f"user {honest_user(7).claim.credential.hex()}", tampered_user, 15)
    assert found["caught"] + found["no answer"] > 2, found


@pytest.mark.slow
@pytest.mark.parametrize("position", range(1, NODES + 1))
def test_one_node_tampers_a_thousand_times(position: int) -> None:
    found = tally(f"node {position}", lambda draw: tamper_at(position, draw), 1000)
    assert found["caught"] > 600, found


@pytest.mark.slow
def test_one_user_tampers_a_thousand_times() -> None:
    found = tally(f"user {honest_user(7).claim.credential.hex()}", tampered_user, 1000)
    assert found["caught"] > 50, found
