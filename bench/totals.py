"""Sums of unknown range: errors of one round of magnitudes, of two rounds, of a trusted party.

    python bench/totals.py adult_ints.csv.gz

Columns of the UCI Adult data and generated amounts. Two rounds spend half of ε on the doublings of
the largest values, by the same rule for the cut, and half on the sum of clipped values (node-sum).
A trusted party knows the largest value. Errors are medians, relative to the true sum.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.choosing import calibrate
from shuffledp_core.answering.estimates import Present
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.answering.totals import FieldTotals, totals_of
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.mechanisms import NodeHistogram, NodeSum
from shuffledp_core.questions import AmountField, RecordSchema, total
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import Setting

EPSILON: Final = 1.0
DELTA: Final = 1e-6
PARTS: Final = (1, 2, 4, 8)


def simulate_round(
    values: NDArray[np.int64], parts: int, epsilon: float, rng: np.random.Generator
) -> FieldTotals:
    """One simulated round over these amounts; rounding is drawn with numpy, dummies exactly."""
    wording = total(RecordSchema({"amount": AmountField(1, parts=parts)}), "amount").wording
    users = len(values)
    setting = Setting(users, users)
    plan = calibrate(
        "node-histogram", epsilon=epsilon, delta=DELTA, setting=setting, symbols=wording.size
    )
    spec = cast("NodeHistogram", plan.spec)
    symbols = cast("SymbolMagnitudes", wording.axes[0].symbols)
    numbers = np.array([symbols.multiple(at) for at in range(symbols.size)], dtype=np.float64)
    low = np.searchsorted(numbers, values, "right") - 1
    high = np.minimum(low + 1, numbers.size - 1)
    share = (values - numbers[low]) / np.maximum(numbers[high] - numbers[low], 1)
    drawn = np.where(rng.random(users) < share, high, low)
    counts = np.bincount(drawn, minlength=spec.alphabet)
    counts += spec.counts_of(spec.sample_dummies(RandomIntegers()))
    answer = estimate(spec, counts, users, nodes=1)
    return cast("FieldTotals", totals_of(spec, answer, wording, Present(Fraction(users), 1)))


def add_clipped(values: NDArray[np.int64], cut: int, rng: np.random.Generator) -> float:
    """The sum of values clipped at the cut, from a node-sum round with half of ε."""
    users = len(values)
    plan = calibrate(
        "node-sum", epsilon=EPSILON / 2, delta=DELTA / 2, setting=Setting(users, users),
        max_value=cut,
    )  # fmt: skip
    spec = cast("NodeSum", plan.spec)
    noise = 0.0
    for weight, rate in zip(spec.weights, spec.rates, strict=True):
        first, second = rng.geometric(-np.expm1(-float(rate)), 2)
        noise += weight * float(first - second)
    return float(np.minimum(values, cut).sum()) + noise


def compare(name: str, values: NDArray[np.int64], rounds: int) -> Iterator[str]:
    """A table row for one data set: errors of one round, of two rounds, and of a trusted party."""
    rng = np.random.default_rng(30)
    truth = float(values.sum())
    cells = []
    for parts in PARTS:
        answers = [simulate_round(values, parts, EPSILON, rng) for _ in range(rounds)]
        sums = np.array([answer.groups[0].value for answer in answers])
        cells.append(float(np.median(np.abs(sums - truth))) / truth)
    twice = [
        add_clipped(values, int(simulate_round(values, 1, EPSILON / 2, rng).cut), rng)
        for _ in range(rounds)
    ]
    cells.append(float(np.median(np.abs(np.array(twice) - truth))) / truth)
    trusted = np.log(2) * float(values.max()) / EPSILON  # median size of Laplace noise
    cells.append(trusted / truth)
    yield f"| {name} | {len(values):,} | {values.max():,} | "
    yield " | ".join(f"{100 * cell:.2f}%" for cell in cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="adult_ints.csv.gz")
    parser.add_argument("--rounds", type=int, default=101)
    options = parser.parse_args()
    with gzip.open(options.data, "rt") as stream:
        rows = list(csv.DictReader(stream))
    rng = np.random.default_rng(31)
    columns = {
        name: np.array([int(row[name]) for row in rows])
        for name in ("capital-gain", "hours-per-week")
    }
    generated = np.rint(np.exp(rng.normal(8, 1.5, 10_000))).astype(np.int64)
    many = np.rint(np.exp(rng.normal(8, 1.0, 300_000))).astype(np.int64)
    cases = (
        ("capital gain", columns["capital-gain"]),
        ("capital gain", columns["capital-gain"][:10_000]),
        ("hours", columns["hours-per-week"][:10_000]),
        ("log-normal, σ = 1.5", generated),
        ("log-normal, σ = 1", many),
    )
    parts = " | ".join(f"{number} part{'s' if number > 1 else ''}" for number in PARTS)
    print(f"| amounts | people | largest | {parts} | two rounds | trusted |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, values in cases:
        print("".join(compare(name, values, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
