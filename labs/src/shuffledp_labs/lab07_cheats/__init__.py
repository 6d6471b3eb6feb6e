"""Lab 7, The node that cheats: tampering, who notices it, evidence, and verified rounds."""

from __future__ import annotations

from functools import partial
from typing import Final

from shuffledp_labs.lab import Check, Lab, LazyFunction, Prediction

_of = partial(LazyFunction, __name__)

LAB: Final = Lab(
    number=7,
    name="cheats",
    title="The node that cheats",
    level=3,
    minutes=120,
    predictions=(
        Prediction(
            "who_notices",
            "A node exchanges five onions for its own. Who can notice?",
            "choice",
            choices=("the next node", "the analyst", "users who look for their tags", "nobody"),
        ),
        Prediction(
            "copied",
            "The entry node sends an onion of the victim three times, and nobody looks for "
            "repeats. In how many of 100 rounds does it find the victim's message on the board?",
            "number",
            "rounds",
            most=100,
        ),
        Prediction(
            "a_receipt_proves",
            "A user holds a receipt, and its message is not on the board. What does the receipt "
            "prove to a stranger?",
            "choice",
            choices=(
                "that the message was in the envelope",
                "that an envelope was accepted",
                "who took the message away",
            ),
        ),
        Prediction(
            "alone",
            "1,000 users (k-RR, 10 symbols, δ = 1e-6) are certified for ε = .30. The entry node "
            "turns 999 away and makes their reports up. What ε is left for the one who is in?",
            "number",
            "nats",
        ),
        Prediction(
            "checked",
            "The exchange of question 1, in a round whose mixing everybody can check. What comes "
            "of it?",
            "choice",
            choices=(
                "an answer, and users notice",
                "an answer without what was exchanged",
                "no answer, and the node is named",
                "no answer, and nobody is named",
            ),
        ),
    ),
    checks=(
        Check(
            "B-unnoticed",
            10,
            "The answer is another, and no node and no analyst can notice.",
            _of("checks.check_unnoticed"),
        ),
        Check(
            "B-round",
            5,
            "In a running system your node tampers, and the round is published.",
            _of("system.check_round"),
            needs=("B-unnoticed",),
            system=True,
            seconds=180.0,
        ),
        Check(
            "C-complaints",
            12,
            "Every message that is missing, changed or doubled.",
            _of("checks.check_complaints"),
        ),
        Check(
            "C-fair",
            8,
            "Nobody complains without a reason.",
            _of("checks.check_fair"),
            needs=("C-complaints",),
        ),
        Check("D-convict", 8, "Evidence that convinces a stranger.", _of("checks.check_convict")),
        Check(
            "D-innocent",
            7,
            "No evidence that a stranger would throw out.",
            _of("checks.check_innocent"),
            needs=("D-convict",),
        ),
        Check(
            "E-crowd",
            5,
            "The victim alone, and nobody who could notice.",
            _of("checks.check_crowd"),
        ),
        Check(
            "E-price",
            5,
            "The most colluding reports that a plan can allow for.",
            _of("checks.check_price"),
        ),
        Check(
            "F-verdict",
            10,
            "Whoever is at fault in a verified round is named, and nobody else.",
            _of("checks.check_verdict"),
        ),
        Check(
            "F-rounds",
            5,
            "The same attack in a plain and in a verified round.",
            _of("system.check_again"),
            needs=("B-unnoticed",),
            system=True,
            seconds=240.0,
        ),
    ),
    explanations=(
        "Every count, length, layer and signature was right, and the answer was wrong. Why can no "
        "node and no analyst notice what your `tamper` does, and why could they not be told "
        "enough to notice it?",
        "Against `crowd` a plain round has no evidence, and a verified one names the node. Why "
        "can it? What did that cost in your own run, what does it not promise, and what are "
        "`colluding` and the local guarantee still for?",
    ),
    show=_of("show.show"),
    folder=__name__,
)
