"""Lab 1, "Lie well": an exact randomiser, an unbiased estimate, and what one answer reveals."""

from __future__ import annotations

from functools import partial

from shuffledp_labs.lab import Check, Lab, LazyFunction, Prediction

_of = partial(LazyFunction, __name__)

LAB = Lab(
    number=1,
    name="lie-well",
    title="Lie well",
    level=1,
    minutes=100,
    predictions=(
        Prediction(
            "error",
            "300 people answer by k-ary randomised response (4 symbols, ε0 = 1, a blanket of "
            "about .70); 75 of them hold symbol 0. By how many people is the estimate of those 75 "
            "off, typically (one standard deviation)?",
            "number",
            "people",
        ),
        Prediction(
            "ten_times",
            "3,000 people, 750 of them with symbol 0: what happens to the error in people?",
            "choice",
            choices=("stays", "grows by about 3", "grows by 10"),
        ),
        Prediction(
            "hit",
            "The same mechanism, every symbol equally likely beforehand: how many of 100 people "
            "does the best guess from their answer name rightly?",
            "number",
            "people",
            most=100,
        ),
    ),
    checks=(
        Check(
            "B-law",
            20,
            "randomise has exactly the required distribution, for five specs and every value",
            _of("checks.law_is_exact"),
        ),
        Check(
            "B-refuses",
            5,
            "randomise refuses values outside of the domain, with a ValueError",
            _of("checks.others_are_refused"),
            ("B-law",),
        ),
        Check(
            "C-unbiased",
            15,
            "estimate is exactly unbiased, whatever values people hold",
            _of("checks.estimate_is_unbiased"),
        ),
        Check(
            "C-interval",
            10,
            "interval covers the true value with probability at least .95, and is not too wide",
            _of("checks.interval_covers"),
        ),
        Check(
            "D-guess",
            10,
            "guess names the likeliest value for every answer",
            _of("checks.guess_is_bayes"),
        ),
        Check(
            "E-round",
            15,
            "forty people run your randomise in a real round, and your estimate is the published "
            "one",
            _of("checks.round_is_published"),
            ("B-law", "C-unbiased"),
            system=True,
            chance=1e-9,
            seconds=240.0,
        ),
    ),
    explanations=(
        "The lecture's estimate (its equation 9.5) subtracts p/2 where n p/2 belongs. What does "
        "it say, on average, for n = 1,000, p = .3 and 400 ones; how did you see that it cannot "
        "be right; and which check of this lab would have caught it?",
        "The lecture says that 75 yeses in 100 answers have probability 1.39e-24 when the truth "
        "is no. What is 1.39e-24 really, what is the probability, and which of the two does the "
        "guarantee of privacy bound?",
    ),
    show=_of("show.show"),
    folder=__name__,
)
