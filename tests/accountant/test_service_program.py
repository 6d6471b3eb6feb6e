"""The accountant's program: its configuration, its start, its end, and how it says no."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shuffledp_accountant.config import LEDGER_URL, AccountantConfig
from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.config import load_config
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, create_deployment
from shuffledp_sim.system.ports import Ports

NAMES = ["node-1", "node-2", ANALYST, ACCOUNTANT]
HELD = Ports(len(NAMES))
BUDGET = "[populations.demo]\nepsilon = 3.0\ndelta = 1e-6\n"


def write_config(folder: Path, extra: str = "", budget: str = BUDGET) -> Path:
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, HELD.numbers, strict=True)}
    deployment = create_deployment(folder / "keys", addresses)
    path = folder / "accountant.toml"
    path.write_text(
        f'name = "accountant"\nkeys = "keys/accountant"\nroster = "keys/roster.json"\nstate = '
        f'"state"\n'
        f'root_key = "{deployment.root_key}"\nlisten = "{addresses[ACCOUNTANT]}"\n{extra}\n{budget}'
    )
    return path


def run(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shuffledp_accountant.cli", "--config", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_the_ledger_is_in_the_state_folder_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LEDGER_URL, raising=False)
    config = load_config(write_config(tmp_path), AccountantConfig)
    assert config.ledger_url == f"sqlite:///{tmp_path / 'state' / 'ledger.db'}"
    monkeypatch.setenv(LEDGER_URL, "postgresql://db/ledger")
    assert config.ledger_url == "postgresql://db/ledger"


@pytest.mark.parametrize(
    ("extra", "budget"),
    [
        ("colour = 1", BUDGET),
        ("certificate_days = 0", BUDGET),
        ("", ""),
        ("", "[populations.demo]\nepsilon = 0\ndelta = 1e-6\n"),
        ("", "[populations.demo]\nepsilon = inf\ndelta = 1e-6\n"),
        ("", "[populations.demo]\nepsilon = 1\ndelta = 1.5\n"),
        ("", '[populations.demo]\nepsilon = 1\ndelta = 1e-6\nadjacency = "near"\n'),
        ("", "[populations.demo]\nepsilon = 1\n"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, extra: str, budget: str) -> None:
    with pytest.raises(ConfigError):
        load_config(write_config(tmp_path, extra, budget), AccountantConfig)


def test_a_missing_configuration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run(tmp_path / "nowhere.toml")
    assert done.returncode == 2
    assert done.stderr.startswith("shuffledp-accountant: cannot read the configuration")
    assert len(done.stderr.splitlines()) == 1


def test_a_damaged_ledger_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ledger.db").write_bytes(
        b"garbage, longer than a header of a database" * 10
    )
    done = run(path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_the_program_serves_until_sigterm_and_ends_well(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "shuffledp_accountant.cli",
        "--config",
        str(write_config(tmp_path)),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert '"listening"' in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert '"stopped"' in process.stderr.readline()
    assert process.returncode == 0
