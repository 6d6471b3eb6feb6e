"""Proof checks that an enrolled device can cause at the entry node, and who waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from mixing_cheats import flipped
from mixproof_world import MixproofRound, Sent, chunked, open_mixproof
from shuffler_world import User, World

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Credential, Receipt
from shuffledp_core.documents.signed import Signed, from_json, sign
from shuffledp_core.documents.submission import SubmissionClaim, credential_id
from shuffledp_core.errors import (
    BadClaimError,
    BusyError,
    DifferentSubmissionError,
    InvalidSubmissionError,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.mixproof.claims import ClaimCheck
from shuffledp_shuffler.turns import ProofTurns
from shuffledp_shuffler.uploads import REPEATS

REPETITIONS = 1200


def name_of(user: User) -> str:
    return credential_id(from_json(user.credential.body, Credential))


@dataclass
class Checks:
    """The proof checks of a node, in order; none ends while `gate` is cleared."""

    order: list[str] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    gate: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checks]:
    seen, honest = Checks(), ClaimCheck.check
    seen.gate.set()

    def check(self: ClaimCheck, credential: Signed, submission: bytes, private_key: bytes) -> None:
        seen.order.append(credential_id(from_json(credential.body, Credential)))
        seen.under_way += 1
        seen.most_under_way = max(seen.most_under_way, seen.under_way)
        try:
            seen.gate.wait()
            honest(self, credential, submission, private_key)
        finally:
            seen.under_way -= 1

    monkeypatch.setattr(ClaimCheck, "check", check)
    yield seen
    seen.gate.set()


async def stream(round_: MixproofRound, sent: Sent) -> Signed:
    """Send a submission in chunks, as devices do if it is too long for one message."""
    parts = [node_pb2.SubmitRequest(header=sent[0])]
    parts += [node_pb2.SubmitRequest(chunk=chunk) for chunk in chunked(sent[1])]
    return await round_.world.send_submission(parts)


def falsely_proved(round_: MixproofRound, user: User) -> Sent:
    """A submission with genuine signatures whose proof is false; each call makes another one."""
    made = round_.made(user)
    return round_.submission(
        user, replace(made, claim=replace(made.claim, proof=flipped(made.claim.proof)))
    )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not holds():  # noqa: ASYNC110 - it happens in the node
            await asyncio.sleep(0.01)


def waiting(round_: MixproofRound) -> int:
    [live] = round_.world.running["node-1"].node.rounds()
    return live.turns.waiting


async def test_repetitions_of_an_accepted_submission_cost_no_proof_check(
    world: World, checks: Checks
) -> None:
    """1,200 repetitions, alternately in one message and as a stream, while five other devices
    submit."""
    await world.start()
    round_ = await open_mixproof(world)
    user, honest = world.user(), [world.user() for _ in range(5)]
    sent = round_.submission(user)
    receipt = await round_.send(sent)
    at_once = asyncio.Semaphore(100)

    async def repeat(number: int) -> Signed:
        async with at_once:
            return await (stream(round_, sent) if number % 2 else round_.send(sent))

    repeated = asyncio.gather(*(repeat(number) for number in range(REPETITIONS)))
    receipts = await asyncio.gather(*(round_.send(round_.submission(each)) for each in honest))
    node = world.roster.party("node-1")
    assert [verify_from(node, each, Receipt).credential for each in receipts] == [
        name_of(each) for each in honest
    ]
    assert set(await repeated) == {receipt}
    assert sorted(checks.order) == sorted(map(name_of, [user, *honest]))


async def test_an_envelope_of_another_length_is_refused_and_not_opened(world: World) -> None:
    await world.start()
    round_ = await open_mixproof(world)
    user = world.user()
    header, envelope = round_.submission(user)
    claim = SubmissionClaim(
        round_id=round_.round.round_id,
        credential=name_of(user),
        envelope_digest=digest(envelope + b"x"),
    )
    header.claim = sign(claim, name_of(user), user.key).to_bytes()
    with pytest.raises(InvalidSubmissionError, match=f"must have {len(envelope)} bytes"):
        await round_.send((header, envelope + b"x"))


@pytest.mark.parametrize("streams", [False, True], ids=["in one message", "as a stream"])
async def test_another_submission_of_an_accepted_credential_costs_no_proof_check(
    world: World, checks: Checks, *, streams: bool
) -> None:
    await world.start()
    round_ = await open_mixproof(world)
    user = world.user()
    await round_.send(round_.submission(user))
    for other in (round_.submission(user), falsely_proved(round_, user)):
        with pytest.raises(DifferentSubmissionError):
            await (stream(round_, other) if streams else round_.send(other))
    assert checks.order == [name_of(user)]


async def test_a_failed_check_costs_the_credential_its_turn(world: World, checks: Checks) -> None:
    """A device with false proofs keeps 8 calls under way.

    Honest devices that come later wait for one check.
    """
    await world.start()
    round_ = await open_mixproof(world)
    attacker, honest = world.user(), [world.user() for _ in range(3)]
    checks.gate.clear()
    false = [
        asyncio.ensure_future(round_.send(falsely_proved(round_, attacker))) for _ in range(REPEATS)
    ]
    await until(lambda: bool(checks.order))
    sent = []
    for count, each in enumerate(honest, start=1):
        sent.append(asyncio.ensure_future(round_.send(round_.submission(each))))
        await until(lambda: waiting(round_) == count)  # noqa: B023 - it is awaited here
    checks.gate.set()
    await asyncio.gather(*sent)
    answers = await asyncio.gather(*false, return_exceptions=True)
    assert [type(answer) for answer in answers] == [BadClaimError] * REPEATS
    assert checks.order == [
        name_of(attacker),
        *map(name_of, honest),
        *[name_of(attacker)] * (REPEATS - 1),
    ]
    assert checks.most_under_way == 1


async def test_one_credential_has_a_bounded_number_of_calls_under_way(
    world: World, checks: Checks
) -> None:
    await world.start()
    round_ = await open_mixproof(world)
    attacker = world.user()
    checks.gate.clear()
    calls = [
        asyncio.ensure_future(round_.send(falsely_proved(round_, attacker)))
        for _ in range(REPEATS + 20)
    ]
    await until(lambda: sum(call.done() for call in calls) == 20)
    assert {type(call.exception()) for call in calls if call.done()} == {BusyError}
    checks.gate.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert len(checks.order) == REPEATS


async def test_a_device_that_hangs_up_during_its_check_starts_no_second_one(
    world: World, checks: Checks
) -> None:
    """The submission is accepted all the same.

    Hanging up again and again buys no further checks.
    """
    await world.start()
    round_ = await open_mixproof(world)
    user = world.user()
    sent = round_.submission(user)
    checks.gate.clear()
    for _ in range(4):
        call = asyncio.ensure_future(stream(round_, sent))
        await until(lambda: bool(checks.order))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    checks.gate.set()
    assert verify_from(
        world.roster.party("node-1"), await round_.send(sent), Receipt
    ).credential == name_of(user)
    assert checks.order == [name_of(user)]


async def test_turns_go_to_the_fewest_failures_and_survive_cancellation() -> None:
    turns, order, first = ProofTurns(), [], asyncio.Event()

    async def take(name: str, until_: asyncio.Event | None = None) -> None:
        async with turns.turn(name):
            order.append(name)
            if until_ is not None:
                await until_.wait()

    turns.count_failure("twice")
    turns.count_failure("twice")
    turns.count_failure("once")
    tasks = [asyncio.ensure_future(take("first", first))]
    tasks += [
        asyncio.ensure_future(take(name)) for name in ("twice", "once", "cancelled", "new", "newer")
    ]
    await asyncio.sleep(0)
    assert turns.waiting == 5
    tasks[3].cancel()
    first.set()
    await asyncio.sleep(0)
    tasks[4].cancel()  # "new", which may have its turn already
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [name for name in order if name != "new"] == ["first", "newer", "once", "twice"]
    await take("last")
    assert order[-1] == "last"
