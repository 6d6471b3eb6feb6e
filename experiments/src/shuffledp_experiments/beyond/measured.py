"""Measured figures: audits by trials (n11), coverage of intervals (n13), and run times (n15)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp.commands.questions import krr_histogram
from shuffledp.simulation import simulate
from shuffledp_adversary.evidence import clopper_pearson, epsilon_bound
from shuffledp_core.answering.estimates import COVERAGE
from shuffledp_core.mechanisms import RRShuffle, SGDLShuffle
from shuffledp_core.mechanisms.installed import Mechanism
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise, randomise_in_bulk
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import both_sides, logarithmic, metric, standard
from shuffledp_experiments.beyond.plans import calibrated_spec, krr, shared
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)
from shuffledp_privacy.bounds import Bounds
from shuffledp_privacy.histogram.published import published_theorem_1
from shuffledp_privacy.sums import rr
from shuffledp_privacy.sums.clamping import sgdl_any_clamped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Integers = NDArray[np.int64]

SURE: Final = 1 - 1e-9
"""Confidence with which an audit calls a claim false."""


@dataclass(frozen=True, slots=True)
class AuditedClaim:
    """A privacy claim that an audit may refute.

    Attributes:
        name: name of the panel.
        printed: the claim, ε per unit.
        truth: both sides at the same δ.
        delta: δ of all three.
        unit: the distance of the two datasets, by which ε is divided.
        draw: outcomes of the given number of rounds on the first and on the second dataset.
        why: the error in the claim.
    """

    name: str
    printed: float | None
    truth: Bounds
    delta: float
    unit: int
    draw: Callable[[int, np.random.Generator], tuple[Integers, Integers]]
    why: str = ""


def _theorem_1() -> AuditedClaim:
    users, at_x0, symbols, epsilon0, epsilon = 20, 16, 10, 3.0, 0.1
    spec, _ = krr_histogram(symbols, epsilon0)
    q = float(spec.blanket) / symbols
    p = 1 - float(spec.blanket) + q

    def draw(trials: int, generator: np.random.Generator) -> tuple[Integers, Integers]:
        def others() -> Integers:
            return generator.binomial(at_x0, p, trials) + generator.binomial(
                users - 1 - at_x0, q, trials
            )

        return others() + generator.binomial(1, p, trials), others() + generator.binomial(
            1, q, trials
        )

    delta = published_theorem_1(users, at_x0, symbols, epsilon0, epsilon)
    name = "Biswas et al. 2023, Thm 1"
    return AuditedClaim(
        name,
        epsilon,
        both_sides(spec, standard(users), delta),
        delta,
        1,
        draw,
        "a factor too often (K8)",
    )


def _theorem_51() -> AuditedClaim:
    users, epsilon, delta, largest = 20, Fraction(1, 2), 0.3, 8
    padding = next(c for c in range(1000) if sgdl_any_clamped(epsilon, users, c, users) <= delta)
    spec = SGDLShuffle(max_value=largest, noise_epsilon=epsilon, shares=users, padding=padding)

    def draw(trials: int, generator: np.random.Generator) -> tuple[Integers, Integers]:
        values = np.zeros((trials, users), dtype=np.int64)
        arrays = RandomArrays(generator.bytes)
        first = randomise_in_bulk(spec, values, arrays).sum(axis=1)
        values[:, 0] = largest
        return first, randomise_in_bulk(spec, values, arrays).sum(axis=1)

    truth = both_sides(spec, metric(users, largest), delta)
    name = "Athanasiou et al. 2025, Thm 5.1"
    return AuditedClaim(name, 0.5, truth, delta, largest, draw, "bounded support has a price (S13)")


def _theorem_71() -> AuditedClaim:
    randomise, delta = Fraction(393, 1000), 0.01
    printed = rr.published_epsilon(RRShuffle(max_value=1000, randomise=randomise), 1, delta)
    truth = both_sides(RRShuffle(max_value=1, randomise=randomise), standard(1), delta)
    flip = float(randomise) / 2

    def draw(trials: int, generator: np.random.Generator) -> tuple[Integers, Integers]:
        return generator.binomial(1, flip, trials), generator.binomial(1, 1 - flip, trials)

    name = "Athanasiou et al. 2025, Thm 7.1"
    return AuditedClaim(name, printed, truth, delta, 1, draw, "bits in order (S10)")


def _sound() -> AuditedClaim:
    """A true claim of this project: a sum of bits if all other users hold 0."""
    users, delta = 100, 0.01
    spec = RRShuffle(max_value=1, randomise=Fraction(1, 10))
    flip = float(spec.randomise) / 2

    def draw(trials: int, generator: np.random.Generator) -> tuple[Integers, Integers]:
        def others() -> Integers:
            return np.asarray(generator.binomial(users - 1, flip, trials), dtype=np.int64)

        return others() + generator.binomial(1, flip, trials), others() + generator.binomial(
            1, 1 - flip, trials
        )

    return AuditedClaim(
        "rr-shuffle as certified here",
        None,
        both_sides(spec, standard(users), delta),
        delta,
        1,
        draw,
    )


def _run_n11(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    most = max(work["trials"])
    for audited in (_theorem_1(), _theorem_51(), _theorem_71(), _sound()):
        first, second = audited.draw(most, work.generator(audited.name))
        settings = {"δ": audited.delta, "claim": audited.name}
        lower = 0.0
        for trials in work["trials"]:
            bound = epsilon_bound(first[:trials], second[:trials], audited.delta, SURE)
            lower = bound.lower / audited.unit
            rows.append(
                Row(
                    f"{audited.name}: audited",
                    Kind.MEASURED,
                    "trials",
                    trials,
                    "ε (nats)",
                    lower,
                    settings=settings,
                )
            )
            sides = {Kind.CERTIFIED: audited.truth.certified, Kind.ATTAINED: audited.truth.attained}
            if audited.printed is not None:
                sides[Kind.PRINTED] = audited.printed
            rows += [
                Row(
                    f"{audited.name}: {kind}",
                    kind,
                    "trials",
                    trials,
                    "ε (nats)",
                    value,
                    settings=settings,
                )
                for kind, value in sides.items()
            ]
        if audited.printed is not None:
            refuted = lower > audited.printed
            verdict = Verdict.FALSE if refuted else Verdict.OPEN
            why = (
                f"counted in {most:,} rounds: {audited.why}"
                if refuted
                else f"{most:,} rounds are too few"
            )
            claims.append(
                PaperClaim(
                    audited.name, verdict, why, audited.printed, audited.truth.certified, lower
                )
            )
    return Results(
        tuple(rows),
        tuple(claims),
        (f"each bound with confidence 1 - {1 - SURE:.0e}; an audit can only refute",),
    )


def _draw_n11(result: Results) -> Figure:
    names = list(dict.fromkeys(str(row.settings["claim"]) for row in result.rows))
    figure, axes = drawing.panels(1, len(names), width=3.7 * len(names), height=4.6)
    for panel, name in zip(axes[0], names, strict=True):
        for kind, style in (
            (Kind.CERTIFIED, {"lw": 3.4}), (Kind.ATTAINED, {"ls": (0, (4, 3))}), (Kind.PRINTED, {}),
        ):  # fmt: skip
            if any(row.series == f"{name}: {kind}" for row in result.rows):
                drawing.line(panel, result, f"{name}: {kind}", label=str(kind), **style)
        drawing.line(
            panel,
            result,
            f"{name}: audited",
            label="audited, at least",
            marker="o",
            color="#cc79a7",
        )
        panel.set_title(
            f"{name}\nδ = "
            f"{next(r.settings['δ'] for r in result.rows if r.settings['claim'] == name):.3g}",
            fontsize=9,
        )
        panel.set_xlabel("rounds on each dataset")
        panel.set_ylim(bottom=0)
        logarithmic(panel, "x")
    axes[0, 0].set_ylabel("ε (nats; Thm 5.1: per unit)")
    figure.suptitle("What an audit finds, by its rounds: false claims break, true ones do not")
    drawing.legend_below(figure)
    return figure


N11: Final = Experiment(
    id="n11", source="new", question="How many rounds does an audit need to find a false claim?",
    parameters={"trials": (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000)},
    quick={"trials": (1000, 100_000)},
    run=_run_n11, draw=_draw_n11, seconds=8, seconds_quick=1.9, verdicts=frozenset({Verdict.FALSE}),
)  # fmt: skip


def _run_n13(work: RunInputs) -> Results:
    rows: list[Row] = []
    notes: list[str] = []
    runs, largest = work.runs or work["runs"], work["k"]
    for users in work["n"]:
        values = np.arange(users) % (largest + 1)
        specs: dict[str, Mechanism] = {
            "k-RR histogram": krr(users, largest + 1, work["ε"]),
            "rr-shuffle": calibrated_spec("rr-shuffle", users, largest, work["ε"]),
            "geo-shuffle": calibrated_spec("geo-shuffle", users, largest, work["ε"]),
            "sgdl-shuffle": shared(users, largest, work["ε"]),
        }
        for name, spec in specs.items():
            seeds = work.generator(name, users).integers(2**31, size=runs)
            hits = [_count_covered(spec, values, int(seed)) for seed in seeds]
            covered = sum(hit for hit, _ in hits)
            looks = sum(all_ for _, all_ in hits)
            low, high = clopper_pearson(covered, looks, 0.999)
            settings = {"k": largest, "ε": work["ε"], "looks": looks}
            rows.append(
                Row(name, Kind.MEASURED, "n", users, "cover", covered / looks, low, high, settings)
            )
            if work.exact_sampler and users == work["n"][0]:
                notes.append(_agreement(name, spec, work.generator("exact", name)))
    below = sorted(
        {row.series for row in rows if row.high is not None and row.high < COVERAGE - 1e-3}
    )
    words = ", ".join(below) if below else "none"
    return Results(
        tuple(rows),
        notes=(f"cover below {COVERAGE} beyond chance (99.9%): {words}; {runs} runs each", *notes),
    )


def _agreement(name: str, spec: Mechanism, generator: np.random.Generator) -> str:
    """Chi-square test of the clients' sampler against the one in bulk, at the middle value.

    Raises:
        ValueError: the two differ, by a test that rejects equal ones with probability 1e-9.
    """
    from scipy.stats import chi2_contingency

    integers = RandomIntegers(generator.bytes)
    value = spec.domain // 2
    exact = np.array([randomise(spec, value, integers) for _ in range(EXACT_REPORTS)])
    quick = randomise_in_bulk(spec, np.full(EXACT_REPORTS, value), RandomArrays(generator.bytes))
    # Rare reports are counted together, below and above.
    low, high = np.quantile(np.concatenate([exact, quick]), (0.02, 0.98))
    both = [np.clip(reports, low, high).astype(np.int64) for reports in (exact, quick)]
    table = np.array([np.bincount(reports, minlength=int(high) + 1) for reports in both])
    chance = float(chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)
    if chance < 1e-9:
        raise ValueError(
            f"{name}: the distributions of the clients' sampler and of the one in bulk differ (p = "
            f"{chance:.1e})"
        )
    return (
        f"{name}: {EXACT_REPORTS:,} reports of the clients' sampler agree with those in bulk "
        f"(chi-square, p = {chance:.2g})"
    )


EXACT_REPORTS: Final = 5000
"""Reports by the clients' integer sampler, for `--exact-sampler`."""


def _count_covered(spec: Mechanism, values: Integers, seed: int) -> tuple[int, int]:
    """Number of a round's intervals that cover the truth, and number of all its intervals."""
    answer = simulate(spec, values, seed=seed)
    ends = np.atleast_2d(answer.total_interval)
    truth = np.atleast_1d(answer.true_total)
    return int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum()), len(truth)


def _draw_n13(result: Results) -> Figure:
    figure, axes = drawing.panels(width=8, height=4.8)
    panel = axes[0, 0]
    names = list(dict.fromkeys(row.series for row in result.rows))
    for index, name in enumerate(names):
        drawing.line(panel, result, name, **drawing.series_style(index))
    panel.axhline(COVERAGE, color="black", lw=1, ls="--", label="promised")
    settings = result.rows[0].settings
    panel.set_title(
        f"How often the 95% intervals hold (k = {settings['k']}, ε = {settings['ε']:g}; shaded: "
        "99.9%)"
    )
    panel.set_xlabel("users n")
    panel.set_ylabel("share of intervals that hold")
    logarithmic(panel, "x")
    drawing.legend_below(figure, columns=5)
    return figure


N13: Final = Experiment(
    id="n13", source="new", question="Do the 95% intervals hold in 95% of the rounds?",
    parameters={"n": (30, 100, 1000, 10_000), "k": 10, "ε": 2.0, "runs": 1000},
    quick={"n": (100, 1000), "runs": 60},
    run=_run_n13, draw=_draw_n13, seconds=25, seconds_quick=1.2,
)  # fmt: skip


def _run_n15(work: RunInputs) -> Results:
    from shuffledp_experiments.registry import experiments

    computations: dict[str, Callable[[int], Any]] = {
        "k-RR, k = 10": lambda users: both_sides(krr_histogram(10, 1.0)[0], standard(users)),
        "k-RR, k = 2": lambda users: both_sides(krr_histogram(2, 1.0)[0], standard(users)),
        "rr-shuffle, k = 100": lambda users: both_sides(
            RRShuffle(max_value=100, randomise=Fraction(1, 10)), standard(users)
        ),
        "sgdl-shuffle, k = 100": lambda users: both_sides(shared(users, 100, 1.0), standard(users)),
    }
    rows: list[Row] = []
    for name, ask in computations.items():
        ask(work["n"][0] + 1)  # what is loaded once is no certificate's time
        for users in work["n"]:
            began = time.process_time()
            ask(users)
            rows.append(
                Row(name, Kind.MEASURED, "n", users, "CPU seconds", time.process_time() - began)
            )
    rows += [
        Row("experiments", Kind.MEASURED, "id", entry.id, "CPU seconds", entry.seconds)
        for entry in experiments().values()
    ]
    longest = max(rows[: -len(experiments())], key=lambda row: row.y)
    return Results(
        tuple(rows),
        notes=(
            f"the longest certificate took {longest.y:.2f} s ({longest.series}, n = {longest.x:,})",
            "seconds are measured in every run, so only this table is not reproducible",
            "the papers' texts state no running times to compare with",
        ),
    )


def _draw_n15(result: Results) -> Figure:
    figure, axes = drawing.panels(1, 2, width=12, height=5)
    names = [
        name for name in dict.fromkeys(row.series for row in result.rows) if name != "experiments"
    ]
    for index, name in enumerate(names):
        drawing.line(axes[0, 0], result, name, **drawing.series_style(index))
    axes[0, 0].set_title("one certificate, both sides", fontsize=10)
    axes[0, 0].set_xlabel("users n")
    axes[0, 0].set_ylabel("CPU seconds")
    logarithmic(axes[0, 0])
    axes[0, 0].legend(frameon=False, fontsize=8)
    entries = sorted(
        (row for row in result.rows if row.series == "experiments"), key=lambda row: row.y
    )
    axes[0, 1].barh(
        [str(row.x) for row in entries], [row.y for row in entries], color=drawing.CYCLE[0]
    )
    axes[0, 1].set_title("one experiment, in full", fontsize=10)
    axes[0, 1].set_xlabel("CPU seconds")
    axes[0, 1].tick_params(axis="y", labelsize=max(3.0, min(8.0, 260 / len(entries))))
    figure.suptitle("How long it takes")
    return figure


N15: Final = Experiment(
    id="n15", source="new", question="How long does a certificate take, up to a billion users?",
    parameters={"n": (10, 100, 1000, 10_000, 100_000, 10**6, 10**7, 10**8, 10**9)},
    quick={"n": (100, 1000)},
    run=_run_n15, draw=_draw_n15, seconds=34, seconds_quick=2.6,
)  # fmt: skip
