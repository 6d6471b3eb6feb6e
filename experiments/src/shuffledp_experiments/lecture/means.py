"""Sections 9.1 and 9.2.1: means of bits and of bounded values in every model.

Shuffled Laplace noise, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chisquare

from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise, randomise_in_bulk
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_experiments import drawing
from shuffledp_experiments.drawing import COLOURS, CYCLE, line
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds, standard_error
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.lecture import LaplaceMean, OneBitMean, mean_variance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Styles: TypeAlias = dict[str, dict[str, Any]]
"""How each series is drawn."""


# The mean of bits in three models

DRAWN: Final = 10_000
"""Most users whose bits are drawn one by one in a run; beyond, only the exact error is shown."""


def calibrated_bit(epsilon: float, delta: float, users: int) -> RRShuffle:
    """The shuffled bit (rr-shuffle over {0, 1}) with the least certified noise for (ε, δ)."""
    return cast(
        "RRShuffle", calibrate("rr-shuffle", Target(epsilon, delta, users, users, max_value=1))
    )


def local_error(epsilon: float, users: int) -> float:
    """Standard error of the mean of n bits by randomised response at ε.

    e^(ε/2)/((e^ε - 1) √n), for every dataset.
    """
    return math.exp(epsilon / 2) / (math.expm1(epsilon) * math.sqrt(users))


def least_local_error(epsilon: float, users: int) -> float:
    """Lower bound of the root mean square error of every ε-LDP protocol.

    For uniform bits, by the proof of Theorem 9.2.

    Given the transcript the bits are independent, each 1 with a chance from 1/(1 + e^ε) to e^ε/(1 +
    e^ε), so that no estimate errs less than their mean's own deviation: at least e^(ε/2)/((1 + e^ε)
    √n).
    """
    return math.exp(epsilon / 2) / ((1 + math.exp(epsilon)) * math.sqrt(users))


def run_bits(work: RunInputs) -> Results:
    """Error by n at equal (ε, δ); randomised response and the shuffled bit are also simulated."""
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    runs = work.runs or work["runs"]
    for epsilon in work["ε"]:
        spread: list[float] = []
        for users in work["n"]:
            plan = calibrated_bit(epsilon, work["δ"], users)
            shuffled = standard_error(plan, users) / users
            local = local_error(epsilon, users)
            least = least_local_error(epsilon, users)
            for name, kind, value in (
                ("central, Laplace", Kind.EXACT, math.sqrt(2) / (users * epsilon)),
                ("shuffled, calibrated", Kind.EXACT, shuffled),
                ("local, randomised response", Kind.EXACT, local),
                ("local, lower bound", Kind.EXACT, least),
                ("printed: central, 1/(nε)", Kind.PRINTED, 1 / (users * epsilon)),
                ("printed: local, 1/√(nε)", Kind.PRINTED, 1 / math.sqrt(users * epsilon)),
            ):
                rows.append(
                    Row(f"{name}, ε = {epsilon:g}", kind, "n", users, "error of the mean", value,
                        settings={"ε": epsilon})
                )  # fmt: skip
            spread.append(local * math.sqrt(users))
            if users <= DRAWN:
                rows += _simulate_bits(work, plan, epsilon, users, runs)
        claims += _of_bits(epsilon, spread)
    notes = (exact_agreement(work),) if work.exact_sampler else ()
    return Results(tuple(rows), tuple(claims), notes)


def exact_agreement(work: RunInputs) -> str:
    """Compare the clients' sampler of the shuffled bit with the exact law, by chi-square.

    At the first ε and n.
    """
    epsilon, users, draws = work["ε"][0], work["n"][0], work["exact draws"]
    plan = calibrated_bit(epsilon, work["δ"], users)
    integers = RandomIntegers(work.generator("exact sampler").bytes)
    flip, counts, expected = float(plan.randomise / 2), [], []
    for value in (0, 1):
        ones = sum(randomise(plan, value, integers) for _ in range(draws))
        chance = value * (1 - flip) + (1 - value) * flip
        counts += [draws - ones, ones]
        expected += [draws * (1 - chance), draws * chance]
    probability = float(chisquare(counts, expected, ddof=1).pvalue)
    verdict = "agrees" if probability > 1e-9 else "DISAGREES"
    return (
        f"the clients' sampler {verdict} with the law of the simulated bits: chi-square, p = "
        f"{probability:.2g}"
    )


def _simulate_bits(
    work: RunInputs, plan: RRShuffle, epsilon: float, users: int, runs: int
) -> list[Row]:
    """Root mean square errors of simulated rounds, with their own standard errors."""
    generator = work.generator("bits", epsilon, users)
    truth = generator.integers(2, size=users)
    share = math.exp(epsilon) / (1 + math.exp(epsilon))
    answers = np.where(generator.random((runs, users)) < share, truth, 1 - truth)
    local = (answers.mean(axis=1) - (1 - share)) / (2 * share - 1)
    flip = float(plan.randomise / 2)
    arrays = RandomArrays(generator.bytes)
    sums = np.stack([randomise_in_bulk(plan, truth, arrays).mean() for _ in range(runs)])
    shuffled = (sums - flip) / (1 - 2 * flip)
    rows = []
    for name, estimates in (("local", local), ("shuffled", shuffled)):
        squares = (estimates - truth.mean()) ** 2
        error = float(np.sqrt(squares.mean()))
        # Two deviations of the mean square, by the squares' own spread.
        reach = float(squares.std(ddof=1)) / math.sqrt(runs) / max(error, 1e-300)
        rows.append(
            Row(f"{name}, measured, ε = {epsilon:g}", Kind.MEASURED, "n", users,
            "error of the mean", error,
                max(error - reach, 0.0), error + reach, {"ε": epsilon})
        )  # fmt: skip
    return rows


def _of_bits(epsilon: float, spread: list[float]) -> list[PaperClaim]:
    """Judge the claimed rates at one ε; `spread` is the local error times √n, by n."""
    steady = max(spread) <= min(spread) * (1 + 1e-9)
    against = spread[0] * math.sqrt(epsilon)
    least = least_local_error(epsilon, 1)
    return [
        PaperClaim(f"(9.1) |μ̂ - μ| <= 1/(nε), ε = {epsilon:g}", Verdict.SOUND,
              "the mean absolute error of Laplace noise is exactly that; a run exceeds it with "
              f"chance {math.exp(-1):.2g}"),
        PaperClaim(f"local error O(1/√(nε)), ε = {epsilon:g}",
        Verdict.NO_BOUND if steady else Verdict.NOT_REPRODUCED,
              f"it is {against:.3g}/√(nε) and {spread[0] * epsilon:.3g}/(ε√n): the latter is "
              f"meant"),
        PaperClaim(f"Theorem 9.2: Ω(1/√n) for every ε-LDP protocol, ε = {epsilon:g}",
              Verdict.SOUND if least <= spread[0] else Verdict.FALSE,
              f"at least {least:.3g}/√n by its proof; randomised response has {spread[0]:.3g}/√n"),
    ]  # fmt: skip


def draw_bits(result: Results) -> Figure:
    """Plot one panel for each ε."""
    epsilons = list(dict.fromkeys(row.settings["ε"] for row in result.rows))
    figure, axes = drawing.panels(
        1, len(epsilons), width=5.0 * len(epsilons), height=5.0, sharey=True
    )
    styles: Styles = {
        "local, randomised response": {"color": CYCLE[1]},
        "local, lower bound": {"color": CYCLE[1], "ls": ":"},
        "shuffled, calibrated": {"color": CYCLE[0]},
        "central, Laplace": {"color": CYCLE[2]},
        "printed: local, 1/√(nε)": {"ls": "--", "lw": 1.2},
        "printed: central, 1/(nε)": {"ls": "-.", "lw": 1.2},
    }
    for panel, epsilon in zip(axes[0], epsilons, strict=True):
        for name, style in styles.items():
            line(panel, result, f"{name}, ε = {epsilon:g}", label=name, **style)
        for name, colour in (("local", CYCLE[1]), ("shuffled", CYCLE[0])):
            users, error = result.series(f"{name}, measured, ε = {epsilon:g}")
            panel.plot(
                users, error, "o", mfc="white", ms=5, color=colour, label=f"{name}, measured"
            )
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="n, users",
            title=f"ε = {epsilon:g}, δ = 1e-6 where shuffled",
        )
    axes[0, 0].set_ylabel("root mean square error of the mean")
    figure.suptitle(
        "The mean of bits: shuffling nearly closes the gap between local and central", fontsize=11
    )
    drawing.legend_below(figure, columns=4)
    return figure


# One bit against Laplace noise


def worst_one_bit(epsilon: float) -> float:
    """n Var/m² of the one-bit mean in its worst case, all values in the middle: coth²(ε/2)/4."""
    return 1 / (4 * math.tanh(epsilon / 2) ** 2)


def report_bits(epsilon: float, largest: int) -> float:
    """Entropy, in bits, of Laplace noise of scale m/ε rounded to whole numbers.

    A report of it takes at least that many.
    """
    rate = epsilon / largest
    # P(0) = 1 - e^(-rate/2); P(±j) = sinh(rate/2) e^(-rate j).
    at_zero = -math.expm1(-rate / 2)
    rest = 1 - at_zero
    mean = 1 / -math.expm1(-rate)
    tail = rest * (math.log(math.sinh(rate / 2)) - rate * mean)
    return -(at_zero * math.log(at_zero) + tail) / math.log(2)


def run_one_bit(work: RunInputs) -> Results:
    """Variances by ε, the ε at which they cross, and the bits of a report."""
    largest = work["m"]
    epsilons = np.geomspace(work["least ε"], work["largest ε"], work["points"])
    rows: list[Row] = []
    for epsilon in epsilons.tolist():
        bit = OneBitMean(epsilon, largest)
        laplace = LaplaceMean(epsilon, largest)
        for name, kind, y_name, value in (
            (
                "one bit, worst values",
                Kind.EXACT,
                "n Var/m²",
                mean_variance(bit, [largest // 2]) / largest**2,
            ),
            (
                "one bit, all values 0 or m",
                Kind.EXACT,
                "n Var/m²",
                mean_variance(bit, [0]) / largest**2,
            ),
            ("Laplace", Kind.EXACT, "n Var/m²", mean_variance(laplace, [0]) / largest**2),
            ("printed: 1/ε²", Kind.PRINTED, "n Var/m²", epsilon**-2),
            ("one bit, bits", Kind.EXACT, "bits", 1.0),
            ("Laplace, bits", Kind.EXACT, "bits", report_bits(epsilon, largest)),
            ("printed: log m, bits", Kind.PRINTED, "bits", math.log2(largest)),
        ):
            rows.append(Row(name, kind, "ε", epsilon, y_name, value))
    crossing = float(brentq(lambda epsilon: worst_one_bit(epsilon) - 2 / epsilon**2, 0.1, 20.0))
    rows.append(Row("as good as Laplace at", Kind.EXACT, "m", largest, "ε", crossing))
    first = float(epsilons[0])
    last = float(epsilons[-1])
    constants = [epsilon**2 * worst_one_bit(epsilon) for epsilon in (first, 1.0, last)]
    ratios = [worst_one_bit(epsilon) * epsilon**2 / 2 for epsilon in (first, last)]
    private = all(
        math.isclose(
            epsilon_bounds(OneBitMean(epsilon, largest), Setting(1, 1), 0.0).certified,
            epsilon,
            rel_tol=1e-9,
        )
        for epsilon in (first, 1.0, last)
    )
    claims = (
        PaperClaim("Theorem 9.3: the one bit is ε-LDP", Verdict.SOUND if private else Verdict.FALSE,
        "exactly ε (C8)"),
        PaperClaim("Theorem 9.3: variance O(m²/(nε²))", Verdict.NO_BOUND,
              f"constant {constants[0]:.3g} at ε = {first:g}, {constants[1]:.3g} at 1, "
              f"{constants[2]:.3g} at {last:g}: no constant serves every ε"),
        PaperClaim("'the exact same as the Laplace mechanism'",
        Verdict.FALSE if ratios[0] < 0.9 else Verdict.SOUND,
              f"the same rate only: {ratios[0]:.2g} of Laplace's variance at ε = {first:g}, "
              f"{ratios[1]:.3g} of it at {last:g}, equal at {crossing:.3g}"),
    )  # fmt: skip
    return Results(tuple(rows), claims)


def draw_one_bit(result: Results) -> Figure:
    """Plot variances on the left, and bits on the right."""
    figure, axes = drawing.panels(1, 2, width=10.0, height=4.6)
    variances: Styles = {
        "one bit, worst values": {"color": CYCLE[0]},
        "one bit, all values 0 or m": {"color": CYCLE[0], "ls": ":"},
        "Laplace": {"color": CYCLE[1]},
        "printed: 1/ε²": {"ls": "--", "lw": 1.2},
    }
    for name, style in variances.items():
        line(axes[0, 0], result, name, **style)
    (crossing,) = result.series("as good as Laplace at")[1].tolist()
    axes[0, 0].axvline(
        crossing, color=drawing.QUIET, lw=1, ls="--", label=f"equal at ε = {crossing:.2f}"
    )
    axes[0, 0].set(xscale="log", yscale="log", xlabel="ε (nats)", ylabel="n · variance / m²",
                   title="One bit errs less than Laplace noise, up to a point")  # fmt: skip
    bits: Styles = {
        "one bit, bits": {"color": CYCLE[0]},
        "Laplace, bits": {"color": CYCLE[1]},
        "printed: log m, bits": {"ls": "--", "lw": 1.2},
    }
    for name, style in bits.items():
        line(axes[0, 1], result, name, **style)
    axes[0, 1].set(xscale="log", xlabel="ε (nats)", ylabel="bits of a report", ylim=(0, None),
                   title="... and takes a tenth of the bits, m = 1,000")  # fmt: skip
    drawing.legend_below(figure, columns=4)
    return figure


# Shuffled Laplace noise


def largest_local(epsilon: float, delta: float, users: int) -> tuple[float, float]:
    """Bounds of the largest ε0 of a local randomiser that shuffling certifies as (ε, δ).

    No proof for every ε0-LDP randomiser can exceed the second value.

    The second is where a concrete randomiser attains ε: above it no bound for every ε0-LDP
    randomiser holds.
    """

    def at(side: str) -> float:
        def excess(epsilon0: float) -> float:
            # δ at the wanted ε: it passes the wanted δ where ε at that δ passes ε, and needs no
            # inversion.
            bounds = delta_bounds(LocalRandomiser(epsilon0), Setting(users, users), epsilon)
            return math.log(max(float(getattr(bounds, side)), 1e-3 * delta) / delta)

        # Without any amplification ε0 = ε is private, so the root is above.
        return float(brentq(excess, max(epsilon / 2, 1e-3), 15.0, xtol=1e-3))

    return at("certified"), at("attained")


def run_laplace(work: RunInputs) -> Results:
    """Errors of shuffled Laplace noise by ε and by δ, and of the central mechanism."""
    users = work["n"]
    settings = [(epsilon, work["δ"]) for epsilon in work["ε"]] + [
        (work["ε of the δ"], delta) for delta in work["by δ"]
    ]
    rows: list[Row] = []
    ratios: dict[tuple[float, float], float] = {}
    for epsilon, delta in settings:
        proved, attained = largest_local(epsilon, delta, users)
        central = math.sqrt(2) / (users * epsilon)
        error, least = (
            math.sqrt(mean_variance(LaplaceMean(epsilon0), [0]) / users)
            for epsilon0 in (proved, attained)
        )
        ratios[epsilon, delta] = least / central
        for name, kind, value in (
            ("central, Laplace", Kind.EXACT, central),
            ("printed: 1/(nε)", Kind.PRINTED, 1 / (users * epsilon)),
            ("shuffled Laplace, certified", Kind.CERTIFIED, error),
            ("shuffled Laplace, no proof for all ε0-LDP does better", Kind.ATTAINED, least),
        ):
            rows.append(
                Row(
                    name,
                    kind,
                    "ε",
                    epsilon,
                    "error of the mean",
                    value,
                    settings={"δ": delta, "n": users},
                )
            )
        if delta == work["δ"]:
            rows.append(_laplace_drawn(work, epsilon, proved))
    first, last = (
        ratios[work["ε of the δ"], delta] for delta in (work["by δ"][0], work["by δ"][-1])
    )
    at = (work["ε"][0], work["δ"])
    claims = (
        PaperClaim("'the final error is O(1/(nε)), the same as in the central model'",
              Verdict.FALSE if ratios[at] > 1 and last > 1.2 * first else Verdict.NO_BOUND,
              f"at least {ratios[at]:.3g} times the central error at ε = {at[0]:g}, δ = "
              f"{at[1]:g}; from δ = {work['by δ'][0]:g} to {work['by δ'][-1]:g} it grows "
              f"{last / first:.2f} times: the factor √ln(1/δ), which grows "
              f"{math.sqrt(math.log(work['by δ'][-1]) / math.log(work['by δ'][0])):.2f} times, is "
              "missing"),
    )  # fmt: skip
    return Results(tuple(rows), claims)


def _laplace_drawn(work: RunInputs, epsilon: float, epsilon0: float) -> Row:
    """A row: root mean square error in simulated rounds of Laplace reports, uniform values."""
    users, runs = work["n"], work.runs or work["runs"]
    generator = work.generator("laplace", epsilon)
    values = generator.random(users)
    squares = np.array(
        [
            float((values + generator.laplace(0.0, 1 / epsilon0, users)).mean() - values.mean())
            ** 2
            for _ in range(runs)
        ]
    )
    error = float(np.sqrt(squares.mean()))
    reach = float(squares.std(ddof=1)) / math.sqrt(runs) / error
    return Row("shuffled Laplace, measured", Kind.MEASURED, "ε", epsilon, "error of the mean",
    error, error - reach,
               error + reach, {"δ": work["δ"], "n": users})  # fmt: skip


def draw_laplace(result: Results) -> Figure:
    """Plot errors by ε, and the ratio to the central error by δ."""
    figure, axes = drawing.panels(1, 2, width=10.0, height=4.6)
    usual = next(row.settings["δ"] for row in result.rows)
    by_epsilon = [row for row in result.rows if row.settings["δ"] == usual]
    names: Styles = {
        "shuffled Laplace, certified": {},
        "shuffled Laplace, no proof for all ε0-LDP does better": {},
        "central, Laplace": {},
        "printed: 1/(nε)": {"ls": "--", "lw": 1.2},
    }
    by_epsilon.sort(key=lambda row: float(row.x))
    for name, style in names.items():
        line(axes[0, 0], by_epsilon, name, **style)
    drawn = [row for row in by_epsilon if row.kind is Kind.MEASURED]
    axes[0, 0].plot([row.x for row in drawn], [row.y for row in drawn], "o", mfc="white",
                    color=COLOURS[Kind.MEASURED], label="shuffled Laplace, measured")  # fmt: skip
    axes[0, 0].set(xscale="log", yscale="log", xlabel="ε (nats)", ylabel=
        "root mean square error of the mean",
                   title=f"n = 10,000, δ = {usual:g}")  # fmt: skip
    others = [row for row in result.rows if row.settings["δ"] != usual]
    for name in list(names)[:2]:
        rows = [row for row in others if row.series == name]
        central = {row.settings["δ"]: row.y for row in others if row.series == "central, Laplace"}
        deltas = [float(str(row.settings["δ"])) for row in rows]
        axes[0, 1].plot(
            deltas,
            [row.y / central[row.settings["δ"]] for row in rows],
            color=COLOURS[rows[0].kind],
        )
    axes[0, 1].set(xscale="log", xlabel="δ", ylabel="error, times the central one", ylim=(0, None),
                   title="The factor √ln(1/δ) is missing from the rate")  # fmt: skip
    axes[0, 1].invert_xaxis()
    drawing.legend_below(figure, columns=3)
    return figure


ENTRIES: Final = (
    Experiment(
        id="003-e1", aliases=("003-e2",), source="Wang, lecture 9, section 9.1 and Theorem 9.2",
        question="How well is the mean of bits estimated in the central, the shuffle and the "
                 "local model?",
        parameters={"n": (100, 1000, 10_000, 100_000, 1_000_000), "ε": (0.1, 1.0), "δ": 1e-6,
        "runs": 400,
                    "exact draws": 5000},
        quick={"n": (100, 1_000_000), "runs": 50}, inferred=("n", "ε", "δ"),
        run=run_bits, draw=draw_bits, seconds=5, seconds_quick=2,
        verdicts=frozenset({Verdict.SOUND, Verdict.NO_BOUND}),
    ),
    Experiment(
        id="003-e3", source="Wang, lecture 9, Theorem 9.3",
        question="Is one bit as good as Laplace noise?",
        parameters={"m": 1000, "least ε": 0.1, "largest ε": 10.0, "points": 60},
        quick={"points": 15},
        inferred=("m", "least ε", "largest ε", "points"),
        run=run_one_bit, draw=draw_one_bit, seconds=1, seconds_quick=1.3,
        verdicts=frozenset({Verdict.SOUND, Verdict.NO_BOUND, Verdict.FALSE}),
    ),
    Experiment(
        id="003-e7", source="Wang, lecture 9, after Theorem 9.4",
        question="Does shuffled Laplace noise reach the central error?",
        parameters={"n": 10_000, "ε": (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0), "δ": 1e-6,
        "ε of the δ": 0.3,
                    "by δ": (1e-2, 1e-3, 1e-4, 1e-5, 1e-7, 1e-8, 1e-9, 1e-10), "runs": 400},
        quick={"ε": (0.1, 1.0), "by δ": (1e-2, 1e-10), "runs": 50}, inferred=("n", "ε", "δ",
        "ε of the δ", "by δ"),
        run=run_laplace, draw=draw_laplace, seconds=11, seconds_quick=3.8,
        verdicts=frozenset({Verdict.FALSE}),
    ),
)  # fmt: skip
