"""The ledger on SQLite: what a charge may go through, what is refused, and what a damaged database
does."""

from __future__ import annotations

import math
import sqlite3
import stat
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_accountant.ledger.charges import (
    Account,
    Budget,
    Charge,
    ChargeState,
    Reservation,
    Settlement,
    settled_cost,
)
from shuffledp_accountant.ledger.database import open_database
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.ledger.schema import METADATA
from shuffledp_core.errors import (
    BudgetExceeded,
    CannotCertify,
    ConfigError,
    LedgerError,
    RoundStateError,
    UnknownRoundError,
    UsageError,
)
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.adaptive import spent_adaptively
from shuffledp_privacy.analysis import Cost, analyse, compose_costs
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

DELTA = 1e-6
MECHANISM = KRRHistogram(symbols=4, blanket=Fraction(1, 2))


def cost(honest: int = 200, delta: float = 1e-7) -> Cost:
    return Cost(MECHANISM, Setting(honest, honest, Adjacency.STANDARD, 3), delta)


def alone(honest: int = 200) -> float:
    return compose_costs([cost(honest)], Adjacency.STANDARD, DELTA).certified


def ask(
    round_id: str, what: Cost | None = None, population: str = "demo", plan: str = "{}"
) -> Reservation:
    return Reservation(round_id, population, plan, what or cost(), 0.5)


def signer() -> tuple[Callable[[Account], bytes], list[Account]]:
    seen: list[Account] = []

    def sign(account: Account) -> bytes:
        seen.append(account)
        return f"certificate {len(seen)}".encode()

    return sign, seen


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state' / 'ledger.db'}"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    opened = Ledger.open(
        url, {"demo": Budget(2.5 * alone(), DELTA), "other": Budget(1.0, DELTA)}, lambda: 1000
    )
    yield opened
    opened.close()


def test_a_new_population_has_its_whole_budget(ledger: Ledger) -> None:
    statement = ledger.statement("demo")
    assert (statement.spent.certified, statement.left) == (0.0, statement.budget.epsilon)
    assert set(statement.charges.values()) == {0}
    assert ledger.entries("demo") == []


def test_a_reservation_is_charged_and_its_certificate_says_where_it_stands(ledger: Ledger) -> None:
    sign, seen = signer()
    assert ledger.reserve(ask("a1"), sign) == b"certificate 1"
    assert seen[0].position.entry == 1
    assert seen[0].position.spent == pytest.approx(alone(), rel=1e-9)
    charge = ledger.charge("a1")
    assert (charge.state, charge.cost, charge.epsilon, charge.reserved_at) == (
        ChargeState.RESERVED,
        cost(),
        0.5,
        1000,
    )


def test_a_charge_without_a_largest_distance_is_refused_and_not_tried_for_ever(
    ledger: Ledger,
) -> None:
    sign, _ = signer()
    with pytest.raises(ValueError, match="largest distance"):
        ledger.reserve(
            ask("a1", Cost(MECHANISM, Setting(200, 200, Adjacency.STANDARD), 1e-7)), sign
        )
    assert ledger.find("a1") is None


def test_spent_is_composed_and_never_more_than_the_sum(ledger: Ledger) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    ledger.reserve(ask("a2"), sign)
    statement = ledger.statement("demo")
    direct = compose_epsilon([Round(MECHANISM, Setting(200, 200), 2)], DELTA)
    assert (
        alone()
        < statement.if_fixed
        <= statement.spent.certified
        <= 2 * analyse(cost(), 3).bounds.certified
    )
    assert statement.if_fixed == pytest.approx(direct, rel=1e-3)
    assert statement.spent.certified == pytest.approx(direct, rel=0.1)


def test_a_round_that_would_overspend_is_refused_and_told_what_is_left(ledger: Ledger) -> None:
    sign, _ = signer()
    accepted = 0
    while (
        spent_adaptively(
            [cost()] * (accepted + 1), Adjacency.STANDARD, 2.5 * alone(), DELTA
        ).certified
        <= 2.5 * alone()
    ):
        ledger.reserve(ask(f"a{accepted}"), sign)
        accepted += 1
    wanted = r"is spent at delta 1e-06, .* is left, the round alone costs .* smaller epsilon"
    with pytest.raises(BudgetExceeded, match=wanted):
        ledger.reserve(ask("ff"), sign)
    statement = ledger.statement("demo")
    assert statement.charges[ChargeState.RESERVED] == len(ledger.entries("demo")) == accepted
    assert accepted > 2
    assert statement.spent.certified <= statement.budget.epsilon


def test_a_repeated_reservation_gets_the_same_bytes_and_is_charged_once(ledger: Ledger) -> None:
    sign, seen = signer()
    first = ledger.reserve(ask("a1"), sign)
    assert ledger.reserve(ask("a1"), sign) == first
    assert len(seen) == len(ledger.entries("demo")) == 1


@pytest.mark.parametrize(
    "other", [ask("a1", plan="{ }"), ask("a1", population="other", plan="{  }")]
)
def test_another_plan_under_the_same_round_id_is_refused(
    ledger: Ledger, other: Reservation
) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    with pytest.raises(RoundStateError, match="another plan"):
        ledger.reserve(other, sign)
    assert ledger.entries("other") == []


def test_a_settlement_of_more_reports_keeps_the_reserved_charge_and_says_so(ledger: Ledger) -> None:
    sign, seen = signer()
    ledger.reserve(ask("a1"), sign)
    final = ledger.settle("a1", Settlement(400, cost(400), 0.3), sign)
    assert ledger.settle("a1", Settlement(400, cost(400), 0.3), sign) == final
    charge = ledger.charge("a1")
    assert (charge.state, charge.accepted, charge.cost, charge.epsilon) == (
        ChargeState.SETTLED,
        400,
        cost(200),
        0.5,
    )
    assert (
        alone(400) < alone(200) == pytest.approx(ledger.statement("demo").spent.certified, rel=1e-9)
    )
    assert seen[-1].position.entry == 1
    assert (
        "charged for 200 honest users, as reserved: further reports may be made up"
        in seen[-1].basis
    )
    assert len(seen) == 2


def test_made_up_reports_do_not_fit_thousands_of_rounds_into_a_budget_of_four(url: str) -> None:
    """200 real users in each round, settled for a million: 4,096 of them would fit, were it
    believed."""
    ledger = Ledger.open(url, {"demo": Budget(4.0, DELTA)}, lambda: 0)
    sign, _ = signer()
    small, large = cost(200), cost(1_000_000)
    believed = compose_costs({large: 4096}, Adjacency.STANDARD, DELTA).certified
    assert believed < 4.0 < compose_costs({small: 4096}, Adjacency.STANDARD, DELTA).certified

    def run(number: int) -> None:
        ledger.reserve(ask(f"{number:04x}", small), sign)
        ledger.settle(f"{number:04x}", Settlement(1_000_000, large, 0.001), sign)

    with pytest.raises(BudgetExceeded):
        deque(map(run, range(4096)))
    settled = ledger.statement("demo").charges[ChargeState.SETTLED]
    assert compose_costs({small: settled}, Adjacency.STANDARD, DELTA).certified <= 4.0
    ledger.close()


@given(st.integers(1, 400), st.integers(1, 400))
def test_a_charge_is_the_worse_of_what_was_reserved_and_what_arrived(
    reserved: int, arrived: int
) -> None:
    charge = Charge(
        "a", "demo", 1, ChargeState.RESERVED, "{}", cost(reserved), 0.5, b"", None, None, 0, 0
    )
    kept, _ = settled_cost(charge, Settlement(arrived, cost(arrived), 0.7))
    assert kept.setting.honest == min(reserved, arrived)


def test_a_settlement_that_costs_more_than_the_whole_budget_is_recorded_all_the_same(
    ledger: Ledger,
) -> None:
    sign, seen = signer()
    ledger.reserve(ask("a1"), sign)
    ledger.settle("a1", Settlement(3, cost(3), 9.0), sign)
    position = seen[-1].position
    assert position.spent is not None
    assert position.spent > position.limit
    assert ledger.statement("demo").left == 0.0
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask("a2"), sign)


def test_a_release_gives_everything_back_once_and_the_round_never_returns(ledger: Ledger) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    ledger.release("a1")
    ledger.release("a1")
    assert ledger.statement("demo").spent.certified == 0.0
    assert ledger.charge("a1").state is ChargeState.RELEASED
    with pytest.raises(RoundStateError, match="cannot be run again"):
        ledger.reserve(ask("a1"), sign)
    with pytest.raises(RoundStateError, match="was released"):
        ledger.settle("a1", Settlement(200, cost(), 0.5), sign)
    ledger.reserve(ask("a2"), sign)
    assert ledger.charge("a2").entry == 2


def test_a_settled_round_is_neither_released_nor_settled_for_another_number(ledger: Ledger) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    ledger.settle("a1", Settlement(200, cost(), 0.5), sign)
    with pytest.raises(RoundStateError, match="its charge stays"):
        ledger.release("a1")
    with pytest.raises(RoundStateError, match="settled for 200 reports"):
        ledger.settle("a1", Settlement(201, cost(201), 0.5), sign)


def test_a_round_that_was_never_reserved_is_unknown(ledger: Ledger) -> None:
    sign, _ = signer()
    with pytest.raises(UnknownRoundError):
        ledger.release("ff")
    with pytest.raises(UnknownRoundError):
        ledger.settle("ff", Settlement(200, cost(), 0.5), sign)


def test_a_population_without_a_budget_gets_nothing(ledger: Ledger) -> None:
    sign, _ = signer()
    with pytest.raises(UsageError, match=r"no budget here; those with one: demo, other"):
        ledger.reserve(ask("a1", population="nobody"), sign)


def test_populations_do_not_pay_for_each_other(ledger: Ledger) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    assert ledger.statement("other").spent.certified == 0.0


def test_when_signing_fails_nothing_is_charged(ledger: Ledger) -> None:
    def broken(_: Account) -> bytes:
        raise LedgerError("no key")

    with pytest.raises(LedgerError, match="no key"):
        ledger.reserve(ask("a1"), broken)
    assert ledger.find("a1") is None


def test_a_change_by_somebody_else_while_signing_is_taken_into_account(ledger: Ledger) -> None:
    sign, seen = signer()
    interrupted: list[Account] = []

    def slow(account: Account) -> bytes:
        if not interrupted:
            interrupted.append(account)
            ledger.reserve(ask("b1"), sign)
        return sign(account)

    ledger.reserve(ask("a1"), slow)
    assert [entry.round_id for entry in ledger.entries("demo")] == ["b1", "a1"]
    assert interrupted[0].position.entry == 1
    assert seen[-1].position.entry == 2
    assert seen[-1].position.spent == pytest.approx(ledger.statement("demo").spent.certified)


@pytest.mark.parametrize("theirs", ["settled", "released"])
@pytest.mark.parametrize("ours", ["settle", "release"])
def test_a_change_by_somebody_else_before_the_snapshot_is_taken_into_account(
    url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, ours: str, theirs: str
) -> None:
    """Before: the charge was read, changed by another process, and our change of no row counted as
    done."""
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    other = Ledger.open(url, {"demo": Budget(2.5 * alone(), DELTA)}, lambda: 2000)
    snapshot, meanwhile = Ledger._snapshot, deque([True])

    def interrupted(self: Ledger, population: str) -> tuple[int, object]:
        if self is ledger and meanwhile:
            meanwhile.pop()
            if theirs == "settled":
                other.settle("a1", Settlement(210, cost(210), 0.4), lambda _: b"theirs")
            else:
                other.release("a1")
        return snapshot(self, population)

    monkeypatch.setattr(Ledger, "_snapshot", interrupted)

    def change() -> bytes | None:
        if ours == "release":
            ledger.release("a1")
            return None
        return ledger.settle("a1", Settlement(210, cost(210), 0.4), lambda _: b"ours")

    if (ours, theirs) == ("settle", "settled"):
        assert change() == b"theirs"
    elif (ours, theirs) == ("release", "released"):
        assert change() is None
    else:
        with pytest.raises(RoundStateError):
            change()
    other.close()
    assert ledger.charge("a1").state.value == theirs


def test_everything_is_still_there_after_reopening(url: str, ledger: Ledger) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    ledger.settle("a1", Settlement(300, cost(300), 0.4), sign)
    before = ledger.statement("demo")
    again = Ledger.open(url, {"demo": before.budget}, lambda: 2000)
    assert again.statement("demo") == before
    again.close()


def test_the_ledger_is_readable_by_its_owner_alone(url: str, ledger: Ledger) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    folder = Path(url.removeprefix("sqlite:///")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_sqlite_runs_durable_and_in_wal_mode(ledger: Ledger) -> None:
    with ledger._engine.connect() as connection:
        pragmas = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous")
        ]
    assert pragmas == ["wal", 2]


def test_the_migrations_make_exactly_the_tables_the_code_uses(url: str) -> None:
    engine = open_database(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()


def test_a_file_that_is_no_database_is_a_ledger_error(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(LedgerError, match="not a database"):
        Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", {}, lambda: 0)


def test_a_damaged_page_is_found_at_the_start(url: str, ledger: Ledger) -> None:
    sign, _ = signer()
    for number in range(3):
        ledger.reserve(ask(f"a{number}", cost(10**6)), sign)
    ledger.close()
    path = Path(url.removeprefix("sqlite:///"))
    data = bytearray(path.read_bytes())
    page = data.index(b"certificate 1") // 4096
    data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(LedgerError, match=r"damaged|malformed"):
        Ledger.open(url, {}, lambda: 0)


def test_a_ledger_of_a_newer_version_is_not_touched(url: str, ledger: Ledger) -> None:
    ledger.close()
    with sqlite3.connect(url.removeprefix("sqlite:///")) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    with pytest.raises(LedgerError, match="another version"):
        Ledger.open(url, {}, lambda: 0)


@pytest.mark.parametrize(
    "damage",
    [
        "mechanism = '{}'",
        "delta = 'x'",
        "adjacency = 'none'",
        "users = 0, honest = 1",
        "mechanism = x'ff'",
    ],
)
def test_an_entry_that_we_cannot_have_written_is_a_ledger_error(
    url: str, ledger: Ledger, damage: str
) -> None:
    sign, _ = signer()
    ledger.reserve(ask("a1"), sign)
    raw = sqlite3.connect(url.removeprefix("sqlite:///"))
    raw.execute("PRAGMA ignore_check_constraints = ON")
    with raw:
        raw.execute(f"UPDATE charges SET {damage}")  # noqa: S608 - from the list above
    raw.close()
    with pytest.raises(LedgerError, match="restore a backup"):
        ledger.statement("demo")


@pytest.mark.parametrize("url", ["", "nonsense", "sqlite://", "mysql://host/db"])
def test_a_url_that_is_no_ledger_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError):
        Ledger.open(url, {}, lambda: 0)


def test_a_folder_that_cannot_be_made_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot open the ledger"):
        Ledger.open(f"sqlite:///{tmp_path / 'file' / 'ledger.db'}", {}, lambda: 0)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (math.inf, 1e-6), (math.nan, 0.5), (1.0, 0.0), (1.0, 1.0)]
)
def test_a_budget_outside_its_range_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(UsageError):
        Budget(epsilon, delta)


def test_a_metric_round_costs_a_standard_budget_what_the_largest_change_reveals() -> None:
    mechanism = GeoShuffle(max_value=10, epsilon_geo=Fraction(1, 2), padding=60)
    metric = Cost(mechanism, Setting(500, 500, Adjacency.METRIC, 10), 1e-7)
    per_unit = analyse(metric, 3).bounds.certified
    total = compose_costs([metric], Adjacency.STANDARD, DELTA).certified
    direct = analyse(
        Cost(mechanism, Setting(500, 500, Adjacency.STANDARD), DELTA), 3
    ).bounds.certified
    assert per_unit < total == direct


def test_a_metric_promise_for_small_distances_is_charged_for_all_of_them() -> None:
    mechanism = GeoShuffle(max_value=10, epsilon_geo=Fraction(1, 2), padding=60)
    near, far = (Cost(mechanism, Setting(500, 500, Adjacency.METRIC, d), 1e-7) for d in (1, 10))
    assert compose_costs([near], Adjacency.STANDARD, DELTA) == compose_costs(
        [far], Adjacency.STANDARD, DELTA
    )


def test_a_round_without_a_finite_cost_cannot_be_reserved(url: str) -> None:
    ledger = Ledger.open(url, {"demo": Budget(50.0, 1e-14)}, lambda: 0)
    sign, _ = signer()
    with pytest.raises(CannotCertify, match="no finite cost at the budget's delta 1e-14"):
        ledger.reserve(ask("a1"), sign)
    assert ledger.entries("demo") == []
    ledger.close()


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from([50, 100, 200]), min_size=1, max_size=4))
def test_spent_grows_with_every_round_and_does_not_depend_on_their_order(honest: list[int]) -> None:
    costs = [cost(h) for h in honest]
    total = compose_costs(costs, Adjacency.STANDARD, DELTA).certified
    assert total == compose_costs(costs[::-1], Adjacency.STANDARD, DELTA).certified
    assert total >= max(
        compose_costs([one], Adjacency.STANDARD, DELTA).certified for one in costs
    ) * (1 - 1e-6)


def test_many_rounds_of_different_sizes_are_put_together_on_the_safe_side() -> None:
    costs = [cost(130 + number) for number in range(14)]
    together = compose_costs(costs, Adjacency.STANDARD, DELTA).certified
    exact = compose_epsilon([Round(MECHANISM, c.setting) for c in costs], DELTA)
    assert exact <= together <= 1.03 * exact
