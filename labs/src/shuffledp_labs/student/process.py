"""A student's program as the grader sees it: functions with limits, and their values.

Nothing of the student's is imported here. Whatever its process does ends in one `StudentFault` or
in a plain value.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from shuffledp_labs.errors import (
    BadAnswer,
    NotWritten,
    RandomnessElsewhere,
    StudentCrash,
    StudentException,
    StudentFault,
    StudentTimeout,
)
from shuffledp_labs.student import clock, wire
from shuffledp_labs.student.laws import (
    ELSEWHERE,
    BranchCoins,
    BranchLaw,
    CoinSource,
    CutBranch,
    walk,
)
from shuffledp_labs.student.pipes import Process, start_process
from shuffledp_labs.student.source import ProgramSource, read_source

START_SECONDS: Final = 60.0
"""For the import of the student's file, on a busy machine."""

_endless: Final[set[ProgramSource]] = set()
"""Programs whose import did not end in that time: no later process waits for them again."""

COINS: Final = wire.TaggedValue("coins")
"""Stands for the coins among the arguments of `law` and `sample`; without it they are the last
argument.
"""


def fresh(name: str, *arguments: Any) -> Any:
    """Placeholder argument for a new object of a student's class, created at each call."""
    return wire.TaggedValue("fresh", [name, list(arguments)])


_COINS: Final = {name: name for name in ("below", "flip", "flip_exp")}


class Handle:
    """Reference to an object in the student's process.

    May be an argument, and dies with the process.
    """

    def __init__(self, number: int, life: int) -> None:
        self.number = number
        self.life = life


class StudentProgram:
    """A student's file, run in a sandbox.

    Its process starts with the first call; `close` ends it.

    Not thread-safe. After a fault that ended the process, the next call starts a fresh one over the
    same folder.

    Attributes:
        last_box: the sandbox of the last process; "" before the first.
    """

    def __init__(self, file: Path, scratch: Path, *, until: float | None = None) -> None:
        """Prepare to run a program; its process starts at the first request.

        Args:
            file: the student's `work.py`.
            scratch: the one folder that it may write, its current folder.
            until: `clock.now()` at which everything has to have ended.
        """
        self.file = file
        self.scratch = scratch
        self.until = until
        self._process: Process | None = None
        self._life = 0
        self.last_box = ""
        self._output = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def output(self) -> str:
        """The end of the program's printed output."""
        return self._process.output if self._process else self._output

    @property
    def box(self) -> str:
        """Name of the sandbox; starts the program if necessary."""
        return self._running().box

    def call(self, function: str, *args: Any, seconds: float = 10.0, **callbacks: Any) -> Any:
        """Call a student's function; lists arrive as tuples.

        Named arguments are passed by name.

        Raises:
            NotWritten: the function is still the stub, or missing.
            StudentException: the function raised an exception.
            StudentTimeout: the function took longer, not counting waits for a processor; its
                process was ended.
            StudentCrash: the process ended during the call.
            BadAnswer: the returned value cannot be sent back.
        """
        return self._ask(function, seconds, ["call", function, list(args), callbacks], None)

    def sample(self, function: str, *args: Any, coins: CoinSource, seconds: float = 10.0) -> Any:
        """Run a random function once, with these coins. Errors as `call`."""
        return self._ask(function, seconds, ["call", function, _with_coins(args), {}], coins)

    def law(
        self,
        function: str,
        *args: Any,
        floor: Fraction = Fraction(1, 10**12),
        leaves: int = 200_000,
        seconds: float = 60.0,
    ) -> BranchLaw:
        """The exact law of a random function, by running all branches.

        `coins` is the last argument, or where COINS is.

        Errors as `call`, and RandomnessElsewhere, TooWide, TooLarge.
        """
        with _naming(function):
            return walk(_Branches(self, function, _with_coins(args), seconds), floor, leaves)

    def new(self, class_name: str, *args: Any, seconds: float = 10.0) -> Handle:
        """Create an object of a student's class, which stays in its process. Errors as `call`."""
        number = self._ask(class_name, seconds, ["new", class_name, list(args)], None)
        if type(number) is not int:
            raise _foreign_frame()
        return Handle(number, self._life)

    def method(
        self,
        handle: Handle,
        name: str,
        *args: Any,
        seconds: float = 10.0,
        coins: CoinSource | None = None,
    ) -> Any:
        """Call a method of an object in the student's process. Errors as `call`."""
        return self._ask(name, seconds, ["method", handle, name, list(args)], coins)

    def kill(self) -> None:
        """Kill the process at once, as a power cut would.

        The next call starts a fresh one in the same folder.
        """
        process, self._process = self._process, None
        if process:
            process.close()
            self._output = process.output

    def close(self) -> None:
        """End the process, and everything that it started."""
        self.kill()

    def _running(self) -> Process:
        if self._process is None:
            source = read_source(self.file)
            if source in _endless:
                raise self._never_read()
            self._life += 1
            self._process = start_process(self.scratch)
            self.last_box = self._process.box
            self._load(source)
        return self._process

    def _load(self, source: ProgramSource) -> None:
        left = math.inf if self.until is None else self.until - clock.now()
        try:
            self._ask(
                self.file.name, START_SECONDS, ["load", source.work, dict(source.helpers)], None
            )
        except StudentTimeout:
            if left < START_SECONDS / 2:  # the check's time was over, whatever the file does
                raise
            _endless.add(source)
            raise self._never_read() from None
        except BaseException:
            self.kill()
            raise

    def _never_read(self) -> StudentTimeout:
        return StudentTimeout(
            f"{self.file.name} does not end when it is imported: is there a loop, or a call of a "
            f"function of yours, "
            'outside of all functions? Put it below `if __name__ == "__main__":`'
        )

    def _ask(
        self, function: str, seconds: float, request: list[Any], coins: CoinSource | None
    ) -> Any:
        process = self._running()  # the start has its own time
        deadline = clock.now() + seconds
        last = math.inf if self.until is None else self.until
        call = _Call(process, self._life, coins)
        try:
            with _naming(function):
                return call.answer(function, request, min(deadline, last), last)
        except BaseException as error:
            # A process that has answered waits for the next request; any other one is in the midst
            # of a call.
            if not call.answered or isinstance(error, StudentCrash):
                self.kill()
            raise


@contextmanager
def _naming(function: str) -> Iterator[None]:
    """Context that adds the function's name to faults without a name."""
    try:
        yield
    except (StudentException, NotWritten):
        raise
    except StudentFault as fault:
        if str(fault).startswith(function):
            raise
        raise type(fault)(f"{function}: {fault}") from None


class _Branches:
    """The branches of one function, run in its process within one time limit."""

    def __init__(
        self, program: StudentProgram, function: str, arguments: list[Any], seconds: float
    ) -> None:
        self._program = program
        self._function = function
        self._arguments = arguments
        _ = program.box  # the start has its own time
        self._end = clock.now() + seconds

    def branch(self, coins: BranchCoins) -> Any:
        """See `laws.Walker`. The request looks like a call with drawn coins."""
        request = ["call", self._function, self._arguments, {}]
        return self._program._ask(  # noqa: SLF001
            self._function, max(0.1, self._end - clock.now()), request, coins
        )


class _Call:
    """One request to a student's process, which may ask back for coins and callbacks."""

    def __init__(self, process: Process, life: int, coins: CoinSource | None) -> None:
        self._process = process
        self._life = life
        self._coins = coins
        self._functions: list[Callable[..., Any]] = []
        self.answered = False

    def answer(self, name: str, request: list[Any], deadline: float, last: float) -> Any:
        """Send the request, serve coins and callbacks, and return the value.

        Questions in between postpone the deadline, but not beyond `last`.
        """
        self._send(request, deadline)
        while True:
            kind, rest = self._frame(self._process.receive(deadline))
            if kind in {"callback", "coin"}:
                started = clock.now()
                reply = self._reply(kind, rest)
                # The grader's own time is not the student's.
                deadline = min(last, deadline + clock.now() - started)
                self._send(reply, deadline)
                continue
            self.answered = True
            if kind == "cut" and isinstance(self._coins, BranchCoins) and self._coins.cut:
                return None
            if kind == "done" and len(rest) == 2:
                # Where coins are drawn, a program may use others for what no law is about, such as
                # a file's name.
                if isinstance(self._coins, BranchCoins) and type(rest[1]) is str and rest[1]:
                    raise RandomnessElsewhere(f"it used {rest[1][:40]}: {ELSEWHERE}")
                return rest[0]
            _raise(kind, rest, name)

    def _send(self, value: Any, deadline: float) -> None:
        try:
            data = wire.pack(value, self._special)
        except wire.WireError as error:
            raise ValueError(f"a check sent {error}") from None
        self._process.send(data, deadline)

    def _special(self, value: Any) -> wire.TaggedValue | None:
        if isinstance(value, Handle):
            if value.life != self._life:
                raise ValueError("the object's process has ended: make a new one")
            return wire.TaggedValue("handle", value.number)
        if not callable(value) or hasattr(value, "tolist"):
            return None
        self._functions.append(value)
        return wire.TaggedValue("function", len(self._functions) - 1)

    def _frame(self, body: bytes) -> tuple[str, tuple[Any, ...]]:
        try:
            frame = wire.unpack(body)
        except wire.WireError:
            raise _foreign_frame() from None
        if type(frame) is not tuple or not frame or type(frame[0]) is not str:
            raise _foreign_frame()
        return frame[0], frame[1:]

    def _reply(self, kind: str, rest: tuple[Any, ...]) -> Any:
        if kind == "coin":
            return self._coin(*rest)
        try:
            number, arguments = rest
            function = self._functions[number]
        except (ValueError, IndexError, TypeError):
            raise _foreign_frame() from None
        try:
            return function(*arguments)
        except TypeError:
            if _takes(function, arguments):
                raise
            raise StudentFault(_describe_miscall(function, len(arguments))) from None

    def _coin(self, *question: Any) -> Any:
        if self._coins is None:
            raise StudentFault("it asked for coins in a call that has none")
        try:
            kind, argument = question
            return getattr(self._coins, _COINS[kind])(argument)
        except CutBranch:
            return wire.TaggedValue("cut")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise _foreign_frame() from None


def _takes(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Return True if a callback accepts these arguments.

    Otherwise its TypeError is the caller's fault.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # some of Python's own have none
        return True
    return True


def _describe_miscall(function: Callable[..., Any], given: int) -> str:
    name = getattr(function, "__name__", "")
    name = name if name.isidentifier() else "the function that it was given"
    parameters = ", ".join(inspect.signature(function).parameters)
    values = f"{given} value{'' if given == 1 else 's'}"
    return f"it called {name} with {values}, but that function takes ({parameters})"


def _raise(kind: str, rest: tuple[Any, ...], name: str) -> None:
    """Raise the error that a response reports."""
    words = [str(part) for part in rest]
    if kind == "unwritten":
        raise NotWritten(
            f"{name} is not written yet ({words[0] if words else ''}raise NotImplementedError)"
        )
    if kind == "missing":
        raise NotWritten(
            f"work.py has no {words[0] if words else name}: keep the names that the handout gives"
        )
    if kind == "unfit":
        raise BadAnswer(f"{name} gave {words[0] if words else 'no value'}")
    if kind == "raised" and len(words) == 3:
        raise StudentException(words[0], words[1], words[2])
    raise _foreign_frame()


def _foreign_frame() -> StudentCrash:
    return StudentCrash(
        "its process wrote something of its own into the grader's pipe; print with print() only"
    )


def _with_coins(arguments: tuple[Any, ...]) -> list[Any]:
    return (
        list(arguments) if any(argument is COINS for argument in arguments) else [*arguments, COINS]
    )
