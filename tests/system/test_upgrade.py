"""State of an earlier build under today's programs, and the way back.

Plays docs/operations.md, "Upgrade and go back", with a deployment whose ledger has schema 0003 and
no public log (old_state/README.md). One sequence of processes, about 15 s of a processor.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from commands import Shell
from rounds_for_tests import within_a_minute

from shuffledp_accountant.config import AccountantConfig
from shuffledp_accountant.service import open_ledger
from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_core.documents.models import Certificate, RoundPlan
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.keys import load_identity
from shuffledp_core.transparency.entries import LedgerLogEntry
from shuffledp_ops.keys.pki import ACCOUNTANT, Deployment, next_roster, open_deployment
from shuffledp_ops.rounds.running import abort_round, control_of, open_round
from shuffledp_sim.deploy import running
from shuffledp_sim.deploy.making import free_ports

ARCHIVE = Path(__file__).parent / "old_state" / "264ae57c.tar.xz"
DEVICES = (1, 2, 3)
PORTS = 9  # of two nodes, analyst and accountant, of their metrics, and of the broker: in a row

Charges = list[tuple[str, int, str, float]]
"""Round, entry, state and certified ε of each charge, in the order of the entries."""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The old deployment's folder, with the next roster, on ports that are free here."""
    folder = tmp_path / "lab"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    move_to_free_ports(folder)
    monkeypatch.chdir(tmp_path)
    yield folder
    running.stop_all(folder)


def move_to_free_ports(folder: Path) -> None:
    """Renew the roster, as the upgrade asks for, and move everything to free ports with it."""
    deployment = open_deployment(folder / "keys")
    first = min(port_of(party.address) for party in deployment.roster.parties)
    moved = dict(zip(range(first, first + PORTS), free_ports(PORTS), strict=True))
    for config in folder.glob("*.toml"):
        text = config.read_text()
        config.write_text(re.sub(r"\b\d{5}\b", lambda match: str(moved[int(match.group())]), text))
    parties = tuple(
        msgspec.structs.replace(party, address=f"127.0.0.1:{moved[port_of(party.address)]}")
        for party in deployment.roster.parties
    )
    roster = next_roster(deployment.roster, dt.datetime.now(dt.UTC), parties=parties)
    root = load_identity(deployment.folder / "root", "root")
    deployment.roster_file.write_bytes(root.sign(roster).to_bytes())


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def charges_in(database: Path) -> Charges:
    query = "SELECT round_id, entry, state, epsilon FROM charges ORDER BY entry"
    with closing(sqlite3.connect(database)) as raw:
        return raw.execute(query).fetchall()


def schema_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as raw:
        return str(raw.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def entries_of(folder: Path) -> list[bytes]:
    config = load_config(folder / "accountant.toml", AccountantConfig)
    with closing(open_ledger(config)) as ledger:
        return ledger.log_entries(0, 100)


def rounds_of(entries: list[bytes]) -> list[str]:
    return [from_json(entry, LedgerLogEntry).round_id for entry in entries]


def spent_in_certificate(folder: Path, round_id: str) -> float:
    """ε that was spent after this round, according to its saved certificate."""
    data = (folder / "out" / round_id / "certificate.json").read_bytes()
    spent = from_json(Signed.from_bytes(data).body, Certificate).ledger.spent
    assert spent is not None
    return spent


def stop(folder: Path, name: str) -> None:
    (member,) = (member for member in running.members(folder) if member.name == name)
    member.process.ask_to_stop()
    member.process.clear()


def plan_of_all(deployment: Deployment) -> RoundPlan:
    """The round that the old build's operator asked for."""
    return RoundPlan(
        population="demo",
        mechanism="krr-histogram",
        size=5,
        epsilon=3.0,
        delta=1e-6,
        min_reports=len(DEVICES),
        max_reports=len(DEVICES),
        route=tuple(party.name for party in deployment.roster.parties if party.role == "node"),
        open_seconds=120.0,
    )


async def play(folder: Path) -> str:
    """A whole round of all devices, which verify it; its id."""
    deployment = open_deployment(folder / "keys")
    async with control_of(deployment) as control:
        round_id = (await open_round(control, plan_of_all(deployment))).round_id
    devices = [
        DeviceSteps(load_config(folder / f"device-{number}.toml", ClientConfig))
        for number in DEVICES
    ]
    for device in devices:
        await device.submit(3, round_id)

    for device in devices:
        await device.verify(round_id, wait=True)
    return round_id


def audit(shuffledp: Shell, folder: Path) -> float:
    """The ε that is spent according to the public log."""
    code, said, errors = shuffledp(
        *("audit-log", str(folder / "state" / ACCOUNTANT / "log")),
        *("--roster", str(folder / "keys" / "roster.json")),
        *("--root-key", (folder / "keys" / "root.pub").read_text().strip()),
    )
    assert (code, "no contradiction" in said) == (0, True), errors
    spent = re.search(r"epsilon ([\d.]+) of 20 is spent", said)
    assert spent is not None
    return float(spent.group(1))


def test_an_old_deployment_goes_on_after_its_upgrade_and_back(lab: Path, shuffledp: Shell) -> None:
    ledger = lab / "state" / ACCOUNTANT / "ledger.db"
    backup = shutil.copy(ledger, lab.parent / "backup.db")
    old = charges_in(ledger)
    (first, _, _, _), (second, _, _, _), (interrupted, _, _, _) = old
    assert schema_of(ledger) == "0003"
    assert [state for _, _, state, _ in old] == ["settled", "settled", "reserved"]

    # The first start migrates the ledger, and the log begins with the old changes.
    running.start_all(lab)
    assert schema_of(ledger) == "0005"
    old_entries = entries_of(lab)[:5]
    assert rounds_of(old_entries) == [first, first, second, second, interrupted]

    new = asyncio.run(within_a_minute(play(lab)))
    charges = charges_in(ledger)
    assert charges[:2] == old[:2]
    assert [(round_id, entry) for round_id, entry, _, _ in charges] == [
        *((round_id, entry) for round_id, entry, _, _ in old),
        (new, 4),
    ]
    assert charges[3][2] == "settled"
    assert entries_of(lab)[: len(old_entries)] == old_entries
    spent = audit(shuffledp, lab)
    assert spent > spent_in_certificate(lab, second)
    assert_old_results_verify(shuffledp, first)

    # The way back: a build does not touch a newer schema.
    stop(lab, ACCOUNTANT)
    make_newer(ledger)
    with pytest.raises(ConfigError, match=r"knows schema 0005.*run the version that wrote it"):
        running.start_all(lab)

    # The backup is restored, and what it lacks is charged again from the analyst's documents,
    # before the accountant starts. The log of the lost ledger stays as it is.
    for file in ledger.parent.glob("ledger.db*"):
        file.unlink()
    shutil.copy(backup, ledger)
    (ledger.parent / "log").rename(lab.parent / "old-log")
    restore = ("ledger", "restore", "--config", "lab/accountant.toml", "lab/state/analyst")
    code, said, errors = shuffledp(*restore)
    assert code == 0, errors
    assert f"charged again: round {new}" in said
    assert "nothing is missing" in said
    assert charges_in(ledger)[:2] == charges[:2]
    assert charges_in(ledger)[3] == charges[3]
    running.start_all(lab)
    # The backup holds the interrupted round as reserved, which may have been released since.
    assert audit(shuffledp, lab) >= spent
    opened = asyncio.run(within_a_minute(open_and_abort(lab)))
    assert charges_in(ledger)[4][:2] == (opened, 5)


def assert_old_results_verify(shuffledp: Shell, round_id: str) -> None:
    """A certificate and a result of the old build hold, as saved and as the analyst kept them."""
    certificate = f"lab/out/{round_id}/certificate.json"
    code, said, _ = shuffledp("verify", certificate, "--root-key", "lab/keys/root.pub")
    assert (code, "genuine and right" in said) == (0, True), said
    code, said, errors = shuffledp("results", "show", "lab/keys", round_id)
    assert (code, said.count("genuine and right")) == (0, 2), errors


def make_newer(database: Path) -> None:
    """Give the ledger the revision of a later build."""
    with closing(sqlite3.connect(database)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '0006'")


async def open_and_abort(folder: Path) -> str:
    """Open a round, for which all nodes must accept the ledger; its id."""
    deployment = open_deployment(folder / "keys")
    async with control_of(deployment) as control:
        round_id = (await open_round(control, plan_of_all(deployment))).round_id
        await abort_round(control, round_id, "only opened")
    return round_id
