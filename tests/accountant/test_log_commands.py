"""`audit-log` and `registry` on logs that go on, that have ended, and that never end."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from log_world import LogWorld
from typer.testing import CliRunner, Result

from shuffledp_accountant.ledger_app import app
from shuffledp_accountant.log_reading import Allowance, LogLimits, WebSource
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import ConfigError, LogProofError, UnreachableError, UsageError
from shuffledp_ops.commands import app as ops_app
from shuffledp_ops.keys.renewal import renew


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with LogWorld(tmp_path) as there:
        yield there


def run(world: LogWorld, command: str, folder: Path, *options: str) -> Result:
    parties = ["--roster", str(world.deployment.roster_file)]
    parties += ["--root-key", world.deployment.root_key]
    return CliRunner().invoke(app, [command, str(folder), *parties, *options])


def end_log(world: LogWorld, checkpoint: Path) -> None:
    """As the owner of the root key does."""
    command = ["keys", "renew", str(world.deployment.folder), "--roster"]
    done = CliRunner().invoke(ops_app, [*command, "--end-log", str(checkpoint)])
    assert done.exit_code == 0, done.output
    world.reload_roster()


def test_a_log_that_has_ended_is_audited_to_its_end(world: LogWorld) -> None:
    with world.branch("ledger") as ledger:
        ledger.announce()
        shutil.copytree(ledger.folder / "log", world.folder / "part")
        ledger.announce()
        shutil.copytree(ledger.folder / "log", world.folder / "ended")
        ledger.announce()  # which the root does not know of
        end_log(world, world.folder / "ended" / "checkpoint")
        longer = ledger.folder / "log"
    ended = run(world, "audit-log", world.folder / "ended")
    assert ended.exit_code == 0, ended.output
    assert "2 entries, no contradiction" in ended.output
    assert "this log has ended" in ended.output
    for folder, words in ((world.folder / "part", "get the whole folder"), (longer, "ended at")):
        refused = run(world, "audit-log", folder)
        assert isinstance(refused.exception, LogProofError)
        assert words in str(refused.exception)
    with world.branch("restored", of="ledger", log=False) as restored:
        restored.announce()
        following = run(world, "audit-log", restored.folder / "log")
    assert "shuffledp-ledger/demo/2: 4 entries, no contradiction" in following.output
    assert "has ended" not in following.output


def test_a_log_that_is_longer_than_allowed_is_not_read(world: LogWorld) -> None:
    with world.branch("ledger") as ledger:
        ledger.announce()
        ledger.announce()
    folder = ledger.folder / "log"
    few = run(world, "audit-log", folder, "--most-entries", "1")
    assert isinstance(few.exception, ConfigError)
    assert "--most-entries" in str(few.exception)
    assert run(world, "audit-log", folder, "--most-megabytes", "1").exit_code == 0
    (folder / "tile" / "entries" / "000.p" / "2").write_bytes(bytes(1_000_001))
    much = run(world, "audit-log", folder, "--most-megabytes", "1")
    assert isinstance(much.exception, ConfigError)
    assert "--most-megabytes" in str(much.exception)


def test_an_allowance_ends_with_its_time() -> None:
    now = itertools.count(step=10.0)
    allowance = Allowance(LogLimits(seconds=60.0), lambda: next(now))
    for _ in range(5):
        allowance.spend(1)
    with pytest.raises(ConfigError, match="longer than 1 minutes"):
        allowance.spend(1)


@contextmanager
def dripping() -> Iterator[str]:
    """A web server whose answer has no end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            caller, _ = server.accept()
            with caller:
                caller.recv(4096)
                try:
                    caller.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                    while True:
                        caller.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_server_that_never_ends_is_left_when_the_time_is_over() -> None:
    with dripping() as address:
        source = WebSource(address)
        now = itertools.count(step=1.0)
        source.allowance = Allowance(LogLimits(seconds=3.0), lambda: next(now))
        with pytest.raises(ConfigError, match="--most-minutes"):
            source.fetch("checkpoint", 2**40)
    with dripping() as address, pytest.raises(LogProofError, match="longer than the 10 bytes"):
        WebSource(address).fetch("checkpoint", 10)
    with pytest.raises(UnreachableError):
        WebSource(address).fetch("checkpoint", 10)


def test_a_registry_entry_states_what_the_log_adds_up_to(world: LogWorld) -> None:
    with world.branch("ledger") as ledger:
        settled, _ = ledger.certify()
        ledger.certify()
        final = ledger.settle(settled, 300)
        budget = ledger.accountant.budget("demo")
    folder = ledger.folder / "log"
    words = ["--curator", "An institute", "--justification", "a study of the error"]
    shown = run(world, "registry", folder, *words)
    assert shown.exit_code == 0, shown.output
    entry = json.loads(shown.stdout)
    assert (entry["curator"], entry["intended_use"]) == ("An institute", None)
    (population,) = entry["populations"]
    loss = population["privacy_loss"]
    assert loss["spent_epsilon"] == pytest.approx(budget.spent.certified, rel=1e-6)
    assert (loss["budget_epsilon"], loss["delta"]) == (500.0, 1e-6)
    assert (loss["rounds_charged"], loss["rounds_settled"], loss["rounds_open"]) == (2, 1, 1)
    (mechanism,) = population["mechanisms"]
    assert mechanism["mechanism"] == "krr-histogram"
    assert mechanism["largest_epsilon"] == final.epsilon.certified
    assert mechanism["largest_epsilon_if_all_nodes_are_corrupt"] == final.corrupted.epsilon
    assert mechanism["reports"] == [300, 300]
    assert population["model"]["nodes"] == ["node-1", "node-2", "node-3"]
    assert entry["evidence"]["entries"] == 3
    assert entry["evidence"]["witnesses"] == ["witness-1", "witness-2"]
    assert "value" not in to_json(entry).decode()


def test_a_log_that_no_device_asks_for_is_not_ended(world: LogWorld) -> None:
    with world.branch("ledger") as ledger:
        ledger.announce()
    world.change_roster(log=msgspec.UNSET)
    with pytest.raises(UsageError, match="leave out --end-log"):
        renew(
            world.deployment.folder,
            new_roster=True,
            end_log=world.folder / "ledger" / "log" / "checkpoint",
        )
