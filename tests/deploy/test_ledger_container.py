"""The accountant with its ledger on PostgreSQL, in containers. Needs an engine; about 40 s."""

from collections.abc import Iterator

import pytest
from composed import Composed, run

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def deployment() -> Iterator[Composed]:
    """Accountant and database alone."""
    composed = Composed("shuffledp-test-ledger", {"OVERLAYS": "postgres"})
    composed.remove()
    try:
        composed.compose("up", "--detach", "accountant")
        composed.until_healthy("accountant")
        yield composed
    finally:
        composed.remove()


def sql(deployment: Composed, question: str) -> str:
    ledger = deployment.containers("ledger")[0]
    return run(
        [
            "docker",
            "exec",
            ledger,
            "psql",
            "-h",
            "/var/run/postgresql",
            "-U",
            "accountant",
            "-At",
            "-c",
            question,
            "ledger",
        ]
    )


@pytest.mark.timeout(900)
def test_the_accountant_keeps_its_ledger_in_the_database_and_nowhere_else(deployment: Composed) -> None:
    assert "charges" in sql(deployment, "select tablename from pg_tables where schemaname = 'public'").split()
    files = deployment.python("accountant", "import os; print(os.listdir('/state'))")
    assert "ledger" not in files
    environment = deployment.inspect("accountant")["Config"]["Env"]
    password = deployment.python("accountant", "print(open('/keys/pgpass').read())").strip().split(":")[-1]
    assert len(password) >= 32
    assert not [one for one in environment if password in one]
