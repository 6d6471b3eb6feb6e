"""Lab 1, "Lie well": an exact randomiser, an unbiased estimate, and what one answer gives away."""

from __future__ import annotations

from pathlib import Path

from shuffledp_labs.lab import Attempt, Check, Lab, Prediction, Showing


def _check(name: str, points: int, title: str, *needs: str, system: bool = False, seconds: float = 60.0) -> Check:
    def run(attempt: Attempt) -> str:
        from shuffledp_labs.lab01_lie_well import checks

        return checks.RUNS[name](attempt)

    return Check(name, points, title, run, needs, system, 1e-9 if system else 0.0, seconds)


def _show(showing: Showing) -> Path:
    from shuffledp_labs.lab01_lie_well.show import show

    return show(showing)


LAB = Lab(
    number=1,
    name="lie-well",
    title="Lie well",
    level=1,
    minutes=100,
    predictions=(
        Prediction(
            "error",
            "300 people answer by k-ary randomised response (4 symbols, ε0 = 1, a blanket of about .70); 75 of "
            "them hold symbol 0. By how many people is the estimate of those 75 off, typically (one standard "
            "deviation)?",
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
            "The same mechanism, every symbol equally likely beforehand: how many of 100 people does the best guess "
            "from their answer name rightly?",
            "number",
            "people",
            most=100,
        ),
    ),
    checks=(
        _check("B-law", 20, "randomise has exactly the law that is asked, for five specs and every value"),
        _check("B-refuses", 5, "randomise refuses values outside of the domain, with a ValueError", "B-law"),
        _check("C-unbiased", 15, "estimate is right on average, exactly, whatever people hold"),
        _check("C-interval", 10, "interval covers the truth with probability .95 at least, and is not too wide"),
        _check("D-guess", 10, "guess names the likeliest value for every answer"),
        _check(
            "E-round",
            15,
            "forty people run your randomise in a real round, and your estimate is the published one",
            "B-law",
            "C-unbiased",
            system=True,
            seconds=240.0,
        ),
    ),
    explanations=(
        "The lecture's estimate (its equation 9.5) subtracts p/2 where n p/2 belongs. What does it say, on average, "
        "for n = 1,000, p = .3 and 400 ones; how did you see that it cannot be right; and which check of this lab "
        "would have caught it?",
        "The lecture says that 75 yeses in 100 answers have probability 1.39e-24 when the truth is no. What is "
        "1.39e-24 really, what is the probability, and which of the two does the guarantee of privacy bound?",
    ),
    show=_show,
    folder=__name__,
)
