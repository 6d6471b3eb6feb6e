"""Lab 10, Spend it once: a budget that composes, and a ledger that survives being killed."""

from __future__ import annotations

from typing import Final

from shuffledp_labs.lab import Check, Lab, Prediction
from shuffledp_labs.lab10_spend import checks
from shuffledp_labs.lab10_spend.show import show

BUSY: Final = 120.0
"""Limit of a check, in seconds: for a machine that does much else. One that is idle needs a few of
them.
"""

LAB: Final = Lab(
    number=10,
    name="spend",
    title="Spend it once",
    level=3,
    minutes=110,
    predictions=(
        Prediction(
            "sum_or_textbook",
            "100 rounds of ε .773 at δ = .001: which bound is smaller?",
            "choice",
            choices=("the plain sum", "the textbook's advanced composition"),
        ),
        Prediction(
            "exact_epsilon", "And what is the exact ε of these 100 pure rounds?", "number", "nats"
        ),
        Prediction(
            "most_dangerous_moment",
            "At which moment of `reserve` does a crash do most harm, if the ledger is careless?",
            "text",
        ),
    ),
    checks=(
        Check(
            "B-sound",
            15,
            "Your ε is never below the exact one, and never above the sum.",
            checks.check_sound,
            seconds=BUSY,
        ),
        Check(
            "B-sharp",
            10,
            "For many rounds your ε is at most the sharper closed form.",
            checks.check_sharp,
            needs=("B-sound",),
            seconds=BUSY,
        ),
        Check(
            "C-history",
            14,
            "Every call answers as the rules say, in drawn histories.",
            checks.check_history,
            seconds=BUSY,
        ),
        Check(
            "C-kill",
            15,
            "After a kill in the middle of a call, nothing acknowledged is lost or charged twice.",
            checks.check_kills,
            seconds=600.0,
        ),
        Check(
            "C-together",
            11,
            "Two programs at once on one file never overspend, and never charge a round twice.",
            checks.check_together,
            seconds=BUSY,
        ),
        Check(
            "D-judge",
            10,
            "The real accountant and four broken ones: each is named.",
            checks.check_judge,
            seconds=BUSY,
        ),
    ),
    explanations=(
        "Advanced composition gave a larger ε than the plain sum. Is the theorem wrong? Say when "
        "it helps, with your own numbers, and why the accountant's ε is smaller than every "
        "formula in terms of the rounds' ε.",
        "A ledger charges first and hands out the certificate afterwards; another does it the "
        "other way round. What can a crash do to each, which harm is worse, and how does yours "
        "avoid both?",
    ),
    show=show,
    folder="shuffledp_labs.lab10_spend",
)
