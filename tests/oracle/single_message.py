"""Sums in almost a single message (Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021) beside split-mix:
docs/adr/0014.

`python tests/oracle/single_message.py [FILE]` prints the table of that page, and draws its figure.
A user sends its value as one number, and all users together make noise: ones and minus ones whose
sum is a discrete Laplace noise, and groups of numbers with sum 0 that hide which numbers are
values: pairs {1, -1}, and triples {j, -⌊j/2⌋, -⌈j/2⌉}.

Two sets of rates of that noise are counted: `published`, those of the paper's algorithm; and
`certified`, ours, with Poisson counts, whose δ is bounded from above here. The proof is on the
page."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_two_probability_mass_functions,
)
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import nbinom, poisson

from shuffledp_core.mechanisms import SplitMix
from shuffledp_privacy.calibration.calibrate import Target, calibrate

Floats = NDArray[np.float64]

LARGEST: Final = 20
EPSILON: Final = 1.0
DELTA: Final = 1e-6
CROWDS: Final = (2_000, 10_000, 100_000, 1_000_000)

HIDING: Final = (0.1, 0.5)
"""Share of ε that is spent on hiding the messages; the rest makes the noise of the sum."""

PAIR: Final = 1
"""Stands for the pairs {1, -1} among the groups."""

_STEP: Final = 1e-5
"""Grid of privacy losses, nats; rounded up."""

_FAR: Final = 14.0
"""Standard deviations of a Poisson count beyond which its mass, below 1e-40, counts as lost."""


@dataclass(frozen=True)
class Parts:
    """One number as groups: value = Σ triples[j] {j, -⌊j/2⌋, -⌈j/2⌉} + ones {1} - minus_ones {-1},
    as multisets."""

    triples: Mapping[int, int]
    ones: int
    minus_ones: int


@cache
def parts(value: int) -> Parts:
    """The number taken apart down to ones: j is a triple less its two halves, again and again."""
    triples: Counter[int] = Counter()
    ones = minus_ones = 0
    left = [(value, 1)] if value else []
    while left:
        number, sign = left.pop()
        if number == 1:
            ones += sign
        elif number == -1:
            minus_ones -= sign
        else:
            triples[number] += sign
            half = -(number // 2)
            left += [(half, -sign), (-number - half, -sign)]
    return Parts(triples, ones, minus_ones)


def groups(largest: int) -> list[int]:
    """The kinds of groups that values up to `largest` are taken apart into; the pairs first."""
    return [PAIR, *sorted({j for value in range(1, largest + 1) for j in parts(value).triples})]


def change(first: int, second: int, kinds: list[int]) -> list[tuple[int, int]]:
    """By how much the number of each kind of group seems to grow from one value to the other:
    (place of the kind, by).

    Of the pairs it is by something between the two that stand here, depending on the noisy sum.
    """
    one, other = parts(first), parts(second)
    moved = [
        (place, other.triples.get(j, 0) - one.triples.get(j, 0))
        for place, j in enumerate(kinds)
        if j != PAIR
    ]
    pairs = [(0, other.minus_ones - one.minus_ones), (0, one.ones - other.ones)]
    return [(place, by) for place, by in (*pairs, *moved) if by]


def shape(largest: int) -> Floats:
    """Rates of the groups, up to a factor, that hide all changes for the fewest messages, were the
    counts Gaussian.

    Only a choice: what it costs is computed from the counts' own law.
    """
    kinds = groups(largest)
    squares = np.zeros((largest * (largest + 1) // 2, len(kinds)))
    changes = [(a, b) for b in range(largest + 1) for a in range(b)]
    for row, (a, b) in enumerate(changes):
        for place, by in change(a, b, kinds):
            squares[row, place] = max(squares[row, place], float(by) ** 2)

    def cost(logs: Floats, norm: int) -> float:
        spent = (squares / np.exp(logs)).sum(axis=1)
        worst = spent.max()
        ratio = np.log(((spent / worst) ** norm).sum()) / norm
        return float(np.log((weights(kinds) * np.exp(logs)).sum()) + np.log(worst) + ratio)

    logs = np.log(np.sqrt(squares.max(axis=0)))
    for norm in (10, 50, 200):
        logs = minimize(cost, logs, args=(norm,), method="L-BFGS-B").x
    rates: Floats = np.exp(logs)
    return rates * float((squares / rates).sum(axis=1).max())


def weights(kinds: list[int]) -> Floats:
    """Messages of a group of each kind."""
    return np.array([2.0 if kind == PAIR else 3.0 for kind in kinds])


@cache
def _loss(rate: float, by: int) -> PrivacyLossDistribution:
    """Privacy loss of a Poisson count that seems to grow by so many, rounded up."""
    low = max(0, math.floor(rate - _FAR * math.sqrt(rate) - abs(by)))
    numbers = np.arange(low, math.ceil(rate + _FAR * math.sqrt(rate) + abs(by)) + 40)
    first = poisson.logpmf(numbers - max(0, -by), rate)
    second = poisson.logpmf(numbers - max(0, by), rate)
    return from_two_probability_mass_functions(
        dict(enumerate(first.tolist())),
        dict(enumerate(second.tolist())),
        value_discretization_interval=_STEP,
        symmetric=False,
    )


def delta_of(rates: Floats, largest: int, epsilon: float, values: list[tuple[int, int]]) -> float:
    """An upper bound on the δ at which groups with these rates hide each of these changes of a
    value, with this ε."""
    kinds, worst = groups(largest), 0.0
    for first, second in values:
        total: PrivacyLossDistribution | None = None
        for place, by in change(first, second, kinds):
            one = _loss(float(rates[place]), by)
            total = one if total is None else total.compose(one)
        if total is not None:
            worst = max(worst, float(total.get_delta_for_epsilon(epsilon)))
    return worst


def hardest(rates: Floats, largest: int, number: int) -> list[tuple[int, int]]:
    """The changes of a value that are hidden worst, were the counts Gaussian."""
    kinds = groups(largest)

    def spent(pair: tuple[int, int]) -> float:
        return sum(by**2 / float(rates[place]) for place, by in change(*pair, kinds))

    return sorted(((a, b) for b in range(largest + 1) for a in range(b)), key=spent, reverse=True)[
        :number
    ]


def certified(hiding: float, largest: int = LARGEST, delta: float = DELTA) -> Floats:
    """Rates that hide every change of a value with ε = `hiding` at this δ, by few messages.

    Checked for all changes.

    Raises:
        ValueError: the search found none.
    """
    unit = shape(largest)
    few, many = math.log(10.0) - 2 * math.log(hiding), math.log(100.0) - 2 * math.log(hiding)
    chosen = hardest(unit, largest, 2)
    for _ in range(9):
        middle = (few + many) / 2
        if delta_of(unit * math.exp(middle), largest, hiding, chosen) <= delta:
            many = middle
        else:
            few = middle
    rates = unit * math.exp(many) * 1.01
    everything = [(a, b) for b in range(largest + 1) for a in range(b)]
    if delta_of(rates, largest, hiding, everything) > delta:
        raise ValueError(
            "another change of a value than the chosen ones is hidden worse; choose more of them"
        )
    return rates


def published(hiding: float, largest: int = LARGEST, delta: float = DELTA) -> float:
    """Messages of the groups by the paper's algorithm, expected, of all users.

    The least over ε1 + ε2 = `hiding`.
    """
    bound = largest * (math.ceil(math.log(largest)) + 1)
    numbers = [j for j in range(-largest, largest + 1) if j not in (0, -1)]

    def messages(first: float) -> float:
        pairs = 2 * 3 * (1 + math.log(2 / delta)) / math.expm1(0.2 * first / largest)
        size = 3 * (1 + math.log((2 * largest - 1) / (delta / 2)))
        second = hiding - first
        return pairs + sum(
            (2 if j == 1 else 3) * size / math.expm1(0.1 * second / math.ceil(bound / abs(j)))
            for j in numbers
        )

    return min(messages(share * hiding) for share in np.linspace(0.01, 0.5, 50).tolist())


def of_the_sum(epsilon: float, largest: int = LARGEST) -> tuple[float, float]:
    """Ones and minus ones that make the noise of the sum, expected, of all users.

    And its standard deviation.
    """
    ratio = math.exp(-epsilon / largest)
    return 2 * ratio / (1 - ratio), math.sqrt(2 * ratio) / (1 - ratio)


def fixed(users: int, epsilon: float, group_messages: float, delta: float = DELTA) -> int:
    """Messages of each user if all send equally many, and what does not fit is lost with
    probability δ/10 at most.

    A user's ones and minus ones are NB(1/n, 1 - e^(-ε/k)) each, its groups a Poisson count; all of
    three messages, say."""
    chance = delta / (30 * users)
    share = nbinom.isf(chance, 1 / users, -math.expm1(-epsilon / LARGEST))
    return 1 + 2 * int(share) + 3 * int(poisson.isf(chance, group_messages / 3 / users))


def pieces(users: int) -> tuple[int, float]:
    """What split-mix needs for the same: pieces of each user, and its standard deviation."""
    spec = calibrate(
        SplitMix.kind,
        Target(max_value=LARGEST, epsilon=EPSILON, delta=DELTA, users=users, honest=users),
    )
    noise = math.exp(-float(spec.noise_epsilon))  # type: ignore[attr-defined] # a sum's
    return spec.messages_per_user, math.sqrt(2 * noise) / (1 - noise)


def show(ours: Mapping[float, float], file: Path | None) -> None:
    """Prints the table for these totals of certified group messages by share of ε, and draws it."""
    columns: dict[str, list[float]] = {"split-mix": [pieces(users)[0] for users in CROWDS]}
    say = sys.stdout.write
    say(
        f"  split-mix: sd {pieces(CROWDS[0])[1]:.1f}; values 0..{LARGEST}, ε {EPSILON:g}, δ "
        f"{DELTA:g}\n"
    )
    for hiding, total in ours.items():
        ones, deviation = of_the_sum(EPSILON - hiding)
        theirs = published(hiding)
        say(
            f"  {hiding:g} of ε hides: sd {deviation:.1f}; messages of groups {theirs:,.0f}, ours "
            f"{total:,.0f}\n"
        )
        columns[f"published, sd {deviation:.0f}"] = [
            1 + (ones + theirs) / users for users in CROWDS
        ]
        columns[f"certified, sd {deviation:.0f}"] = [1 + (ones + total) / users for users in CROWDS]
        columns[f"certified, all send equally many, sd {deviation:.0f}"] = [
            fixed(users, EPSILON - hiding, total) for users in CROWDS
        ]
    say("  " + " ".join(f"{users:>11,}" for users in CROWDS) + "\n")
    for name, row in columns.items():
        say("  " + " ".join(f"{value:>11,.1f}" for value in row) + f" {name}\n")
    if file is not None:
        draw(columns, file)


def draw(columns: Mapping[str, list[float]], file: Path) -> None:
    """Draws messages a user over the size of the crowd."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for name, row in columns.items():
        fat = name == "split-mix"
        style = "-" if fat else ":" if "equally" in name else "--" if "published" in name else "-."
        colour = "black" if fat else "tab:orange" if name.endswith("31") else "tab:blue"
        axes.loglog(
            CROWDS,
            row,
            style,
            color=colour,
            label=name,
            linewidth=3 if fat else 1.6,
            marker="o",
            markersize=4,
        )
    axes.set_xlabel("honest users")
    axes.set_ylabel("messages a user (expected, unless said)")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(file, dpi=110)
    plt.close(figure)


def main() -> None:
    """Some minutes."""
    heavy = weights(groups(LARGEST))
    totals = {hiding: float((heavy * certified(hiding)).sum()) for hiding in HIDING}
    show(totals, Path(sys.argv[1]) if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
