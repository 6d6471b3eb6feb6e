"""The attacks of docs/mixing.md, "Which check stops what"; `outcome` says what came of each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import mixing_cheats as cheats
import mixing_couriers as couriers
import mixing_dummies as dummies
import mixing_spellings as spellings
from mixing_cheats import secrets_of, spoiled_user
from mixing_false_claims import (
    cancelled_key,
    check_own_list,
    claim_for_another_round,
    copied_claim,
    copied_opening_key,
    identity_key,
    key_in_two_claims,
    key_of_another_round,
    listed_twice,
    made_up_user,
    one_key_twice,
    records_of,
    somebody_elses_signature,
    summed_keys,
)
from mixing_model import (
    NODES,
    USERS,
    World,
    credential_seed,
    honest_user,
    honest_users,
    listed,
    randomness,
    signer,
    terms,
)

from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.mixproof.blame import check_trace, signed_accused
from shuffledp_core.mixproof.chain import follow, signed_board
from shuffledp_core.mixproof.claims import (
    PreparedClaim,
    open_submission,
    sign_claim,
)
from shuffledp_core.mixproof.evidence import AccusedRecord, Trace
from shuffledp_core.mixproof.group import (
    GENERATOR,
    WIDTH,
    Scalar,
    multiply,
    random_scalar,
)
from shuffledp_core.mixproof.headers import signed_header
from shuffledp_core.mixproof.hops import Hop, TraceQuestion
from shuffledp_core.mixproof.proofs import prove_knowledge


def user_name(user: int) -> str:
    return f"user {honest_user(user).claim.credential.hex()}"


def outcome(attack: Callable[[], World | None]) -> tuple[str, str]:
    """What came of it: (class of the error, party at fault), or ("unnoticed", users that were
    excluded).

    Excluded users are the only ones that a round is published without.
    """
    try:
        world = attack()
    except ShuffleDPError as error:
        return type(error).__name__, str(error).split(":")[0]
    except (ValueError, KeyError, StopIteration, IndexError) as error:  # an honest party broke down
        return "crash", type(error).__name__
    named = world.analyst.chain.excluded if world else ()
    return "unnoticed", ", ".join(f"user {each.credential.hex()}" for each in named)


def with_users(*spoiled: PreparedClaim) -> tuple[PreparedClaim, ...]:
    """The honest users, the last of them replaced by these."""
    return (*honest_users()[: USERS - len(spoiled)], *spoiled)


def spoiled(layer: int, how: str = "box") -> World:
    return World(users=with_users(spoiled_user(7, layer, how))).play()


def three_spoiled() -> World:
    return World(
        users=with_users(*(spoiled_user(user, 2 + user % NODES) for user in (5, 6, 7))),
        terms=terms(5),
    ).play()


def too_many_spoiled() -> World:
    return World(users=with_users(*(spoiled_user(user, 3) for user in (5, 6, 7)))).play()


def put(kind: type[Hop], position: int, *users: PreparedClaim) -> World:
    return World(users=with_users(*users)).put(kind, position).play()


def other_claims_to_another_node() -> World:
    """User 7 colludes: it has two claims whose keys have the same sum."""
    first, second = secrets_of(7)
    shift = random_scalar(randomness("shift"))
    moved = [
        cheats.minus_secret([first, shift], Scalar(bytes(WIDTH))),
        cheats.subtracted(second, shift),
    ]
    lists = [
        with_users(sign_claim(terms(), *records_of(7, own), credential_seed(7), randomness("two")))
        for own in ([first, second], moved)
    ]
    world = World(users=lists[0])
    world.hops[2] = world.node(Hop, 3, listed(lists[1], terms()))
    return world.play()


def second_batch() -> None:
    """Node 1 gives rubbish, sees what node 2 opens for it, and tries again with a batch in
    order."""
    world = World().put(cheats.Rubbish, 1)
    with suppress(ShuffleDPError):
        world.play()
    honest = World()
    honest.hops[0].take({user.claim.credential: user.submission for user in honest.users})
    honest.hops[0].accuse(honest.random)
    header, records = honest.hops[0].release(honest.random)
    world.hops[1].receive([header], [], records)


def asked_again() -> None:
    """A node that is asked twice must not give two batches."""
    world = World()
    world.hops[0].take({user.claim.credential: user.submission for user in world.users})
    world.hops[0].accuse(world.random)
    for _ in range(2):
        header, records = world.hops[0].release(world.random)
        world.hops[1].receive([header], [], records)


def victim_alone() -> None:
    check_own_list([honest_user(0).claim])


def other_records_than_claimed() -> None:
    prepared = honest_user(0)
    open_submission(terms(), prepared.claim, cheats.flipped(prepared.submission))


def partly_traced() -> None:
    """Two records fail at node 2: the spoiled one of user 7, and one that node 1 spoiled and does
    not answer for."""
    world = World(users=with_users(spoiled_user(7, 2))).put(cheats.Rubbish, 1)
    first, second = world.hops[:2]
    first.take({user.claim.credential: user.submission for user in world.users})
    first.accuse(world.random)
    header, records = first.release(world.random)
    world.headers.append(header)
    second.receive(world.headers, [], records)
    accused = second.accuse(world.random)
    traceable = [one for one in accused if one.record != records[0]]
    second.settle(world.blame(2, traceable))
    second.release(world.random)


def nobody_answers() -> None:
    """The failed accuser is asked to let its batch go all the same."""
    world = World().put(cheats.Silent, 1)
    with suppress(ShuffleDPError):
        world.play()
    world.hops[1].release(world.random)


def let_out_before_settling() -> None:
    world = World(users=with_users(spoiled_user(7, 2)))
    world.hops[0].take({user.claim.credential: user.submission for user in world.users})
    world.hops[0].accuse(world.random)
    header, records = world.hops[0].release(world.random)
    world.hops[1].receive([header], [], records)
    world.hops[1].accuse(world.random)
    world.hops[1].release(world.random)


def asked_before_shown() -> None:
    """Node 3 accuses a record that opens, and asks node 2 for a step before anybody judged."""
    world = World().put(cheats.FalseAccuser, 3)
    records: tuple[bytes, ...] = ()
    world.hops[0].take({user.claim.credential: user.submission for user in world.users})
    for hop in world.hops[:2]:
        if hop.position > 1:
            hop.receive(world.headers, [], records)
        hop.accuse(world.random)
        header, records = hop.release(world.random)
        world.headers.append(header)
    world.hops[2].receive(world.headers, [], records)
    world.hops[1].show(
        world.question(3, Trace(world.hops[2].accuse(world.random)[0])), world.random
    )


def stopped_at(position: int, *users: PreparedClaim) -> tuple[World, tuple[AccusedRecord, ...]]:
    """A round up to the accusation at a position."""
    world = World(users=with_users(*users))
    records: tuple[bytes, ...] = ()
    world.hops[0].take({user.claim.credential: user.submission for user in world.users})
    for hop in world.hops[:position]:
        if hop.position > 1:
            hop.receive(world.headers, [], records)
        accused = hop.accuse(world.random)
        if hop.position < position:
            header, records = hop.release(world.random)
            world.headers.append(header)
    return world, accused


def answers_exchanged() -> None:
    """An accuser puts the honest node 2's step for one record into the trace of another one, to
    have it named."""
    world, accused = stopped_at(3, spoiled_user(6, 3), spoiled_user(7, 3))
    first, second = (
        world.hops[1].show(world.question(3, Trace(one)), world.random) for one in accused
    )
    case = follow(world.terms, world.listed, world.headers, []).case
    check_trace(case, 3, replace(first, steps=second.steps))


def other_header_before() -> None:
    """Node 1 signs a second header.

    Node 3 asks node 2 for its step behind that one, where node 2's record is not.
    """
    world, accused = stopped_at(3, spoiled_user(7, 3))
    other = world.node(cheats.Rubbish, 1)
    other.take({user.claim.credential: user.submission for user in world.users})
    other.accuse(world.random)
    headers = [other.release(world.random)[0], world.headers[1]]
    case = replace(follow(world.terms, world.listed, headers, []).case)
    signed = replace(accused[0], signature=signer(3)(signed_accused(case, 3, accused[0])))
    question = TraceQuestion(3, tuple(headers), (), Trace(signed))
    check_trace(case, 3, world.hops[1].show(question, world.random))


def header_too_many() -> None:
    """The analyst signs a header, too."""
    world = World().play()
    more = replace(world.headers[-1], position=NODES + 1)
    more = replace(more, signature=signer(NODES + 1)(signed_header(world.terms, more)))
    follow(world.terms, world.listed, [*world.headers, more], [])


def header_damaged() -> None:
    """Whoever carries an honest node's header damages its sum."""
    world, _ = stopped_at(2)
    damaged = replace(world.headers[0], total=multiply(random_scalar(world.random), GENERATOR))
    follow(world.terms, world.listed, [damaged], [])


def changed_board(how: str) -> World:
    """All nodes and the analyst together publish another board."""
    world = World(users=with_users(*(spoiled_user(user, 9) for user in (6, 7)))).play()
    board, base = list(world.board), terms().route.blinding[-1]
    if how == "dropped":
        board = board[1:]
    if how == "doubled":
        board[0] = board[1]
    if how == "exchanged":
        secret = random_scalar(randomness("board"))
        proof = prove_knowledge(
            "message",
            (terms().manifest, b"\x00"),
            base,
            multiply(secret, base),
            secret,
            world.random,
        )
        board[0] = multiply(secret, base) + b"\x00" + proof
    if how == "symbol":
        board[0] = board[0][:WIDTH] + bytes([(board[0][WIDTH] + 1) % 5]) + board[0][WIDTH + 1 :]
    world.board = tuple(board)
    world.board_signature = signer(NODES + 1)(signed_board(world.analyst.chain, board))
    world.check()
    return world


@dataclass(frozen=True)
class Attack:
    """One attack and what must come of it.

    `removed` are the checks without which something else comes of it.
    """

    play: Callable[[], World | None]
    error: str
    party: str
    removed: tuple[str, ...] = ()


def attacks() -> dict[str, Attack]:
    """Every attack by name."""
    seven = user_name(7)
    several = ", ".join(
        user_name(user) for user in sorted((5, 6, 7), key=lambda user: 2 + user % NODES)
    )
    bad_user = {
        f"damaged box at layer {layer}": Attack(
            lambda layer=layer: spoiled(layer),  # type: ignore[misc]
            "unnoticed",
            seven,
        )
        for layer in range(2, NODES + 2)
    }
    nodes = {
        f"{name} at node {position}": Attack(
            lambda kind=kind, position=position: put(kind, position),  # type: ignore[misc]
            error,
            "no answer" if error == "UnansweredError" else f"node {position}",
            removed if position == 1 else (),
        )
        for name, kind, error, removed in (
            ("exchanged record", cheats.Exchanger, "BadHopError", ("H5",)),
            ("exchanged record and its sum", cheats.FalseSum, "BadHopError", ("H6",)),
            ("exchanged record, compensated", cheats.Compensator, "BadBlameError", ()),
            ("doubled key, compensated", cheats.Doubler, "BadBlameError", ()),
            ("rubbish under an honest key", cheats.Rubbish, "BadBlameError", ()),
            ("copied key with rubbish", cheats.Copier, "BadHopError", ()),
            ("key that is no element", cheats.Invalid, "BadHopError", ()),
            ("identity as a key", cheats.Identity, "BadHopError", ()),
            ("dropped record", cheats.Dropper, "BadHopError", ()),
            ("other bytes than the root's", cheats.Torn, "UnansweredError", ("H4",)),
        )
        for position in range(1, NODES + 1)
    }
    return {
        **bad_user,
        **nodes,
        **carried(),
        **of_dummies(),
        "symbol outside the alphabet": Attack(
            lambda: spoiled(NODES + 1, "symbol"), "unnoticed", seven, ("F1",)
        ),
        "proof of another symbol": Attack(
            lambda: spoiled(NODES + 1, "proof"), "unnoticed", seven, ("F2",)
        ),
        "three bad users": Attack(three_spoiled, "unnoticed", several),
        "fewer left than needed": Attack(
            too_many_spoiled,
            "TooFewReportsError",
            "5 users are left after exclusions, fewer than the minimum, 6",
            ("F3",),
        ),
        "accuser lies": Attack(
            lambda: put(cheats.FalseAccuser, 3), "BadBlameError", "node 3", ("T2 opens",)
        ),
        "accuser shows a false share": Attack(
            lambda: put(cheats.FalseShare, 3), "BadBlameError", "node 3", ("T2 share",)
        ),
        "accuser spells a share in a second way": Attack(
            lambda: put(spellings.ShareRespeller, 3), "BadBlameError", "node 3", ("one encoding",)
        ),
        "accuser shows a foreign record": Attack(
            lambda: put(cheats.ForeignRecord, 3), "BadBlameError", "node 3", ("T1",)
        ),
        "rubbish, and a true history": Attack(
            lambda: put(cheats.TrueHistory, 2), "BadBlameError", "node 2", ("T4",)
        ),
        "rubbish, and a false input": Attack(
            lambda: put(cheats.FalseInput, 2), "BadBlameError", "node 2", ("T3 path",)
        ),
        "rubbish, and a colluder's history": Attack(
            lambda: put(cheats.Blamer, 2, spoiled_user(7, 3)),
            "BadBlameError",
            "node 2",
            ("T3 blinding",),
        ),
        "rubbish, and its owner is named": Attack(
            lambda: put(cheats.FalseOrigin, 1), "BadBlameError", "node 1", ("T5 path",)
        ),
        "rubbish, and a colluder is named": Attack(
            lambda: put(cheats.OtherOwner, 1, spoiled_user(7, 2)),
            "BadBlameError",
            "node 1",
            ("T5 blinding",),
        ),
        "an honest user's keys as the named user's": Attack(
            lambda: put(cheats.FalsePassage, 1, spoiled_user(7, 2)),
            "BadBlameError",
            "node 1",
            ("T6",),
        ),
        "a named user's key that was exchanged": Attack(
            lambda: put(cheats.Placeless, 1, spoiled_user(6, 9), spoiled_user(7, 2)),
            "BadBlameError",
            "node 1",
            ("T6 path",),
        ),
        "two headers of one node": Attack(
            other_header_before, "UnansweredError", "no answer", ("H1 link",)
        ),
        "a header behind the last node": Attack(header_too_many, "UnansweredError", "no answer"),
        "excluded record kept": Attack(
            lambda: put(cheats.Hoarder, 2, spoiled_user(6, 9), both_spoiled(7)),
            "BadBlameError",
            "node 2",
            ("T3 deleted",),
        ),
        "two keys of the named user add up to nothing": Attack(
            lambda: World(users=with_users(cheats.opposite_keys(7))).play(), "unnoticed", seven
        ),
        "an honest node's answers exchanged": Attack(
            answers_exchanged, "UnansweredError", "no answer", ("T0 step",)
        ),
        "a bit flipped on the way": Attack(
            header_damaged, "UnansweredError", "no answer", ("H1 signed",)
        ),
        "silence": Attack(
            lambda: put(cheats.Silent, 1), "UnansweredError", "no answer from node 1"
        ),
        "let out after silence": Attack(
            nobody_answers, "RoundStateError", "the party at position 2 has no batch"
        ),
        "let out before settling": Attack(
            let_out_before_settling, "RoundStateError", "the batch may not leave yet", ("H7 left",)
        ),
        "two failures, one traced": Attack(
            partly_traced, "UnansweredError", "no answer", ("H7 traced",)
        ),
        "asked before the failure is shown": Attack(
            asked_before_shown, "BadBlameError", "node 3", ("T7",)
        ),
        "second batch after a share": Attack(second_batch, "BadHopError", "node 1", ("H1 once",)),
        "asked for the batch again": Attack(asked_again, "unnoticed", "", ("H8",)),
        "other lists at two nodes": Attack(
            other_claims_to_another_node, "UnansweredError", "no answer", ("H1 list",)
        ),
        "a report more than people": Attack(
            lambda: put(cheats.Adder, 1, spoiled_user(7, 9)), "BadHopError", "node 1", ("H2",)
        ),
        "a colluder's key twice": Attack(
            lambda: put(cheats.DoubleForColluder, 1, spoiled_user(6, 9), spoiled_user(7, 2)),
            "BadHopError",
            "node 1",
            ("H3",),
        ),
        "symbol changed by the last node": Attack(
            lambda: put(cheats.SymbolChanger, 3), "BadBlameError", "node 3", ("F2",)
        ),
        "cancelled key": Attack(cancelled_key, "RoundKeyError", "node 3", ("K2",)),
        "copied opening key": Attack(copied_opening_key, "RoundKeyError", "node 3", ("K3",)),
        "keys of another round": Attack(key_of_another_round, "RoundKeyError", "node 1"),
        "identity as a round key": Attack(identity_key, "RoundKeyError", "node 1"),
        "keys that hide a victim's in their sum": Attack(
            summed_keys, "BadClaimError", seven, ("C3 powers",)
        ),
        "claim copied to another credential": Attack(copied_claim, "BadClaimError", seven, ("C3",)),
        "claim without a signature": Attack(
            somebody_elses_signature, "BadClaimError", "no claim", ("C1 signed",)
        ),
        "claim for another round": Attack(claim_for_another_round, "BadClaimError", "no claim"),
        "made-up user": Attack(made_up_user, "BadListError", "node 1", ("C1 enrolled",)),
        "one key twice in a claim": Attack(one_key_twice, "BadClaimError", seven, ("C2",)),
        "one key in two spellings": Attack(
            spellings.claim_with_two_spellings, "BadClaimError", seven
        ),
        "one key in two claims": Attack(key_in_two_claims, "BadListError", "node 1", ("L4",)),
        "one claim twice": Attack(listed_twice, "BadListError", "node 1", ()),
        "the victim alone": Attack(victim_alone, "BadListError", "node 1", ("L3",)),
        "other records than claimed": Attack(
            other_records_than_claimed, "BadClaimError", user_name(0), ("C4",)
        ),
        **{
            f"board with a {how} message": Attack(
                lambda how=how: changed_board(how),  # type: ignore[misc]
                "BadHopError",
                "analyst",
            )
            for how in ("dropped", "doubled", "exchanged", "symbol")
        },
    }


def of_dummies() -> dict[str, Attack]:
    """Attacks on the dummies of others, and broken dummies, in rounds whose nodes add some."""
    return {
        **{
            f"another node's dummy {what} at node {position}": Attack(
                lambda change=change, position=position: dummies.with_cheat(change, position),  # type: ignore[misc]
                error,
                f"node {position}",
            )
            for what, (change, error) in dummies.CHEATS.items()
            for position in range(1, dummies.OWNER)
        },
        **{
            f"another node's dummies {what} on the list": Attack(
                play, "BadListError", "node 1", ("D3 nodes",) if what != "made up" else ()
            )
            for what, play in dummies.LISTS.items()
        },
        **{
            f"{many} of a node's dummies broken at layer {layer}": Attack(
                lambda layer=layer, many=many: dummies.broken_dummies(2, layer, many),  # type: ignore[misc]
                "BadBlameError",
                "node 2",
                ("T5 dummies",),
            )
            for layer in range(2, NODES + 2)
            for many in (1, dummies.DUMMIES)
        },
        "a dummy outside the alphabet": Attack(
            lambda: dummies.broken_dummies(2, NODES + 1, 1, "symbol"),
            "BadBlameError",
            "node 2",
            ("T5 dummies",),
        ),
        "a node's key as a user's": Attack(
            dummies.node_as_a_user, "BadClaimError", "node 2", ("D3 users",)
        ),
    }


def carried() -> dict[str, Attack]:
    """Attacks by those who carry what others signed: nobody honest is named for them."""
    no_answer = ("UnansweredError", "no answer")
    found = {
        **{
            f"{how} on the way in {where}": Attack(
                lambda play=play, where=where: play(where),  # type: ignore[misc]
                *no_answer,
                (check or f"T0 {where}",),
            )
            for where in couriers.PARTS
            for how, play, check in (
                ("a path extended", couriers.path_extended, "T0 path"),
                ("a path merged", couriers.path_merged, "T0 path"),
                ("a bit flipped", couriers.part_damaged, ""),
            )
            # A path of one partner is already merged.
            if (how, where) != ("a path merged", "origin")
        },
        **{
            f"board {how}": Attack(lambda how=how: couriers.board_shown(how), *no_answer, removed)  # type: ignore[misc]
            for how, removed in (
                ("without the transcript", ("F4",)),
                ("without a header", ()),
                ("with a bit flipped", ("F4",)),
                ("empty", ()),
            )
        },
        **{
            f"list {how}": Attack(lambda how=how: couriers.list_shown(how), *no_answer, ("L1",))  # type: ignore[misc]
            for how in ("without claims", "with a bit flipped")
        },
        "an index that nobody can sign": Attack(couriers.index_too_large, *no_answer),
        "a count that nobody can sign": Attack(couriers.count_below_zero, *no_answer),
        "a passage of a stranger": Attack(couriers.passage_of_a_stranger, *no_answer),
        "a passage longer than the route": Attack(couriers.passage_too_long, *no_answer),
        "an accuser behind the analyst": Attack(couriers.accuser_behind_the_analyst, *no_answer),
        "asked behind a bad header": Attack(
            couriers.asked_behind_a_bad_header, *no_answer, ("T7 own",)
        ),
    }
    return {
        **found,
        "an honest user's passage for the named user's": Attack(
            couriers.passage_of_somebody_else, *no_answer, ("T6 named",)
        ),
        "board with two messages more": Attack(
            couriers.board_stuffed, "BadHopError", "analyst", ("H2 board",)
        ),
        "claim cut elsewhere": Attack(
            couriers.claim_cut_elsewhere, "BadClaimError", "no claim", ("C1 lengths",)
        ),
        "a damaged transcript before the whole one": Attack(
            couriers.damaged_then_whole, "unnoticed", ""
        ),
        "settled after refusal": Attack(
            couriers.settled_after_refusal,
            "RoundStateError",
            "there is no accusation to settle, or it was settled already",
        ),
        "another proof of one header": Attack(couriers.other_proof_of_a_header, "unnoticed", ""),
    }


def both_spoiled(user: int) -> PreparedClaim:
    """A user whose first message says nothing to node 2, and whose second nothing to node 3."""
    secrets = secrets_of(user)
    records = [
        cheats.spoiled_record(terms(), secret, 0, layer, "box")
        for secret, layer in zip(secrets, (2, 3), strict=True)
    ]
    return sign_claim(terms(), records, secrets, credential_seed(user), randomness("both"))
