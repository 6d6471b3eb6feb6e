"""Recomputation of the published estimate from the board, with the analyst's own code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from shuffledp_core.answering.decoding import decode
from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.answering.estimation import Counts, estimate
from shuffledp_core.documents.models import Result
from shuffledp_core.errors import FalseResultError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.onion.geometry import Geometry

_FALSE: Final = (
    "the analyst signed an answer that is not this round's; keep the result: it is evidence"
)

_OTHER_ENDS: Final = (
    "the answer is right, the interval is not this version's; ask the analyst for its version, "
    "and keep the result"
)

ROUNDING: Final = 1e-9
"""Largest relative difference of two machines' floating point; far above what libraries differ by.
"""

STEP: Final = 1.0
"""Intervals of counts end at whole numbers, and rounding at a tail's limit may move an end by one.
"""


def check_answer(verified: Result, mechanism: Mechanism, geometry: Geometry, board: bytes) -> None:
    """Check that a result's estimate, and its counts of messages left out, follow from its board.

    Raises:
        BadBatchError, CountMismatchError: no answer can be computed from such a board.
        FalseResultError: as `check_estimate`, or the result has no estimate, or other counts of
            what it leaves out.
    """
    if verified.estimate is None:
        raise FalseResultError(
            "the result states that the round was published, but contains no answer"
        )
    counted = decode(
        board,
        geometry,
        mechanism.alphabet,
        verified.accepted,
        verified.dropped,
        mechanism.counts_of,
    )
    if (counted.outside, counted.repeated) != (verified.outside_alphabet, verified.repeated_tags):
        raise FalseResultError(
            f"the result leaves out {verified.outside_alphabet} messages outside the alphabet "
            f"and {verified.repeated_tags} with repeated tags, but the board has "
            f"{counted.outside} and {counted.repeated}; keep the result: it is evidence"
        )
    lost = verified.dropped + counted.invalid
    check_estimate(
        mechanism, counted.counts, verified.accepted, verified.estimate, lost, geometry.hops
    )


def check_estimate(
    mechanism: Mechanism,
    counts: Counts,
    users: int,
    published: Estimate,
    lost: int = 0,
    nodes: int = 0,
) -> None:
    """Check that `published` is the estimate of these counts, up to rounding.

    The counts are of `users` reports, less `lost` messages, and of the dummies of `nodes` nodes.

    Raises:
        FalseResultError: a number differs; the message names the first one.
    """
    computed = estimate(mechanism, counts, users, lost, nodes=nodes)
    if computed.quantity != published.quantity:
        raise FalseResultError(
            f"the published answer is a {published.quantity[:40]!r}, but the round asked for a "
            f"{computed.quantity}"
        )
    for what in ("values", "standard_errors"):
        _check_close(what, getattr(published, what), getattr(computed, what), 0.0, _FALSE)
    for what in ("mean", "mean_standard_error"):
        _check_close(
            what, _as_list(getattr(published, what)), _as_list(getattr(computed, what)), 0.0, _FALSE
        )
    for what in ("lows", "highs"):
        _check_close(what, getattr(published, what), getattr(computed, what), STEP, _OTHER_ENDS)


def _as_list(number: float | None) -> list[float]:
    return [] if number is None else [number]


def _check_close(
    what: str, published: Iterable[float], computed: Iterable[float], slack: float, otherwise: str
) -> None:
    stated = np.asarray(list(published), dtype=np.float64)
    expected = np.asarray(list(computed), dtype=np.float64)
    if stated.shape != expected.shape:
        raise FalseResultError(
            f"the published answer has {stated.size} {what}, but the board gives {expected.size}"
        )
    # Relative, but never below 1e-9 itself: an estimate of 0 would allow no rounding at all.
    allowed = slack + ROUNDING * np.maximum(1.0, np.abs(expected))
    wrong = np.flatnonzero(~(np.abs(stated - expected) <= allowed))  # written so that NaN is wrong
    if wrong.size:
        index = int(wrong[0])
        raise FalseResultError(
            f"the published {what}[{index}] is {stated[index]:.10g}, but the board gives "
            f"{expected[index]:.10g}: {otherwise}"
        )
