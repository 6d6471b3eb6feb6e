"""What is in the archives, what is not, and that their scripts and programs do what they are
for."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml
from test_lab_exports import RUNNER, assert_classroom50, assert_gradescope
from typer.testing import CliRunner
from wrong_programs import wrong_programs

from shuffledp.cli import app
from shuffledp_core.errors import OutputError, ShuffleDPError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.installed import numbers
from shuffledp_labs.student import pipes
from shuffledp_labs.teaching import bundles
from shuffledp_labs.teaching.autograder import TROUBLE, on_classroom50, on_gradescope
from shuffledp_labs.teaching.bundles import Choices, LabBundle, Wheels, write
from shuffledp_labs.teaching.course import init_course
from shuffledp_labs.teaching.starting import find

LAB = lab_of(1)
LABS = Path(__file__).parents[2] / "labs"
SOLUTION = LABS / "solutions" / "lab01.py"


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package index is asked for wheels."""
    monkeypatch.setattr(
        bundles, "_collect_wheels", lambda _wheels: {"shuffledp_labs-0-py3-none-any.whl": b"wheel"}
    )


def every() -> dict[str, LabBundle]:
    return {
        "student": bundles.student(LAB),
        "gradescope": bundles.gradescope(LAB, Choices(), Wheels(), None),
        "classroom50": bundles.classroom50(LAB, Choices()),
        "actions": bundles.actions(LAB, Choices(system=False)),
    }


def test_no_archive_holds_a_solution_a_mutant_a_key_or_an_instance() -> None:
    secret = {
        file.read_bytes()
        for folder in ("solutions", "mutants")
        for file in (LABS / folder).iterdir()
    }
    secret |= {
        wrong.text.encode() for number in numbers() for wrong in wrong_programs(f"{number:02}")
    }
    assert len(secret) > 80
    for bundle in every().values():
        assert not secret & set(bundle.files.values())
        names = " ".join(bundle.files)
        assert not any(
            word in names for word in ("solution", "mutant", "instructor", "key", "result", "nonce")
        )


def test_a_student_goes_on_with_what_is_in_the_archive(tmp_path: Path) -> None:
    write(bundles.student(LAB), tmp_path / "lab.zip")
    with zipfile.ZipFile(tmp_path / "lab.zip") as archive:
        archive.extractall(tmp_path)
    place = find(1, tmp_path / "lab-1")
    assert place.work.read_bytes() == LAB.file("work.py").read_bytes()
    assert (place.path / "README.md").read_bytes() == LAB.file("handout.md").read_bytes()


def test_an_archive_for_gradescope_has_its_two_programs_at_the_root(tmp_path: Path) -> None:
    init_course(tmp_path / "course", "Course", ())
    file = tmp_path / "auto.zip"
    words = [
        "lab",
        "bundle",
        "1",
        "--gradescope",
        "--to",
        str(file),
        "--key",
        str(tmp_path / "course" / "course.key"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "show it to no one" in done.output
    assert file.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(file) as archive:
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
        archive.extractall(tmp_path / "source")
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert modes["course.key"] == 0o600
    assert any(name.startswith("wheels/") for name in modes)
    for name in ("setup.sh", "run_autograder"):
        text = (tmp_path / "source" / name).read_text()
        assert "@" not in text
        subprocess.run(["/bin/sh", "-n", str(tmp_path / "source" / name)], check=True, timeout=240)


def test_the_same_contents_are_the_same_archive(tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        write(bundles.student(LAB), tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_an_archive_that_gradescope_would_refuse_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="accepts at most"):
        write(bundles.student(LAB), tmp_path / "lab.zip", 100)
    assert list(tmp_path.iterdir()) == []


def test_a_workflow_and_the_files_of_classroom_50_are_what_their_readers_read() -> None:
    found = every()
    text = found["actions"].files[".github/workflows/lab-1.yml"].decode()
    steps = yaml.safe_load(text)["jobs"]["check"]["steps"]
    assert any(
        step.get("run", "").startswith("shuffledp lab check 1 --folder . --no-system")
        for step in steps
    )
    assert "template/work.py" in found["classroom50"].files
    compile(found["classroom50"].files["autograders/lab-1/autograder.py"], "autograder.py", "exec")
    json.loads(found["classroom50"].files["runtime.json"])


def test_the_command_wants_one_kind_and_keeps_the_key_out_of_what_students_get(
    tmp_path: Path,
) -> None:
    init_course(tmp_path / "course", "Course", ())
    key = ["--key", str(tmp_path / "course" / "course.key")]
    assert "--classroom50" in str(CliRunner().invoke(app, ["lab", "bundle", "1"]).exception)
    assert "by one of" in str(
        CliRunner().invoke(app, ["lab", "bundle", "1", "--student", "--actions"]).exception
    )
    refused = CliRunner().invoke(
        app, ["lab", "bundle", "1", "--student", *key, "--to", str(tmp_path / "a.zip")]
    )
    assert "only a bundle for Gradescope" in str(refused.exception)
    quoted = CliRunner().invoke(
        app, ["lab", "bundle", "1", "--actions", "--requirement", "a'; rm -rf /'"]
    )
    assert "--requirement" in str(quoted.exception)


def on_a_server(root: Path, source: str, where: str = "submission") -> None:
    (root / where).mkdir(parents=True)
    (root / where / "work.py").write_text(source)
    users = {"users": [{"email": "bob@example.org"}, {"email": "ada@example.org"}]}
    (root / "submission_metadata.json").write_text(json.dumps(users))


@pytest.mark.parametrize("where", ["submission", "submission/lab-1"])
def test_gradescope_finds_its_file_with_the_points(tmp_path: Path, where: str) -> None:
    on_a_server(tmp_path, "def (", where)
    init_course(tmp_path / "source", "Course", ())
    on_gradescope(LAB, tmp_path, system=False)
    content = json.loads((tmp_path / "results" / "results.json").read_text())
    assert_gradescope(content)
    assert content["score"] == 0
    assert content["extra_data"]["student"] == "ada@example.org+bob@example.org"


def test_gradescope_finds_its_file_whatever_was_handed_in(tmp_path: Path) -> None:
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "essay.pdf").write_text("")
    on_gradescope(LAB, tmp_path, system=False)
    content = json.loads((tmp_path / "results" / "results.json").read_text())
    assert_gradescope(content)
    assert content["output"].startswith(TROUBLE)


def test_gradescope_runs_nothing_where_no_sandbox_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEDP_LAB_BOX", "none")
    monkeypatch.setattr(pipes, "_working", [])
    on_a_server(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    on_gradescope(LAB, tmp_path, system=False)
    content = json.loads((tmp_path / "results" / "results.json").read_text())
    assert "no sandbox works here" in content["output"]
    assert content["score"] == 0
    assert not (tmp_path / "ran").exists()


def test_classroom_50_finds_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (RUNNER | {"OWNER": "ada"}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "work.py").write_text("def (")
    (tmp_path / "result.json").write_text(
        '{"score": 1000000}'
    )  # one of the student's own is overwritten
    on_classroom50(LAB, tmp_path, system=False)
    content = json.loads((tmp_path / "result.json").read_text())
    assert_classroom50(content)
    assert (content["score"], content["max-score"]) == (0, 80)
    (tmp_path / "work.py").unlink()
    with pytest.raises(ShuffleDPError):
        on_classroom50(LAB, tmp_path, system=False)
