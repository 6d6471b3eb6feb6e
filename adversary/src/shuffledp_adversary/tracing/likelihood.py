"""Likelihood of an answer given a value, and the adversary's guess. Pure.

An answer is the sum of a user's own messages: the symbol of a histogram, the number of ones of a
sum. These are the laws that `shuffledp_core.sampling.randomisers` samples, computed in floating
point; a test compares the two.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_privacy.analyses import analysis_of

Floats = NDArray[np.float64]

_CELLS: Final = 2**22
"""Largest block of the table of answers by values that is held at once: 32 MiB."""


def guess_values(spec: Mechanism, answers: NDArray[np.int64], prior: Floats) -> NDArray[np.int64]:
    """Guess the likeliest value for each answer: argmax of P(answer | x) prior(x).

    Of equally likely values the smallest is taken.

    A uniform prior makes it the maximum-likelihood guess.

    Args:
        spec: the mechanism, as certified.
        answers: shape (users,), in {0..m} for sums, {0..k-1} for a histogram.
        prior: shape (spec.domain,), not negative, with a positive sum.
    """
    distinct, inverse = np.unique(answers, return_inverse=True)
    best = np.empty(len(distinct), dtype=np.int64)
    rows = max(1, _CELLS // spec.domain)
    with np.errstate(divide="ignore"):
        # A value that no user holds gets -inf, and is never guessed.
        log_prior = np.log(prior)
    for start in range(0, len(distinct), rows):
        block = distinct[start : start + rows]
        best[start : start + rows] = np.argmax(log_likelihood(spec, block) + log_prior, axis=1)
    return best[inverse]


def log_likelihood(spec: object, answers: NDArray[np.int64]) -> Floats:
    """ln P(answer | x), shape (answers, domain); -inf for impossible answers.

    Raises:
        UsageError: the mechanism's analysis has no law of its messages, or the law cannot be
            tabulated.
    """
    law = analysis_of(spec).log_likelihood(answers)
    if law is None:
        raise UsageError(
            f"the distribution of the answers of {type(spec).__name__} is not known, so no value "
            "can be guessed from them"
        )
    return law
