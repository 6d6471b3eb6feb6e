"""Composition: the joint guarantee of several rounds with the same people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shuffledp.guarantees import local_of, number, one_round
from shuffledp.notebook import data_frame, html_table
from shuffledp.plans import Plan, Planned, as_plan
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_privacy.bounds import Bounds, CorruptedBounds, Setting, epsilon_bounds
from shuffledp_privacy.rounds.composition import Round, compose_bounds
from shuffledp_privacy.rounds.remembered import remembered_by


@dataclass(frozen=True, slots=True)
class Composition:
    """The joint guarantee of several rounds, with all parameters fixed in advance.

    Each round has an honest node. ε is in nats over all rounds, per unit of distance under metric
    adjacency.

    Attributes:
        parts: each different round, as a plan of one round, and how often it is run.
        delta: the δ, over all rounds, at which ε is stated.
        certified: ε, never below the truth; None if no finite bound is known.
        attained: ε that a single one of the rounds reaches; the truth for all lies above it.
        corrupted: ε_L over all rounds when every node is corrupt; None for no bound.
        corrupted_delta: δ of `corrupted`.
        basis: propositions behind the numbers, in words.
    """

    parts: tuple[tuple[Plan, int], ...]
    delta: float
    certified: float | None
    attained: float
    corrupted: float | None
    corrupted_delta: float
    basis: tuple[str, ...]

    @property
    def rounds(self) -> int:
        """Total number of rounds."""
        return sum(times for _, times in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """The keys of `shuffledp compose --format json`."""
        return {
            "rounds": self.rounds,
            "delta": self.delta,
            "epsilon": {"certified": self.certified, "attained": self.attained},
            "corrupted": {"epsilon": self.corrupted, "delta": self.corrupted_delta},
            "parts": [{**_part(plan), "times": times} for plan, times in self.parts],
            "basis": list(self.basis),
        }

    def to_pandas(self) -> Any:
        """One row for each different round; raises `NotInstalledError` without pandas."""
        return data_frame(
            {
                "mechanism": [plan.kind for plan, _ in self.parts],
                "users": [plan.setting.users for plan, _ in self.parts],
                "honest": [plan.setting.honest for plan, _ in self.parts],
                "times": [times for _, times in self.parts],
            }
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """The bounds in words: name, value, remark."""
        unit = f"nats{self.parts[0][0].per_unit}"
        return [
            *(
                (plan.kind, f"{times:,} ×", f"{plan.setting.users:,} users")
                for plan, times in self.parts
            ),
            ("δ", f"{self.delta:g}", f"over {self.rounds:,} round{'s' if self.rounds > 1 else ''}"),
            ("ε certified", number(self.certified), f"{unit}; true for every dataset"),
            ("ε attained", number(self.attained), "by one round alone: the truth lies between"),
            (
                "ε_L",
                number(self.corrupted),
                f"if every node is corrupt (δ = {self.corrupted_delta:g})",
            ),
        ]

    def __str__(self) -> str:
        bounds = f"{number(self.attained)} <= ε <= {number(self.certified)} at δ = {self.delta:g}"
        return f"{self.rounds:,} rounds: {bounds}; ε_L = {number(self.corrupted)}"

    def _repr_html_(self) -> str:
        return html_table("composition", self.rows(), self.basis)


def _part(plan: Plan) -> dict[str, Any]:
    return {
        name: value for name, value in plan.to_dict().items() if name not in {"rounds", "delta"}
    }


def compose(
    plans: Iterable[Planned], setting: Setting | None = None, *, delta: float
) -> Composition:
    """Compose all rounds: their joint guarantee for the same people.

    Privacy loss distributions are convolved, or guarantees added where that is less (Koskela et al.
    2021; Zhu et al. 2022; docs/accounting.md, propositions C1 to C7). ε is never below the truth.

    What a later round asks may depend on earlier answers, its parameters may not: for those see the
    accountant's ledger. Equal rounds share one curve; each different round adds up to some seconds
    of computation. Rounds that share a response which devices keep count once for each population
    of each deployment that their certificates name (K14); those that are only planned count as one
    population's.

    Args:
        plans: at least one plan, in any order; a plan of several rounds counts once for each of
            them.
        setting: setting of every round, in place of their own.
        delta: over all rounds, 0 or 1e-12 <= δ < 1; the plans' own δ is ignored.

    Raises:
        UsageError: no rounds, rounds of different adjacency, a round whose nodes are all corrupt,
            or a value outside its range.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
    >>> group = sdp.Setting(users=10_000, honest=9_500)
    >>> year = sdp.compose([spec] * 52, group, delta=1e-6)
    >>> once = sdp.certify(spec, group, delta=1e-6)
    >>> year.rounds, once.certified < year.certified < 52 * once.certified
    (52, True)
    """
    if not isinstance(plans, Iterable):
        raise UsageError(f"plans must be a list with one plan per round, not {plans!r}")
    times: Counter[Plan] = Counter()
    # Hashed as they are: 52 times one plan is one plan.
    for planned_round, count in Counter(plans).items():
        plan = as_plan(planned_round, setting, delta=delta)
        if plan.all_corrupt:
            raise UsageError(
                f"every node of a {plan.kind} round is corrupt, so nothing is shuffled: add up "
                "eps_L instead"
            )
        times[Plan(plan.spec, plan.setting, delta, scope=_scope_that_counts(plan))] += (
            plan.rounds * count
        )
    rounds = [
        Round(plan.spec, plan.setting, count, scope=plan.scope) for plan, count in times.items()
    ]
    if not rounds:
        raise UsageError("composition needs at least one round")
    local = local_of(rounds, delta)
    bounds = _shuffled_bounds(times, rounds, local)
    return Composition(
        parts=tuple(times.items()),
        delta=delta,
        certified=bounds.certified if math.isfinite(bounds.certified) else None,
        attained=bounds.attained,
        corrupted=local.epsilon if math.isfinite(local.epsilon) else None,
        corrupted_delta=local.delta,
        basis=(
            *bounds.basis,
            *(f"all nodes corrupt: {line}" for line in local.basis),
        ),
    )


def _scope_that_counts(plan: Plan) -> str:
    """Population in which the rounds share memoised responses; "" if no round memoises.

    With "", rounds of several populations are equal, and share one curve.
    """
    return "" if remembered_by(plan.spec) is None else plan.scope


def _shuffled_bounds(times: Counter[Plan], rounds: list[Round], local: CorruptedBounds) -> Bounds:
    first = next(iter(times))
    try:
        return (
            one_round(first, local) if times.total() == 1 else compose_bounds(rounds, first.delta)
        )
    except CannotCertify as refusal:
        words = f"no finite epsilon can be certified: {refusal}"
        return Bounds(math.inf, _largest_attained(rounds, first.delta), None, (words,))


def _largest_attained(rounds: list[Round], delta: float) -> float:
    """The largest attained ε of any single round; 0 if none is known."""
    attained = 0.0
    for item in rounds:
        try:
            # All rounds together show what this one shows, and more.
            attained = max(attained, epsilon_bounds(item.spec, item.setting, delta).attained)
        except (CannotCertify, UsageError):
            continue
    return attained
