"""A whole round under the public log with two real devices, and an analyst that may lie to each."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import numpy as np
from accountant_world import NODES, PLAN
from log_world import Branch, LogWorld

from shuffledp_client.device import DeviceSteps
from shuffledp_client.submission import PreparedSubmission
from shuffledp_client.transport import RoundEnd
from shuffledp_client.verification import parse_announcement
from shuffledp_core.answering.decoding import decode
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import BatchHeader, Certificate, Party, Receipt, Result
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.transparency.board_tiles import TiledBoard
from shuffledp_core.transparency.entries import result_entry
from shuffledp_ops.keys.pki import ANALYST

USERS = PLAN.min_reports
POPULATION = "demo"


@dataclass
class DirectLink:
    """A device's way to the analyst and the entry node, without a network."""

    played: LoggedRound
    end: RoundEnd | None = None
    board_bytes: bytes = b""

    @asynccontextmanager
    async def entry(self, _party: Party) -> AsyncIterator[DirectLink]:
        yield self

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[DirectLink]:
        yield self

    async def submit(self, prepared: PreparedSubmission) -> Signed:
        self.played.messages.append(prepared.messages)
        receipt = Receipt(
            round_id=prepared.round_id,
            credential=prepared.claim.signer,
            submission_digest=digest(prepared.envelope),
        )
        return self.played.world.deployment.identity_of(NODES[0]).sign(receipt)

    async def announcement(self, _round_id: str | None = None) -> bytes:
        return self.played.announcement

    async def ending(self, _round_id: str) -> RoundEnd:
        assert self.end is not None
        return self.end

    async def result(self, round_id: str) -> Signed:
        return (await self.ending(round_id)).result

    async def board(self, _round_id: str, _length: int) -> bytes:
        return self.board_bytes

    async def tile(self, _round_id: str, index: int) -> bytes:
        return TiledBoard.of(self.board_bytes, self.played.geometry).tile(index)


@dataclass
class LoggedRound:
    """A round that real devices answer; everyone else's messages are drawn here."""

    world: LogWorld
    branch: Branch
    round_id: str = field(init=False)
    certificate: Signed = field(init=False)
    announcement: bytes = field(init=False)
    messages: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.round_id, self.certificate = self.branch.certify()
        proof = self.branch.proof(self.round_id, self.certificate)
        self.announcement = self.world.announcement(self.certificate, proof or None)

    async def answer(self, device: DeviceSteps, announcement: bytes | None = None) -> None:
        """One real answer, to this announcement of the round; the device's link must be ours."""
        await device.submit(1, verified=device.verified(announcement or self.announcement))

    @property
    def manifest(self) -> Signed:
        return parse_announcement(self.announcement).manifest

    def board(self) -> bytes:
        """What the devices sent, and messages of everyone else; a new one at each call."""
        geometry = self.geometry
        width = geometry.symbol_bytes
        others = [
            secrets.randbelow(PLAN.size).to_bytes(width, "big") + secrets.token_bytes(TAG_BYTES)
            for _ in range(USERS - len(self.messages))
        ]
        return b"".join([*self.messages, *others])

    @property
    def plan(self) -> Certificate:
        return from_json(self.certificate.body, Certificate)

    @property
    def geometry(self) -> Geometry:
        return Geometry.of(self.plan.mechanism, PLAN.suite, len(NODES))

    def headers(self, board: bytes) -> tuple[Signed, ...]:
        return tuple(
            self.world.deployment.identity_of(node).sign(
                BatchHeader(
                    round_id=self.round_id,
                    position=position,
                    users=USERS,
                    records=USERS,
                    digest=digest(board),
                )
            )
            for position, node in enumerate(NODES, start=2)
        )

    def settle(self, board: bytes) -> Signed:
        """The final certificate, whose charge is settled and logged."""
        headers = [header.to_bytes() for header in self.headers(board)]
        final = self.branch.accountant.settle(self.round_id, USERS, headers)
        self.branch.publish()
        return Signed.from_bytes(final)

    def result(self, board: bytes, final: Signed, **changes: object) -> Signed:
        """The analyst's signed answer."""
        mechanism = self.plan.mechanism
        packed = np.frombuffer(board, dtype=np.uint8)
        decoded = decode(packed, self.geometry, mechanism.alphabet, USERS, 0, mechanism.counts_of)
        document = Result(
            deployment=self.world.roster.deployment,
            round_id=self.round_id,
            outcome="published",
            accepted=USERS,
            messages=USERS,
            board_digest=digest(board),
            estimate=estimate(mechanism, decoded.counts, USERS, 0, nodes=len(NODES)),
            plan_certificate=self.certificate,
            final_certificate=final,
            headers=self.headers(board),
            manifest_digest=document_digest(self.manifest),
        )
        analyst = self.world.deployment.identity_of(ANALYST)
        return analyst.sign(msgspec.structs.replace(document, **changes))

    def log(self, result: Signed) -> bytes:
        """The proof of a result that the accountant has logged."""
        accountant, hashed = self.branch.accountant, document_digest(result)
        accountant.log_result(self.round_id, hashed)
        self.branch.publish()
        return accountant.result_proof(self.round_id, hashed)

    def entry(self, result: Signed) -> bytes:
        """The log's entry of a result."""
        return result_entry(POPULATION, self.round_id, document_digest(result)).to_bytes()
