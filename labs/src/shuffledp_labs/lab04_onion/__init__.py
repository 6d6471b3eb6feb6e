"""Lab 4, Follow the onion: join the logs of corrupt nodes, and guess values."""

from __future__ import annotations

from functools import partial

from shuffledp_labs.lab import Check, Lab, LazyFunction, Prediction

_of = partial(LazyFunction, __name__)

LAB = Lab(
    number=4,
    name="onion",
    title="Follow the onion",
    level=2,
    minutes=100,
    predictions=(
        Prediction(
            "two_of_three",
            "Nodes 1 and 2 of three are corrupt. What share of the messages do they link?",
            "number",
            "%",
            most=100,
        ),
        Prediction(
            "all_three",
            "All three are corrupt. What share of the messages do they link?",
            "number",
            "%",
            most=100,
        ),
        Prediction(
            "guessed",
            "They have linked all messages to their senders. Each person told the truth with "
            "probability 25/27, and the most frequent value is held by 25%. What share of the "
            "values do they guess?",
            "number",
            "%",
            most=100,
        ),
        Prediction(
            "worst_node",
            "One of the three nodes may be honest. Which one should it be, so that the most "
            "people are safe?",
            "choice",
            choices=(
                "node 1, which knows the senders",
                "node 2",
                "node 3, which sees the messages",
                "any of them",
            ),
        ),
    ),
    checks=(
        Check("B-all", 14, "With every log, every sender is named.", _of("checks.all_logs")),
        Check(
            "B-missing",
            10,
            "If one log is missing, no one is accused.",
            _of("checks.missing_logs"),
        ),
        Check(
            "B-dropped",
            8,
            "Lost messages cause no wrong claims.",
            _of("checks.lossy_rounds"),
        ),
        Check(
            "C-slept",
            12,
            "The node that kept its order is named, and no other.",
            _of("checks.sleeper_is_named"),
            chance=1e-9,
        ),
        Check(
            "D-histogram",
            8,
            "The guess from an answer of k-RR is the likeliest value.",
            _of("checks.histogram_guess"),
        ),
        Check(
            "D-sum",
            12,
            "The guess from an answer of RR-Shuffle is the likeliest value.",
            _of("checks.sum_guess"),
        ),
        Check(
            "E-round",
            11,
            "Your link works on the logs of a real round.",
            _of("capturing.real_round"),
            needs=("B-all", "B-missing"),
            system=True,
            seconds=180.0,
        ),
    ),
    explanations=(
        "Two corrupt nodes of three are worth as much as none. Say why, with the joins of your "
        "own rounds, and what would have to happen for the two to be worth something.",
        "With every node corrupt each person keeps ε_L. What did that mean for your guesses, in "
        "your own numbers, and what would you change in the round to keep more?",
    ),
    show=_of("show.show"),
    folder=__name__,
)
