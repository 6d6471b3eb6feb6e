"""A deployment whose accountant runs and is called over real TLS."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from shuffledp_accountant.config import AccountantConfig, PopulationConfig
from shuffledp_core.documents.models import BatchHeader, Certificate, Discard, RoundPlan
from shuffledp_core.documents.signed import Signed, to_json, verify
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, Deployment
from shuffledp_proto.v1 import accountant_pb2 as pb
from shuffledp_proto.v1 import accountant_pb2_grpc

NODES = ("node-1", "node-2", "node-3")
PLAN = RoundPlan(
    population="demo",
    mechanism="krr-histogram",
    size=4,
    epsilon=1.0,
    delta=1e-7,
    min_reports=200,
    max_reports=1000,
    colluding=20,
    route=NODES,
    open_seconds=60.0,
)


class Caller:
    """One party's calls to the accountant, with typed errors."""

    def __init__(self, stub: accountant_pb2_grpc.AccountantAsyncStub) -> None:
        self._stub = stub

    async def certify(self, round_id: str, plan: RoundPlan | bytes = PLAN) -> bytes:
        data = plan if isinstance(plan, bytes) else to_json(plan)
        async with translate_errors("the accountant"):
            return (
                await self._stub.Certify(pb.CertifyRequest(round_id=round_id, plan=data))
            ).certificate

    async def settle(
        self, round_id: str, accepted: int, headers: list[bytes], invalid: int = 0
    ) -> bytes:
        request = pb.SettleRequest(
            round_id=round_id, accepted=accepted, headers=headers, invalid=invalid
        )
        async with translate_errors("the accountant"):
            return (await self._stub.Settle(request)).certificate

    async def release(self, round_id: str, discards: list[bytes]) -> None:
        async with translate_errors("the accountant"):
            await self._stub.Release(pb.ReleaseRequest(round_id=round_id, discards=discards))

    async def budget(self, population: str = "demo") -> pb.GetBudgetResponse:
        async with translate_errors("the accountant"):
            return await self._stub.GetBudget(pb.GetBudgetRequest(population=population))


class World:
    """A deployment whose accountant is running."""

    def __init__(self, deployment: Deployment, config: AccountantConfig) -> None:
        self.deployment = deployment
        self.config = config
        self._channels: list[Any] = []

    def caller(self, name: str = ANALYST) -> Caller:
        roster = self.deployment.roster
        channel = channel_to(roster.accountant, self.deployment.keys_of(name), roster)
        self._channels.append(channel)
        return Caller(accountant_pb2_grpc.AccountantStub(channel))

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def read(self, wire: bytes) -> Certificate:
        key = bytes.fromhex(self.deployment.roster.accountant.identity_key)
        return verify(Signed.from_bytes(wire), Certificate, ACCOUNTANT, key)

    def discard(
        self, round_id: str, node: str, *, forwarded: bool = False, signer: str | None = None
    ) -> bytes:
        identity = self.deployment.identity_of(signer or node)
        return identity.sign(Discard(round_id=round_id, node=node, forwarded=forwarded)).to_bytes()

    def header(
        self, round_id: str, node: str, users: int, signer: str | None = None, **changes: Any
    ) -> bytes:
        """The word of a node of `PLAN`'s route (one message per user) that it relayed so many
        reports."""
        fields: dict[str, Any] = {
            "round_id": round_id,
            "position": NODES.index(node) + 2,
            "users": users,
            "records": users,
            "digest": "00" * 32,
        } | changes
        return self.deployment.identity_of(signer or node).sign(BatchHeader(**fields)).to_bytes()

    def headers(self, round_id: str, users: int) -> list[bytes]:
        return [self.header(round_id, node, users) for node in NODES]

    def discards(self, round_id: str) -> list[bytes]:
        return [self.discard(round_id, node) for node in NODES]


def new_round() -> str:
    return secrets.token_hex(16)


def make_config(deployment: Deployment, folder: Path) -> AccountantConfig:
    return AccountantConfig(
        name=ACCOUNTANT,
        keys=deployment.keys_of(ACCOUNTANT),
        roster=deployment.roster_file,
        root_key=deployment.root_key,
        listen=deployment.roster.accountant.address,
        state=folder / "state",
        populations={"demo": PopulationConfig(epsilon=2.0, delta=1e-6)},
    )
