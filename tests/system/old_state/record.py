"""Records the state of a deployment of an earlier build, for `tests/system/test_upgrade.py`.

Runs in a checkout of that build, with its programs; see README.md.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from shuffledp_ops.keys import authority
from shuffledp_sim.deploy.making import make

NODES = 2
DEVICES = 3
BUDGET = 20
KEPT = ("keys", "state", "out")
REDRAWN = ("plot.png", "report.html")
"""Files of a saved round that are made from its documents."""

TWENTY_YEARS = 20 * 365
"""Lifetime in days of the certificates for TLS, so that the test works after a year, too."""


def run(lab: Path, program: str, *words: str, text: str = "") -> None:
    """Runs a program of the environment that runs this file."""
    command = [str(Path(sys.executable).parent / program), *words]
    subprocess.run(command, input=text, text=True, check=True, cwd=lab.parent)


def play(lab: Path, submissions: int) -> None:
    """Opens a round for all devices and submits; closes and saves it if all of them submit."""
    words = [
        *("round", "lab/keys", "--mechanism", "krr-histogram", "--max-value", "4"),
        *("--epsilon", "3", "--min-reports", str(DEVICES), "--max-reports", str(DEVICES)),
        *("--out", "lab/out"),
    ]
    command = [str(Path(sys.executable).parent / "shuffledp"), *words]
    with subprocess.Popen(command, cwd=lab.parent, stderr=subprocess.PIPE, text=True) as operator:
        assert operator.stderr is not None
        while "is open" not in (line := operator.stderr.readline()):
            if not line:
                raise SystemExit("the round did not open")
        devices = [f"lab/device-{number}.toml" for number in range(1, submissions + 1)]
        for config in devices:
            run(lab, "shuffledp-client", "submit", "--config", config, "--value", "-", text="3")
        if submissions < DEVICES:
            operator.terminate()  # the round stays open
            return
    for config in devices:
        run(lab, "shuffledp-client", "verify", "--config", config, "--wait")


def record(lab: Path) -> None:
    """Plays two whole rounds and leaves a third one open, with one submission."""
    vars(authority).update(AUTHORITY_DAYS=TWENTY_YEARS, VALID_DAYS=TWENTY_YEARS)
    make(lab, devices=DEVICES, nodes=NODES)
    accountant = lab / "accountant.toml"
    accountant.write_text(accountant.read_text().replace("epsilon = 6.5", f"epsilon = {BUDGET}"))
    run(lab, "shuffledp", "deploy", "start", "lab")
    try:
        play(lab, DEVICES)
        play(lab, DEVICES)
        play(lab, 1)
    finally:
        run(lab, "shuffledp", "deploy", "stop", "lab")


def pack(lab: Path) -> bytes:
    """The deployment as an archive, without logs and pictures."""
    files = [path for name in KEPT for path in (lab / name).rglob("*") if path.is_file()]
    files += lab.glob("*.toml")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for path in sorted(files):
            if path.name not in REDRAWN and "latest" not in path.parts:
                archive.add(path, path.relative_to(lab))
    return packed.getvalue()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder) / "lab")
        Path(sys.argv[1]).write_bytes(pack(Path(folder) / "lab"))
