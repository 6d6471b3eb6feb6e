"""Plans: the values that determine a guarantee, that is mechanism, setting, δ and rounds.

Pure.

The commands make it from options, `calibrate` from a target, and a signed certificate holds the
same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

from shuffledp.notebook import html_table
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Mechanism
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.arguments import check_number, whole_number
from shuffledp_privacy.bounds import Setting, check_delta, domain_of
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.encodings import HadamardResponse, SubsetSelection, UnaryEncoding
from shuffledp_privacy.local.lecture import LaplaceMean, OneBitMean
from shuffledp_privacy.local.matrix import LocalMatrix
from shuffledp_privacy.rounds.composition import LARGEST_TIMES

if TYPE_CHECKING:
    from shuffledp_core.documents.models import Certificate

LOCAL_KINDS: Final[dict[type, str]] = {
    LocalRandomiser: "local",
    LocalMatrix: "local-matrix",
    UnaryEncoding: "unary-encoding",
    SubsetSelection: "subset-selection",
    HadamardResponse: "hadamard-response",
    OneBitMean: "one-bit-local",
    LaplaceMean: "laplace-mean",
}
"""Names of the specs that have none of their own."""

MOST_NODES: Final = 16
"""Longest route."""

DEFAULT_DELTA: Final = 1e-6
"""δ marked on a curve δ(ε) for which none is named."""

ParameterValue: TypeAlias = int | float | str


@dataclass(frozen=True, slots=True)
class Plan:
    """A mechanism, with everything else that its guarantee depends on.

    Attributes:
        spec: the mechanism's exact parameters; any spec for which an analysis is registered.
        setting: who takes part in one round, and which datasets are neighbours.
        delta: δ over all rounds, 0 or 1e-12 <= δ < 1.
        rounds: how often the round is run on the same people, 1 to 1,000,000.
        corrupt: numbers of the corrupt nodes, 1..nodes.
        nodes: mix nodes of the route, 1 to 16.
        notes: choices that were made when the plan was built, in words.
        asked: parameters as the user gave them, in addition to those of the spec.
        scope: deployment and population that the certificate names, within which devices keep
            memoised responses.

    Raises:
        UsageError: a value is outside its range, or the mechanism's domain has no such distance.
    """

    spec: object
    setting: Setting
    delta: float
    rounds: int = 1
    corrupt: frozenset[int] = frozenset()
    nodes: int = 3
    notes: tuple[str, ...] = ()
    asked: tuple[tuple[str, ParameterValue], ...] = ()
    scope: str = ""

    def __post_init__(self) -> None:
        if self.spec is None or isinstance(self.spec, str):
            raise UsageError(f"spec must be the parameters of a mechanism, not {self.spec!r}")
        check_setting(self.setting)
        check_number("delta", self.delta)
        whole_number("rounds", self.rounds)
        check_delta(self.delta, pure=True)
        if not 1 <= self.rounds <= LARGEST_TIMES:
            raise UsageError(f"rounds must be from 1 to {LARGEST_TIMES:,}, not {self.rounds}")
        check_nodes(self.nodes)
        if not isinstance(self.corrupt, Iterable):
            raise UsageError(f"corrupt must be a set of node numbers, not {self.corrupt!r}")
        object.__setattr__(self, "corrupt", frozenset(self.corrupt))
        if not self.corrupt <= set(range(1, self.nodes + 1)):
            raise UsageError(
                f"corrupt must be numbers of nodes from 1 to {self.nodes}, not {set(self.corrupt)}"
            )
        check_distance(self.setting.max_distance, domain_of(self.spec))

    @property
    def kind(self) -> str:
        """The mechanism's name."""
        return str(getattr(self.spec, "kind", None) or LOCAL_KINDS[type(self.spec)])

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """The spec's exact parameters; rationals are text, as in a certificate."""
        return dict(self.asked) | exact(self.spec)

    @property
    def all_corrupt(self) -> bool:
        """True if every node is corrupt."""
        return len(self.corrupt) == self.nodes

    @property
    def max_distance(self) -> int | None:
        """The largest change that the guarantee covers; None if values have no distance."""
        domain = domain_of(self.spec)
        return self.setting.max_distance or (None if domain is None else domain - 1)

    @property
    def per_unit(self) -> str:
        """Text to put after ε: " per unit" under metric adjacency, else ""."""
        return " per unit" if self.setting.adjacency is Adjacency.METRIC else ""

    def to_dict(self) -> dict[str, Any]:
        """Mechanism, exact parameters and setting: the beginning of `certify --format json`."""
        return {
            "mechanism": self.kind,
            "parameters": self.parameters,
            "users": self.setting.users,
            "honest": self.setting.honest,
            "adjacency": self.setting.adjacency.value,
            "max_distance": self.max_distance,
            "rounds": self.rounds,
            "delta": self.delta,
        }

    def _repr_html_(self) -> str:
        return html_table(self.kind, plan_rows(self))


def plan_rows(plan: Plan) -> list[tuple[str, str, str]]:
    """The parameters and the setting in words: name, value, remark."""
    setting = plan.setting
    rows = [(name, str(value), "") for name, value in plan.parameters.items()]
    crowd = needs_crowd(plan.spec)
    honest = f"{setting.honest:,} of them honest" if crowd else "no honest people needed"
    rows.append(("users", f"{setting.users:,}", honest))
    rows.append(("δ", f"{plan.delta:g}", neighbours(plan)))
    return (
        [*rows, ("rounds", f"{plan.rounds:,}", "on the same people")] if plan.rounds > 1 else rows
    )


def needs_crowd(spec: object) -> bool:
    """True if the guarantee needs other honest users; False if one node's noise is enough."""
    return bool(getattr(spec, "needs_crowd", True))


def people_needed(plan: Plan) -> str:
    """Describe the honest users that the guarantee counts on."""
    if not needs_crowd(plan.spec):
        return "no honest people needed"
    return f"{plan.setting.honest:,} of {plan.setting.users:,} users honest"


def neighbours(plan: Plan) -> str:
    """Describe the relation of neighbouring datasets."""
    reach = plan.max_distance
    if reach is None:
        return "neighbours: one user's value changes in any way"
    if plan.setting.adjacency is Adjacency.METRIC:
        return f"neighbours: one user's value changes by d = 1..{reach:,}, at a total of ε d"
    return f"neighbours: one user's value changes by at most {reach:,}"


def exact(spec: object) -> dict[str, ParameterValue]:
    """A spec's parameters by name; rationals are text, as in a certificate.

    Fields that a spec does not print are left out.
    """
    names = (
        [field.name for field in fields(spec) if field.repr]
        if is_dataclass(spec)
        else getattr(spec, "__struct_fields__", ())
    )
    parameters = {name: getattr(spec, name) for name in names}
    return {
        name: str(value) if isinstance(value, Fraction) else value
        for name, value in parameters.items()
    }


def check_setting(setting: object) -> None:
    """Raise `UsageError` for anything but a `Setting`, such as a number of users."""
    if not isinstance(setting, Setting):
        raise UsageError(f"setting must be a Setting with users and honest users, not {setting!r}")


def check_nodes(nodes: int) -> None:
    """Raise `UsageError` for a number of nodes that no route can have."""
    whole_number("nodes", nodes)
    if not 1 <= nodes <= MOST_NODES:
        raise UsageError(f"nodes must be from 1 to {MOST_NODES}, not {nodes}")


def check_distance(max_distance: int | None, domain: int | None) -> None:
    """Raise `UsageError` for a largest change that the domain does not allow.

    A mechanism without a domain accepts any distance.
    """
    if domain is not None and max_distance is not None and not 1 <= max_distance < domain:
        raise UsageError(
            f"max-distance must be from 1 to {domain - 1}, the largest change within the domain, "
            f"not {max_distance}"
        )


Planned: TypeAlias = Union[
    Plan,
    "Certificate",
    Mechanism,
    LocalRandomiser,
    LocalMatrix,
    UnaryEncoding,
    SubsetSelection,
    HadamardResponse,
    OneBitMean,
    LaplaceMean,
]
"""Anything that has a guarantee: a plan, a certificate, or a mechanism's parameters alone."""


def as_plan(
    subject: Planned,
    setting: Setting | None = None,
    *,
    delta: float | None = None,
    rounds: int | None = None,
) -> Plan:
    """The plan with this setting, δ and number of rounds; None keeps the plan's own.

    Args:
        subject: a plan, a certificate, or a mechanism's parameters, which have no setting and no
            δ of their own.
        setting: setting in place of the plan's own.
        delta: δ over all rounds, in place of the plan's own.
        rounds: number of rounds, in place of the plan's own.

    Raises:
        UsageError: something is missing or outside its range, or `subject` is not a mechanism.
    """
    plan = _plan_of(subject, setting, delta)
    changes: dict[str, Any] = {"setting": setting, "delta": delta, "rounds": rounds}
    changed = replace(plan, **{name: value for name, value in changes.items() if value is not None})
    # What was said of the plan, such as the target that it keeps, was said of it as it was.
    return plan if changed == plan else replace(changed, notes=(), asked=())


def _plan_of(subject: Planned, setting: Setting | None, delta: float | None) -> Plan:
    if isinstance(subject, Plan):
        return subject
    if getattr(subject, "kind", None) in MECHANISMS or type(subject) in LOCAL_KINDS:
        if setting is None or delta is None:
            missing = "setting" if setting is None else "delta"
            raise UsageError(
                f"a mechanism's parameters do not state a {missing}: give it as an argument, or "
                "pass a plan"
            )
        return Plan(subject, setting, delta)
    from shuffledp_core.documents.models import (
        Certificate,
    )  # here: its cryptography is slow to import

    if not isinstance(subject, Certificate):
        raise UsageError(
            f"{subject!r} is neither a plan nor a mechanism's parameters; `calibrate` makes a "
            "plan from a mechanism's name"
        )
    certified = Setting(subject.users, subject.honest, subject.adjacency, subject.max_distance)
    return Plan(
        subject.mechanism,
        certified,
        subject.delta,
        scope=f"{subject.deployment} {subject.population}",
    )
