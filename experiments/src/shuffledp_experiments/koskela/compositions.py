"""Figures 1 to 3: several rounds of any local randomiser and of k-RR.

They are compared with certified and attained values.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final, TypedDict

import numpy as np

from shuffledp_core.mechanisms import KRRHistogram
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
from shuffledp_experiments.koskela.pairs import LossGrid, clones, third_symbol
from shuffledp_privacy.bounds import Setting, certified_curve
from shuffledp_privacy.histogram.blanket import law_of, tail_of
from shuffledp_privacy.histogram.published import balle_2019
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.rdp import published_rdp_epsilon
from shuffledp_privacy.primitives.trinomial import trinomial_table
from shuffledp_privacy.rounds.composition import Round, compose_epsilon, curve_of
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from shuffledp_privacy.rounds.subsampling import Curve

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

RESOLVED: Final = 1e-9
"""δ at which the certified composition of figure 1 is still tight."""


LEAST_DRAWN: Final = 1e-12
"""Least δ that figure 1 shows."""


class Sides(TypedDict):
    """Certified and attained values."""

    certified: float
    attained: float


# Figure 1

RELEASED_DELTA: Final = {1: 0.0092095, 2: 0.0217747, 3: 0.0328826, 4: 0.0427902}
"""δ(0.1) by rounds, copied from the figure of the authors' later release."""


def run_general(work: RunInputs) -> Results:
    """δ by ε for a few rounds of any ε0-LDP randomiser, certified and attained."""
    epsilon0, users, largest, grid = work["ε0"], work["n"], work["rounds"], work["grid"]
    low, high = work["ε"]
    epsilons = np.linspace(low, high, work["points"])
    curve, _ = curve_of(Round(LocalRandomiser(epsilon0), Setting(users, users)))
    general = LossGrid.of(clones(epsilon0, users, math.exp(-epsilon0) / 2), grid, nearest=True)
    binary = LossGrid.of(clones(epsilon0, users, 1 / (1 + math.exp(epsilon0))), grid, nearest=True)
    other = 1 / (2 + math.exp(epsilon0))
    dataset = LossGrid.of(third_symbol(3, 1 - 2 * other, other, users), grid)
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    for times in range(1, largest + 1):
        composed = compose_curves([Repeated(curve, times)], RESOLVED)
        printed = general.compose(times, grid)
        released = binary.compose(times, grid)
        attained = dataset.compose(times, grid)
        for epsilon in epsilons.tolist():
            values = {
                "Theorem 3.2, the clones": (Kind.PRINTED, printed.delta(epsilon)),
                "as released, the pair of 2-RR": (Kind.PRINTED, released.delta(epsilon)),
                "certified": (Kind.CERTIFIED, composed.delta(epsilon)),
                "attained by 3-RR": (Kind.ATTAINED, attained.delta(epsilon)),
            }
            rows += [
                Row(
                    _rounds(name, times), kind, "ε", epsilon, "δ", value, settings={"rounds": times}
                )
                for name, (kind, value) in values.items()
            ]
        first = float(epsilons[0])
        sides = Sides(certified=composed.delta(first), attained=attained.delta(first))
        claims.append(
            judge(
                f"figure 1 by {_rounds('Theorem 3.2', times)}, δ({first:g})",
                printed.delta(first),
                **sides,
            )
        )
        copied = RELEASED_DELTA[times]
        rows.append(
            Row(
                "as released, its digits",
                Kind.PUBLISHED,
                "ε",
                first,
                "δ",
                copied,
                settings={"rounds": times},
            )
        )
        why = (
            f"the pair of 2-RR gives {released.delta(first):.5g}, and covers every randomiser (K10)"
        )
        claims.append(
            judge(
                f"figure 1 {_rounds('as released', times)}, δ({first:g})", copied, **sides, why=why
            )
        )
    return Results(tuple(rows), tuple(claims))


def _rounds(name: str, times: int) -> str:
    return f"{name}, {times} round{'s' if times > 1 else ''}"


def draw_general(result: Results) -> Figure:
    """Plot one panel for each number of rounds."""
    largest = max(int(str(row.settings["rounds"])) for row in result.rows)
    figure, axes = drawing.panels(1, largest, width=2.6 * largest + 1.2, height=4.4, sharey=True)
    for times, panel in enumerate(axes[0], 1):
        for name, label, style in (
            ("certified", "certified, any randomiser", {"lw": 3.0, "alpha": 0.55}),
            ("Theorem 3.2, the clones", "printed: Theorem 3.2", {"ls": "--"}),
            (
                "as released, the pair of 2-RR",
                "printed: as released",
                {"ls": ":", "color": COLOURS[Kind.PUBLISHED]},
            ),
            ("attained by 3-RR", "attained by 3-RR", {}),
        ):
            # What the composition cannot resolve is 0: the curve ends before it, rather than
            # falling there.
            resolved = [row for row in result.rows if row.y >= LEAST_DRAWN]
            line(panel, resolved, _rounds(name, times), label=label, **style)
        digits = [
            row
            for row in result.rows
            if row.kind is Kind.PUBLISHED and row.settings["rounds"] == times
        ]
        panel.plot([row.x for row in digits], [row.y for row in digits], "o",
        color=COLOURS[Kind.PUBLISHED], ms=5,
                  label="published digits, as released")  # fmt: skip
        panel.set(
            yscale="log",
            xlabel="ε (nats)",
            ylim=(LEAST_DRAWN, 0.2),
            title=_rounds("", times).strip(", "),
        )
    axes[0, 0].set_ylabel("δ")
    figure.suptitle(
        "Any 4-LDP randomiser shuffled among 10,000: the released bound is the certified one",
        fontsize=11,
    )
    drawing.legend_below(figure, columns=3)
    return figure


# Figure 2

RELEASED_RDP: Final = {
    10: 0.730768, 31: 1.130975, 100: 1.748240, 316: 2.703850, 1000: 4.287344, 3162: 7.039468,
    10000: 11.878783,
}  # fmt: skip
"""ε of Girgis et al. by rounds, copied from the figure of the authors' later release."""

RELEASED_LOSSES: Final = {10: 0.0051, 10000: 5.114}
"""ε of the privacy loss distribution at the ends of the same figure."""


def run_sampled(work: RunInputs) -> Results:
    """ε by number of rounds, if a hundredth of the users reports in each."""
    epsilon0, users, delta = work["ε0"], work["n"], work["δ"]
    rate = Fraction(work["q"]).limit_denominator(10**6)
    drawn = int(users * rate)
    other = 1 / (2 + math.exp(epsilon0))
    pair = third_symbol(3, 1 - 2 * other, other, drawn).sample(rate)
    starts = [LossGrid.of(law, work["grid"]) for law in (pair, pair.reverse())]
    curve = Round(LocalRandomiser(epsilon0), Setting(drawn, drawn), 1, rate)
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    for times in work["rounds"]:
        printed = published_rdp_epsilon(epsilon0, drawn, delta, rounds=times, rate=float(rate))
        certified = compose_epsilon([Round(curve.spec, curve.setting, times, rate)], delta)
        attained = max(losses.compose(times, work["grid"]).epsilon(delta) for losses in starts)
        values = {
            "Girgis et al., Rényi": (Kind.PRINTED, printed),
            "certified": (Kind.CERTIFIED, certified),
            "attained by 3-RR": (Kind.ATTAINED, attained),
        }
        rows += [
            Row(name, kind, "rounds", times, "ε", value) for name, (kind, value) in values.items()
        ]
        for series, digits in (
            ("Rényi, as released", RELEASED_RDP),
            ("losses, as released", RELEASED_LOSSES),
        ):
            if times in digits:
                rows.append(Row(series, Kind.PUBLISHED, "rounds", times, "ε", digits[times]))
                why = {
                    Verdict.LOOSE: f"sound; the formula gives {printed:.6f}"
                    if digits is RELEASED_RDP
                    else ""
                }
                claims.append(
                    judge(f"figure 2, {series}, {times} rounds", digits[times],
                          certified=certified, attained=attained, why=why)
                )  # fmt: skip
    return Results(tuple(rows), tuple(claims))


def draw_sampled(result: Results) -> Figure:
    """Plot ε by number of rounds, on logarithmic axes."""
    figure, axes = drawing.panels(width=7.6, height=5.2)
    panel = axes[0, 0]
    line(panel, result, "Girgis et al., Rényi", label="printed: Girgis et al., Rényi")
    for series, marker in (("Rényi, as released", "o"), ("losses, as released", "s")):
        rounds, values = result.series(series)
        panel.plot(
            rounds, values, marker, color=COLOURS[Kind.PUBLISHED], label=f"published: {series}"
        )
    line(panel, result, "certified")
    line(panel, result, "attained by 3-RR")
    panel.set(xscale="log", yscale="log", xlabel="rounds", ylabel="ε (nats) at δ = 1e-5")
    panel.set_title(
        "1,000 of 100,000 users report in each round, ε0 = 3:\nloss distributions certify a tenth "
        "of what Rényi does"
    )
    drawing.legend_below(figure, columns=3)
    return figure


# Figure 3

RELEASED_STRONG: Final = (0.547326, 0.641501, 0.728822, 0.811291, 0.890291)
"""ε of the strong adversary for one round at the five δ, copied from the figure of the authors'
later release.
"""


def strong_curve(spec: KRRHistogram, honest: int, *, weighed: bool = True) -> Curve:
    """δ of the strong adversary of Koskela et al. at ε >= 0, all at once (docs/accounting.md, K9).

    Sound; (1 - γ) HS of (a + 1, b) against (a, b + 1). One table serves every ε, so that rounds
    compose quickly.

    Args:
        spec: k-RR.
        honest: h, the changed user among them.
        weighed: False leaves out 1 - γ, as the authors' release does: sound, too.
    """
    law = law_of(spec)
    table = trinomial_table(honest, law.q, law.ratio, law.ratio_rest, tail_of(honest))
    weight = law.p - law.q if weighed else 1.0

    def curve(epsilons: Floats) -> Floats:
        size = epsilons.size
        values = (
            table.upper(np.ones(size), np.exp(epsilons), np.zeros(size)) / (honest * law.q)
            + table.outer
        )
        return np.asarray(np.minimum(weight * values * (1 + 1e-8), 1.0))

    return curve


def run_adversaries(work: RunInputs) -> Results:
    """ε by δ for each adversary of the paper, for several rounds."""
    largest, smallest = work["δ"]
    deltas = np.geomspace(largest, smallest, work["points"])
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    for users in work["n"]:
        spec = KRRHistogram(symbols=work["k"], blanket=Fraction(work["γ"]).limit_denominator(10**6))
        setting = Setting(users, users)
        law = law_of(spec)
        weak = partial(certified_curve, spec, setting, 1)
        losses = LossGrid.of(third_symbol(spec.symbols, law.p, law.q, users), work["grid"])
        strong, released = (strong_curve(spec, users, weighed=weighed) for weighed in (True, False))
        for times in work["rounds"]:
            attained = losses.compose(times, work["grid"])
            # One grid, made for the smallest δ, is read at all of them.
            strongly, freely, surely = (
                compose_curves([Repeated(curve, times)], smallest)
                for curve in (strong, released, weak)
            )
            for index, delta in enumerate(deltas.tolist()):
                series = {
                    "strong adversary": (Kind.PRINTED, strongly.epsilon(delta)),
                    "strong adversary, as released": (Kind.PRINTED, freely.epsilon(delta)),
                    "certified": (Kind.CERTIFIED, surely.epsilon(delta)),
                    "attained, others hold a third symbol": (
                        Kind.ATTAINED,
                        attained.epsilon(delta),
                    ),
                }
                if times == 1:
                    closed = balle_2019(spec.symbols, float(spec.blanket), users, delta)
                    series["Balle et al."] = (Kind.PRINTED, math.nan if closed is None else closed)
                settings = {"n": users, "rounds": times}
                rows += [
                    Row(name, kind, "δ", delta, "ε", y, settings=settings)
                    for name, (kind, y) in series.items()
                ]
                sides = Sides(
                    certified=series["certified"][1],
                    attained=series["attained, others hold a third symbol"][1],
                )
                where = f"n = {users}, {times} round{'s' if times > 1 else ''}, δ = {delta:.3g}"
                if index == 0:
                    claims.append(
                        judge(
                            f"figure 3, strong adversary, {where}",
                            series["strong adversary"][1],
                            **sides,
                        )
                    )
                    claims.append(
                        judge(f"figure 3, weak adversary, {where}", sides["certified"], **sides)
                    )
                    claims += _balle(
                        series.get("Balle et al.", (Kind.PRINTED, None))[1], where, sides
                    )
                if times == 1 and users == 1000 and work["points"] == len(RELEASED_STRONG):
                    copied = RELEASED_STRONG[index]
                    rows.append(
                        Row("strong adversary, released digits", Kind.PUBLISHED, "δ", delta, "ε",
                        copied,
                            settings=settings)
                    )  # fmt: skip
                    ours = series["strong adversary, as released"][1]
                    why = (
                        f"without the factor 1 - γ, which gives {ours:.6f}; with it "
                        f"{series['strong adversary'][1]:.4f}"
                    )
                    claims.append(
                        judge(f"figure 3 as released, strong, {where}", copied, **sides, why=why)
                    )
    return Results(tuple(rows), tuple(claims))


def _balle(closed: float | None, where: str, sides: Sides) -> list[PaperClaim]:
    if closed is None:
        return []
    if math.isnan(closed):
        return [PaperClaim(f"figure 3, Balle et al., {where}", Verdict.NOT_REPRODUCED,
            "outside the range of their theorem, "
                      "ε <= 1: no stated parameters give a curve here", None, **sides)]  # fmt: skip
    return [judge(f"figure 3, Balle et al., {where}", closed, **sides)]


def draw_adversaries(result: Results) -> Figure:
    """Plot a row for each n, and a panel for each number of rounds."""
    users = list(dict.fromkeys(row.settings["n"] for row in result.rows))
    rounds = list(dict.fromkeys(row.settings["rounds"] for row in result.rows))
    figure, axes = drawing.panels(
        len(users), len(rounds), width=3.1 * len(rounds) + 0.6, height=2.7 * len(users) + 1.2
    )
    for i, n in enumerate(users):
        for j, times in enumerate(rounds):
            panel = axes[i, j]
            rows = [
                row
                for row in result.rows
                if (row.settings["n"], row.settings["rounds"]) == (n, times)
            ]
            line(panel, rows, "strong adversary", label="printed: strong adversary")
            line(
                panel,
                rows,
                "strong adversary, as released",
                label="printed: strong, as released",
                ls=":",
            )
            if times == 1:
                line(panel, rows, "Balle et al.", label="printed: Balle et al.", ls="--")
            if any(row.kind is Kind.PUBLISHED for row in rows):
                line(panel, rows, "strong adversary, released digits",
                label="published digits, as released", ls="",
                     marker="o", ms=4)  # fmt: skip
            line(panel, rows, "certified", label="certified = weak adversary", lw=3, alpha=0.55)
            line(
                panel,
                rows,
                "attained, others hold a third symbol",
                label="attained, others hold a third symbol",
            )
            panel.set(
                xscale="log",
                title=f"n = {n:,}, {times} round{'s' if times != 1 else ''}",
                ylim=(0, None),
            )
            if i == len(users) - 1:
                panel.set_xlabel("δ")
        axes[i, 0].set_ylabel("ε (nats)")
    figure.suptitle(
        "Telling the strong adversary the changed user's coin costs a third of ε more", fontsize=11
    )
    drawing.legend_below(figure, columns=3)
    return figure


ENTRIES: Final = (
    Experiment(
        id="004-f1", source="Koskela et al. 2021, figure 1",
        question="What do one to four rounds of any local randomiser cost, shuffled?",
        parameters={"n": 10_000, "ε0": 4.0, "ε": (0.1, 1.0), "rounds": 4, "points": 60,
        "grid": 2**16},
        quick={"points": 7, "grid": 2**14},
        inferred=("n", "ε0", "ε", "rounds", "points"),
        run=run_general, draw=draw_general, seconds=7, seconds_quick=1.5,
        verdicts=frozenset({Verdict.SOUND, Verdict.LOOSE}),
    ),
    Experiment(
        id="004-f2", source="Koskela et al. 2021, figure 2",
        question="How far is the Rényi bound of Girgis et al. from the truth, where few users "
                 "report in each round?",
        parameters={"n": 100_000, "ε0": 3.0, "q": 0.01, "δ": 1e-5, "rounds": tuple(RELEASED_RDP),
        "grid": 2**16},
        quick={"rounds": (10, 316, 10_000), "grid": 2**13}, inferred=("n", "ε0", "q", "δ",
        "rounds"),
        run=run_sampled, draw=draw_sampled, seconds=6, seconds_quick=0.9,
        verdicts=frozenset({Verdict.LOOSE, Verdict.FALSE}),
    ),
    Experiment(
        id="004-f3", source="Koskela et al. 2021, figure 3",
        question="What is it worth to the adversary to know the changed user's coin?",
        parameters={"n": (1000, 10_000), "k": 4, "γ": 0.25, "δ": (1e-4, 1e-7), "rounds": (1, 4,
        16), "points": 5,
                    "grid": 2**16},
        quick={"rounds": (1, 4), "grid": 2**13}, inferred=("n", "k", "γ", "δ", "rounds", "points"),
        run=run_adversaries, draw=draw_adversaries, seconds=8, seconds_quick=2.6,
        verdicts=frozenset({Verdict.SOUND, Verdict.LOOSE, Verdict.NOT_REPRODUCED}),
    ),
)  # fmt: skip
