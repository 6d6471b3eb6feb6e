"""Calibration and choice: from a target (ε, δ) to the mechanisms that meet it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shuffledp.guarantees import number
from shuffledp.notebook import data_frame, html_table
from shuffledp.plans import Plan, check_nodes, check_setting, exact
from shuffledp.recommending import Recommendation, recommend
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Mechanism
from shuffledp_privacy.analysis import CostAnalysis
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.calibration.advice import advise as advise_all
from shuffledp_privacy.calibration.calibrate import Target
from shuffledp_privacy.calibration.calibrate import calibrate as calibrate_spec


def calibrate(
    mechanism: str | type[Mechanism],
    *,
    epsilon: float,
    delta: float,
    setting: Setting,
    max_value: int | None = None,
    symbols: int | None = None,
    rounds: int = 1,
    epsilon_local: float | None = None,
    columns: Sequence[int] | None = None,
) -> Plan:
    """The plan with the least error whose certified ε at δ meets the target.

    The parameters are rationals, so that users sample exactly the law that is certified; they are
    certified again after rounding (docs/accounting.md, proposition C11).

    Args:
        mechanism: a name such as "geo-shuffle", or its class.
        epsilon: nats over all rounds, above 0, at most 100; per unit of distance under metric
            adjacency.
        delta: over all rounds, in [1e-12, 1).
        setting: who takes part in one round.
        max_value: k, for values 0..k.
        symbols: k of a histogram over {0..k-1}, in place of `max_value`.
        rounds: how often the round is run on the same people.
        epsilon_local: largest ε_L accepted in one round, if every node is corrupt; None for any.
        columns: cells of each column, in place of `symbols`, for "node-columns".

    Raises:
        UsageError: an unknown mechanism, no domain, or a value outside its range.
        CannotCertify: no parameters meet the target; the message says how close they come.

    >>> import shuffledp as sdp
    >>> group = sdp.Setting(users=2000, honest=1900)
    >>> plan = sdp.calibrate("geo-shuffle", max_value=20, epsilon=1, delta=1e-6, setting=group)
    >>> plan.kind, plan.parameters["max_value"]
    ('geo-shuffle', 20)
    >>> 0.99 < sdp.certify(plan).certified <= 1
    True
    """
    kind = kind_of(mechanism)
    if max_value is not None and symbols is not None:
        raise UsageError(
            "name one domain: either max-value, for a sum, or symbols, for a histogram"
        )
    if columns is not None:
        if max_value is not None or symbols is not None:
            raise UsageError(
                "columns already determine the number of symbols: leave out symbols and max-value"
            )
        symbols = math.prod(columns)
    target = target_of(
        epsilon,
        delta,
        setting,
        max_value=max_value,
        symbols=symbols,
        rounds=rounds,
        epsilon_local=epsilon_local,
        columns=columns,
    )
    spec = calibrate_spec(kind, target)
    note = (
        f"calibrated: the least noise whose certified epsilon is at most {epsilon:g} while a "
        "node is honest"
    )
    return Plan(spec, setting, delta, rounds, notes=(note,), asked=(("target_epsilon", epsilon),))


def kind_of(mechanism: str | type[Mechanism]) -> str:
    """The name of a registered mechanism; `UsageError` lists the registered ones."""
    kind = mechanism if isinstance(mechanism, str) else getattr(mechanism, "kind", mechanism)
    if kind not in MECHANISMS:
        raise UsageError(f"unknown mechanism {kind!r}; choose one of {', '.join(MECHANISMS)}")
    return str(kind)


def target_of(
    epsilon: float,
    delta: float,
    setting: Setting,
    *,
    max_value: int | None,
    symbols: int | None,
    rounds: int,
    epsilon_local: float | None,
    columns: Sequence[int] | None = None,
) -> Target:
    """Make a checked target; arguments and errors as `calibrate`."""
    check_setting(setting)
    return Target(
        epsilon=epsilon,
        delta=delta,
        users=setting.users,
        honest=setting.honest,
        adjacency=setting.adjacency,
        max_distance=setting.max_distance,
        max_value=max_value,
        symbols=symbols,
        rounds=rounds,
        epsilon_local=epsilon_local,
        columns=None if columns is None else tuple(columns),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mechanisms that meet a target, fewest messages first; a sequence of `CostAnalysis`.

    Attributes:
        target: ε, δ, setting and domain, as asked.
        nodes: mix nodes of the route.
        rows: the mechanisms, each with its error, messages and bounds.
    """

    target: Target
    nodes: int
    rows: tuple[CostAnalysis, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[CostAnalysis]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> CostAnalysis:
        return self.rows[index]

    @property
    def recommendations(self) -> tuple[Recommendation, ...]:
        """The recommended rows for a histogram and for a sum, with the local and central errors."""
        return recommend(self.target, self.rows)

    def to_dict(self) -> list[dict[str, Any]]:
        """The rows of `shuffledp advise --format json`, in the order of `rows`."""
        beside = {
            row.kind: recommendation
            for recommendation in self.recommendations
            for row in recommendation.rows
        }
        return [_row_to_dict(row) | _beside_to_dict(row, beside[row.kind]) for row in self.rows]

    def to_pandas(self) -> Any:
        """One row for each mechanism; raises `NotInstalledError` without pandas."""
        return data_frame(
            {
                "mechanism": [row.kind for row in self.rows],
                "estimates": [row.estimates for row in self.rows],
                "standard_error": [row.error for row in self.rows],
                "standard_error_of_one_node": [row.error_of_one_node for row in self.rows],
                "messages": [row.messages for row in self.rows],
                "certified": [row.certified for row in self.rows],
                "attained": [row.attained for row in self.rows],
                "corrupted": [row.corrupted_epsilon for row in self.rows],
            }
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                row.kind,
                f"± {number(row.error)}",
                f"{row.messages:,} messages, ε_L = {number(row.corrupted_epsilon)}",
            )
            for row in self.rows
        ]
        return html_table(f"ε = {self.target.epsilon:g}, δ = {self.target.delta:g}", rows)


def advise(
    *,
    epsilon: float,
    delta: float,
    setting: Setting,
    max_value: int | None = None,
    symbols: int | None = None,
    rounds: int = 1,
    max_error: float | None = None,
    max_messages: int | None = None,
    nodes: int = 3,
    epsilon_local: float | None = None,
) -> Comparison:
    """Compare all mechanisms that meet the target: error, messages and local guarantee.

    Args:
        epsilon: see `calibrate`.
        delta: see `calibrate`.
        setting: who takes part in one round.
        max_value: k, for values 0..k; a histogram then has k + 1 symbols.
        symbols: k of a histogram over {0..k-1}; without `max_value` only histograms are compared.
        rounds: how often the round is run on the same people.
        max_error: largest standard error accepted, of the sum or of one count; None for any.
        max_messages: most messages per user and round accepted; None for any.
        nodes: mix nodes of the route, 1 to 16: all of them add noise if the mechanism has any.
        epsilon_local: largest ε_L accepted in one round, if every node is corrupt; None for any.

    Raises:
        UsageError: a value outside its range, or no domain.
        CannotCertify: no mechanism is left; the message has the reason for each.

    >>> import shuffledp as sdp
    >>> people = sdp.Setting(users=1000, honest=1000)
    >>> found = sdp.advise(epsilon=1, delta=1e-6, setting=people, symbols=4)
    >>> [row.kind for row in found][:3]
    ['node-histogram', 'krr-histogram', 'bloom-rappor']
    """
    target = target_of(
        epsilon,
        delta,
        setting,
        max_value=max_value,
        symbols=symbols,
        rounds=rounds,
        epsilon_local=epsilon_local,
    )
    check_nodes(nodes)
    return Comparison(target, nodes, tuple(advise_all(target, nodes, max_error, max_messages)))


def _beside_to_dict(row: CostAnalysis, recommendation: Recommendation) -> dict[str, Any]:
    chosen = row is recommendation.choice
    return {
        "local": {
            "standard_error": recommendation.beside.local,
            "mechanism": recommendation.beside.local_by,
        },
        "central": {
            "standard_error": recommendation.beside.central,
            "mechanism": recommendation.beside.central_by,
        },
        "recommended": recommendation.reason if chosen else None,
        "warnings": list(recommendation.warnings) if chosen else [],
    }


def _row_to_dict(row: CostAnalysis) -> dict[str, Any]:
    epsilon_left = row.corrupted_epsilon if math.isfinite(row.corrupted_epsilon) else None
    return {
        "mechanism": row.kind,
        "parameters": exact(row.mechanism),
        "estimates": row.estimates,
        "standard_error": row.error,
        "standard_error_of_one_node": row.error_of_one_node,
        "messages_per_user": row.messages,
        "epsilon": {"certified": row.certified, "attained": row.attained},
        "corrupted": {"epsilon": epsilon_left, "delta": row.corrupted_delta},
    }
