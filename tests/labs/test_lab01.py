"""Lab 1: its laws against the product's samplers and enumeration, and every number of its texts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from shuffledp_core.mechanisms import KRRHistogram, RRShuffle
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import CheckAttempt, CheckFailure, ShowRun
from shuffledp_labs.lab01_lie_well import LAB
from shuffledp_labs.lab01_lie_well.checks import HIGH, LOW
from shuffledp_labs.lab01_lie_well.round import answers_of
from shuffledp_labs.lab01_lie_well.specs import (
    KINDS,
    Spec,
    answers,
    domain,
    draw_spec,
    hoeffding,
    law,
    likeliest,
    truth,
)
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram
from shuffledp_privacy.local.lecture import OneBitMean, mean_variance

SOLUTION = Path(__file__).parents[2] / "labs" / "solutions" / "lab01.py"
HANDOUT = LAB.file("handout.md").read_text()
INSTRUCTOR = " ".join(LAB.file("instructor.md").read_text().split())


def by_enumeration(spec: Spec, value: int) -> dict[int, Fraction]:
    """The law by what happens to every coin, one after the other."""
    blanket = spec["blanket"]
    of: dict[int, Fraction] = dict.fromkeys(answers(spec), Fraction(0))
    if spec["mechanism"] == "krr":
        of[value] += 1 - blanket
        for symbol in range(spec["symbols"]):
            of[symbol] += blanket / spec["symbols"]
    elif spec["mechanism"] == "mean":
        of[1] = blanket / 2 + (1 - blanket) * value / spec["max_value"]
        of[0] = 1 - of[1]
    else:
        for flips in itertools.product((0, 1), repeat=spec["max_value"]):
            bits = [int(place < value) ^ flip for place, flip in enumerate(flips)]
            of[sum(bits)] += math.prod(
                (blanket / 2 if flip else 1 - blanket / 2 for flip in flips), start=Fraction(1)
            )
    return of


@pytest.mark.parametrize("kind", KINDS)
def test_the_laws_are_those_of_the_handout(kind: str) -> None:
    draws = Draws(b"laws" + kind.encode())
    for _ in range(30):
        spec = draw_spec(draws, kind)
        for value in domain(spec):
            assert law(spec, value) == by_enumeration(spec, value)


def test_the_products_samplers_have_these_laws_too() -> None:
    """20,000 draws a value: a frequency is 6.5 standard deviations off with probability below
    1e-10, 40 of them 4e-9.

    The seed is fixed, so it is decided once for all.
    """
    integers, count = RandomIntegers(np.random.default_rng(5).bytes), 20_000
    pairs: list[tuple[KRRHistogram | RRShuffle, Spec]] = [
        (
            KRRHistogram(symbols=4, blanket=Fraction(3, 7)),
            {"mechanism": "krr", "symbols": 4, "blanket": Fraction(3, 7)},
        ),
        (
            RRShuffle(max_value=3, randomise=Fraction(2, 5)),
            {"mechanism": "bits", "max_value": 3, "blanket": Fraction(2, 5)},
        ),
    ]
    for mechanism, spec in pairs:
        for value in domain(spec):
            seen = [mechanism.sample(value, integers) for _ in range(count)]
            for answer, mass in law(spec, value).items():
                spread = math.sqrt(count * mass * (1 - mass))
                assert abs(seen.count(answer) - count * mass) <= 6.5 * spread


def test_the_one_bit_mean_is_the_lectures() -> None:
    grown = math.exp(1.3)
    spec: Spec = {"mechanism": "mean", "max_value": 5, "blanket": Fraction(2 / (grown + 1))}
    people = [0, 2, 5]
    variance = sum(float(law(spec, value)[0] * law(spec, value)[1]) for value in people)
    scale = 5 / len(people) / float(1 - spec["blanket"])
    assert variance * scale**2 == pytest.approx(mean_variance(OneBitMean(1.3, 5), people), rel=1e-9)


def test_hoeffdings_interval_covers_whatever_is_drawn() -> None:
    """The solution's interval, over many instances of the check: its coverage is at least .95 on
    each."""
    draws = Draws(b"coverage")
    for _ in range(200):
        spec = draw_spec(draws, "mean", LOW, HIGH)
        value, people = draws.choice(domain(spec)), draws.integer(5, 8)
        one = float(law(spec, value)[1])
        half, slope = hoeffding(spec, people), float(1 - spec["blanket"])
        covered = 0.0
        for ones in range(people + 1):
            estimate = (
                spec["max_value"] / people * (ones - people * float(spec["blanket"]) / 2) / slope
            )
            if abs(estimate - float(truth(spec, [value] * people))) <= half + 1e-9:
                covered += math.comb(people, ones) * one**ones * (1 - one) ** (people - ones)
        assert covered >= 0.95


def test_the_likeliest_value_is_bayes() -> None:
    spec: Spec = {"mechanism": "krr", "symbols": 3, "blanket": Fraction(1, 2), "asked": 0}
    prior = [Fraction(8, 10), Fraction(1, 10), Fraction(1, 10)]
    assert [likeliest(spec, answer, prior) for answer in range(3)] == [[0], [0], [0]]
    assert likeliest(spec, 2, [Fraction(1, 3)] * 3) == [2]


def test_the_numbers_of_the_instructors_page() -> None:
    symbols, people = 4, 300
    blanket = symbols / (math.e + symbols - 1)
    true, other = 1 - blanket + blanket / symbols, blanket / symbols
    assert true / other == pytest.approx(math.e)
    for n, shown in ((people, "23.8 people"), (10 * people, "75.3")):
        spread = math.sqrt(n / 4 * true * (1 - true) + 3 * n / 4 * other * (1 - other)) / (
            1 - blanket
        )
        assert shown == f"{spread:.1f}{' people' * (n == people)}"
        assert shown in INSTRUCTOR
    for shown in (
        f"γ = {blanket:.4f}",
        f"probability {true:.3f}".replace("0.", "."),
        f"{100 * true:.1f} of 100",
    ):
        assert shown in INSTRUCTOR
    assert f"with {other:.3f}".replace("0.", ".") in INSTRUCTOR
    assert (
        f"a blanket of about {blanket:.2f}".replace("0.", ".")
        in LAB.file("predict.toml").read_text()
    )
    fair = (
        sum(math.comb(8, ones) for ones in range(9) if abs(ones - 4) <= 1.96 * math.sqrt(8) / 2)
        / 2**8
    )
    assert f"for eight fair coins it covers only {fair:.2f}".replace("0.", ".") in INSTRUCTOR


def test_the_handout_says_how_the_blanket_and_epsilon_belong_together() -> None:
    assert "e^ε0 = 1 + k (1 − γ)/γ" in HANDOUT
    for symbols, blanket in ((2, Fraction(1, 2)), (4, Fraction(7, 10))):
        spec: Spec = {"mechanism": "krr", "symbols": symbols, "blanket": blanket, "asked": 0}
        assert law(spec, 0)[0] / law(spec, 1)[0] == 1 + symbols * (1 - blanket) / blanket


def test_the_slips_of_the_lecture() -> None:
    people, p, ones = 1000, 0.3, 400
    expected = ones * (1 - p / 2) + (people - ones) * p / 2
    printed, right = ((expected - less) / (people * (1 - p)) for less in (p / 2, people * p / 2))
    assert expected == pytest.approx(430)
    assert (f"{printed:.3f}"[1:], f"{right:.3f}"[1:]) == (".614", ".400")
    assert round((people * p / 2 - p / 2) / (people * (1 - p)), 2) == 0.21
    probability = math.comb(100, 75) * 0.25**75 * 0.75**25
    assert (f"{3.0**-50:.2e}", f"{probability:.2e}") == ("1.39e-24", "1.28e-25")
    given_yes = math.comb(100, 75) * 0.75**75 * 0.25**25
    assert probability / given_yes == pytest.approx(3.0**-50)
    for shown in (".614", ".400", "1.39e-24", "1.28e-25", "430 ones", "at least .21"):
        assert shown in INSTRUCTOR
    report = LAB.file("report.md").read_text()
    assert "(y_1 + ... + y_n − p/2) / (n (1 − p))" in report  # `printed` above
    assert "the truth with probability 3/4" in report
    for shown in ("1,000", ".3", "400", "1.39e-24"):
        assert all(
            shown in text for text in ("".join(LAB.explanations), LAB.file("report.md").read_text())
        )


def test_the_show_draws_the_law_and_says_what_is_missing(tmp_path: Path) -> None:
    said: list[str] = []
    for name, work in (("solution", SOLUTION), ("half", tmp_path / "half.py")):
        if name == "half":
            work.write_text(SOLUTION.read_text().replace("def estimate(", "def no_estimate("))
        out = tmp_path / name
        out.mkdir()
        with StudentProgram(work, tmp_path) as program:
            file = LAB.show(ShowRun(work, out, Draws(b"show"), program, tmp_path, said.append))
        assert file is not None
        assert file.read_bytes().startswith(b"\x89PNG")
    assert said[-1].startswith("no estimates in the picture: work.py has no estimate")


WATCHED = """

_honest = randomise
_seen = []


def randomise(spec, value, coins):
    # While a law is walked, one value is asked for again and again; in a round, the values change.
    _seen.append(value)
    if len(_seen) > 4 and len(set(_seen[-4:])) > 2:
        return value
    return _honest(spec, value, coins)
"""


def test_a_program_that_tells_the_truth_once_nobody_walks_its_law_is_caught(tmp_path: Path) -> None:
    spec: Spec = {"mechanism": "krr", "symbols": 4, "blanket": Fraction(7, 10), "asked": 0}
    values = [0, 1, 2, 3] * 5
    for name, more in (("solution", ""), ("watched", WATCHED)):
        work = tmp_path / name / "work.py"
        work.parent.mkdir()
        work.write_text(SOLUTION.read_text() + more)
        with scratch_folder() as scratch, StudentProgram(work, scratch) as program:
            attempt = CheckAttempt(Draws(b"round"), program, scratch, lambda _: None, work)
            if name == "solution":
                assert len(answers_of(attempt, spec, values)) == len(values)
            else:
                for value in range(4):  # as B-law walks it
                    assert program.law("randomise", spec, value).of == law(spec, value)
                with pytest.raises(CheckFailure, match="the same coins led to another answer"):
                    answers_of(attempt, spec, values)
