"""The archive for Gradescope, installed and run as Gradescope does it: as root, in a container,
here without a network.

Needs an engine and the images, whose wheels it takes; about a minute.
"""

import json
import platform
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from composed import DEPLOY, REPOSITORY, run
from typer.testing import CliRunner

from shuffledp.cli import app
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.teaching.bundles import GRADESCOPE_BYTES
from shuffledp_labs.teaching.course import init_course

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

LAB = lab_of(1)

HOSTILE = """\
from pathlib import Path

def guess(message, prior, spec=None):
    return steal()

def randomise(*anything):
    return steal()

def estimate(*anything):
    return steal()

def interval(*anything):
    return steal()

def steal():
    for place in ("/autograder/results/results.json", "/autograder/results/.work/ada@example.org/result.json"):
        try:
            Path(place).write_text('{"score": 100}')
        except OSError:
            pass
    try:
        key = Path("/autograder/source/course.key").read_text()
    except OSError as error:
        raise RuntimeError(f"kept out: {type(error).__name__}")
    raise RuntimeError(f"the key is {key}")
"""  # noqa: E501


@dataclass(frozen=True)
class Server:
    """A container in which the archive has been set up."""

    container: str
    key: str

    def grade(self, source: str, folder: Path) -> dict[str, Any]:
        """Hands a program in, and what Gradescope would read."""
        (folder / "work.py").write_text(source)
        self.inside("cd /autograder && rm -rf submission results && mkdir submission results")
        run(
            [
                "docker",
                "cp",
                str(folder / "work.py"),
                f"{self.container}:/autograder/submission/work.py",
            ]
        )
        self.inside("/autograder/run_autograder")
        content: dict[str, Any] = json.loads(self.inside("cat /autograder/results/results.json"))
        return content

    def inside(self, command: str) -> str:
        return run(["docker", "exec", self.container, "bash", "-c", command])


def base_image() -> str:
    """The one that the images were built on."""
    text = (DEPLOY / ".env.images").read_text()
    found = re.search(r"^BASE_IMAGE=(.+)$", text, flags=re.MULTILINE)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("gradescope")
    init_course(folder / "course", "Course", ())
    key = folder / "course" / "course.key"
    archive = folder / "lab.zip"
    wheels = DEPLOY / "build" / "sim" / "wheels"
    words = [
        "lab",
        "bundle",
        "1",
        "--gradescope",
        "--offline",
        "--no-system",
        "--machine",
        platform.machine(),
    ]
    done = CliRunner().invoke(
        app, [*words, "--wheels", str(wheels), "--to", str(archive), "--key", str(key)]
    )
    assert done.exit_code == 0, f"{done.output}\n{done.exception}"
    assert archive.stat().st_size < GRADESCOPE_BYTES
    with zipfile.ZipFile(archive) as zipped:
        zipped.extractall(folder / "source")  # without the modes, as some services do
    container = run(
        ["docker", "create", "--network", "none", base_image(), "sleep", "1800"]
    ).strip()
    try:
        run(["docker", "start", container])
        one = Server(container, key.read_text().strip())
        one.inside("mkdir -p /autograder")
        run(["docker", "cp", str(folder / "source"), f"{container}:/autograder/source"])
        metadata = folder / "submission_metadata.json"
        metadata.write_text('{"users": [{"email": "ada@example.org"}]}')
        run(["docker", "cp", str(metadata), f"{container}:/autograder/"])
        one.inside("bash /autograder/source/setup.sh")
        one.inside("install -m 755 /autograder/source/run_autograder /autograder/run_autograder")
        yield one
    finally:
        run(["docker", "rm", "--force", container])


def test_a_right_program_gets_its_points_on_gradescope(server: Server, tmp_path: Path) -> None:
    content = server.grade((REPOSITORY / "labs" / "solutions" / "lab01.py").read_text(), tmp_path)
    assert content["score"] == sum(check.points for check in LAB.checks if not check.system)
    assert content["extra_data"]["student"] == "ada@example.org"


def test_a_program_reads_no_key_and_writes_no_result_on_gradescope(
    server: Server, tmp_path: Path
) -> None:
    content = server.grade(HOSTILE, tmp_path)
    assert content["score"] == 0
    assert server.key not in json.dumps(content)
    assert "kept out" in json.dumps(content)
    users = server.inside("grep -h ^Uid: /proc/[0-9]*/status | cut -f2 | sort -u").split()
    assert users == ["0"]  # no process of the program's user is left


def test_gradescope_gets_a_result_when_nothing_was_handed_in(server: Server) -> None:
    server.inside("rm -rf /autograder/submission && mkdir /autograder/submission")
    server.inside("/autograder/run_autograder")
    content = json.loads(server.inside("cat /autograder/results/results.json"))
    assert content["score"] == 0
    assert "look at this" in content["output"]
