"""Lab 3, Be the node: peel and mix, and join a real mixnet as its second node."""

from __future__ import annotations

from functools import partial

from shuffledp_labs.lab import Check, Lab, LazyFunction, Prediction

_of = partial(LazyFunction, __name__)

LAB = Lab(
    number=3,
    name="node",
    title="Be the node",
    level=2,
    minutes=120,
    predictions=(
        Prediction(
            "layer_bytes",
            "A message has 17 bytes: a bit in one byte, a tag in 16. How many has the onion that "
            "reaches node 2 of 3?",
            "number",
            "bytes",
        ),
        Prediction(
            "traced",
            "Nodes 1 and 3 are corrupt and write down all they see; yours mixes. How many of 24 "
            "messages are traced?",
            "number",
            "of 24",
            most=24,
        ),
        Prediction(
            "by_place",
            "They guess by place, as if you had kept the order. How many of 24 senders do they "
            "get right, on average?",
            "number",
            "of 24",
            most=24,
        ),
        Prediction(
            "copied",
            "Node 1 sends one onion three times, and your node does not look for copies. Who "
            "first drops some?",
            "choice",
            choices=(
                "nobody: the copies reach the board",
                "node 3",
                "the analyst",
                "the users' own devices",
            ),
        ),
    ),
    checks=(
        Check("B-opens", 7, "peel opens every genuine box.", _of("checks.opens")),
        Check(
            "B-refuses",
            8,
            "peel refuses every box with one bit flipped, truncated, or sealed to another key.",
            _of("checks.refuses"),
        ),
        Check(
            "C-hidden",
            14,
            "The distribution of the output does not depend on which onion held which message.",
            _of("checks.hides_order"),
            chance=5e-10,
        ),
        Check(
            "C-repeated",
            8,
            "Of an onion that arrives several times, one copy is passed on.",
            _of("checks.handles_repeats"),
        ),
        Check(
            "C-damaged",
            8,
            "Onions that fail to decrypt are left out, and all others are passed on.",
            _of("checks.handles_damage"),
        ),
        Check(
            "D-joins",
            15,
            "Your node joins a real mixnet, and nodes 1 and 3 cannot see through it.",
            _of("joining.joins"),
            needs=("B-opens",),
            system=True,
            chance=1e-9,
            seconds=180.0,
        ),
        Check(
            "E-malicious",
            15,
            "Node 1 copies, marks and replays onions, and your node is the one that drops them.",
            _of("joining.withstands"),
            needs=("B-opens", "D-joins"),
            system=True,
            seconds=180.0,
        ),
    ),
    explanations=(
        "Your node could have sorted its messages instead of shuffling them. Why is that as good "
        "here, what must an onion have for it to be so, and when would it fail?",
        "Every layer is authenticated. Why does a node still have to look for copies, and why "
        "does it drop them instead of refusing the batch? Use the numbers of your own rounds.",
    ),
    show=_of("show.show"),
    folder=__name__,
)
