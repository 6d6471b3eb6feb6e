"""Whole rounds at a real analyst, among parties that keep to the protocol and parties that do
not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from analyst_world import World, leap, plan
from simulated_parties import ROUTE

from shuffledp_core import errors
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import (
    Announcement,
    BatchHeader,
    Certificate,
    Manifest,
    RoundPlan,
)
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import analyst_pb2


async def test_a_round_goes_from_plan_to_published_result(world: World) -> None:
    round_id = await world.open()
    assert re.fullmatch("[0-9a-f]{32}", round_id)
    sent = world.reports(round_id, 5)
    await world.end_submissions(round_id)
    result = await world.ended(round_id)
    assert (result.outcome, result.error, result.accepted, result.messages) == (
        "published",
        None,
        5,
        15,
    )
    # 15 bits, 5 ones, each flipped with probability 1/8: (5 - 15/8) / (3/4)
    assert result.estimate is not None
    assert result.estimate.values == pytest.approx([3.125 / 0.75])
    board = await world.board(round_id)
    assert {board[start : start + 17] for start in range(0, len(board), 17)} == sent
    assert digest(board) == result.board_digest
    assert result.final_certificate is not None
    final = verify_from(world.roster.accountant, result.final_certificate, Certificate)
    assert (final.stage, final.users, final.honest) == ("final", 5, 2)
    assert world.accountant.ledger == {round_id: "settled"}


async def test_the_nodes_erase_a_published_round_too(world: World) -> None:
    result = await world.whole_round()
    await world.happened.until(
        lambda: all(result.round_id in node.discarded for node in world.nodes.values())
    )


async def test_the_announcement_is_signed_by_the_analyst_and_by_every_node(world: World) -> None:
    round_id = await world.open()
    async with world.reading() as stub:
        newest = await stub.GetManifest(analyst_pb2.GetManifestRequest())
        named = await stub.GetManifest(analyst_pb2.GetManifestRequest(round_id=round_id))
    assert newest == named
    announcement = from_json(newest.announcement, Announcement)
    manifest = verify_from(world.roster.analyst, announcement.manifest, Manifest)
    assert manifest.round_id == round_id
    assert manifest.closes_at - manifest.opens_at == 600_000
    assert [key.signer for key in manifest.route] == list(ROUTE)
    assert [word.signer for word in announcement.countersignatures] == list(ROUTE)


async def test_a_round_closes_by_itself_when_it_is_full(world: World) -> None:
    round_id = await world.open(max_reports=4)
    world.reports(round_id, 4)
    assert (await world.ended(round_id)).accepted == 4


async def test_a_round_closes_by_itself_at_its_closing_time(world: World) -> None:
    opening = asyncio.ensure_future(world.open(open_seconds=0.5))
    # The reports are there as soon as the entry node is open: the half second may well be over when
    # `open` returns.
    await world.happened.until(
        lambda: any(one.manifest is not None for one in world.entry.rounds.values())
    )
    (round_id,) = world.entry.rounds
    world.reports(round_id, 3)
    assert await opening == round_id
    assert (await world.ended(round_id)).accepted == 3


async def test_several_rounds_run_at_the_same_time(world: World) -> None:
    rounds = [await world.open() for _ in range(3)]
    for count, round_id in enumerate(rounds, 3):
        world.reports(round_id, count)
    await asyncio.gather(*(world.end_submissions(round_id) for round_id in rounds))
    results = await asyncio.gather(*(world.ended(round_id) for round_id in rounds))
    assert [result.accepted for result in results] == [3, 4, 5]


async def test_a_histogram_round_has_a_wide_symbol(world: World) -> None:
    round_id = await world.open(mechanism="krr-histogram", size=300)
    for symbol in (0, 299, 299, 7):
        world.report(round_id, [symbol])
    await world.end_submissions(round_id)
    result = await world.ended(round_id)
    assert result.estimate is not None
    assert result.estimate.values[299] == pytest.approx((2 - 4 * 0.5 / 300) / 0.5)


async def test_followers_see_every_stage_and_late_ones_the_present_state(world: World) -> None:
    round_id = await world.open()
    early = asyncio.ensure_future(world.events(round_id))
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    events, late = await early, await world.events(round_id)
    stages = {(event.stage, event.node) for event in events}
    assert stages >= {("accepting", ""), ("decoding", ""), ("certifying", ""), ("ended", "")}
    assert stages >= {(stage, ROUTE[-1]) for stage in ("mixing", "relaying")}
    accepting = [event for event in events if event.stage == "accepting"][-1]
    assert (accepting.done, accepting.total) == (5, 100)
    decoding = [event for event in events if event.stage == "decoding"][-1]
    assert (decoding.done, decoding.total) == (15, 15)
    assert decoding.seconds > 0
    assert [event.seconds for event in events if (event.stage, event.node) == ("mixing", "node-1")][
        -1
    ] == 0.25
    assert events[-1].stage == late[-1].stage == "ended"
    assert events[-1].result == late[-1].result


# ----------------------------------------------------------------------------------------------
# rounds that fail


async def assert_failed(
    world: World, round_id: str, error: type[errors.ShuffleDPError], ledger: str
) -> None:
    """Failed with this error, nothing published, the budget as expected, and the next round
    works."""
    result = await world.ended(round_id)
    assert (result.outcome, result.error) == ("failed", error.__name__)
    assert result.reason
    assert result.estimate is None
    assert result.final_certificate is None
    with pytest.raises(errors.UnknownRoundError):
        await world.board(round_id)
    assert world.accountant.ledger[round_id] == ledger
    for served in (*world.nodes.values(), world.accountant):
        served.faults.clear()
    assert (await world.whole_round()).outcome == "published"


@pytest.mark.parametrize("who", ROUTE)
async def test_a_node_that_says_it_is_corrupt_is_let_in_only_by_a_plan_that_allows_it(
    world: World, who: str
) -> None:
    world.nodes[who].faults.add("corrupt")
    with pytest.raises(errors.PolicyRefusal, match=f"{who}: corrupt by the node's own declaration"):
        async with translate_errors("analyst"):
            await world.open()
    await world.happened.until(lambda: list(world.accountant.ledger.values()) == ["released"])
    assert (await world.whole_round(allow_corrupt=True)).outcome == "published"


async def test_too_few_reports_fail_the_round_and_release_the_budget(world: World) -> None:
    round_id = await world.open()
    world.reports(round_id, 2)
    await world.end_submissions(round_id)
    await assert_failed(world, round_id, errors.TooFewReportsError, "released")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("short", errors.BadBatchError),
        ("wrong-digest", errors.BadBatchError),
        ("drops", errors.CountMismatchError),
        ("fails", errors.BadBatchError),
        ("loses", errors.UnknownRoundError),
        ("not-mine", errors.AccessDenied),
    ],
)
async def test_a_bad_delivery_fails_the_round_and_the_charge_stays(
    world: World, fault: str, error: type[errors.ShuffleDPError]
) -> None:
    world.last.faults.add(fault)
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    await assert_failed(world, round_id, error, "reserved")


@pytest.mark.parametrize(
    ("fault", "outside", "repeated"),
    [("copies", 0, 2), ("bad-symbol", 1, 0)],
    ids=["copies", "bad-symbol"],
)
async def test_messages_that_no_honest_client_sends_are_left_out_and_told(
    world: World, fault: str, outside: int, repeated: int
) -> None:
    world.last.faults.add(fault)
    result = await world.whole_round()
    assert (result.outcome, result.messages) == ("published", 15)
    assert (result.dropped, result.outside_alphabet, result.repeated_tags) == (0, outside, repeated)
    board = await world.board(result.round_id)
    assert (len(board), digest(board)) == (15 * 17, result.board_digest)
    assert result.final_certificate is not None
    final = verify_from(world.roster.accountant, result.final_certificate, Certificate)
    assert (final.invalid, final.honest) == (
        outside + repeated,
        2,
    )  # of the plan, which a colluding user's leave


async def test_what_the_nodes_dropped_is_told_and_their_headers_are_in_the_result(
    world: World,
) -> None:
    world.nodes["node-2"].dropped, world.last.dropped = 1, 3
    result = await world.whole_round()
    assert (result.outcome, result.messages, result.dropped) == ("published", 12, 3)
    said = [
        verify_from(world.roster.party(name), header, BatchHeader)
        for name, header in zip(ROUTE, result.headers, strict=True)
    ]
    assert [header.dropped for header in said] == [0, 1, 3]
    assert said[-1].digest == result.board_digest
    assert result.final_certificate is not None
    final = verify_from(world.roster.accountant, result.final_certificate, Certificate)
    assert (final.dropped, final.honest) == (
        3,
        1,
    )  # 5 reports, 1 colluding, and in the worst case 3 honest ones dropped


@pytest.mark.parametrize(
    ("dropped", "error"),
    [((0, 2, 1), errors.CountMismatchError), ((0, 0, 10), errors.BadBatchError)],
)
async def test_a_count_that_falls_or_is_too_large_fails_the_round(
    world: World, dropped: tuple[int, ...], error: type[errors.ShuffleDPError]
) -> None:
    for node, count in zip(world.nodes.values(), dropped, strict=True):
        node.dropped = count
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    result = await world.ended(round_id)
    assert (result.outcome, result.error) == ("failed", error.__name__)
    assert world.accountant.ledger[round_id] == "reserved"


async def test_a_final_certificate_that_forgets_what_was_lost_is_not_published(
    world: World,
) -> None:
    world.accountant.faults.add("forgets-losses")
    world.last.dropped = 1
    assert (await world.whole_round()).error == "ForeignDocumentError"


@pytest.mark.parametrize("who", ROUTE)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("no-header", errors.NodeFault),
        ("forged-header", errors.SignatureError),
        ("header-of-another-round", errors.ForeignDocumentError),
        ("header-of-another-position", errors.ForeignDocumentError),
        ("header-counts-more", errors.CountMismatchError),
        ("header-counts-records", errors.CountMismatchError),
    ],
)
async def test_a_node_that_does_not_sign_for_the_same_count_fails_the_round_before_it_is_settled(
    world: World, who: str, fault: str, error: type[errors.ShuffleDPError]
) -> None:
    world.nodes[who].faults.add(fault)
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    await world.ended(round_id)
    assert world.accountant.settlements == []
    await assert_failed(world, round_id, error, "reserved")


@pytest.mark.parametrize("who", ROUTE)
async def test_a_node_that_is_done_after_the_batch_has_arrived_is_waited_for(
    world: World, who: str
) -> None:
    world.nodes[who].faults.add("late")
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    async with world.control() as stub:
        async for event in stub.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
            if event.stage == "decoding" and event.seconds > 0:
                assert world.accountant.ledger[round_id] == "reserved"
                world.nodes[who].done(round_id, 5, b"")
    assert world.read(event.result).outcome == "published"


async def test_a_node_that_is_never_done_fails_the_round_after_the_mixing_time(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, mix_timeout_seconds=600.0)
    await world.start()
    try:
        world.nodes["node-2"].faults.add("late")
        round_id = await world.open()
        world.reports(round_id, 5)
        await world.end_submissions(round_id)
        missing = {("decoding", ""), ("relaying", "node-1"), ("relaying", "node-3")}
        async with world.control() as stub:
            async for event in stub.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
                if event.seconds > 0 and (event.stage, event.node) in missing:
                    missing.discard((event.stage, event.node))
                    if not missing:
                        leap(600.0)  # however long all that took, the time is up only now
        result = await world.ended(round_id)
        assert (result.outcome, result.error) == ("failed", "UnreachableError")
        assert "node-2: not done within 600.0 s" in str(result.reason)
        assert world.accountant.ledger[round_id] == "reserved"
    finally:
        await world.close()


async def test_an_entry_node_that_counts_more_than_allowed_fails_the_round(world: World) -> None:
    world.entry.faults.add("overcounts")
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    await assert_failed(world, round_id, errors.CountMismatchError, "reserved")


async def test_a_torn_delivery_may_be_repeated(world: World) -> None:
    world.last.faults.add("torn-once")
    assert (await world.whole_round()).outcome == "published"


async def test_a_silent_last_node_fails_the_round_after_the_mixing_time(tmp_path: Path) -> None:
    world = World(tmp_path, mix_timeout_seconds=0.3)
    await world.start()
    try:
        world.last.faults.add("silent")
        round_id = await world.open()
        world.reports(round_id, 5)
        await world.end_submissions(round_id)
        result = await world.ended(round_id)
        assert result.error == "UnreachableError"
        assert "node-3" in str(result.reason)
    finally:
        await world.close()


async def test_a_node_that_restarts_in_time_does_not_harm_the_round(world: World) -> None:
    round_id = await world.open()
    for name in ROUTE:
        await world.nodes[name].die()
    for name in ROUTE:
        await world.nodes[name].start()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    assert (await world.ended(round_id)).outcome == "published"


async def test_a_node_that_stays_away_fails_the_round_and_frees_the_budget_when_it_returns(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, recovery_seconds=0.5)
    await world.start()
    try:
        round_id = await world.open()
        await world.nodes["node-2"].die()
        result = await world.ended(round_id)
        assert (result.outcome, result.error) == ("failed", "UnreachableError")
        assert world.accountant.ledger[round_id] == "reserved"
        await world.nodes["node-2"].start()
        await world.happened.until(lambda: world.accountant.ledger[round_id] == "released")
        assert (await world.whole_round()).outcome == "published"
    finally:
        await world.close()


@pytest.mark.parametrize("fault", ["no-settlement", "other-settlement"])
async def test_without_a_final_certificate_nothing_is_published(world: World, fault: str) -> None:
    world.accountant.faults.add(fault)
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    error = errors.BudgetExceeded if fault == "no-settlement" else errors.ForeignDocumentError
    await assert_failed(
        world, round_id, error, "reserved" if fault == "no-settlement" else "settled"
    )


async def test_an_aborted_round_is_released(world: World) -> None:
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.abort(round_id)
    await assert_failed(world, round_id, errors.RoundFailed, "released")
    with pytest.raises(errors.RoundStateError):
        await world.abort(round_id)


async def test_a_release_that_the_ledger_could_not_store_is_asked_for_again(world: World) -> None:
    world.accountant.faults.add("no-ledger")
    round_id = await world.open()
    await world.abort(round_id)
    await world.happened.until(lambda: world.accountant.ledger[round_id] == "released")


async def test_a_discard_that_another_party_signed_releases_nothing(world: World) -> None:
    world.last.faults.add("wrong-discard")
    round_id = await world.open()
    await world.abort(round_id)
    assert (await world.ended(round_id)).outcome == "failed"
    assert world.accountant.ledger[round_id] == "reserved"


# ----------------------------------------------------------------------------------------------
# rounds that never open


@pytest.mark.parametrize(
    ("who", "fault", "error", "ledger"),
    [
        ("accountant", "refuses", errors.BudgetExceeded, []),
        ("accountant", "wrong-key", errors.SignatureError, ["released"]),
        ("accountant", "other-plan", errors.ForeignDocumentError, ["released"]),
        ("accountant", "not-holding", errors.CannotCertify, ["released"]),
        ("node-2", "refuses", errors.PolicyRefusal, ["released"]),
        ("node-2", "wrong-key", errors.RoundKeyError, ["released"]),
        ("node-2", "wrong-position", errors.RoundKeyError, ["released"]),
        ("node-3", "other-manifest", errors.ForeignDocumentError, ["released"]),
    ],
)
async def test_a_round_that_somebody_spoils_does_not_open(
    world: World, who: str, fault: str, error: type[errors.ShuffleDPError], ledger: list[str]
) -> None:
    served = world.accountant if who == "accountant" else world.nodes[who]
    served.faults.add(fault)
    with pytest.raises(error):
        await world.open()
    assert list(world.accountant.ledger.values()) == ledger
    with pytest.raises(errors.UnknownRoundError, match="no round is open"):
        async with world.reading() as stub:
            await stub.GetManifest(analyst_pb2.GetManifestRequest())
    served.faults.clear()
    assert (await world.whole_round()).outcome == "published"


async def test_a_round_does_not_open_without_the_accountant(world: World) -> None:
    await world.accountant.die()
    with pytest.raises(errors.UnreachableError, match="accountant"):
        await world.open()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"population": "martians"}, "martians"),
        ({"route": ("node-1",)}, "2 to 16 nodes, not 1"),
        ({"route": ("node-1", "node-9")}, "node-9"),
        ({"route": ("node-1", "accountant")}, "'accountant' is the accountant, not a mix node"),
        ({"suite": "rot13"}, "rot13"),
        ({"mechanism": "coin"}, "coin"),
        ({"mechanism": "krr-histogram", "size": 40_000}, "32768"),
    ],
)
async def test_an_impossible_plan_is_refused_before_anybody_is_asked(
    world: World, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        await world.open(**changes)
    assert world.accountant.ledger == {}


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\xfe", b"[1]"])
async def test_a_plan_that_is_no_plan_is_refused(world: World, data: bytes) -> None:
    with pytest.raises(errors.UsageError):
        async with world.control() as stub:
            await stub.OpenRound(analyst_pb2.OpenRoundRequest(plan=data))


async def test_a_plan_with_a_bad_range_or_an_unknown_key_is_refused(world: World) -> None:
    good = to_json(plan())
    for bad in (
        good.replace(b'"min_reports":3', b'"min_reports":0'),
        good.replace(b'"node-2"', b'"node-1"'),
        good[:-1] + b',"budget":"unlimited"}',
    ):
        with pytest.raises(errors.UsageError):
            async with world.control() as stub:
                await stub.OpenRound(analyst_pb2.OpenRoundRequest(plan=bad))
    assert from_json(good, RoundPlan) == plan()


# ---------------------------------------------------------------------------------------------- who
# may do what


async def test_clients_viewers_and_nodes_may_not_control_rounds(world: World) -> None:
    for caller in ("client", "viewer", "node-1"):
        with pytest.raises(errors.AccessDenied):
            async with world.control(caller) as stub:
                await stub.OpenRound(analyst_pb2.OpenRoundRequest(plan=to_json(plan())))
    with pytest.raises(errors.AccessDenied):
        async with world.reading("node-1") as stub:
            await stub.GetManifest(analyst_pb2.GetManifestRequest())


async def test_only_nodes_deliver_and_only_the_last_one(world: World) -> None:
    round_id = await world.open()
    header = BatchHeader(round_id=round_id, position=4, users=3, records=9, digest="00")
    for name in ("operator", "client"):
        signed = world.deployment.identity_of("node-3").sign(header)
        with pytest.raises(errors.AccessDenied):
            await world.add_batch(name, signed, b"")
    with pytest.raises(errors.AccessDenied, match="not the last node"):
        await world.add_batch("node-1", world.deployment.identity_of("node-1").sign(header), b"")
    with pytest.raises(errors.ForeignDocumentError):
        await world.add_batch("node-3", world.deployment.identity_of("node-1").sign(header), b"")
    with pytest.raises(errors.RoundStateError, match="is open"):
        await world.add_batch("node-3", world.deployment.identity_of("node-3").sign(header), b"")
    world.reports(round_id, 3)
    await world.end_submissions(round_id)
    assert (await world.ended(round_id)).outcome == "published"


async def test_a_delivered_batch_may_be_repeated_but_not_replaced(world: World) -> None:
    result = await world.whole_round()
    board = await world.board(result.round_id)
    identity = world.deployment.identity_of("node-3")
    header = BatchHeader(
        round_id=result.round_id, position=4, users=5, records=15, digest=digest(board)
    )
    await world.add_batch("node-3", identity.sign(header), board)
    other = BatchHeader(round_id=result.round_id, position=4, users=5, records=15, digest="00")
    with pytest.raises(errors.RoundStateError):
        await world.add_batch("node-3", identity.sign(other), board)
    assert await world.board(result.round_id) == board


@pytest.mark.parametrize("round_id", ["ab" * 16, "../../keys", "AB" * 16, "x"])
async def test_an_unknown_round_is_a_typed_error_everywhere(world: World, round_id: str) -> None:
    for call in (world.end_submissions, world.abort, world.events, world.ended, world.board):
        with pytest.raises(errors.UnknownRoundError):
            await call(round_id)
    with pytest.raises(errors.UnknownRoundError):
        async with world.reading() as stub:
            await stub.GetManifest(analyst_pb2.GetManifestRequest(round_id=round_id))
    header = BatchHeader(round_id=round_id, position=4, users=3, records=9, digest="00")
    with pytest.raises(errors.UnknownRoundError):
        await world.add_batch("node-3", world.deployment.identity_of("node-3").sign(header), b"")


async def test_a_batch_without_a_header_is_refused(world: World) -> None:
    from shuffledp_proto.v1 import batch_pb2, batch_pb2_grpc

    for part in (
        batch_pb2.AddBatchRequest(),
        batch_pb2.AddBatchRequest(chunk=batch_pb2.Chunk(offset=0, data=b"x")),
    ):
        with pytest.raises(errors.BadBatchError, match="begin"):
            async with world.channel("node-3") as channel, translate_errors("analyst"):
                await batch_pb2_grpc.BatchSinkStub(channel).AddBatch(iter([part]))
    with pytest.raises(errors.MalformedDocumentError):
        async with world.channel("node-3") as channel, translate_errors("analyst"):
            await batch_pb2_grpc.BatchSinkStub(channel).AddBatch(
                iter([batch_pb2.AddBatchRequest(header=b"{")])
            )


async def test_ending_the_submissions_twice_is_harmless(world: World) -> None:
    result = await world.whole_round()
    await world.end_submissions(result.round_id)
    assert await world.ended(result.round_id) == result
