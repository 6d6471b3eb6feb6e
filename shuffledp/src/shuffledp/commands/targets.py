"""From options to a target (ε, δ), and to the mechanisms that keep it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shuffledp.choosing import Comparison, advise, calibrate, kind_of
from shuffledp.commands.options import Circumstances
from shuffledp.commands.questions import check_finite, setting_of
from shuffledp.node_numbers import node_numbers
from shuffledp.plans import Plan
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_privacy.bounds import Setting


@dataclass(frozen=True, slots=True)
class Sizes:
    """The domain, as it was typed: largest value, symbols of a histogram, or both."""

    max_value: int | None = None
    symbols: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a person can bear: None for anything."""

    max_error: float | None = None
    max_messages: int | None = None


def setting_for(typed: Circumstances, sizes: Sizes, epsilon: float) -> Setting:
    """The checked setting of a target.

    Raises:
        UsageError: a value is outside its range, or the domain is not named.
    """
    check_finite("epsilon", epsilon)
    if sizes.max_value is None and sizes.symbols is None:
        raise UsageError("name the domain: --max-value for a sum, --symbols for a histogram")
    return setting_of(typed, sizes.symbols if sizes.max_value is None else sizes.max_value + 1)


def calibrated(kind: str, typed: Circumstances, sizes: Sizes, epsilon: float) -> Plan:
    """The plan whose mechanism has the least error under the target.

    Raises:
        UsageError: for an unknown mechanism or a value outside its range.
        CannotCertify: no parameters keep the target; or every node is corrupt.
    """
    wanted = kind_of(kind)
    setting = setting_for(typed, sizes, epsilon)
    if MECHANISMS[wanted].answers is Answers.SUM and sizes.max_value is None:
        raise UsageError(f"{kind} sums values: name --max-value")
    corrupt = node_numbers(typed.corrupt_nodes, typed.nodes, "corrupt-nodes")
    if len(corrupt) == typed.nodes:
        raise CannotCertify(
            "with every node corrupt nothing is shuffled and only the local guarantee is left; "
            "leave an honest node, or certify a mechanism and read its eps_L"
        )
    plan = calibrate(
        kind,
        epsilon=epsilon,
        delta=typed.delta,
        setting=setting,
        max_value=sizes.max_value,
        symbols=sizes.symbols,
        rounds=typed.rounds,
    )
    return replace(plan, corrupt=corrupt, nodes=typed.nodes)


def advised(typed: Circumstances, sizes: Sizes, epsilon: float, limits: Limits) -> Comparison:
    """The target and every mechanism that keeps it and the limits, fewest messages first.

    Raises:
        UsageError: a value is outside its range.
        CannotCertify: nothing is left; the message has the reason for each mechanism.
    """
    if limits.max_error is not None:
        check_finite("max-error", limits.max_error)
    if limits.max_messages is not None and limits.max_messages < 1:
        raise UsageError(f"max-messages must be at least 1, not {limits.max_messages}")
    return advise(
        epsilon=epsilon,
        delta=typed.delta,
        setting=setting_for(typed, sizes, epsilon),
        max_value=sizes.max_value,
        symbols=sizes.symbols,
        rounds=typed.rounds,
        max_error=limits.max_error,
        max_messages=limits.max_messages,
    )
