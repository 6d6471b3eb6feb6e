"""Lab 6, Surrounded: one user among colluding or invented ones, and missing shared noise."""

from __future__ import annotations

from typing import Final

from shuffledp_labs.lab import Lab, LazyFunction, Prediction
from shuffledp_labs.lab06_surrounded.checks import CHECKS

LAB: Final = Lab(
    number=6,
    name="surrounded",
    title="Surrounded",
    level=2,
    minutes=110,
    predictions=(
        Prediction(
            "alone",
            "1,000 users (k-RR, 10 symbols, δ = 1e-6) are certified ε = .30. What is left of it "
            "for a user when the other 999 collude?",
            "number",
            "nats",
        ),
        Prediction(
            "two_left",
            "Three values of frequency .5, .3, .2; a message is true with probability .8. Two "
            "honest users are left of 20, one of them your victim. How often is the best guess at "
            "its value right?",
            "number",
            most=1,
        ),
        Prediction(
            "half_stays",
            "40 users share one noise that gives ε = .25 to all of them together. Half of them "
            "stay away. What is ε now?",
            "choice",
            choices=("still .25", "about .35", "about .5", "about .8"),
        ),
        Prediction(
            "checked",
            "Node 1 is corrupt, and anyone can check the mixing. With what can it still "
            "surround a user?",
            "choice",
            choices=("reports that it makes up", "enrolled accounts", "both", "neither"),
        ),
    ),
    checks=CHECKS,
    explanations=(
        "The adversary's accounts sent what they liked, and it did not matter what. Why, and what "
        "of the honest users' messages is the victim's privacy made of?",
        "Your plan counts on fewer users than are hoped for, and a verified round on those who "
        "are enrolled. What does the plan cost in your own numbers, what came of your three "
        "rounds of step F, and what does neither promise?",
    ),
    show=LazyFunction(__name__, "show.show"),
    folder=__name__,
)
