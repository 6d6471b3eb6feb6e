"""Lab 11: its histories, oracles and picture, and every number of its texts."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from wrong_programs import solution

from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.installed import lab
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab11_always import cover
from shuffledp_labs.lab11_always.histories import (
    OPEN,
    PROVED,
    TARGET,
    WRONG_RULES,
    CrowdKnowledge,
    SeenRound,
    draw_pattern,
    draw_rounds,
    draw_telling_history,
)
from shuffledp_labs.lab11_always.show import OTHERS, crowd_of_show, show
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram

KINDS = (*PROVED, *OPEN)


def draws(seed: int) -> Draws:
    return Draws(seed.to_bytes(32, "big"))


def text(name: str) -> str:
    return " ".join(lab(11).file(name).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("kind", KINDS)
def test_certain_senders_are_those_of_every_explaining_set(kind: str) -> None:
    for seed in range(5):
        pattern = draw_pattern(draws(seed), kind)
        users = sorted({user for seen in pattern.rounds for user in seen.present})
        explaining = [
            chosen
            for chosen in combinations(users, pattern.senders)
            if all(
                len(set(chosen) & set(seen.present)) == seen.board[pattern.symbol]
                for seen in pattern.rounds
            )
        ]
        assert explaining
        certain = set.intersection(*(set(chosen) for chosen in explaining))
        assert set(pattern.certain) == certain
        assert bool(certain) == (kind in PROVED)
        assert all(sum(seen.board) == len(seen.present) for seen in pattern.rounds)


def test_the_weights_are_the_probabilities_of_the_boards_message_by_message() -> None:
    """Against the sum over everything that each single participant may have sent."""
    third = Fraction(1, 3)
    crowd = CrowdKnowledge(
        Fraction(3, 4),
        ((third, 2 * third), (Fraction(1, 2), Fraction(1, 2))),
        (Fraction(2, 5), Fraction(3, 5)),
    )
    rounds = (
        SeenRound(("a", "b"), (1, 1)),
        SeenRound(("a", TARGET, "b"), (2, 1)),
        SeenRound((TARGET, "b"), (0, 2)),
    )
    expected = []
    for value, prior in enumerate(crowd.prior):
        total = Fraction(0)
        for law in crowd.crowds:
            likelihood = Fraction(1)
            for seen in rounds:
                laws = [
                    crowd.message_law(value) if user == TARGET else law for user in seen.present
                ]
                likelihood *= sum(
                    _product(law[symbol] for law, symbol in zip(laws, sent, strict=True))
                    for sent in product((0, 1), repeat=len(laws))
                    if (sent.count(0), sent.count(1)) == seen.board
                )
            total += likelihood
        expected.append(prior * total)
    assert crowd.weights(rounds) == tuple(expected)


def _product(factors: Any) -> Fraction:
    result = Fraction(1)
    for factor in factors:
        result *= factor
    return result


@pytest.mark.parametrize("rule", WRONG_RULES, ids=lambda rule: rule.__name__)
def test_a_history_is_drawn_on_which_the_rule_is_wrong(rule: Any) -> None:
    crowd, rounds = draw_telling_history(draws(3), rule)
    best = crowd.best(rounds)
    assert len(best) == 1
    assert rule(crowd, rounds) not in best


@pytest.mark.parametrize("value", [0, 1, None])
def test_no_message_tells_values_or_silence_apart_by_more_than_the_odds(value: int | None) -> None:
    spec = {"symbols": 2, "odds": Fraction(7, 2)}
    law = cover.answer_law(spec, value)
    assert sum(law) == 1
    for other in (0, 1, None):
        ratios = [
            first / second for first, second in zip(law, cover.answer_law(spec, other), strict=True)
        ]
        assert max(ratios) == (1 if other == value else spec["odds"])


@pytest.mark.parametrize("silent", [0, 2])
def test_the_variance_is_that_of_the_estimate_over_all_outcomes(silent: int) -> None:
    spec = {"symbols": 2, "odds": Fraction(3)}
    counts = (2, 1)
    values: list[int | None] = [0, 0, 1, *[None] * silent]
    low, high = Fraction(1, 5), Fraction(3, 5)
    mean, square = Fraction(0), Fraction(0)
    for board, chance in cover.boards(spec, values):
        estimate = (board[0] - len(values) * low) / (high - low)
        mean += chance * estimate
        square += chance * estimate**2
    assert mean == 2
    assert square - mean**2 == cover.variance(spec, counts, silent, cover=True)


def test_the_numbers_of_the_texts() -> None:
    assert 999 / 2**9 > 1 > 999 / 2**10
    guide = text("instructor.md")
    assert f"After 10 rounds 999 / 2^10 = {999 / 2**10:.2f} of the others" in guide
    messages, variance = cover.price_of({"symbols": 2, "odds": Fraction(4)}, (50, 50), 100)
    price = f"{float(messages):.0f} times the messages, {float(variance):.2f} times the variance"
    assert price in guide
    assert f"The standard error grows by {float(variance) ** 0.5:.1f}" in guide


def test_with_cover_neighbouring_crowds_explain_the_same_expected_board() -> None:
    """The picture's numbers: a victim who says yes equals one who says no in the next crowd."""
    crowd = crowd_of_show()
    yes = [law[1] for law in crowd.crowds]
    assert all(0 < chance < 1 for chance in yes)
    for smaller, larger in pairwise(yes):
        assert OTHERS * smaller + crowd.message_law(1)[1] == (
            OTHERS * larger + crowd.message_law(0)[1]
        )


def test_the_victim_is_where_it_should_be() -> None:
    _, rounds = draw_rounds(draws(1), crowd_of_show(), 20, lambda index: index % 2 == 0, 15)
    assert [TARGET in seen.present for seen in rounds] == [index % 2 == 0 for index in range(20)]
    assert all(sum(seen.board) == len(seen.present) for seen in rounds)


def test_the_picture_shows_more_right_guesses_without_cover_than_with_it(tmp_path: Path) -> None:
    """Of one instance: its histories are drawn from a seed."""
    from shuffledp_labs.lab import ShowRun

    lines: list[str] = []
    with scratch_folder() as scratch, StudentProgram(solution("11"), scratch) as program:
        run = ShowRun(solution("11"), tmp_path, draws(5), program, scratch, lines.append)
        assert show(run).stat().st_size > 10_000
    shares = [
        float(line.rpartition(" after 48")[0].rpartition(" ")[2].rstrip("%")) for line in lines
    ]
    assert len(shares) == 2
    assert shares[0] > 90
    assert shares[1] < 85


@pytest.mark.parametrize("answer", [None, [1], "no list"])
def test_an_answer_of_another_type_is_a_failure_with_words(answer: object) -> None:
    from types import SimpleNamespace

    from shuffledp_labs.lab11_always import checks

    program = SimpleNamespace(call=lambda *_: answer)
    attempt: Any = SimpleNamespace(program=program, draws=draws(2))
    with pytest.raises(CheckFailure, match="suspects returned"):
        checks.check_certain(attempt)
    with pytest.raises(CheckFailure, match="guess returned"):
        checks.check_guess(attempt)
