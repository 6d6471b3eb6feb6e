"""Devices of a deployment that exists: enrolled, brought there in one file, used, renewed,
withdrawn. About 25 s."""

from __future__ import annotations

import asyncio
import datetime as dt
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from commands import Shell
from rounds_for_tests import small_plan

from shuffledp_client.bundle import install, read_bundle, renew
from shuffledp_client.device import DeviceSteps
from shuffledp_core.documents.models import Credential, RoundPlan, Withdrawals
from shuffledp_core.documents.signed import Signed, from_json, verify
from shuffledp_core.errors import (
    ConfigError,
    ShuffleDPError,
    StaleRosterError,
    UsageError,
    WithdrawnCredentialError,
)
from shuffledp_core.runtime.keys import ROOT, load_identity
from shuffledp_ops.keys import enrolment, renewal
from shuffledp_ops.keys.enrolment import Outside
from shuffledp_ops.keys.pki import Deployment, create_deployment, next_roster, open_deployment
from shuffledp_ops.rounds.running import abort_round, control_of, open_round
from shuffledp_sim.system.processes import LocalSystem

ADDRESSES = {
    name: f"127.0.0.1:{7001 + at}"
    for at, name in enumerate(("node-1", "node-2", "analyst", "accountant"))
}
SETTINGS = "[policy]\nepsilon = 5.0\ndelta = 1e-2\nepsilon_corrupted = inf\nmin_colluding = 1\n"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return create_deployment(tmp_path / "keys", ADDRESSES, clients=["alice"])


def clients(deployment: Deployment) -> set[str]:
    return {path.name for path in (deployment.folder / "clients").iterdir()}


def run_client(*words: str) -> subprocess.CompletedProcess[str]:
    """The device's own program."""
    command = [sys.executable, "-m", "shuffledp_client.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


# -------------------------------------------------------------------- enrol


def test_a_client_is_enrolled_after_the_deployment_was_made_and_its_bundle_is_a_device(
    shuffledp: Shell, deployment: Deployment, tmp_path: Path
) -> None:
    code, printed, _ = shuffledp("keys", "enrol", "keys", "bob")
    assert (code, "clients/bob.bundle" in printed) == (0, True)
    file = deployment.folder / "clients" / "bob.bundle"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    done = run_client("import", str(file), str(tmp_path / "phone"))
    assert done.returncode == 0, done.stderr
    assert deployment.root_key in done.stdout
    assert "epsilon = 2.0" in done.stdout
    device = tmp_path / "phone"
    assert {stat.S_IMODE(path.stat().st_mode) for path in device.rglob("*") if path.is_file()} == {
        0o600
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in (device, device / "keys")} == {0o700}
    config, roster = install(read_bundle(file), tmp_path / "fresh" / "device")
    DeviceSteps(config)
    assert roster == deployment.roster


def test_many_are_enrolled_at_once_by_number_and_from_a_list(
    shuffledp: Shell, deployment: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("id,name\n1,carol\n2,dan\n")
    code, printed, _ = shuffledp(
        "keys", "enrol", "keys", "bob", "--count", "12", "--csv", "people.csv", "--days", "30"
    )
    assert (code, "and 14 more" in printed) == (0, True)
    names = {"alice", "bob", "carol", "dan", *(f"device-{number}" for number in range(1, 13))}
    bundles = {f"{name}.bundle" for name in names - {"alice"}}
    assert clients(deployment) == names | bundles
    keys = {
        (deployment.folder / "clients" / name / "credential.json").read_bytes() for name in names
    }
    assert len(keys) == len(names)
    signed = Signed.from_bytes(
        (deployment.folder / "clients" / "bob" / "credential.json").read_bytes()
    )
    assert from_json(signed.body, Credential).expires_at is not None
    shuffledp("keys", "enrol", "keys", "--count", "1")
    assert "device-13" in clients(deployment)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bob", "alice"], "a client named 'alice' already exists"),
        (["bob", "bob"], "'bob' is given twice"),
        (["bob", "../evil"], "'../evil' is not a valid name"),
        (["bob", "--count", "2", "--prefix", "../x"], "is not a valid name"),
        (["bob", "--population", "elsewhere"], "name a population of the roster"),
        (["bob", "--settings", "nonsense.toml"], "surprise"),
        (["bob", "--csv", "no.csv"], "cannot read the list of names"),
        (["bob", "--csv", "nonsense.toml"], "has no column `name`"),
        (["bob", "--csv", "twice.csv"], "has the column `name` 2 times"),
        (["bob", "--address", "node-9=host:1"], "names no party"),
        (["bob", "--broker", "host"], "is not HOST:PORT"),
        (["bob", "--gateway", "https://host:1/"], "is not HOST:PORT"),
        ([], "name the clients to enrol"),
    ],
)
def test_what_cannot_be_is_refused_and_nobody_is_enrolled(
    shuffledp: Shell, deployment: Deployment, tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "nonsense.toml").write_text(f"surprise = 1\n{SETTINGS}")
    (tmp_path / "twice.csv").write_text("name,name\ncarol,dave\n")
    code, _, errors = shuffledp("keys", "enrol", "keys", *words)
    assert (code, says in errors) == (2, True), errors
    assert clients(deployment) == {"alice"}


def test_a_disk_that_is_full_on_the_way_leaves_nobody_half_enrolled(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, calls = Path.rename, []

    def full(path: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return there(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(ConfigError, match=r"No space left on device.*no one was enrolled"):
        enrolment.enrol(deployment, ["bob", "carol"])
    assert len(calls) == 4
    assert clients(deployment) == {"alice"}


def test_another_enrolment_key_enrols_nobody(deployment: Deployment, tmp_path: Path) -> None:
    other = create_deployment(tmp_path / "other", ADDRESSES)
    key = Path("enrolment") / "demo" / "identity.pem"
    (deployment.folder / key).write_bytes((other.folder / key).read_bytes())
    with pytest.raises(ConfigError, match="is not the one in the roster"):
        enrolment.enrol(deployment, ["bob"])
    (deployment.folder / key).unlink()
    with pytest.raises(ConfigError, match="identity key"):
        enrolment.enrol(deployment, ["bob"])


# -------------------------------------------------------------------- bundles


def test_where_devices_find_the_deployment_from_outside_is_in_the_bundle(
    shuffledp: Shell, deployment: Deployment, tmp_path: Path
) -> None:
    outside = ["--address", "node-1=mix.example.org:443", "--address", "analyst=10.0.0.1:7004"]
    shuffledp("keys", "enrol", "keys", "bob", *outside, "--broker", "10.0.0.1:1883")
    config, _ = install(
        read_bundle(deployment.folder / "clients" / "bob.bundle"), tmp_path / "phone"
    )
    assert config.addresses == {"node-1": "mix.example.org:443", "analyst": "10.0.0.1:7004"}
    assert config.broker is not None
    assert (config.broker.host, config.broker.port) == ("10.0.0.1", 1883)
    found = config.require_addresses(deployment.roster)
    assert (found.party("node-1").address, found.party("node-2").address) == (
        "mix.example.org:443",
        ADDRESSES["node-2"],
    )
    for wrong in ({"node-9": "host:1"}, {"node-1": "host"}, {"node-1": "host:0"}):
        with pytest.raises(ConfigError, match=f"addresses.{next(iter(wrong))}"):
            msgspec.structs.replace(config, addresses=wrong).require_addresses(deployment.roster)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("root_key", "00" * 32),
        ("name", "x\ny"),
        ("identity", "no key"),
        ("settings", "surprise = 1"),
        ("version", 2),
    ],
)
def test_a_bundle_that_is_not_whole_leaves_nothing_behind(
    deployment: Deployment, tmp_path: Path, field: str, value: object
) -> None:
    enrolment.enrol(deployment, ["bob"])
    file = deployment.folder / "clients" / "bob.bundle"
    secret = read_bundle(file).identity.splitlines()[1]
    content = msgspec.json.decode(file.read_bytes()) | {field: value}
    file.write_bytes(msgspec.json.encode(content))
    with pytest.raises(ShuffleDPError) as refused:
        install(read_bundle(file), tmp_path / "phone")
    assert secret not in str(refused.value)
    assert {path.name for path in tmp_path.iterdir()} == {"keys"}


def test_a_device_is_not_overwritten(deployment: Deployment, tmp_path: Path) -> None:
    enrolment.enrol(deployment, ["bob"])
    found = read_bundle(deployment.folder / "clients" / "bob.bundle")
    install(found, tmp_path / "phone")
    with pytest.raises(ConfigError, match="is not empty"):
        install(found, tmp_path / "phone")


def test_a_device_gets_a_later_roster_and_tls_pair_and_keeps_all_else(
    shuffledp: Shell, deployment: Deployment, tmp_path: Path
) -> None:
    enrolment.enrol(deployment, ["bob", "carol"], settings=SETTINGS)
    file = deployment.folder / "clients" / "bob.bundle"
    old, phone = read_bundle(file), tmp_path / "phone"
    config, _ = install(old, phone)
    DeviceSteps(config)
    before = {path: path.read_bytes() for path in phone.rglob("*") if path.is_file()}
    renewal.renew(deployment.folder, new_authority=True)
    assert shuffledp("keys", "bundle", "keys")[0] == 0
    assert {"alice.bundle", "bob.bundle", "carol.bundle"} <= clients(deployment)
    done = run_client("import", "--renew", str(file), str(phone))
    assert done.returncode == 0, done.stderr
    DeviceSteps(config)
    changed = {path.name for path, data in before.items() if path.read_bytes() != data}
    assert changed == {"roster.json", "tls.pem", "tls-key.pem", "roster-seen"}
    assert tomllib.loads((phone / "client.toml").read_text())["policy"]["min_colluding"] == 1
    with pytest.raises(StaleRosterError, match="serial 1, but roster 2"):
        renew(old, phone)
    with pytest.raises(ConfigError, match="is for another device than the one in"):
        renew(read_bundle(deployment.folder / "clients" / "carol.bundle"), phone)
    assert not list(phone.rglob("*.new"))


# -------------------------------------------------------------------- withdrawal


def test_a_list_of_withdrawals_only_grows(shuffledp: Shell, deployment: Deployment) -> None:
    enrolment.enrol(deployment, ["bob"])
    assert shuffledp("keys", "withdraw", "keys", "bob")[0] == 0
    code, printed, _ = shuffledp("keys", "withdraw", "keys", "alice", "ab" * 32, "bob")
    assert (code, "list 2, 3 credentials" in printed) == (0, True)
    key = enrolment.enrolment_of(deployment, "demo")
    signed = Signed.from_bytes((deployment.folder / "withdrawals" / "demo.json").read_bytes())
    said = verify(signed, Withdrawals, "demo", key.public_key)
    assert (said.serial, len(said.credentials), "ab" * 32 in said.credentials) == (2, 3, True)
    with pytest.raises(UsageError, match="this deployment has no client 'nobody'"):
        enrolment.withdraw(deployment, ["nobody"])
    (deployment.folder / "withdrawals" / "demo.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot be extended"):
        enrolment.withdraw(deployment, ["bob"])


def device_plan(system: LocalSystem) -> RoundPlan:
    return small_plan(system, min_reports=40, max_reports=50, colluding=1)


async def test_a_running_deployment_takes_a_new_device_in_and_a_withdrawn_one_no_more(
    system: LocalSystem, tmp_path: Path
) -> None:
    """The enrolled device reaches the system by the addresses of its bundle: those of its roster
    lead nowhere."""
    deployment = open_deployment(system.deployment.folder)
    where = {party.name: party.address for party in deployment.roster.parties}
    settings = (
        SETTINGS
        + enrolment.Outside({"node-1": where["node-1"], "analyst": where["analyst"]}).settings()
    )
    inside = tuple(
        msgspec.structs.replace(party, address="inside.invalid:7000")
        for party in deployment.roster.parties
    )
    roster = load_identity(deployment.folder / "root", ROOT).sign(
        next_roster(deployment.roster, dt.datetime.now(dt.UTC), parties=inside)
    )
    for name in ("new", "lost"):
        enrolment.enrol(deployment, [name], settings=settings)
        found = read_bundle(deployment.folder / "clients" / f"{name}.bundle")
        install(msgspec.structs.replace(found, roster=roster), tmp_path / name)
    enrolment.withdraw(deployment, ["lost"])
    async with control_of(deployment) as control:
        opened = await open_round(control, device_plan(system))
        try:
            command = ["submit", "--config", str(tmp_path / "new" / "client.toml"), "--value", "3"]
            taken = await asyncio.to_thread(run_client, *command)
            assert taken.returncode == 0, taken.stderr
            refused = await asyncio.to_thread(
                run_client, *[word.replace("/new/", "/lost/") for word in command]
            )
            assert refused.returncode == WithdrawnCredentialError.exit_code
            assert "was withdrawn" in refused.stderr
        finally:
            await abort_round(control, opened.round_id, "for the test")


def test_a_broker_with_an_ipv6_address_is_set_as_it_is_connected_to() -> None:
    """Brackets keep address and port apart where they stand together, and nobody can look them
    up."""
    assert '\nhost = "::1"\nport = 1883\n' in Outside({}, "[::1]:1883").settings()
