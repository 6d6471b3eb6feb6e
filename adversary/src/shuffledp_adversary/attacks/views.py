"""Views of the adversary, trial by trial, from the client's own sampler, encoder and seals.

This runs in worker processes and imports only the client's pure part, so that a worker starts in a
moment. Each function gives `count` independent trials, one row of numbers for each. Their
randomness comes from `integers` (None: the operating system's), which an exercise sets to get the
same views again.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec
import numpy as np

from shuffledp_client.encoding import encode
from shuffledp_core.mechanisms import Answers, GeoShuffle, KRRHistogram, Mechanism, SGDLShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.exact import bernoulli
from shuffledp_core.sampling.randomisers import randomise
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

_ROUND: Final = "00" * 16


def outlier_rounds(
    spec: GeoShuffle, users: int, far: int, count: int, integers: RandomIntegers | None = None
) -> Views:
    """Simulate rounds in which one user holds `far`, the others 0.

    A row has, from the same reports, the largest number, the sum, and the sum of the far user and
    one other alone.
    """
    integers = integers or RandomIntegers()
    views = []
    for _ in range(count):
        reports = [randomise(spec, 0, integers) for _ in range(users - 1)]
        reports.append(randomise(spec, far, integers))
        views.append(
            (
                max(reports) - spec.padding,
                sum(reports) - users * spec.padding,
                reports[-1] + reports[0] - 2 * spec.padding,
            )
        )
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
    """Seal as the client does: always m messages."""
    return seal_envelope(geometry, _ROUND, keys, encode(geometry, spec, answer, system_random))


def _seal_ones(_: Mechanism, geometry: Geometry, keys: tuple[bytes, ...], answer: int) -> bytes:
    """Seal the same onions, but, to save traffic, a message only for each 1."""
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
    integers: RandomIntegers | None = None,
) -> Views:
    """Simulate flooded rounds: one number each, which distinguishes the victim's two values.

    The victim holds the end of the domain (a sum) or one of two symbols (a histogram); the other
    honest users hold 0, or a third symbol. The colluding users may send what they like: here,
    zeros.
    """
    integers = integers or RandomIntegers()
    histogram = spec.answers is Answers.HISTOGRAM
    victim = value if histogram else value * (spec.domain - 1)
    others = min(2, spec.domain - 1) if histogram else 0
    # Whatever they send, the adversary knows it and takes it away again, so that zeros are as good
    # as anything.
    arrays = RandomArrays()
    forged = _board(spec, [0] * (users - honest), arrays)
    views = []
    for _ in range(count):
        reports = [randomise(spec, victim, integers)]
        reports += [randomise(spec, others, integers) for _ in range(honest - 1)]
        sent = _board(spec, reports, arrays)
        shuffled = [
            honest_count + forged_count
            for honest_count, forged_count in zip(sent, forged, strict=True)
        ]
        left = [total - forged_count for total, forged_count in zip(shuffled, forged, strict=True)]
        views.append((left[1] - left[0] if histogram else left[1],))
    return views


def _board(spec: Mechanism, answers: Sequence[int], arrays: RandomArrays) -> list[int]:
    """Counts of every symbol among the messages of users with these answers."""
    sent = spec.count_sent(np.array([answers], dtype=np.int64), arrays)
    counts: list[int] = sent[0].tolist()
    return counts


def daily_answers(
    value: int, shown: Sequence[int], count: int, integers: RandomIntegers | None = None
) -> Views:
    """Number of ones that one user has answered up to each shown day, with fresh randomness."""
    integers = integers or RandomIntegers()
    daily = ([randomise(YES_NO, value, integers) for _ in range(shown[-1])] for _ in range(count))
    return [_until(shown, answers) for answers in daily]


def daily_totals(
    users: int, value: int, shown: Sequence[int], count: int, integers: RandomIntegers | None = None
) -> Views:
    """Number of ones that left the small round's shuffle up to each shown day.

    All but one user hold 0.
    """
    integers = integers or RandomIntegers()

    def ones() -> int:
        return randomise(YES_NO, value, integers) + sum(
            randomise(YES_NO, 0, integers) for _ in range(users - 1)
        )

    return [_until(shown, [ones() for _ in range(shown[-1])]) for _ in range(count)]


def daily_rappor(
    value: int, shown: Sequence[int], count: int, integers: RandomIntegers | None = None
) -> Views:
    """Number of reports of value 1's bit minus that of value 0's, up to each shown day.

    The two values set one bit each; all other bits are alike for both and tell nothing. The
    permanent response replaces a bit by a fair coin with probability f and is kept; each day it is
    reported with noise p and q.
    """
    integers = integers or RandomIntegers()

    def keep(bit: bool) -> Fraction:  # noqa: FBT001
        response = bernoulli(Fraction(1, 2), integers) if bernoulli(FAKE, integers) else bit
        return WHEN_ONE if response else WHEN_ZERO

    views = []
    for _ in range(count):
        no = keep(value == 0)
        yes = keep(value == 1)
        daily = [bernoulli(yes, integers) - bernoulli(no, integers) for _ in range(shown[-1])]
        views.append(_until(shown, daily))
    return views


def _until(shown: Sequence[int], daily: Sequence[int]) -> list[int]:
    sums = list(accumulate(daily))
    return [sums[day - 1] for day in shown]


def partial_rounds(
    spec: SGDLShuffle, users: int, value: int, count: int, integers: RandomIntegers | None = None
) -> Views:
    """Simulate the sum after each quarter of the users.

    The first of them holds `value`, the others 0.

    The first h reports of a round are a round of h users: one simulation serves all of them.
    """
    integers = integers or RandomIntegers()
    views = []
    for _ in range(count):
        reports = [randomise(spec, value, integers)]
        reports += [randomise(spec, 0, integers) for _ in range(users - 1)]
        views.append(list(accumulate(reports))[users // QUARTERS - 1 :: users // QUARTERS])
    return views
