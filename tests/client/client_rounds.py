"""Rounds for the client's tests: every document really signed, each part replaceable before it is
signed.

A `Draft` recomputes whatever depends on a changed part (digests, countersignatures), so that a test
tampers with one thing and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec

from shuffledp_client.policy import Policy
from shuffledp_client.submission import Member
from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import (
    Announcement,
    BatchHeader,
    Certificate,
    CorruptedGuarantee,
    Countersignature,
    EpsilonBounds,
    LedgerPosition,
    Manifest,
    RoundKey,
)
from shuffledp_core.documents.signed import Signed
from shuffledp_core.mechanisms import Mechanism, SGDLShuffle
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.layers import open_envelope, peel
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.keys import Identity
from shuffledp_ops.keys.pki import Deployment, create_deployment, issue_credentials
from shuffledp_sim.system.ports import Ports

NOW: Final = 1_800_000_000_000
ROUND_ID: Final = "0123456789abcdef" * 2
POPULATION: Final = "demo"
ROUTE: Final = ("node-1", "node-2", "node-3")
SUM: Final = SGDLShuffle(max_value=4, noise_epsilon=Fraction(1, 8), shares=10, padding=3)
_HELD: Final[list[Ports]] = []
NO_ESTIMATE: Final = Estimate(quantity="sum", values=(), standard_errors=(), lows=(), highs=())
LENIENT: Final = Policy(epsilon=1.0, delta=1e-6, epsilon_corrupted=10.0)


def make_deployment(folder: Path) -> Deployment:
    """Keys of three nodes and a spare one, analyst and accountant, on ports that are held until the
    tests end."""
    names = [*ROUTE, "node-4", "analyst", "accountant"]
    ports = Ports(len(names))
    _HELD.append(ports)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports.numbers, strict=True)}
    return create_deployment(folder, addresses, population=POPULATION)


def make_members(deployment: Deployment, count: int) -> list[Member]:
    """Users with real credentials."""
    return [
        Member.of(*pair) for pair in issue_credentials(deployment.enrolment_of(POPULATION), count)
    ]


def make_certificate(
    deployment: Deployment, mechanism: Mechanism, /, **changes: Any
) -> Certificate:
    """A plan's certificate for 100 users, which claims no more than devices find true for the
    mechanism."""
    local = mechanism.local_epsilon(mechanism.domain - 1)
    # The noise of `SUM` hides that most reports are clamped; of others, each report's own ε bounds
    # all.
    epsilon = 0.5 if mechanism == SUM or math.isinf(local) else max(0.5, local)
    certificate = Certificate(
        deployment=deployment.roster.deployment,
        round_id=ROUND_ID,
        stage="plan",
        population=POPULATION,
        mechanism=mechanism,
        users=100,
        honest=90,
        route=ROUTE,
        adjacency=Adjacency.STANDARD,
        max_distance=mechanism.domain - 1,
        delta=1e-6,
        epsilon=EpsilonBounds(certified=epsilon, attained=0.4),
        corrupted=CorruptedGuarantee(
            epsilon=max(5.0, local) if math.isfinite(local) else None, delta=0.0
        ),
        standard_error=1.0,
        assumptions=(),
        basis=(),
        holds=True,
        ledger=LedgerPosition(entry=1, spent=0.5, delta=1e-6, limit=10.0),
        issued_at=NOW - 10_000,
        expires_at=NOW + 3_600_000,
    )
    return msgspec.structs.replace(certificate, **changes)


@dataclass
class Draft:
    """A round about to be announced. Change attributes, then ask for `announcement`."""

    deployment: Deployment
    mechanism: Mechanism = SUM
    suite: str = "sealed-box"
    route: tuple[str, ...] = ROUTE
    certificate: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    round_keys: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    countersignatures: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    countersigners: tuple[str, ...] | None = None
    signers: Mapping[str, Identity] = field(default_factory=dict)
    """Who signs in place of a party, under that party's name."""

    def __post_init__(self) -> None:
        pairs = [suite_named(self.suite).generate() for _ in self.route]
        self.private_keys = [private for private, _ in pairs]
        self.public_keys = [public for _, public in pairs]

    def signed_by(self, name: str, document: Any) -> Signed:
        """The document under the party's key, or under the impostor's."""
        return self.signers.get(name, self.deployment.identity_of(name)).sign(document)

    def signed_certificate(self) -> Signed:
        """The plan's certificate."""
        fields = {"route": self.route} | self.certificate
        return self.signed_by(
            "accountant", make_certificate(self.deployment, self.mechanism, **fields)
        )

    def _key(self, position: int, node: str, certified: str) -> Signed:
        key = RoundKey(
            deployment=self.deployment.roster.deployment,
            round_id=ROUND_ID,
            node=node,
            position=position,
            suite=self.suite,
            public_key=self.public_keys[position - 1].hex(),
            certificate_digest=certified,
        )
        return self.signed_by(
            node, msgspec.structs.replace(key, **self.round_keys.get(position, {}))
        )

    def announcement(self) -> Announcement:
        """All of it, signed."""
        certificate = self.signed_certificate()
        certified = document_digest(certificate)
        keys = tuple(
            self._key(position, node, certified)
            for position, node in enumerate(self.route, start=1)
        )
        document = Manifest(
            deployment=self.deployment.roster.deployment,
            round_id=ROUND_ID,
            certificate=certificate,
            route=keys,
            geometry=Geometry.of(self.mechanism, self.suite, len(self.route)),
            min_reports=100,
            max_reports=1000,
            opens_at=NOW - 1000,
            closes_at=NOW + 60_000,
        )
        manifest = self.signed_by("analyst", msgspec.structs.replace(document, **self.manifest))
        return Announcement(
            manifest=manifest,
            countersignatures=tuple(
                self._countersignature(node, document_digest(manifest))
                for node in (self.route if self.countersigners is None else self.countersigners)
            ),
        )

    def _countersignature(self, node: str, manifest_digest: str) -> Signed:
        document = Countersignature(round_id=ROUND_ID, node=node, manifest_digest=manifest_digest)
        return self.signed_by(
            node, msgspec.structs.replace(document, **self.countersignatures.get(node, {}))
        )


def settled(draft: Draft, board: bytes, users: int) -> dict[str, Any]:
    """The fields of a published result for this board: what the analyst computes, and the words of
    all nodes."""
    mechanism, messages = draft.mechanism, users * draft.mechanism.messages_per_user
    width = Geometry.of(mechanism, draft.suite, len(draft.route)).plain_bytes
    symbols = [
        int.from_bytes(board[start : start + width - TAG_BYTES], "big")
        for start in range(0, len(board), width)
    ]
    counts = [symbols.count(symbol) for symbol in range(mechanism.alphabet)]
    headers = [
        BatchHeader(
            round_id=ROUND_ID,
            position=position,
            users=users,
            records=messages,
            digest=digest(board),
        )
        for position in range(2, len(draft.route) + 2)
    ]
    words = {name: words for name, words in draft.certificate.items() if name == "wording"}
    final = make_certificate(
        draft.deployment, mechanism, stage="final", users=users, route=draft.route, **words
    )
    return {
        "outcome": "published",
        "accepted": users,
        "messages": messages,
        "board_digest": digest(board),
        "estimate": estimate(mechanism, counts, users) if sum(counts) == messages else NO_ESTIMATE,
        "plan_certificate": draft.signed_certificate(),
        "final_certificate": draft.signed_by("accountant", final),
        "headers": tuple(draft.signed_by(*pair) for pair in zip(draft.route, headers, strict=True)),
    }


def peel_all(draft: Draft, envelope: bytes) -> bytes:
    """What the analyst would receive of one envelope, in unmixed order: every layer opened by its
    node's key."""
    geometry = Geometry.of(draft.mechanism, draft.suite, len(draft.route))
    packed = open_envelope(geometry, ROUND_ID, draft.private_keys[0], envelope)
    for position in range(2, geometry.hops + 1):
        packed = peel(geometry, ROUND_ID, position, draft.private_keys[position - 1], packed)
    return packed
