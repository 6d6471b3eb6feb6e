"""The parts of a lab: predictions, checks with points, a picture, and the student's files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, Literal

from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws
from shuffledp_labs.student.process import StudentProgram

__all__ = ["Check", "CheckAttempt", "CheckFailure", "Lab", "LazyFunction", "Prediction", "ShowRun"]

CHECK_POINTS: Final = 75
PREDICTION_POINTS: Final = 5
EXPLANATION_POINTS: Final = 10
"""Of one explanation, of two; given by a person."""


@dataclass(frozen=True)
class LazyFunction:
    """A function of a lab's package, imported when it is first called.

    So `lab list` does not wait for numpy and gRPC.

    A lab says `_of = partial(Later, __name__)`, and then `_of("checks.check_law")`.

    Attributes:
        package: package of the lab.
        path: the function, by its module in the package and its name.
    """

    package: str
    path: str

    def __call__(self, given: Any) -> Any:
        """Call the function with a `CheckAttempt` or a `ShowRun`."""
        return self.function(given)

    @property
    def function(self) -> Callable[[Any], Any]:
        """The function itself."""
        module, name = self.path.rsplit(".", 1)
        function_object: Callable[[Any], Any] = getattr(
            import_module(f"{self.package}.{module}"), name
        )
        return function_object


@dataclass(frozen=True)
class CheckAttempt:
    """Arguments of one run of a check: the instance, the student's program and a folder.

    Attributes:
        draws: the instance, as the check's own stream of draws.
        program: the student's program, a fresh process for each check.
        scratch: a folder for the check, erased after it; the one that the program may write, its
            current folder.
        progress: shows the student one line of what is continuing.
        file: the student's `work.py`, for a check that starts more programs: `StudentProgram(file,
            scratch)`.
    """

    draws: Draws
    program: StudentProgram
    scratch: Path
    progress: Callable[[str], None]
    file: Path


@dataclass(frozen=True)
class Check:
    """A check of one property that a student's program must have.

    Attributes:
        name: the step's letter and a word, such as "B-law".
        points: points for passing it.
        title: the property that is required, as a plain sentence.
        run: function that raises `CheckFailure`, or returns a sentence about what was observed. It
            does not catch faults of the program.
        needs: names of the checks that must have passed before; otherwise this one is not run.
        system: whether the check starts the processes of a real system.
        chance: probability that a correct program fails, at most 1e-9.
        seconds: limit of the whole check, far above what a correct program takes: graders are busy
            machines.
    """

    name: str
    points: int
    title: str
    run: Callable[[CheckAttempt], str | None]
    needs: tuple[str, ...] = ()
    system: bool = False
    chance: float = 0.0
    seconds: float = 60.0

    @property
    def step(self) -> str:
        """Letter of the step that the check belongs to."""
        return self.name[0]


@dataclass(frozen=True)
class Prediction:
    """A question to answer before the first run; any answer earns the points.

    Attributes:
        key: name of the prediction in predict.toml.
        question: the question that the student reads.
        kind: the kind of answer.
        unit: unit of a number, for the reader.
        choices: options of a choice.
        most: for a number between 0 and a limit, that limit, such as 1 for a share; infinite for
            any number.
    """

    key: str
    question: str
    kind: Literal["number", "choice", "text"]
    unit: str = ""
    choices: tuple[str, ...] = ()
    most: float = math.inf


@dataclass(frozen=True)
class ShowRun:
    """Arguments of one `lab run`: the instance, the student's program and folders.

    Attributes:
        work: the student's work.py.
        out: the folder for pictures.
        draws: a fresh instance.
        program: the student's program.
        scratch: the folder that it may write.
        progress: shows one line of what is continuing.
    """

    work: Path
    out: Path
    draws: Draws
    program: StudentProgram
    scratch: Path
    progress: Callable[[str], None]


@dataclass(frozen=True)
class Lab:
    """A lab with its checks, predictions and files.

    Attributes:
        number: number of the lab, from 1.
        name: the short name, "lie-well".
        title: title of the handout, such as "Lie well".
        level: 1 to 3.
        minutes: time that most students need.
        predictions: scored for being there.
        checks: the checks in the order in which they run; their points sum to 75.
        explanations: the two questions that a person grades.
        show: what `lab run` does: a picture, whose path it returns, drawn after all else, as
            matplotlib may be missing; None if there is nothing to draw yet.
        folder: the package that holds handout.md, work.py, predict.toml and report.md.
    """

    number: int
    name: str
    title: str
    level: int
    minutes: int
    predictions: tuple[Prediction, ...]
    checks: tuple[Check, ...]
    explanations: tuple[str, ...]
    show: Callable[[ShowRun], Path | None]
    folder: str

    def __post_init__(self) -> None:
        """Refuse a lab whose points or names are inconsistent, an error of its author."""
        if sum(check.points for check in self.checks) != CHECK_POINTS:
            raise ValueError(
                f"the checks of lab {self.number} have to give {CHECK_POINTS} points together"
            )
        earlier: set[str] = set()
        for check in self.checks:
            if not set(check.needs) <= earlier or check.name in earlier:
                raise ValueError(
                    f"{check.name} of lab {self.number} has a name twice, or needs a check after it"
                )
            earlier.add(check.name)

    def file(self, name: str) -> Traversable:
        """A file from the lab's package."""
        return files(self.folder).joinpath(name)

    def pictures(self) -> list[Traversable]:
        """The pictures in the handout: files named picture.*, or picture-NAME.*."""
        folder = files(self.folder).iterdir()
        pictures = [entry for entry in folder if entry.name.startswith("picture")]
        return sorted(pictures, key=lambda entry: entry.name)
