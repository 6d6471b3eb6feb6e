"""`shuffledp deploy`: what is made fits together, and processes are found again, or let alone.

The rest: the page.
"""

from __future__ import annotations

import math
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from commands import Shell

from shuffledp_accountant.config import AccountantConfig
from shuffledp_analyst.config import AnalystConfig
from shuffledp_client.config import ClientConfig, load_member
from shuffledp_client.policy import Policy
from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.keys import load_party, load_roster
from shuffledp_ops.keys.enrolment import SETTINGS
from shuffledp_shuffler.config import NodeConfig
from shuffledp_sim.deploy import running
from shuffledp_sim.deploy.detached import DetachedProcess
from shuffledp_sim.deploy.making import BUDGET, DELTA, EPSILON, free_ports, make

ENDLESS = (sys.executable, "-c", "import signal; signal.pause()")


def until(reached: Callable[[], bool]) -> None:
    """The test's own time limit ends a wait in vain."""
    while not reached():
        time.sleep(0.02)


def test_what_is_made_is_what_the_programs_read_and_every_port_is_another(tmp_path: Path) -> None:
    deployment = make(tmp_path / "lab", devices=5, nodes=3)
    nodes = [
        load_config(tmp_path / "lab" / f"node-{number}.toml", NodeConfig) for number in (1, 2, 3)
    ]
    analyst = load_config(tmp_path / "lab" / "analyst.toml", AnalystConfig)
    accountant = load_config(tmp_path / "lab" / "accountant.toml", AccountantConfig)
    services = [*nodes, analyst, accountant]
    assert analyst.broker is not None
    addresses = [one.listen for one in services] + [str(one.metrics) for one in services]
    assert len({*addresses, f"127.0.0.1:{analyst.broker.port}"}) == 11
    assert {party.address for party in deployment.roster.parties} == {
        one.listen for one in services
    }
    for one in services:
        roster = load_roster(one.roster, one.root_key)
        load_party(roster, roster.party(one.name).role, one.name, one.keys)
    assert 2 * EPSILON <= accountant.populations["demo"].epsilon == BUDGET < 3 * EPSILON
    for number in range(1, 6):
        device = load_config(tmp_path / "lab" / f"device-{number}.toml", ClientConfig)
        assert device.broker == analyst.broker
        assert (device.policy.epsilon, device.policy.delta) == (EPSILON, DELTA)
        load_member(device.keys, load_roster(device.roster, device.root_key))


def test_devices_that_are_made_and_those_enrolled_have_one_default(tmp_path: Path) -> None:
    """Of what depends on the mechanism: `shuffledp demo`'s own leaves nothing at corrupt nodes."""
    make(tmp_path / "lab", devices=1, nodes=3)
    made = load_config(tmp_path / "lab" / "device-1.toml", ClientConfig).policy
    enrolled = msgspec.convert(tomllib.loads(SETTINGS)["policy"], Policy)
    for policy in (made, enrolled):
        assert (policy.messages, policy.epsilon_corrupted) == (100_000, math.inf)


def test_a_gateway_on_request_serves_a_page_to_a_browser_on_this_machine(
    tmp_path: Path, shuffledp: Shell
) -> None:
    code, said, errors = shuffledp("deploy", "init", "lab", "--gateway", "--nodes", "2")
    assert code == 0, errors
    (page,) = re.findall(r"http://127\.0\.0\.1:\d+/v1/web/example\.html", said)
    assert "--max-reports 6 --suite hpke-mlkem768-x25519" in said
    code, codes, errors = shuffledp("keys", "codes", "lab/keys")
    assert (code, len(codes.split())) == (0, 1), errors
    try:
        assert "gateway" in running.start_all(tmp_path / "lab")
        with urllib.request.urlopen(page, timeout=240) as answer:  # noqa: S310 - ours
            text = answer.read().decode()
        assert "How many cups of coffee" in text
        assert [one.health for one in running.look(tmp_path / "lab")] == ["healthy"] * 6
    finally:
        assert "gateway" in running.stop_all(tmp_path / "lab")


def test_a_deployment_is_never_overwritten(tmp_path: Path, shuffledp: Shell) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "thesis.tex").touch()
    code, _, errors = shuffledp("deploy", "init", "lab")
    assert (code, errors.count("\n")) == (2, 1)
    assert "not empty" in errors
    code, _, errors = shuffledp("deploy", "start", "elsewhere")
    assert (code, errors.count("\n")) == (2, 1)
    assert "`shuffledp deploy init" in errors


def test_free_ports_are_free() -> None:
    for port in free_ports(3):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_what_is_not_started_is_stopped_and_stop_has_nothing_to_do(
    tmp_path: Path, shuffledp: Shell
) -> None:
    make(tmp_path / "lab", devices=1, nodes=2)
    code, said, _ = shuffledp("deploy", "status", "lab")
    assert (code, said.count("stopped")) == (1, 5)
    code, said, _ = shuffledp("deploy", "stop", "lab")
    assert (code, said) == (0, "nothing of it runs\n")


def test_a_party_that_does_not_start_is_named_and_the_others_are_stopped_again(
    tmp_path: Path,
) -> None:
    make(tmp_path / "lab", devices=1, nodes=2)
    file = tmp_path / "lab" / "node-1.toml"
    file.write_text(file.read_text().replace("keys/node-1", "keys/node-2"))
    with pytest.raises(ConfigError, match="node-1 did not start"):
        running.start_all(tmp_path / "lab")
    assert running.stop_all(tmp_path / "lab") == []


def test_a_process_outlives_the_terminal_and_whoever_started_it(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, signal; from shuffledp_sim.deploy.detached import DetachedProcess;"
        # a caller such as nohup may have had it ignored
        f"signal.signal(signal.SIGHUP, signal.SIG_DFL);DetachedProcess('one', {ENDLESS!r}, "
        f"pathlib.Path({str(tmp_path)!r})).start();signal.pause()"
    )
    starter, terminal = pty.fork()
    if starter == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])  # noqa: S606 - no shell is wanted
    one = DetachedProcess("one", ENDLESS, tmp_path)
    until(lambda: one.running and (tmp_path / "run" / "one.pid").read_text() != "")
    os.close(terminal)  # hangs up
    assert os.waitstatus_to_exitcode(os.waitpid(starter, 0)[1]) == -signal.SIGHUP
    assert one.running
    one.start()  # again: it runs, nothing happens
    one.ask_to_stop()
    one.clear()
    assert not one.running


def test_the_children_of_a_process_that_was_killed_end_with_stop(tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = (
        "import os, pathlib, signal, subprocess, sys\n"
        f"inner = subprocess.Popen({list(ENDLESS)!r})\n"
        f"pathlib.Path({str(child)!r}).write_text(str(inner.pid))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    one = DetachedProcess("one", (sys.executable, "-c", code), tmp_path)
    one.start()
    until(lambda: not one.running)
    os.waitpid(int((tmp_path / "run" / "one.pid").read_text()), 0)
    number = int(child.read_text())
    os.kill(number, 0)  # it lives
    one.clear()
    until(
        lambda: (
            not Path(f"/proc/{number}/cmdline").exists()
            or not Path(f"/proc/{number}/cmdline").read_bytes()
        )
    )


def test_a_number_that_belongs_to_somebody_else_by_now_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(ENDLESS, start_new_session=True) as stranger:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "one.pid").write_text(str(stranger.pid))
        one = DetachedProcess("one", ENDLESS, tmp_path)
        assert not one.running
        one.ask_to_stop()
        one.clear()
        assert stranger.poll() is None
        stranger.kill()
