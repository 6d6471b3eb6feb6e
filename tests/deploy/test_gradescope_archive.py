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

pytestmark = pytest.mark.docker

LAB = lab_of(8)

FUNCTIONS = """

def delta(symbols, p, growth, others):
    return attack("delta", symbols, p, growth, others)


def worst(users, symbols, p, growth):
    return attack("worst", users, symbols, p, growth)


def refute(statement, cells):
    return attack("refute", statement, cells)
"""

STEALS = """
from pathlib import Path


def attack(*_):
    graded = "/autograder/results/.work/ada@example.org/result.json"
    for place in ("/autograder/results/results.json", graded):
        try:
            Path(place).write_text('{"score": 100}')
        except OSError:
            pass
    try:
        key = Path("/autograder/source/course.key").read_text()
    except OSError as error:
        raise RuntimeError(f"kept out: {type(error).__name__}")
    raise RuntimeError(f"the key is {key}")
"""

IMPORTS_ANSWERS = """
def attack(name, *given):
    from shuffledp_labs.lab08_theorem.exact import delta_of, worst_case

    if name == "delta":
        return delta_of(*given)
    return (lambda most, others: (most, others[0]))(*worst_case(given))
"""

IMPORTS_ATTACKS = """
def attack(name, *given):
    from shuffledp_adversary import evidence

    return evidence.clopper_pearson
"""

SEARCHES_DISK = """
import os
import runpy


def attack(name, *given):
    for folder, _, files in os.walk("/"):
        if "exact.py" in files and folder.endswith("theorem"):
            return runpy.run_path(os.path.join(folder, "exact.py"))["delta_of"](*given)
    for file in ("/etc/passwd", "/autograder/submission_metadata.json", "/proc/1/cmdline"):
        try:
            content = open(file).read()
        except OSError:
            continue
        raise RuntimeError(f"reached {file}: {content}")
    raise RuntimeError("kept out: no answers and no files")
"""

CALLS_HOME = """
import socket


def attack(*_):
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                socket.socket(family, kind).close()
            except OSError:
                continue
            raise RuntimeError(f"reached a socket of {family!r}")
    raise RuntimeError("kept out: no socket")
"""

LEAVES_NOTES = """
import glob
import os


def attack(name, *_):
    folders = ("/tmp", "/dev/shm", "/var/tmp", ".")
    notes = [note for folder in folders for note in glob.glob(folder + "/note-*")]
    if any(not note.endswith(name) for note in notes):
        raise RuntimeError(f"reached {notes} of an earlier check")
    for folder in folders:
        try:
            open(os.path.join(folder, "note-" + name), "w").write("note")
        except OSError:
            pass
    raise RuntimeError("kept out: no note of an earlier check")
"""

CHEATS = {
    "imports the answers": (IMPORTS_ANSWERS, "ModuleNotFoundError"),
    "imports the attacks": (IMPORTS_ATTACKS, "ModuleNotFoundError"),
    "searches the disk": (SEARCHES_DISK, "kept out"),
    "opens sockets": (CALLS_HOME, "kept out"),
    "leaves notes": (LEAVES_NOTES, "kept out"),
    "steals the key": (STEALS, "kept out"),
}
"""Source of `attack`, and what each of its checks then says."""


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

    def files(self) -> set[str]:
        """Every file of the container, but for those of a grading and of the kernel."""
        kernel = "-path /proc -o -path /sys -o -path /autograder/results"
        return set(self.inside(f"find / \\( {kernel} \\) -prune -o -print").splitlines())

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
        str(LAB.number),
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


def grade_solution(server: Server, folder: Path) -> dict[str, Any]:
    """The result of the reference solution, which gets all points."""
    solution = REPOSITORY / "labs" / "solutions" / f"lab{LAB.number:02}.py"
    content = server.grade(solution.read_text(), folder)
    assert content["score"] == sum(check.points for check in LAB.checks if not check.system)
    assert content["extra_data"]["student"] == "ada@example.org"
    return content


def test_the_container_has_no_user_namespaces_and_no_network(server: Server) -> None:
    refused = server.inside("unshare --user true 2>/dev/null && echo made || echo refused")
    assert refused.strip() == "refused"
    interfaces = server.inside("ls /sys/class/net").split()
    assert interfaces == ["lo"]


def test_a_right_program_gets_its_points_on_gradescope(server: Server, tmp_path: Path) -> None:
    grade_solution(server, tmp_path)


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_gets_nothing_on_gradescope_and_leaves_nothing_for_others(
    name: str, server: Server, tmp_path: Path
) -> None:
    source, words = CHEATS[name]
    files = server.files()
    content = server.grade(source + FUNCTIONS, tmp_path)
    assert content["score"] == 0
    text = json.dumps(content)
    assert words in text
    assert "reached" not in text
    assert server.key not in text
    assert server.files() == files
    users = server.inside("grep -h ^Uid: /proc/[0-9]*/status | cut -f2 | sort -u").split()
    assert users == ["0"]  # no process of the program's user is left


def test_a_right_program_gets_its_points_after_all_cheats(server: Server, tmp_path: Path) -> None:
    grade_solution(server, tmp_path)


def test_gradescope_gets_a_result_when_nothing_was_handed_in(server: Server) -> None:
    server.inside("rm -rf /autograder/submission && mkdir /autograder/submission")
    server.inside("/autograder/run_autograder")
    content = json.loads(server.inside("cat /autograder/results/results.json"))
    assert content["score"] == 0
    assert "look at this" in content["output"]
