"""A ledger restored from a backup has forgotten charges: nodes refuse it until they are charged
again."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from shuffler_world import POPULATION, World
from typer.testing import CliRunner

from shuffledp_accountant.ledger.charges import Budget
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.ledger_app import ledger_app
from shuffledp_accountant.service import Accountant
from shuffledp_core.documents.models import BatchHeader, Certificate, Result, RoundPlan
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import ConfigError, ForeignDocumentError, LedgerBehindError, LedgerError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_ops.keys.pki import ACCOUNTANT
from shuffledp_shuffler.ledger_watch import CONCURRENT_MILLISECONDS, LedgerWatch

BUDGET = Budget(2.0, 1e-6)
A_MINUTE = 60_000


class Operator:
    """An accountant with a ledger in a file, the nodes of a world, and a folder where announced
    documents are kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = world.folder / "accountant"
        self.state.mkdir()
        self.file = self.state / "ledger.db"
        self.documents = world.folder / "out"
        self.documents.mkdir()
        self.ahead = 0
        self.plan = RoundPlan(
            population=POPULATION,
            mechanism="rr-shuffle",
            size=3,
            epsilon=0.4,
            delta=1e-8,
            min_reports=200,
            max_reports=1000,
            route=tuple(world.names),
        )
        self.config = world.folder / "accountant.toml"
        self.config.write_text(
            f'name = "{ACCOUNTANT}"\nkeys = "{world.deployment.keys_of(ACCOUNTANT)}"\n'
            f'roster = "{world.deployment.roster_file}"\nroot_key = "{world.deployment.root_key}"\n'
            f'listen = "{world.roster.accountant.address}"\nstate = "{self.state}"\n'
            f"[populations.{POPULATION}]\nepsilon = {BUDGET.epsilon}\ndelta = {BUDGET.delta}\n"
        )

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        ledger = Ledger.open(f"sqlite:///{self.file}", {POPULATION: BUDGET}, self.clock)
        try:
            yield ledger
        finally:
            ledger.close()

    def clock(self) -> int:
        return system_clock() + self.ahead

    def certify(self) -> Signed:
        """A new round's certificate, as an operator keeps it."""
        round_id = secrets.token_hex(16)
        with self.ledger() as ledger:
            data = self.accountant(ledger).certify(round_id, to_json(self.plan))
        (self.documents / f"{round_id}.json").write_bytes(data)
        return Signed.from_bytes(data)

    def settle(self, plan: Certificate, users: int, invalid: int = 0) -> Certificate:
        """The final certificate, on the words of all nodes."""
        records = users * plan.mechanism.messages_per_user
        headers = [
            self.world.deployment.identity_of(name).sign(
                BatchHeader(
                    round_id=plan.round_id,
                    position=place,
                    users=users,
                    records=records,
                    digest="0" * 64,
                )
            )
            for place, name in enumerate(self.world.names, 2)
        ]
        with self.ledger() as ledger:
            data = self.accountant(ledger).settle(
                plan.round_id, users, [header.to_bytes() for header in headers], invalid
            )
        return from_json(Signed.from_bytes(data).body, Certificate)

    def kept(self, certificate: Certificate) -> Signed:
        """A plan's certificate as it travels."""
        return Signed.from_bytes((self.documents / f"{certificate.round_id}.json").read_bytes())

    def accountant(self, ledger: Ledger) -> Accountant:
        identity = self.world.deployment.identity_of(ACCOUNTANT)
        return Accountant(identity, self.world.roster, ledger, 3_600_000, self.clock)

    async def open(self) -> Certificate:
        """A new round for which every node makes a key."""
        signed = self.certify()
        for place, name in enumerate(self.world.names, 1):
            await self.world.prepare(name, signed, place)
        return from_json(signed.body, Certificate)

    async def refused(self) -> Certificate:
        """A new round, which every node refuses; its documents are not kept."""
        signed = self.certify()
        certificate = from_json(signed.body, Certificate)
        for place, name in enumerate(self.world.names, 1):
            with pytest.raises(LedgerBehindError, match="shuffledp ledger restore"):
                await self.world.prepare(name, signed, place)
        (self.documents / f"{certificate.round_id}.json").unlink()
        return certificate

    def restore(self) -> str:
        """The output of `shuffledp-ledger restore`."""
        arguments = ["restore", "--config", str(self.config), str(self.documents)]
        result = CliRunner().invoke(ledger_app, arguments, standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return result.output


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    world = World(tmp_path)
    try:
        await world.start()
        yield Operator(world)
    finally:
        await world.close()


async def test_nodes_refuse_a_restored_ledger_until_all_that_it_forgot_is_charged_again(
    operator: Operator,
) -> None:
    await operator.open()
    backup = operator.file.read_bytes()
    lost = [await operator.open() for _ in range(2)]
    assert [certificate.ledger.entry for certificate in lost] == [2, 3]
    with operator.ledger() as ledger:
        spent = ledger.statement(POPULATION).spent.certified

    operator.file.write_bytes(backup)
    operator.ahead = A_MINUTE
    # Each refused round takes an entry, and the higher ones are no way out either: not now, nor
    # after a restart.
    assert [(await operator.refused()).ledger.entry for _ in range(3)] == [2, 3, 4]
    await operator.world.hang_up()
    for name in list(operator.world.running):
        await operator.world.stop(name)
    await operator.world.start()
    await operator.refused()

    # One certificate is not found: what is there is charged, the gap is named, and nodes still
    # refuse.
    kept = operator.documents / f"{lost[0].round_id}.json"
    elsewhere = Path(shutil.move(kept, operator.world.folder / kept.name))
    with pytest.raises(LedgerError, match="still has gaps"):
        operator.restore()
    await operator.refused()
    shutil.move(elsewhere, kept)
    output = operator.restore()
    assert f"charged again: round {lost[0].round_id}" in output
    assert "nothing is missing" in output

    with operator.ledger() as ledger:
        held = {entry.round_id for entry in ledger.entries(POPULATION)}
        assert {certificate.round_id for certificate in lost} <= held
        assert ledger.statement(POPULATION).spent.certified > spent
    opened = await operator.open()
    assert opened.ledger.reconciled == 3
    final = operator.settle(lost[1], 300)
    assert (final.stage, final.users, final.mechanism) == ("final", 300, lost[1].mechanism)
    assert operator.restore().count("charged again") == 0  # nothing is charged twice


async def test_a_round_that_the_backup_holds_as_reserved_is_settled_again(
    operator: Operator,
) -> None:
    """15 invalid messages are of at least 5 users: fewer honest ones were left than reserved, so it
    cost more."""
    plan = await operator.open()
    backup = operator.file.read_bytes()
    final = operator.settle(plan, 200, invalid=15)
    assert final.honest == 195
    with operator.ledger() as ledger:
        settled = ledger.entries(POPULATION)
    operator.file.write_bytes(backup)
    result = Result(
        deployment=plan.deployment,
        round_id=plan.round_id,
        outcome="published",
        plan_certificate=operator.kept(plan),
        final_certificate=operator.world.deployment.identity_of(ACCOUNTANT).sign(final),
    )
    signed = operator.world.deployment.identity_of("analyst").sign(result)
    (operator.documents / "result.json").write_bytes(signed.to_bytes())
    operator.restore()
    with operator.ledger() as ledger:
        assert ledger.entries(POPULATION) == settled


async def test_the_gap_is_named(operator: Operator) -> None:
    backup_of_none = operator.file
    opened = [await operator.open() for _ in range(4)]
    backup_of_none.unlink()
    for certificate in (opened[0], opened[2]):
        (operator.documents / f"{certificate.round_id}.json").unlink()
    arguments = ["restore", "--config", str(operator.config), str(operator.documents)]
    result = CliRunner().invoke(ledger_app, arguments)
    assert isinstance(result.exception, LedgerError)
    assert "MISSING: entries 1, 3" in result.output


async def test_files_of_others_charge_nothing(operator: Operator) -> None:
    signed = operator.certify()
    forged = operator.world.deployment.identity_of("node-1").sign(
        from_json(signed.body, Certificate)
    )
    folder = operator.world.folder / "theirs"
    folder.mkdir()
    (folder / "forged.json").write_bytes(forged.to_bytes())
    (folder / "rubbish.json").write_bytes(b"\x00" * 100)
    (folder / "link.json").symlink_to(
        operator.documents / f"{from_json(signed.body, Certificate).round_id}.json"
    )
    operator.documents = folder
    with pytest.raises(LedgerError, match="no plan certificate"):
        operator.restore()


# The rule by itself.


def certificate(
    world: World, entry: int, issued_at: int, population: str = POPULATION
) -> Certificate:
    found = from_json(
        world.round(issued_at=issued_at, population=population).certificate.body, Certificate
    )
    return msgspec.structs.replace(found, ledger=msgspec.structs.replace(found.ledger, entry=entry))


def test_rounds_that_are_certified_at_the_same_time_may_come_in_any_order(tmp_path: Path) -> None:
    world = World(tmp_path)
    watch = LedgerWatch(tmp_path / "seen.json", world.roster)
    last = certificate(world, 9, 1_000_000)
    for good in (last, last, certificate(world, 8, 999_000), certificate(world, 8, 1_000_000)):
        watch.admit(good)
    twice = certificate(world, 9, 1_000_000)
    with pytest.raises(LedgerBehindError, match=rf"entry 9, of round {last.round_id}"):
        watch.admit(twice)
    with pytest.raises(LedgerBehindError):
        watch.admit(certificate(world, 10, 2_000_000))


def test_a_lower_entry_that_was_signed_later_is_refused_for_good(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = tmp_path / "seen.json"
    LedgerWatch(path, world.roster).admit(certificate(world, 9, 1_000_000))
    later = 1_000_000 + CONCURRENT_MILLISECONDS + 1
    with pytest.raises(LedgerBehindError):
        LedgerWatch(path, world.roster).admit(certificate(world, 8, later))
    again = LedgerWatch(path, world.roster)
    for entry in (8, 9, 10, 1000):
        with pytest.raises(LedgerBehindError):
            again.admit(certificate(world, entry, later))
    for reconciled, accepted in ((8, False), (9, True)):
        found = certificate(world, 11, later)
        found = msgspec.structs.replace(
            found, ledger=msgspec.structs.replace(found.ledger, reconciled=reconciled)
        )
        if accepted:
            again.admit(found)
        else:
            with pytest.raises(LedgerBehindError):
                again.admit(found)
    LedgerWatch(path, world.roster).admit(certificate(world, 12, later))


def test_only_populations_of_the_roster_are_remembered(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = tmp_path / "seen.json"
    with pytest.raises(ForeignDocumentError, match="no population 'made-up'"):
        LedgerWatch(path, world.roster).admit(certificate(world, 1, 0, "made-up"))
    assert not path.exists()


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"demo": {}}', b"\xff"])
def test_a_damaged_memory_is_named_and_not_taken_for_an_empty_one(
    tmp_path: Path, damage: bytes
) -> None:
    world = World(tmp_path)
    path = tmp_path / "seen.json"
    path.write_bytes(damage)
    with pytest.raises(ConfigError, match="would not notice"):
        LedgerWatch(path, world.roster)
