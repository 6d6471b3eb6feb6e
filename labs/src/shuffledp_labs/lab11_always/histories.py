"""Histories of rounds with their lists of participants, and what an adversary can conclude.

The adversary sees who takes part in a round, since its messages come from somewhere, and the board.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import factorial, prod
from typing import Any, Final, TypeAlias

from shuffledp_labs.instance import Draws

Board: TypeAlias = tuple[int, ...]
Law: TypeAlias = tuple[Fraction, ...]

TARGET: Final = "victim"


@dataclass(frozen=True)
class SeenRound:
    """The participants of a round, and its board: the number of messages with each symbol."""

    present: tuple[str, ...]
    board: Board

    @property
    def as_student_data(self) -> dict[str, Any]:
        """The round as argument of the student's functions."""
        return {"present": self.present, "board": self.board}


@dataclass(frozen=True)
class Pattern:
    """Rounds in which some users always send a symbol that no other user ever sends.

    Attributes:
        kind: description of the kind, for messages.
        rounds: the rounds.
        symbol: the symbol that they send.
        senders: number of users who send it.
    """

    kind: str
    rounds: tuple[SeenRound, ...]
    symbol: int
    senders: int

    @property
    def certain(self) -> tuple[str, ...]:
        """The users who must be senders: no set without them explains the counts."""
        users = sorted({user for seen in self.rounds for user in seen.present})
        counts = tuple(seen.board[self.symbol] for seen in self.rounds)
        patterns = {
            user: tuple(int(user in seen.present) for seen in self.rounds) for user in users
        }
        explanations = list(_explanations(patterns, counts, self.senders))
        return tuple(user for user in users if all(user in senders for senders in explanations))


def _explanations(
    patterns: dict[str, tuple[int, ...]], counts: tuple[int, ...], senders: int
) -> list[frozenset[str]]:
    """Every set of `senders` users whose patterns add up to the counts."""
    if senders == 0:
        return [] if any(counts) else [frozenset()]
    explanations = list[frozenset[str]]()
    for user, pattern in patterns.items():
        left = tuple(count - present for count, present in zip(counts, pattern, strict=True))
        if min(left) >= 0:
            later = {name: other for name, other in patterns.items() if name > user}
            explanations += [rest | {user} for rest in _explanations(later, left, senders - 1)]
    return explanations


PROVED: Final = ("one sender", "two senders", "two senders, one with a twin")
OPEN: Final = ("one sender with a twin", "two senders with twins", "few rounds")
"""Kinds of patterns in which some users are certain, or none is. A twin takes part in the same
rounds."""


def draw_pattern(draws: Draws, kind: str) -> Pattern:
    """Draw a history of this kind, with the number of identifiable senders that the kind has."""
    while True:
        pattern = _attempt(draws, kind)
        if len(pattern.certain) == _CERTAIN[kind]:
            return pattern


_CERTAIN: Final = {
    "one sender": 1,
    "two senders": 2,
    "two senders, one with a twin": 1,
    "one sender with a twin": 0,
    "two senders with twins": 0,
    "few rounds": 0,
}


def _attempt(draws: Draws, kind: str) -> Pattern:
    users = [f"user-{number:02}" for number in range(draws.integer(8, 12))]
    rounds = 2 if kind == "few rounds" else draws.integer(7, 9)
    present = {user: _draw_presence(draws, rounds) for user in users}
    senders = draws.sample(users, 1 if kind.startswith("one") else 2)
    twins = {"two senders, one with a twin": senders[:1], "few rounds": []}.get(
        kind, senders if "twin" in kind else []
    )
    others = [user for user in users if user not in senders]
    for sender, twin in zip(twins, draws.sample(others, len(twins)), strict=True):
        present[twin] = present[sender]
    symbols = draws.integer(3, 5)
    symbol = draws.below(symbols)
    seen = tuple(
        _round_with_rare_symbol(
            draws, [user for user in users if present[user][index]], senders, (symbols, symbol)
        )
        for index in range(rounds)
    )
    return Pattern(kind, seen, symbol, len(senders))


def _draw_presence(draws: Draws, rounds: int) -> list[bool]:
    """Draw the rounds in which a user takes part, at least one."""
    while True:
        presence = [draws.below(2) == 1 for _ in range(rounds)]
        if any(presence):
            return presence


def _round_with_rare_symbol(
    draws: Draws, present: Sequence[str], senders: Sequence[str], symbols: tuple[int, int]
) -> SeenRound:
    number, rare = symbols
    board = [0] * number
    for user in present:
        other = draws.choice([symbol for symbol in range(number) if symbol != rare])
        board[rare if user in senders else other] += 1
    return SeenRound(tuple(draws.permute(present)), tuple(board))


@dataclass(frozen=True)
class CrowdKnowledge:
    """The knowledge of an adversary who guesses one user's value.

    Attributes:
        truth: probability that the victim's message carries its value; all other symbols are
            equally likely.
        crowds: possible laws of the other users' messages, equally likely; one holds in all rounds.
        prior: how frequent each value is.
    """

    truth: Fraction
    crowds: tuple[Law, ...]
    prior: Law

    @property
    def symbols(self) -> int:
        """Number of symbols; each is a value, too."""
        return len(self.prior)

    @property
    def as_student_data(self) -> dict[str, Any]:
        """The knowledge as argument of the student's function."""
        return {"truth": self.truth, "crowds": self.crowds, "prior": self.prior}

    def message_law(self, value: int) -> Law:
        """The law of a message of a victim who holds `value`."""
        other = (1 - self.truth) / (self.symbols - 1)
        return tuple(self.truth if symbol == value else other for symbol in range(self.symbols))

    def weights(self, rounds: Sequence[SeenRound]) -> tuple[Fraction, ...]:
        """For each value, its probability jointly with these boards, up to a common factor."""
        return tuple(
            prior
            * sum(
                prod((self._chance(seen, law, value) for seen in rounds), start=Fraction(1))
                for law in self.crowds
            )
            for value, prior in enumerate(self.prior)
        )

    def best(self, rounds: Sequence[SeenRound]) -> frozenset[int]:
        """The most probable values."""
        weights = self.weights(rounds)
        return frozenset(value for value, weight in enumerate(weights) if weight == max(weights))

    def _chance(self, seen: SeenRound, law: Law, value: int) -> Fraction:
        if TARGET not in seen.present:
            return _multinomial(seen.board, law)
        return sum(
            (
                chance * _multinomial(_without(seen.board, symbol), law)
                for symbol, chance in enumerate(self.message_law(value))
                if seen.board[symbol]
            ),
            start=Fraction(0),
        )


def _without(board: Board, symbol: int) -> Board:
    return tuple(count - (index == symbol) for index, count in enumerate(board))


def _multinomial(board: Board, law: Law) -> Fraction:
    """Probability of a board whose messages are independent and have the same law."""
    orders = factorial(sum(board)) // prod(factorial(count) for count in board)
    return orders * prod(
        (chance**count for chance, count in zip(law, board, strict=True)), start=Fraction(1)
    )


def draw_crowd(draws: Draws) -> CrowdKnowledge:
    """Draw knowledge with several possible laws of the crowd."""
    symbols = draws.integer(2, 3)
    crowds = tuple(_draw_law(draws, symbols) for _ in range(draws.integer(3, 4)))
    return CrowdKnowledge(Fraction(draws.integer(7, 9), 10), crowds, _draw_law(draws, symbols))


def _draw_law(draws: Draws, symbols: int) -> Law:
    weights = [draws.integer(3, 12) for _ in range(symbols)]
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def draw_rounds(
    draws: Draws,
    crowd: CrowdKnowledge,
    rounds: int,
    present: Callable[[int], bool],
    others: int = 6,
) -> tuple[int, tuple[SeenRound, ...]]:
    """Draw a value, a law of the crowd, and rounds; `present` says when the victim takes part.

    Each of the others takes part in two of three rounds, by chance.
    """
    value = _draw_symbol(draws, crowd.prior)
    law = draws.choice(crowd.crowds)
    seen = list[SeenRound]()
    for index in range(rounds):
        users = [f"user-{number}" for number in range(others) if draws.below(3)]
        with_victim = present(index) or not users
        seen.append(_draw_round(draws, (crowd, law), users, value if with_victim else None))
    return value, tuple(seen)


def draw_covered_rounds(
    draws: Draws, crowd: CrowdKnowledge, rounds: int, others: int
) -> tuple[int, tuple[SeenRound, ...]]:
    """Draw rounds with cover messages, in which every device sends."""
    value = _draw_symbol(draws, crowd.prior)
    law = draws.choice(crowd.crowds)
    users = [f"user-{number}" for number in range(others)]
    return value, tuple(_draw_round(draws, (crowd, law), users, value) for _ in range(rounds))


def _draw_round(
    draws: Draws, drawn: tuple[CrowdKnowledge, Law], users: Sequence[str], value: int | None
) -> SeenRound:
    """Draw a round of these users, and of the victim if it has a value."""
    crowd, law = drawn
    board = [0] * crowd.symbols
    for _ in users:
        board[_draw_symbol(draws, law)] += 1
    if value is None:
        return SeenRound(tuple(draws.permute(users)), tuple(board))
    board[_draw_symbol(draws, crowd.message_law(value))] += 1
    return SeenRound(tuple(draws.permute([*users, TARGET])), tuple(board))


def _draw_symbol(draws: Draws, law: Law) -> int:
    left = list(enumerate(law))
    remaining = Fraction(1)
    for symbol, chance in left[:-1]:
        if draws.flip(chance / remaining):
            return symbol
        remaining -= chance
    return left[-1][0]


# Rules that are not the best guess. For each, histories are drawn on which it is wrong.


def _commonest(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    counts = [
        sum(seen.board[symbol] for seen in rounds if TARGET in seen.present)
        for symbol in range(crowd.symbols)
    ]
    return counts.index(max(counts))


def _likeliest(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    flat = tuple(Fraction(1, crowd.symbols) for _ in crowd.prior)
    return min(CrowdKnowledge(crowd.truth, crowd.crowds, flat).best(rounds))


def _only_with_victim(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    return min(crowd.best([seen for seen in rounds if TARGET in seen.present]))


def _mean_crowd(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    mean = tuple(sum(chances) / len(chances) for chances in zip(*crowd.crowds, strict=True))
    return min(CrowdKnowledge(crowd.truth, (mean,), crowd.prior).best(rounds))


def _first_crowd(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    return min(CrowdKnowledge(crowd.truth, crowd.crowds[:1], crowd.prior).best(rounds))


def _always_there(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    present = [SeenRound((*seen.present, TARGET), seen.board) for seen in rounds]
    return min(crowd.best(present))


def _prior_only(crowd: CrowdKnowledge, _: Sequence[SeenRound]) -> int:
    return crowd.prior.index(max(crowd.prior))


def _afresh(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    """Guess by a wrong rule: as if the crowd's law were drawn again in every round."""
    scores = [
        prior
        * prod(
            (CrowdKnowledge(crowd.truth, crowd.crowds, crowd.prior).weights([seen])[value] / prior)
            for seen in rounds
        )
        for value, prior in enumerate(crowd.prior)
    ]
    return scores.index(max(scores))


class _CarelessKnowledge(CrowdKnowledge):
    """Wrong knowledge: it gives each other symbol the probability of all others together."""

    def message_law(self, value: int) -> Law:
        return tuple(
            self.truth if symbol == value else 1 - self.truth for symbol in range(self.symbols)
        )


def _forgets_to_share(crowd: CrowdKnowledge, rounds: Sequence[SeenRound]) -> int:
    return min(_CarelessKnowledge(crowd.truth, crowd.crowds, crowd.prior).best(rounds))


WRONG_RULES: Final[tuple[Callable[[CrowdKnowledge, Sequence[SeenRound]], int], ...]] = (
    _commonest,
    _likeliest,
    _only_with_victim,
    _mean_crowd,
    _first_crowd,
    _always_there,
    _prior_only,
    _afresh,
    _forgets_to_share,
)


def draw_telling_history(
    draws: Draws, rule: Callable[[CrowdKnowledge, Sequence[SeenRound]], int]
) -> tuple[CrowdKnowledge, tuple[SeenRound, ...]]:
    """Draw a history with one most probable value, which `rule` does not guess."""
    while True:
        crowd = draw_crowd(draws)
        _, rounds = draw_rounds(draws, crowd, draws.integer(4, 10), lambda _: draws.below(2) == 1)
        best = crowd.best(rounds)
        if len(best) == 1 and rule(crowd, rounds) not in best:
            return crowd, rounds
