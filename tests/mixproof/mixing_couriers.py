"""Attacks by those who carry what others signed: they cut, drop, damage or exchange parts of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from mixing_cheats import flipped, minus_secret, spoiled_user
from mixing_model import (
    ENROLLED,
    NODES,
    USERS,
    World,
    honest_user,
    honest_users,
    list_signature,
    randomness,
    route_keys,
    signer,
    terms,
)

from shuffledp_core.errors import UnansweredError
from shuffledp_core.mixproof.blame import Case, check_passage, check_trace, judge, signed_moves
from shuffledp_core.mixproof.chain import check_board, follow, signed_board
from shuffledp_core.mixproof.claims import check_claim, check_list
from shuffledp_core.mixproof.evidence import MovedKey, Moves, Passage, Trace, Transcript
from shuffledp_core.mixproof.group import GENERATOR, Scalar, multiply, random_scalar
from shuffledp_core.mixproof.headers import make_header, signed_header
from shuffledp_core.mixproof.hops import TraceQuestion
from shuffledp_core.mixproof.proofs import prove_knowledge
from shuffledp_core.mixproof.trees import Tree

PARTS = ("accused", "step", "origin", "moves")


@cache
def excluding_at(position: int) -> World:
    """An honest round in which a record of user 7 said nothing at a position."""
    return World(users=(*honest_users()[: USERS - 1], spoiled_user(7, position))).play()


def case_and_transcript() -> tuple[Case, Transcript]:
    world = excluding_at(3)
    return follow(world.terms, world.listed, world.headers[:2], []).case, world.transcripts[0]


def part(transcript: Transcript, where: str) -> Any:
    """The accused record, the step, the origin, or the first key's move at the first hop."""
    trace, moves = transcript.traces[0], moves_of(transcript)
    return {
        "accused": trace.accused,
        "step": next(iter(trace.steps), None),
        "origin": trace.origin,
        "moves": moves[0],
    }[where]


def moves_of(transcript: Transcript) -> tuple[MovedKey, ...]:
    return transcript.passages[0].hops[0].moves


def put(transcript: Transcript, where: str, **fields: Any) -> Transcript:
    """The transcript with fields of one part changed; nobody signs it again."""
    trace, passage, new = (
        transcript.traces[0],
        transcript.passages[0],
        replace(part(transcript, where), **fields),
    )
    if where == "moves":
        hop = replace(passage.hops[0], moves=(new, *moves_of(transcript)[1:]))
        return replace(transcript, passages=(replace(passage, hops=(hop, *passage.hops[1:])),))
    changed: dict[str, Any] = {"steps": (new,)} if where == "step" else {where: new}
    return replace(transcript, traces=(replace(trace, **changed),))


def judged(where: str, **fields: Any) -> None:
    """Has a part of the transcript judged with these fields."""
    case, transcript = case_and_transcript()
    judge(case, put(transcript, where, **fields))


def path_extended(where: str) -> None:
    """The same bytes, with an empty partner behind them."""
    judged(where, path=(*part(case_and_transcript()[1], where).path, b""))


def path_merged(where: str) -> None:
    """The same bytes, as one partner."""
    judged(where, path=(b"".join(part(case_and_transcript()[1], where).path),))


def part_damaged(where: str) -> None:
    """A bit flipped in a proof."""
    field = "proof" if where == "accused" else "blinding_proof"
    judged(where, **{field: flipped(getattr(part(case_and_transcript()[1], where), field))})


def index_too_large() -> None:
    judged("step", index=2**40)


def count_below_zero() -> None:
    world = excluding_at(3)
    follow(world.terms, world.listed, [replace(world.headers[0], count=-1)], [])


def passage_of_a_stranger() -> None:
    check_passage(case_and_transcript()[0], Passage(b"stranger".ljust(32)))


def passage_too_long() -> None:
    case, transcript = case_and_transcript()
    check_passage(case, replace(transcript.passages[0], hops=3 * transcript.passages[0].hops))


def accuser_behind_the_analyst() -> None:
    case, transcript = case_and_transcript()
    check_trace(case, NODES + 6, transcript.traces[0])


def passage_of_somebody_else() -> None:
    """Node 1 colludes, and shows an honest user's keys in the place of the named one's."""
    world, transcript = accused_at_2()
    first, victim = world.hops[0], honest_user(0).claim
    records, case = (
        first.release(world.random)[1],
        follow(world.terms, world.listed, world.headers, []).case,
    )
    tree, moves = Tree(records), []
    for key in victim.key_list:
        at = first._input_batch.keys.index(key)
        place = first._order.index(at)
        moves.append(
            MovedKey(
                place, records[place], tree.path(place), first._blinding_proof(at, world.random)
            )
        )
    passage, hop = Passage(victim.credential), Moves(tuple(moves))
    signed = replace(hop, signature=signer(1)(signed_moves(case, 1, passage, hop)))
    judge(case, replace(transcript, passages=(replace(passage, hops=(signed,)),)))


def accused_at_2() -> tuple[World, Transcript]:
    """A round up to node 2's accusation of user 7, and the transcript that settles it."""
    world = World(users=(*honest_users()[: USERS - 1], spoiled_user(7, 2)))
    world.hops[0].take({user.claim.credential: user.submission for user in world.users})
    world.hops[0].accuse(world.random)
    header, records = world.hops[0].release(world.random)
    world.headers.append(header)
    world.hops[1].receive(world.headers, [], records)
    return world, world.blame(2, world.hops[1].accuse(world.random))


def damaged_then_whole() -> None:
    """The accuser gets a damaged transcript before the right one."""
    world, transcript = accused_at_2()
    with suppress(UnansweredError):
        world.hops[1].settle(put(transcript, "origin", signature=bytes(64)))
    world.hops[1].settle(transcript)
    world.hops[1].release(world.random)


def settled_after_refusal() -> None:
    """The accuser refused, and then gets the transcript."""
    world, transcript = accused_at_2()
    with suppress(UnansweredError):
        world.hops[1].settle(None)
    world.hops[1].settle(transcript)


def other_proof_of_a_header() -> None:
    """Node 1 signs a second proof of the same fields: whoever has that one still takes node 2's
    header."""
    world = excluding_at(3)
    first, secret = world.headers[0], route_keys()[0][0]
    stated = replace(first, total=b"", proof=b"", signature=b"")
    again = make_header(
        terms(), stated, world.listed.total, secret.blinding, signer(1), randomness("again")
    )
    assert again.parts() == first.parts()
    assert again.proof != first.proof
    follow(world.terms, world.listed, [again, *world.headers[1:2]], [])


def asked_behind_a_bad_header() -> None:
    """Node 2 is asked about another header than its own, behind one that fails: it must not even
    begin to judge it."""
    world, transcript = excluding_at(3), case_and_transcript()[1]
    bad = replace(world.headers[0], total=multiply(random_scalar(randomness("bad")), GENERATOR))
    bad = replace(bad, signature=signer(1)(signed_header(terms(), bad)))
    other = replace(world.headers[1], previous=bytes(32))
    question = TraceQuestion(3, (bad, other), (), Trace(transcript.traces[0].accused))
    world.hops[1].show(question, world.random)


def board_shown(how: str) -> None:
    """Whoever carries an honest board keeps back or damages something of it."""
    world = excluding_at(NODES + 1)
    kept = {
        "without the transcript": (world.headers, [], world.board),
        "without a header": (world.headers[:-1], [], world.board),
        "with a bit flipped": (
            world.headers,
            world.transcripts,
            (flipped(world.board[0]), *world.board[1:]),
        ),
        "empty": (world.headers, world.transcripts, ()),
    }
    check_board(world.terms, world.listed, *kept[how], world.board_signature)


def board_stuffed() -> None:
    """The analyst adds two messages whose keys add up to nothing."""
    world, base, more = World().play(), terms().route.blinding[-1], []
    secret = random_scalar(randomness("stuffed"))
    for own in (secret, minus_secret([], secret)):
        key, said = multiply(Scalar(own), base), b"\x01"
        proof = prove_knowledge("message", (terms().manifest, said), base, key, own, world.random)
        more.append(key + said + proof)
    board = (*world.board, *more)
    signature = signer(NODES + 1)(signed_board(world.analyst.chain, board))
    check_board(world.terms, world.listed, world.headers, world.transcripts, board, signature)


def list_shown(how: str) -> None:
    """Whoever carries node 1's list drops a claim, or damages it."""
    claims = excluding_at(3).listed.claims
    signature = list_signature(terms(), claims)
    damaged = replace(claims[0], proof=flipped(claims[0].proof))
    shown = {"without claims": claims[:2], "with a bit flipped": (damaged, *claims[1:])}
    check_list(terms(), shown[how], ENROLLED, signature)


def claim_cut_elsewhere() -> None:
    """The first byte of the proof is given to the root: the joined bytes, and so the signature,
    stay."""
    claim = honest_user(0).claim
    check_claim(
        terms(), replace(claim, root=claim.root + claim.proof[:1], proof=claim.proof[1:]), ENROLLED
    )
