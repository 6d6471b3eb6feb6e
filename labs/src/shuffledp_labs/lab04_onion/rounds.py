"""Rounds of lab 4, played in process with real onions, as plain data for the adversary."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from shuffledp_core.mechanisms import KRRHistogram, RRShuffle
from shuffledp_core.onion.geometry import Geometry

if TYPE_CHECKING:
    from shuffledp_adversary.in_process import Conduct, PlayedRound
    from shuffledp_labs.instance import Draws
    from shuffledp_shuffler.corruption import CorruptLog

USERS: Final = 40
SUM: Final = RRShuffle(max_value=3, randomise=Fraction(1, 2))
"""Three messages a user."""

NOBODY: Final = -1

PlainLogs = dict[int, dict[str, Any]]
"""Logs as `work.py` documents them."""


@dataclass(frozen=True)
class AdversaryView:
    """An adversary's view of one round: logs of corrupt nodes, and the board.

    Attributes:
        hops: number of nodes.
        logs: logs of the corrupt nodes.
        board: the published messages.
        truth: the sender of each of them.
    """

    hops: int
    logs: PlainLogs
    board: list[bytes]
    truth: list[int]

    @property
    def missing(self) -> tuple[int, ...]:
        """Nodes without a log."""
        return tuple(position for position in range(1, self.hops + 1) if position not in self.logs)

    @property
    def what(self) -> str:
        """Description of the view for messages: number of nodes, and missing logs."""
        without = (
            f" without the logs of {', '.join(map(str, self.missing))}"
            if self.missing
            else " with all logs"
        )
        return f"a round over {self.hops} nodes{without}"


def play_drawn_round(
    draws: Draws, hops: int, conduct: Conduct | None = None, users: int = USERS
) -> PlayedRound:
    """Play a round of users with drawn answers; all its randomness comes from the draws."""
    from shuffledp_adversary.in_process import HONEST, plain_messages, play

    geometry = Geometry.of(SUM, "sealed-box", hops)
    answers = [draws.below(SUM.max_value + 1) for _ in range(users)]
    return play(
        geometry,
        plain_messages(geometry, SUM, answers, draws.bytes),
        conduct or HONEST,
        draws.bytes,
    )


def seen_by(played: PlayedRound, corrupt: Collection[int]) -> AdversaryView:
    """View of an adversary with the logs of these nodes."""
    hops = played.geometry.hops
    logs = plain_logs(
        {position: played.logs[position] for position in corrupt}, played.geometry.messages_per_user
    )
    sender = {
        message: user for user, messages in enumerate(played.messages) for message in messages
    }
    return AdversaryView(hops, logs, played.board, [sender[message] for message in played.board])


def plain_logs(logs: Mapping[int, CorruptLog], messages: int) -> PlainLogs:
    """Convert shuffledp's logs into plain data."""
    return {
        position: {
            "permutation": log.permutation.tolist(),
            "incoming": [row.tobytes() for row in log.incoming],
            "outgoing": [row.tobytes() for row in log.outgoing],
            "messages": messages,
        }
        for position, log in sorted(logs.items())
    }


def trails(played: PlayedRound, users: Sequence[int]) -> list[list[bytes]]:
    """For every message of these users, its digests at the output of each node.

    Only where nothing was dropped.
    """
    per_user = played.geometry.messages_per_user
    all_trails = []
    for index in (user * per_user + number for user in users for number in range(per_user)):
        trail, at = [], index
        for position in range(1, played.geometry.hops + 1):
            at = played.logs[position].permutation.tolist().index(at)
            trail.append(played.logs[position].outgoing[at].tobytes())
        all_trails.append(trail)
    return all_trails


def krr(symbols: int, blanket: Fraction) -> dict[str, Any]:
    """The k-RR mechanism of a histogram, in the form that `work.py` documents."""
    return {"mechanism": KRRHistogram.kind, "symbols": symbols, "blanket": blanket}


def rr(max_value: int, randomise: Fraction) -> dict[str, Any]:
    """The RR mechanism of a sum, in the form that `work.py` documents."""
    return {"mechanism": RRShuffle.kind, "max_value": max_value, "randomise": randomise}


def likelihoods(spec: Mapping[str, Any]) -> list[list[Fraction]]:
    """P(answer | value) as rationals, with one row for each answer.

    It implements the certified law a second time.
    """
    if "symbols" in spec:
        k, other = spec["symbols"], spec["blanket"] / spec["symbols"]
        return [
            [other + (1 - spec["blanket"] if value == answer else 0) for value in range(k)]
            for answer in range(k)
        ]
    k, flip = spec["max_value"], spec["randomise"] / 2
    laws = [_ones([1 - flip] * value + [flip] * (k - value)) for value in range(k + 1)]
    return [[law[answer] for law in laws] for answer in range(k + 1)]


def _ones(chances: Sequence[Fraction]) -> list[Fraction]:
    """The law of the number of ones among independent bits, by adding one bit after the other."""
    law = [Fraction(1)]
    for chance in chances:
        stays = [mass * (1 - chance) for mass in law] + [Fraction(0)]
        turns = [Fraction(0)] + [mass * chance for mass in law]
        law = [unturned + turned for unturned, turned in zip(stays, turns, strict=True)]
    return law


def best_guesses(
    answer: int | None, prior: Sequence[Fraction], table: Sequence[Sequence[Fraction]]
) -> set[int]:
    """All values with the largest posterior."""
    row = [Fraction(1)] * len(prior) if answer is None else table[answer]
    scores = [chance * share for chance, share in zip(row, prior, strict=True)]
    return {value for value, score in enumerate(scores) if score == max(scores)}


def success(prior: Sequence[Fraction], table: Sequence[Sequence[Fraction]]) -> Fraction:
    """Probability that the best guess from an answer is right."""
    return sum(
        (max(chance * share for chance, share in zip(row, prior, strict=True)) for row in table),
        start=Fraction(0),
    )
