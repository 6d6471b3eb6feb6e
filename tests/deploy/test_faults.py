"""What a deployment does when machines and lines fail: a right answer or a clear failure, soon, and the next one works.

One composed system, with PostgreSQL, for the whole file; see `faulty` for the faults and for how patient the parties
are. Every test is followed by a whole round without help. Each names the handling without which it fails.
"""

from collections.abc import Iterator

import pytest
from composed import until
from faulty import RECOVERY_SECONDS, Driver, FaultySystem, clocks_can_be_set, lines_can_be_slowed

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

HOUR = 3600


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultySystem]:
    """The system, as it was started."""
    system = FaultySystem("spfaults", {"OVERLAYS": "postgres"}, tmp_path_factory.mktemp("faults"))
    system.remove()
    try:
        system.start()
        yield system
    finally:
        system.remove()


@pytest.fixture(scope="module")
def driver(running: FaultySystem) -> Iterator[Driver]:
    """Operator and users."""
    driver = Driver(running)
    yield driver
    driver.close()


@pytest.fixture
def system(running: FaultySystem, driver: Driver) -> Iterator[FaultySystem]:
    """The system; when the test is over and its fault removed, a round must work without anybody's help."""
    yield running
    until(driver.opens, "a round can be opened again")
    driver.submit(20)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_an_entry_node_that_dies_keeps_every_submission_that_it_acknowledged(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the spool on disk, and `MixNode.recover`. 20 receipts before the death, 20 after it."""
    driver.open(users=40)
    driver.submit(20)
    with system.down("node-1"):
        driver.tell("submit", users=20)
    assert driver.hear() == {"receipts": 20, "refused": {}}
    assert driver.ask("finish") == {"accepted": 40, "verified": 40}


def test_a_node_in_the_middle_that_dies_while_a_batch_is_due_gets_it_when_it_is_back(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `MixNode.recover`, and `Peers.watch` across restarts."""
    driver.open()
    with system.down("node-2"):
        driver.submit(20)
        driver.ask("reach", stage="relaying", node="node-1")
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_a_node_that_is_gone_ends_the_round_with_its_name(system: FaultySystem, driver: Driver) -> None:
    """Handling: the bound in `Peers.watch`; nobody else asks node-3 before the close. Then `Discarding.persist`."""
    round_id = driver.open(users=40)
    driver.submit(20)
    with system.down("node-3"):
        failed = driver.ask("finish")
    assert failed["error"] == "UnreachableError"
    assert f"node-3 has been away for more than {RECOVERY_SECONDS}" in failed["reason"]
    until(lambda: system.charges(round_id) == ["released"], "the charge is released")


def test_a_frozen_node_ends_the_round_with_its_name(system: FaultySystem, driver: Driver) -> None:
    """Handling: the relay's bound on connecting, for a machine that takes connections and says nothing."""
    driver.open()
    with system.paused("node-2"):
        driver.submit(20)
        failed = driver.ask("finish")
    assert failed["error"] == "UnreachableError"
    assert "node-1: node-2 did not take the batch" in failed["reason"]


def test_a_node_cut_off_from_its_successor_alone_goes_on_when_the_line_is_back(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the relay's retries. The line is mended after an attempt was given up."""
    round_id = driver.open()
    with system.cut_off("node-2", "hop-2-3"):
        driver.submit(20)
        system.until_logged(system.container("node-2"), f"node-3.*next hop away|{round_id}.*round failed")
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_a_node_cut_off_from_the_analyst_alone_ends_the_round_with_its_name(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the bound on the headers in `RunningRound`. The batch arrives, the node's word on it does not."""
    driver.open()
    with system.cut_off("node-2", "control-2"):
        driver.submit(20)
        failed = driver.ask("finish")
    assert failed["error"] == "UnreachableError"
    assert "node-2" in failed["reason"]


@pytest.mark.skipif(not lines_can_be_slowed(), reason="traffic is shaped by root, with tc and nsenter")
def test_a_slow_line_changes_nothing_but_the_time(system: FaultySystem, driver: Driver) -> None:
    """Handling: no deadline here depends on how fast a line is; each is above what 100 kbit/s need."""
    driver.open()
    with system.slow("node-2", "100kbit"):
        driver.submit(20)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_a_round_needs_no_broker_and_its_result_is_announced_when_it_is_back(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: users ask the analyst (`find_round`), and `Announcer` keeps what it could not deliver."""
    with system.down("mosquitto"):
        round_id = driver.open()
        driver.submit(20)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}
    assert round_id in system.retained(round_id, "result")


def test_an_analyst_that_dies_ends_its_round_when_it_is_back(system: FaultySystem, driver: Driver) -> None:
    """Handling: `Coordinator.run` takes up what its records say is not finished; the budget comes back."""
    round_id = driver.open()
    driver.submit(19)
    with system.down("analyst"):
        pass
    failed = driver.ask("finish", patiently=True)
    assert failed["error"] == "RoundFailed"
    assert "analyst was restarted" in failed["reason"]
    until(lambda: system.charges(round_id) == ["released"], "the charge is released")


def test_an_accountant_that_dies_settles_when_it_is_back(system: FaultySystem, driver: Driver) -> None:
    """Handling: `Peers.persistently`."""
    round_id = driver.open()
    with system.down("accountant"):
        driver.submit(20)
        driver.ask("reach", stage="certifying", node="")
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}
    assert system.charges(round_id) == ["settled"]


def test_without_its_database_a_round_is_refused_by_name_and_nothing_is_charged(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `LedgerAwayError`."""
    with system.down("ledger"):
        refused = driver.ask("open", users=20, seconds=300)
    assert refused["error"] == "LedgerAwayError"
    assert refused["reason"].startswith("accountant: the ledger's database does not answer")


def test_a_database_that_is_away_while_the_round_settles_counts_it_once(system: FaultySystem, driver: Driver) -> None:
    """Handling: `LedgerAwayError` is an `UnreachableError`, after which the analyst asks again."""
    round_id = driver.open()
    with system.down("ledger"):
        driver.submit(20)
        again = "ledger's database does not answer.*asking again"
        system.until_logged(system.container("analyst"), f"{again}|{round_id}.*round failed")
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}
    assert system.charges(round_id) == ["settled"]


def test_a_database_that_is_away_when_a_round_is_given_up_gives_the_budget_back_later(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `Discarding` postpones a release that nobody answered in time, or with `LedgerAwayError`."""
    round_id = driver.open()
    driver.submit(5)
    with system.down("ledger"):
        driver.ask("abort")
        assert "given up by the operator" in driver.ask("finish")["reason"]
    until(lambda: system.charges(round_id) == ["released"], "the charge is released")


def test_a_database_that_was_restarted_between_two_rounds_is_not_noticed(system: FaultySystem, driver: Driver) -> None:
    """Handling: `pool_pre_ping`; the accountant's old connection is dead."""
    with system.down("ledger"):
        pass
    system.until_database_answers()
    driver.open()
    driver.submit(20)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_a_full_disk_refuses_submissions_and_loses_none(system: FaultySystem, driver: Driver) -> None:
    """Handling: the spool rolls back, says so and goes on; what it acknowledged stays, and what it did not is gone."""
    driver.open(users=40)
    driver.submit(20)
    with system.full_disk():
        refused = driver.ask("submit", users=10, refused=True)
    assert refused == {"receipts": 0, "refused": {"NodeFault": 10}}
    driver.submit(20)
    assert driver.ask("finish") == {"accepted": 40, "verified": 40}


def test_a_disk_that_is_full_at_the_close_ends_the_round_with_the_nodes_name(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `_disk_faults`, and the name that `Peers` gives to every error."""
    driver.open(users=40)
    driver.submit(20)
    with system.full_disk():
        driver.ask("end")
        failed = driver.ask("finish")
    assert failed["error"] == "NodeFault"
    assert "node-1: the disk of this node failed (No space left on device)" in failed["reason"]


def test_a_round_that_is_given_up_frees_a_full_disk_by_itself(system: FaultySystem, driver: Driver) -> None:
    """Handling: `RoundFolder.make_room`; there is no room for the discard but what the round itself holds."""
    round_id = driver.open(users=40)
    driver.submit(20)
    with system.full_disk():
        driver.ask("abort")
        driver.ask("finish")
        until(lambda: system.charges(round_id) == ["released"], "the charge is released")
        assert system.free_bytes() > 0


CLOCKS = pytest.mark.skipif(not clocks_can_be_set(), reason="libfaketime is not installed")


@CLOCKS
@pytest.mark.parametrize("seconds", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_a_node_whose_clock_is_wrong_refuses_the_round_and_says_why(
    system: FaultySystem, driver: Driver, seconds: int
) -> None:
    """Handling: `check_times`; without it the round opens and every submission is refused until it has failed."""
    with system.clock_off("node-1", seconds):
        refused = driver.ask("open", users=20, seconds=300)
    assert refused["error"] == "ExpiredDocumentError"
    assert refused["reason"].startswith("node-1: the round")
    assert "clocks" in refused["reason"]


@CLOCKS
@pytest.mark.parametrize("seconds", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_an_analyst_whose_clock_is_wrong_opens_no_round(system: FaultySystem, driver: Driver, seconds: int) -> None:
    """Handling: `check_times` at every node."""
    with system.clock_off("analyst", seconds):
        refused = driver.ask("open", users=20, seconds=300)
    assert refused["error"] == "ExpiredDocumentError"
    assert "clocks" in refused["reason"]


@CLOCKS
@pytest.mark.parametrize("seconds", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_an_accountants_clock_may_be_an_hour_off(system: FaultySystem, driver: Driver, seconds: int) -> None:
    """Handling: a certificate's life is far longer than that, and begins with nothing."""
    with system.clock_off("accountant", seconds):
        driver.open()
        driver.submit(20)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}
