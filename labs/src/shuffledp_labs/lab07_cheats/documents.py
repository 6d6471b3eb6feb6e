"""Signed documents of a round, made in process, as devices and third parties have them.

Every document is the protocol's own and really signed, by identities of this deployment; only the
certificate's numbers are made up, because evidence does not rest on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_client.encoding import add_tags, pack
from shuffledp_client.evidence import Evidence
from shuffledp_client.submission import Member, seal
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import (
    Announcement,
    BatchHeader,
    Certificate,
    CorruptedGuarantee,
    Countersignature,
    Credential,
    EpsilonBounds,
    LedgerPosition,
    Manifest,
    Party,
    Population,
    Receipt,
    Result,
    Roster,
    RoundKey,
)
from shuffledp_core.documents.signed import Document, Signed, from_json, to_json
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.errors import MalformedDocumentError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.seeds import SEED_BYTES, stream
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.vocabulary import CertificateStage, Outcome, Role
from shuffledp_labs.instance import Draws

SUITE: Final = "sealed-box"
ROUTE: Final = ("node-1", "node-2", "node-3")
POPULATION: Final = "class"
ANALYST: Final = "analyst"
ACCOUNTANT: Final = "accountant"
NOW: Final = 1_800_000_000_000
"""A time of the round, milliseconds since 1970; evidence does not ask what time it is."""

BUNDLE: Final = ("announcement", "credential", "claim", "receipt", "result", "symbols", "seed")
"""What a bundle of evidence holds, and nothing else."""

SECRETS: Final = ("symbols", "seed")
"""The parts of it that are bytes, and the user's secret until it shows them."""


@dataclass(frozen=True)
class RoundDevice:
    """One user of the round, with all data that the user's device made.

    Attributes:
        value: the true value.
        member: the user's key and credential.
        symbols: the randomised answer, packed.
        seed: seed of tags and seals.
        envelope: the envelope that the user sent.
        messages: the plain messages in it.
        claim: signed by its key.
    """

    value: int
    member: Member
    symbols: bytes
    seed: bytes
    envelope: bytes
    messages: tuple[bytes, ...]
    claim: Signed


class Documents:
    """A deployment, and the documents of one of its rounds.

    `device` adds users; `receipt` and `result` sign what parties say.
    """

    def __init__(self, draws: Draws, users: int) -> None:
        self._draws = draws
        self.mechanism = RRShuffle(max_value=2 + draws.below(2), randomise=Fraction(1, 2))
        self.geometry = Geometry.of(self.mechanism, SUITE, len(ROUTE))
        self.deployment = draws.bytes(8).hex()
        self.round_id = draws.bytes(16).hex()
        self.users = users
        names = (*ROUTE, ANALYST, ACCOUNTANT, POPULATION)
        self.identities = {name: Identity(name, _key(draws)) for name in names}
        self.roster = self._roster()
        self._public_keys = self._round_keys()
        self._certificate = self.identities[ACCOUNTANT].sign(
            self.certificate(CertificateStage.PLAN)
        )
        self.announcement = self._announcement()

    def _roster(self) -> Roster:
        roles = dict.fromkeys(ROUTE, Role.NODE) | {
            ANALYST: Role.ANALYST,
            ACCOUNTANT: Role.ACCOUNTANT,
        }
        return Roster(
            serial=1,
            issued_at=NOW,
            expires_at=NOW + 86_400_000,
            deployment=self.deployment,
            parties=tuple(
                Party(name=name, role=role, operator=name, address="", identity_key=self._hex(name))
                for name, role in roles.items()
            ),
            populations=(Population(name=POPULATION, enrolment_key=self._hex(POPULATION)),),
            tls_authority="",
        )

    def _hex(self, name: str) -> str:
        return self.identities[name].public_key.hex()

    def _round_keys(self) -> list[bytes]:
        from nacl import bindings

        return [bindings.crypto_box_seed_keypair(self._draws.bytes(32))[0] for _ in ROUTE]

    def certificate(self, stage: str) -> Certificate:
        """A certificate with plausible, made-up numbers."""
        return Certificate(
            deployment=self.deployment,
            round_id=self.round_id,
            stage=stage,
            population=POPULATION,
            mechanism=self.mechanism,
            users=self.users,
            honest=self.users,
            route=ROUTE,
            adjacency=Adjacency.STANDARD,
            max_distance=self.mechanism.domain - 1,
            delta=1e-6,
            epsilon=EpsilonBounds(certified=0.5, attained=0.4),
            corrupted=CorruptedGuarantee(epsilon=5.0, delta=0.0),
            standard_error=1.0,
            assumptions=(),
            basis=(),
            holds=True,
            ledger=LedgerPosition(entry=1, spent=0.5, delta=1e-6, limit=10.0),
            issued_at=NOW,
            expires_at=NOW + 3_600_000,
        )

    def _announcement(self) -> Announcement:
        certified = document_digest(self._certificate)
        keys = tuple(
            self.identities[node].sign(
                RoundKey(
                    deployment=self.deployment,
                    round_id=self.round_id,
                    node=node,
                    position=position,
                    suite=SUITE,
                    public_key=self._public_keys[position - 1].hex(),
                    certificate_digest=certified,
                )
            )
            for position, node in enumerate(ROUTE, start=1)
        )
        manifest = self.identities[ANALYST].sign(
            Manifest(
                deployment=self.deployment,
                round_id=self.round_id,
                certificate=self._certificate,
                route=keys,
                geometry=self.geometry,
                min_reports=self.users,
                max_reports=self.users,
                opens_at=NOW,
                closes_at=NOW + 60_000,
            )
        )
        manifest_digest = document_digest(manifest)
        signed = (
            self.identities[node].sign(
                Countersignature(round_id=self.round_id, node=node, manifest_digest=manifest_digest)
            )
            for node in ROUTE
        )
        return Announcement(manifest=manifest, countersignatures=tuple(signed))

    def device(self) -> RoundDevice:
        """A new user with a drawn value, and a submission as a device makes it."""
        draws = self._draws
        key = _key(draws)
        public = key.public_key().public_bytes_raw().hex()
        credential = self.identities[POPULATION].sign(
            Credential(population=POPULATION, public_key=public)
        )
        value = draws.below(self.mechanism.domain)
        answer = randomise(self.mechanism, value, RandomIntegers(draws.bytes))
        symbols = pack(self.geometry, list(self.mechanism.encode(answer)))
        seed = draws.bytes(SEED_BYTES)
        envelope = seal(self.geometry, self.round_id, self._public_keys, symbols, seed)
        claim = SubmissionClaim(
            round_id=self.round_id, credential=public, envelope_digest=digest(envelope)
        )
        return RoundDevice(
            value=value,
            member=Member.of(key, credential),
            symbols=symbols,
            seed=seed,
            envelope=envelope,
            messages=tuple(add_tags(self.geometry, symbols, stream(seed))),
            claim=Identity(public, key).sign(claim),
        )

    def receipt(self, device: RoundDevice, *, signer: str = ROUTE[0], **changes: str) -> Signed:
        """The entry node's receipt for a device's envelope.

        Signed by another party's key under its name.
        """
        genuine = Receipt(
            round_id=self.round_id,
            credential=device.claim.signer,
            submission_digest=digest(device.envelope),
        )
        return self.sign_as(ROUTE[0], signer, msgspec.structs.replace(genuine, **changes))

    def sign_as(self, name: str, signer: str, document: Document) -> Signed:
        """Sign a document in one party's name, perhaps with another party's key."""
        return Identity(name, self.identities[signer].key).sign(document)

    def relabelled_receipt(self, device: RoundDevice) -> Signed:
        """The entry node's signature on the body of a receipt, but under another label."""
        receipt = self.receipt(device)
        label = "countersignature"
        covered = f"shuffledp/v1/{label}\0{receipt.body}".encode()
        signature = self.identities[ROUTE[0]].key.sign(covered).hex()
        return msgspec.structs.replace(receipt, label=label, signature=signature)

    def result(self, board: bytes, *, signer: str = ANALYST, **changes: str) -> Signed:
        """The analyst's signed result for a board, with the headers of all nodes."""
        records = self.users * self.geometry.messages_per_user
        headers = tuple(
            self.identities[node].sign(
                BatchHeader(
                    round_id=self.round_id,
                    position=position,
                    users=self.users,
                    records=records,
                    digest=digest(board),
                )
            )
            for position, node in enumerate(ROUTE, start=2)
        )
        document = Result(
            deployment=self.deployment,
            round_id=self.round_id,
            outcome=Outcome.PUBLISHED,
            accepted=self.users,
            messages=records,
            board_digest=digest(board),
            plan_certificate=self._certificate,
            final_certificate=self.identities[ACCOUNTANT].sign(
                self.certificate(CertificateStage.FINAL)
            ),
            headers=headers,
        )
        return self.sign_as(ANALYST, signer, msgspec.structs.replace(document, **changes))

    def failed_result(self) -> Signed:
        """The analyst's signed statement that the round failed."""
        result = Result(
            deployment=self.deployment,
            round_id=self.round_id,
            outcome=Outcome.FAILED,
            reason="too few reports",
            error="TooFewReportsError",
        )
        return self.identities[ANALYST].sign(result)

    def device_data(
        self, device: RoundDevice, receipt: Signed | None, result: Signed
    ) -> dict[str, Any]:
        """All data that a device stores, as argument of the student's function."""
        return {
            "round": self.round_id,
            "entry": ROUTE[0],
            "entry_key": self.identities[ROUTE[0]].public_key,
            "analyst_key": self.identities[ANALYST].public_key,
            "envelope": device.envelope,
            "messages": device.messages,
            "announcement": to_json(self.announcement).decode(),
            "credential": device.member.credential.to_bytes().decode(),
            "claim": device.claim.to_bytes().decode(),
            "receipt": None if receipt is None else receipt.to_bytes().decode(),
            "result": result.to_bytes().decode(),
            "symbols": device.symbols,
            "seed": device.seed,
            "value": device.value,
            "private_key": device.member.private_key,
        }


def parse_bundle(bundle: dict[str, Any]) -> Evidence:
    """Parse the evidence in a student's bundle, which must have exactly the keys of `BUNDLE`.

    Raises:
        MalformedDocumentError: a part of it is no document, or of another type.
    """
    if not all(isinstance(bundle[name], bytes if name in SECRETS else str) for name in BUNDLE):
        raise MalformedDocumentError(
            "documents are texts, symbols and seed are bytes, as the device keeps them"
        )
    return Evidence(
        announcement=from_json(bundle["announcement"].encode(), Announcement),
        credential=Signed.from_bytes(bundle["credential"].encode()),
        claim=Signed.from_bytes(bundle["claim"].encode()),
        receipt=Signed.from_bytes(bundle["receipt"].encode()),
        result=Signed.from_bytes(bundle["result"].encode()),
        symbols=bundle["symbols"],
        seed=bundle["seed"],
    )


def _key(draws: Draws) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(draws.bytes(32))
