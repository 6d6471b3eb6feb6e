"""What the ledger does not compute again after a restart, and what it reads of an older or a very
long one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from shuffledp_accountant.ledger.charges import Account, Budget, ChargeState, Reservation
from shuffledp_accountant.ledger.ledger import MOST_ENTRIES, Ledger
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import LedgerAwayError
from shuffledp_core.mechanisms import KRRHistogram, Mechanism
from shuffledp_core.privacy import Adjacency, CompositionRule
from shuffledp_core.transparency.tree import leaf_hash
from shuffledp_privacy import adaptive, analysis, tabulated
from shuffledp_privacy.analysis import Cost
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.tabulated import TABLES, fingerprint

BUDGETS = {
    "free": Budget(60.0, 1e-6),
    "planned": Budget(60.0, 1e-6, composition=CompositionRule.FIXED),
}


def cost(number: int) -> Cost:
    mechanism = KRRHistogram(symbols=4, blanket=Fraction(400 + number, 1000))
    return Cost(mechanism, Setting(60 + number, 60 + number, Adjacency.STANDARD, 3), 1e-8)


def sign(account: Account) -> bytes:
    return str(account.position).encode()


def restart() -> None:
    """Forgets what a process remembers."""
    TABLES.forget()
    for remembered in (analysis._compose_costs, adaptive._spent_epsilon, adaptive._price):
        remembered.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    restart()
    yield
    restart()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Mechanism]:
    """The mechanisms whose curve or single ε is computed from now on, one for each time."""
    seen: list[Mechanism] = []

    def counting(compute: Callable[..., Any]) -> Callable[..., Any]:
        def counted(mechanism: Mechanism, *arguments: Any) -> Any:
            seen.append(mechanism)
            return compute(mechanism, *arguments)

        return counted

    monkeypatch.setattr(tabulated, "_tabulate", counting(tabulated._tabulate))
    monkeypatch.setattr(analysis, "bounds_of", counting(tabulated.bounds_of))
    return seen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def opened(file: Path) -> Ledger:
    return Ledger.open(f"sqlite:///{file}", BUDGETS, lambda: 5)


def fill(ledger: Ledger, population: str, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        ledger.reserve(
            Reservation(f"{population}{number}", population, "{}", cost(number), 0.5), sign
        )


def copy_with_other_parameters(file: Path, rounds: int) -> None:
    """The charge of `cost(0)` once more for each other number below `rounds`, without composing
    them one by one."""
    with sqlite3.connect(file) as raw:
        for number in range(1, rounds):
            other = cost(number)
            raw.execute(
                """INSERT INTO charges SELECT 'free' || ?, population, ? + 1, state, plan, ?, ?, ?, adjacency,
                max_distance, delta, epsilon, plan_certificate, accepted, final_certificate, reserved_at, changed_at,
                NULL FROM charges WHERE round_id = 'free0'""",  # noqa: E501
                (
                    number,
                    number,
                    to_json(other.mechanism).decode(),
                    other.setting.users,
                    other.setting.honest,
                ),
            )
    raw.close()


def test_forty_different_rounds_are_added_up_after_a_restart_without_a_single_curve(
    file: Path, computed: list[Mechanism]
) -> None:
    for number in range(40):
        TABLES.of(cost(number).mechanism, cost(number).setting, 3)
    ledger = opened(file)
    fill(ledger, "free", 1)  # stores all of them
    copy_with_other_parameters(file, 40)
    before = ledger.statement("free")
    ledger.close()
    assert len([one for one in computed if one == cost(7).mechanism]) == 1
    assert sum(before.charges.values()) == 40
    restart()
    computed.clear()
    ledger = opened(file)
    assert ledger.statement("free") == before
    assert computed == []
    fill(ledger, "free", 1, first=40)
    assert computed == [cost(40).mechanism]
    ledger.close()


@pytest.mark.parametrize(
    "change", ["software = 'another version'", "points = x'00'", "points = zeroblob(64)"]
)
def test_a_curve_of_other_software_or_a_damaged_one_is_computed_again(
    file: Path, computed: list[Mechanism], change: str
) -> None:
    ledger = opened(file)
    fill(ledger, "free", 2)
    before = ledger.statement("free")
    ledger.close()
    with sqlite3.connect(file) as raw:
        raw.execute(f"UPDATE curves SET {change}")  # noqa: S608 - from the list above
    raw.close()
    restart()
    computed.clear()
    ledger = opened(file)
    assert ledger.statement("free") == before
    assert set(computed) == {cost(0).mechanism, cost(1).mechanism}
    ledger.close()


def test_the_fingerprint_is_that_of_the_code() -> None:
    assert len(fingerprint()) == 64
    assert fingerprint() == fingerprint()


def test_a_ledger_of_the_first_version_is_upgraded_and_its_charges_count(file: Path) -> None:
    ledger = opened(file)
    fill(ledger, "free", 3)
    fill(ledger, "planned", 3)
    before = [ledger.statement(name) for name in BUDGETS]
    logged = ledger.log_entries(0, 100)
    ledger.close()
    with sqlite3.connect(file) as raw:  # as version 0001 left it
        raw.execute("DROP TABLE curves")
        raw.execute("DROP TABLE log_entries")
        raw.execute("DROP INDEX charges_cost")
        raw.execute("ALTER TABLE populations DROP COLUMN reconciled")
        raw.execute("ALTER TABLE charges DROP COLUMN result_digest")
        raw.execute("UPDATE alembic_version SET version_num = '0001'")
    raw.close()
    ledger = opened(file)
    assert [ledger.statement(name) for name in BUDGETS] == before
    assert before[0].spent.certified > before[1].spent.certified == before[0].if_fixed
    assert before[0].charges[ChargeState.RESERVED] == 3
    assert len(logged) == 6
    assert sorted(ledger.log_entries(0, 100)) == sorted(logged)
    assert ledger.log_leaves() == [leaf_hash(entry) for entry in ledger.log_entries(0, 100)]
    ledger.close()


def test_an_account_is_added_up_from_an_index_and_not_from_its_certificates(file: Path) -> None:
    opened(file).close()
    question = """EXPLAIN QUERY PLAN SELECT mechanism, users, honest, adjacency, max_distance, delta, count(*)
        FROM charges WHERE population = 'free' AND state IN ('reserved', 'settled')
        GROUP BY mechanism, users, honest, adjacency, max_distance, delta"""  # noqa: E501
    raw = sqlite3.connect(file)
    plan = " ".join(str(row) for row in raw.execute(question))
    raw.close()
    assert "USING COVERING INDEX charges_cost" in plan


def test_a_million_equal_rounds_are_one_row_and_their_entries_come_in_pages(file: Path) -> None:
    ledger = opened(file)
    fill(ledger, "free", 1)
    with sqlite3.connect(file) as raw:
        raw.execute(
            """WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
            INSERT INTO charges SELECT 'free-' || i, population, i, state, plan, mechanism, users, honest, adjacency,
            max_distance, delta, epsilon, plan_certificate, accepted, final_certificate, reserved_at, changed_at,
            NULL FROM charges, n WHERE round_id = 'free0'"""  # noqa: E501
        )
    raw.close()
    _, standing = ledger._snapshot("free")
    assert (dict(standing.counted), standing.last_entry) == ({cost(0): 5000}, 5000)
    page = ledger.entries("free")
    assert [entry.entry for entry in page] == list(range(1, MOST_ENTRIES + 1))
    assert [entry.entry for entry in ledger.entries("free", after=4998, most=10**9)] == [4999, 5000]
    assert ledger.entries("free", after=5000) == []
    ledger.close()


def test_a_ledger_that_somebody_holds_is_away_within_a_bound(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shuffledp_accountant.ledger.database.BUSY_SECONDS", 0.1)
    ledger = opened(file)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerAwayError, match="does not answer"):
        ledger.statement("free")
    with pytest.raises(LedgerAwayError, match="does not answer"):
        fill(ledger, "free", 1)
    holder.execute("ROLLBACK")
    holder.close()
    fill(ledger, "free", 1)
    ledger.close()
