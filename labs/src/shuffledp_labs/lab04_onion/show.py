"""The picture of lab 4: how far each set of corrupt nodes traces a round of 300 people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shuffledp.notebook import check_installed
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.onion.geometry import Geometry
from shuffledp_labs.lab04_onion import rounds

if TYPE_CHECKING:
    from shuffledp_labs.lab import ShowRun

PICTURE: Final = "onion.png"
USERS: Final = 300
HOPS: Final = 3
SPEC: Final = KRRHistogram(symbols=9, blanket=Fraction(1, 12))
"""ε_L = ln 100: the truth is 100 times as likely as any other answer."""

PRIOR: Final = tuple(Fraction(share, 100) for share in (20, 25, 18, 13, 9, 6, 4, 3, 2))
"""Visits to a doctor in a year, capped at 8: made up, with the shape that such counts have."""


@dataclass(frozen=True)
class TracingShares:
    """Success of one set of corrupt nodes, as shares from 0 to 1."""

    corrupt: tuple[int, ...]
    linked: float
    guessed: float


def show(showing: ShowRun) -> Path:
    """Play the round, attack it with every set of logs, and draw the shares."""
    showing.progress(f"a round of {USERS} people over {HOPS} nodes, in process, with real onions")
    all_shares = trace_every_set(showing)
    for shares in all_shares:
        showing.progress(
            f"logs of {_nodes(shares.corrupt)}: {shares.linked:.0%} linked, {shares.guessed:.0%} "
            "guessed"
        )
    file = showing.out / PICTURE
    draw(all_shares, float(max(PRIOR)), file)
    return file


def trace_every_set(showing: ShowRun) -> list[TracingShares]:
    """Success of the student's `link` and `guess` with the logs of every set of nodes."""
    from shuffledp_adversary.in_process import HONEST, plain_messages, play
    from shuffledp_core.sampling.randomisers import randomise
    from shuffledp_core.sampling.randomness import RandomIntegers

    draws = showing.draws
    values = [value for value, share in enumerate(PRIOR) for _ in range(int(share * USERS))]
    integers = RandomIntegers(draws.bytes)
    answers = [randomise(SPEC, value, integers) for value in values]
    geometry = Geometry.of(SPEC, "sealed-box", HOPS)
    played = play(
        geometry, plain_messages(geometry, SPEC, answers, draws.bytes), HONEST, draws.bytes
    )
    spec = rounds.krr(SPEC.symbols, SPEC.blanket)
    all_shares = []
    for size in range(1, HOPS + 1):
        for corrupt in combinations(range(1, HOPS + 1), size):
            seen = rounds.seen_by(played, corrupt)
            claims = list(showing.program.call("link", seen.logs, seen.board))
            answer_of: list[int | None] = [None] * USERS
            for message, claim in zip(seen.board, claims, strict=True):
                if 0 <= claim < USERS:
                    answer_of[claim] = message[0]
            guesses = showing.program.call("guess", answer_of, list(PRIOR), spec)
            right = sum(guess == value for guess, value in zip(guesses, values, strict=True))
            linked = sum(claim == owner for claim, owner in zip(claims, seen.truth, strict=True))
            all_shares.append(TracingShares(corrupt, linked / USERS, right / USERS))
    return all_shares


def _nodes(corrupt: Sequence[int]) -> str:
    return f"node{'s' if len(corrupt) > 1 else ''} {', '.join(map(str, corrupt))}"


def draw(all_shares: Sequence[TracingShares], without: float, file: Path) -> None:
    """Draw both shares for every set of corrupt nodes, and the success of guessing blindly."""
    check_installed("matplotlib", "shuffledp[plot]", "the picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 4.8), dpi=140, layout="constrained")
    axes = figure.subplots()
    columns = range(len(all_shares))
    for shift, colour, label, shares in (
        (-0.2, "#2a6f97", "messages linked to their sender", [item.linked for item in all_shares]),
        (0.2, "#e07a1f", "values guessed", [item.guessed for item in all_shares]),
    ):
        bars = axes.bar(
            [column + shift for column in columns],
            shares,
            width=0.38,
            color=colour,
            label=label,
            zorder=3,
        )
        axes.bar_label(bars, [f"{share:.0%}" for share in shares], fontsize=8, padding=2)
    axes.axhline(
        without, color="#8a8f98", ls=":", label=f"guessed without any message: {without:.0%}"
    )
    axes.set_xticks(list(columns), [_nodes(item.corrupt) for item in all_shares])
    axes.set_ylim(0, 1.12)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("corrupt nodes, of three")
    axes.set_title(
        f"{USERS} people, k-RR: the last honest node keeps everybody", fontsize=12, loc="left"
    )
    axes.grid(visible=True, axis="y", color="#8a8f98", alpha=0.18, lw=0.7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    figure.savefig(file)
