"""Section 9.2: Theorem 9.4's amplification, and the noise of Cheu's sum (Theorem 9.6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from shuffledp_core.errors import UsageError
from shuffledp_experiments import drawing
from shuffledp_experiments.drawing import COLOURS, line
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
    judge,
)
from shuffledp_experiments.lecture.means import calibrated_bit
from shuffledp_privacy.bounds import Setting, epsilon_bounds
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.lecture import cheu_binary_sum

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Amplification by shuffling


def order_of_growth(epsilon0: float, users: int, delta: float) -> float:
    """Bound (9.3) with constant 1: √(e^ε0 ln(1/δ)/n) for ε0 > 1, else ε0 √(ln(1/δ)/n)."""
    scale = math.sqrt(-math.log(delta) / users)
    return scale * (math.exp(epsilon0 / 2) if epsilon0 > 1 else epsilon0)


def run_amplification(work: RunInputs) -> Results:
    """ε by ε0 for each n: closed form, order of growth, certified, attained."""
    delta = work["δ"]
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    shares: list[float] = []
    limits: dict[int, float] = {}
    for users in work["n"]:
        for epsilon0 in work["ε0"]:
            bounds = epsilon_bounds(LocalRandomiser(epsilon0), Setting(users, users), delta)
            order = order_of_growth(epsilon0, users, delta)
            shares.append(order / bounds.certified)
            for name, kind, value in (
                (
                    "Theorem 9.4, closed form",
                    Kind.PRINTED,
                    math.nan if bounds.published is None else bounds.published,
                ),
                ("(9.3) with constant 1", Kind.PRINTED, order),
                ("certified", Kind.CERTIFIED, bounds.certified),
                ("attained", Kind.ATTAINED, bounds.attained),
            ):
                rows.append(
                    Row(
                        f"{name}, n = {users}",
                        kind,
                        "ε0",
                        epsilon0,
                        "ε",
                        value,
                        settings={"n": users},
                    )
                )
            if epsilon0 in work["judged"] and bounds.published is not None:
                claims.append(
                    judge(f"Theorem 9.4 at n = {users}, ε0 = {epsilon0:g}", bounds.published,
                          certified=bounds.certified, attained=bounds.attained)
                )  # fmt: skip
        limits[users] = math.log(users / (16 * math.log(2 / delta)))
    claims.append(
        PaperClaim("(9.3) with constant 1", Verdict.NO_BOUND,
              f"from {min(shares):.2g} to {max(shares):.2g} of what is certified: an order of "
              "growth")
    )  # fmt: skip
    until = ", ".join(f"{limit:.3g} at n = {users:,}" for users, limit in limits.items())
    return Results(
        tuple(rows),
        tuple(claims),
        (f"Theorem 9.4 says nothing of ε0 above {until}; the certificate does",),
    )


def draw_amplification(result: Results) -> Figure:
    """Plot one panel for each n."""
    sizes = list(dict.fromkeys(int(str(row.settings["n"])) for row in result.rows))
    figure, axes = drawing.panels(
        1, len(sizes), width=2.9 * len(sizes) + 0.8, height=4.4, sharey=True
    )
    for panel, users in zip(axes[0], sizes, strict=True):
        line(
            panel,
            result,
            f"Theorem 9.4, closed form, n = {users}",
            label="printed: Theorem 9.4, closed form",
        )
        line(
            panel,
            result,
            f"(9.3) with constant 1, n = {users}",
            label="printed: (9.3) with constant 1",
            ls=":",
        )
        line(panel, result, f"certified, n = {users}", label="certified")
        line(panel, result, f"attained, n = {users}", label="attained")
        epsilon0, _ = result.series(f"certified, n = {users}")
        panel.plot(epsilon0, epsilon0, color=drawing.QUIET, lw=1, ls="--", label="no amplification")
        panel.set(xscale="log", yscale="log", xlabel="ε0 (nats)", title=f"n = {users:,}")
    axes[0, 0].set_ylabel("ε (nats) at δ = 1e-6")
    figure.suptitle("Amplification by shuffling: the closed form is true, and loose", fontsize=11)
    drawing.legend_below(figure, columns=5)
    return figure


# Cheu's sum


def run_cheu(work: RunInputs) -> Results:
    """For each target ε and n: the printed p, its true ε, and the p that is needed."""
    delta = work["δ"]
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    factors: list[float] = []
    for users in work["n"]:
        setting = Setting(users, users)
        for epsilon in work["ε"]:
            enough = float(calibrated_bit(epsilon, delta, users).randomise)
            printed = -math.log(delta) / (users * epsilon**2)
            settings = {"n": users}
            rows += [
                Row(
                    f"printed p, n = {users}",
                    Kind.PRINTED,
                    "ε",
                    epsilon,
                    "p",
                    printed,
                    settings=settings,
                ),
                Row(
                    f"p that is certified, n = {users}",
                    Kind.CERTIFIED,
                    "ε",
                    epsilon,
                    "p",
                    enough,
                    settings=settings,
                ),
            ]
            try:
                bounds = epsilon_bounds(cheu_binary_sum(users, epsilon, delta), setting, delta)
            except UsageError:
                claims.append(
                    PaperClaim(f"Theorem 9.6, n = {users}, ε = {epsilon:g}", Verdict.NOT_REPRODUCED,
                          f"its p would be {printed:.3g}, above 1; p = {enough:.3g} is enough")
                )  # fmt: skip
                certified = attained = math.nan
            else:
                certified, attained = bounds.certified, bounds.attained
                factors.append(enough / printed)
                claims.append(
                    judge(f"Theorem 9.6, n = {users}, ε = {epsilon:g}", epsilon,
                    certified=certified,
                          attained=attained, why={Verdict.FALSE:
                              f"needs {enough / printed:.3g} times its p",
                                                  Verdict.LOOSE:
                                                      f"{enough / printed:.3g} of its p is enough"})
                )  # fmt: skip
            rows += [
                Row(
                    f"ε meant, n = {users}",
                    Kind.PRINTED,
                    "ε",
                    epsilon,
                    "ε",
                    epsilon,
                    settings=settings,
                ),
                Row(
                    f"certified, n = {users}",
                    Kind.CERTIFIED,
                    "ε",
                    epsilon,
                    "ε",
                    certified,
                    settings=settings,
                ),
                Row(
                    f"attained, n = {users}",
                    Kind.ATTAINED,
                    "ε",
                    epsilon,
                    "ε",
                    attained,
                    settings=settings,
                ),
            ]
    users, epsilon = work["n"][-1], work["ε"][0]
    share = -math.log(delta) / (users * epsilon**2)
    bias = (users - 1) * share / 2 / (users * (1 - share))
    claims.append(
        PaperClaim(f"(9.5) at n = {users}, ε = {epsilon:g}",
              Verdict.FALSE if bias > 1 / (users * epsilon) else Verdict.SOUND,
              f"p/2 is to be taken from every report, not once: the estimate is {bias:.3g} too "
              "large (C9)")
    )  # fmt: skip
    notes = (
        f"the p that is needed is {min(factors):.3g} to {max(factors):.3g} times the printed one",
    )
    return Results(tuple(rows), tuple(claims), notes)


def draw_cheu(result: Results) -> Figure:
    """Plot one panel for each n: target, certified and attained ε."""
    sizes = list(dict.fromkeys(int(str(row.settings["n"])) for row in result.rows))
    figure, axes = drawing.panels(
        1, len(sizes), width=3.1 * len(sizes) + 0.8, height=4.4, sharey=True
    )
    for panel, users in zip(axes[0], sizes, strict=True):
        line(panel, result, f"ε meant, n = {users}", label="printed: ε that is meant")
        line(panel, result, f"certified, n = {users}", label="certified", lw=3.5, alpha=0.55)
        line(panel, result, f"attained, n = {users}", label="attained")
        twin = panel.twinx()
        printed, needed = (
            result.series(f"{name}, n = {users}") for name in ("printed p", "p that is certified")
        )
        twin.plot(printed[0], needed[1] / printed[1], color=COLOURS[Kind.EXACT], lw=1.2, ls="--",
                  label="p needed / p printed (right)")  # fmt: skip
        twin.set_ylim(0, 18)
        twin.spines["top"].set_visible(False)
        if users != sizes[-1]:
            twin.set_yticklabels([])
        else:
            twin.set_ylabel("p needed / p printed")
        panel.set(
            xscale="log", yscale="log", xlabel="ε that is meant (nats)", title=f"n = {users:,}"
        )
    axes[0, 0].set_ylabel("ε (nats) at δ = 1e-6")
    figure.suptitle(
        "Cheu's sum with p = ln(1/δ)/(nε²): the ε that is meant, and the ε that it costs",
        fontsize=11,
    )
    drawing.legend_below(figure, columns=4)
    return figure


ENTRIES: Final = (
    Experiment(
        id="003-e6", source="Wang, lecture 9, Theorem 9.4",
        question="How much does shuffling amplify, and how loose is the closed form?",
        parameters={"n": (1000, 10_000, 100_000, 1_000_000), "δ": 1e-6,
                    "ε0": (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
                    "judged": (0.1, 1.0, 4.0)},
        quick={"ε0": (0.1, 1.0, 4.0)}, inferred=("n", "δ", "ε0"),
        run=run_amplification, draw=draw_amplification, seconds=4, seconds_quick=1.8,
        verdicts=frozenset({Verdict.LOOSE, Verdict.NO_BOUND}),
    ),
    Experiment(
        id="003-e8", source="Wang, lecture 9, Theorem 9.6",
        question="Is Cheu's sum private with the printed p?",
        parameters={"n": (1000, 10_000, 100_000), "ε": (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0),
        "δ": 1e-6},
        quick={"ε": (0.1, 0.15, 1.0)}, inferred=("n", "ε", "δ"),
        run=run_cheu, draw=draw_cheu, seconds=6, seconds_quick=2.6,
        verdicts=frozenset({Verdict.FALSE, Verdict.LOOSE, Verdict.NOT_REPRODUCED}),
    ),
)  # fmt: skip
