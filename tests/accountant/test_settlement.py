"""Settlement and release: whose word counts, and what it says about the reports."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

import msgspec
import pytest
from accountant_world import NODES, PLAN, World, new_round

from shuffledp_accountant.ledger.charges import Budget
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_accountant.service import (
    Accountant,
    AccountantServicer,
)
from shuffledp_core.documents.models import BatchHeader, Discard
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import (
    BudgetExceeded,
    CountMismatchError,
    ForeignDocumentError,
    MalformedDocumentError,
    RoundStateError,
    SignatureError,
    TooFewReportsError,
)
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.transport.rpc_errors import Context
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST
from shuffledp_privacy.rechecking import recheck
from shuffledp_proto.v1 import accountant_pb2 as pb


@pytest.mark.parametrize("accepted", [0, 20, 199])
async def test_fewer_reports_than_the_minimum_have_no_final_certificate(
    world: World, accepted: int
) -> None:
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
    """All others collude and sign what the analyst wants.

    It sends the honest node's word, or leaves it out.
    """
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    lies = {node: world.header(round_id, node, 900) for node in NODES}
    true = world.header(round_id, honest, 250)
    with pytest.raises(
        CountMismatchError, match=f"{honest} signed that it relayed 250 reports, not 900"
    ):
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


async def test_headers_that_are_forged_foreign_borrowed_or_contradictory_do_not_count(
    world: World,
) -> None:
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
    for wrong in (
        good[::-1],
        [*good, good[0]],
        [*good, world.header(round_id, "node-1", 300, signer=ANALYST)],
    ):
        with pytest.raises(ForeignDocumentError, match="but the route is node-1, node-2, node-3"):
            await caller.settle(round_id, 300, wrong)
    assert (await caller.budget()).entries[0].state == "reserved"
    assert world.read(await caller.settle(round_id, 300, good)).stage == "final"


async def test_every_message_of_a_report_must_have_been_relayed(world: World) -> None:
    """A mechanism with several messages per user: as many records as users is far too few."""
    caller, round_id = world.caller(), new_round()
    plan = world.read(
        await caller.certify(
            round_id, msgspec.structs.replace(PLAN, mechanism="rr-shuffle", size=3)
        )
    )
    messages = plan.mechanism.messages_per_user
    assert messages == 3
    with pytest.raises(
        CountMismatchError, match=r"300 records, but 300 reports of 3 messages .* make 900"
    ):
        await caller.settle(round_id, 300, world.headers(round_id, 300))
    headers = [world.header(round_id, node, 300, records=900) for node in NODES]
    assert world.read(await caller.settle(round_id, 300, headers)).users == 300


async def test_an_entry_node_that_makes_up_reports_gets_no_better_certificate_than_the_plans(
    world: World,
) -> None:
    """Only the minimum came in.

    Entry node and analyst collude, and every node relays what the entry node made up.
    """
    caller, round_id = world.caller(), new_round()
    plan = world.read(await caller.certify(round_id))
    final = world.read(await caller.settle(round_id, 1000, world.headers(round_id, 1000)))
    assert (final.users, final.honest) == (1000, plan.honest)
    assert final.epsilon.certified is not None
    assert plan.epsilon.certified is not None
    assert final.epsilon.certified >= plan.epsilon.certified
    assert (await caller.budget()).entries[0].epsilon == plan.epsilon.certified
    recheck(final)


async def test_onions_that_the_nodes_dropped_and_invalid_messages_leave_fewer_honest_reports(
    world: World,
) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    headers = [
        world.header(round_id, node, 300, dropped=dropped, records=300 - dropped)
        for node, dropped in zip(NODES, (0, 7, 30), strict=True)
    ]
    for dropped, records in ((29, 300), (6, 294), (-1, 301)):
        wrong = world.header(round_id, NODES[2], 300, dropped=dropped, records=records)
        with pytest.raises(CountMismatchError):
            await caller.settle(round_id, 300, [*headers[:2], wrong])
    document = world.read(await caller.settle(round_id, 300, headers, invalid=25))
    assert (document.dropped, document.invalid) == (30, 25)
    assert (document.users, document.honest) == (300, 180)  # 245 but for those beyond the plan's
    assert not document.holds  # 20 may collude, 25 certainly do
    assert "at least 180 of the mixed reports are whole reports" in " ".join(document.assumptions)
    recheck(document)


async def test_a_header_that_is_padded_or_holds_no_digest_does_not_count(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    good = world.headers(round_id, 300)
    for digest in ("", "AB" * 32, "0" * 10_000):
        with pytest.raises(MalformedDocumentError):
            await caller.settle(
                round_id, 300, [*good[:2], world.header(round_id, NODES[2], 300, digest=digest)]
            )


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
        with pytest.raises(
            RoundStateError, match=f"{node} signed no discard of round .*: its charge"
        ):
            await caller.release(round_id, discards[:missing] + discards[missing + 1 :])
    with pytest.raises(RoundStateError, match="node-1, node-2, node-3 signed no discard"):
        await caller.release(round_id, [])
    assert (await caller.budget()).spent_epsilon > 0
    await caller.release(round_id, discards)
    await caller.release(round_id, discards)
    budget = await caller.budget()
    assert (budget.spent_epsilon, budget.left_epsilon, budget.entries[0].state) == (
        0.0,
        2.0,
        "released",
    )
    with pytest.raises(RoundStateError, match="released"):
        await caller.certify(round_id)


async def test_one_node_that_forwarded_keeps_the_charge(world: World) -> None:
    caller, round_id = world.caller(), new_round()
    await caller.certify(round_id)
    discards = [*world.discards(round_id), world.discard(round_id, "node-2", forwarded=True)]
    with pytest.raises(RoundStateError, match="node-2 has already forwarded"):
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


async def test_a_release_finds_what_a_certification_still_charges_that_its_caller_gave_up(
    world: World,
) -> None:
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
    await asyncio.wait(
        {releasing}, timeout=0.5
    )  # long enough to miss the charge, if it does not wait for it
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
