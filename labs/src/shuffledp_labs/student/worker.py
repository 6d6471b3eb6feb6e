"""The worker in the sandbox that runs a student's program, with only the standard library.

Standard input and output carry frames; what the student prints goes to standard error. The first
frame is the limits, the second the program's source. Requests are answered one after another until
the pipe ends.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import linecache
import os
import sys
import types
from collections.abc import Callable
from fractions import Fraction
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING or __package__:
    from shuffledp_labs.student import wire
else:  # alone in the sandbox, where the package is not
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib imports slowly
    import wire

FILE: Final = "work.py"
FILES: Final = {FILE}
"""Of the student's: work.py, and the modules next to it that it has imported."""


class BranchCut(BaseException):
    """Raised to end a branch that is less likely than the grader follows.

    No student's `except Exception` catches it.
    """


class Pipe:
    """Frames to and from the grader."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._objects: list[Any] = []

    def send(self, *parts: Any) -> None:
        """Send one frame; `wire.WireError` if a part cannot be sent, and then nothing is."""
        frame = wire.pack(list(parts))
        # This process is ended, not left: what is still in the buffer of `print` then would be
        # lost.
        with contextlib.suppress(Exception):  # the student may have put anything in its place
            sys.stdout.flush()
        self._sink.write(frame)
        self._sink.flush()

    def receive(self) -> Any:
        """Wait for the next request; exit if the grader has gone."""
        head = self._source.read(wire.HEAD_BYTES)
        if len(head) < wire.HEAD_BYTES:
            os._exit(0)
        return wire.unpack(self._source.read(wire.length(head)), self._resolve, lists=True)

    def ask(self, *question: Any) -> Any:
        """Ask the grader something in the middle of a call."""
        self.send(*question)
        return self.receive()

    def keep(self, thing: Any) -> int:
        """Store an object in this process; return its handle."""
        self._objects.append(thing)
        return len(self._objects) - 1

    def _resolve(self, tag: str, content: Any) -> Any:
        if tag == "function":
            return self._remote(content)
        if tag == "handle":
            return self._objects[content]
        return wire.TaggedValue(tag, content)

    def _remote(self, number: int) -> Callable[..., Any]:
        def function(*arguments: Any) -> Any:
            return self.ask("callback", number, list(arguments))

        return function


class RemoteCoins:
    """Coins whose outcomes the grader decides, one request at a time.

    There is no other kind: a program cannot tell whether the answers are drawn or its law is
    walked.
    """

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def below(self, n: int) -> int:
        """A uniform whole number from 0 to n - 1."""
        return int(self._ask("below", checked_below(n)))

    def flip(self, p: Fraction) -> bool:
        """True with probability p."""
        return bool(self._ask("flip", checked_flip(p)))

    def flip_exp(self, g: Fraction) -> bool:
        """True with probability e^-g."""
        return bool(self._ask("flip_exp", checked_exp(g)))

    def _ask(self, kind: str, argument: Any) -> Any:
        answer = self._pipe.ask("coin", kind, argument)
        if isinstance(answer, wire.TaggedValue):
            raise BranchCut
        return answer


def checked_below(n: Any) -> int:
    """Check the bound of a draw; raise an error that explains a wrong one."""
    if isinstance(n, float) or n != int(n) or n < 1:
        raise ValueError(f"coins.below(n) takes a whole number n of at least 1, not {n!r}")
    return int(n)


def checked_flip(p: Any) -> Fraction:
    """Check the probability of a flip; raise an error that explains a wrong one."""
    exact = Fraction(p)
    if not 0 <= exact <= 1:
        raise ValueError(f"coins.flip(p) takes a probability from 0 to 1, not {p!r}")
    return exact


def checked_exp(g: Any) -> Fraction:
    """Check the exponent of a flip; raise an error that explains a wrong one."""
    exact = Fraction(g)
    if exact < 0:
        raise ValueError(
            f"coins.flip_exp(g) takes g of at least 0, not {g!r}: it is true with probability e^-g"
        )
    return exact


class Chance:
    """Detects randomness that a program takes from Python instead of its coins.

    A program that tosses a coin of its own once in a thousand runs would answer alike in most
    repetitions.
    """

    _NAMES = ("random", "numpy.random")

    def __init__(self) -> None:
        self._states: list[Any] = []
        self._taken = ""
        self._loaded: set[str] = set()
        self._urandom = os.urandom
        os.urandom = self._record_urandom

    def watch(self) -> None:
        """Record the states of all random number generators of `random` and numpy."""
        self._taken = ""
        module = sys.modules.get("random")
        if module is not None:
            vars(module)["_urandom"] = self._record_urandom
        self._states = self._now()
        self._new_ones(self._states)

    def find_used(self) -> str:
        """Name the randomness that was used since `watch`, or return ""."""
        now = self._now()
        if self._new_ones(now):
            # loading one draws, too, and says nothing of the program: every branch is walked again
            return ""
        moved = [
            name
            for name, old, new in zip(self._NAMES, self._states, now, strict=True)
            if old != new
        ]
        return moved[0] if moved else self._taken

    def _new_ones(self, states: list[Any]) -> set[str]:
        """The names of random number generators that were loaded since the last call."""
        new = {
            name for name, state in zip(self._NAMES, states, strict=True) if state is not None
        } - self._loaded
        self._loaded |= new
        return new

    def _record_urandom(self, size: int) -> bytes:
        self._taken = "os.urandom"
        return self._urandom(size)

    @staticmethod
    def _now() -> list[Any]:
        plain = sys.modules.get("random")
        numpy = sys.modules.get("numpy.random")
        return [
            plain.getstate() if plain is not None and hasattr(plain, "getstate") else None,
            _comparable(numpy.get_state())
            if numpy is not None and hasattr(numpy, "get_state")
            else None,
        ]


def _comparable(state: Any) -> tuple[Any, ...]:
    """State of numpy's old generator, with its array as bytes, for comparison."""
    return (state[1].tobytes(), *state[2:])


class Helpers(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the modules next to the student's work.py, from their source text."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname not in self._texts:
            return None
        return ModuleSpec(fullname, self, origin=f"{fullname}.py")

    def get_source(self, fullname: str) -> str:
        """See `importlib.abc.InspectLoader`."""
        return self._texts[fullname]

    def get_code(self, fullname: str) -> types.CodeType:
        """The module's code, so that tracebacks name its file and can show its lines."""
        file = f"{fullname}.py"
        text = self._texts[fullname]
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        FILES.add(file)
        return compile(text, file, "exec")

    def exec_module(self, module: types.ModuleType) -> None:
        """See `importlib.abc.InspectLoader`."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - this is what the process is for


class Program:
    """The student's module, and the requests to it."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._module: types.ModuleType | None = None
        self._chance = Chance()

    def load(self, source: str, helpers: dict[str, str]) -> None:
        """Run the student's file as a module.

        `helpers` are modules next to it, which it may import.
        """
        sys.meta_path.append(
            Helpers(helpers)
        )  # last: no module of the standard library is replaced
        module = types.ModuleType("work")
        module.__file__ = FILE
        sys.modules["work"] = module
        linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
        exec(compile(source, FILE, "exec"), module.__dict__)  # noqa: S102 - this is what the process is for
        self._module = module

    def serve(self, request: list[Any]) -> None:
        """Answer one request."""
        name, *arguments = request
        self._pipe.send(*getattr(self, f"do_{name}")(*arguments))

    def do_load(self, source: str, helpers: dict[str, str]) -> tuple[Any, ...]:
        """Load the student's source, the first request."""
        self.load(source, helpers)
        return ("done", None, "")

    def do_call(
        self, function: str, arguments: list[Any], named: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Call a student's function."""
        self._chance.watch()
        try:
            value = self._function(function)(
                *self._fill_all(arguments, RemoteCoins(self._pipe)), **named
            )
        except BranchCut:
            return ("cut",)
        return ("done", value, self._chance.find_used())

    def do_new(self, name: str, arguments: list[Any]) -> tuple[Any, ...]:
        """Create an object of a student's class, which stays in this process."""
        instance = self._function(name)(*self._fill_all(arguments, RemoteCoins(self._pipe)))
        return ("done", self._pipe.keep(instance), "")

    def do_method(self, thing: Any, name: str, arguments: list[Any]) -> tuple[Any, ...]:
        """Call a method of an object in this process."""
        method = getattr(thing, name, None)
        if method is None:
            return ("missing", f"{type(thing).__name__}.{name}")
        return ("done", method(*self._fill_all(arguments, RemoteCoins(self._pipe))), "")

    def _fill_all(self, arguments: list[Any], coins: Any) -> list[Any]:
        return [self._fill(argument, coins) for argument in arguments]

    def _fill(self, argument: Any, coins: Any) -> Any:
        if not isinstance(argument, wire.TaggedValue):
            return argument
        if argument.tag == "coins":
            return coins
        name, parts = argument.content
        return self._function(name)(*self._fill_all(parts, coins))

    def _function(self, name: str) -> Callable[..., Any]:
        function = getattr(self._module, name, None)
        if not callable(function):
            raise MissingError(name)
        return function  # type: ignore[no-any-return]


class MissingError(Exception):
    """The student's file has no function or class of this name."""


def where(error: BaseException) -> str:
    """The line of the student's files at which an exception was raised."""
    file, line = FILE, 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in FILES:
            file = trace.tb_frame.f_code.co_filename
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename in FILES:
        file = error.filename
        line = error.lineno or 0
    return f"{file}, line {line}: " if line else ""


def describe_error(error: BaseException) -> list[str]:
    """Describe a student's exception for the grader."""
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # noqa: BLE001 - the student's own __str__
        message = ""
    if isinstance(error, MemoryError):
        message = "more memory than a student's program may take"
    return ["raised", type(error).__name__, message[:2000], where(error)]


def answer(program: Program, pipe: Pipe) -> None:
    """Answer the next request, whatever the student's code raises."""
    request = pipe.receive()
    try:
        program.serve(request)
    except MissingError as error:
        pipe.send("missing", str(error))
    except wire.WireError as error:
        pipe.send("unfit", str(error))
    except NotImplementedError as error:
        pipe.send("unwritten", where(error))
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of the student's, too
        pipe.send(*describe_error(error))


def confine(root: str, user: int, limits: dict[str, int]) -> None:
    """Enter another root folder, user and limits, which child processes inherit.

    None of them can be undone. An empty root and user 0 leave the old ones.
    """
    import resource

    refuse_calls = _enter(root) if root else None
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            with contextlib.suppress(ValueError, OSError):  # macOS knows some that it does not set
                resource.setrlimit(kind, (value, value))
    if refuse_calls is not None:
        refuse_calls()


def _enter(root: str) -> Callable[[], None]:
    """Change the root folder.

    What refuses system calls is loaded before, and used after the change of user.
    """
    if TYPE_CHECKING or __package__:
        from shuffledp_labs.student import syscalls
    else:
        import syscalls

    os.chroot(root)
    os.chdir("/")
    sys.path_importer_cache.clear()  # it remembers folders that the new root has not
    return syscalls.refuse_calls


def main() -> None:
    """Answer requests until the grader closes the pipe."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints, and those of libraries, are no frames
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    pipe = Pipe(source, sink)
    confine(*pipe.receive())
    packages = sys.argv[1].split(os.pathsep)
    for folder in (os.path.dirname(os.__file__), *packages):  # noqa: PTH120
        os.listdir(folder)  # noqa: PTH208 - ends here where the new user may read no library
    os.chdir(os.environ["HOME"])
    pipe.send("ready")
    sys.path.extend(packages)
    program = Program(pipe)
    while True:
        answer(program, pipe)


if __name__ == "__main__":
    main()
