"""The accountant over real TLS: who may ask what, and what each call answers, once and again."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from shuffledp_accountant.certificates import recheck
from shuffledp_accountant.config import AccountantConfig, PopulationConfig
from shuffledp_accountant.ledger.charges import Budget
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_accountant.service import Accountant, AccountantServicer, create_service, open_accountant
from shuffledp_core.clock import system_clock
from shuffledp_core.documents.models import BatchHeader, Certificate, Discard, RoundPlan
from shuffledp_core.documents.signed import Signed, to_json, verify
from shuffledp_core.errors import (
    AccessDenied,
    BudgetExceeded,
    CannotCertify,
    ConfigError,
    CountMismatchError,
    ForeignDocumentError,
    LedgerError,
    MalformedDocumentError,
    RoundStateError,
    SignatureError,
    TooFewReportsError,
    UnknownRoundError,
    UsageError,
)
from shuffledp_core.keys import Identity
from shuffledp_core.mechanisms import MAX_DOMAIN
from shuffledp_core.privacy import Adjacency
from shuffledp_core.transport.rpc_errors import Context, translated
from shuffledp_core.transport.tls import channel_to
from shuffledp_proto.v1 import accountant_pb2 as pb
from shuffledp_proto.v1 import accountant_pb2_grpc
from shuffledp_sim.keys.pki import ACCOUNTANT, ANALYST, Deployment, create_deployment
from shuffledp_sim.system.ports import Ports

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
        async with translated("the accountant"):
            return (await self._stub.Certify(pb.CertifyRequest(round_id=round_id, plan=data))).certificate

    async def settle(self, round_id: str, accepted: int, headers: list[bytes]) -> bytes:
        request = pb.SettleRequest(round_id=round_id, accepted=accepted, headers=headers)
        async with translated("the accountant"):
            return (await self._stub.Settle(request)).certificate

    async def release(self, round_id: str, discards: list[bytes]) -> None:
        async with translated("the accountant"):
            await self._stub.Release(pb.ReleaseRequest(round_id=round_id, discards=discards))

    async def budget(self, population: str = "demo") -> pb.GetBudgetResponse:
        async with translated("the accountant"):
            return await self._stub.GetBudget(pb.GetBudgetRequest(population=population))


class World:
    """A deployment whose accountant is running."""

    def __init__(self, deployment: Deployment, config: AccountantConfig) -> None:
        self.deployment = deployment
        self.config = config
        self._channels: list[Any] = []

    def caller(self, name: str = ANALYST) -> Caller:
        roster = self.deployment.roster
        channel = channel_to(roster.the("accountant"), self.deployment.keys_of(name), roster)
        self._channels.append(channel)
        return Caller(accountant_pb2_grpc.AccountantStub(channel))

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def read(self, wire: bytes) -> Certificate:
        key = bytes.fromhex(self.deployment.roster.the("accountant").identity_key)
        return verify(Signed.from_bytes(wire), Certificate, ACCOUNTANT, key)

    def discard(self, round_id: str, node: str, *, forwarded: bool = False, signer: str | None = None) -> bytes:
        identity = self.deployment.identity_of(signer or node)
        return identity.sign(Discard(round_id=round_id, node=node, forwarded=forwarded)).to_bytes()

    def header(self, round_id: str, node: str, users: int, signer: str | None = None, **changes: Any) -> bytes:
        """The word of a node of `PLAN`'s route (one message per user) that it relayed so many reports."""
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
        listen=deployment.roster.the("accountant").address,
        state=folder / "state",
        populations={"demo": PopulationConfig(epsilon=2.0, delta=1e-6)},
    )


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    ports = Ports(len(NODES) + 2)
    names = [*NODES, ANALYST, ACCOUNTANT]
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports.numbers, strict=True)}
    deployment = create_deployment(tmp_path / "keys", addresses)
    config = make_config(deployment, tmp_path)
    accountant, ledger = open_accountant(config, deployment.roster)
    service = create_service(config, deployment.roster, accountant, AccountantMetrics(config))
    await service.start()
    there = World(deployment, config)
    yield there
    await there.close()
    await service.stop()
    ledger.close()
    ports.close()


async def test_a_plan_gets_a_signed_certificate_that_stands_up_to_a_recheck(world: World) -> None:
    round_id = new_round()
    document = world.read(await world.caller().certify(round_id))
    assert (document.stage, document.round_id, document.deployment) == ("plan", round_id, "demo")
    assert (document.users, document.honest, document.nodes) == (200, 180, 3)
    assert document.holds
    assert document.ledger.entry == 1
    assert document.expires_at - document.issued_at == 60_000 + 30 * 86_400_000
    recheck(document)


async def test_the_same_plan_gets_the_same_bytes_and_another_plan_is_refused(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    first, again = await asyncio.gather(caller.certify(round_id), caller.certify(round_id))
    assert first == again == await caller.certify(round_id)
    with pytest.raises(RoundStateError, match="another plan"):
        await caller.certify(round_id, msgspec.structs.replace(PLAN, epsilon=0.5))
    assert len((await caller.budget()).entries) == 1


async def test_a_round_is_settled_for_what_arrived_and_settled_the_same_again(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    plan = world.read(await caller.certify(round_id))
    reserved = (await caller.budget()).spent_epsilon
    headers = world.headers(round_id, 900)
    wire = await caller.settle(round_id, 900, headers)
    final = world.read(wire)
    assert (final.stage, final.users, final.honest, final.mechanism) == ("final", 900, 880, plan.mechanism)
    assert final.holds
    recheck(final)
    assert final.assumptions[0] == "exactly 900 reports were mixed: each of the 3 nodes signed that it relayed so many"
    assert await caller.settle(round_id, 900, headers) == wire
    with pytest.raises(RoundStateError, match="settled for 900 reports"):
        await caller.settle(round_id, 901, world.headers(round_id, 901))
    budget = await caller.budget()
    assert budget.spent_epsilon < reserved
    assert budget.entries[0].state == "settled"


@pytest.mark.parametrize("accepted", [0, 20, 199])
async def test_fewer_reports_than_the_minimum_have_no_final_certificate(world: World, accepted: int) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    with pytest.raises(TooFewReportsError, match="minimum, 200"):
        await caller.settle(round_id, accepted, world.headers(round_id, accepted))
    assert (await caller.budget()).entries[0].state == "reserved"


async def test_more_reports_than_the_maximum_are_refused(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    with pytest.raises(RoundStateError, match="maximum, 1000"):
        await caller.settle(round_id, 1001, world.headers(round_id, 1001))


@pytest.mark.parametrize("honest", NODES)
async def test_an_analyst_that_overstates_is_refused_whichever_node_is_the_honest_one(
    world: World, honest: str
) -> None:
    """All others collude and sign what the analyst wants; it sends the honest node's word, or leaves it out."""
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    lies = {node: world.header(round_id, node, 900) for node in NODES}
    true = world.header(round_id, honest, 250)
    with pytest.raises(CountMismatchError, match=f"{honest} signed that it relayed 250 reports, not 900"):
        await caller.settle(round_id, 900, list((lies | {honest: true}).values()))
    with pytest.raises(RoundStateError, match=f"lacks the batch header of {honest}:"):
        await caller.settle(round_id, 900, [lies[node] for node in NODES if node != honest])
    entry = (await caller.budget()).entries[0]
    assert entry.state == "reserved"
    with pytest.raises(CountMismatchError, match="900 reports, not 250"):
        await caller.settle(round_id, 250, list((lies | {honest: true}).values()))
    assert world.read(await caller.settle(round_id, 250, world.headers(round_id, 250))).users == 250


async def test_without_any_header_there_is_no_final_certificate(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    with pytest.raises(RoundStateError, match="node-1, node-2, node-3"):
        await caller.settle(round_id, 300, [])
    assert (await caller.budget()).entries[0].state == "reserved"


async def test_headers_that_are_forged_foreign_borrowed_or_contradictory_do_not_count(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    good = world.headers(round_id, 300)
    forged = Identity("node-2", world.deployment.identity_of("node-1").key)
    document = BatchHeader(round_id=round_id, position=3, users=300, records=300, digest="00" * 32)
    for bad, error in (
        (b"{}", MalformedDocumentError),
        (forged.sign(document).to_bytes(), SignatureError),
        (world.discard(round_id, "node-2"), ForeignDocumentError),
        (world.header(new_round(), "node-2", 300), ForeignDocumentError),
        (world.header(round_id, "node-2", 300, position=2), ForeignDocumentError),
        (world.header(round_id, "node-2", 300, position=4), ForeignDocumentError),
        (world.header(round_id, "node-2", 300, signer="node-1"), RoundStateError),
        (world.header(round_id, "node-2", 299), CountMismatchError),
        (world.header(round_id, "node-2", 301), CountMismatchError),
        (world.header(round_id, "node-2", 300, records=299), CountMismatchError),
    ):
        with pytest.raises(error):
            await caller.settle(round_id, 300, [good[0], bad, good[2]])
    for wrong in (good[::-1], [*good, good[0]], [*good, world.header(round_id, "node-1", 300, signer=ANALYST)]):
        with pytest.raises(ForeignDocumentError, match="where the route is node-1, node-2, node-3"):
            await caller.settle(round_id, 300, wrong)
    assert (await caller.budget()).entries[0].state == "reserved"
    assert world.read(await caller.settle(round_id, 300, good)).stage == "final"


async def test_every_message_of_a_report_must_have_been_relayed(world: World) -> None:
    """A mechanism with several messages per user: as many records as users is far too few."""
    caller, round_id = world.caller(), new_round()
    plan = world.read(await caller.certify(round_id, msgspec.structs.replace(PLAN, mechanism="rr-shuffle", size=3)))
    messages = plan.mechanism.messages_per_user
    assert messages == 3
    with pytest.raises(CountMismatchError, match="300 records where 300 reports of 3 messages are 900"):
        await caller.settle(round_id, 300, world.headers(round_id, 300))
    headers = [world.header(round_id, node, 300, records=900) for node in NODES]
    assert world.read(await caller.settle(round_id, 300, headers)).users == 300


async def test_a_round_over_the_budget_is_refused_and_told_what_is_left(world: World) -> None:
    caller = world.caller()
    await caller.certify(new_round())
    with pytest.raises(BudgetExceeded, match=r"of 2 is spent .* is left"):
        await caller.certify(new_round(), msgspec.structs.replace(PLAN, epsilon=3.0))
    assert len((await caller.budget()).entries) == 1


async def test_a_release_needs_the_discard_of_every_node(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    discards = world.discards(round_id)
    for missing, node in enumerate(NODES):
        with pytest.raises(RoundStateError, match=f"from {node}: its charge stays"):
            await caller.release(round_id, discards[:missing] + discards[missing + 1 :])
    with pytest.raises(RoundStateError, match="from node-1, node-2, node-3"):
        await caller.release(round_id, [])
    assert (await caller.budget()).spent_epsilon > 0
    await caller.release(round_id, discards)
    await caller.release(round_id, discards)
    budget = await caller.budget()
    assert (budget.spent_epsilon, budget.left_epsilon, budget.entries[0].state) == (0.0, 2.0, "released")
    with pytest.raises(RoundStateError, match="released"):
        await caller.certify(round_id)


async def test_one_node_that_forwarded_keeps_the_charge(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    discards = [*world.discards(round_id), world.discard(round_id, "node-2", forwarded=True)]
    with pytest.raises(RoundStateError, match="node-2 has forwarded"):
        await caller.release(round_id, discards)
    assert (await caller.budget()).entries[0].state == "reserved"


async def test_discards_that_are_forged_foreign_or_borrowed_do_not_count(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    good = world.discards(round_id)
    broken = bytearray(good[0])
    broken[broken.index(b'"signature":"') + 13] ^= 1
    stranger = Identity("node-1", world.deployment.identity_of("node-2").key)
    forged = stranger.sign(Discard(round_id=round_id, node="node-1", forwarded=False)).to_bytes()
    for bad, error in (
        (b"{}", MalformedDocumentError),
        (bytes(broken), SignatureError),
        (forged, SignatureError),
        (world.discard(new_round(), "node-1"), RoundStateError),
        (world.discard(round_id, "node-1", signer="node-2"), RoundStateError),
        (world.discard(round_id, "analyst"), RoundStateError),
    ):
        with pytest.raises(error):
            await caller.release(round_id, [bad, *good[1:]])
    assert (await caller.budget()).entries[0].state == "reserved"


async def test_a_release_finds_what_a_certification_still_charges_that_its_caller_gave_up(world: World) -> None:
    computing, go_on = threading.Event(), threading.Event()

    def clock() -> int:
        computing.set()
        assert go_on.wait(60)
        return system_clock()

    budgets = {"demo": Budget(2.0, 1e-6)}
    ledger = Ledger.open(world.config.ledger_url, budgets, system_clock)
    identity = world.deployment.identity_of(ACCOUNTANT)
    accountant = Accountant(identity, world.deployment.roster, ledger, 1000, clock)
    servicer = AccountantServicer(accountant, AccountantMetrics(world.config))
    round_id, context = new_round(), cast("Context", None)
    certifying = asyncio.ensure_future(
        servicer.Certify(pb.CertifyRequest(round_id=round_id, plan=to_json(PLAN)), context)
    )
    await asyncio.to_thread(computing.wait)
    certifying.cancel()
    discards = world.discards(round_id)
    releasing = asyncio.ensure_future(
        servicer.Release(pb.ReleaseRequest(round_id=round_id, discards=discards), context)
    )
    await asyncio.wait({releasing}, timeout=0.5)  # long enough to miss the charge, if it does not wait for it
    go_on.set()
    await releasing
    assert (await world.caller().budget()).entries[0].state == "released"
    ledger.close()


async def test_a_settled_round_cannot_be_released(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    await caller.settle(round_id, 300, world.headers(round_id, 300))
    with pytest.raises(RoundStateError, match="its charge stays"):
        await caller.release(round_id, world.discards(round_id))


async def test_rounds_that_were_never_certified_are_unknown(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    with pytest.raises(UnknownRoundError):
        await caller.settle(round_id, 300, world.headers(round_id, 300))
    with pytest.raises(UnknownRoundError):
        await caller.release(round_id, world.discards(round_id))


@pytest.mark.parametrize("name", ["node-1", "client", "operator", ACCOUNTANT])
async def test_only_the_analyst_certifies_settles_and_releases(world: World, name: str) -> None:
    caller, round_id = world.caller(name), new_round()
    for call in (caller.certify(round_id), caller.settle(round_id, 300, []), caller.release(round_id, [])):
        with pytest.raises(AccessDenied, match="allowed: analyst"):
            await call


async def test_operator_analyst_and_clients_may_read_the_budget_and_nodes_may_not(world: World) -> None:
    for name in ("operator", ANALYST, "client"):
        assert (await world.caller(name).budget()).limit_epsilon == 2.0
    with pytest.raises(AccessDenied):
        await world.caller("node-1").budget()
    with pytest.raises(UsageError, match="no budget here; those with one: demo"):
        await world.caller().budget("nobody")


WRONG_PLANS: list[tuple[dict[str, Any], str]] = [
    ({"mechanism": "laplace"}, "unknown mechanism 'laplace'; choose one of krr-histogram"),
    ({"size": 1}, "size must be from 2"),
    ({"size": MAX_DOMAIN}, "size must be"),
    ({"mechanism": "geo-shuffle", "size": 0}, "size must be from 1"),
    ({"epsilon": 0.0}, "epsilon must be above 0 and at most 100, not 0.0"),
    ({"epsilon": -1.0}, "epsilon must be above 0"),
    ({"epsilon": 1e300}, "epsilon must be above 0 and at most 100"),
    ({"delta": 0.0}, "delta must be from 1e-12"),
    ({"delta": 1.0}, "delta must be from 1e-12"),
    ({"max_reports": 10**9 + 1}, "max_reports must be at most 1,000,000,000"),
    ({"max_distance": 2}, "max_distance is for metric adjacency"),
    ({"adjacency": Adjacency.METRIC, "max_distance": 4}, "max_distance must be from 1 to 3, not 4"),
    ({"adjacency": Adjacency.METRIC, "max_distance": 0}, "max_distance must be from 1 to 3, not 0"),
    ({"population": "nobody"}, "no population 'nobody'"),
    ({"route": ("node-1", "node-9")}, "the roster has no node node-9; its nodes: node-1"),
    ({"route": ("node-1", ANALYST)}, "the roster has no node analyst"),
    ({"route": ("node-1",)}, "the route must have from 2 to 16 nodes, not 1"),
    ({"route": ()}, "the route must have from 2"),
    ({"suite": "rot13"}, "unknown suite 'rot13'"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG_PLANS)
async def test_a_plan_outside_its_ranges_is_refused_with_value_and_range(
    world: World, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await world.caller().certify(new_round(), msgspec.structs.replace(PLAN, **fields))
    assert not (await world.caller().budget()).entries


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"epsilon":1.0', b'"epsilon":NaN'),
        (b'"epsilon":1.0', b'"epsilon":null'),
        (b'"epsilon":1.0', b'"epsilon":1e999'),
        (b'"min_reports":200', b'"min_reports":0'),
        (b'"colluding":20', b'"colluding":200'),
        (b'"colluding":20', b'"colluding":-1'),
        (b'"open_seconds":60.0', b'"open_seconds":-1'),
        (b'"node-2"', b'"node-1"'),
        (b'"size"', b'"sizes"'),
        (b"{", b""),
    ],
)
async def test_bytes_that_are_no_plan_are_refused(world: World, old: bytes, new: bytes) -> None:
    data = to_json(PLAN)
    assert old in data
    with pytest.raises(UsageError):
        await world.caller().certify(new_round(), data.replace(old, new, 1))


@pytest.mark.parametrize("round_id", ["", "xyz", "AB" * 16, "ab" * 40, "ab" * 16 + "\n"])
async def test_a_round_id_that_is_not_hex_is_refused(world: World, round_id: str) -> None:
    with pytest.raises(UsageError, match="round id"):
        await world.caller().certify(round_id)


async def test_more_messages_than_a_round_can_carry_are_refused(world: World) -> None:
    plan = msgspec.structs.replace(PLAN, mechanism="rr-shuffle", size=2_000_000)
    with pytest.raises((UsageError, CannotCertify)):
        await world.caller().certify(new_round(), plan)


async def test_queries_are_answered_while_a_plan_is_calibrated(world: World) -> None:
    caller = world.caller()
    certifying = asyncio.ensure_future(caller.certify(new_round()))
    for _ in range(3):
        assert (await world.caller("client").budget()).limit_epsilon == 2.0
    assert world.read(await certifying).holds


async def test_everything_is_known_again_after_a_restart(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    wire = await caller.certify(round_id)
    accountant, ledger = open_accountant(world.config, world.deployment.roster)
    assert accountant.certify(round_id, to_json(PLAN)) == wire
    headers = world.headers(round_id, 250)
    final = accountant.settle(round_id, 250, headers)
    ledger.close()
    assert await caller.settle(round_id, 250, headers) == final


async def test_a_damaged_ledger_is_a_typed_error_for_the_caller(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    raw = sqlite3.connect(world.config.state / "ledger.db")
    with raw:
        raw.execute("UPDATE charges SET plan = '{}'")
    raw.close()
    with pytest.raises(LedgerError, match="damaged"):
        await caller.settle(round_id, 300, world.headers(round_id, 300))


async def test_an_accountant_with_another_partys_keys_does_not_start(world: World) -> None:
    wrong = msgspec.structs.replace(world.config, keys=world.deployment.keys_of(ANALYST))
    with pytest.raises(ConfigError, match="not the one the roster names for 'accountant'"):
        open_accountant(wrong, world.deployment.roster)


async def test_a_budget_for_a_population_the_roster_does_not_have_is_refused(world: World) -> None:
    extra = {**world.config.populations, "ghosts": PopulationConfig(epsilon=1.0, delta=1e-6)}
    wrong = msgspec.structs.replace(world.config, populations=extra)
    with pytest.raises(ConfigError, match="ghosts"):
        open_accountant(wrong, world.deployment.roster)
