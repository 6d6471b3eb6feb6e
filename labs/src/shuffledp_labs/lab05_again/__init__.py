"""Lab 5, Ask again tomorrow: a daily question, and a client that memoises its answers."""

from __future__ import annotations

from typing import Final

from shuffledp_labs.lab import Check, Lab, Prediction
from shuffledp_labs.lab05_again import checks
from shuffledp_labs.lab05_again.show import show

BUSY: Final = 120.0
"""Limit of a check, in seconds: for a machine that does much else. One that is idle needs a few of
them.
"""

LAB: Final = Lab(
    number=5,
    name="again",
    title="Ask again tomorrow",
    level=1,
    minutes=90,
    predictions=(
        Prediction(
            "right_after_one_day",
            "A user tells the truth with probability 3/4. How often is your best guess right "
            "after one day?",
            "number",
            most=1,
        ),
        Prediction("right_after_nine_days", "And after nine days?", "number", most=1),
        Prediction(
            "days_until_refused",
            "One day costs ε .77, the budget is ε 3. On which day does the ledger refuse?",
            "number",
            "day",
        ),
        Prediction(
            "remembering_helps",
            "The user always repeats its first answer. How often is your guess right after 100 "
            "days?",
            "choice",
            choices=("as after one day", "as after nine days", "nearly always"),
        ),
    ),
    checks=(
        Check(
            "B-guess",
            20,
            "Your guess is right as often as any guess can be, over all histories.",
            checks.check_guess,
        ),
        Check(
            "C-same",
            10,
            "The same question with the same value gets the same answer, true as often as stated.",
            checks.check_same,
            seconds=BUSY,
        ),
        Check(
            "C-fresh",
            8,
            "Answers to different questions are independent.",
            checks.check_fresh,
            seconds=BUSY,
        ),
        Check(
            "C-restart",
            6,
            "Answers survive a restart of the program.",
            checks.check_restart,
            needs=("C-same",),
            seconds=BUSY,
        ),
        Check(
            "C-change",
            6,
            "A changed value reveals no more than stated.",
            checks.check_change,
            seconds=BUSY,
        ),
        Check(
            "D-law",
            10,
            "Both layers of RAPPOR have exactly the required distributions.",
            checks.check_layers,
            seconds=BUSY,
        ),
        Check(
            "D-odds",
            5,
            "e^ε of one report and of the memoised response are exact.",
            checks.check_odds,
            seconds=BUSY,
        ),
        Check(
            "E-campaign",
            10,
            "With the real ledger, the question is asked on every day that the budget covers, and "
            "on no other.",
            checks.check_campaign,
            seconds=BUSY,
        ),
    ),
    explanations=(
        "A certificate says ε .77, and after 100 days every guess is right. Is the certificate "
        "wrong? Say what it promises, what your attack did, and what the ledger's ε of 100 days "
        "says about it.",
        "Your client answers each question once. An analyst who knows that wants the truth all "
        "the same. What does the analyst ask, why can your client not stop it, and who can?",
    ),
    show=show,
    folder="shuffledp_labs.lab05_again",
)
