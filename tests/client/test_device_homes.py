"""From a bundle to a device: `Device.load`, installed once, renewed by a later bundle, and never
another's."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from client_rounds import NOW, POPULATION, ROUND_ID, Draft, make_deployment
from simulated_round import SimulatedRound

import shuffledp_client
from shuffledp_client import BlockingDevice, Device, Standing, homes
from shuffledp_client.bundle import CONFIG, install, read_bundle
from shuffledp_client.homes import home_of
from shuffledp_client.responses import ResponseStore
from shuffledp_core.errors import (
    ConfigError,
    NotInstalledError,
    RoundStateError,
    SignatureError,
    UnknownRoundError,
)
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.transport.announce import Announcer, manifest_topic
from shuffledp_ops.keys.enrolment import bundle, enrol
from shuffledp_ops.keys.pki import Deployment, open_deployment
from shuffledp_ops.keys.renewal import renew
from shuffledp_sim.system.ports import Ports
from shuffledp_sim.system.processes import LocalProcess

SETTINGS = "[policy]\nepsilon = 1.0\ndelta = 1e-6\nepsilon_corrupted = inf\n"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return make_deployment(tmp_path / "deployment")


@pytest.fixture
def alice(deployment: Deployment) -> Path:
    return enrol(deployment, ["alice"], population=POPULATION, settings=SETTINGS)[0]


async def test_a_bundle_is_installed_once_beside_itself(alice: Path) -> None:
    await Device.load(alice)
    home = alice.with_name("alice.device")
    before = {
        path: path.stat().st_mtime_ns
        for path in home.rglob("*")
        if path.suffix in {".pem", ".toml"}
    }
    await asyncio.gather(
        *(
            Device.load(place)
            for place in (alice, str(alice), home, home / CONFIG)
            for _ in range(3)
        )
    )
    assert {path: path.stat().st_mtime_ns for path in before} == before


async def test_a_bundle_is_installed_once_where_the_app_says_and_found_there(
    alice: Path, tmp_path: Path
) -> None:
    named = tmp_path / "app" / "device"
    for folder in (named, str(named), None):
        await Device.load(alice, folder=folder)
    assert (named / "keys" / "identity.pem").exists()
    assert list(alice.parent.glob("*.device")) == []


def test_a_folder_that_was_moved_is_asked_for_and_no_second_one_is_made(
    alice: Path, tmp_path: Path
) -> None:
    first = home_of(alice)
    ResponseStore(first.state / "responses", "home people").recall("a", lambda: 5)
    home, moved, other = (
        alice.with_name("alice.device"),
        tmp_path / "app" / "device",
        tmp_path / "tablet",
    )
    moved.parent.mkdir()
    home.rename(moved)
    before = sorted(tmp_path.rglob("*"))
    for folder in (None, other):
        with pytest.raises(
            ConfigError, match=r"alice\.device, and that folder does not exist any more"
        ):
            home_of(alice, folder)
    assert sorted(tmp_path.rglob("*")) == before
    for _ in range(2):  # as the error says; from then on it is known
        again = home_of(alice, moved)
        assert ResponseStore(again.state / "responses", "home people").recall("a", lambda: 6) == 5
        assert home_of(alice).state == again.state
        with pytest.raises(ConfigError, match="device already holds the device"):
            home_of(alice, other)
    moved.rename(moved.with_name("renamed"))  # beside where it was it is found by its key
    assert home_of(alice).state.is_relative_to(moved.with_name("renamed"))
    assert not home.exists()
    assert not other.exists()


def test_the_note_of_where_a_device_is_tells_nothing_of_its_keys(alice: Path) -> None:
    home_of(alice)
    (note,) = alice.parent.glob(".*.installed")
    assert note.read_text() == f"{alice.with_name('alice.device').resolve()}\n"
    assert note.stat().st_mode & 0o077 == 0


def test_a_bundle_in_a_folder_that_cannot_be_written_is_installed_where_the_app_says(
    alice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, _: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(homes, "write_atomic", refused)  # root may write everywhere
    named = tmp_path / "app" / "device"
    assert home_of(alice, named).state == home_of(alice, named).state
    assert list(alice.parent.glob(".*")) == []


def test_a_later_bundle_of_another_name_finds_the_device_and_what_it_keeps(
    alice: Path, deployment: Deployment
) -> None:
    first = home_of(alice)
    ResponseStore(first.state / "responses", "home people").recall("a", lambda: 5)
    renew(deployment.folder, new_authority=True)
    bundle(open_deployment(deployment.folder), ["alice"])
    later = alice.rename(alice.with_name("alice-2027.bundle"))
    again = home_of(later)
    assert again.state == first.state
    assert ResponseStore(again.state / "responses", "home people").recall("a", lambda: 6) == 5
    assert b'"serial":2' in again.roster.read_bytes().replace(b"\\", b"")
    assert [path.name for path in alice.parent.glob("*.device")] == ["alice.device"]


def test_a_second_folder_of_one_device_is_refused_and_the_first_one_named(
    alice: Path, tmp_path: Path
) -> None:
    home_of(alice)
    home = alice.with_name("alice.device")
    other = tmp_path / "app" / "device"
    for second in (
        lambda: home_of(alice, other),
        lambda: install(read_bundle(alice), home.with_name("tablet")),
    ):
        with pytest.raises(ConfigError, match=r"alice\.device already holds the device"):
            second()
    home.rename(alice.with_name("mine"))
    shutil.copytree(alice.with_name("mine"), alice.with_name("copy"))
    with pytest.raises(ConfigError, match=r"copy and .*mine already"):
        home_of(alice)
    assert not home.exists()
    assert not other.exists()
    other.parent.mkdir()
    alice.with_name("mine").rename(other)  # as the refusal says
    shutil.rmtree(alice.with_name("copy"))
    assert home_of(alice, other).state.is_relative_to(other)


async def test_many_processes_that_start_with_one_new_bundle_make_one_device(alice: Path) -> None:
    configs = await asyncio.gather(*(asyncio.to_thread(home_of, alice) for _ in range(20)))
    assert len({config.state for config in configs}) == 1


def test_a_later_bundle_renews_and_an_older_one_changes_nothing(
    alice: Path, deployment: Deployment
) -> None:
    home = alice.with_name("alice.device")
    home_of(alice)
    (home / CONFIG).write_text(
        (home / CONFIG).read_text().replace("epsilon = 1.0", "epsilon = 0.5")
    )
    old = alice.read_bytes()
    renew(deployment.folder, new_authority=True)
    bundle(open_deployment(deployment.folder), ["alice"])
    assert home_of(alice).policy.epsilon == 0.5
    assert b'"serial":2' in (home / "roster.json").read_bytes().replace(b"\\", b"")
    alice.write_bytes(old)
    home_of(alice)
    assert b'"serial":2' in (home / "roster.json").read_bytes().replace(b"\\", b"")


def test_another_devices_folder_or_deployment_is_refused(
    alice: Path, deployment: Deployment, tmp_path: Path
) -> None:
    home_of(alice)
    home = alice.with_name("alice.device")
    (bob,) = enrol(deployment, ["bob"], population=POPULATION, settings=SETTINGS)
    elsewhere = make_deployment(tmp_path / "elsewhere")
    (other,) = enrol(elsewhere, ["alice"], population=POPULATION, settings=SETTINGS)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    for wrong in (bob, other):
        with pytest.raises(ConfigError, match="another device or deployment"):
            home_of(wrong, home)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_what_is_no_bundle_is_refused_and_nothing_is_made(alice: Path, tmp_path: Path) -> None:
    good = alice.read_bytes()
    fields = msgspec.json.decode(good)
    wrong = {
        "empty": b"",
        "garbage": b"\xff\x00",
        "torn": good[: len(good) // 2],
        "long": good + b" " * 2**23,
        "another root key": msgspec.json.encode(fields | {"root_key": "1" * 64}),
        "a surprise": msgspec.json.encode(fields | {"surprise": 1}),
        "a policy of nonsense": msgspec.json.encode(
            fields | {"settings": "[policy]\nepsilon = -1\n"}
        ),
        "a gateway of nonsense": msgspec.json.encode(
            fields | {"settings": f'{SETTINGS}[gateway]\naddress = "x"\n'}
        ),
    }
    for name, data in wrong.items():
        place = tmp_path / "wrong" / f"{name}.bundle"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        with pytest.raises((ConfigError, SignatureError)):
            home_of(place)
        assert [path.name for path in place.parent.iterdir()] == [place.name], name
        place.unlink()
    for nothing in (tmp_path / "nothing.bundle", tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(ConfigError):
            home_of(nothing)


async def test_without_an_event_loop_it_is_the_same(
    alice: Path, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)

    def app(simulated: SimulatedRound) -> None:
        with BlockingDevice(alice) as user:
            question = user.question()
            assert not user.answer(question, 3).repeated
            assert user.pending() == (ROUND_ID,)
            assert [checked.standing for checked in user.check()] == [Standing.WAITING]
            simulated.end()
            assert [checked.standing for checked in user.check()] == [Standing.COUNTED]
            with pytest.raises(RoundStateError):
                user.answer(ROUND_ID, 1)
            with pytest.raises(UnknownRoundError):
                user.evidence("f" * 32)
        user.close()
        for closed in (user.question, user.check, lambda: user.answer(ROUND_ID, 1)):
            with pytest.raises(ValueError, match="closed"):
                closed()
        with pytest.raises(ConfigError):
            BlockingDevice(tmp_path / "nobody.bundle")

    async with SimulatedRound(Draft(deployment), tmp_path) as simulated:
        await asyncio.to_thread(app, simulated)


async def test_inside_an_event_loop_a_device_that_waits_is_refused_and_nothing_is_left_unawaited(
    alice: Path,
) -> None:
    with pytest.raises(RuntimeError, match="await a Device"):
        BlockingDevice(alice)


async def test_a_closed_device_answers_nothing(alice: Path) -> None:
    async with await Device.load(alice) as user:
        pass
    for call in (user.answer(ROUND_ID, 1), user.check()):
        with pytest.raises(ValueError, match="closed"):
            await call


async def test_a_question_comes_over_the_broker_while_the_analyst_is_away(
    alice: Path, deployment: Deployment, tmp_path: Path
) -> None:
    with Ports(1) as ports:
        (port,) = ports.numbers
        config = home_of(alice)
        config = msgspec.structs.replace(config, broker=BrokerConfig(host="127.0.0.1", port=port))
        broker = LocalProcess(
            "broker", ["shuffledp_sim.system.broker", str(port)], tmp_path / "broker.log"
        )
        simulated = SimulatedRound(Draft(deployment), tmp_path)
        announcer = Announcer(config.broker)  # type: ignore[arg-type] # there is one
        broker.start()
        running = asyncio.ensure_future(announcer.run())
        try:
            async with (
                asyncio.timeout(240),
                Device(config, backoff=None, clock=lambda: NOW) as user,
            ):
                announcer.publish(
                    manifest_topic(deployment.roster.deployment, ROUND_ID), simulated.announcement
                )
                async for question in user.questions(poll_seconds=2):
                    assert question.round_id == ROUND_ID
                    break
        finally:
            running.cancel()
            broker.kill()
            broker.wait(0)


def test_without_httpx_a_gateway_is_a_word_on_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['httpx'] = None\n"
        "from shuffledp_core.errors import NotInstalledError\n"
        "try:\n    import shuffledp_client.https\nexcept NotInstalledError as error:\n    "
        "print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True
    )
    assert "pip install 'shuffledp-client[https]'" in done.stdout
    assert issubclass(NotInstalledError, ConfigError)


def test_the_package_offers_what_its_page_names_and_is_typed() -> None:
    for name in shuffledp_client.__all__:
        assert getattr(shuffledp_client, name).__doc__
    with pytest.raises(AttributeError, match="nothing"):
        _ = shuffledp_client.nothing
    assert (Path(shuffledp_client.__file__).parent / "py.typed").exists()
