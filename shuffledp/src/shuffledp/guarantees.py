"""The guarantee of a plan: upper and lower bound, ε_L, and their basis. Pure.

Every number says in which direction it may be off: `certified` is never below the truth, `attained`
never above it. docs/accounting.md has the propositions that `basis` names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from shuffledp.notebook import Row, data_frame, html_table
from shuffledp.plans import Plan, Planned, as_plan, plan_rows
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import Answers, Spec
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    corrupted_bounds,
    epsilon_bounds,
    node_noise_of,
    published_lines,
    standard_error,
)
from shuffledp_privacy.numerics.rounding import ELEMENTARY, up
from shuffledp_privacy.rounds.composition import Round, at_common_distance, compose_epsilon
from shuffledp_privacy.rounds.remembered import remembered_by
from shuffledp_privacy.splitting import among_rounds


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of one mechanism in one setting.

    ε is in nats over all rounds of the plan, per unit of distance under metric adjacency.

    Attributes:
        plan: the plan that the guarantee is about.
        certified: ε, never below the truth; None if no finite bound is known.
        attained: ε that a concrete pair of datasets reaches, never above the truth; None if
            unknown.
        published: what the paper's formula prints, for comparison only; None if it has none for
            this plan.
        corrupted: ε_L over all rounds when every node is corrupt, never below the truth; None for
            no bound.
        corrupted_delta: δ of `corrupted`.
        messages: per user and round; None if the spec does not say.
        error: standard error of one round's estimate, of the sum or of one count at worst, with
            the noise of all the plan's nodes; None without an estimator.
        error_of_one_node: the error if only one node adds its noise; `error` where nodes add none.
        basis: propositions behind the numbers, and notes, in words.
        formula: source of `published`, and its faults; "" without one.
    """

    plan: Plan
    certified: float | None
    attained: float | None
    published: float | None
    corrupted: float | None
    corrupted_delta: float
    messages: int | None
    error: float | None
    error_of_one_node: float | None
    basis: tuple[str, ...]
    formula: str = ""

    @property
    def delta(self) -> float:
        """δ at which ε is stated, over all rounds."""
        return self.plan.delta

    def to_dict(self) -> dict[str, Any]:
        """The keys of `shuffledp certify --format json`; infinite and unknown numbers are None."""
        return {
            **self.plan.to_dict(),
            "epsilon": {
                "certified": self.certified,
                "attained": self.attained,
                "published": self.published,
            },
            "corrupted": {"epsilon": self.corrupted, "delta": self.corrupted_delta},
            "messages_per_user": self.messages,
            "standard_error": self.error,
            "standard_error_of_one_node": self.error_of_one_node,
            "basis": [*self.basis, *published_lines(self.formula)],
        }

    def to_pandas(self) -> Any:
        """One row with the numbers, to be concatenated with others.

        Raises `NotInstalledError` without pandas.
        """
        return data_frame({name: [value] for name, value in self._numbers().items()})

    def _numbers(self) -> dict[str, Any]:
        return {
            "mechanism": self.plan.kind,
            "users": self.plan.setting.users,
            "honest": self.plan.setting.honest,
            "rounds": self.plan.rounds,
            "delta": self.plan.delta,
            "certified": self.certified,
            "attained": self.attained,
            "corrupted": self.corrupted,
            "messages": self.messages,
            "standard_error": self.error,
            "standard_error_of_one_node": self.error_of_one_node,
        }

    def __str__(self) -> str:
        bounds = (
            f"{number(self.attained)} <= ε <= {number(self.certified)}{self.plan.per_unit} at δ "
            f"= {self.delta:g}"
        )
        return f"{self.plan.kind}: {bounds}; ε_L = {number(self.corrupted)}"

    def _repr_html_(self) -> str:
        return html_table(self.plan.kind, [*plan_rows(self.plan), *bound_rows(self)], self.basis)


def attained_remark(plan: Plan) -> str:
    """Describe what the attained ε is about: with several rounds, a single one."""
    if plan.rounds > 1:
        return f"lower bound from one round; the other {plan.rounds - 1:,} are part of the gap"
    return "some dataset really costs this much"


def bound_rows(guarantee: Guarantee) -> list[Row]:
    """The bounds in words: name, value, remark."""
    unit = f"nats{guarantee.plan.per_unit}"
    return [
        ("ε certified", number(guarantee.certified), f"{unit}; true for every dataset"),
        ("ε attained", number(guarantee.attained), attained_remark(guarantee.plan)),
        (
            "ε_L",
            number(guarantee.corrupted),
            f"if every node is corrupt (δ = {guarantee.corrupted_delta:g})",
        ),
        ("messages", number(guarantee.messages), "per user and round"),
        ("standard error", number(guarantee.error), error_remark(guarantee)),
    ]


def error_remark(guarantee: Guarantee) -> str:
    """Describe what the standard error is about, and whose noise it includes."""
    spec = guarantee.plan.spec
    if not isinstance(spec, Spec):
        return "of one round's estimate"
    what = "of one count, at worst" if spec.answers is Answers.HISTOGRAM else "of the sum"
    nodes = guarantee.plan.nodes
    if not node_noise_of(spec) or nodes == 1:
        return f"{what}, in one round"
    alone = number(guarantee.error_of_one_node)
    return f"{what}, with the noise of all {nodes} nodes; {alone} with that of one"


def number(value: float | None) -> str:
    """Format a bound; "none" if it is None or infinite."""
    return "none" if value is None or math.isinf(value) else f"{value:.4g}"


def certify(
    plan: Planned,
    setting: Setting | None = None,
    *,
    delta: float | None = None,
    rounds: int | None = None,
) -> Guarantee:
    """Certified and attained ε of a plan, and ε_L for the case that every node is corrupt.

    A guarantee that cannot be given is an answer too: `certified` is None then, and `basis` says
    why. The analyses are those of docs/accounting.md, of the mechanisms of Biswas et al. 2023 and
    Athanasiou et al. 2025.

    Args:
        plan: a plan, a certificate, or a mechanism's parameters, which need `setting` and `delta`.
        setting: in place of the plan's own.
        delta: over all rounds, 0 or 1e-12 <= δ < 1, in place of the plan's own; 0 asks for a pure
            guarantee.
        rounds: how often the round is run on the same people, in place of the plan's own.

    Raises:
        UsageError: a parameter is missing, or outside the analysis' range.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
    >>> found = sdp.certify(spec, sdp.Setting(users=10_000, honest=9_500), delta=1e-6)
    >>> 0 < found.attained <= found.certified < found.corrupted
    True
    >>> print(f"{found.certified:.3f} instead of {found.corrupted:.3f} without a shuffle")
    0.119 instead of 2.398 without a shuffle
    """
    return guarantee_of(as_plan(plan, setting, delta=delta, rounds=rounds))


def guarantee_of(plan: Plan) -> Guarantee:
    """The guarantee of a plan; without one, `certified` is None and `basis` has the reason.

    Raises:
        UsageError: a parameter is outside the analysis' range.
    """
    local = _local_bounds(plan)
    shuffled = _shuffle_bounds(plan, local)
    bounds = _bounds_without_shuffle(plan, local, shuffled) if plan.all_corrupt else shuffled
    notes = [*plan.notes, *bounds.basis, *_nodes(plan), *_gain(plan, local, bounds)]
    notes += [f"all nodes corrupt: {line}" for line in local.basis]
    return Guarantee(
        plan=plan,
        certified=_finite(bounds.certified),
        attained=_finite(bounds.attained),
        published=_finite(bounds.published),
        corrupted=_finite(local.epsilon),
        corrupted_delta=local.delta,
        messages=getattr(plan.spec, "messages_per_user", 1),
        error=_error(plan, plan.nodes),
        error_of_one_node=_error(plan, nodes=1),
        basis=tuple(notes),
        formula=bounds.formula,
    )


def _local_bounds(plan: Plan) -> CorruptedBounds:
    """(ε_L, δ_L) of all the plan's rounds if every node is corrupt; `math.inf` without bound."""
    if plan.rounds > 1:
        return local_of([Round(plan.spec, plan.setting, plan.rounds)], plan.delta)
    try:
        return corrupted_bounds(plan.spec, plan.setting, plan.delta)
    except CannotCertify as refusal:
        return _no_local_bounds(refusal)


def _no_local_bounds(refusal: CannotCertify) -> CorruptedBounds:
    return CorruptedBounds(math.inf, 0.0, (f"no guarantee: {refusal}",))


def local_of(rounds: Sequence[Round], delta: float) -> CorruptedBounds:
    """(ε_L, δ_L) of all rounds if every node is corrupt: basic composition, rounded up.

    ε is `math.inf` where there is none.

    Args:
        rounds: at least one, on the same people.
        delta: over all rounds; where a local guarantee needs some δ, each round gets an equal
            share.
    """
    # Else a round stated for short changes would be added to others' long ones.
    rounds = at_common_distance(rounds)
    times = sum(item.times for item in rounds)
    try:
        alone = [
            corrupted_bounds(item.spec, item.setting, among_rounds(delta, times)) for item in rounds
        ]
    except CannotCertify as refusal:
        return _no_local_bounds(refusal)
    if times == 1:
        return alone[0]
    counted = list(zip(rounds, alone, strict=True))
    margin = ELEMENTARY * len(rounds)
    epsilon = up(sum(item.times * bounds.epsilon for item, bounds in counted), margin)
    lost = up(sum(item.times * bounds.delta for item, bounds in counted), margin)
    words = (
        f"{times} times the ε_L of one round"
        if len(rounds) == 1
        else "sum of the ε_L of all rounds"
    )
    basis = dict.fromkeys(line for bounds in alone for line in bounds.basis)
    return CorruptedBounds(epsilon, min(1.0, lost), (*basis, f"basic composition: {words}"))


def _shuffle_bounds(plan: Plan, local: CorruptedBounds) -> Bounds:
    """Bounds of all the plan's rounds if at least one node shuffles."""
    try:
        bounds = one_round(plan, local)
    except CannotCertify as refusal:
        words = f"no finite epsilon can be certified: {refusal}"
        return Bounds(math.inf, -math.inf, None, (words,))
    if plan.rounds > 1:
        return _compose_rounds(plan, bounds)
    if math.isinf(bounds.certified):
        words = "no finite epsilon can be certified for these parameters"
        return replace(bounds, basis=(*bounds.basis, words))
    return bounds


def one_round(plan: Plan, local: CorruptedBounds) -> Bounds:
    """Certified and attained ε of a single round of the plan, at the plan's whole δ.

    Where an analysis has no pure guarantee, the local one is used. Raises as `epsilon_bounds`.
    """
    try:
        return epsilon_bounds(plan.spec, plan.setting, plan.delta)
    except UsageError:
        if plan.delta > 0 or local.delta > 0:
            raise
    epsilon = corrupted_bounds(plan.spec, plan.setting, 0.0).epsilon
    return Bounds(epsilon, 0.0, None, ("pure: the local guarantee, which shuffling cannot weaken",))


def _compose_rounds(plan: Plan, single: Bounds) -> Bounds:
    rounds = plan.rounds
    note = (
        "attained: computed for a single round, a lower bound also for all rounds; the cost of "
        "the other rounds is part of the gap to certified"
    )
    try:
        certified = compose_epsilon([Round(plan.spec, plan.setting, rounds)], plan.delta)
    except CannotCertify as refusal:
        return Bounds(
            math.inf,
            single.attained,
            None,
            (f"no finite epsilon over {rounds} rounds: {refusal}", note),
        )
    words = (
        f"{rounds} rounds on the same people composed: privacy loss distributions, or pure "
        "guarantees added"
    )
    if remembered_by(plan.spec) is not None:
        words = (
            f"K14: {rounds} rounds on the same people: all that the kept response can show, "
            "however many they are"
        )
    return Bounds(certified, single.attained, None, (*single.basis, words, note))


def _bounds_without_shuffle(plan: Plan, local: CorruptedBounds, shuffled: Bounds) -> Bounds:
    """Bounds if every node is corrupt, which are those of ε_L.

    Unshuffled messages reveal at least what shuffled ones do.
    """
    # ε_L is stated at a δ of its own, which must fit into the plan's.
    certified = local.epsilon if local.delta <= plan.delta else math.inf
    basis = [
        "every node is corrupt, so nothing is shuffled: the certified epsilon is the local one, "
        "eps_L"
    ]
    if math.isinf(certified):
        basis.append(
            f"no finite epsilon can be certified at delta {plan.delta:g} without a shuffler"
        )
    # One honest user: what the others sent is known, and can be taken away.
    alone = Setting(plan.setting.users, 1, plan.setting.adjacency, plan.setting.max_distance)
    attained = max(shuffled.attained, 0.0)
    try:
        attained = max(attained, epsilon_bounds(plan.spec, alone, plan.delta).attained)
        basis.append(
            "attained: all other users' messages are known, this user's bits are not told apart"
        )
    except (CannotCertify, UsageError):
        basis.append("attained: as with a shuffler, whose view is part of this one")
    return Bounds(certified, min(attained, certified), None, tuple(basis))


def _nodes(plan: Plan) -> tuple[str, ...]:
    if not plan.corrupt or plan.all_corrupt:
        return ()
    listed = ", ".join(str(number) for number in sorted(plan.corrupt))
    left = plan.nodes - len(plan.corrupt)
    return (
        f"node{'s' if len(plan.corrupt) > 1 else ''} {listed} of {plan.nodes} corrupt: {left} "
        f"honest node{'s' if left > 1 else ''} still shuffle{'' if left > 1 else 's'}, so the "
        "shuffle guarantee stands",
    )


def _gain(plan: Plan, local: CorruptedBounds, bounds: Bounds) -> tuple[str, ...]:
    """A warning if shuffling certifiably does not improve on the local guarantee."""
    # 1e-6 is the width to which an analysis inverts its curve: closer than that is no better.
    if (
        plan.all_corrupt
        or math.isinf(bounds.certified)
        or bounds.certified < local.epsilon * (1 - 1e-6)
    ):
        return ()
    padding = getattr(plan.spec, "padding", None)
    cure = (
        ""
        if padding is None
        else f"; padding = {padding} is too little for changes up to {plan.max_distance}"
    )
    return (
        "the certified epsilon is no better than eps_L: no gain from shuffling can be certified "
        f"here{cure}",
    )


def _error(plan: Plan, nodes: int) -> float | None:
    try:
        return _finite(standard_error(plan.spec, plan.setting.users, nodes))
    except UsageError:
        return None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
