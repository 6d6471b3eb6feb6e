"""The same ledger on a real PostgreSQL server, where its programs and the driver are installed.

Else skipped.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from accountant_world import PLAN, World, new_round
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from typer.testing import CliRunner

from shuffledp_accountant.ledger.charges import (
    Account,
    Budget,
    ChargeState,
    Reservation,
    Settlement,
)
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.ledger.rows import LedgerEntry
from shuffledp_accountant.ledger.schema import METADATA
from shuffledp_accountant.ledger_app import ledger_app
from shuffledp_accountant.service import open_accountant
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import LedgerAwayError, RoundStateError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_ops.keys.pki import ACCOUNTANT
from shuffledp_privacy.adaptive import spent_adaptively
from shuffledp_privacy.analysis import Cost
from shuffledp_privacy.bounds import Setting

WORKER = Path(__file__).with_name("ledger_worker.py")
COST = Cost(
    KRRHistogram(symbols=4, blanket=Fraction(1, 2)), Setting(200, 200, Adjacency.STANDARD, 3), 1e-7
)


def _programs() -> Path | None:
    found = shutil.which("initdb")
    # Links to the two programs may stand in a folder without the others.
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


def _owner() -> str | None:
    """Whom to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.skip("root, and no other user to run PostgreSQL as")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not installed")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("the driver is not installed: shuffledp-accountant[postgres]")
    owner = _owner()
    # A short path outside pytest's folder: the socket's name is limited, and the other user must
    # reach it.
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        if owner is not None:
            os.chown(folder, pwd.getpwnam(owner).pw_uid, -1)
        data = folder / "data"

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), *arguments]
            subprocess.run(command, user=owner, check=True, cwd="/", stdout=subprocess.DEVNULL)

        run("initdb", "-D", str(data), "-U", "ledger", "-A", "trust", "--no-sync")
        run(
            "pg_ctl",
            "-D",
            str(data),
            "-l",
            str(folder / "log"),
            "-w",
            "-o",
            f"-k {folder} -h ''",
            "start",
        )
        try:
            yield f"postgresql://ledger@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")


@contextmanager
def restored_database(url: str, folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A database of its own, and a function whose second call brings back what the first saw."""
    programs = _programs()
    assert programs is not None
    if not (programs / "pg_dump").exists():
        pytest.skip("PostgreSQL's pg_dump is not installed beside its server")
    socket_folder = url.split("host=")[1]
    dump = folder / "ledger.dump"

    def run(program: str, *arguments: str) -> None:
        login = ["-h", socket_folder, "-U", "ledger"]
        subprocess.run([str(programs / program), *login, *arguments], check=True)

    def save_or_restore() -> None:
        if dump.exists():
            run("pg_restore", "--clean", "--exit-on-error", "-d", "restored", str(dump))
        else:
            run("pg_dump", "-Fc", "-f", str(dump), "restored")

    run("createdb", "restored")
    try:
        yield url.replace("/postgres?", "/restored?"), save_or_restore
    finally:
        run("dropdb", "restored")


def ask(round_id: str, plan: str = "{}") -> Reservation:
    return Reservation(round_id, "pg", plan, COST, 0.5)


def sign(account: Account) -> bytes:
    return f"{account.position}".encode()


def test_a_round_is_reserved_settled_and_read_again_on_postgresql(url: str) -> None:
    ledger = Ledger.open(url, {"pg": Budget(5.0, 1e-6)}, lambda: 7)
    first = ledger.reserve(ask("a1"), sign)
    ledger.reserve(ask("a2"), sign)
    assert ledger.reserve(ask("a1"), sign) == first
    with pytest.raises(RoundStateError):
        ledger.reserve(ask("a1", "{ }"), sign)
    final = ledger.settle("a1", Settlement(200, COST, 0.5), sign)
    assert ledger.settle("a1", Settlement(200, COST, 0.5), sign) == final
    ledger.release("a2")
    before = ledger.statement("pg")
    ledger.close()
    again = Ledger.open(url, {"pg": Budget(5.0, 1e-6)}, lambda: 8)
    assert again.statement("pg") == before
    assert [entry.state for entry in again.entries("pg")] == [
        ChargeState.SETTLED,
        ChargeState.RELEASED,
    ]
    assert before.spent == spent_adaptively([COST], Adjacency.STANDARD, 5.0, 1e-6)
    again.close()


def test_the_migrations_make_exactly_the_tables_the_code_uses_on_postgresql(url: str) -> None:
    ledger = Ledger.open(url, {}, lambda: 0)
    with ledger._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    ledger.close()


def test_processes_that_reserve_at_once_never_overspend_on_postgresql(url: str) -> None:
    command = [sys.executable, str(WORKER), url, "1.5", "reserve"]
    workers = [
        subprocess.Popen([*command, f"{name}0", "6"], stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    lines = [line.split() for worker in workers for line in worker.communicate()[0].splitlines()]
    assert [worker.returncode for worker in workers] == [0, 0]
    ledger = Ledger.open(url, {"demo": Budget(1.5, 1e-6)}, lambda: 0)
    statement, entries = ledger.statement("demo"), ledger.entries("demo")
    ledger.close()
    assert {c.round_id for c in entries} == {line[1] for line in lines if line[0] == "reserved"}
    assert [c.entry for c in entries] == list(range(1, len(entries) + 1))
    assert statement.spent.certified <= 1.5
    assert any(line[0] == "refused" for line in lines)


def test_a_server_that_is_away_is_a_ledger_error_after_which_one_asks_again(url: str) -> None:
    with pytest.raises(LedgerAwayError, match="does not answer"):
        Ledger.open(url.replace("host=", "host=/nowhere"), {}, lambda: 0)


@contextmanager
def frozen(url: str) -> Iterator[None]:
    """Every process of the server stopped: connections stay, the kernel acknowledges, nobody
    answers."""
    leader = int((Path(url.split("host=")[1]) / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
    everybody = [leader, *map(int, children)]
    for process in everybody:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in everybody:
            os.kill(process, signal.SIGCONT)


def test_a_frozen_server_is_away_within_a_bound_and_works_again_when_it_goes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shuffledp_accountant.ledger.patience.ANSWER_SECONDS", 1.0)
    ledger = Ledger.open(f"{url}&connect_timeout=2", {"ice": Budget(5.0, 1e-6)}, lambda: 7)
    first = Reservation("ab", "ice", "{}", COST, 0.5)
    stored = ledger.reserve(first, sign)
    with frozen(url):
        for again in (
            lambda: ledger.statement("ice"),
            lambda: ledger.reserve(first, sign),
            lambda: ledger.release("ab"),
        ):
            began = time.monotonic()
            with pytest.raises(LedgerAwayError, match="does not answer"):
                again()
            assert time.monotonic() - began < 60  # for ever, without the bound
    assert ledger.reserve(first, sign) == stored
    assert len(ledger.entries("ice")) == 1
    ledger.close()


async def test_a_restored_database_is_charged_again_from_certificates(
    url: str, world: World, tmp_path: Path
) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    plan = msgspec.structs.replace(PLAN, epsilon=0.3)
    with restored_database(url, tmp_path) as (own_url, save_or_restore):
        config = msgspec.structs.replace(world.config, ledger=own_url)

        def certify(rounds: int) -> list[LedgerEntry]:
            accountant, ledger = open_accountant(config, world.deployment.roster)
            for round_id in [new_round() for _ in range(rounds)]:
                data = accountant.certify(round_id, to_json(plan))
                (documents / f"{round_id}.json").write_bytes(data)
            entries = ledger.entries("demo")
            ledger.close()
            return entries

        certify(1)
        save_or_restore()
        before = certify(2)
        save_or_restore()
        assert len(certify(0)) == 1
        written = tmp_path / "accountant.toml"
        written.write_text(
            f'name = "{ACCOUNTANT}"\nkeys = "{config.keys}"\n'
            f'roster = "{world.deployment.roster_file}"\n'
            f'root_key = "{world.deployment.root_key}"\nlisten = "{config.listen}"\n'
            f'state = "{config.state}"\nledger = "{own_url}"\n'
            "[populations.demo]\nepsilon = 2.0\ndelta = 1e-6\n"
        )
        arguments = ["restore", "--config", str(written), str(documents)]
        for again in (2, 0):
            result = CliRunner().invoke(ledger_app, arguments)
            assert (result.exit_code, result.output.count("charged again")) == (0, again)
            assert "nothing is missing" in result.output
        assert [(charge.round_id, charge.entry, charge.epsilon) for charge in certify(0)] == [
            (charge.round_id, charge.entry, charge.epsilon) for charge in before
        ]
