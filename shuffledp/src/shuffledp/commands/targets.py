"""From options to a target (ε, δ), and to the mechanisms that keep it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffledp.commands.options import Circumstances
from shuffledp.commands.questions import (
    ParameterValue,
    Question,
    check_finite,
    exact,
    question,
    setting_of,
)
from shuffledp.node_numbers import node_numbers
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_privacy.calibration.advice import Advice
from shuffledp_privacy.calibration.advice import advise as advise_all
from shuffledp_privacy.calibration.calibrate import Target, calibrate


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


def target_of(typed: Circumstances, sizes: Sizes, epsilon: float) -> Target:
    """The checked target.

    Raises:
        UsageError: a value is outside its range, or the domain is not named.
    """
    check_finite("epsilon", epsilon)
    if sizes.max_value is None and sizes.symbols is None:
        raise UsageError("name the domain: --max-value for a sum, --symbols for a histogram")
    domain = sizes.symbols if sizes.max_value is None else sizes.max_value + 1
    setting = setting_of(typed, domain)
    return Target(
        epsilon=epsilon,
        delta=typed.delta,
        users=setting.users,
        honest=setting.honest,
        adjacency=setting.adjacency,
        max_distance=setting.max_distance,
        max_value=sizes.max_value,
        symbols=sizes.symbols,
        rounds=typed.rounds,
    )


def calibrated(kind: str, typed: Circumstances, sizes: Sizes, epsilon: float) -> Question:
    """The question whose mechanism has the least error under the target.

    Raises:
        UsageError: for an unknown mechanism or a value outside its range.
        CannotCertify: no parameters keep the target; or every node is corrupt.
    """
    if kind not in MECHANISMS:
        raise UsageError(f"unknown mechanism {kind!r}; choose one of {', '.join(MECHANISMS)}")
    target = target_of(typed, sizes, epsilon)
    if MECHANISMS[kind].answers is Answers.SUM and target.max_value is None:
        raise UsageError(f"{kind} sums values: name --max-value")
    if len(node_numbers(typed.corrupt_nodes, typed.nodes, "corrupt-nodes")) == typed.nodes:
        raise CannotCertify(
            "with every node corrupt nothing is shuffled and only the local guarantee is left; "
            "leave an honest node, or certify a mechanism and read its eps_L"
        )
    spec = calibrate(kind, target)
    note = f"calibrated: the least noise whose certified epsilon is at most {epsilon:g} while a node is honest"
    return question(spec, typed, notes=(note,), asked=(("target_epsilon", epsilon),))


def advised(typed: Circumstances, sizes: Sizes, epsilon: float, limits: Limits) -> tuple[Target, list[Advice]]:
    """The target and every mechanism that keeps it and the limits, fewest messages first.

    Raises:
        UsageError: a value is outside its range.
        CannotCertify: nothing is left; the message has the reason for each mechanism.
    """
    if limits.max_error is not None:
        check_finite("max-error", limits.max_error)
    if limits.max_messages is not None and limits.max_messages < 1:
        raise UsageError(f"max-messages must be at least 1, not {limits.max_messages}")
    target = target_of(typed, sizes, epsilon)
    return target, advise_all(target, limits.max_error, limits.max_messages)


def row_to_dict(row: Advice) -> dict[str, Any]:
    """One row of `shuffledp advise --format json`."""
    parameters: dict[str, ParameterValue] = exact(row.mechanism)
    return {
        "mechanism": row.kind,
        "parameters": parameters,
        "estimates": row.estimates,
        "standard_error": row.error,
        "messages_per_user": row.messages,
        "epsilon": {"certified": row.certified, "attained": row.attained},
        "corrupted": {"epsilon": row.corrupted_epsilon, "delta": row.corrupted_delta},
    }
