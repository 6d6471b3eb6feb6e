"""How well split values mix: the bound against all shuffles of tiny crowds, the exact series, and
at its edges."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import SplitMix
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.sums import mixing
from shuffledp_privacy.sums.mixing import least_pieces, mixing_distance, published_pieces

Law = dict[tuple[int, ...], Fraction]

TINY = [(2, 3, 2), (2, 3, 3), (3, 3, 2), (2, 4, 2), (2, 4, 3), (2, 3, 4), (4, 3, 2)]
"""(h, m, q) whose shuffles are all enumerated: at most 4096 of them for each dataset."""


def shuffled(values: tuple[int, ...], modulus: int, pieces: int) -> Law:
    """The law of the multiset of all pieces, by enumeration."""
    every = itertools.product(range(modulus), repeat=pieces)
    rows: dict[int, list[tuple[int, ...]]] = {value: [] for value in range(modulus)}
    for row in every:
        rows[sum(row) % modulus].append(row)
    return normalised(
        sum(rows_of, ()) for rows_of in itertools.product(*(rows[value] for value in values))
    )


def ideal(total: int, modulus: int, messages: int) -> Law:
    """The multiset of uniform numbers with that sum."""
    return normalised(
        row
        for row in itertools.product(range(modulus), repeat=messages)
        if sum(row) % modulus == total
    )


def normalised(rows: Iterator[tuple[int, ...]]) -> Law:
    seen = Counter(tuple(sorted(row)) for row in rows)
    whole = seen.total()
    return {row: Fraction(times, whole) for row, times in seen.items()}


def distance(one: Law, other: Law) -> Fraction:
    return (
        sum(
            (abs(one.get(row, Fraction(0)) - other.get(row, Fraction(0))) for row in one | other),
            Fraction(0),
        )
        / 2
    )


@cache
def series(honest: int, modulus: int, pieces: int) -> Fraction:
    """𝔼[M^(C-1)], exactly: the coefficients of the M-th power of Σ (km)!/(k!)² z^k, by its
    differential equation."""
    base = [Fraction(math.factorial(k * pieces), math.factorial(k) ** 2) for k in range(honest + 1)]
    power = [Fraction(1)]
    for n in range(1, honest + 1):
        terms = (Fraction(k * modulus - n + k, n) * base[k] * power[n - k] for k in range(1, n + 1))
        power.append(sum(terms, Fraction(0)))
    return power[honest] * math.factorial(honest) ** 2 / math.factorial(honest * pieces) / modulus


@pytest.mark.parametrize(("honest", "pieces", "modulus"), TINY)
def test_no_dataset_s_shuffle_is_farther_from_uniform_than_the_bound(
    honest: int, pieces: int, modulus: int
) -> None:
    bound = mixing_distance(honest, modulus, pieces)
    farthest = max(
        distance(
            shuffled(values, modulus, pieces),
            ideal(sum(values) % modulus, modulus, honest * pieces),
        )
        for values in itertools.combinations_with_replacement(range(modulus), honest)
    )
    assert 0 < farthest <= bound


@pytest.mark.parametrize(("honest", "pieces", "modulus"), TINY)
def test_the_collision_probability_of_equal_values_is_that_of_the_components(
    honest: int, pieces: int, modulus: int
) -> None:
    """S19 (a) is an equality there: a mistake in the counting of graphs would show in any digit."""
    found = sum(
        chance**2 / arrangements(row)
        for row, chance in shuffled((0,) * honest, modulus, pieces).items()
    ) * Fraction(modulus) ** (honest * pieces - 1)
    assert found == series(honest, modulus, pieces)


def arrangements(row: tuple[int, ...]) -> int:
    found = math.factorial(len(row))
    for times in Counter(row).values():
        found //= math.factorial(times)
    return found


@pytest.mark.parametrize(
    ("honest", "pieces", "modulus"),
    [
        *TINY,
        (8, 4, 64),
        (10, 5, 1000),
        (12, 3, 7),
        (20, 6, 2**17),
        (60, 7, 2**17),
        (60, 4, 8),
        (100, 8, 2**31),
    ],
)
def test_the_bound_is_never_below_the_exact_series_and_close_to_it(
    honest: int, pieces: int, modulus: int
) -> None:
    exact = math.log(series(honest, modulus, pieces) - 1)
    found = mixing._log_excess(honest, modulus, pieces)
    assert (
        exact <= found <= exact + math.log(3)
    )  # with q = 2 the bound counts all but one component twice
    if pieces >= 4 and honest >= 8:
        assert found <= exact + math.log(1.2)


@settings(deadline=None)
@given(honest=st.integers(1, 40), modulus=st.integers(2, 2**20), pieces=st.integers(3, 9))
def test_the_bound_is_never_below_the_exact_series(honest: int, modulus: int, pieces: int) -> None:
    exact = series(honest, modulus, pieces) - 1
    assert mixing_distance(honest, modulus, pieces) >= min(
        1.0, math.sqrt(exact) / 2 if exact < 10 else 1.0
    )


@pytest.mark.parametrize("modulus", [2, 213, 2**10, 2**20, 2**31])
@pytest.mark.parametrize("honest", [1, 2, 3, 7, 40, 255, 256, 257, 1000, 10**5, 10**9])
def test_more_users_and_more_pieces_mix_no_worse(honest: int, modulus: int) -> None:
    """Up to the steps between sums that are written out and those in closed form."""
    for pieces in range(3, 40):
        here, further = (mixing_distance(users, modulus, pieces) for users in (honest, honest + 1))
        assert 0 < here <= 1
        assert mixing_distance(honest, modulus, pieces + 1) <= here * (1 + 1e-6)
        # One user alone has a sum that is its own: nothing is lost to mixing there. Beyond 256
        # users nothing is said of so few pieces that smaller crowds hardly mix.
        if honest > 1 and (honest != 256 or further < 1):
            assert further <= here * 1.2


def test_two_pieces_are_given_no_bound_and_a_single_user_needs_none() -> None:
    assert mixing_distance(1000, 2**10, 2) == 1.0
    assert mixing_distance(1, 2**10, 2) <= 1e-299


def test_the_least_pieces_are_the_least_and_fewer_than_the_published_ones() -> None:
    for honest, modulus in (
        (19, 2**10),
        (2000, 2**17),
        (10**4, 2**19),
        (10**6, 2**25),
        (10**9, 2**31),
    ):
        pieces = least_pieces(honest, modulus, 40)
        assert (
            mixing_distance(honest, modulus, pieces)
            <= 2.0**-40
            < mixing_distance(honest, modulus, pieces - 1)
        )
        assert pieces <= published_pieces(honest, modulus, 40)
    # Balle et al. 2020 and the proposition here, for what the design calls its example.
    assert (published_pieces(2000, 2**17, 40), least_pieces(2000, 2**17, 40)) == (13, 10)


def test_refusals_name_what_is_wrong() -> None:
    with pytest.raises(UsageError, match="at least 19"):
        published_pieces(18, 2, 40)
    with pytest.raises(UsageError, match="bits of security"):
        least_pieces(100, 2**10, 0)
    with pytest.raises(ValueError, match="at least"):
        mixing_distance(0, 2, 3)


def view(noise: dict[int, Fraction], values: tuple[int, ...], modulus: int, pieces: int) -> Law:
    """The shuffled pieces of noisy values, by enumeration of the noises of all users."""
    found: Law = {}
    for drawn in itertools.product(noise, repeat=len(values)):
        chance = math.prod((noise[one] for one in drawn), start=Fraction(1))
        noisy = tuple(
            sorted((value + one) % modulus for value, one in zip(values, drawn, strict=True))
        )
        for row, share in cached_shuffle(noisy, modulus, pieces).items():
            found[row] = found.get(row, Fraction(0)) + chance * share
    return found


@cache
def cached_shuffle(values: tuple[int, ...], modulus: int, pieces: int) -> Law:
    return shuffled(values, modulus, pieces)


def hockey_stick(one: Law, other: Law, growth: Fraction) -> Fraction:
    return sum(
        (
            max(Fraction(0), chance - growth * other.get(row, Fraction(0)))
            for row, chance in one.items()
        ),
        Fraction(0),
    )


@pytest.mark.parametrize(("honest", "pieces", "modulus"), [(2, 4, 3), (3, 3, 3), (2, 3, 4)])
@pytest.mark.parametrize("growth", [Fraction(1), Fraction(3, 2), Fraction(3)])
def test_the_whole_view_is_no_more_than_its_sum_and_the_distance(
    honest: int, pieces: int, modulus: int, growth: Fraction
) -> None:
    """S19 (b) over every pair of neighbours, with a noise that hides little."""
    noise = {0: Fraction(3, 5), 1: Fraction(3, 10), modulus - 1: Fraction(1, 10)}
    tau = Fraction(mixing_distance(honest, modulus, pieces))
    for others in itertools.combinations_with_replacement(range(modulus), honest - 1):
        for before, after in itertools.permutations(range(modulus), 2):
            first, second = (
                view(noise, (value, *others), modulus, pieces) for value in (before, after)
            )
            central = hockey_stick(sums(first, modulus), sums(second, modulus), growth)
            assert central <= hockey_stick(first, second, growth) <= central + (1 + growth) * tau


def sums(law: Law, modulus: int) -> Law:
    found: Law = {}
    for row, chance in law.items():
        found[(sum(row) % modulus,)] = found.get((sum(row) % modulus,), Fraction(0)) + chance
    return found


SETTING = Setting(2000, 1900)


def spec_of(**changes: int) -> SplitMix:
    fields: dict[str, int] = {
        "max_value": 20,
        "shares": 1900,
        "modulus": 2**17,
        "pieces": 10,
    } | changes
    return SplitMix(noise_epsilon=Fraction(1, 20), **fields)


def test_a_sum_of_two_thousand_costs_ten_messages_and_central_noise() -> None:
    """The noise of sgdl-shuffle with a fiftieth of its messages."""
    target = Target(1.0, 1e-6, users=2000, honest=2000, max_value=20)
    mine, unary = calibrate("split-mix", target), calibrate("sgdl-shuffle", target)
    assert mine.messages_per_user == 10
    assert unary.messages_per_user >= 40 * mine.messages_per_user
    assert standard_error(mine, 2000) <= standard_error(unary, 2000) <= 29


def test_the_certificate_pays_for_what_the_pieces_show() -> None:
    """With too few only one user's own noise protects.

    With enough of them a further one changes next to nothing.
    """
    epsilons = {
        pieces: epsilon_bounds(spec_of(pieces=pieces), SETTING, 1e-9).certified
        for pieces in (3, 7, 10, 12)
    }
    local = corrupted_bounds(spec_of(), SETTING, 1e-9).epsilon
    assert epsilons[3] == pytest.approx(local)
    assert epsilons[7] > epsilons[10] >= epsilons[12]
    assert epsilons[10] == pytest.approx(epsilons[12], rel=1e-3)
    # Above what all the noise costs, the pieces are paid for alone: τ (1 + e^E), E the ε of one
    # whole noise.
    tau = mixing_distance(1900, 2**17, 10)
    above = delta_bounds(spec_of(), SETTING, 1.001).certified
    assert above == pytest.approx(tau * (1 + math.e), rel=1e-6, abs=0)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("honest", [2000, 1000, 2])
def test_both_sides_hold_each_other_for_any_crowd(adjacency: Adjacency, honest: int) -> None:
    setting = Setting(2000, honest, adjacency)
    found = epsilon_bounds(spec_of(), setting, 1e-6)
    assert 0 < found.attained <= found.certified
    assert delta_bounds(spec_of(), setting, found.certified).attained <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_rounds_compose(adjacency: Adjacency) -> None:
    setting = Setting(2000, 1900, adjacency)
    one = compose_epsilon([Round(spec_of(pieces=12), setting, 1)], 1e-6)
    four = compose_epsilon([Round(spec_of(pieces=12), setting, 4)], 1e-6)
    assert one < four <= 4 * one * (1 + 1e-3)


def test_many_rounds_are_calibrated() -> None:
    target = Target(4.0, 1e-6, users=2000, honest=1900, max_value=5, rounds=10)
    spec = calibrate("split-mix", target)
    assert compose_epsilon([Round(spec, target.setting, 10)], 1e-6) <= 4.0


def test_a_modulus_without_room_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="must be at least 4"):
        epsilon_bounds(spec_of(modulus=2**15), SETTING, 1e-6)
    with pytest.raises(CannotCertify, match=r"modulus of 2\^3"):
        calibrate("split-mix", Target(1.0, 1e-6, users=10**6, honest=10**6, max_value=10**5))


def test_room_is_kept_for_all_reports_that_may_arrive() -> None:
    few = Target(1.0, 1e-6, users=2000, honest=2000, max_value=20)
    many = Target(1.0, 1e-6, users=2000, honest=2000, max_value=20, most_users=10**5)
    one, other = calibrate("split-mix", few), calibrate("split-mix", many)
    assert isinstance(one, SplitMix)
    assert isinstance(other, SplitMix)
    other.check_room(10**5)
    with pytest.raises(UsageError, match="too small"):
        one.check_room(10**5)
    with pytest.raises(UsageError, match="most-users"):
        Target(1.0, 1e-6, users=2000, honest=2000, max_value=20, most_users=1999)


def test_a_change_that_costs_too_much_is_refused() -> None:
    with pytest.raises(CannotCertify, match="a smaller"):
        calibrate(
            "split-mix",
            Target(5.0, 1e-6, users=2000, honest=2000, max_value=1000, adjacency=Adjacency.METRIC),
        )
