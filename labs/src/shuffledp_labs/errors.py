"""Errors of the labs, by who is at fault: the student's program, the user, or no one."""

from __future__ import annotations

from typing import Final

from shuffledp_core.errors import ShuffleDPError


class LabError(ShuffleDPError):
    """A lab cannot continue; the message says what to do."""


class LabUsageError(LabError):
    """No such lab, step or folder, or a file of the student's that cannot be read. Exit code 2."""

    exit_code = 2


class CheckFailure(LabError):  # noqa: N818 - the outcome of a check, not a fault of this program
    """The student's program lacks the property that a check tests.

    The message names the property, the instance, the distance and what to read, but never the
    expected value.
    """


class StudentFault(LabError):  # noqa: N818
    """The student's program did something that no correct program does.

    Costs the check, and nothing else.
    """


class NotWritten(StudentFault):
    """The student's function is still the stub, or is missing."""


_REFUSED_BY_THE_BOX: Final = {"PermissionError", "OSError", "URLError", "gaierror"}
_BOXED: Final = "a checked program has no network, and of files its own folder alone"


class StudentException(StudentFault):
    """The student's function raised an exception.

    Attributes:
        kind: the name of the exception's class, such as "ValueError".
        message: message of the exception.
    """

    def __init__(self, kind: str, message: str, where: str = "") -> None:
        text = f"{where}{kind}: {message}" if message else f"{where}{kind}"
        super().__init__(f"{text}; {_BOXED}" if kind in _REFUSED_BY_THE_BOX else text)
        self.kind = kind
        self.message = message


class StudentTimeout(StudentFault):
    """The student's function did not end within its time limit."""


class StudentCrash(StudentFault):
    """The student's process died, exceeded a limit, or wrote into the grader's pipe."""


class BadAnswer(StudentFault):
    """A value that cannot cross the pipe: wrong type, too large, too deep, or no value at all."""


class RandomnessElsewhere(StudentFault):
    """The same coins led to different answers: the program uses other randomness.

    The program has randomness of its own, or remembers earlier calls.
    """


class TooWide(StudentFault):
    """A draw with too many outcomes to enumerate, usually from a converted float."""


class TooLarge(StudentFault):
    """The program has more branches than may be enumerated."""
