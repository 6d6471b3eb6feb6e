"""The public log of a ledger that was restored from a backup can be replayed in every order of
events."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import msgspec
import pytest
from accountant_world import NODES, PLAN, World, make_config

from shuffledp_accountant.config import PopulationConfig
from shuffledp_accountant.ledger.restoring import read_certificates, restore
from shuffledp_accountant.log_audit import AccountReplay, LogAudit
from shuffledp_accountant.log_reading import FolderSource, read_log
from shuffledp_accountant.service import Accountant, open_accountant
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import LogProofError
from shuffledp_core.transparency.entries import LedgerEvent, LedgerLogEntry, log_key_of
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, Deployment, create_deployment


class RestoredWorld:
    """An accountant whose ledger can be set back, and the certificates that its callers keep."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment = deployment
        self.kept = folder / "kept"
        self.kept.mkdir()
        self.config = msgspec.structs.replace(
            make_config(deployment, folder),
            log=folder / "log",
            populations={"demo": PopulationConfig(epsilon=500.0, delta=1e-6)},
        )
        self._backup = folder / "backup"
        self._world = World(deployment, self.config)
        self._open()

    def _open(self) -> None:
        self.accountant: Accountant
        self.accountant, self.ledger = open_accountant(self.config, self.deployment.roster)

    def charge(self) -> str:
        """Charge a round; the analyst keeps its certificate."""
        round_id = secrets.token_hex(16)
        certificate = self.accountant.certify(round_id, to_json(PLAN))
        (self.kept / f"{round_id}-plan.json").write_bytes(certificate)
        return round_id

    def settle(self, round_id: str, dropped: int = 0) -> None:
        """Settle a round in which the first node dropped messages; the analyst keeps the final
        certificate."""
        headers = [
            self._world.header(round_id, node, 300, dropped=dropped, records=300 - dropped)
            for node in NODES
        ]
        final = self.accountant.settle(round_id, 300, headers)
        (self.kept / f"{round_id}-final.json").write_bytes(final)

    def back_up(self) -> None:
        """Copy the ledger."""
        self.ledger.close()
        shutil.copytree(self.config.state, self._backup)
        self._open()

    def set_back(self) -> None:
        """Put the copy in place of the ledger, with an empty folder for the log."""
        self.ledger.close()
        shutil.rmtree(self.config.state)
        shutil.copytree(self._backup, self.config.state)
        shutil.rmtree(self.config.log_folder)
        self._open()

    def restore(self, *rounds: str) -> tuple[int, ...]:
        """Charge these rounds again from their certificates; the entries still missing."""
        folder = self.kept / secrets.token_hex(4)
        folder.mkdir()
        for round_id in rounds:
            for file in self.kept.glob(f"{round_id}-*.json"):
                shutil.copy(file, folder)
        roster = self.deployment.roster
        evidence = read_certificates([folder], roster.accountant, roster.deployment)
        (outcome,) = restore(self.ledger, evidence)
        return outcome.missing

    def entries(self) -> list[LedgerLogEntry]:
        """The log as it is published."""
        self.accountant.publish_log()
        key = log_key_of(self.deployment.roster)
        return list(read_log(FolderSource(self.config.log_folder), key).entries())

    def replay(self) -> AccountReplay:
        """The account as a stranger adds it up."""
        audit = LogAudit(self.deployment.roster)
        audit.replay(self.entries())
        return audit.accounts["demo"]


@pytest.fixture
def restored(tmp_path: Path) -> RestoredWorld:
    names = [*NODES, ANALYST, ACCOUNTANT]
    addresses = {name: f"{name}.example:7000" for name in names}
    return RestoredWorld(create_deployment(tmp_path / "keys", addresses), tmp_path)


def test_rounds_opened_before_and_between_two_restores_do_not_end_the_audit(
    restored: RestoredWorld,
) -> None:
    first, _ = restored.charge(), restored.charge()
    restored.back_up()
    restored.settle(first)
    lost = [restored.charge() for _ in range(5)]
    restored.set_back()
    restored.charge()  # takes the number of the first lost round
    # The settlement's certificate knows nothing of that round, and two of five are found later.
    assert restored.restore(first, lost[0], lost[4]) == (4, 5, 6)
    restored.charge()
    assert restored.replay().missing == {4, 5, 6}
    restored.restore(*lost[1:4])
    last = restored.charge()
    account = restored.replay()
    assert (account.missing, account.restored, account.settled) == (set(), 6, 1)
    numbers = [entry.entry for entry in restored.ledger.entries("demo")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert restored.ledger.entries("demo")[-1].round_id == last
    statement = restored.accountant.budget("demo")
    assert account.spent == pytest.approx(statement.spent.certified, rel=1e-6)
    restored.ledger.close()


@pytest.mark.parametrize("is_reserved", [False, True], ids=["lost", "reserved in the backup"])
@pytest.mark.parametrize("dropped", [0, 110, 130])
def test_a_restored_round_with_dropped_messages_is_charged_as_before(
    restored: RestoredWorld, *, dropped: int, is_reserved: bool
) -> None:
    """200 reports were planned, 180 of them honest, and 300 came: 100 dropped messages cost no more
    than the further reports, though the certificate counts on none of them."""
    if not is_reserved:
        restored.back_up()
    round_id = restored.charge()
    if is_reserved:
        restored.back_up()
    restored.settle(round_id, dropped)
    (before,) = restored.ledger.entries("demo")
    restored.set_back()
    restored.restore(round_id)
    assert restored.ledger.entries("demo") == [before]
    spent = restored.accountant.budget("demo").spent.certified
    account = restored.replay()
    assert account.settled == 1
    assert account.spent == pytest.approx(spent, rel=1e-6)
    restored.ledger.close()


def test_a_position_that_is_taken_twice_is_a_contradiction(restored: RestoredWorld) -> None:
    restored.charge()
    restored.back_up()
    lost = restored.charge()
    restored.set_back()
    restored.charge()
    restored.restore(lost)
    *before, again = restored.entries()
    restored.ledger.close()
    assert (again.event, again.position) == (LedgerEvent.RESTORED, 3)
    for position, words in ((2, "as another one"), (2**60, "is entry")):
        audit = LogAudit(restored.deployment.roster)
        with pytest.raises(LogProofError, match=words):
            audit.replay([*before, msgspec.structs.replace(again, position=position)])
    # An earlier build did not log the position.
    audit = LogAudit(restored.deployment.roster)
    audit.replay([*before, msgspec.structs.replace(again, position=msgspec.UNSET)])
    assert audit.accounts["demo"].entry == 3
