"""Step E of lab 4, second half: which rounds a device should refuse.

The oracle is the client's own policy.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from shuffledp_core.errors import ClientPolicyRefusal
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.privacy import Adjacency
from shuffledp_labs.kinds import kind_of
from shuffledp_labs.lab import CheckAttempt, CheckFailure

if TYPE_CHECKING:
    from shuffledp_labs.instance import Draws

MANIFESTS: Final = 30
WHERE: Final = 'read "E. What your device should refuse" in the handout'

_SPEC: Final = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
_OPERATORS: Final = ("university", "city", "press", "hospital", "union")


def policy(attempt: CheckAttempt) -> str:
    """E-policy: thirty manifests, each accepted or refused as the client's own policy does."""
    refused = 0
    for manifest, limits in draw_manifests(attempt.draws):
        decision = attempt.program.call("accept", manifest, limits)
        right = client_accepts(manifest, limits)
        refused += not right
        judge_answer(decision, right=right, manifest=manifest, limits=limits)
    return (
        f"{MANIFESTS} manifests: {MANIFESTS - refused} accepted and {refused} refused, as the "
        "client does"
    )


def judge_answer(
    decision: Any, *, right: bool, manifest: dict[str, Any], limits: dict[str, Any]
) -> None:
    """Raises CheckFailure unless a device's answer is a bool, and the client's own."""
    if type(decision) is not bool:
        raise CheckFailure(
            f"accept returned {kind_of(decision)} where True or False is asked; {WHERE}"
        )
    if decision is not right:
        raise CheckFailure(
            f"accept says {decision} and the client {right}, for the manifest {manifest} under "
            f"the limits {limits}; {WHERE}"
        )


def draw_manifests(draws: Draws) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Manifests with limits: good ones, each spoiled in one way, and the cases on the border."""
    spoils = (
        None,
        "corrupt",
        "operators",
        "nodes",
        "epsilon",
        "no epsilon",
        "local",
        "no local",
        "any local",
        "edge",
    )
    pairs = [_draw_manifest(draws, spoils[number % len(spoils)]) for number in range(MANIFESTS)]
    return draws.permute(pairs)


def _draw_manifest(draws: Draws, how: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    count = draws.integer(2, 5)
    limits: dict[str, Any] = {
        "epsilon": draws.integer(2, 8) / 4,
        "epsilon_corrupted": draws.integer(16, 40) / 4,
        "nodes": count if count == 2 or how == "nodes" else draws.integer(2, count),
        "operators": 2,
        "allow_corrupt": False,
    }
    operators = draws.sample(_OPERATORS, count)
    manifest: dict[str, Any] = {
        "epsilon": limits["epsilon"] - draws.integer(1, 3) / 8,
        "epsilon_corrupted": limits["epsilon_corrupted"] - draws.integer(0, 8) / 4,
        "nodes": [
            {"name": f"node-{number}", "operator": operator, "corrupt": False}
            for number, operator in enumerate(operators, start=1)
        ],
    }
    _spoil(draws, how, manifest, limits)
    return manifest, limits


def _spoil(draws: Draws, how: str | None, manifest: dict[str, Any], limits: dict[str, Any]) -> None:
    nodes = manifest["nodes"]
    changes: dict[str | None, tuple[dict[str, Any], dict[str, Any]]] = {
        "nodes": ({}, {"nodes": len(nodes) + 1}),
        "epsilon": ({"epsilon": limits["epsilon"] + 1 / 8}, {}),
        "no epsilon": ({"epsilon": None}, {}),
        "local": ({"epsilon_corrupted": limits["epsilon_corrupted"] + 1 / 4}, {}),
        "no local": ({"epsilon_corrupted": None}, {}),
        # Nothing is promised there, and nothing is asked.
        "any local": ({"epsilon_corrupted": None}, {"epsilon_corrupted": math.inf}),
        # Exactly what the limits allow, and a laboratory that lets corrupt nodes in.
        "edge": (
            {"epsilon": limits["epsilon"], "epsilon_corrupted": limits["epsilon_corrupted"]},
            {"nodes": len(nodes), "allow_corrupt": True},
        ),
    }
    manifest_changes, limit_changes = changes.get(how, ({}, {}))
    manifest |= manifest_changes
    limits |= limit_changes
    if how in {"corrupt", "edge"}:
        draws.choice(nodes)["corrupt"] = True
    if how == "operators":
        for node in nodes:
            node["operator"] = nodes[0]["operator"]


def client_accepts(manifest: dict[str, Any], limits: dict[str, Any]) -> bool:
    """Return True if the client's own policy accepts the round."""
    from shuffledp_client.policy import Policy, check_policy
    from shuffledp_core.documents.models import Party

    client_policy = Policy(
        epsilon=limits["epsilon"],
        delta=1e-6,
        epsilon_corrupted=limits["epsilon_corrupted"],
        nodes=limits["nodes"],
        operators=limits["operators"],
        allow_corrupt=limits["allow_corrupt"],
    )
    route = tuple(
        Party(
            name=node["name"],
            role="node",
            operator=node["operator"],
            address="127.0.0.1:1",
            identity_key="00" * 32,
        )
        for node in manifest["nodes"]
    )
    corrupt = tuple(node["name"] for node in manifest["nodes"] if node["corrupt"])
    try:
        check_policy(
            client_policy,
            _certificate(manifest),
            Geometry.of(_SPEC, "sealed-box", len(route)),
            route,
            corrupt,
        )
    except ClientPolicyRefusal:
        return False
    return True


def _certificate(manifest: dict[str, Any]) -> Any:
    from shuffledp_core.documents.models import (
        Certificate,
        CorruptedGuarantee,
        EpsilonBounds,
        LedgerPosition,
    )

    return Certificate(
        deployment="lab",
        round_id="0" * 32,
        stage="plan",
        population="demo",
        mechanism=_SPEC,
        users=100,
        honest=90,
        route=tuple(node["name"] for node in manifest["nodes"]),
        adjacency=Adjacency.STANDARD,
        max_distance=_SPEC.domain - 1,
        delta=1e-6,
        epsilon=EpsilonBounds(certified=manifest["epsilon"], attained=None),
        corrupted=CorruptedGuarantee(epsilon=manifest["epsilon_corrupted"], delta=0.0),
        standard_error=1.0,
        assumptions=(),
        basis=(),
        holds=True,
        ledger=LedgerPosition(entry=1, spent=0.5, delta=1e-6, limit=10.0),
        issued_at=0,
        expires_at=1,
    )
