"""Lab 2, What the wire tells: lengths that reveal values, a fixed-length code, an outlier."""

from __future__ import annotations

from functools import partial
from typing import Final

from shuffledp_labs.lab import Check, Lab, LazyFunction, Prediction

_of = partial(LazyFunction, __name__)

LAB: Final = Lab(
    number=2,
    name="wire",
    title="What the wire tells",
    level=1,
    minutes=90,
    predictions=(
        Prediction(
            "named",
            "Clients send one message for every one of their code. Of how many per cent can an "
            "observer name the answer?",
            "number",
            "percent",
            most=100,
        ),
        Prediction(
            "encrypted",
            "Every message is encrypted three times. Does a fourth layer help?",
            "choice",
            choices=("yes", "no"),
        ),
        Prediction(
            "numbers",
            "2,000 noisy numbers are shuffled, one user may hold 20, all others hold 0. How often "
            "do you guess right?",
            "number",
            "percent",
            most=100,
        ),
        Prediction(
            "bits",
            "The same noisy numbers, as shuffled bits. How often do you guess right?",
            "number",
            "percent",
            most=100,
        ),
    ),
    checks=(
        Check(
            "B-read",
            20,
            "Each sender's answer is inferred from the lengths.",
            _of("checks.check_read"),
        ),
        Check(
            "C-length",
            10,
            "All answers give messages of the same length, in every suite.",
            _of("checks.check_length"),
        ),
        Check(
            "C-inverse",
            8,
            "decode undoes encode, and refuses what is not a message.",
            _of("checks.check_inverse"),
        ),
        Check(
            "C-tags",
            7,
            "Every tag has sixteen fresh random bytes.",
            _of("checks.check_tags"),
            chance=1e-18,
        ),
        Check(
            "D-far",
            8,
            "The one user's value is named if the round reveals it.",
            _of("checks.check_far"),
            chance=1e-9,
        ),
        Check(
            "D-silence",
            7,
            "None is returned if the round does not reveal the value.",
            _of("checks.check_silence"),
        ),
        Check(
            "E-claims",
            5,
            "Nothing is claimed if all lengths are equal.",
            _of("checks.check_claims"),
        ),
        Check(
            "E-round",
            10,
            "Forty real clients send your messages: the round is published, and the wire "
            "reveals nothing.",
            _of("system.check_round"),
            needs=("C-length", "C-inverse", "C-tags"),
            system=True,
            seconds=240.0,
        ),
    ),
    explanations=(
        "Every layer of your envelopes was encrypted, and you named the answers all the same. "
        "What exactly leaked, to whom, and which guarantee was left to the users?",
        "Numbers and bits carry the same noisy values through the same shuffle. Why does one user "
        "stand out among the numbers and not among the bits? Use a round of D-far and one of "
        "D-silence.",
    ),
    show=_of("show.show"),
    folder=__name__,
)
