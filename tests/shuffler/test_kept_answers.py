"""What a node of a verified round keeps in memory between two inquiries, and when it is erased."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from mixproof_world import MixproofRound, open_mixproof
from shuffler_world import World
from test_mixproof_nodes import DONE, accused, spoiled_round

from shuffledp_core.errors import RoundStateError, UnknownRoundError, UnreachableError
from shuffledp_core.mixproof import hops
from shuffledp_core.mixproof.evidence import Trace, Transcript
from shuffledp_core.mixproof.history import Accusation, Inquiry, unpack_document
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_shuffler.live import IDLE_SECONDS, LiveRound
from shuffledp_shuffler.mixproof import answering
from shuffledp_shuffler.mixproof.mixing import resume_output
from shuffledp_shuffler.round_state import Phase


def live_of(world: World, round_: MixproofRound) -> LiveRound:
    """The round in the memory of node 1."""
    [live] = [
        live
        for live in world.running["node-1"].node.rounds()
        if live.record.round_id == round_.round.round_id
    ]
    return live


def is_erased(hop: hops.Hop) -> bool:
    return hop._secret is None and hop._batch is None and not hop.order and not hop._seeds


async def test_the_inquiries_about_one_round_open_its_batch_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[hops.Hop] = []

    def counted(*args: object) -> hops.Hop:
        opened.append(resume_output(*args))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(answering, "resume_output", counted)
    round_ = await spoiled_round(world)
    await accused(world, round_)
    accusation = await round_.accusation("node-2")
    transcript = await round_.transcript(accusation)  # a trace, then a passage
    again: Transcript = await round_.transcript(accusation)
    assert len(opened) == 1
    assert [trace.origin.credential for trace in again.traces if trace.origin] == [
        trace.origin.credential for trace in transcript.traces if trace.origin
    ]
    await round_.settle("node-2", again)
    assert (await world.ended("node-2", round_.round.round_id)).phase == DONE


async def deleted(world: World, round_: MixproofRound) -> None:
    await world.delete("node-1", round_.round.round_id)


async def past_its_time(world: World, _: MixproofRound) -> None:
    world.ahead = 10**9
    await world.running["node-1"].node.abandon_overdue_rounds(0)


async def not_asked_again(_: World, __: MixproofRound) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + IDLE_SECONDS  # type: ignore[method-assign]
    for _turn in range(3):  # the loop finds what is due, and then calls it
        await asyncio.sleep(0)


async def another_batch(world: World, _: MixproofRound) -> None:
    other = await open_mixproof(world)
    for _user in range(2):
        await other.send(other.submission(world.user()))
    await world.close_round("node-1", other.round.round_id)


async def failed(world: World, round_: MixproofRound) -> None:
    """As while it relays, which ends before its successor's accusation or behind it."""
    live = live_of(world, round_)
    relaying = msgspec.structs.replace(live.record, phase=Phase.RELAYING)
    live.adopt(relaying.fail(UnreachableError("the next hop is away")))


@pytest.mark.parametrize("end", [deleted, past_its_time, not_asked_again, another_batch, failed])
async def test_what_is_kept_for_the_next_inquiry_is_erased(
    world: World, end: Callable[[World, MixproofRound], Awaitable[None]]
) -> None:
    round_ = await spoiled_round(world)
    await accused(world, round_)
    await round_.transcript(await round_.accusation("node-2"))
    live = live_of(world, round_)
    hop = live._hop
    assert hop is not None
    assert not is_erased(hop)
    assert hop._secret is not None
    await end(world, round_)
    assert live._hop is None
    assert is_erased(hop)


@pytest.mark.parametrize("end", [deleted, past_its_time])
async def test_what_answers_while_the_secrets_are_erased_is_erased_behind_its_answer(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[World, MixproofRound], Awaitable[None]],
) -> None:
    at_work, may_end, honest = threading.Event(), threading.Event(), hops.Hop.show
    asked: list[hops.Hop] = []

    def slow(self: hops.Hop, question: hops.TraceQuestion, random: RandomBytes) -> Trace:
        asked.append(self)
        at_work.set()
        may_end.wait()
        return honest(self, question, random)

    round_ = await spoiled_round(world)
    await accused(world, round_)
    accusation = unpack_document(await round_.accusation("node-2"), Accusation)
    live = live_of(world, round_)
    monkeypatch.setattr(hops.Hop, "show", slow)
    inquiry = Inquiry(2, accusation.history.headers, (), (Trace(accusation.accused[0]),))
    answer = asyncio.ensure_future(round_.ask(1, inquiry))
    try:
        await asyncio.to_thread(at_work.wait)
        await end(world, round_)
    finally:
        may_end.set()
    assert (await answer).traces[0].origin is not None  # asked for, and begun, in time
    [hop] = asked
    assert live._hop is None
    assert is_erased(hop)
    with pytest.raises((RoundStateError, UnknownRoundError)):
        await round_.ask(1, inquiry)
