"""`deploy/class.sh`: everybody of a class gets a bundle, once.

Whoever comes later gets one, too.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from composed import REPOSITORY, Composed, run

pytestmark = pytest.mark.docker

BUNDLES = REPOSITORY / "out" / "class"


@pytest.fixture
def bundles() -> Iterator[Path]:
    """Where they are left; of nobody else's before, and erased afterwards."""
    shutil.rmtree(BUNDLES, ignore_errors=True)
    yield BUNDLES
    shutil.rmtree(BUNDLES, ignore_errors=True)


def enrol(deployment: Composed, people: Path) -> str:
    environment = {"COMPOSE_PROJECT_NAME": deployment.project, **deployment.environment}
    return run(["sh", "deploy/class.sh", "enrol", str(people)], **environment)


def test_a_class_is_enrolled_once_and_whoever_comes_later_too(
    deployment: Composed, bundles: Path, tmp_path: Path
) -> None:
    people = tmp_path / "class.csv"
    people.write_text("mail,name\na@example.org,class-ada\nb@example.org,class-bob\n")
    enrol(deployment, people)
    ada = (bundles / "class-ada.bundle").read_bytes()
    assert (bundles / "class-ada.bundle").stat().st_mode & 0o077 == 0
    people.write_text("name\nclass-ada\nclass-cleo\n")
    enrol(deployment, people)
    assert {"class-ada.bundle", "class-bob.bundle", "class-cleo.bundle"} <= {
        file.name for file in bundles.iterdir()
    }
    assert (bundles / "class-ada.bundle").read_bytes() == ada
    run(
        [
            sys.executable,
            "-m",
            "shuffledp_client.cli",
            "import",
            str(bundles / "class-cleo.bundle"),
            str(tmp_path / "me"),
        ]
    )
    assert (
        f"127.0.0.1:{deployment.environment['NODE_1_PORT']}"
        in (tmp_path / "me" / "client.toml").read_text()
    )


def test_a_missing_list_is_said(tmp_path: Path) -> None:
    told = ["sh", "deploy/class.sh", "enrol", str(tmp_path / "none.csv")]
    done = subprocess.run(
        told, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 2
    assert "none.csv" in done.stderr
