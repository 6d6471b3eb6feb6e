"""The device kit against a simulated round, over gRPC and over an HTTPS gateway."""

from __future__ import annotations

import asyncio
import gc
import gzip
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client_rounds import NOW, ROUND_ID, Draft, make_deployment
from gateway_world import QUICK, answer, device, device_config, gateway, liar
from simulated_round import SimulatedRound, without

from shuffledp_client import Answered, Device, Standing
from shuffledp_client.evidence import check_evidence
from shuffledp_core.documents.models import Receipt
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, to_json
from shuffledp_core.errors import (
    BadBatchError,
    ClientPolicyRefusal,
    ConfigError,
    DocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
    NodeFault,
    RoundStateError,
    ShuffleDPError,
    SignatureError,
    SubmissionClosedError,
    UnknownRoundError,
    UnreachableError,
    UsageError,
)
from shuffledp_ops.keys.pki import Deployment


@pytest.fixture(params=["grpc", "https"])
async def address(
    request: pytest.FixtureRequest, tmp_path: Path, deployment: Deployment
) -> AsyncIterator[str | None]:
    """Where the devices' gateway is; None: there is none, they call the parties."""
    if request.param == "grpc":
        yield None
        return
    async with gateway(deployment, tmp_path / "gateway") as running:
        yield running


async def test_questions_are_answered_once_and_found_on_the_board(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound, address: str | None
) -> None:
    for value, name in enumerate(("a", "b", "c")):
        async with device(tmp_path / name, deployment, address=address) as user:
            async for question in user.questions():
                assert (question.round_id, question.largest, question.epsilon) == (ROUND_ID, 4, 0.5)
                done = await user.answer(question, value)
                assert (done.entry, done.messages, done.repeated) == ("node-1", 10, False)
                break
            (waiting,) = await user.check()
            assert waiting.standing is Standing.WAITING
    simulated.end()
    for name in ("a", "b", "c"):
        async with device(tmp_path / name, deployment, address=address) as user:
            (checked,) = await user.check()
            assert checked.standing is Standing.COUNTED
            assert checked.result is not None
            assert checked.result.result.accepted == 3
            assert user.pending() == ()


# ------------------------------------------------------------------ once


async def test_one_answer_whatever_is_called_twice(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound, address: str | None
) -> None:
    users = [device(tmp_path / "user", deployment, address=address) for _ in range(3)]
    done = await asyncio.gather(
        *(user.answer(ROUND_ID, value) for value, user in enumerate(users)),
        users[0].answer(ROUND_ID, 3),
    )
    assert len(simulated.accepted) == 1
    assert [one.repeated for one in done].count(False) == 1
    async with users[0] as user:
        assert (await user.answer(await user.question(), 4)).repeated
        assert [question async for question in user.questions(seconds=0.2, poll_seconds=0.05)] == []
        simulated.end()
        await user.check()
        with pytest.raises(RoundStateError, match="only once"):
            await user.answer(ROUND_ID, 1)
        with pytest.raises(RoundStateError, match="only once"):
            await user.check(ROUND_ID)
        assert await user.check() == ()
    for user in users:
        await user.close()


# Of a TLS handshake that is cancelled, httpx leaves the socket to the collector.
@pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
async def test_an_answer_that_is_cancelled_anywhere_is_sent_again_and_never_anew(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound, address: str | None
) -> None:
    async with device(tmp_path / "user", deployment, address=address) as user:
        question = await user.question()
        for turns in range(60):  # cancelled at each of its first 60 steps
            task = asyncio.ensure_future(user.answer(question, turns % 5))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await user.answer(question, 1)
        assert len(simulated.accepted) == 1
        simulated.end()
        (checked,) = await user.check()
    assert checked.standing is Standing.COUNTED
    gc.collect()  # here, and not in the middle of another test


ANSWERING = """
import asyncio, sys
from shuffledp_client import Device
from shuffledp_client.config import ClientConfig
from shuffledp_core.runtime.config import load_config

async def main():
    config, now, value = sys.argv[1:]
    async with Device(load_config(config, ClientConfig), clock=lambda: int(now)) as device:
        print("ready", flush=True)
        await device.answer(sys.stdin.readline().strip(), int(value))
        print("answered", flush=True)

import pathlib
sys.argv[1] = pathlib.Path(sys.argv[1])
asyncio.run(main())
"""


async def test_two_processes_and_one_that_is_killed_give_one_answer(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    device_config(tmp_path / "user", deployment)
    simulated.lost_answers = (
        10_000  # it is stored, and nobody hears of it: the process is killed while it waits
    )
    command = [sys.executable, "-c", ANSWERING, str(tmp_path / "user" / "client.toml"), str(NOW)]

    async def start(value: int) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, str(value), stdin=pipe, stdout=pipe
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        return process

    async with asyncio.timeout(240):
        killed = await start(0)
        assert killed.stdin is not None
        killed.stdin.write(f"{ROUND_ID}\n".encode())
        await simulated.stored.wait()
        killed.kill()
        await killed.wait()
        assert (tmp_path / "user" / "state" / f"{ROUND_ID}.json").exists()
        (first,) = simulated.accepted.values()
        simulated.lost_answers = 0
        both = await asyncio.gather(*(start(value) for value in (3, 4)))
        said = await asyncio.gather(
            *(process.communicate(f"{ROUND_ID}\n".encode()) for process in both)
        )
    assert [out for out, _ in said] == [b"answered\n", b"answered\n"]
    assert list(simulated.accepted.values()) == [first]


# ---------------------------------------------------------------- wrong


@pytest.mark.parametrize(
    ("lines", "clock", "value", "error"),
    [
        (("epsilon = 0.1",), NOW, 1, ClientPolicyRefusal),
        (("epsilon = 1.0", "nodes = 4"), NOW, 1, ClientPolicyRefusal),
        (("epsilon = 1.0", "min_colluding = 99"), NOW, 1, ClientPolicyRefusal),
        (("epsilon = 1.0",), NOW + 120_000, 1, SubmissionClosedError),
        (("epsilon = 1.0",), NOW - 120_000, 1, SubmissionClosedError),
        (("epsilon = 1.0",), NOW, 5, UsageError),
        (("epsilon = 1.0",), NOW, -1, UsageError),
        (("epsilon = 1.0",), NOW, 2.0, UsageError),
        (("epsilon = 1.0",), NOW, True, UsageError),
        (("epsilon = 1.0",), NOW, "3", UsageError),
    ],
)
async def test_a_round_or_a_value_that_does_not_fit_is_refused_and_nothing_is_kept_or_sent(
    tmp_path: Path,
    deployment: Deployment,
    simulated: SimulatedRound,
    address: str | None,
    lines: tuple[str, ...],
    clock: int,
    value: Any,
    error: type[ShuffleDPError],
) -> None:
    async with device(tmp_path / "user", deployment, *lines, address=address, clock=clock) as user:
        with pytest.raises(error):
            await user.answer(ROUND_ID, value)
        assert user.pending() == ()
    assert simulated.calls == 0


async def test_a_question_that_closed_meanwhile_is_not_answered(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    now = [NOW]
    user = Device(device_config(tmp_path / "user", deployment), backoff=QUICK, clock=lambda: now[0])
    question = await user.question()
    now[0] += 120_000
    with pytest.raises(SubmissionClosedError):
        await user.answer(question, 1)
    assert simulated.calls == 0


@pytest.mark.parametrize(
    "round_id", ["", "nonsense", "../../etc/passwd", "F" * 32, "f" * 32, "f" * 31, "\0"]
)
async def test_a_round_that_is_none_is_unknown(
    tmp_path: Path,
    deployment: Deployment,
    simulated: SimulatedRound,
    address: str | None,
    round_id: str,
) -> None:
    async with device(tmp_path / "user", deployment, address=address) as user:
        for call in (user.answer(round_id, 1), user.check(round_id)):
            with pytest.raises(UnknownRoundError):
                await call
    assert simulated.calls == 0


async def test_a_policy_refusal_is_told_once_and_the_question_never_asked(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound, address: str | None
) -> None:
    told: list[ClientPolicyRefusal] = []
    async with device(tmp_path / "user", deployment, "epsilon = 0.1", address=address) as user:
        asked = [
            question
            async for question in user.questions(
                seconds=0.5, poll_seconds=0.02, refused=told.append
            )
        ]
    assert (asked, len(told), simulated.calls) == ([], 1, 0)


@pytest.mark.parametrize("epsilon", ["epsilon = 0.1", "epsilon = 1.0"])
async def test_an_announcement_in_other_words_is_the_same_round(
    tmp_path: Path,
    deployment: Deployment,
    simulated: SimulatedRound,
    monkeypatch: pytest.MonkeyPatch,
    epsilon: str,
) -> None:
    """Broker and gateway can add spaces outside of what is signed, and would have the user asked
    again and again."""
    said: list[object] = []
    async with device(tmp_path / "user", deployment, epsilon) as user:
        times = iter(range(1, 6))

        async def fetch_announcement() -> bytes:
            spaces = next(times, None)
            if spaces is None:
                raise ConfigError("enough")
            return simulated.announcement + b" " * spaces

        monkeypatch.setattr(user._steps, "fetch_announcement", fetch_announcement)
        questions = user.questions(poll_seconds=0.02, refused=said.append)

        async def listen() -> None:
            while True:
                said.append(await anext(questions))

        with pytest.raises(ConfigError, match="enough"):
            await listen()
    assert len(said) == 1


async def test_a_round_that_closes_when_calendars_have_ended_is_a_question_as_well(
    tmp_path: Path, deployment: Deployment
) -> None:
    """The time is the analyst's word, and any whole number."""
    draft = Draft(deployment, manifest={"closes_at": 2**62})
    async with SimulatedRound(draft, tmp_path), device(tmp_path / "user", deployment) as user:
        assert (await user.question()).closes_at.year == 6429


async def test_a_round_that_opens_a_moment_later_by_our_clock_is_asked(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    behind = iter([NOW - 60_000] * 6)
    config = device_config(tmp_path / "user", deployment)
    async with (
        Device(config, backoff=QUICK, clock=lambda: next(behind, NOW)) as user,
        asyncio.timeout(240),
    ):
        async for question in user.questions(poll_seconds=0.02):
            assert question.round_id == ROUND_ID
            break
    assert simulated.calls == 0


async def test_an_answer_without_a_receipt_is_asked_for_again(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound, address: str | None
) -> None:
    simulated.lost_answers = QUICK.attempts
    given: list[Answered] = []
    async with device(tmp_path / "user", deployment, address=address) as user, asyncio.timeout(240):
        async for question in user.questions(poll_seconds=0.02):
            try:
                given.append(await user.answer(question, len(given)))
                break
            except UnreachableError:
                assert user.pending() == (ROUND_ID,)
        assert [done.repeated for done in given] == [True]
        assert [question async for question in user.questions(seconds=0.2, poll_seconds=0.02)] == []
    assert len(simulated.accepted) == 1


async def test_waiting_ends_when_it_should_although_nobody_is_there(
    tmp_path: Path, deployment: Deployment, address: str | None
) -> None:
    async with device(tmp_path / "user", deployment, address=address) as user, asyncio.timeout(240):
        assert [question async for question in user.questions(seconds=0.3, poll_seconds=0.05)] == []
        with pytest.raises(UnreachableError):
            await user.question()


# ------------------------------------------------------------- afterwards


async def test_every_outcome_of_a_round_is_said(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound, address: str | None
) -> None:
    async with device(tmp_path / "user", deployment, address=address) as user:
        await user.answer(ROUND_ID, 1)
        simulated.fail("k")
        (failed,) = await user.check()
        assert (failed.standing, user.pending()) == (Standing.FAILED, (ROUND_ID,))
        simulated.end(without(3))
        (missing,) = await user.check()
        assert missing.standing is Standing.MISSING
        assert missing.shown is not None
        assert (missing.shown.missing, missing.shown.messages) == (3, 10)
        evidence, board = await user.evidence(ROUND_ID)
        assert check_evidence(evidence, deployment.roster, board) == missing.shown
        simulated.board = b"\0" * len(simulated.board)
        (unclear,) = await user.check(ROUND_ID)
        assert unclear.standing is Standing.UNCLEAR
        assert isinstance(unclear.error, BadBatchError)
        assert user.pending() == (ROUND_ID,)


async def test_a_message_that_stands_on_the_board_twice_is_told_without_a_contradiction(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    """Somebody doubled a message of the first user, in the place of one of the second's."""
    for name in ("first", "second"):
        async with device(tmp_path / name, deployment) as user:
            await user.answer(ROUND_ID, 1)
    simulated.end(lambda rows: rows[:-1] + rows[:1])
    async with device(tmp_path / "first", deployment) as user:
        (doubled,) = await user.check()
    async with device(tmp_path / "second", deployment) as user:
        (lost,) = await user.check()
    assert [doubled.standing, lost.standing] == [Standing.MISSING] * 2
    assert (doubled.shown is None, lost.shown is None) == (True, False)
    assert "nothing proves that this user was cheated" in doubled.words


async def test_an_answer_that_came_too_late_accuses_nobody(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound, address: str | None
) -> None:
    async with device(tmp_path / "other", deployment, address=address) as other:
        await other.answer(ROUND_ID, 2)
    simulated.lost_answers = 10_000
    async with device(tmp_path / "user", deployment, address=address) as user:
        with pytest.raises(UnreachableError):
            await user.answer(ROUND_ID, 1)
        del simulated.accepted[list(simulated.accepted)[-1]]
        simulated.end()
        (late,) = await user.check()
        assert (late.standing, user.pending()) == (Standing.LATE, ())


# ----------------------------------------------------------- a lying gateway


def lies(elsewhere: bytes, announcement: bytes) -> dict[str, tuple[bytes, type[Exception]]]:
    """Answers of a gateway to the question for a round, and the error that each must be."""
    problem = b'{"type":"t","title":"t","status":409,"detail":"d","code":"%s"}'
    kind = "application/problem+json"
    return {
        "another deployment": (answer(elsewhere), DocumentError),
        "a byte changed": (answer(announcement.replace(b"0.5", b"0.4", 1)), SignatureError),
        "garbage": (answer(b"\xff\xfe\x00"), MalformedDocumentError),
        "nothing": (answer(b""), MalformedDocumentError),
        "no HTTP": (b"\0\1\2\3\r\n\r\n", UnreachableError),
        "a web page": (answer(b"<html>", kind="text/html"), NodeFault),
        "a web page of an error": (answer(b"<html>", "404 Not Found", "text/html"), NodeFault),
        "a proxy's error": (answer(b"<html>", "502 Bad Gateway", "text/html"), UnreachableError),
        "too much": (answer(b" " * (MAX_DOCUMENT_BYTES + 1)), NodeFault),
        "packed": (answer(gzip.compress(bytes(10**6)), "200 OK", "application/json",
        "content-encoding: gzip"),
                   MalformedDocumentError),
        "torn": (answer(announcement)[:-10], UnreachableError),
        "elsewhere": (answer(b"", "302 Found", "application/json",
            "location: https://evil.example/"), NodeFault),
        "an error of ours": (answer(problem % b"SubmissionClosedError", "409 Conflict", kind),
        SubmissionClosedError),
        "a finding of our own": (answer(problem % b"ReceiptMissingError", "409 Conflict", kind),
        NodeFault),
        "a refusal of our policy": (answer(problem % b"ClientPolicyRefusal", "409 Conflict",
        kind), NodeFault),
        "a failure of the round": (answer(problem % b"RoundFailed", "409 Conflict", kind),
        NodeFault),
        "an unknown error": (answer(problem % b"SystemExit", "409 Conflict", kind), NodeFault),
        "an endless problem": (answer(b" " * 2**20, "400 Bad Request", kind), NodeFault),
    }  # fmt: skip


async def test_whatever_a_gateway_says_is_a_typed_error_and_nothing_is_sent(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    other = make_deployment(tmp_path / "other")
    elsewhere = to_json(Draft(other).announcement())
    for name, (said, error) in lies(elsewhere, simulated.announcement).items():
        async with (
            liar(deployment, said) as address,
            device(tmp_path / name.replace(" ", "-"), deployment, address=address) as user,
        ):
            with pytest.raises(ShuffleDPError) as caught:
                await user.answer(ROUND_ID, 1)
            assert isinstance(caught.value, error), f"{name}: {caught.value!r}"
            assert user.pending() == ()
            assert [
                question async for question in user.questions(seconds=0.05, poll_seconds=0.05)
            ] == []
    assert simulated.calls == 0


async def test_a_forged_receipt_is_no_receipt(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    other = make_deployment(tmp_path / "other")
    receipt = Receipt(round_id=ROUND_ID, credential="0" * 64, submission_digest="0" * 64)
    forged = other.identity_of("node-1").sign(receipt)
    stale = deployment.identity_of("node-1").sign(receipt)
    async with device(tmp_path / "user", deployment) as user:
        question = await user.question()
    for signed, error in ((forged, SignatureError), (stale, ForeignDocumentError)):
        async with (
            liar(deployment, answer(signed.to_bytes())) as address,
            device(tmp_path / "user", deployment, address=address) as user,
        ):
            with pytest.raises(error):
                await user.answer(question, 1)
            assert user.pending() == (ROUND_ID,)  # it is sent again elsewhere
    async with device(tmp_path / "user", deployment) as user:
        assert (await user.answer(question, 1)).repeated
    assert simulated.calls == 1


async def test_a_gateway_whose_name_is_none_is_not_reached(
    tmp_path: Path, deployment: Deployment
) -> None:
    async with device(tmp_path / "user", deployment, address="xn--:443") as user:
        with pytest.raises(UnreachableError, match="the gateway at"):
            await user.question()


async def test_a_gateway_that_is_somebody_else_is_not_spoken_to(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    other = make_deployment(tmp_path / "other")
    for whose, keys in {
        "TLS of another authority, another deployment": (other, other.keys_of("gateway")),
        "a party of this deployment that is no gateway": (
            deployment,
            deployment.keys_of("analyst"),
        ),
    }.values():
        async with (
            gateway(whose, tmp_path / "gateway", keys=keys) as address,
            device(tmp_path / "user", deployment, address=address) as user,
        ):
            with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
                await user.question()
    assert simulated.calls == 0
