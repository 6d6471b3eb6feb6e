"""What people install: the wheels, in environments of their own outside of the checkout, without
its sources.

Other people's packages come from uv's cache by the lock, so that no index is asked; the wheels' own
metadata is then resolved against them, and must ask for nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
UV = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")

MOST_BYTES_OF_LABS = 250 * 10**6
"""On disk, that `pip install shuffledp-labs` may bring."""

MOST_DISTRIBUTIONS = 25
"""In all, that `pip install shuffledp` may bring, ours among them."""

UNWANTED = {
    "grpcio", "protobuf", "shuffledp-proto", "amqtt", "aiomqtt", "paho-mqtt", "sqlalchemy",
    "alembic", "pynacl",
    "matplotlib", "pyarrow", "psycopg",
}  # fmt: skip
"""What nobody needs who certifies."""

LINES = """
from pathlib import Path

import shuffledp as sdp

epsilons, values, key = [0.5, 1.0], [n % 21 for n in range(2000)], Path("root.pub").read_text().strip()
group = sdp.Setting(users=2000, honest=1900)
plan = sdp.calibrate("geo-shuffle", max_value=20, epsilon=1, delta=1e-6, setting=group)
bounds = sdp.certify(plan, group, delta=1e-6)
curve = sdp.curve(plan, group, epsilons)
total = sdp.compose([plan] * 52, group, delta=1e-6)
answer = sdp.simulate(plan, values, seed=None)
print(answer.mean, answer.interval)
(checked,) = sdp.verify("certificate.json", root_key=key)

import json, sys
from importlib.metadata import distributions

print(json.dumps({
    "bounds": [bounds.attained, bounds.certified, bounds.corrupted],
    "curve": [curve.attained.tolist(), curve.certified.tolist()],
    "total": total.certified,
    "answer": [answer.mean, answer.standard_error, answer.truth],
    "checked": checked.title,
    "installed": sorted(found.metadata["Name"].lower() for found in distributions()),
    "sources": sorted(path for path in sys.path if "shuffledp" in path),
}))
"""  # noqa: E501
"""Those that the library promises, and what came of them."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheels of some of our packages."""

    folder: Path

    def run(
        self, program: str, *arguments: str | Path, cwd: Path, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of its programs with nothing of the checkout on any path."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL", "UV"))
        }
        kept["PATH"] = f"{self.folder}/bin:/usr/bin:/bin"
        done = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=cwd,
            env=kept,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done


def uv(*arguments: str | Path, **variables: str) -> None:
    """uv without an index where its cache has everything, else with one."""
    environment = {
        name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"
    } | variables
    command = [UV, *map(str, arguments), "--quiet"]
    if subprocess.run(
        [*command, "--offline"], cwd=ROOT, env=environment, capture_output=True, check=False
    ).returncode:
        subprocess.run(command, cwd=ROOT, env=environment, check=True)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    uv("build", "--all-packages", "--wheel", "--out-dir", folder)
    return folder


def install(wheels: Path, folder: Path, *extras: str) -> Environment:
    options = [option for extra in extras for option in ("--extra", extra)]
    locked = [
        "--frozen",
        "--no-dev",
        "--no-editable",
        "--no-install-workspace",
        "--package",
        "shuffledp",
        *options,
    ]
    uv("sync", *locked, "--python", sys.executable, UV_PROJECT_ENVIRONMENT=str(folder))
    wanted = f"shuffledp[{','.join(extras)}]" if extras else "shuffledp"
    python = folder / "bin" / "python"
    uv("pip", "install", "--python", python, "--no-index", "--find-links", wheels, wanted)
    uv("pip", "check", "--python", python)
    return Environment(folder)


@pytest.fixture(scope="module")
def base(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(wheels, tmp_path_factory.mktemp("base") / "venv")


@pytest.fixture(scope="module")
def round_folder(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The documents of a round that `shuffledp demo` played where everything is installed."""
    folder = tmp_path_factory.mktemp("everything")
    everything = install(wheels, folder / "venv", "all")
    done = everything.run(
        "shuffledp", "demo", "--users", "60", "--nodes", "2", "--format", "json", cwd=folder
    )
    assert json.loads(done.stdout)["users"] == 60
    shown = everything.run("shuffledp", "--help", cwd=folder).stdout
    assert all(f" {name} " in shown for name in ("demo", "keys", "attack", "certify"))
    documents = (folder / "out" / "latest").resolve()
    yield documents
    shutil.rmtree(folder / "venv")


def test_the_whole_system_runs_from_its_wheels(round_folder: Path) -> None:
    assert {"certificate.json", "roster.json", "root.pub"} <= {
        file.name for file in round_folder.iterdir()
    }


def test_the_library_alone_is_small_and_does_what_it_promises(
    base: Environment, round_folder: Path
) -> None:
    told = json.loads(base.run("python", "-c", LINES, cwd=round_folder).stdout.splitlines()[-1])
    installed = set(told["installed"])
    assert {"shuffledp", "shuffledp-core", "shuffledp-privacy"} <= installed
    assert len(installed) <= MOST_DISTRIBUTIONS
    assert not installed & UNWANTED
    assert not any(str(ROOT) in path for path in told["sources"])
    attained, certified, corrupted = told["bounds"]
    assert 0.9 < attained <= certified <= 1 < corrupted
    assert all(low <= high for low, high in zip(*told["curve"], strict=True))
    assert certified < told["total"] < 52 * certified
    mean, error, truth = told["answer"]
    assert abs(mean - truth) <= 10 * error
    assert told["checked"].startswith("certificate")


def test_the_command_alone_verifies_and_says_what_to_install_for_the_rest(
    base: Environment, round_folder: Path, tmp_path: Path
) -> None:
    done = base.run(
        "shuffledp",
        "verify",
        round_folder / "certificate.json",
        "--root-key",
        round_folder / "root.pub",
        cwd=tmp_path,
    )
    assert "genuine and right" in done.stdout
    done = base.run("shuffledp", "demo", "--users", "60", cwd=tmp_path, code=2)
    assert (
        done.stderr
        == "error: `shuffledp demo` is not installed here: pip install 'shuffledp[sim]'\n"
    )
    asked = "certify krr-histogram --users 100 --symbols 4 --epsilon0 1 --delta 1e-6 --plot a.png"
    done = base.run("shuffledp", *asked.split(), cwd=tmp_path, code=2)
    assert "pip install 'shuffledp[plot]'" in done.stderr
    shown = base.run("shuffledp", "--help", cwd=tmp_path).stdout
    assert " simulate " in shown
    assert " demo " not in shown


def test_the_labs_are_light_and_start(wheels: Path, tmp_path: Path) -> None:
    labs = install(wheels, tmp_path / "venv", "labs")
    packages = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
    assert size < MOST_BYTES_OF_LABS
    assert not {"scipy", "matplotlib", "PIL", "pandas"} & {file.name for file in packages.iterdir()}
    seen = labs.run("shuffledp", "lab", "doctor", "--format", "json", cwd=tmp_path).stdout
    assert json.loads(seen)["well"]
    labs.run("shuffledp", "lab", "start", "1", cwd=tmp_path)
    played = labs.run(
        "shuffledp", "demo", "--users", "30", "--nodes", "2", "--format", "json", cwd=tmp_path
    )
    assert json.loads(played.stdout)["users"] == 30
