"""Lab 9, Catch the liar: an audit with exact intervals, and dishonest clients."""

from __future__ import annotations

from typing import Final

from shuffledp_labs.lab import Lab, LazyFunction, Prediction
from shuffledp_labs.lab09_liar.checks import CHECKS

LAB: Final = Lab(
    number=9,
    name="liar",
    title="Catch the liar",
    level=2,
    minutes=110,
    predictions=(
        Prediction(
            "audited",
            "Eight users answer by k-RR with k = 3 and ε0 = 1; of two datasets the true ε is .634 "
            "at δ = .01. What lower bound does an audit prove, at confidence .9 and with 20,000 "
            "rounds on each?",
            "number",
            "nats",
        ),
        Prediction(
            "equal_laws",
            "Two laws over 500 outcomes are equal. You choose the event that tells 2,000 samples "
            "of each apart best, and measure it on the same samples. In how many of 100 "
            "repetitions do you 'find' ε > 0?",
            "number",
            "repetitions",
            most=100,
        ),
        Prediction(
            "silence",
            "An audit with a million rounds finds no contradiction to a claimed ε. Is the claim "
            "then true?",
            "choice",
            choices=("yes", "no", "cannot tell"),
        ),
    ),
    checks=CHECKS,
    explanations=(
        "Why does an audit that chooses and measures on the same samples cry wolf on equal laws, "
        "although its interval is exact?",
        "An honest client was not accused, and a client that lies in one of a thousand answers "
        "would not be, either. What exactly has your audit shown about the clients that it did "
        "not name?",
    ),
    show=LazyFunction(__name__, "show.show"),
    folder=__name__,
)
