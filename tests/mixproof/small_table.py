"""Who takes part in a small round, what has been said so far, and what must hold of every error."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import small_carriers as carriers
import small_users as users
from nacl import bindings
from small_ledger import ALL_RULES
from small_search import Broken, Choices, Moot

from shuffledp_core.errors import ShuffleDPError, UnansweredError
from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    PreparedClaim,
    check_list,
)
from shuffledp_core.mixproof.evidence import Transcript
from shuffledp_core.mixproof.group import Element, Scalar, multiply, number
from shuffledp_core.mixproof.headers import Header, Signer
from shuffledp_core.mixproof.hops import Receiver
from shuffledp_core.mixproof.keys import (
    NodeKey,
    NodeSecret,
    Route,
    check_route,
    make_key,
    route_context,
)
from shuffledp_core.mixproof.terms import MixTerms

STRANGER = 99
"""A user who is not enrolled."""

CONTEXT = route_context("small", "00" * 16, "11" * 32)
ALPHABET = 3
KEYS = (
    "cancels the key before it",
    "an opening key of another base",
    "copies the opening key",
    "the identity",
    "a key in a second spelling",
)
LIST = (
    "lists somebody made up",
    "lists user 0 alone",
    "lists somebody twice",
    "lists a damaged claim",
    "two lists",
)
DUMMIES_LIST = ("lists no dummies of the last node", "lists dummies of its own for the last node's")
PASSED_ON = ("a claim cut elsewhere", "a claim with a damaged proof")
CLAIMED = ("the list without a claim", "the list with a damaged claim")


@dataclass(frozen=True)
class Setting:
    """How large a round is, who is corrupt, and by which rules its budget is settled.

    Parties are "node 1", .., "analyst", "user 0", .. and "carrier", who brings what others signed.
    With `shared_keys` an honest node 1 does not look whether two claims share a key. What is
    `given` ("who: move") is no choice."""

    corrupt: frozenset[str]
    nodes: int = 2
    people: int = 3
    messages: int = 1
    dummies: int = 0
    min_reports: int = 2
    shared_keys: bool = False
    given: frozenset[str] = frozenset()
    ledger: frozenset[str] = ALL_RULES


class Drawn:
    """Bytes that are never the same twice for one use, and the same in every run."""

    def __init__(self, what: str) -> None:
        self._what, self._count = what.encode(), 0

    def __call__(self, size: int) -> bytes:
        self._count += 1
        return hashlib.shake_128(self._what + number(self._count)).digest(size)


@cache
def signer(position: int) -> Signer:
    private = bindings.crypto_sign_seed_keypair(users.identity_seed(position))[1]
    return lambda statement: bindings.crypto_sign(statement, private)[:64]


@cache
def node_key(position: int, before: Route) -> tuple[NodeSecret, NodeKey]:
    return make_key(
        CONTEXT, f"mix-{position}", position, before.blinding[-1], Drawn(f"key {position}")
    )


@cache
def checked_route(keys: tuple[NodeKey, ...]) -> Route:
    return check_route(CONTEXT, [f"mix-{position}" for position in range(1, len(keys) + 1)], keys)


@cache
def checked_list(
    terms: MixTerms, claims: tuple[Claim, ...], enrolled: frozenset[bytes], signature: bytes
) -> ClaimList:
    return check_list(terms, claims, enrolled, signature)


class Table:
    """One run: what all its parts work on."""

    terms: MixTerms
    listed: ClaimList

    def __init__(self, setting: Setting, choices: Choices) -> None:
        self.setting, self.choices, self.random = setting, choices, Drawn("round")
        self.enrolled = frozenset(users.credential(user) for user in range(setting.people))
        self.known: list[Scalar] = []
        self.forwarded: set[int] = set()
        self.headers: list[Header] = []
        self.transcripts: list[Transcript] = []
        self.parties: list[Receiver] = []
        self.sent: dict[int, PreparedClaim] = {}
        self.dummies: dict[int, PreparedClaim] = {}
        self.shown: list[tuple[int, Element]] = []
        self.outputs: dict[int, tuple[bytes, ...]] = {}
        self.excused = self.odd_keys = False
        self.second_list: ClaimList | None = None

    # Who is who

    def name(self, who: Receiver | str) -> str:
        if isinstance(who, str):
            return who
        return "analyst" if who.position > self.setting.nodes else f"node {who.position}"

    def is_corrupt(self, who: Receiver | str) -> bool:
        return self.name(who) in self.setting.corrupt

    def pick(self, who: Receiver | str, moves: Sequence[str]) -> str:
        """What a corrupt party chooses; "" for an honest one."""
        if not self.is_corrupt(who) or not moves:
            return ""
        for move in moves:
            if f"{self.name(who)}: {move}" in self.setting.given:
                return move
        return self.choices.pick(self.name(who), moves)

    def honest_users(self) -> list[int]:
        return [user for user in range(self.setting.people) if not self.is_corrupt(f"user {user}")]

    def honest_nodes(self) -> list[int]:
        nodes = range(1, self.setting.nodes + 1)
        return [position for position in nodes if not self.is_corrupt(f"node {position}")]

    def honest_senders(self) -> list[int]:
        """All whose messages must arrive; first the nodes, whose dummies are attacked first."""
        nodes = self.honest_nodes() if self.setting.dummies else []
        return [*map(users.dummies_of, nodes), *self.honest_users()]

    def colluders(self) -> list[tuple[Scalar, ...]]:
        """The secrets of the corrupt users, the last one first."""
        corrupt = [user for user in range(self.setting.people) if self.is_corrupt(f"user {user}")]
        return [users.secrets_of(user, self.setting.messages) for user in reversed(corrupt)]

    def honest_place(self, keys: Sequence[Element], blinded: int) -> int:
        """Where an honest user's key stands among these, which `blinded` nodes blinded."""
        base = self.terms.route.blinding[blinded]
        for user in self.honest_senders():
            for secret in users.honest(self.terms, user).secrets:
                if (key := multiply(secret, base)) in keys:
                    return keys.index(key)
        raise Moot

    # What must hold of every error

    @contextmanager
    def by(self, who: Receiver | str) -> Iterator[None]:
        """What a party does: of a corrupt one, errors are its own affair."""
        try:
            yield
        except ShuffleDPError as error:
            if self.is_corrupt(who):
                raise Moot from error
            raise
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            if self.is_corrupt(who):
                raise Moot from error
            raise Broken(f"{self.name(who)} is honest, and breaks down: {error!r}") from error

    def check_named(self, error: ShuffleDPError) -> bool:
        """P2: nobody honest is named. True if somebody is."""
        said = str(error).split(":")[0]
        if said.startswith("user "):
            owners = {
                users.credential(user).hex(): f"user {user}" for user in range(self.setting.people)
            }
            said = owners.get(said[5:], "user unknown")
            if said == "user unknown":
                return True
        if not said.startswith(("node ", "analyst", "user ")):
            return False
        if said not in self.setting.corrupt:
            raise Broken(f"P2: {said} is honest, and named: {error}")
        return True

    def harmless(self, play: carriers.Play) -> None:
        """Plays what somebody on the way damaged: nobody honest is named, and all goes on as if it
        had not come."""
        self.excused = True
        try:
            play()
        except UnansweredError:
            pass
        except ShuffleDPError as error:
            self.check_named(error)
            # somebody corrupt is named by what was damaged: as if it had come so
            raise Moot from error
        except (ValueError, KeyError, IndexError) as error:
            raise Broken(f"somebody honest breaks down: {error!r}") from error
