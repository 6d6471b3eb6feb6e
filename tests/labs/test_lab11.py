"""Lab 11: its histories, oracles and picture, and every number of its texts."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from wrong_programs import solution

from shuffledp_labs.errors import CheckFailure, StudentFault
from shuffledp_labs.installed import lab
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import CheckAttempt
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
        file = show(run)
    assert file is not None
    assert file.stat().st_size > 10_000
    shares = [
        float(line.rpartition(" after 48")[0].rpartition(" ")[2].rstrip("%")) for line in lines[1:]
    ]
    assert "half a minute" in lines[0]
    assert len(shares) == 2
    assert shares[0] > 90
    assert shares[1] < 85


def test_without_a_guess_there_is_neither_picture_nor_warning(tmp_path: Path) -> None:
    from shuffledp_labs.lab import ShowRun

    work = tmp_path / "work.py"
    work.write_bytes(lab(11).file("work.py").read_bytes())
    lines: list[str] = []
    with scratch_folder() as scratch, StudentProgram(work, scratch) as program:
        assert show(ShowRun(work, tmp_path, draws(5), program, scratch, lines.append)) is None
    assert list(tmp_path.iterdir()) == [work]
    assert "nothing to show yet" in lines[-1]


HEAD = "from fractions import Fraction\n\n\n"


@pytest.mark.parametrize(
    ("check", "program", "message"),
    [
        (
            "B-innocent",
            "def suspects(rounds, symbol, senders):\n    return rounds[0]['present'][:1]\n",
            "you name 1 user without whom",
        ),
        (
            "B-innocent",
            "def suspects(rounds, symbol, senders):\n    return {'user-00'}\n",
            "set",
        ),
        (
            "C-guess",
            "def guess(rounds, victim, knowledge):\n    return [Fraction(1), Fraction(2)]\n",
            r"guess returned a list with Fraction \(length 2\) where a value",
        ),
        (
            "C-guess",
            "def guess(rounds, victim, knowledge):\n    return 7\n",
            "guess returned 7 where a value",
        ),
        (
            "D-law",
            "def answer(spec, value, coins):\n"
            "    k = spec['symbols']\n"
            "    if value not in range(k):\n"
            "        raise ValueError(f'{value} is wrong')\n"
            "    if coins.flip(spec['odds'] / (spec['odds'] + k)):\n"
            "        return value\n"
            "    other = coins.below(k)\n"
            "    return other + (other >= value)\n",
            r"for value None, answer raised an exception \(.*ValueError: None is wrong",
        ),
        (
            "D-law",
            "def answer(spec, value, coins):\n"
            "    k = spec['symbols']\n"
            "    own = k if value is None else value\n"
            "    if coins.flip(float(spec['odds'] / (spec['odds'] + k)) * (1 + 2**-50)):\n"
            "        return own\n"
            "    other = coins.below(k)\n"
            "    return other + (other >= own)\n",
            "a float was used; coins.flip needs a Fraction",
        ),
        (
            "D-unbiased",
            "def estimate(board, spec):\n    return [0.5] * spec['symbols']\n",
            r"estimate returned a list with float \(length [2-4]\)",
        ),
        (
            "E-price",
            "def price(spec, counts, silent):\n"
            "    return float(1 + Fraction(silent, sum(counts))), Fraction(1)\n",
            "the factor of the messages is a float; a Fraction is expected",
        ),
    ],
)
def test_a_wrong_program_learns_what_is_wrong(
    check: str, program: str, message: str, tmp_path: Path
) -> None:
    assert re.search(message, outcome(tmp_path, HEAD + program, check))


def outcome(folder: Path, text: str, name: str) -> str:
    """The message with which this program fails the check."""
    work = folder / "work.py"
    work.write_text(text)
    (check,) = (check for check in lab(11).checks if check.name == name)
    with scratch_folder() as scratch, StudentProgram(work, scratch) as program:
        attempt = CheckAttempt(draws(2), program, scratch, lambda _: None, work)
        with pytest.raises((CheckFailure, StudentFault)) as failure:
            check.run(attempt)
    return str(failure.value)


def test_true_and_one_point_zero_count_as_the_symbol_one(tmp_path: Path) -> None:
    text = solution("11").read_text()
    text = text.replace(
        "        return symbol\n", "        return True if symbol == 1 else symbol\n"
    )
    text = text.replace(
        "    return other if other < symbol else other + 1\n",
        "    sent = other if other < symbol else other + 1\n"
        "    return 1.0 if sent == 1 else sent\n",
    )
    assert "return True" in text
    assert "return 1.0" in text
    work = tmp_path / "work.py"
    work.write_text(text)
    (check,) = (check for check in lab(11).checks if check.name == "D-law")
    with scratch_folder() as scratch, StudentProgram(work, scratch) as program:
        message = check.run(CheckAttempt(draws(2), program, scratch, lambda _: None, work))
    assert "equal in rationals" in str(message)


@pytest.mark.parametrize("kind", KINDS)
def test_every_user_takes_part_in_some_round(kind: str) -> None:
    for seed in range(20):
        pattern = draw_pattern(draws(seed), kind)
        users = {user for seen in pattern.rounds for user in seen.present}
        assert len(users) == 1 + max(int(user.removeprefix("user-")) for user in users) >= 8


def test_the_texts_ask_the_questions_that_the_report_shows() -> None:
    for question in lab(11).explanations:
        assert question in text("report.md")
        assert question in text("handout.md")
    predict = text("predict.toml").replace("# ", "").replace('"nothing"', "'nothing'")
    for prediction in lab(11).predictions:
        assert prediction.question in predict


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
