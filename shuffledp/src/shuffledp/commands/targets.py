"""Builds targets (ε, δ) from options, and finds the mechanisms that meet them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shuffledp.choosing import Comparison, advise, calibrate, kind_of
from shuffledp.commands.options import Scenario
from shuffledp.commands.questions import check_finite, setting_of
from shuffledp.node_numbers import node_numbers
from shuffledp.plans import Plan
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_privacy.bounds import Setting


@dataclass(frozen=True, slots=True)
class Sizes:
    """The requested domain: the largest value, the number of histogram symbols, or both."""

    max_value: int | None = None
    symbols: int | None = None


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits that a person sets on error and messages; None for no limit."""

    max_error: float | None = None
    max_messages: int | None = None
    epsilon_local: float | None = None


def setting_for(scenario: Scenario, sizes: Sizes, epsilon: float) -> Setting:
    """The checked setting of the target in the options.

    Raises:
        UsageError: a value is outside its range, or the domain is not named.
    """
    check_finite("epsilon", epsilon)
    if sizes.max_value is None and sizes.symbols is None:
        raise UsageError("name the domain: --max-value for a sum, --symbols for a histogram")
    return setting_of(scenario, sizes.symbols if sizes.max_value is None else sizes.max_value + 1)


def calibrate_plan(
    kind: str,
    scenario: Scenario,
    sizes: Sizes,
    epsilon: float,
    epsilon_local: float | None = None,
) -> Plan:
    """The plan whose mechanism has the least error at the target.

    Raises:
        UsageError: for an unknown mechanism or a value outside its range.
        CannotCertify: no parameters meet the target, or every node is corrupt.
    """
    name = kind_of(kind)
    setting = setting_for(scenario, sizes, epsilon)
    if MECHANISMS[name].answers is Answers.SUM and sizes.max_value is None:
        raise UsageError(f"{kind} sums values: name --max-value")
    corrupt = node_numbers(scenario.corrupt_nodes, scenario.nodes, "corrupt-nodes")
    if len(corrupt) == scenario.nodes:
        raise CannotCertify(
            "with every node corrupt nothing is shuffled and only the local guarantee is left; "
            "leave an honest node, or certify a mechanism and read its eps_L"
        )
    plan = calibrate(
        kind,
        epsilon=epsilon,
        delta=scenario.delta,
        setting=setting,
        max_value=sizes.max_value,
        symbols=sizes.symbols,
        rounds=scenario.rounds,
        epsilon_local=epsilon_local,
    )
    return replace(plan, corrupt=corrupt, nodes=scenario.nodes)


def compare_mechanisms(
    scenario: Scenario, sizes: Sizes, epsilon: float, limits: SearchLimits
) -> Comparison:
    """Every mechanism that meets the target and the limits, fewest messages first.

    Raises:
        UsageError: a value is outside its range.
        CannotCertify: no mechanism is left; the message has the reason for each.
    """
    if limits.max_error is not None:
        check_finite("max-error", limits.max_error)
    if limits.max_messages is not None and limits.max_messages < 1:
        raise UsageError(f"max-messages must be at least 1, not {limits.max_messages}")
    return advise(
        epsilon=epsilon,
        delta=scenario.delta,
        setting=setting_for(scenario, sizes, epsilon),
        max_value=sizes.max_value,
        symbols=sizes.symbols,
        rounds=scenario.rounds,
        max_error=limits.max_error,
        max_messages=limits.max_messages,
        nodes=scenario.nodes,
        epsilon_local=limits.epsilon_local,
    )
