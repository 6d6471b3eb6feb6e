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
            15,
            "The answer changes, and neither a node nor the analyst can notice.",
            _of("checks.check_unnoticed"),
        ),
        Check(
            "C-complaints",
            12,
            "Every missing, changed or duplicated message is reported.",
            _of("checks.check_complaints"),
        ),
        Check(
            "C-fair",
            8,
            "No user complains without a reason.",
            _of("checks.check_fair"),
            needs=("C-complaints",),
        ),
        Check("D-convict", 10, "The evidence convinces a stranger.", _of("checks.check_convict")),
        Check(
            "D-innocent",
            8,
            "No evidence is given that a stranger would reject.",
            _of("checks.check_innocent"),
            needs=("D-convict",),
        ),
        Check(
            "E-verdict",
            16,
            "In a verified round the node at fault is named, and no other.",
            _of("checks.check_verdict"),
        ),
        Check(
            "E-rounds",
            6,
            "Your tampering is published in a plain round, and stopped in a verified one.",
            _of("system.check_rounds"),
            needs=("B-unnoticed",),
            system=True,
            seconds=240.0,
        ),
    ),
    explanations=(
        "Every count, length, layer and signature was right, and the answer was wrong. Why can no "
        "node and no analyst notice what your `tamper` does, and why could no extra information "
        "let them notice it?",
        "The same exchange went unnoticed by the nodes of a plain round, and a verified round "
        "named the node. Why can it? What did this cost in your own run, and what does it not "
        "promise?",
    ),
    show=_of("show.show"),
    folder=__name__,
)
