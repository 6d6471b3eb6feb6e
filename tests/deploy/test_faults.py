"""What a deployment does when machines and lines fail: a right answer or a clear failure, soon, and
the next one works.

One composed system, with PostgreSQL, for the whole file; see `faulty` for the faults and for how
patient the parties are. Every test is followed by a whole round without help. Each names the
handling without which it fails."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest
from composed import until
from faulty import (
    CALL_SECONDS,
    HASTY_RELAY_SECONDS,
    LONG_RECORD_BYTES,
    RECOVERY_SECONDS,
    SLOW_BITS_PER_SECOND,
    Driver,
    FaultySystem,
    clocks_can_be_set,
    lines_can_be_slowed,
)

pytestmark = pytest.mark.docker

HOUR = 3600


@pytest.fixture(scope="module")
def driver(faulty: FaultySystem) -> Iterator[Driver]:
    """Operator and users."""
    driver = Driver(faulty)
    until(driver.opens, "the first round can be opened")
    driver.ask("abort")
    yield driver
    driver.close()


@pytest.fixture
def system(faulty: FaultySystem, driver: Driver) -> Iterator[FaultySystem]:
    """The system.

    When the test is over and its fault removed, a round must work without anybody's help.
    """
    yield faulty
    until(driver.opens, "a round can be opened again")
    driver.submit(20)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_an_entry_node_that_dies_keeps_every_submission_that_it_acknowledged(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the spool on disk, and `MixNode.recover`.

    20 receipts before the death, 20 after it.
    """
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


def test_a_node_that_is_gone_ends_the_round_with_its_name(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the bound in `Peers.watch`; nobody else asks node-3 before the close.

    Then `Discarding.persist`.
    """
    round_id = driver.open(users=40)
    driver.submit(20)
    with system.down("node-3"):
        failed = driver.ask("finish")
    assert failed["error"] == "UnreachableError"
    assert f"node-3 has been unreachable for more than {RECOVERY_SECONDS}" in failed["reason"]
    until(lambda: system.charges(round_id) == ["released"], "the charge is released")


def test_a_frozen_node_ends_the_round_with_its_name(system: FaultySystem, driver: Driver) -> None:
    """Handling: the relay's bound on connecting, for a machine that takes connections and says
    nothing."""
    driver.open()
    with system.paused("node-3"):
        driver.submit(20)
        failed = driver.ask("finish")
    assert failed["error"] == "UnreachableError"
    assert (
        f"node-2: node-3 did not accept the batch within {HASTY_RELAY_SECONDS} s"
        in failed["reason"]
    )


def test_a_node_cut_off_from_its_successor_alone_goes_on_when_the_line_is_back(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the relay's retries. The line is mended after an attempt was given up."""
    round_id, began = driver.open(), time.time()
    with system.cut_off("node-1", "hop-1-2"):
        driver.submit(20)
        system.until_logged(
            system.container("node-1"),
            f"next hop did not take the batch|{round_id}.*round failed",
            began,
        )
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_a_node_cut_off_from_the_analyst_alone_ends_the_round_with_its_name(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the bounds on the headers in `RunningRound` and in `Peers.watch`, whichever is
    reached first.

    The batch arrives, the node's word on it does not. tests/analyst/test_rounds.py has either bound
    alone."""
    driver.open()
    with system.cut_off("node-2", "control-2"):
        driver.submit(20)
        failed = driver.ask("finish")
    assert failed["error"] == "UnreachableError"
    assert "node-2" in failed["reason"]


@pytest.mark.skipif(
    not lines_can_be_slowed(), reason="traffic is shaped by root, with tc and nsenter"
)
def test_a_slow_line_changes_nothing_but_the_time(system: FaultySystem, driver: Driver) -> None:
    """Handling: no deadline depends on how fast a line is: not the relay's patience, nor that of a
    call.

    What node-2 sends takes twice its relay's patience, by its length alone.
    """
    messages = 96
    driver.open(messages=messages)
    with system.slow("node-2"):
        began = time.monotonic()
        driver.submit(20)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}
        took = time.monotonic() - began
    shortest = 20 * messages * LONG_RECORD_BYTES * 8 / SLOW_BITS_PER_SECOND
    assert took > shortest * 0.9 > max(HASTY_RELAY_SECONDS, CALL_SECONDS)


def test_a_round_needs_no_broker_and_its_result_is_announced_when_it_is_back(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: users ask the analyst (`find_round`), and `Announcer` keeps what it could not
    deliver."""
    with system.down("mosquitto"):
        round_id = driver.open()
        driver.submit(20)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}
    assert round_id in system.retained(round_id, "result")


def test_an_analyst_that_dies_goes_on_with_its_round_when_it_is_back(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `Coordinator.run` takes up what its records say is not finished."""
    round_id = driver.open()
    driver.submit(19)
    with system.down("analyst"):
        pass
    driver.submit(1)
    assert driver.ask("finish", patiently=True) == {"accepted": 20, "verified": 20}
    assert system.charges(round_id) == ["settled"]


def test_an_analyst_that_is_frozen_while_users_submit_goes_on_with_all_of_them(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: nobody needs the analyst to submit; `Peers.watch` hears the last count."""
    driver.open()
    with system.paused("analyst"):
        driver.submit(20)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_an_analyst_that_is_frozen_when_the_batch_is_due_gets_it_when_it_goes_on(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the last node's relay, which waits for a connection and asks again.

    The batch waits at node-1 first.
    """
    round_id, began = driver.open(), time.time()
    with ExitStack() as until_node_3_has_it:
        with system.cut_off("node-1", "hop-1-2"):
            driver.submit(20)
            driver.ask("reach", stage="relaying", node="node-1")
            until_node_3_has_it.enter_context(system.paused("analyst"))
        system.until_logged(
            system.container("node-2"), f"{round_id}.*round (relayed|failed)", began
        )
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_an_accountant_that_dies_settles_when_it_is_back(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `Peers.persistently`. The accountant is back after it was asked in vain."""
    round_id, began = driver.open(), time.time()
    with system.down("accountant"):
        driver.submit(20)
        again = "accountant does not answer.*retrying"
        system.until_logged(system.container("analyst"), f"{again}|{round_id}.*round failed", began)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}
    assert system.charges(round_id) == ["settled"]


def database_fault(system: FaultySystem, fault: str) -> AbstractContextManager[None]:
    """The ledger's database stopped, or on the other side of a cut line, or frozen."""
    return {
        "stopped": lambda: system.down("ledger"),
        "cut off": lambda: system.cut_off("ledger", "ledger"),
        "frozen": lambda: system.paused("ledger"),
    }[fault]()


AWAY = "accountant: the ledger's database does not answer"


@pytest.mark.parametrize("fault", ["stopped", "cut off", "frozen"])
def test_without_its_database_a_round_is_refused_by_name_and_nothing_is_charged(
    system: FaultySystem, driver: Driver, fault: str
) -> None:
    """Handling: `LedgerAwayError`.

    Behind a cut line libpq's `tcp_user_timeout`, on ice `connect_with_patience`.
    """
    before = system.reserved()
    with database_fault(system, fault):
        error, reason = driver.refused()
    assert error == "LedgerAwayError"
    assert reason.startswith(AWAY)
    assert system.reserved() <= before


@pytest.mark.parametrize("fault", ["stopped", "cut off", "frozen"])
def test_a_database_that_is_away_while_the_round_settles_counts_it_once(
    system: FaultySystem, driver: Driver, fault: str
) -> None:
    """Handling: `LedgerAwayError` is an `UnreachableError`; the analyst asks again."""
    round_id, began = driver.open(), time.time()
    with database_fault(system, fault):
        driver.submit(20)
        again = f"{re.escape(AWAY)}.*retrying"
        system.until_logged(system.container("analyst"), f"{again}|{round_id}.*round failed", began)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}
    assert system.charges(round_id) == ["settled"]


def test_a_database_that_is_away_when_a_round_is_given_up_gives_the_budget_back_later(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `Discarding` postpones a release that the ledger could not store, or that nobody
    answered in time."""
    round_id = driver.open()
    driver.submit(5)
    with system.down("ledger"):
        driver.ask("abort")
        assert "aborted by the operator" in driver.ask("finish")["reason"]
    until(lambda: system.charges(round_id) == ["released"], "the charge is released")


def test_a_database_that_was_restarted_between_two_rounds_is_not_noticed(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `pool_pre_ping`; the accountant's old connection is dead."""
    with system.down("ledger"):
        pass
    system.until_database_answers()
    driver.open()
    driver.submit(20)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_a_full_disk_refuses_submissions_and_loses_none(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the spool rolls back, says so and goes on.

    What it acknowledged stays, and what it did not is gone.
    """
    driver.open(users=40)
    driver.submit(20)
    with system.full_disk("node-1"):
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
    with system.full_disk("node-1"):
        driver.ask("end")
        failed = driver.ask("finish")
    assert failed["error"] == "DiskError"
    assert "node-1: the disk of this node failed (No space left on device)" in failed["reason"]


def test_a_round_that_is_given_up_frees_a_full_disk_by_itself(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `RoundFolder.make_room`.

    There is no room for the discard but what the round itself holds.
    """
    round_id = driver.open(users=40)
    driver.submit(20)
    with system.full_disk("node-1"):
        driver.ask("abort")
        driver.ask("finish")
        until(lambda: system.charges(round_id) == ["released"], "the charge is released")
        assert system.free_bytes("node-1") > 0


@pytest.mark.parametrize("node", ["node-2", "node-3"])
def test_a_full_disk_at_a_later_node_opens_no_round(
    system: FaultySystem, driver: Driver, node: str
) -> None:
    """Handling: `_disk_faults`, and that a round folder is made whole or not at all."""
    before = system.reserved()
    with system.full_disk(node):
        error, reason = driver.refused()
    assert error == "DiskError"
    assert reason.startswith(f"{node}: the disk of this node failed (No space left on device)")
    until(lambda: system.reserved() <= before, "the charge is released")


def test_a_later_node_whose_disk_is_full_takes_the_batch_once_there_is_room(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the upload is erased, the refusal typed.

    The predecessor's relay comes again after it.
    """
    round_id, began = driver.open(), time.time()
    with system.full_disk("node-2"):
        driver.submit(20)
        again = "No space left on device.*next hop did not take the batch"
        system.until_logged(system.container("node-1"), f"{again}|{round_id}.*round failed", began)
    assert driver.ask("finish") == {"accepted": 20, "verified": 20}


def test_a_later_node_whose_disk_stays_full_ends_the_round_with_its_name_and_frees_the_disk(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: the relay's patience, the cause in what it says, and `RoundFolder.make_room`."""
    round_id = driver.open()
    with system.full_disk("node-3"):
        driver.submit(20)
        failed = driver.ask("finish")
        assert failed["error"] == "UnreachableError"
        assert (
            f"node-2: node-3 did not accept the batch within {HASTY_RELAY_SECONDS} s"
            in failed["reason"]
        )
        assert "the disk of this node failed (No space left on device)" in failed["reason"]
        until(lambda: system.free_bytes("node-3") > 0, "the failed round makes room")
    assert system.charges(round_id) == ["reserved"]  # node-1 had forwarded: it stays charged


CLOCKS = pytest.mark.skipif(not clocks_can_be_set(), reason="libfaketime is not installed")
AHEAD_OR_BEHIND = pytest.mark.parametrize("seconds", [HOUR, -HOUR], ids=["ahead", "behind"])


@CLOCKS
@AHEAD_OR_BEHIND
@pytest.mark.parametrize("service", ["node-1", "analyst", "accountant"])
def test_a_party_whose_clock_is_wrong_opens_no_round_and_says_why(
    system: FaultySystem, driver: Driver, service: str, seconds: int
) -> None:
    """Handling: `check_certificate` and `check_times` at every node: a round is certified and
    opened now."""
    with system.clock_off(service, seconds):
        error, reason = driver.refused()
    assert error == "ExpiredDocumentError"
    assert reason.startswith("node-1: the certificate" if service == "node-1" else "node-")
    assert "clocks" in reason


@CLOCKS
@AHEAD_OR_BEHIND
def test_an_entry_node_whose_clock_jumps_in_an_open_round_refuses_until_it_is_set_and_loses_nobody(
    system: FaultySystem, driver: Driver, seconds: int
) -> None:
    """Handling: `Terms.require_open` refuses by the hour and changes nothing: 20 before the jump,
    20 after it."""
    driver.open(users=40)
    driver.submit(20)
    with system.clock_off("node-1", seconds):
        refused = driver.ask("submit", users=10, refused=True)
    assert refused == {"receipts": 0, "refused": {"SubmissionClosedError": 10}}
    driver.submit(20)
    assert driver.ask("finish") == {"accepted": 40, "verified": 40}


@CLOCKS
def test_an_analyst_whose_clock_jumps_ahead_in_an_open_round_does_not_close_it(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: `RunningRound` looks at the hour once, when it opens.

    From then on it counts seconds.
    """
    driver.open()
    driver.submit(10)
    with system.clock_off("analyst", HOUR):
        driver.submit(10)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}


@CLOCKS
def test_an_analyst_whose_clock_falls_back_in_an_open_round_closes_it_in_time(
    system: FaultySystem, driver: Driver
) -> None:
    """Handling: as above. The round does not fill, so that it is the closing time that ends it."""
    driver.open(users=40, seconds=15)
    with system.clock_off("analyst", -HOUR):
        driver.submit(20)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}


@CLOCKS
@AHEAD_OR_BEHIND
def test_an_accountants_clock_may_jump_while_a_round_is_open(
    system: FaultySystem, driver: Driver, seconds: int
) -> None:
    """Handling: nothing.

    Only the plan's certificate has an hour that anybody looks at, when the round is opened.
    """
    driver.open()
    with system.clock_off("accountant", seconds):
        driver.submit(20)
        assert driver.ask("finish") == {"accepted": 20, "verified": 20}
