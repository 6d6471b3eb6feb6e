"""Lab 11, Always there: what lists of participants show over many rounds, and cover messages."""

from __future__ import annotations

from typing import Final

from shuffledp_labs.lab import Check, Lab, Prediction
from shuffledp_labs.lab11_always import checks
from shuffledp_labs.lab11_always.show import show

LAB: Final = Lab(
    number=11,
    name="always",
    title="Always there",
    level=2,
    minutes=100,
    predictions=(
        Prediction(
            "rounds_until_alone",
            "1,000 users take part in each round with probability 1/2, independently. After how "
            "many rounds do fewer than one of the others, on average, share your victim's pattern?",
            "number",
            "rounds",
        ),
        Prediction(
            "rounds_until_guessed",
            "A yes/no question. About four others take part, their law is one of five that you "
            "know, and your victim is there in every second round. It lies with probability 1/10. "
            "Of 1, 3, 6, 12, 24 and 48 rounds in total, after how many is your guess first right "
            "nine times in ten?",
            "number",
            "rounds",
        ),
        Prediction(
            "with_cover",
            "Now every device sends in every round, whether its user has an answer or not. How "
            "often is your guess right after 48 rounds?",
            "choice",
            choices=("about half of the time", "three times in four", "nearly always"),
        ),
        Prediction(
            "variance",
            "50 users hold each of two values and answer by k-RR: the own symbol is 4 times as "
            "likely as each other one, ε_L = ln 4. Now 100 users without an answer send cover "
            "messages, too, with 'nothing' as a third symbol. How many times as large is the "
            "variance of the estimate of one count, at the same ε_L?",
            "number",
        ),
    ),
    checks=(
        Check(
            "B-certain",
            15,
            "Every user whom the rounds prove to be a sender is named.",
            checks.check_certain,
        ),
        Check(
            "B-innocent",
            10,
            "No user is named whom the rounds do not prove to be a sender.",
            checks.check_innocent,
        ),
        Check(
            "C-guess",
            20,
            "The guess is the most probable value, on every history.",
            checks.check_guess,
            seconds=120.0,
        ),
        Check(
            "D-law",
            12,
            "A device answers with exactly the stated distribution, with a value and without one.",
            checks.check_law,
        ),
        Check(
            "D-unbiased",
            8,
            "The estimate is exactly unbiased.",
            checks.check_unbiased,
        ),
        Check(
            "E-price",
            10,
            "The cost of cover in messages and in variance is exact.",
            checks.check_price,
        ),
    ),
    explanations=(
        "No message of your victim was ever linked, and every round was certified. How did you "
        "learn its value all the same, what did the rounds without it contribute, and why does no "
        "certificate of a single round promise anything against it?",
        "What does sending in every round hide, and what did it cost in your own numbers? Name "
        "two things about a user that lists and boards of many rounds still show.",
    ),
    show=show,
    folder="shuffledp_labs.lab11_always",
)
