"""The picture of lab 8: printed, exact and certified δ(ε); and real samplers.

The witness against the printed theorem is played with the client's own sampler, so that theory
meets what runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from shuffledp_labs.errors import NotWritten
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab08_theorem import statements
from shuffledp_labs.lab08_theorem.checks import check_witness
from shuffledp_labs.lab08_theorem.exact import Cell

USERS, SYMBOLS, LOCAL = 6, 3, 2.0
"""The round of the picture: n, k and ε0."""

SMALL: Cell = (4, 3, Fraction(math.e) / (Fraction(math.e) + 2), Fraction(math.exp(0.2)))
"""The cell of step A: four users, three symbols, ε0 = 1, ε = .2."""

TRIALS = 20_000
"""Rounds on each dataset that the client's sampler plays for a witness."""


def cell_at(epsilon: float) -> Cell:
    """The cell of the picture at this ε; e^ε and e^ε0 are the exact values of the floats."""
    odds = Fraction(math.exp(LOCAL))
    return USERS, SYMBOLS, odds / (odds + SYMBOLS - 1), Fraction(math.exp(epsilon))


@dataclass(frozen=True)
class Ladder:
    """δ of one cell under each bound, from the printed theorem to the certificate."""

    printed: float
    repaired: float
    exact: float
    certified: float


def ladder(epsilon: float, worst: Callable[..., Any]) -> Ladder:
    """All bounds at one ε of the picture's round; `worst` is the student's function."""
    from shuffledp_core.mechanisms import KRRHistogram
    from shuffledp_privacy.histogram.published import weak_adversary_delta

    cell = cell_at(epsilon)
    noise = (SYMBOLS * (1 - cell[2]) / (SYMBOLS - 1)).limit_denominator(2**60)
    return Ladder(
        float(statements.printed_theorem(*cell)),
        float(statements.repaired_theorem(*cell)),
        float(worst(*cell)[0]),
        weak_adversary_delta(KRRHistogram(symbols=SYMBOLS, blanket=noise), USERS, epsilon),
    )


def draw(worst: Callable[..., Any], file: Path) -> None:
    """Draw δ over ε: printed, exact and certified."""
    from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve, draw_chart

    epsilons = [0.1 * step for step in range(1, 20)]
    rungs = [ladder(epsilon, worst) for epsilon in epsilons]
    curves = (
        PlottedCurve(
            "certified: the privacy blanket",
            CurveRole.CERTIFIED,
            epsilons,
            [rung.certified for rung in rungs],
        ),
        PlottedCurve(
            "exact, by `worst`", CurveRole.MEASURED, epsilons, [rung.exact for rung in rungs]
        ),
        PlottedCurve(
            "algebra repaired: one bin only",
            CurveRole.SAFE,
            epsilons,
            [rung.repaired for rung in rungs],
        ),
        PlottedCurve(
            "Theorem 1 as printed", CurveRole.LIMIT, epsilons, [rung.printed for rung in rungs]
        ),
    )
    title = f"k-RR, n = {USERS}, k = {SYMBOLS}, ε0 = {LOCAL:g}: what is printed, and what is true"
    draw_chart(Chart(title, "ε (nats)", "δ", curves, log=False), file)


def play(witness: tuple[Any, ...], trials: int = TRIALS) -> tuple[float, float]:
    """Frequencies of the witness's event on both datasets, with the client's own sampler."""
    from shuffledp_adversary.audit.sampling import shuffled_counts
    from shuffledp_core.mechanisms import KRRHistogram
    from shuffledp_sim.users.sealing import sealing_pool

    (_, symbols, p, _), first, second, event = witness
    noise = (symbols * (1 - p) / (symbols - 1)).limit_denominator(2**60)
    event_counts = {tuple(counts) for counts in event}
    with sealing_pool() as pool:
        played = shuffled_counts(
            KRRHistogram(symbols=symbols, blanket=noise), (first, second), trials, pool
        )
    in_first, in_second = (
        sum(tuple(counts) in event_counts for counts in board.tolist()) / trials for board in played
    )
    return in_first, in_second


def describe_play(witness: tuple[Any, ...], in_first: float, in_second: float) -> str:
    """Describe the result with real samplers, and the bound that the theorem promises."""
    promised = float(statements.printed_theorem(*witness[0]))
    growth = float(witness[0][3])
    one_bin = float(statements.best_bin(*witness[0]))
    return (
        f"The clients' own sampler, {TRIALS:,} rounds on each dataset: your event happened in "
        f"{in_first:.4f} and {in_second:.4f} of them, so that delta is about {in_first:.4f} - "
        f"{growth:.4f} * {in_second:.4f} = {in_first - growth * in_second:.4f} (e^epsilon is "
        f"{growth:.4f}); Theorem 1 prints {promised:.4f}, and the best single bin has "
        f"{one_bin:.4f}."
    )


def show(showing: ShowRun) -> Path:
    """Draw the student's picture, and play their witness against the printed theorem."""
    program, picture = showing.program, showing.out / "delta.png"
    _play_witness(showing)
    showing.progress("your `worst` at 19 values of epsilon")
    draw(lambda *cell: program.call("worst", *cell, seconds=60.0), picture)
    return picture


def _play_witness(showing: ShowRun) -> None:
    program = showing.program
    try:
        witness = program.call("refute", statements.printed_theorem, (SMALL,), seconds=60.0)
    except NotWritten:
        showing.progress("refute is not written yet: nothing to play (step D)")
        return
    if witness is None:
        showing.progress(
            "refute found no witness against the printed theorem in the cell of step A"
        )
        return
    check_witness(statements.printed_theorem, (SMALL,), witness, "the printed theorem")
    showing.progress("the clients' own sampler plays your witness")
    showing.progress(describe_play(witness, *play(witness)))
