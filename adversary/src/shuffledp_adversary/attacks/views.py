"""The adversary's views, drawn from the law of the client's sampler, encoder and seals.

Reports of many rounds are drawn by `randomise_in_bulk`, whose law is that of a device's sampler.

This runs in worker processes and imports only the client's pure part, so that a worker starts in a
moment. Each function gives `count` independent trials, one row of numbers for each. Their
randomness comes from `integers` or `arrays` (None: the operating system's), which an exercise sets
to get the same views again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from shuffledp_client.encoding import encode
from shuffledp_core.mechanisms import Answers, GeoShuffle, KRRHistogram, Mechanism, SGDLShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise, randomise_in_bulk
from shuffledp_core.sampling.randomness import RandomIntegers, system_random

Views: TypeAlias = Sequence[Sequence[int]]
"""Numbers that the adversary sees, one row per trial."""

YES_NO: Final = KRRHistogram(symbols=2, blanket=Fraction(1, 2))
"""The lecture's randomised response: the truth with probability 3/4, ε0 = ln 3 (Wang, lecture 9,
section 9.1.1).
"""

FAKE: Final = Fraction(1, 2)
WHEN_ZERO: Final = Fraction(1, 4)
WHEN_ONE: Final = Fraction(3, 4)
"""RAPPOR's f, p and q as in the lecture's Figure 9.2; here one hash function, h = 1."""

QUARTERS: Final = 4
"""Dropout is looked at in quarters of those who could take part: all users, or the careful plan's
half.
"""

_MOST_REPORTS: Final = 2**18
"""Most reports that are held in memory at a time, if one round has no more."""

_ROUND: Final = "00" * 16


def outlier_rounds(
    spec: GeoShuffle, users: int, far: int, count: int, arrays: RandomArrays | None = None
) -> Views:
    """Simulate rounds in which one user holds `far` and all others hold 0.

    A row has, from the same reports, the largest number, the sum, and the sum of the far user and
    one other alone.
    """
    views: list[Sequence[int]] = []
    for reports in _reports(spec, [0] * (users - 1) + [far], count, arrays or RandomArrays()):
        largest = reports.max(axis=1) - spec.padding
        total = reports.sum(axis=1) - users * spec.padding
        both = reports[:, -1] + reports[:, 0] - 2 * spec.padding
        views += np.stack((largest, total, both), axis=1).tolist()
    return views


def envelopes(
    spec: GeoShuffle,
    geometry: Geometry,
    keys: tuple[bytes, ...],
    value: int,
    count: int,
    *,
    padded: bool,
    integers: RandomIntegers | None = None,
) -> Views:
    """Simulate a user who holds `value`: its answer, and the bytes of its envelope.

    The envelopes are sealed to `keys`, those of the route: `padded` as the client does, otherwise
    only the ones.
    """
    integers = integers or RandomIntegers()
    seal = _seal_padded if padded else _seal_ones
    answers = [randomise(spec, value, integers) for _ in range(count)]
    return [(answer, len(seal(spec, geometry, keys, answer))) for answer in answers]


def _seal_padded(
    spec: Mechanism, geometry: Geometry, keys: tuple[bytes, ...], answer: int
) -> bytes:
    """Seal as the client does, always with m messages."""
    return seal_envelope(geometry, _ROUND, keys, encode(geometry, spec, answer, system_random))


def _seal_ones(_: Mechanism, geometry: Geometry, keys: tuple[bytes, ...], answer: int) -> bytes:
    """Seal the onions of the ones only, to save traffic."""
    # No message, but an envelope all the same: a user who is silent would be told apart without any
    # length.
    if answer == 0:
        return suite_named(geometry.suite).sealer(keys[0], binding(_ROUND, 1))(b"")
    shorter = msgspec.structs.replace(geometry, messages_per_user=answer)
    messages = [b"\x01" + system_random(geometry.plain_bytes - 1) for _ in range(answer)]
    return seal_envelope(shorter, _ROUND, keys, messages)


def flooded_rounds(
    spec: Mechanism,
    honest: int,
    users: int,
    value: int,
    count: int,
    arrays: RandomArrays | None = None,
) -> Views:
    """Simulate flooded rounds: the one number of each that distinguishes the victim's values.

    The victim holds the end of the domain (a sum) or one of two symbols (a histogram); the other
    honest users hold 0, or a third symbol. The colluding users may send what they like: here,
    zeros.
    """
    arrays = arrays or RandomArrays()
    histogram = spec.answers is Answers.HISTOGRAM
    victim = value if histogram else value * (spec.domain - 1)
    others = min(2, spec.domain - 1) if histogram else 0
    # Whatever they send, the adversary knows it and takes it away again, so that zeros are as good
    # as anything.
    forged = spec.count_sent(np.zeros((1, users - honest), dtype=np.int64), arrays)
    views: list[Sequence[int]] = []
    for reports in _reports(spec, [victim] + [others] * (honest - 1), count, arrays):
        shuffled = spec.count_sent(reports, arrays) + forged
        left = shuffled - forged
        numbers = left[:, 1] - left[:, 0] if histogram else left[:, 1]
        views += numbers[:, np.newaxis].tolist()
    return views


def daily_answers(
    value: int, shown: Sequence[int], count: int, arrays: RandomArrays | None = None
) -> Views:
    """Number of ones among a user's answers up to each shown day, with fresh randomness."""
    arrays = arrays or RandomArrays()
    daily = randomise_in_bulk(YES_NO, np.full((count, shown[-1]), value), arrays)
    return _sum_until(shown, daily)


def daily_totals(
    users: int, value: int, shown: Sequence[int], count: int, arrays: RandomArrays | None = None
) -> Views:
    """Number of ones on the small round's boards up to each shown day.

    All but one user hold 0.
    """
    arrays = arrays or RandomArrays()
    days = count * shown[-1]
    ones = [
        reports.sum(axis=1)
        for reports in _reports(YES_NO, [value] + [0] * (users - 1), days, arrays)
    ]
    return _sum_until(shown, np.concatenate(ones).reshape(count, shown[-1]))


def daily_rappor(
    value: int, shown: Sequence[int], count: int, arrays: RandomArrays | None = None
) -> Views:
    """Number of reports of value 1's bit minus that of value 0's, up to each shown day.

    The two values set one bit each; all other bits are alike for both and tell nothing. The
    permanent response replaces a bit by a fair coin with probability f and is kept; each day it is
    reported with noise p and q.
    """
    arrays = arrays or RandomArrays()
    shape = (count, shown[-1])

    def reports(bit: bool) -> NDArray[np.int64]:  # noqa: FBT001
        coins = arrays.bernoulli(Fraction(1, 2), count)
        permanent = np.where(arrays.bernoulli(FAKE, count), coins, bit)[:, np.newaxis]
        when_one, when_zero = (
            arrays.bernoulli(noise, count * shown[-1]).reshape(shape)
            for noise in (WHEN_ONE, WHEN_ZERO)
        )
        return np.where(permanent, when_one, when_zero).astype(np.int64)

    return _sum_until(shown, reports(value == 1) - reports(value == 0))


def _sum_until(shown: Sequence[int], daily: NDArray[np.int64]) -> Views:
    """Sums of each row up to every shown day; day 1 is the first."""
    sums: Views = daily.cumsum(axis=1)[:, np.asarray(shown) - 1].tolist()
    return sums


def partial_rounds(
    spec: SGDLShuffle, users: int, value: int, count: int, arrays: RandomArrays | None = None
) -> Views:
    """Simulate the sum if a quarter, two quarters, three, or all of the users take part.

    The first user holds `value`, the others 0.

    The first h reports of a round are a round of h users: one simulation serves all of them.
    """
    quarter = users // QUARTERS
    views: list[Sequence[int]] = []
    for reports in _reports(spec, [value] + [0] * (users - 1), count, arrays or RandomArrays()):
        views += reports.cumsum(axis=1)[:, quarter - 1 :: quarter].tolist()
    return views


def _reports(
    spec: Mechanism, values: Sequence[int], count: int, arrays: RandomArrays
) -> Iterator[NDArray[np.int64]]:
    """Reports of users with these values in `count` rounds, some rounds at a time.

    A row for each round.
    """
    most = max(1, _MOST_REPORTS // len(values))
    for start in range(0, count, most):
        rows = np.tile(np.array(values, dtype=np.int64), (min(most, count - start), 1))
        yield randomise_in_bulk(spec, rows, arrays)
