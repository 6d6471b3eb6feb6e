"""What the request for a tile reveals: the crowd against SciPy, the proposition against brute
force."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import pytest
from scipy.stats import binom

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import KRRHistogram, RRShuffle
from shuffledp_privacy.bounds import Setting, certified_epsilon, delta_bounds
from shuffledp_privacy.rounds.tiles import tile_crowd, tile_epsilon

HALF = KRRHistogram(symbols=2, blanket=Fraction(1, 2))


@pytest.mark.parametrize("honest", [1, 2, 10, 1000, 10**6, 10**8])
@pytest.mark.parametrize("bits", [1, 3, 9, 16])
@pytest.mark.parametrize("chance", [1e-3, 5e-7, 1e-12])
def test_a_smaller_crowd_is_as_rare_as_is_said_and_not_much_rarer(
    honest: int, bits: int, chance: float
) -> None:
    crowd = tile_crowd(honest, bits, chance)
    assert 1 <= crowd <= honest
    # Others than oneself: Bin(honest - 1, 2^-bits), fewer than crowd - 1 of them.
    assert binom.cdf(crowd - 2, honest - 1, 2.0**-bits) <= chance
    looser = crowd + max(2, math.ceil(0.1 * crowd))
    assert binom.cdf(looser - 2, honest - 1, 2.0**-bits) > chance or looser > honest


def test_one_tile_is_the_board() -> None:
    setting = Setting(users=500, honest=400)
    assert tile_crowd(400, 0, 1e-9) == 400
    assert tile_epsilon(HALF, setting, 1e-6, 0) == certified_epsilon(HALF, setting, 1e-6)


def test_smaller_tiles_cost_more_and_never_more_than_a_report_alone() -> None:
    setting = Setting(users=10**6, honest=10**6)
    epsilons = [tile_epsilon(HALF, setting, 1e-6, bits) for bits in range(0, 20, 3)]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] < epsilons[-1] <= HALF.local_epsilon(1) * (1 + 1e-9)


@pytest.mark.parametrize(("users", "tiles"), [(3, 2), (4, 2), (3, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 0.4, 0.8])
def test_the_proposition_holds_for_every_view_of_small_rounds(
    users: int, tiles: int, epsilon: float
) -> None:
    """All assignments of users to tiles, all reports: the view is who is in which tile, and each
    tile's count of ones."""
    p = 1 - float(HALF.blanket) / 2
    laws: list[dict[tuple[object, ...], float]] = []
    for value in (0, 1):
        law: dict[tuple[object, ...], float] = defaultdict(float)
        for places in itertools.product(range(tiles), repeat=users):
            for reports in itertools.product((0, 1), repeat=users):
                chance = float(tiles) ** -users
                for report, held in zip(reports, (value, *[0] * (users - 1)), strict=True):
                    chance *= p if report == held else 1 - p
                ones = [0] * tiles
                for place, report in zip(places, reports, strict=True):
                    ones[place] += report
                law[places, tuple(ones)] += chance
        laws.append(law)
    first, second = laws
    divergence = max(
        sum(max(0.0, one[view] - math.exp(epsilon) * other.get(view, 0.0)) for view in one)
        for one, other in ((first, second), (second, first))
    )
    for crowd in range(1, users + 1):
        setting = Setting(users=crowd, honest=crowd)
        smaller = float(binom.cdf(crowd - 2, users - 1, 1 / tiles))
        certified = delta_bounds(HALF, setting, epsilon).certified
        assert divergence <= certified + smaller + 1e-12


def test_several_messages_of_a_user_are_not_certified() -> None:
    several = RRShuffle(max_value=4, randomise=Fraction(1, 2))
    with pytest.raises(CannotCertify, match="one message"):
        tile_epsilon(several, Setting(users=100, honest=100), 1e-6, 3)
