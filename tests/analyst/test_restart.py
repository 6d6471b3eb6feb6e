"""What survives the end of the analyst's process, and what happens to rounds that it interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import aiomqtt
import msgspec
import pytest
from analyst_world import World

from shuffledp_analyst.app import assemble
from shuffledp_analyst.cli import main
from shuffledp_analyst.records import Records
from shuffledp_core import errors
from shuffledp_core.config import BrokerConfig
from shuffledp_core.documents.models import Announcement, Manifest
from shuffledp_core.documents.signed import from_json
from shuffledp_core.keys import verify_from
from shuffledp_core.transport.announce import listening, manifest_topic, result_topic
from shuffledp_core.transport.tls import channel_to
from shuffledp_proto.v1 import analyst_pb2
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
        assert (await stub.GetManifest(analyst_pb2.GetManifestRequest(round_id=before.round_id))).announcement


async def test_a_round_that_was_open_is_failed_and_released_after_a_restart(world: World) -> None:
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.stop_analyst()
    await world.start_analyst()
    result = await world.ended(round_id)
    assert (result.outcome, result.error) == ("failed", "RoundFailed")
    assert "restarted" in str(result.reason)
    assert world.accountant.ledger[round_id] == "released"
    assert (await world.whole_round()).outcome == "published"


async def test_a_round_whose_messages_had_left_the_nodes_stays_charged_after_a_restart(world: World) -> None:
    world.last.faults.add("silent")
    round_id = await world.open()
    world.reports(round_id, 5)
    await world.end_submissions(round_id)
    await world.happened.until(lambda: world.entry.rounds[round_id].forwarded)
    await world.stop_analyst()
    await world.start_analyst()
    assert (await world.ended(round_id)).outcome == "failed"
    assert world.accountant.ledger[round_id] == "reserved"


async def test_state_is_readable_by_nobody_else(world: World) -> None:
    await world.whole_round()
    for path in (world.folder / "state" / "rounds").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_without_a_plan_is_swept_away(tmp_path: Path) -> None:
    records = Records(tmp_path)
    (tmp_path / "rounds" / ("ab" * 16)).mkdir()
    assert list(records.unfinished()) == []
    assert not (tmp_path / "rounds" / ("ab" * 16)).exists()


async def test_the_real_process_survives_kill_9(tmp_path: Path) -> None:
    """The program itself, killed while a round is open, started again on the same state."""
    world = World(tmp_path)
    await world.start(analyst=False)
    config = world.config()
    path = tmp_path / "analyst.toml"
    names = ("name", "keys", "roster", "root_key", "listen", "state")
    path.write_text("\n".join(f'{name} = "{getattr(config, name)}"' for name in names))
    process = await start_process(world, path)
    try:
        published = await world.whole_round()
        interrupted = await world.open()
        process.kill()
        await process.wait()
        process = await start_process(world, path)
        assert await world.ended(published.round_id) == published
        assert (await world.ended(interrupted)).outcome == "failed"
        assert world.accountant.ledger[interrupted] == "released"
        process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await world.close()


async def start_process(world: World, config: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shuffledp_analyst.cli", "--config", str(config), stderr=asyncio.subprocess.DEVNULL
    )
    roster = world.roster
    async with channel_to(roster.the("analyst"), world.deployment.keys_of("client"), roster) as channel:
        await asyncio.wait_for(channel.channel_ready(), 60)
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
    tmp_path: Path, line: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "analyst.toml"
    path.write_text(
        f'name = "analyst"\nkeys = "k"\nroster = "r"\nroot_key = "00"\nlisten = "127.0.0.1:1"\nstate = "s"\n{line}\n'
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


async def test_the_announcement_of_an_open_round_and_every_result_are_retained_on_the_broker(tmp_path: Path) -> None:
    ports = Ports(1)
    (port,) = ports.numbers
    broker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shuffledp_sim.system.broker", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    config = BrokerConfig(host="127.0.0.1", port=port)
    world = World(tmp_path, broker=config)
    await world.start()
    try:
        round_id = await world.open()
        topic = manifest_topic("demo", round_id)
        announced = await retained(config, topic, lambda data: from_json(data, Announcement))
        manifest = verify_from(world.roster.the("analyst"), announced.manifest, Manifest)
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

    amqtt may also send a new subscriber what it retains for another topic; who listens skips what is foreign.
    """
    while True:
        try:
            async with listening(broker, topic) as payloads:
                async for payload in payloads:
                    with contextlib.suppress(errors.DocumentError):
                        return read(payload)
        except aiomqtt.MqttError:  # not up yet; the test's own time limit ends a wait in vain
            await asyncio.sleep(0.1)
