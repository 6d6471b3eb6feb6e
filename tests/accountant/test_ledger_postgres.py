"""The same ledger on a real PostgreSQL server, where its programs and the driver are installed; else skipped."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from shuffledp_accountant.analysis import Cost, spent
from shuffledp_accountant.ledger.charges import Account, Budget, Reservation, Settlement, State
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.ledger.schema import METADATA
from shuffledp_accountant.numerics.bounds import Setting
from shuffledp_core.errors import LedgerAwayError, RoundStateError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.privacy import Adjacency

WORKER = Path(__file__).with_name("ledger_worker.py")
COST = Cost(KRRHistogram(symbols=4, blanket=Fraction(1, 2)), Setting(200, 200, Adjacency.STANDARD, 3), 1e-7)


def _programs() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
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
    # A short path outside pytest's folder: the socket's name is limited, and the other user must reach it.
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        if owner is not None:
            os.chown(folder, pwd.getpwnam(owner).pw_uid, -1)
        data = folder / "data"

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), *arguments]
            subprocess.run(command, user=owner, check=True, cwd="/", stdout=subprocess.DEVNULL)

        run("initdb", "-D", str(data), "-U", "ledger", "-A", "trust", "--no-sync")
        run("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-w", "-o", f"-k {folder} -h ''", "start")
        try:
            yield f"postgresql://ledger@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")


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
    assert [charge.state for charge in before.charges] == [State.SETTLED, State.RELEASED]
    assert before.spent == spent([COST], Adjacency.STANDARD, 1e-6)
    again.close()


def test_the_migrations_make_exactly_the_tables_the_code_uses_on_postgresql(url: str) -> None:
    ledger = Ledger.open(url, {}, lambda: 0)
    with ledger._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    ledger.close()


def test_processes_that_reserve_at_once_never_overspend_on_postgresql(url: str) -> None:
    command = [sys.executable, str(WORKER), url, "1.5", "reserve"]
    workers = [subprocess.Popen([*command, f"{name}0", "6"], stdout=subprocess.PIPE, text=True) for name in "ab"]
    lines = [line.split() for worker in workers for line in worker.communicate()[0].splitlines()]
    assert [worker.returncode for worker in workers] == [0, 0]
    ledger = Ledger.open(url, {"demo": Budget(1.5, 1e-6)}, lambda: 0)
    statement = ledger.statement("demo")
    ledger.close()
    assert {c.round_id for c in statement.charges} == {line[1] for line in lines if line[0] == "reserved"}
    assert [c.entry for c in statement.charges] == list(range(1, len(statement.charges) + 1))
    assert statement.spent.epsilon <= 1.5
    assert any(line[0] == "refused" for line in lines)


def test_a_server_that_is_away_is_a_ledger_error_after_which_one_asks_again(url: str) -> None:
    with pytest.raises(LedgerAwayError, match="does not answer"):
        Ledger.open(url.replace("host=", "host=/nowhere"), {}, lambda: 0)
