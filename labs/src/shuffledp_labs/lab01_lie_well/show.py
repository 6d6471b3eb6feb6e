"""The picture of lab 1: the student's law beside the expected one, and resulting estimates."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from shuffledp.notebook import check_installed
from shuffledp_labs.errors import StudentFault
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab01_lie_well.specs import Spec, law

SPEC: Final[Spec] = {"mechanism": "krr", "symbols": 4, "blanket": Fraction(7, 10), "asked": 0}
"""Nearly e^ε = e: the blanket would be 4/(e + 3) = .6995."""

PEOPLE: Final = 300
HOLDERS: Final = 75
ROUNDS: Final = 200
WANTED, YOURS = "#8a8f98", "#e07a1f"


def show(showing: ShowRun) -> Path:
    """Enumerate the student's randomiser, play some rounds with it, and draw both."""
    showing.progress("every branch of your randomise")
    yours = [showing.program.law("randomise", SPEC, value).of for value in range(SPEC["symbols"])]
    estimates = _estimates(showing)
    check_installed("matplotlib", "shuffledp[plot]", "the picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 4.2), dpi=140, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _laws(left, yours)
    _rounds(right, estimates)
    for axes in (left, right):
        axes.grid(visible=True, axis="y", color=WANTED, alpha=0.18, lw=0.7)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    file = showing.out / "lie-well.png"
    figure.savefig(file)
    return file


def _laws(axes: Any, yours: list[dict[Any, Any]]) -> None:
    """Draw a group of bars for each value: the expected and the student's law."""
    size = SPEC["symbols"]
    for value in range(size):
        for answer in range(size):
            at = value * (size + 1) + answer
            axes.bar(at, float(law(SPEC, value)[answer]), width=0.9, color=WANTED, alpha=0.45)
            axes.plot(at, float(yours[value].get(answer, 0)), "o", ms=6, color=YOURS)
    axes.bar(0, 0, color=WANTED, alpha=0.45, label="asked for")
    axes.plot([], [], "o", color=YOURS, label="your randomise")
    axes.set_xticks([value * (size + 1) + (size - 1) / 2 for value in range(size)])
    axes.set_xticklabels([f"holds {value}" for value in range(size)])
    axes.set(ylabel="probability of the answers 0 to 3")
    axes.set_title("What people answer", fontsize=11, loc="left")
    axes.set_ylim(0, 0.56)
    axes.legend(frameon=False, fontsize=9, loc="upper right", ncols=2)


def _estimates(showing: ShowRun) -> list[float]:
    """The student's estimates in repeated rounds; empty before `estimate` is written."""
    showing.progress(f"{ROUNDS} rounds of {PEOPLE} people")
    laws = [law(SPEC, 0), law(SPEC, 1)]
    estimates = []
    for _ in range(ROUNDS):
        given = [_answer(showing, laws[person >= HOLDERS]) for person in range(PEOPLE)]
        try:
            estimates.append(float(showing.program.call("estimate", SPEC, given)))
        except StudentFault as fault:
            showing.progress(f"no estimates in the picture: {fault}")
            return []
    return estimates


def _answer(showing: ShowRun, of: dict[int, Fraction]) -> int:
    symbol = showing.draws.below(SPEC["symbols"]) if showing.draws.flip(SPEC["blanket"]) else -1
    return symbol if symbol >= 0 else max(of, key=lambda answer: of[answer])


def _rounds(axes: Any, estimates: list[float]) -> None:
    for middle, times in sorted(
        Counter(math.floor(estimate / 10) * 10 + 5 for estimate in estimates).items()
    ):
        axes.bar(middle, times, width=9, color=YOURS, alpha=0.8)
    axes.axvline(HOLDERS, color="black", lw=1)
    axes.set(
        xlabel=f"your estimate of the {HOLDERS} of {PEOPLE} people", ylabel=f"of {ROUNDS} rounds"
    )
    axes.set_title("What the analyst reads", fontsize=11, loc="left")
