"""Lab 2, What the wire tells: lengths that are values, a code of one length, and a user who stands out all the same."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from shuffledp_labs.lab import Attempt, Check, Lab, Prediction, Showing


def _later(module: str, name: str) -> Callable[[Attempt], str]:
    """A check of a module that is imported when it runs: the list of labs must not wait for numpy and gRPC."""

    def run(attempt: Attempt) -> str:
        said: str = getattr(import_module(f"{__name__}.{module}"), name)(attempt)
        return said

    return run


def _show(showing: Showing) -> Path:
    from shuffledp_labs.lab02_wire.show import run

    return run(showing)


SECONDS: Final = 60.0
"""Limit of a check without a system; the longest takes some two seconds on an idle machine."""

LAB: Final = Lab(
    number=2,
    name="wire",
    title="What the wire tells",
    level=1,
    minutes=90,
    predictions=(
        Prediction(
            "named",
            "Clients send one message for every one of their code. Of how many can an observer name the answer?",
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
            "2,000 noisy numbers are shuffled, one user may hold 20, all others hold 0. How often do you guess right?",
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
            "B-read", 20, "Each sender's answer, read off the lengths.", _later("checks", "check_read"), seconds=SECONDS
        ),
        Check(
            "C-length",
            10,
            "One length for every answer, in every suite.",
            _later("checks", "check_length"),
            seconds=SECONDS,
        ),
        Check(
            "C-inverse",
            8,
            "decode undoes encode, and refuses what is no message.",
            _later("checks", "check_inverse"),
            seconds=SECONDS,
        ),
        Check(
            "C-tags", 7, "Every tag is sixteen fresh bytes of its own.", _later("checks", "check_tags"), seconds=SECONDS
        ),
        Check(
            "D-far",
            8,
            "Which value the one user holds, where the round tells.",
            _later("checks", "check_far"),
            chance=1e-9,
            seconds=SECONDS,
        ),
        Check(
            "D-silence", 7, "None, where the round does not tell.", _later("checks", "check_silence"), seconds=SECONDS
        ),
        Check(
            "E-claims",
            5,
            "Nothing is claimed where all lengths are equal.",
            _later("checks", "check_claims"),
            seconds=SECONDS,
        ),
        Check(
            "E-round",
            10,
            "Forty real clients send your messages: the round is published, and the wire tells nothing.",
            _later("system", "check_round"),
            needs=("C-length", "C-inverse", "C-tags"),
            system=True,
            seconds=240.0,
        ),
    ),
    explanations=(
        "Every layer of your envelopes was encrypted, and you named the answers all the same. What exactly leaked, to "
        "whom, and which guarantee was left to the users?",
        "Numbers and bits carry the same noisy values through the same shuffle. Why does one user stand out among the "
        "numbers and not among the bits? Use a round of D-far and one of D-silence.",
    ),
    show=_show,
    folder=__name__,
)
