"""The device's command line: submits, verifies, writes evidence."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from client_rounds import ROUND_ID, Draft
from simulated_round import SimulatedRound, without
from test_device import QUICK, write_config

from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_client.outcomes import parse_whole
from shuffledp_core.documents.models import Manifest
from shuffledp_core.documents.signed import from_json
from shuffledp_core.documents.wording import QuestionAxis, QuestionWording, SymbolScale
from shuffledp_core.errors import UsageError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.config import load_config
from shuffledp_ops.keys.pki import Deployment


@pytest.fixture
def config(tmp_path: Path, deployment: Deployment) -> Path:
    return write_config(tmp_path / "user", deployment)


def run_cli(*arguments: str, entered: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shuffledp_client.cli", *arguments],
        input=entered,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_command_line_submits_from_standard_input_and_verifies(
    tmp_path: Path, deployment: Deployment, config: Path
) -> None:
    now = system_clock()
    draft = Draft(
        deployment,
        certificate={"expires_at": now + 3_600_000},
        manifest={"opens_at": now - 1000, "closes_at": now + 600_000},
    )

    async def both() -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
        simulated = SimulatedRound(draft, tmp_path)
        async with simulated:
            submitted = await asyncio.to_thread(
                run_cli, "submit", "--config", str(config), "--value", "-", entered="3\n"
            )
            simulated.end()
            return submitted, await asyncio.to_thread(
                run_cli, "verify", "--config", str(config), "--wait"
            )

    submitted, verified = asyncio.run(both())
    assert (submitted.returncode, submitted.stderr) == (0, "")
    assert (
        submitted.stdout == f"Submitted 10 messages to round {ROUND_ID}; receipt of node-1 kept.\n"
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "unchanged" in verified.stdout
    assert "1 reports; certified ε = 0.5, δ = 1e-06" in verified.stdout


def test_the_command_line_shows_the_question_and_takes_an_answer_in_its_words(
    tmp_path: Path, deployment: Deployment, config: Path
) -> None:
    now = system_clock()
    scale = SymbolScale(start="18.5", step="0.5", size=5)
    axis = QuestionAxis(field="warmth", unit="°C", symbols=scale)
    wording = QuestionWording(id="warmth", text="How warm is your room?", axes=(axis,))
    draft = Draft(
        deployment,
        certificate={"expires_at": now + 3_600_000, "wording": wording},
        manifest={"opens_at": now - 1000, "closes_at": now + 600_000},
    )

    async def ask() -> list[subprocess.CompletedProcess[str]]:
        async with SimulatedRound(draft, tmp_path):
            named = ("--config", str(config))
            return [
                await asyncio.to_thread(run_cli, command, *named, *more, entered=entered)
                for command, more, entered in (
                    ("question", (), ""),
                    ("submit", ("--value", "18.5 °C"), ""),
                    ("submit", ("--value", "30"), ""),
                    ("submit", (), "19.2\n"),
                    ("submit", (), ""),
                )
            ]

    shown, unreadable, outside, submitted, again = asyncio.run(ask())
    assert shown.stdout.startswith("Question warmth: How warm is your room?\n")
    assert "warmth, in °C: 18.5 to 20.5" in shown.stdout
    assert "Guarantee: ε = 0.5, δ = 1e-06, while one of these 3 nodes is honest" in shown.stdout
    for refused, words in ((unreadable, "a number such as 12.5"), (outside, "18.5 to 20.5")):
        assert refused.returncode == 2
        assert words in refused.stderr
        assert "30" not in refused.stderr
    assert "Submitted 10 messages" in submitted.stdout
    assert again.stdout.startswith("Question warmth")
    assert "An earlier submission to this round was kept and sent" in again.stdout


def test_the_command_line_writes_evidence_and_anybody_checks_it(
    tmp_path: Path, deployment: Deployment, config: Path
) -> None:
    now = system_clock()
    draft = Draft(
        deployment,
        certificate={"expires_at": now + 3_600_000},
        manifest={"opens_at": now - 1000, "closes_at": now + 600_000},
    )
    out = tmp_path / "shown"

    async def play() -> list[subprocess.CompletedProcess[str]]:
        simulated, export = (
            SimulatedRound(draft, tmp_path),
            ("evidence", "--config", str(config), "--out", str(out)),
        )
        async with simulated:
            await DeviceSteps(load_config(config, ClientConfig), QUICK).submit(3)
            simulated.end()
            nothing = await asyncio.to_thread(run_cli, *export, "--yes")
            simulated.end(without(4))
            declined = await asyncio.to_thread(run_cli, *export, entered="n\n")
            assert not out.exists()
            return [nothing, declined, await asyncio.to_thread(run_cli, *export, entered="y\n")]

    nothing, declined, written = asyncio.run(play())
    assert (nothing.returncode, "nothing proves that this user was cheated" in nothing.stderr) == (
        1,
        True,
    )
    assert (declined.returncode, "learns your randomised report" in declined.stderr) == (1, True)
    assert (written.returncode, "learns your randomised report" in written.stderr) == (0, True)
    assert {path.name: path.stat().st_mode & 0o777 for path in out.iterdir()} == {
        "evidence.json": 0o600,
        "board.bin": 0o600,
    }
    check = (
        "check-evidence",
        str(out),
        "--roster",
        str(deployment.roster_file),
        "--root-key",
        deployment.root_key,
    )
    held = run_cli(*check)
    assert (held.returncode, held.stderr) == (0, "")
    assert held.stdout.startswith("It holds. 4 of 10 messages")
    assert "node-1, node-2, node-3." in held.stdout
    (out / "board.bin").write_bytes(b"")
    torn = run_cli(*check)
    assert (torn.returncode, torn.stderr.count("\n")) == (1, 1)
    with (out / "board.bin").open("r+b") as file:
        file.truncate(2**42)  # a hole, which takes no disk; read as it is, it would take all memory
    endless = run_cli(*check)
    assert (endless.returncode, endless.stderr.count("\n")) == (2, 1)
    manifest = from_json(draft.announcement().manifest.body, Manifest)
    assert f"more than {manifest.most_board_bytes:,} bytes" in endless.stderr


@pytest.mark.parametrize("value", ["", "3.5", "-1", "1e3", "12345678901", "²"])
def test_a_value_that_is_no_number_is_not_repeated_where_a_round_has_no_words(value: str) -> None:
    with pytest.raises(UsageError, match="must be a whole number from 0") as refusal:
        parse_whole(value)
    assert not value or f"{value!r}" not in str(refusal.value)


def test_a_missing_configuration_is_one_line(tmp_path: Path) -> None:
    done = run_cli("verify", "--config", str(tmp_path / "nowhere.toml"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "nowhere.toml" in done.stderr
