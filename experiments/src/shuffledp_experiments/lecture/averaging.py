"""Section 9.1.1: the same question daily, memoisation, the ledger, and a run of RAPPOR."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats

from shuffledp_adversary.attacks.average import days_within_budget
from shuffledp_adversary.attacks.views import YES_NO
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
    judge,
)
from shuffledp_experiments.lecture.rappor import (
    Chances,
    RapporClients,
    bit_shares,
    decode,
    filters,
    log_ratio,
    pair_epsilon,
    usual_penalty,
)
from shuffledp_privacy.bounds import Setting, corrupted_bounds
from shuffledp_privacy.local.rappor import RapporPermanent, RapporReport, rappor_epsilon
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The averaging attack

PRINTED_CHANCE: Final = 1.39e-24
PRINTED_EPSILON: Final = 110.0


def majority(truth: float, days: int) -> float:
    """Probability that the majority of independent daily answers is right; ties are a coin toss."""
    ties = float(stats.binom.pmf(days / 2, days, truth)) if days % 2 == 0 else 0.0
    return float(stats.binom.sf(days // 2, days, truth)) + ties / 2


def right_by_blurred(chances: Chances, days: int) -> float:
    """Probability that the best guess of a bit from `days` RAPPOR reports is right.

    The permanent bit is blurred again in each report.
    """
    ones = np.arange(days + 1)
    binomials = [
        stats.binom.pmf(ones, days, chance) for chance in (chances.when_zero, chances.when_one)
    ]
    low = chances.fake / 2
    laws = (
        (1 - low) * binomials[0] + low * binomials[1],
        low * binomials[0] + (1 - low) * binomials[1],
    )
    return float(np.maximum(*laws).sum() / 2)


def run_daily(work: RunInputs) -> Results:
    """Share of right guesses, and ε, by days.

    They are shown for fresh answers, a memoised one, a memoised one that is randomised again, and a
    small round.
    """
    shown, days, yes = work["shown days"], work["days"], work["yes"]
    one_day = corrupted_bounds(YES_NO, Setting(1, 1), 0.0).epsilon
    truth = math.exp(one_day) / (1 + math.exp(one_day))
    fresh = Chances(0.0, 1 - truth, truth)
    memoised = Chances(2 * (1 - truth), 0.0, 1.0)
    rappor = Chances(0.5, 0.25, 0.75)
    rows: list[Row] = []
    users = work.runs or work["runs"]
    for day in shown:
        for name, right in {
            "fresh answers": majority(truth, day),
            "memoised answer": truth,
            "RAPPOR: memoised and blurred": right_by_blurred(rappor, day),
        }.items():
            rows.append(
                Row(f"{name}, right guesses", Kind.EXACT, "days", day, "right guesses", right)
            )
        certified = compose_epsilon([Round(YES_NO, Setting(work["n"], work["n"]), day)], work["δ"])
        for name, epsilon in {
            "fresh answers": day * log_ratio(fresh, 1),
            "memoised answer": log_ratio(memoised, day),
            "RAPPOR: memoised and blurred": log_ratio(rappor, day),
        }.items():
            rows.append(Row(f"{name}, ε", Kind.EXACT, "days", day, "ε", epsilon))
        rows.append(Row("shuffled among n, certified", Kind.CERTIFIED, "days", day, "ε", certified))
    for name, chances in (
        ("fresh answers", fresh),
        ("memoised answer", memoised),
        ("RAPPOR", rappor),
    ):
        rows += _simulate(name, chances, shown, users, work.generator(name))
    admitted, refusal = days_within_budget(work["n"], work["budget"], work["δ"], days)
    rows.append(
        Row("days that the ledger admits", Kind.EXACT, "ε budget", work["budget"], "days", admitted)
    )
    ratio = (truth / (1 - truth)) ** (yes - (days - yes))
    exactly = float(stats.binom.pmf(yes, days, 1 - truth))
    rows.append(
        Row("chance of so many yes", Kind.PUBLISHED, "days", days, "probability", PRINTED_CHANCE)
    )
    rows.append(Row("ε of all days, printed", Kind.PUBLISHED, "days", days, "ε", PRINTED_EPSILON))
    for name, value in {
        "exactly so many yes of a no": exactly,
        "at least so many yes of a no": float(stats.binom.sf(yes - 1, days, 1 - truth)),
        "likelihood of no against yes": 1 / ratio,
    }.items():
        rows.append(Row(name, Kind.EXACT, "days", days, "probability", value))
    wrong = abs(PRINTED_CHANCE - exactly) > 0.01 * exactly
    total = days * one_day
    claims = (
        PaperClaim(f"'{yes} of {days} yes has probability 1.39E-24'",
        Verdict.FALSE if wrong else Verdict.SOUND,
              f"that is the ratio of likelihoods, {1 / ratio:.3g}; the "
              f"probability is {exactly:.3g}", PRINTED_CHANCE),
        judge(f"ε of {days} rounds of ln 3", PRINTED_EPSILON, certified=total,
        attained=total * (1 - 1e-12),
              why="pure ε adds up, and one sequence of answers attains it"),
        judge("'the adversary can not learn anything new' from a memoised answer", one_day,
              certified=log_ratio(memoised, days), attained=log_ratio(memoised, days),
              why="ε stays that of one day"),
    )  # fmt: skip
    return Results(tuple(rows), claims, (f"the ledger: {refusal}",) if refusal else ())


def _simulate(
    name: str, chances: Chances, shown: tuple[int, ...], users: int, generator: np.random.Generator
) -> list[Row]:
    """Rows of right guesses about simulated users, half of whom hold yes; ties are a coin toss."""
    values = np.arange(users, dtype=np.int64) % 2
    filters_of_bit = np.array([[[False], [True]]])
    clients = RapporClients(chances, filters_of_bit, np.zeros(users, dtype=np.int64), generator)
    ones, rows = np.zeros(users), []
    for day in range(1, max(shown) + 1):
        ones += clients.reports(values)[:, 0]
        if day in shown:
            lead = 2 * ones - day
            guess = np.where(lead == 0, generator.random(users) < 0.5, lead > 0)
            right = float((guess == values).mean())
            reach = float(stats.norm.isf(0.025)) * math.sqrt(right * (1 - right) / users)
            rows.append(
                Row(f"{name}, measured", Kind.MEASURED, "days", day, "right guesses", right,
                right - reach,
                    right + reach)
            )  # fmt: skip
    return rows


def draw_daily(result: Results) -> Figure:
    """Plot right guesses on the left, and ε on the right."""
    figure, axes = drawing.panels(1, 2, width=10.4, height=4.8)
    names = ("fresh answers", "memoised answer", "RAPPOR: memoised and blurred")
    for index, name in enumerate(names):
        line(axes[0, 0], result, f"{name}, right guesses", label=name, color=CYCLE[index])
        line(axes[0, 1], result, f"{name}, ε", label=name, color=CYCLE[index])
        days, right = result.series(f"{name.split(':', maxsplit=1)[0]}, measured")
        axes[0, 0].plot(
            days, right, "o", ms=4, mfc="white", color=CYCLE[index], label=f"{name}, measured"
        )
    line(axes[0, 1], result, "shuffled among n, certified", label=
        "fresh, 20 users shuffled, certified",
         color=COLOURS[Kind.EXACT], ls="--")  # fmt: skip
    axes[0, 1].plot(
        [100], [PRINTED_EPSILON], "*", ms=10, color=COLOURS[Kind.PUBLISHED], label="published: 110"
    )
    axes[0, 0].set(xscale="log", xlabel="days", ylabel="guesses that are right", ylim=(0.5, 1.02),
                   title="One yes/no question every day: who guesses it?")  # fmt: skip
    axes[0, 1].set(
        xscale="log",
        yscale="log",
        xlabel="days",
        ylabel="ε (nats)",
        title="... and what it has cost",
    )
    drawing.legend_below(figure, columns=3)
    return figure


# A run of the whole system

SET_BITS: Final = 145
"""Bits set in the report of figure 9.2, of 256."""


def set_bits_tail(chances: Chances, bits: int, hashes: int, least: int) -> float:
    """Probability that a report has at least `least` bits set."""
    low, high = chances.report_chances
    true = stats.binom.pmf(np.arange(hashes + 1), hashes, high)
    rest = stats.binom.sf(least - 1 - np.arange(hashes + 1), bits - hashes, low)
    return float(true @ rest)


def run_rappor(work: RunInputs) -> Results:
    """Set bits of one report, ε by number of reports, and decoding of many users' reports."""
    bits, hashes, fake, when_one = work["k"], work["h"], work["f"], work["q"]
    rows: list[Row] = [
        Row("set bits in figure 9.2", Kind.PUBLISHED, "p", work["p"], "set bits", SET_BITS)
    ]
    tails = {}
    for zero in (work["p"], work["p that fits"]):
        chances = Chances(fake, zero, when_one)
        low, high = chances.report_chances
        rows.append(
            Row("set bits, mean", Kind.EXACT, "p", zero, "set bits",
            hashes * high + (bits - hashes) * low)
        )  # fmt: skip
        tails[zero] = set_bits_tail(chances, bits, hashes, SET_BITS)
        rows.append(
            Row("so many set bits or more", Kind.EXACT, "p", zero, "probability", tails[zero])
        )
        report = RapporReport(hashes, fake, zero, when_one)
        permanent = rappor_epsilon(RapporPermanent(hashes, fake))
        for days in work["reports"]:
            settings = {"p": zero}
            exact = pair_epsilon(chances, hashes, days)
            rows += [
                Row(f"all reports, p = {zero:g}", Kind.EXACT, "reports", days, "ε", exact,
                settings=settings),
                Row(f"kept filter, p = {zero:g}", Kind.CERTIFIED, "reports", days, "ε", permanent,
                settings=settings),
                Row(f"one report's ε times their number, p = {zero:g}", Kind.EXACT, "reports",
                days, "ε",
                    days * rappor_epsilon(report), settings=settings),
            ]  # fmt: skip
    misprint = tails[work["p"]] < 1e-6 and tails[work["p that fits"]] > 0.01
    claims = (
        PaperClaim(f"figure 9.2: {SET_BITS} of {bits} bits set at p = {work['p']:g}",
              Verdict.NOT_REPRODUCED if misprint else Verdict.SOUND,
              f"chance of so many {tails[work['p']]:.1e}; at p = {work['p that fits']:g} it is "
              f"{tails[work['p that fits']]:.2g}: a misprint of p", SET_BITS),
    )  # fmt: skip
    rows += _decode_rows(work)
    return Results(tuple(rows), claims)


def _decode_rows(work: RunInputs) -> list[Row]:
    """Rows of true and decoded shares of the strings, over several runs."""
    users, cohorts, strings = work["n"], work["cohorts"], work["strings"]
    chances = Chances(work["f"], work["p"], work["q"])
    candidates = filters(
        [f"string {index}" for index in range(strings)], work["k"], work["h"], cohorts
    )
    frequent = work["held"]
    shares = 1 / np.arange(1.0, frequent + 1)
    counts = np.round(users * shares / shares.sum()).astype(np.int64)
    counts[0] += users - counts.sum()
    values = np.repeat(np.arange(frequent), counts)
    penalty = usual_penalty(chances, users, candidates)
    shares_by_run = []
    for run in range(work.runs or work["runs"]):
        generator = work.generator("decoding", run)
        groups = generator.integers(cohorts, size=users)
        reports = RapporClients(chances, candidates, groups, generator).reports(values)
        shares_by_run.append(
            users * decode(bit_shares(chances, reports, groups, cohorts), candidates, penalty)
        )
    decoded = np.stack(shares_by_run)
    rows = []
    for index in range(strings):
        low, high = np.percentile(decoded[:, index], [5, 95]).tolist()
        true = float(counts[index]) if index < frequent else 0.0
        rows.append(Row("true count", Kind.EXACT, "string", index + 1, "users", true))
        rows.append(
            Row(
                "decoded count",
                Kind.MEASURED,
                "string",
                index + 1,
                "users",
                float(decoded[:, index].mean()),
                low,
                high,
            )
        )
    return rows


def draw_rappor(result: Results) -> Figure:
    """Plot ε by number of reports, and the decoded counts."""
    figure, axes = drawing.panels(1, 2, width=10.4, height=4.8)
    left, right = axes[0]
    zeros = list(dict.fromkeys(row.settings["p"] for row in result.rows if "p" in row.settings))
    for index, zero in enumerate(zeros):
        line(left, result, f"all reports, p = {zero:g}", label=
            f"all reports together, exact, p = {zero:g}",
             color=CYCLE[2 * index + 1])  # fmt: skip
        line(left, result, f"one report's ε times their number, p = {zero:g}",
             label=f"ε of one, times their number, p = {zero:g}", color=CYCLE[2 * index + 1],
             ls=":")  # fmt: skip
    line(left, result, f"kept filter, p = {zeros[0]:g}", label="certified: the kept filter")
    left.set(xscale="log", yscale="log", xlabel="reports of one user", ylabel="ε (nats)",
             title="Many reports never cost more than the kept filter")  # fmt: skip
    line(
        right,
        result,
        "decoded count",
        label="decoded: mean, and 5 to 95% of runs",
        lw=0,
        marker="o",
        ms=4,
    )
    strings, true = result.series("true count")
    right.step(strings, true, where="mid", color=COLOURS[Kind.EXACT], lw=1.2, label="true count")
    right.set(
        xlabel="candidate string, by rank",
        ylabel="users",
        title="Decoding by lasso and least squares",
    )
    drawing.legend_below(figure, columns=3)
    return figure


_DAYS: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)

ENTRIES: Final = (
    Experiment(
        id="003-e4", source="Wang, lecture 9, section 9.1.1",
        question="What does the same question cost when it is put every day, and what stops it?",
        parameters={"ε": math.log(3), "days": 100, "yes": 75, "shown days": _DAYS, "n": 20,
        "δ": 1e-3, "budget": 3.0,
                    "runs": 20_000},
        quick={"shown days": (1, 10, 100), "runs": 2000}, inferred=("n", "δ", "budget"),
        run=run_daily, draw=draw_daily, seconds=3, seconds_quick=1,
        verdicts=frozenset({Verdict.FALSE, Verdict.SOUND}),
    ),
    Experiment(
        id="003-e5", source="Wang, lecture 9, figures 9.2 and 9.3",
        question="What does a run of RAPPOR look like, and what do one and all of a user's "
                 "reports cost?",
        parameters={"k": 256, "h": 4, "p": 0.25, "q": 0.75, "f": 0.5, "p that fits": 0.5,
                    "reports": (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100), "n": 100_000,
                    "cohorts": 8, "strings": 40,
                    "held": 20, "runs": 10},
        quick={"n": 10_000, "cohorts": 4, "runs": 2}, inferred=("p that fits", "n", "cohorts",
        "strings", "held"),
        run=run_rappor, draw=draw_rappor, seconds=10, seconds_quick=1.2,
        verdicts=frozenset({Verdict.NOT_REPRODUCED}),
    ),
)  # fmt: skip
