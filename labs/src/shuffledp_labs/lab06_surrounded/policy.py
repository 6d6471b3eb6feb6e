"""Step D of lab 6: which rounds a user should refuse, decided by the client's own policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from shuffledp_core.documents.models import (
    Certificate,
    CorruptedGuarantee,
    EpsilonBounds,
    LedgerPosition,
    Party,
)
from shuffledp_core.errors import ClientPolicyRefusal
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.privacy import Adjacency
from shuffledp_core.vocabulary import CertificateStage

if TYPE_CHECKING:
    from shuffledp_labs.instance import Draws

Manifest: TypeAlias = dict[str, Any]
Limits: TypeAlias = dict[str, Any]

MANIFESTS: Final = 30

_SPEC: Final = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
_OPERATORS: Final = ("university", "city", "press", "hospital", "union")


def draw_manifests(draws: Draws) -> list[tuple[Manifest, Limits]]:
    """Draw manifests with limits: good ones, ones with a single violation, and border cases."""
    kinds = [kind for kind in _SPOILS for _ in range(2)]
    kinds += ["good"] * (MANIFESTS - len(kinds))
    return draws.permute([_pair(draws, kind) for kind in kinds])


def _pair(draws: Draws, kind: str) -> tuple[Manifest, Limits]:
    limits = {
        "epsilon": draws.integer(4, 16) / 8,
        "delta": 10.0 ** -draws.integer(5, 8),
        "epsilon_corrupted": draws.integer(16, 40) / 4,
        "operators": draws.integer(2, 3),
        "min_colluding": draws.integer(5, 20),
        "min_colluding_share": (2 * draws.integer(0, 5) + 1) / 64,
        "allow_corrupt": False,
    }
    users = 2 * draws.integer(128, 640) + 1  # odd: a share of them is never a whole number
    least = max(limits["min_colluding"], math.ceil(users * limits["min_colluding_share"]))
    manifest = {
        "users": users,
        "honest": users - least - draws.integer(1, 30),
        "epsilon": limits["epsilon"] - draws.integer(1, 3) / 16,
        "delta": limits["delta"] / 2,
        "epsilon_corrupted": limits["epsilon_corrupted"] - draws.integer(1, 8) / 8,
        "operators": tuple(draws.sample(_OPERATORS, 3)),
        "corrupt": (),
    }
    changed_manifest, changed_limits = (
        _SPOILS[kind](manifest, limits) if kind in _SPOILS else ({}, {})
    )
    return manifest | changed_manifest, limits | changed_limits


def _same_operator(manifest: Manifest, _: Limits) -> tuple[Manifest, Limits]:
    return {"operators": manifest["operators"][:1] * 3}, {}


def _one_operator_short(manifest: Manifest, _: Limits) -> tuple[Manifest, Limits]:
    first, second, _third = manifest["operators"]
    return {"operators": (first, second, first)}, {"operators": 3}


def _edge(manifest: Manifest, limits: Limits) -> tuple[Manifest, Limits]:
    """A manifest that reaches its limits exactly; shares are multiples of 1/64, exact as floats."""
    share = math.ceil(manifest["users"] * limits["min_colluding_share"])
    least = max(limits["min_colluding"], share)
    exact = {name: limits[name] for name in ("epsilon", "delta", "epsilon_corrupted")}
    return {**exact, "honest": manifest["users"] - least}, {"operators": 3}


def _too_few(manifest: Manifest, limits: Limits) -> tuple[Manifest, Limits]:
    """A manifest that allows one colluding user fewer than the limit, but a large enough share."""
    return {"honest": manifest["users"] - limits["min_colluding"] + 1}, {"min_colluding_share": 0.0}


def _small_share(manifest: Manifest, limits: Limits) -> tuple[Manifest, Limits]:
    """A manifest with enough colluding users, but one too few for the limit on their share."""
    share = math.ceil(manifest["users"] * limits["min_colluding_share"])
    return {"honest": manifest["users"] - share + 1}, {"min_colluding": 0}


_SPOILS: Final[dict[str, Callable[[Manifest, Limits], tuple[Manifest, Limits]]]] = {
    "ε": lambda _, limits: ({"epsilon": limits["epsilon"] + 1 / 16}, {}),
    "no ε": lambda *_: ({"epsilon": None}, {}),
    "δ": lambda _, limits: ({"delta": 2 * limits["delta"]}, {}),
    "ε_L": lambda _, limits: ({"epsilon_corrupted": limits["epsilon_corrupted"] + 1 / 8}, {}),
    "no ε_L": lambda *_: ({"epsilon_corrupted": None}, {}),
    "any ε_L": lambda *_: ({"epsilon_corrupted": None}, {"epsilon_corrupted": math.inf}),
    "operators": _same_operator,
    "too few operators": _one_operator_short,
    "too few": _too_few,
    "share": _small_share,
    "edge": _edge,
    "corrupt": lambda *_: ({"corrupt": ("node-2",)}, {}),
    "laboratory": lambda *_: ({"corrupt": ("node-1", "node-3")}, {"allow_corrupt": True}),
}


def client_accepts(manifest: Manifest, limits: Limits) -> bool:
    """Return True if the client's own policy accepts the round."""
    from shuffledp_client.policy import Policy, check_policy

    route = tuple(
        Party(
            name=f"node-{position}",
            role="node",
            operator=operator,
            address="127.0.0.1:1",
            identity_key="00" * 32,
        )
        for position, operator in enumerate(manifest["operators"], 1)
    )
    geometry = Geometry.of(_SPEC, "sealed-box", len(route))
    try:
        check_policy(
            Policy(**limits),
            _certificate(manifest, tuple(party.name for party in route)),
            geometry,
            route,
            manifest["corrupt"],
        )
    except ClientPolicyRefusal:
        return False
    return True


def _certificate(manifest: Manifest, route: tuple[str, ...]) -> Certificate:
    return Certificate(
        deployment="lab",
        round_id="00" * 16,
        stage=CertificateStage.PLAN,
        population="demo",
        mechanism=_SPEC,
        users=manifest["users"],
        honest=manifest["honest"],
        route=route,
        adjacency=Adjacency.STANDARD,
        max_distance=_SPEC.domain - 1,
        delta=manifest["delta"],
        epsilon=EpsilonBounds(certified=manifest["epsilon"], attained=None),
        corrupted=CorruptedGuarantee(epsilon=manifest["epsilon_corrupted"], delta=0.0),
        standard_error=1.0,
        assumptions=(),
        basis=(),
        holds=True,
        ledger=LedgerPosition(entry=1, spent=None, delta=manifest["delta"], limit=1.0),
        issued_at=0,
        expires_at=1,
    )
