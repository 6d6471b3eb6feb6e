"""Who is who, and until when: a roster that has ended, has no number, or is older than one seen
before. About 10 s."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from shuffledp_accountant.cli import serve
from shuffledp_analyst.app import assemble
from shuffledp_analyst.config import AnalystConfig
from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_client.policy import Policy
from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import ConfigError, StaleRosterError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import ROOT, load_identity, load_roster, read_roster
from shuffledp_core.transport.tls import OPERATOR, channel_to
from shuffledp_ops.keys.pki import Deployment, create_deployment, open_deployment
from shuffledp_ops.keys.renewal import renew
from shuffledp_shuffler.app import build
from shuffledp_shuffler.config import NodeConfig

ADDRESSES = {
    name: f"127.0.0.1:{7001 + at}"
    for at, name in enumerate(("node-1", "node-2", "analyst", "accountant"))
}
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return create_deployment(tmp_path / "keys", ADDRESSES, clients=["alice"])


def rewritten(deployment: Deployment, **fields: object) -> None:
    """The root signs the deployment's roster with other fields."""
    root = load_identity(deployment.folder / "root", ROOT)
    roster = msgspec.structs.replace(deployment.roster, **fields)
    deployment.roster_file.write_bytes(root.sign(roster).to_bytes())


def loaded(deployment: Deployment, state: Path | None = None, ahead: int = 0) -> Roster:
    return load_roster(
        deployment.roster_file, deployment.root_key, state, lambda: system_clock() + ahead
    )


def service(deployment: Deployment, name: str) -> dict[str, object]:
    return {
        "name": name, "keys": deployment.keys_of(name), "roster": deployment.roster_file,
        "root_key": deployment.root_key, "listen": "127.0.0.1:0",
        "state": deployment.folder.parent / name,
    }  # fmt: skip


def node(deployment: Deployment) -> None:
    _, made = build(NodeConfig(**service(deployment, "node-1"), workers=1))  # type: ignore[arg-type]
    del made


def analyst(deployment: Deployment) -> None:
    assemble(AnalystConfig(**service(deployment, "analyst")))  # type: ignore[arg-type]


def accountant(deployment: Deployment) -> None:
    lines = [f'{key} = "{value}"' for key, value in service(deployment, "accountant").items()]
    file = deployment.folder.parent / "accountant.toml"
    file.write_text("\n".join([*lines, "[populations.demo]", "epsilon = 1.0", "delta = 1e-6"]))
    serve(file)


def device(deployment: Deployment) -> None:
    policy = Policy(epsilon=1.0, delta=1e-6, epsilon_corrupted=10.0)
    keys, state = deployment.folder / "clients" / "alice", deployment.folder.parent / "alice"
    roster, root_key = deployment.roster_file, deployment.root_key
    DeviceSteps(
        ClientConfig(keys=keys, roster=roster, root_key=root_key, state=state, policy=policy)
    )


EVERYBODY: list[Callable[[Deployment], None]] = [node, analyst, accountant, device]
STATES = dict(zip(EVERYBODY, ("node-1", "analyst", "accountant", "alice"), strict=True))


@pytest.mark.parametrize("process", EVERYBODY)
async def test_no_process_lives_by_a_roster_that_has_ended(
    tmp_path: Path, process: Callable[[Deployment], None]
) -> None:
    ended = create_deployment(
        tmp_path / "keys", ADDRESSES, clients=["alice"], now=NOW - dt.timedelta(days=366)
    )
    with pytest.raises(StaleRosterError, match=r"ended on .*`shuffledp keys renew --roster`"):
        process(ended)


@pytest.mark.parametrize("process", EVERYBODY)
async def test_no_process_goes_back_to_a_roster_older_than_one_it_has_lived_by(
    deployment: Deployment, process: Callable[[Deployment], None]
) -> None:
    """What the process remembers is all that it has: the old roster is genuine, and has not
    ended."""
    first = deployment.roster_file.read_bytes()
    renew(deployment.folder, new_roster=True)
    loaded(deployment, deployment.folder.parent / STATES[process])
    deployment.roster_file.write_bytes(first)
    with pytest.raises(StaleRosterError, match="has serial 1, but roster 2 was in use here before"):
        process(deployment)


def test_the_first_start_and_the_next_roster_are_remembered(
    deployment: Deployment, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    first = shutil.copy(deployment.roster_file, tmp_path / "first.json")
    for serial in (1, 1):
        assert loaded(deployment, state).serial == serial
    renew(deployment.folder, new_authority=True)
    assert loaded(deployment, state).serial == 2
    shutil.copy(first, deployment.roster_file)
    with pytest.raises(StaleRosterError, match="serial 1, but roster 2"):
        loaded(deployment, state)
    assert loaded(deployment).serial == 1  # who has no memory cannot know
    assert [file.name for file in state.iterdir()] == ["roster-seen"]


def test_two_rosters_of_one_serial_are_not_both_believed(
    deployment: Deployment, tmp_path: Path
) -> None:
    loaded(deployment, tmp_path / "state")
    rewritten(deployment, tls_authority="another")
    with pytest.raises(StaleRosterError, match="with other contents"):
        loaded(deployment, tmp_path / "state")


def test_a_damaged_memory_is_not_taken_for_none(deployment: Deployment, tmp_path: Path) -> None:
    loaded(deployment, tmp_path / "state")
    (tmp_path / "state" / "roster-seen").write_text("x")
    with pytest.raises(ConfigError, match="roster-seen is damaged"):
        loaded(deployment, tmp_path / "state")


def test_a_roster_of_an_older_version_is_read_for_old_documents_and_lived_by_by_nobody(
    deployment: Deployment,
) -> None:
    rewritten(deployment, serial=0, issued_at=0, expires_at=0)
    assert (
        read_roster(deployment.roster_file, deployment.root_key).parties
        == deployment.roster.parties
    )
    with pytest.raises(StaleRosterError, match=r"older version.*`shuffledp keys renew --roster`"):
        loaded(deployment)
    renew(deployment.folder, new_roster=True)
    assert loaded(deployment).serial == 1


def test_a_roster_that_ends_while_it_is_in_use_calls_nobody(deployment: Deployment) -> None:
    ended = msgspec.structs.replace(deployment.roster, expires_at=system_clock() - 1)
    with pytest.raises(StaleRosterError, match="ended on"):
        channel_to(ended.party("node-1"), deployment.keys_of(OPERATOR), ended)


def test_a_roster_lives_for_a_year(deployment: Deployment) -> None:
    almost = 365 * 86_400_000 - 60_000
    assert loaded(deployment, ahead=almost).serial == 1
    with pytest.raises(StaleRosterError):
        loaded(deployment, ahead=almost + 120_000)


def test_a_new_roster_has_the_next_serial_and_nothing_else_changes(deployment: Deployment) -> None:
    before = {file: file.read_bytes() for file in deployment.folder.rglob("*") if file.is_file()}
    later = NOW + dt.timedelta(days=1)
    done = renew(deployment.folder, new_roster=True, now=later)
    assert {file.name for file, data in before.items() if file.read_bytes() != data} == {
        "roster.json"
    }
    new = open_deployment(deployment.folder).roster
    assert (new.serial, new.issued_at) == (done.serial, round(later.timestamp() * 1000))
    assert done.serial == 2
    assert (new.parties, new.tls_authority) == (
        deployment.roster.parties,
        deployment.roster.tls_authority,
    )
