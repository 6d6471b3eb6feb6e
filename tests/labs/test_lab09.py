"""Lab 9: its laws and thresholds against independent computations, and every number of its texts.

What is drawn here is drawn from fixed seeds: these tests do not flake.
"""

from __future__ import annotations

import math
from fractions import Fraction
from importlib.resources import files
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, binom

from shuffledp_adversary.evidence import clopper_pearson, epsilon_bound
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab09_liar import checks, laws, show
from shuffledp_labs.lab09_liar.clients import (
    Client,
    SealedClients,
    blanket_halved,
    coin_not_flipped,
    honest,
    noise_halved,
)
from shuffledp_labs.words import short

FOLDER = files("shuffledp_labs.lab09_liar")
HANDOUT, GUIDE = (
    " ".join(FOLDER.joinpath(name).read_text().split()) for name in ("handout.md", "instructor.md")
)
"""Without their line breaks."""


def shown(number: float, digits: int) -> str:
    """A number below 1 as the texts write it: without the leading zero."""
    return f"{number:.{digits}f}".removeprefix("0")


def test_pairs_of_laws_have_the_epsilon_that_they_state() -> None:
    assert laws.response(Fraction(3)).epsilon == pytest.approx(math.log(3), abs=1e-8)
    assert laws.equal(500, Fraction(0)).epsilon == 0.0
    assert laws.rare(Fraction(1, 20), 10).epsilon == 0.0
    assert laws.rare(Fraction(1, 20), 10).swap().epsilon == 0.0
    assert laws.one_sided(Fraction(1, 10), Fraction(3, 10)).epsilon == pytest.approx(
        math.log(3), abs=1e-8
    )
    infinite = laws.AuditedPair(
        (Fraction(1, 2), Fraction(1, 2)), (Fraction(1), Fraction(0)), Fraction(1, 10)
    )
    assert infinite.epsilon == math.inf
    # δ of a two-outcome law by hand: P(E) - e^ε P'(E) = δ.
    some = laws.AuditedPair(
        (Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4)), Fraction(1, 4)
    )
    assert some.epsilon == pytest.approx(math.log(2), abs=1e-8)


def test_samples_have_the_laws_that_they_are_of() -> None:
    """A chi-square statistic of 44 degrees; above 150 has a chance below 1e-12."""
    pair, count = laws.shuffled_krr(8, 3, Fraction(5), Fraction(1, 50)), 200_000
    for sample, law in zip(
        laws.Sampler(Draws(b"samples")).trials(pair, count), (pair.first, pair.second), strict=True
    ):
        seen = np.sort(np.bincount(sample, minlength=len(law)))
        expected = np.sort(np.array([float(chance) * count for chance in law]))
        assert float(((seen - expected) ** 2 / expected).sum()) < 150


def test_a_sound_audit_passes_each_threshold_but_once_in_a_billion() -> None:
    tenth = 1 - checks.CONFIDENCE
    assert (
        binom.sf(checks.ALLOWED, checks.RUNS, tenth)
        < 1e-9
        < binom.sf(checks.ALLOWED - 2, checks.RUNS, tenth)
    )
    assert binom.sf(checks.FEW_ALLOWED, checks.FEW_RUNS, tenth) < 1e-9
    assert (6 + checks.HONEST) * (1 - checks.SEALED_CONFIDENCE) < 1e-9
    assert f"at most {checks.ALLOWED} of {checks.RUNS} audits" in HANDOUT
    assert f"above 0 in at most {checks.FEW_ALLOWED} of {checks.FEW_RUNS}" in HANDOUT
    assert f"{checks.HONEST + 1} clients, of whom one lies" in HANDOUT
    # Whoever is wrong in 45 of 100 audits passes with less than 1e-8, whoever accuses every second
    # client with 1e-7.
    assert binom.cdf(checks.ALLOWED, checks.RUNS, 0.45) < 1e-8
    assert 0.5**checks.HONEST < 1e-7


def missed(likely: float, other: float, claim: float) -> float:
    """The chance that an audit of one event of these two probabilities stays below the claim,
    exactly computed."""
    measured, side = checks.TRIALS // 2, (1 - checks.SEALED_CONFIDENCE) / 2
    hits = np.arange(measured + 1)
    low = np.where(hits > 0, beta.ppf(side, np.maximum(hits, 1), measured - hits + 1), 0.0)
    high = np.where(hits < measured, beta.isf(side, hits + 1, np.maximum(measured - hits, 1)), 1.0)
    too_few = np.searchsorted(low, high * math.exp(claim), side="right") - 1
    return float(binom.pmf(hits, measured, other) @ binom.cdf(too_few, measured, likely))


def test_no_lie_is_too_small_to_be_seen() -> None:
    """Of every client that an instance may draw, on an event that is there for everybody to
    choose."""
    for symbols, percent in product(range(3, 6), range(50, 66)):
        noise = percent / 200  # half of what is claimed
        claim = honest(KRRHistogram(symbols=symbols, blanket=Fraction(percent, 100))).claim[2]
        assert missed(1 - noise + noise / symbols, noise / symbols, claim) < 1e-9
    for percent in range(40, 81):
        claim = honest(
            GeoShuffle(max_value=2, epsilon_geo=Fraction(percent, 100), padding=12)
        ).claim[2]
        ratio = math.exp(-2 * percent / 100)  # of noise at twice the ε that is claimed
        assert (
            missed(1 / (1 + ratio), ratio**2 / (1 + ratio), claim) < 1e-9
        )  # the answer is 0, or less
    for percent in range(40, 66):
        claim = honest(RRShuffle(max_value=1, randomise=Fraction(percent, 100))).claim[2]
        assert missed(1 - percent / 100, 0.0, claim) < 1e-9


def test_the_means_compared_by_c_strong_are_far_from_its_threshold() -> None:
    """The mean of 16 bounds on fresh samples, as a share of another 16: its threshold lies six
    deviations below 1."""
    pair = laws.shuffled_krr(8, 3, Fraction(5), Fraction(1, 50))
    sampler = laws.Sampler(Draws(b"strong"))
    bounds = [
        epsilon_bound(*sampler.trials(pair, 20_000), 0.02, checks.CONFIDENCE).lower
        for _ in range(64)
    ]
    deviation = float(np.std(bounds) / np.mean(bounds)) * math.sqrt(2 / checks.STRONG_RUNS)
    assert 5.5 * deviation < 1 - checks.STRENGTH
    assert max(bounds) < pair.epsilon + 0.05


def test_an_audit_on_its_own_samples_cries_wolf_always() -> None:
    """Of equal laws: the prediction's answer, and the trap of the handout."""
    assert show.count_false_alarms(clopper_pearson, Draws(b"wolf")) == show.REPETITIONS
    assert f"2. All {show.REPETITIONS}." in GUIDE
    # An interval that is no interval at all finds nothing: it is the interval that is measured.
    assert show.count_false_alarms(lambda *_: (0.0, 1.0), Draws(b"wolf")) == 0


def test_the_numbers_of_the_texts_are_computed() -> None:
    pair = show.pair()
    assert (
        f"datasets is {shown(pair.epsilon, 3)}, exactly computed; "
        f"{shown(show.certified_epsilon(), 3)} is certified" in HANDOUT
    )
    sampler = laws.Sampler(Draws(b"x" * 16))
    medians = [
        float(
            np.median(
                [
                    epsilon_bound(*sampler.trials(pair, trials), show.DELTA, 0.9).lower
                    for _ in range(runs)
                ]
            )
        )
        for trials, runs in ((2_000, 400), (20_000, 100), (200_000, 9))
    ]
    assert (
        "in the middle {}, {} and {} with".format(*(shown(median, 2) for median in medians))
        in HANDOUT
    )
    assert f"About {shown(medians[1], 2)} (in the middle" in GUIDE
    low, high = clopper_pearson(1000, checks.TRIALS // 2, checks.SEALED_CONFIDENCE)
    assert high - low > 1 / 20
    assert f"up to {show.TRIALS[-1]:,} rounds" in HANDOUT


@pytest.mark.parametrize(
    ("client", "above"),
    [
        (honest(KRRHistogram(symbols=3, blanket=Fraction(3, 5))), False),
        (honest(RRShuffle(max_value=1, randomise=Fraction(1, 2))), False),
        (honest(GeoShuffle(max_value=2, epsilon_geo=Fraction(1, 2), padding=12)), False),
        (blanket_halved(KRRHistogram(symbols=3, blanket=Fraction(13, 20))), True),
        (blanket_halved(KRRHistogram(symbols=5, blanket=Fraction(1, 2))), True),
        (noise_halved(GeoShuffle(max_value=2, epsilon_geo=Fraction(2, 5), padding=12)), True),
        (noise_halved(GeoShuffle(max_value=2, epsilon_geo=Fraction(4, 5), padding=12)), True),
        (coin_not_flipped(RRShuffle(max_value=1, randomise=Fraction(2, 5))), True),
        (coin_not_flipped(RRShuffle(max_value=1, randomise=Fraction(13, 20))), True),
    ],
    ids=lambda value: (
        f"{value.spec.kind} {value.fault or 'honest'}" if isinstance(value, Client) else str(value)
    ),
)
def test_the_products_audit_tells_liars_from_honest_clients(client: Client, *, above: bool) -> None:
    """By a margin: a liar shows half a tenth more than its claim at the confidence of the check."""
    here = SealedClients({"one": client}, Draws(b"client"), 2 * checks.TRIALS)
    value, changed, epsilon, delta = here.claims["one"]
    samples = [np.array(here.ask("one", held, checks.TRIALS)) for held in (value, changed)]
    lower = epsilon_bound(samples[0], samples[1], delta, checks.SEALED_CONFIDENCE).lower
    assert lower > epsilon + 0.05 if above else lower < epsilon


@pytest.mark.parametrize(
    "question",
    [
        ("two", 0, 3),
        ("one", 2, 3),
        ("one", -1, 3),
        ("one", 0, -1),
        ("one", 0, 11),
        ("one", 10**5000, 1),
        ("one", 0),
        (),
    ],
    ids=range(8),
)
def test_a_client_answers_sensible_questions_only_and_not_too_many(
    question: tuple[object, ...],
) -> None:
    here = SealedClients(
        {"one": honest(RRShuffle(max_value=1, randomise=Fraction(1, 2)))}, Draws(b"client"), 10
    )
    with pytest.raises(CheckFailure, match="see step D"):
        here.ask(*question)
    assert len(here.ask("one", 1, 10)) == 10
    with pytest.raises(CheckFailure, match="at most 10 answers"):
        here.ask("one", 0, 1)


def test_values_without_end_are_named_by_their_type() -> None:
    assert short(10**5000) == "something of type int"
    assert short((1, 2)) == "(1, 2)"
    assert len(short("a" * 1000)) == 60
