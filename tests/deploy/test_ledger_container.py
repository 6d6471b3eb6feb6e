"""The accountant with its ledger on PostgreSQL, in containers. Needs an engine."""

import pytest
from composed import run, until
from faulty import FaultySystem

pytestmark = pytest.mark.docker


def test_the_accountant_keeps_its_ledger_in_the_database_and_nowhere_else(
    faulty: FaultySystem,
) -> None:
    tables = "select tablename from pg_tables where schemaname = 'public'"
    until(lambda: "charges" in faulty.sql(tables), "the accountant has made its tables")
    files = faulty.python("accountant", "import os; print(os.listdir('/state'))")
    assert "ledger" not in files
    environment = faulty.inspect("accountant")["Config"]["Env"]
    password = (
        faulty.python("accountant", "print(open('/keys/pgpass').read())").strip().split(":")[-1]
    )
    assert len(password) >= 32
    assert not [one for one in environment if password in one]


def test_the_lock_of_a_killed_database_names_no_other_process_than_its_successor(
    faulty: FaultySystem,
) -> None:
    """A server does not start while the process of its lock file's number lives, unless that is
    itself."""
    lock = [
        "docker",
        "exec",
        faulty.container("ledger"),
        "head",
        "-n",
        "1",
        "/var/lib/postgresql/data/ledger/postmaster.pid",
    ]
    for _ in range(2):
        faulty.until_database_answers()
        assert run(lock).strip() == "1"
        with faulty.down("ledger"):
            pass
    faulty.until_database_answers()
