"""Rounds whose nodes add dummies, and attacks on the dummies of others or by broken ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from mixing_cheats import Cheat, Records, flipped, spoiled_record
from mixing_false_claims import records_of
from mixing_model import (
    ALPHABET,
    ENROLLED,
    NODES,
    World,
    honest_users,
    identity_seed,
    list_signature,
    randomness,
    signer,
    terms,
)

from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    PreparedClaim,
    check_claim,
    check_list,
    make_dummies_claim,
    seal_record,
    sign_claim,
)
from shuffledp_core.mixproof.group import Scalar, random_scalar

DUMMIES = 3
"""Messages that every node adds."""

OWNER = 3
"""The honest node whose dummies others attack."""


def dummy_symbols(position: int) -> list[int]:
    return [(position + dummy) % ALPHABET for dummy in range(DUMMIES)]


@cache
def honest_dummies() -> tuple[PreparedClaim, ...]:
    return tuple(
        make_dummies_claim(
            terms(dummies=DUMMIES),
            position,
            dummy_symbols(position),
            signer(position),
            randomness(f"dummies {position}"),
        )
        for position in range(1, NODES + 1)
    )


def dummies_round(
    dummies: tuple[PreparedClaim, ...] | None = None,
    min_reports: int = 6,
    users: tuple[PreparedClaim, ...] | None = None,
) -> World:
    return World(
        users=users or honest_users(),
        terms=terms(min_reports, dummies=DUMMIES),
        dummies=dummies or honest_dummies(),
    )


def broken_dummies(position: int, layer: int, broken: int, how: str = "box") -> World:
    """A round in which some dummies of the node at `position` do not open at `layer`."""
    random = randomness(f"broken dummies {position}")
    secrets = [random_scalar(random) for _ in range(DUMMIES)]
    records = [
        spoiled_record(terms(), secret, 0, layer, how)
        if dummy < broken
        else seal_record(terms(), secret, 0)
        for dummy, secret in enumerate(secrets)
    ]
    claim = sign_claim(terms(dummies=DUMMIES), records, secrets, identity_seed(position), random)
    dummies = (*honest_dummies()[: position - 1], claim, *honest_dummies()[position:])
    # No user may be excluded, so that a party accuses the records of one user at most.
    return dummies_round(dummies, min_reports=len(honest_users())).play()


Change = Callable[[Cheat, Records, int], Records]
"""What a cheat makes of its records, of which the one at this place is another node's dummy."""


def drop(_cheat: Cheat, records: Records, at: int) -> Records:
    """Leaves out a dummy of another node."""
    return [*records[:at], *records[at + 1 :]]


def exchange(cheat: Cheat, records: Records, at: int) -> Records:
    """Puts a message of its own in the place of another node's dummy."""
    records[at] = cheat.made_up(random_scalar(randomness("own")))
    return records


def mark(_cheat: Cheat, records: Records, at: int) -> Records:
    """Damages a dummy of another node, to see behind it which one is left out."""
    records[at] = flipped(records[at])
    return records


def replay(_cheat: Cheat, records: Records, at: int) -> Records:
    """Puts a dummy of another node out twice, the second time in the place of a third record."""
    records[(at + 1) % len(records)] = records[at]
    return records


def attacked_secret() -> Scalar:
    """The secret of the attacked dummy: the test knows it, so that the cheat finds its record."""
    return honest_dummies()[OWNER - 1].secrets[0]


def with_cheat(change: Change, position: int) -> World:
    """A round whose node at this position changes its output around another node's dummy."""

    class DummyCheat(Cheat):
        def changed(self, records: Records) -> Records:
            return change(self, records, self.place(attacked_secret()))

    return dummies_round().put(DummyCheat, position).play()


def check_own_list(claims: Sequence[Claim], dummies: int = DUMMIES) -> ClaimList:
    """A list that node 1 signed."""
    round_terms = terms(dummies=dummies)
    enrolled = ENROLLED | {round_terms.node_credentials[1]}
    return check_list(round_terms, claims, enrolled, list_signature(round_terms, claims))


def list_with(dummies: Sequence[PreparedClaim]) -> None:
    users = sorted((user.claim for user in honest_users()), key=lambda claim: claim.credential)
    check_own_list([*users, *(prepared.claim for prepared in dummies)])


def second_claim(position: int) -> PreparedClaim:
    """What a node would claim that draws its dummies a second time."""
    return make_dummies_claim(
        terms(dummies=DUMMIES),
        position,
        dummy_symbols(position),
        signer(position),
        randomness(f"drawn again {position}"),
    )


def dummies_left_out() -> None:
    """Node 1 leaves out the dummies of the last node."""
    list_with(honest_dummies()[: NODES - 1])


def dummies_of_another_node() -> None:
    """Node 1 and node 2 put a second claim of node 2 in the place of the last node's."""
    list_with((*honest_dummies()[: NODES - 1], second_claim(2)))


def dummies_without_a_signature() -> None:
    """Node 1 draws dummies itself in the last node's name."""
    prepared = make_dummies_claim(
        terms(dummies=DUMMIES), NODES, dummy_symbols(NODES), signer(1), randomness("made up")
    )
    list_with((*honest_dummies()[: NODES - 1], prepared))


def node_as_a_user() -> None:
    """Node 2, which is enrolled as a user, too, claims a user's messages with its identity key."""
    round_terms = terms(dummies=len(records_of(7)[0]))
    claim = sign_claim(round_terms, *records_of(7), identity_seed(2), randomness("as a user")).claim
    check_claim(round_terms, claim, ENROLLED | {claim.credential})


CHEATS: dict[str, tuple[Change, str]] = {
    "dropped": (drop, "BadHopError"),
    "exchanged": (exchange, "BadHopError"),
    "marked": (mark, "BadBlameError"),
    "replayed": (replay, "BadHopError"),
}
"""What a node before its owner does to a dummy, and how the round ends."""

LISTS: dict[str, Callable[[], None]] = {
    "left out": dummies_left_out,
    "exchanged for a second claim of another node": dummies_of_another_node,
    "made up": dummies_without_a_signature,
}
"""What node 1 does to the claim of another node's dummies."""
