"""Several real processes on one ledger, and processes that are killed with SIGKILL wherever they
happen to be."""

from __future__ import annotations

import runpy
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from shuffledp_accountant.ledger.charges import Budget, Charge, ChargeState
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.adaptive import spent_adaptively

WORKER = Path(__file__).with_name("ledger_worker.py")
DELTA = 1e-6
LIMIT = 1.5


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def start(
    url: str, mode: str, prefix: str, count: int, limit: float = LIMIT
) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), url, str(limit), mode, prefix, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(worker: subprocess.Popen[str]) -> list[list[str]]:
    output, _ = worker.communicate()
    assert worker.returncode == 0
    return [line.split() for line in output.splitlines()]


def opened(url: str, limit: float = LIMIT) -> Iterator[Ledger]:
    ledger = Ledger.open(url, {"demo": Budget(limit, DELTA)}, lambda: 2)
    yield ledger
    ledger.close()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    yield from opened(url)


def charges_of(ledger: Ledger) -> list[Charge]:
    return [ledger.charge(entry.round_id) for entry in ledger.entries("demo")]


def test_processes_that_reserve_at_once_never_overspend_waste_nothing_and_charge_each_round_once(
    url: str,
) -> None:
    # All three create the database, too: the migration runs once. Two of them ask for the same
    # rounds.
    workers = [start(url, "reserve", name, 5) for name in ("a0", "a0", "b0")]
    answers = [tuple(line) for worker in workers for line in finish(worker)]
    ledger = next(opened(url))
    statement, charges = ledger.statement("demo"), charges_of(ledger)
    ledger.close()
    stored = {("reserved", c.round_id, sha256(c.plan_certificate).hexdigest()) for c in charges}
    assert {line for line in answers if line[0] == "reserved"} == stored
    assert [c.entry for c in charges] == list(range(1, len(stored) + 1))
    assert statement.spent.certified <= LIMIT
    one_more = [c.cost for c in charges] + [charges[0].cost]
    assert spent_adaptively(one_more, Adjacency.STANDARD, LIMIT, DELTA).certified > LIMIT
    assert any(line[0] == "refused" for line in answers)


def test_a_process_killed_before_the_commit_has_charged_nothing(url: str, ledger: Ledger) -> None:
    worker = start(url, "die-before-commit", "aa", 1)
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    assert ledger.find("aa") is None
    assert ledger.statement("demo").spent.certified == 0.0


def test_a_process_killed_after_the_commit_finds_its_certificate_again(
    url: str, ledger: Ledger
) -> None:
    worker = start(url, "die-after-commit", "aa", 1)
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    stored = ledger.charge("aa").plan_certificate
    same = runpy.run_path(str(WORKER))
    assert ledger.reserve(same["reservation"]("aa"), same["certificate"]) == stored
    assert len(ledger.entries("demo")) == 1


def test_kill_nine_anywhere_in_reserve_settle_and_release_loses_nothing_and_charges_nothing_twice(
    url: str,
) -> None:
    rounds, kills, answered = 60, 2, dict[tuple[str, str], str]()
    for attempt in range(kills + 1):
        worker = start(url, "life", "c0", rounds, limit=100.0)
        assert worker.stdout is not None
        # Where the kill lands is random; whatever it hits, the claims below must hold.
        patience = secrets.randbelow(rounds) if attempt < kills else -1
        for number, line in enumerate(worker.stdout):
            what, round_id, answer = line.split()
            assert answered.setdefault((what, round_id), answer) == answer
            if number == patience:
                worker.kill()
        assert worker.wait() == (-signal.SIGKILL if attempt < kills else 0)
        worker.stdout.close()
    ledger = next(opened(url, limit=100.0))
    statement, charges = ledger.statement("demo"), charges_of(ledger)
    ledger.close()
    assert [c.round_id for c in charges] == [f"c0{n:04x}" for n in range(rounds)]
    assert [c.entry for c in charges] == list(range(1, rounds + 1))
    settled = [c for c in charges if c.state is ChargeState.SETTLED]
    assert [c.round_id for c in settled] == [f"c0{n:04x}" for n in range(0, rounds, 50)]
    assert all(c.state is ChargeState.RELEASED for c in charges if c not in settled)
    for charge in charges:
        assert answered["reserved", charge.round_id] == sha256(charge.plan_certificate).hexdigest()
    for charge in settled:
        assert charge.final_certificate is not None
        assert answered["settled", charge.round_id] == sha256(charge.final_certificate).hexdigest()
    assert statement.spent == spent_adaptively(
        [c.cost for c in settled], Adjacency.STANDARD, 100.0, DELTA
    )
