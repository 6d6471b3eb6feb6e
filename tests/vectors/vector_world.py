"""A deployment whose keys, documents and coins are functions of names, so that vectors can be made
again byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from client_rounds import NOW, POPULATION, ROUTE, Draft
from cryptography.hazmat.primitives.asymmetric import mlkem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from shuffledp_client.submission import Member
from shuffledp_core.documents.models import Credential, Party, Population, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.runtime.keys import ROOT, Identity
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_ops.keys.pki import Deployment

YEAR: Final = 365 * 86_400_000


def derive(*names: object, size: int = 32) -> bytes:
    """Bytes that depend on nothing but these names."""
    return hashlib.shake_256(" ".join(map(str, names)).encode()).digest(size)


def coins(seed: bytes) -> RandomBytes:
    """The coin stream of the vectors: SHA-256(seed || counter) for the counters 0, 1, .., each of 8
    bytes, big endian, in a row. Every byte is given once."""

    def blocks() -> Iterator[bytes]:
        counter = 0
        while True:
            yield hashlib.sha256(seed + counter.to_bytes(8, "big")).digest()
            counter += 1

    source, rest = blocks(), b""

    def draw(size: int) -> bytes:
        nonlocal rest
        while len(rest) < size:
            rest += next(source)
        drawn, rest = rest[:size], rest[size:]
        return drawn

    return draw


def identity(name: str) -> Identity:
    """The signing identity of this name."""
    return Identity(name, Ed25519PrivateKey.from_private_bytes(derive("identity", name)))


@dataclass(frozen=True)
class VectorDeployment:
    """What a `Draft` needs of a deployment."""

    roster: Roster

    def identity_of(self, name: str) -> Identity:
        """See `Deployment`."""
        return identity(name)


def make_roster(**changes: Any) -> Roster:
    """Three nodes and a spare one, analyst, accountant, and one population."""
    names = [*ROUTE, "node-4", "analyst", "accountant"]
    parties = tuple(
        Party(
            name=name,
            role="node" if name.startswith("node") else name,
            operator=f"operator {name[-1]}" if name.startswith("node") else "operator a",
            address=f"{name}.example:7000",
            identity_key=identity(name).public_key.hex(),
        )
        for name in names
    )
    fields: dict[str, Any] = {
        "serial": 3,
        "issued_at": NOW - YEAR // 2,
        "expires_at": NOW + YEAR // 2,
        "deployment": "demo",
        "parties": parties,
        "populations": (
            Population(name=POPULATION, enrolment_key=identity("enrolment").public_key.hex()),
        ),
        "tls_authority": "",
    }
    return Roster(**(fields | changes))


def sign_roster(roster: Roster) -> Signed:
    """The roster under the root key."""
    return Identity(ROOT, identity(ROOT).key).sign(roster)


def round_key_pair(suite: str, position: int) -> tuple[bytes, bytes]:
    """(private, public) round key of a position."""
    private = derive("round key", suite, position)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    if suite != "hpke-mlkem768-x25519":
        return private, public
    lattice_seed = derive("lattice key", position, size=64)
    lattice = mlkem.MLKEM768PrivateKey.from_seed_bytes(lattice_seed)
    return lattice_seed + private, lattice.public_key().public_bytes_raw() + public


def make_draft(mechanism: Mechanism, suite: str = "hpke", **changes: Any) -> Draft:
    """A round about to be announced, with derived keys."""
    stand_in: Any = VectorDeployment(changes.pop("roster", make_roster()))
    deployment: Deployment = stand_in
    draft = Draft(deployment, mechanism=mechanism, suite=suite, **changes)
    pairs = [round_key_pair(suite, position) for position in range(1, len(draft.route) + 1)]
    draft.private_keys = [private for private, _ in pairs]
    draft.public_keys = [public for _, public in pairs]
    return draft


def make_member(name: str, **changes: Any) -> Member:
    """A user with a credential of the population."""
    key = Ed25519PrivateKey.from_private_bytes(derive("member", name))
    fields: dict[str, Any] = {
        "population": POPULATION,
        "public_key": key.public_key().public_bytes_raw().hex(),
    }
    enrolment = Identity(POPULATION, identity("enrolment").key)
    return Member.of(key, enrolment.sign(Credential(**(fields | changes))))
