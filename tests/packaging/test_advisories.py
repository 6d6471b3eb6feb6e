"""`make advisories`: what it says and how it ends, with tools that answer as the real ones do."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "advisories.sh"
CLEAN = (0, "No known vulnerabilities found")
VULNERABLE = (1, "h11 0.15.0 GHSA-vqfr-h8mv-ghfj 0.16.0")
AWAY = (1, "ERROR: Could not connect to the vulnerability feed of CVEs")


def write_tool(file: Path, answer: tuple[int, str]) -> None:
    status, words = answer
    file.write_text(f'#!/bin/sh\n[ "$1" != export ] || exit 0\necho "{words}"\nexit {status}\n')
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("pip", "cargo", "status", "said"),
    [
        (CLEAN, CLEAN, 0, ["pip-audit: checked, none found", "cargo-audit: checked, none found"]),
        (VULNERABLE, CLEAN, 1, ["GHSA-vqfr-h8mv-ghfj", "pip-audit: vulnerabilities found"]),
        (AWAY, CLEAN, 3, ["pip-audit: NOT CHECKED, no database of advisories"]),
        (AWAY, VULNERABLE, 1, ["pip-audit: NOT CHECKED", "cargo-audit: vulnerabilities found"]),
        (CLEAN, None, 3, ["cargo-audit: NOT CHECKED, it is not installed"]),
    ],
)
def test_nothing_is_called_clean_that_was_not_checked(
    tmp_path: Path,
    pip: tuple[int, str],
    cargo: tuple[int, str] | None,
    status: int,
    said: list[str],
) -> None:
    write_tool(tmp_path / "uv", pip)
    if cargo is not None:
        for name in ("cargo", "cargo-audit"):
            write_tool(tmp_path / name, cargo)
    environment = {**os.environ, "UV": str(tmp_path / "uv"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    for words in said:
        assert words in done.stdout


def test_the_crates_of_the_device_are_looked_up_too(tmp_path: Path) -> None:
    write_tool(tmp_path / "uv", CLEAN)
    write_tool(tmp_path / "cargo-audit", CLEAN)
    cargo = tmp_path / "cargo"
    cargo.write_text(
        '#!/bin/sh\ncase "$PWD" in */shuffledp-device) echo RUSTSEC-2026-0001; exit 1 ;; esac\n'
    )
    cargo.chmod(0o755)
    environment = {**os.environ, "UV": str(tmp_path / "uv"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "RUSTSEC-2026-0001" in done.stdout
