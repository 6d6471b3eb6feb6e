"""Lab 8, Trust no theorem: an exact accountant for few users, and refutations."""

from __future__ import annotations

from typing import Final

from shuffledp_labs.lab import Lab, LazyFunction, Prediction
from shuffledp_labs.lab08_theorem.checks import CHECKS

LAB: Final = Lab(
    number=8,
    name="theorem",
    title="Trust no theorem",
    level=3,
    minutes=120,
    predictions=(
        Prediction(
            "true_delta",
            "Four users, three symbols, ε0 = 1, ε = .2: the theorem prints δ = .0916. What is the "
            "true δ of the worst dataset?",
            "number",
            most=1,
        ),
        Prediction(
            "false_cells",
            "In how many of 180 cells is the printed theorem false?",
            "number",
            "cells",
            most=180,
        ),
        Prediction(
            "equal_others",
            "Is the worst dataset of the other users always one in which all of them hold the "
            "same symbol?",
            "choice",
            choices=("yes", "no"),
        ),
    ),
    checks=CHECKS,
    explanations=(
        "One bin of the histogram has a smaller δ than the whole, and yet a look at one bin "
        "refuted the printed theorem. Why are both possible?",
        'Show one of your cells where "all others at a third symbol" is not the worst dataset, '
        "and say what the worst "
        'one does for the adversary. What does this mean for a proof that begins with "without '
        'loss of generality"?',
    ),
    show=LazyFunction(__name__, "show.show"),
    folder=__name__,
)
