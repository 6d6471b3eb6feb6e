"""What survives the end of the analyst's process, and what happens to rounds that it
interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from analyst_world import HANG_SECONDS, MIX_SECONDS, World, plan

from shuffledp_analyst.app import assemble
from shuffledp_analyst.cli import main
from shuffledp_analyst.records import Records
from shuffledp_analyst.stages import MAX_ATTEMPTS
from shuffledp_core import errors
from shuffledp_core.documents.models import Announcement, Manifest
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, Signed, from_json
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.announce import listening, manifest_topic, result_topic
from shuffledp_core.transport.tls import channel_to
from shuffledp_proto.v1 import analyst_pb2, node_pb2
from shuffledp_sim.system.ports import Ports

T = TypeVar("T")


async def test_published_rounds_survive_a_restart(world: World) -> None:
    before = await world.whole_round()
    board = await world.board(before.round_id)
    await world.stop_analyst()
    await world.start_analyst()
    assert await world.ended(before.round_id) == before
    assert await world.board(before.round_id) == board
    async with world.reading() as stub:
        assert (
            await stub.GetManifest(analyst_pb2.GetManifestRequest(round_id=before.round_id))
        ).announcement


async def test_a_round_that_was_open_stays_open_over_a_restart(world: World) -> None:
    round_id = await world.open()
    sent = world.reports(round_id, 3)
    await world.stop_analyst()
    await world.start_analyst()
    async with world.reading() as stub:
        assert (await stub.GetManifest(analyst_pb2.GetManifestRequest())).announcement
    sent |= world.reports(round_id, 2)
    await world.end_submissions(round_id)
    assert (await world.ended(round_id)).accepted == 5
    assert messages_on(await world.board(round_id)) == sent
    assert world.accountant.ledger == {round_id: "settled"}


async def test_a_round_that_was_never_announced_is_failed_and_released_after_a_restart(
    world: World,
) -> None:
    round_id = await world.open()
    await world.stop_analyst()
    (world.folder / "state" / "rounds" / round_id / "announcement.json").unlink()
    await world.start_analyst()
    result = await world.ended(round_id)
    assert (result.outcome, result.error) == ("failed", "RoundFailed")
    assert "restarted" in str(result.reason)
    assert world.accountant.ledger[round_id] == "released"
    assert (await world.whole_round()).outcome == "published"


async def test_a_round_that_failed_meanwhile_fails_after_the_restart_and_stays_charged(
    world: World,
) -> None:
    world.last.faults.add("silent")
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    await world.happened.until(lambda: world.entry.rounds[round_id].forwarded)
    await world.stop_analyst()
    world.last.fail(round_id, errors.BadBatchError("an onion too many"))
    await world.start_analyst()
    result = await world.ended(round_id)
    assert (result.outcome, result.error) == ("failed", "BadBatchError")
    assert world.accountant.ledger[round_id] == "reserved"


async def test_a_batch_that_no_process_survives_is_given_up_in_the_end(world: World) -> None:
    world.last.faults.add("silent")
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    await world.happened.until(lambda: world.entry.rounds[round_id].forwarded)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert Records(world.folder / "state").files(round_id).batch.count_attempt() == attempt
    await deliver_late(world, round_id)
    result = await world.ended(round_id)
    assert (result.outcome, result.error) == ("failed", "RoundFailed")
    assert "3 times while decoding" in str(result.reason)


async def written(path: Path) -> None:
    async with asyncio.timeout(HANG_SECONDS):  # only an analyst that never writes it takes so long
        while not path.exists():  # noqa: ASYNC110, ASYNC240 - a file tells nobody that it is there
            await asyncio.sleep(0)


async def closed_an_hour_ago(world: World) -> str:
    """A round that the analyst was stopped in, without its batch.

    By its records, all that was an hour ago.
    """
    world.last.faults.add("silent")
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    closed = world.folder / "state" / "rounds" / round_id / "closed"
    await written(closed)
    await world.stop_analyst()
    closed.write_bytes(str(int(closed.read_bytes()) - 3_600_000).encode())
    return round_id


async def test_a_restart_gives_a_round_without_its_batch_no_more_time(world: World) -> None:
    round_id = await closed_an_hour_ago(world)
    await world.start_analyst()
    async with asyncio.timeout(HANG_SECONDS):  # only a round whose time begins anew takes longer
        result = await world.ended(round_id)
    assert (result.outcome, result.error) == ("failed", "UnreachableError")
    assert f"within {MIX_SECONDS:.1f} s after submissions closed" in str(result.reason)


async def test_a_round_of_an_earlier_version_has_its_time_from_the_restart_on(world: World) -> None:
    round_id = await closed_an_hour_ago(world)
    (world.folder / "state" / "rounds" / round_id / "closed").unlink()
    await world.start_analyst()
    await deliver_late(world, round_id)
    assert (await world.ended(round_id)).outcome == "published"


async def test_a_round_that_has_its_batch_outlives_an_analyst_that_was_away_for_long(
    world: World,
) -> None:
    """The nodes need time to say once more that they are done, and have been asked by nobody
    meanwhile."""
    world.nodes["node-2"].faults.add("late")
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    await world.happened.until(lambda: world.last.rounds[round_id].forwarded)
    folder = world.folder / "state" / "rounds" / round_id
    await written(folder / "closed")
    await written(folder / "batch")
    await world.stop_analyst()
    (folder / "closed").write_bytes(b"0")
    await world.start_analyst()
    async with world.control() as stub:
        async for event in stub.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
            if event.stage == "decoding" and event.seconds > 0:
                world.nodes["node-2"].done(round_id, 5, b"")
    assert (await world.ended(round_id)).outcome == "published"


def messages_on(board: bytes) -> set[bytes]:
    return {board[start : start + 17] for start in range(0, len(board), 17)}


async def deliver_late(world: World, round_id: str) -> None:
    """What a "silent" last node owes."""
    reports = world.entry.rounds[round_id].reports
    messages = [message for report in reports for message in report]
    world.last.rounds[round_id].forwarded = True
    await world.deliver(round_id, messages, len(reports))
    # An analyst that gives the round up deletes it here as soon as it has the batch.
    if round_id in world.last.rounds:
        world.last.done(round_id, len(reports), b"".join(messages))


async def test_state_is_readable_by_nobody_else(world: World) -> None:
    await world.whole_round()
    for path in (world.folder / "state" / "rounds").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_without_a_plan_is_swept_away(tmp_path: Path) -> None:
    records = Records(tmp_path)
    (tmp_path / "rounds" / ("ab" * 16)).mkdir()
    assert list(records.find_unfinished()) == []
    assert not (tmp_path / "rounds" / ("ab" * 16)).exists()


class Program:
    """The analyst's own program among the parties of a world."""

    def __init__(self, world: World) -> None:
        config = world.config()
        self._world = world
        self._path = world.folder / "analyst.toml"
        names = ("name", "keys", "roster", "root_key", "listen", "state")
        self._path.write_text("\n".join(f'{name} = "{getattr(config, name)}"' for name in names))
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await start_process(self._world, self._path)

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[tuple[World, Program]]:
    world = World(tmp_path)
    await world.start(analyst=False)
    program = Program(world)
    try:
        await program.start()
        yield world, program
    finally:
        await program.kill()
        await world.close()


@pytest.mark.parametrize("stage", ["open", "mixing", "delivered", "settling", "publishing"])
async def test_the_real_process_goes_on_with_its_round_after_kill_9(
    program: tuple[World, Program], stage: str
) -> None:
    """Whatever it was at: what users have paid for is published, once, and charged once."""
    world, analyst = program
    if stage == "mixing":
        world.last.faults.add("silent")
    if stage == "delivered":
        world.nodes["node-2"].faults.add("late")
    if stage in {"settling", "publishing"}:
        world.accountant.faults.add("hangs-at-settlement")
    round_id = await world.open()
    sent = world.reports(round_id, 5)
    if stage != "open":
        await world.end_submissions(round_id)
    reached: dict[str, Callable[[], bool]] = {
        "open": lambda: True,
        "mixing": lambda: world.entry.rounds[round_id].forwarded,
        "delivered": lambda: world.last.rounds[round_id].phase == node_pb2.ROUND_PHASE_DONE,
        "settling": lambda: world.accountant.settlements == [round_id],
        "publishing": lambda: world.accountant.settlements == [round_id],
    }
    await world.happened.until(reached[stage])
    await analyst.kill()
    for served in (*world.nodes.values(), world.accountant):
        served.faults.clear()
    if stage == "publishing":  # what a kill between its two steps leaves
        folder = world.folder / "state" / "rounds" / round_id
        (folder / "batch").rename(folder / "board")
    await analyst.start()
    if stage == "open":
        await world.end_submissions(round_id)
    if stage == "mixing":
        await deliver_late(world, round_id)
    if stage == "delivered":
        world.nodes["node-2"].done(round_id, 5, b"")
    result = await world.ended(round_id)
    assert (result.outcome, result.accepted) == ("published", 5), result.reason
    assert messages_on(await world.board(round_id)) == sent
    assert world.accountant.ledger == {round_id: "settled"}


async def test_the_real_process_keeps_what_it_published_over_kill_9_and_stops_in_good_order(
    program: tuple[World, Program],
) -> None:
    world, analyst = program
    published = await world.whole_round()
    await analyst.kill()
    await analyst.start()
    assert await world.ended(published.round_id) == published
    assert analyst.process is not None
    analyst.process.terminate()
    assert await analyst.process.wait() == 0


async def test_a_node_with_a_long_reason_does_not_stop_the_analyst_for_good(
    program: tuple[World, Program],
) -> None:
    """1.2 million characters that JSON writes with six bytes each.

    The round is unfinished while a node is away.
    """
    world, analyst = program
    world.last.faults.add("fails")
    world.last.rant = "\x1b" * 1_200_000
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.entry.happened.until(lambda: len(world.entry.rounds[round_id].reports) == 5)
    discarding = world.nodes["node-2"]
    discarding.faults.add("wrong-discard")
    await world.end_submissions(round_id)
    before = await world.ended(round_id)
    assert (before.outcome, before.error) == ("failed", "BadBatchError")
    assert len(str(before.reason)) < 3000
    assert str(before.reason).isprintable()
    await analyst.kill()
    await analyst.start()
    assert await world.ended(round_id) == before
    for node in world.nodes.values():
        node.faults.clear()
    assert (await world.whole_round()).outcome == "published"
    assert analyst.process is not None
    assert analyst.process.returncode is None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plan.json", b""),
        ("plan.json", b"\xff\xfe"),
        ("result.json", b"{"),
        ("result.json", b"x" * 5 * 2**20),
    ],
    ids=["empty", "no text", "torn", "too long"],
)
async def test_a_record_that_cannot_be_read_is_set_aside_and_stops_no_start(
    world: World, name: str, data: bytes
) -> None:
    round_id = await world.open()
    await world.stop_analyst()
    rounds = world.folder / "state" / "rounds"
    (rounds / round_id / name).write_bytes(data)
    (rounds / ("cd" * 16)).write_text("a file where a folder should be")
    await world.start_analyst()
    assert (await world.whole_round()).outcome == "published"
    assert (rounds / f"set-aside-{round_id}" / name).read_bytes() == data
    with pytest.raises(errors.UnknownRoundError):
        await world.ended(round_id)


async def test_a_damaged_announcement_fails_its_round_and_no_other(world: World) -> None:
    round_id = await world.open()
    await world.stop_analyst()
    (world.folder / "state" / "rounds" / round_id / "announcement.json").write_bytes(b"{}")
    await world.start_analyst()
    result = await world.ended(round_id)
    assert (result.outcome, world.accountant.ledger[round_id]) == ("failed", "released")


def test_a_result_that_nobody_could_read_is_never_written(tmp_path: Path) -> None:
    records, round_id = Records(tmp_path), "ab" * 16
    records.create(round_id, plan())
    records.files(round_id).batch.path.write_bytes(b"the batch")
    long = Signed(label="result", signer="analyst", body="x" * MAX_DOCUMENT_BYTES, signature="")
    with pytest.raises(errors.RoundFailed, match="more than the"):
        records.files(round_id).publish(long)
    assert not records.files(round_id).has_ended()
    assert records.files(round_id).batch.path.read_bytes() == b"the batch"


async def start_process(world: World, config: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shuffledp_analyst.cli",
        "--config",
        str(config),
        stderr=asyncio.subprocess.DEVNULL,
    )
    roster = world.roster
    async with channel_to(roster.analyst, world.deployment.keys_of("client"), roster) as channel:
        await asyncio.wait_for(channel.channel_ready(), HANG_SECONDS)
    return process


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('colour = "blue"', "colour"),
        ("mix_timeout_seconds = 0.0", "mix_timeout_seconds"),
        ('broker = "x"', "broker"),
    ],
)
def test_a_wrong_configuration_is_one_line_and_exit_code_2(
    tmp_path: Path,
    line: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "analyst.toml"
    path.write_text(
        f'name = "analyst"\nkeys = "k"\nroster = "r"\nroot_key = "00"\nlisten = '
        f'"127.0.0.1:1"\nstate = "s"\n{line}\n'
    )
    monkeypatch.setattr(sys, "argv", ["shuffledp-analyst", "--config", str(path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == errors.ConfigError.exit_code
    complaint = capsys.readouterr().err
    assert len(complaint.strip().splitlines()) == 1
    assert message in complaint


def test_keys_of_another_party_are_refused_at_the_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    wrong = msgspec.structs.replace(world.config(), keys=world.deployment.keys_of("node-1"))
    with pytest.raises(errors.ConfigError, match="not the one the roster names for 'analyst'"):
        assemble(wrong)


async def test_the_announcement_of_an_open_round_and_every_result_are_retained_on_the_broker(
    tmp_path: Path,
) -> None:
    ports = Ports(1)
    (port,) = ports.numbers
    broker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shuffledp_sim.system.broker",
        str(port),
        stderr=asyncio.subprocess.DEVNULL,
    )
    config = BrokerConfig(host="127.0.0.1", port=port)
    world = World(tmp_path, broker=config)
    await world.start()
    try:
        round_id = await world.open()
        topic = manifest_topic("demo", round_id)
        announced = await retained(config, topic, lambda data: from_json(data, Announcement))
        manifest = verify_from(world.roster.analyst, announced.manifest, Manifest)
        assert manifest.round_id == round_id
        async with listening(config, topic) as payloads:
            world.reports(round_id, 5)
            await world.end_submissions(round_id)
            result = await world.ended(round_id)
            while await anext(payloads):  # an empty one withdraws what the broker retains
                pass
        assert await retained(config, result_topic("demo", round_id), world.read) == result
    finally:
        await world.close()
        broker.kill()
        await broker.wait()
        ports.close()


async def retained(broker: BrokerConfig, topic: str, read: Callable[[bytes], T]) -> T:
    """The retained document of a topic, as soon as the broker is up and has it.

    amqtt may also send a new subscriber what it retains for another topic; who listens skips what
    is foreign."""
    while True:
        try:
            async with listening(broker, topic) as payloads:
                async for payload in payloads:
                    with contextlib.suppress(errors.DocumentError):
                        return read(payload)
        except errors.BrokerError:  # not up yet; the test's own time limit ends a wait in vain
            await asyncio.sleep(0.1)
