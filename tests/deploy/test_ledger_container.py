"""The accountant with its ledger on PostgreSQL, in containers. Needs an engine."""

import pytest
from composed import until
from faulty import FaultySystem

pytestmark = pytest.mark.docker


@pytest.mark.timeout(900)
def test_the_accountant_keeps_its_ledger_in_the_database_and_nowhere_else(faulty: FaultySystem) -> None:
    tables = "select tablename from pg_tables where schemaname = 'public'"
    until(lambda: "charges" in faulty.sql(tables), "the accountant has made its tables")
    files = faulty.python("accountant", "import os; print(os.listdir('/state'))")
    assert "ledger" not in files
    environment = faulty.inspect("accountant")["Config"]["Env"]
    password = faulty.python("accountant", "print(open('/keys/pgpass').read())").strip().split(":")[-1]
    assert len(password) >= 32
    assert not [one for one in environment if password in one]
