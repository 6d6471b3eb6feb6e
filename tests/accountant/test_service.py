"""The accountant over real TLS: who may ask what, and what each call answers, once and again."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import Any, cast

import msgspec
import pytest
from accountant_world import PLAN, World, new_round

from shuffledp_accountant.config import PopulationConfig
from shuffledp_accountant.ledger.charges import Budget
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_accountant.service import (
    MOST_READERS,
    Accountant,
    AccountantServicer,
    open_accountant,
)
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import (
    AccessDenied,
    BudgetExceeded,
    CannotCertify,
    ConfigError,
    LedgerError,
    RoundStateError,
    UnknownRoundError,
    UsageError,
)
from shuffledp_core.mechanisms import MAX_DOMAIN
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.transport.rpc_errors import Context, translate_errors
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST
from shuffledp_privacy.rechecking import recheck
from shuffledp_proto.v1 import accountant_pb2 as pb


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
    assert (final.stage, final.users, final.honest, final.mechanism) == (
        "final",
        900,
        plan.honest,
        plan.mechanism,
    )
    assert final.holds
    recheck(final)
    assert (
        final.assumptions[0]
        == "exactly 900 reports were mixed: each of the 3 nodes signed that it relayed so many"
    )
    assert await caller.settle(round_id, 900, headers) == wire
    with pytest.raises(RoundStateError, match="settled for 900 reports"):
        await caller.settle(round_id, 901, world.headers(round_id, 901))
    budget = await caller.budget()
    assert budget.spent_epsilon == reserved
    assert budget.entries[0].state == "settled"


async def test_an_entry_node_that_makes_up_reports_with_the_analyst_lowers_no_charge(
    world: World,
) -> None:
    """1,000 real reports and 999,000 invented ones; all nodes truly relayed a million."""
    caller, accepted = world.caller(), 1_000_000
    plan = msgspec.structs.replace(PLAN, min_reports=1000, max_reports=accepted)

    async def run_rounds() -> None:
        for _ in range(6):
            round_id = new_round()
            await caller.certify(round_id, plan)
            reserved = (await caller.budget()).spent_epsilon
            final = world.read(
                await caller.settle(round_id, accepted, world.headers(round_id, accepted))
            )
            assert 0.8 < reserved == (await caller.budget()).spent_epsilon == final.ledger.spent
            assert any(
                "charged for 980 honest users, as reserved: further reports may be" in b
                for b in final.basis
            )

    with pytest.raises(BudgetExceeded):
        await run_rounds()
    assert len((await caller.budget()).entries) > 1


async def test_a_budget_of_twenty_five_thousand_rounds_fits_into_an_answer_and_comes_in_pages(
    world: World,
) -> None:
    caller = world.caller()
    await caller.certify(new_round())
    rounds = 25_000
    raw = sqlite3.connect(world.config.state / "ledger.db")
    with raw:
        raw.execute(
            f"""WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {rounds})
            INSERT INTO charges SELECT printf('%032x', i), population, i, 'released', plan, mechanism, users, honest,
            adjacency, max_distance, delta, epsilon, x'00', NULL, NULL, reserved_at, changed_at,
            NULL FROM charges, n WHERE entry = 1"""  # noqa: E501, S608
        )
    raw.close()
    answer = await caller.budget()
    assert answer.ByteSize() < 2**18
    assert dict(answer.charges) == {"reserved": 1, "settled": 0, "released": rounds - 1}
    assert answer.composition == "adaptive"
    assert 0 < answer.if_fixed_epsilon <= answer.spent_epsilon
    async with translate_errors("the accountant"):
        page = await caller._stub.GetBudget(
            pb.GetBudgetRequest(population="demo", after_entry=rounds - 2, most_entries=5)
        )
    assert [entry.entry for entry in page.entries] == [rounds - 1, rounds]
    assert answer.adjacency == "standard"
    assert all(
        one.honest < one.users and one.max_distance >= 1 and one.adjacency for one in page.entries
    )


async def test_queries_of_a_silent_ledger_hold_a_few_threads_however_often_they_are_given_up(
    world: World,
) -> None:
    entered, go_on = 0, threading.Event()

    class Silent(Accountant):
        def page(self, population: str, after: int, most: int) -> Any:
            nonlocal entered
            entered += 1
            assert go_on.wait(60)
            return super().page(population, after, most)

    ledger = Ledger.open(world.config.ledger_url, {"demo": Budget(2.0, 1e-6)}, system_clock)
    identity = world.deployment.identity_of(ACCOUNTANT)
    accountant = Silent(identity, world.deployment.roster, ledger, 1000, system_clock)
    servicer = AccountantServicer(accountant, AccountantMetrics(world.config))
    request, context = pb.GetBudgetRequest(population="demo"), cast("Context", None)
    asked: list[asyncio.Future[Any]] = []
    for _ in range(3):
        newer = [asyncio.ensure_future(servicer.GetBudget(request, context)) for _ in range(20)]
        await asyncio.wait(newer, timeout=0.3)
        for one in newer:
            one.cancel()
        asked += newer
    assert 0 < entered <= MOST_READERS
    go_on.set()
    await asyncio.gather(*asked, return_exceptions=True)
    assert (await servicer.GetBudget(request, context)).limit_epsilon == 2.0
    ledger.close()


async def test_rounds_that_were_never_certified_are_unknown(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    with pytest.raises(UnknownRoundError):
        await caller.settle(round_id, 300, world.headers(round_id, 300))
    with pytest.raises(UnknownRoundError):
        await caller.release(round_id, world.discards(round_id))


@pytest.mark.parametrize("name", ["node-1", "client", "operator", "viewer", ACCOUNTANT])
async def test_only_the_analyst_certifies_settles_and_releases(world: World, name: str) -> None:
    caller, round_id = world.caller(name), new_round()
    for call in (
        caller.certify(round_id),
        caller.settle(round_id, 300, []),
        caller.release(round_id, []),
    ):
        with pytest.raises(AccessDenied, match="allowed: analyst"):
            await call


async def test_operator_viewer_analyst_and_clients_may_read_the_budget_and_nodes_may_not(
    world: World,
) -> None:
    for name in ("operator", "viewer", ANALYST, "client"):
        assert (await world.caller(name).budget()).limit_epsilon == 2.0
    with pytest.raises(AccessDenied):
        await world.caller("node-1").budget()
    with pytest.raises(UsageError, match="no budget here; those with one: demo"):
        await world.caller().budget("nobody")


WRONG_PLANS: list[tuple[dict[str, Any], str]] = [
    ({"mechanism": "laplace"}, "unknown mechanism 'laplace'; choose one of bloom-rappor"),
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
    (
        {"suite": "hpke-mlkem768-x25519", "mix": "verified"},
        "^verified mixing cannot use the suite",
    ),
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
