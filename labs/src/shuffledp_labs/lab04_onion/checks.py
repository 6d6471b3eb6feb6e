"""The checks of lab 4, steps B to D; the real round of step E is in `capturing`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from shuffledp_labs.kinds import kind_of
from shuffledp_labs.lab import CheckAttempt, CheckFailure
from shuffledp_labs.lab04_onion import rounds
from shuffledp_labs.lab04_onion.rounds import NOBODY, AdversaryView

if TYPE_CHECKING:
    from shuffledp_labs.instance import Draws

WHERE_B: Final = 'read "What the logs hold" in the handout'
WHERE_MISSING: Final = 'read "A claim is an accusation" in the handout'
WHERE_C: Final = 'read "C. Who slept" in the handout'
WHERE_D: Final = 'read "D. Guess" in the handout'

HOPS: Final = (3, 4, 5)
ACCOMPLICES: Final = 3
"""Users of the adversary's own in step C: 9 messages of 120, all of which an honest node leaves in
their places with
probability 111!/120! < 1e-18."""

SLEEP_ROUNDS: Final = 8


def all_logs(attempt: CheckAttempt) -> str:
    """B-all: with every node's log, `link` finds every message's sender."""
    for hops in HOPS:
        played = rounds.play_drawn_round(attempt.draws, hops)
        _link(attempt, rounds.seen_by(played, range(1, hops + 1)))
    return "rounds over 3, 4 and 5 nodes, 120 messages each: every sender named, every one right"


def missing_logs(attempt: CheckAttempt) -> str:
    """B-missing: without one node's log, `link` claims no sender."""
    looked = 0
    for hops in HOPS:
        played = rounds.play_drawn_round(attempt.draws, hops)
        everybody = range(1, hops + 1)
        honest = [{position} for position in everybody] + [
            set(attempt.draws.sample(everybody, hops - 1))
        ]
        for absent in honest:
            _link(
                attempt,
                rounds.seen_by(
                    played, [position for position in everybody if position not in absent]
                ),
            )
            looked += 1
    return f"{looked} rounds, each without one log at least, at every place: nobody accused"


def lossy_rounds(attempt: CheckAttempt) -> str:
    """B-dropped: in rounds that lost messages on the way, `link` traces the remaining ones."""
    from shuffledp_adversary.attacks.exchange.tampering import drop, mark
    from shuffledp_adversary.in_process import Conduct

    for tampering in (drop, mark, mark):
        hops = attempt.draws.choice(HOPS)
        by = attempt.draws.integer(1, hops - 1)
        played = rounds.play_drawn_round(
            attempt.draws, hops, Conduct(tampering={by: _drawing(attempt.draws, tampering is mark)})
        )
        _link(attempt, rounds.seen_by(played, range(1, hops + 1)))
    return (
        "3 rounds in which onions were dropped on the way: every sender of what is left named, "
        "every one right"
    )


def _drawing(draws: Draws, mark: bool) -> Any:  # noqa: FBT001
    """The tampering `drop` or `mark`, with randomness from the instance."""
    from shuffledp_adversary.attacks.exchange.tampering import Pool, drop

    def tamper(pool: Pool) -> list[bytes]:
        if not mark:
            return drop(pool)
        index = draws.below(len(pool.records))
        record = bytearray(pool.records[index])
        record[draws.below(len(record))] ^= 1 << draws.below(8)
        return pool.replace([index], lambda: bytes(record))

    return tamper


def judge_links(claims: Any, seen: AdversaryView) -> int:
    """Check the claimed senders; return the number of claims.

    Raises CheckFailure if a claim is wrong, or if one that the logs prove is missing.
    """
    if not isinstance(claims, tuple | list) or not all(type(claim) is int for claim in claims):
        raise CheckFailure(
            f"link returned {kind_of(claims)} where a list of whole numbers is expected; {WHERE_B}"
        )
    if len(claims) != len(seen.board):
        raise CheckFailure(
            f"link returned {len(claims)} claims for {len(seen.board)} messages: one each, in "
            f"order; {WHERE_B}"
        )
    claimed: int = sum(claim != NOBODY for claim in claims)
    wrong = sum(
        claim not in {NOBODY, owner} for claim, owner in zip(claims, seen.truth, strict=True)
    )
    if seen.missing and claimed:
        raise CheckFailure(
            f"{seen.what}: link accuses in {claimed} of {len(claims)} cases where the logs prove "
            f"nothing, {wrong} of them wrongly; {WHERE_MISSING}"
        )
    if wrong:
        raise CheckFailure(
            f"{seen.what}: {wrong} of {claimed} claims name the wrong user; {WHERE_MISSING}"
        )
    if not seen.missing and claimed < len(claims):
        raise CheckFailure(
            f"{seen.what}: link leaves {len(claims) - claimed} of {len(claims)} senders open; "
            f"{WHERE_B}"
        )
    return claimed


def _link(attempt: CheckAttempt, seen: AdversaryView) -> int:
    return judge_links(attempt.program.call("link", seen.logs, seen.board), seen)


def sleeper_is_named(attempt: CheckAttempt) -> str:
    """C-slept: `who_slept` names the node that did not shuffle, among those without a log.

    In some rounds all nodes shuffle, and it must name none.
    """
    from shuffledp_adversary.in_process import Conduct

    draws = attempt.draws
    for number in range(SLEEP_ROUNDS):
        hops = HOPS[number % len(HOPS)]
        absent = _absent(draws, hops)
        # None sleeps in every fourth round: whoever names the first that is missing must not get
        # through.
        asleep = 0 if number % 4 == 3 else draws.choice(absent)
        played = rounds.play_drawn_round(draws, hops, Conduct(asleep={asleep} - {0}))
        seen = rounds.seen_by(
            played, [position for position in range(1, hops + 1) if position not in absent]
        )
        own_trails = rounds.trails(played, draws.sample(range(rounds.USERS), ACCOMPLICES))
        accused = attempt.program.call("who_slept", seen.logs, seen.board, own_trails)
        judge_sleeper(accused, asleep, f"{seen.what}, {len(own_trails)} messages of your own")
    return (
        f"{SLEEP_ROUNDS} rounds with one or two logs missing: the node that slept named, and "
        "nobody where none did"
    )


def judge_sleeper(accused: Any, asleep: int, what: str) -> None:
    """Raise `CheckFailure` unless the node that slept is named."""
    if type(accused) is not int:
        raise CheckFailure(
            f"{what}: who_slept returned {kind_of(accused)} where the position of a node or 0 "
            f"is expected; {WHERE_C}"
        )
    if accused != asleep:
        blamed = (
            f"node {accused} slept, and it did not" if accused else "no node slept, and one did"
        )
        raise CheckFailure(f"{what}: who_slept says that {blamed}; {WHERE_C}")


def _absent(draws: Draws, hops: int) -> list[int]:
    """Draw nodes without a log: one node, or two that are not neighbours.

    Never node 1, whose log names the senders.
    """
    last = draws.integer(2, hops)
    others = [position for position in range(2, hops + 1) if abs(position - last) > 1]
    return sorted([last, *draws.sample(others, min(len(others), draws.below(2)))])


def histogram_guess(attempt: CheckAttempt) -> str:
    """D-histogram: Bayes guesses for k-RR, for every answer, under six priors and blankets."""
    draws, cells = attempt.draws, 0
    for _ in range(6):
        while True:
            spec = rounds.krr(
                draws.integer(3, 9), draws.fraction(Fraction(1, 10), Fraction(9, 10), 20)
            )
            if _telling(spec, prior := _prior(draws, spec["symbols"])):
                break
        cells += _guess(attempt, spec, prior)
    return (
        f"6 priors and blankets, {cells} cells: every guess is one of largest posterior, in "
        "rationals"
    )


def sum_guess(attempt: CheckAttempt) -> str:
    """D-sum: Bayes guesses for RR-Shuffle, for every answer, under several priors."""
    draws, cells = attempt.draws, 0
    for _ in range(6):
        while True:
            spec = rounds.rr(
                draws.integer(2, 7), draws.fraction(Fraction(1, 10), Fraction(9, 10), 20)
            )
            if _telling(spec, prior := _prior(draws, spec["max_value"] + 1)):
                break
        cells += _guess(attempt, spec, prior)
    return (
        f"6 priors and coins, {cells} cells: every guess is one of largest posterior, in rationals"
    )


def _prior(draws: Draws, size: int) -> list[Fraction]:
    weights = draws.sample(range(1, 60), size)  # all different: no two values are held alike
    return [Fraction(weight, sum(weights)) for weight in weights]


def _telling(spec: dict[str, Any], prior: Sequence[Fraction]) -> bool:
    """Return True if no simpler rule guesses right for every answer.

    Short cuts are to guess the answer itself, to use only the likelihood, or only the prior.
    """
    table = rounds.likelihoods(spec)
    everywhere = range(len(prior))
    best = [rounds.best_guesses(answer, prior, table) for answer in everywhere]
    uniform = [Fraction(1, len(prior))] * len(prior)
    likeliest = [min(rounds.best_guesses(answer, uniform, table)) for answer in everywhere]
    commonest = max(everywhere, key=lambda value: prior[value])
    short_cuts = (list(everywhere), likeliest, [commonest] * len(prior))
    return commonest != 0 and all(
        any(guess not in right for guess, right in zip(cut, best, strict=True))
        for cut in short_cuts
    )


def _guess(attempt: CheckAttempt, spec: dict[str, Any], prior: Sequence[Fraction]) -> int:
    table = rounds.likelihoods(spec)
    cells: list[int | None] = attempt.draws.permute([*range(len(table)), None])
    guesses = attempt.program.call("guess", cells, list(prior), spec)
    if (
        not isinstance(guesses, tuple | list)
        or len(guesses) != len(cells)
        or not all(type(guess) is int for guess in guesses)
    ):
        raise CheckFailure(
            f"guess must return one whole number for each of {len(cells)} answers; {WHERE_D}"
        )
    wrong = [
        answer
        for answer, value in zip(cells, guesses, strict=True)
        if value not in rounds.best_guesses(answer, prior, table)
    ]
    if wrong:
        answers = ", ".join("None" if answer is None else str(answer) for answer in wrong[:4])
        raise CheckFailure(
            f"{_describe(spec)}, prior {', '.join(map(str, prior))}: {len(wrong)} of {len(cells)} "
            f"guesses are not the likeliest value, for the answers {answers}; {WHERE_D}"
        )
    return len(cells)


def _describe(spec: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in spec.items())
