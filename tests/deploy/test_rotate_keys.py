"""rotate-keys.sh on folders in place of the volumes: what each way of renewing replaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from composed import REPOSITORY

from shuffledp_core.documents.models import Roster
from shuffledp_core.runtime.keys import read_roster
from shuffledp_core.transparency.entries import log_key_of
from shuffledp_core.transparency.notes import Checkpoint, sign_note
from shuffledp_ops.keys.pki import Deployment, create_deployment

SCRIPT = REPOSITORY / "deploy" / "containers" / "rotate-keys.sh"
PARTIES = ("node-1", "node-2", "node-3", "analyst", "accountant")
WITNESSES = ("witness-1", "witness-2")
LOG_ROOT = bytes(range(32))


class Volumes:
    """The parties' volumes as make-keys.sh fills them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parties = folder / "parties"
        self.deployment: Deployment = create_deployment(
            folder / "made",
            {party: f"{party}:7000" for party in PARTIES},
            witnesses={name: f"http://{name}:7450" for name in WITNESSES},
        )
        made = self.deployment.folder
        for party in (*PARTIES, "gateway", *WITNESSES):
            shutil.copytree(made / party, self.parties / party)
        shutil.copytree(made / "gateway", self.parties / "pages")  # with the overlay `web`
        (self.parties / "pages" / "config.toml").touch()
        for owner, name in (("operator", "operator"), ("viewer", "viewer"), ("fleet", "client")):
            shutil.copytree(made / name, self.parties / owner / name)
        shutil.copytree(made / "root", self.parties / "root" / "root")
        (self.parties / "root" / "complete").touch()
        shutil.copy(made / "root.pub", self.parties / "operator")
        for volume in self.parties.iterdir():
            shutil.copy(made / "roster.json", volume)

    def rotate(self, *words: str) -> subprocess.CompletedProcess[str]:
        script = SCRIPT.read_text()
        for there, here in (
            ("/parties/", f"{self.parties}/"),
            ("/tmp/keys", str(self.folder / "new")),  # noqa: S108 - in the container
            ("10001:10001", f"{os.getuid()}:{os.getgid()}"),
        ):
            assert there in script
            script = script.replace(there, here)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/sh", "-c", script, "rotate-keys.sh", *words],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def certificates(self) -> dict[str, bytes]:
        files = self.parties.rglob("tls.pem")
        return {str(file.relative_to(self.parties)): file.read_bytes() for file in files}

    def rosters(self) -> list[Roster]:
        key = self.deployment.root_key
        return [read_roster(volume / "roster.json", key) for volume in self.parties.iterdir()]


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    return Volumes(tmp_path)


def test_a_new_roster_that_ends_the_log_reaches_every_volume(volumes: Volumes) -> None:
    before = volumes.certificates()
    key = log_key_of(volumes.deployment.roster)
    text = Checkpoint(key.name, 5, LOG_ROOT).to_text()
    sign = volumes.deployment.identity_of("accountant").key.sign
    checkpoint = volumes.folder / "checkpoint"
    checkpoint.write_text(sign_note(text, key, sign))
    done = volumes.rotate("--roster", "--end-log", str(checkpoint))
    assert done.returncode == 0, done.stderr
    assert "restart all parties" in done.stdout
    assert volumes.certificates() == before
    for roster in volumes.rosters():
        assert roster.serial == volumes.deployment.roster.serial + 1
        assert roster.log_terms is not None
        assert [(log.size, log.root) for log in roster.log_terms.ended] == [(5, LOG_ROOT.hex())]


def test_only_the_named_party_gets_a_new_certificate(volumes: Volumes) -> None:
    before = volumes.certificates()
    done = volumes.rotate("--party", "node-2")
    assert done.returncode == 0, done.stderr
    after = volumes.certificates()
    assert {name for name in after if after[name] != before[name]} == {"node-2/tls.pem"}


def test_all_certificates_are_renewed_without_a_new_roster(volumes: Volumes) -> None:
    before = volumes.certificates()
    done = volumes.rotate()
    assert done.returncode == 0, done.stderr
    after = volumes.certificates()
    assert len(after) == 10
    assert all(after[name] != before[name] for name in after)
    assert {roster.serial for roster in volumes.rosters()} == {volumes.deployment.roster.serial}
