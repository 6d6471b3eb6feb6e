"""Programs that try everything: each costs its own check, with a sentence that helps, and nothing
is left behind.

The sandbox that works here is used; what only bubblewrap can keep away is asked where that works.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from program_for_tests import SOURCE

from shuffledp_labs.errors import (
    BadAnswer,
    LabUsageError,
    NotWritten,
    RandomnessElsewhere,
    StudentCrash,
    StudentException,
    StudentFault,
    StudentTimeout,
    TooLarge,
    TooWide,
)
from shuffledp_labs.instance import Draws
from shuffledp_labs.student import clock, pipes, sandbox
from shuffledp_labs.student import process as student_process
from shuffledp_labs.student.process import COINS, StudentProgram, fresh


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("student") / "work.py"
    place.write_text(SOURCE)
    return place


@pytest.fixture(scope="module")
def shared(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudentProgram]:
    """One process for all that leave it as it was."""
    with StudentProgram(file, tmp_path_factory.mktemp("scratch")) as program:
        yield program


@pytest.fixture
def program(file: Path, tmp_path: Path) -> Iterator[StudentProgram]:
    with StudentProgram(file, tmp_path) as own:
        yield own


def boxed(program: StudentProgram) -> bool:
    return program.box.startswith("bubblewrap")


def test_values_cross_both_ways_and_keep_their_types(shared: StudentProgram) -> None:
    values = (
        None,
        True,
        7,
        2**200,
        -(2**70),
        0.5,
        "ä",
        b"\x00\xff",
        Fraction(1, 3),
        (1, (2, {"a": 1, 3: b"x"})),
    )
    assert shared.call("kinds") == values
    assert shared.call("same", *values, named=[1, Fraction(2, 7)]) == (
        values,
        {"named": (1, Fraction(2, 7))},
    )
    assert shared.call("numpy_values") == (3, 0.5, (0, 1, 2), True)
    assert shared.call("seals", b"abc") == 51


def test_functions_and_objects_are_lent_over_the_pipe(shared: StudentProgram) -> None:
    assert shared.call("mapped", lambda value: value * value, [1, 2, 3]) == (1, 4, 9)
    store = shared.new("Store", 5)
    assert shared.method(store, "add", 3) == 8
    assert shared.call("look", store) == 8
    assert shared.method(store, "chance", COINS, coins=Draws(b"a")) in {0, 1}
    with pytest.raises(NotWritten, match=r"Store\.subtract"):
        shared.method(store, "subtract", 1)


def test_a_grader_s_own_error_in_a_lent_function_is_no_fault_of_the_student(
    program: StudentProgram,
) -> None:
    def broken(value: int) -> int:
        raise KeyError(value)

    with pytest.raises(KeyError):
        program.call("mapped", broken, [1])
    assert program.call("divide", 4, 2) == 2


def test_a_lent_function_called_with_other_values_than_it_takes_is_the_callers_fault(
    program: StudentProgram,
) -> None:
    def certified(honest: int) -> float:
        return 1 / honest

    with pytest.raises(
        StudentFault,
        match=r"^misuse: it called certified with 2 values, but that function takes \(honest\)$",
    ):
        program.call("misuse", certified, 2)
    with pytest.raises(
        StudentFault, match=r"it called the function that it was given with 1 value, .* \(a, b\)$"
    ):
        program.call("misuse", lambda a, b: a + b, 1)
    assert (
        program.call("divide", 4, 2) == 2
    )  # its call was given up, and is not mixed up with the next one


def test_a_type_error_inside_a_lent_function_stays_the_graders(program: StudentProgram) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        program.call("mapped", lambda value: value + "", [1])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (("stub",), NotWritten, "stub is not written yet"),
        (("nowhere",), NotWritten, r"work\.py has no nowhere"),
        (
            ("divide", 1, 0),
            StudentException,
            r"work\.py, line \d+: ZeroDivisionError: division by zero",
        ),
        (("divide", 1), StudentException, "missing 1 required positional argument"),
        (("refuse",), StudentException, "this value is refused"),
        (("leave",), StudentException, "SystemExit"),
        (("memory",), StudentException, "more memory than"),
        (("strange",), BadAnswer, "a value of type object"),
        (("keyed",), BadAnswer, "keys are text or whole numbers"),
        (("deep",), BadAnswer, "nested deeper than 20"),
        (("huge",), BadAnswer, "bytes; the limit is 16,777,216"),
        (("unspeakable",), StudentException, "Odd"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_fault_in_a_call_says_what_to_do_and_the_next_call_works(
    shared: StudentProgram, call: tuple[Any, ...], error: type[StudentFault], words: str
) -> None:
    with pytest.raises(error, match=words):
        shared.call(*call)
    assert shared.call("divide", 4, 2) == 2


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("crash", StudentCrash, r"crash: its process is gone .* by exit\(\)"),
        ("killed", StudentCrash, "is gone in the middle of a call"),
        ("flood", StudentCrash, "printed more than 16 MiB"),
        ("endless", StudentTimeout, "a loop that does not end"),
    ],
)
def test_a_process_that_ends_or_is_ended_is_replaced_by_a_fresh_one(
    program: StudentProgram, name: str, error: type[StudentFault], words: str
) -> None:
    seconds = 1.0 if error is StudentTimeout else 120.0
    with pytest.raises(error, match=words):
        program.call(name, seconds=seconds)
    assert program.call("divide", 4, 2) == 2


def test_a_folder_that_was_filled_is_told_and_stays_full(program: StudentProgram) -> None:
    for name in ("fill", "stub"):
        with pytest.raises(StudentCrash, match="wrote more than 256 MiB"):
            program.call(name, seconds=120)


def test_prints_are_kept_for_the_student_and_are_no_answers(program: StudentProgram) -> None:
    assert program.call("talk") == 1
    program.close()
    assert "a word" in program.output
    assert "straight to the pipe" in program.output


def test_a_print_without_a_flush_is_kept_too(program: StudentProgram) -> None:
    assert program.call("murmur") == 1
    program.close()
    assert program.output == "seven users\nand no end of line"


def test_a_program_that_takes_its_own_output_away_still_answers(program: StudentProgram) -> None:
    assert [program.call(name) for name in ("mute", "mute")] == [1, 1]


def test_what_the_sandbox_refuses_is_told_to_be_refused_by_it() -> None:
    assert "no network" in str(StudentException("URLError", "name resolution", "work.py, line 3: "))
    assert "no network" not in str(StudentException("ValueError", "4 is no answer"))


def test_a_frame_of_its_own_is_only_its_own_answer(program: StudentProgram) -> None:
    """Whoever writes into the pipe answers the grader's question: with a value that is then judged
    as any other.

    Its real answer is then the next question's: it deceives nobody but itself.
    """
    assert program.call("forge") == 75
    assert program.call("divide", 4, 2) == 0


def test_nothing_but_its_folder_can_be_written_and_no_network_reached(
    program: StudentProgram,
) -> None:
    if not boxed(program):
        pytest.skip("bubblewrap does not work here")
    seen, cwd, own = program.call("files")
    assert (cwd, own) == ("/scratch", ())
    interpreter = Path(sys.base_prefix).resolve().parts[1]
    assert not ({"home", "work", "var", "srv", "mnt", "opt", "run"} - {interpreter}) & set(seen)
    assert program.call("write", "mine.txt", 100)
    assert (program.scratch / "mine.txt").stat().st_size == 100
    for place in ("/usr/x", "/box/worker.py", "/x", "/dev/x", "/etc/x"):
        with pytest.raises(StudentException, match=r"OSError|PermissionError|FileNotFoundError"):
            program.call("write", place, 1)
    with pytest.raises(StudentException, match=r"OSError|ConnectionRefusedError"):
        program.call("connect")
    for place in (
        student_process.__file__,
        str(Path.home() / ".bashrc"),
        "/etc/passwd",
        str(Path(__file__)),
    ):
        with pytest.raises(StudentException, match=r"FileNotFoundError|PermissionError"):
            program.call("read", place)
    assert not [
        name
        for name in program.call("environment")
        if name not in {*sandbox._VARIABLES, "HOME", "PWD"}
    ]


def test_a_large_file_ends_at_its_limit(program: StudentProgram) -> None:
    with pytest.raises(StudentFault):
        program.call("write", "large.bin", 70_000_000)
    assert program.call("divide", 4, 2) == 2


def test_processes_that_it_starts_are_few_and_end_with_it(program: StudentProgram) -> None:
    if program.box == "none":
        pytest.skip("without a sandbox the limit is on all processes of the user")
    if program.box == "bubblewrap" and os.geteuid() == 0:
        pytest.skip("root's processes are not limited without another user")
    assert program.call("forks", seconds=60) < 64
    keeper = program._process._keeper if program._process else None
    program.close()
    assert keeper is not None
    assert keeper.returncode is not None
    assert not left_over(program.scratch)


def left_over(scratch: Path) -> list[int]:
    """Processes whose current folder, as the kernel sees it, is below a scratch folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve().is_relative_to(scratch) or str(scratch).encode() in (
                entry / "cmdline"
            ).read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


GRADER = """
import signal
import sys
import tempfile
from pathlib import Path
from shuffledp_labs.student.process import StudentProgram
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
tempfile.tempdir = sys.argv[2]
program = StudentProgram(Path(sys.argv[1]), Path(tempfile.mkdtemp(prefix="shuffledp-lab-")))
program.call("divide", 4, 2)
print("started", flush=True)
program.call(sys.argv[3], seconds=600)
signal.pause()  # `forks` returns when it may start no more processes
"""  # noqa: E501


@pytest.mark.parametrize("name", ["endless", "forks"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_grader_is_ended_in_mid_call(
    file: Path, tmp_path: Path, name: str, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", GRADER, str(file), str(tmp_path), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as grader:
        assert grader.stdout is not None
        assert grader.stdout.readline() == b"started\n"
        assert left_over(tmp_path)
        grader.send_signal(number)
        grader.wait()
    deadline = time.monotonic() + 240
    erased = number == signal.SIGKILL  # else it is the grader's own to erase
    while (
        left_over(tmp_path) or (erased and any(tmp_path.iterdir()))
    ) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left_over(tmp_path)
    assert not (erased and list(tmp_path.iterdir()))


@pytest.mark.parametrize("box", ["none", "bubblewrap"])
def test_every_box_that_works_here_runs_programs(
    file: Path, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`user` has tests of its own."""
    monkeypatch.setenv("SHUFFLEDP_LAB_BOX", box)
    monkeypatch.setattr(pipes, "_working", [])
    with ExitStack() as stack:
        try:
            scratch = stack.enter_context(pipes.scratch_folder())
        except pipes.BoxError as error:
            pytest.skip(str(error))
        program = stack.enter_context(StudentProgram(file, scratch))
        assert program.box == box
        assert program.call("divide", 4, 2) == 2
        with pytest.raises(StudentCrash):
            program.call("crash")
        assert program.call("divide", 4, 2) == 2


def test_a_killed_program_starts_again_in_the_same_folder_without_its_objects(
    program: StudentProgram,
) -> None:
    program.call("write", "kept.txt", 3)
    store = program.new("Store", 1)
    program.kill()
    assert program.call("files")[2] == ("kept.txt",)
    with pytest.raises(ValueError, match="make a new one"):
        program.method(store, "add", 1)


def test_a_program_cannot_tell_whether_its_law_is_walked_or_its_coins_are_real(
    program: StudentProgram,
) -> None:
    walked = program.law("surroundings").of
    sampled = program.sample("surroundings", coins=Draws(b"a"))
    assert list(walked) == [sampled]


def test_a_program_may_name_a_file_at_random_where_its_coins_are_drawn(
    program: StudentProgram,
) -> None:
    assert program.sample("by_file", coins=Draws(b"a")) in {0, 1}


def test_a_byte_order_mark_and_other_ends_of_lines_are_no_part_of_the_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "work.py").write_bytes(b"\xef\xbb\xbfdef two():\r\n    return 2\r\n")
    with pipes.scratch_folder() as scratch, StudentProgram(tmp_path / "work.py", scratch) as own:
        assert own.call("two") == 2


def test_modules_beside_work_are_imported_and_replace_none_of_pythons(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "import helper, random\n\ntwo, broken = helper.two, helper.broken\nnumber = "
        "random.randint\n"
    )
    (tmp_path / "helper.py").write_text(
        "import other\n\n\ndef two():\n    return other.ONE + 1\n\n\ndef broken():\n    1 / 0\n"
    )
    (tmp_path / "other.py").write_text("ONE = 1\n")
    (tmp_path / "random.py").write_text("")
    with pipes.scratch_folder() as scratch, StudentProgram(tmp_path / "work.py", scratch) as own:
        assert own.call("two") == 2
        assert own.call("number", 3, 3) == 3
        with pytest.raises(StudentException, match=r"helper\.py, line 9: ZeroDivisionError"):
            own.call("broken")


def test_too_many_modules_and_links_to_others_files_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("import secret\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.py").write_text("")
    (tmp_path / "secret.py").symlink_to(tmp_path / "elsewhere" / "secret.py")
    with pipes.scratch_folder() as scratch, StudentProgram(tmp_path / "work.py", scratch) as own:
        with pytest.raises(StudentException, match="No module named 'secret'"):
            own.call("f")
        for number in range(21):
            (tmp_path / f"part{number}.py").write_text("")
        with pytest.raises(LabUsageError, match=r"21 Python files beside work\.py"):
            own.call("f")


def test_two_programs_over_one_folder_live_and_die_apart(
    program: StudentProgram, file: Path
) -> None:
    with StudentProgram(file, program.scratch) as other:
        program.call("write", "one.txt", 3)
        store = other.new("Store", 1)
        assert other.call("write", "one.txt", 5)  # both may write what either has written
        program.kill()
        assert other.method(store, "add", 1) == 2
        assert program.call("files")[2] == ("one.txt",)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("def f(:\n", StudentException, r"work\.py, line 1: SyntaxError"),
        ("import nowhere_at_all\n", StudentException, "No module named"),
        ("raise SystemExit\n", StudentException, "SystemExit"),
        ("import os; os._exit(0)\n", StudentCrash, "is gone"),
        ("x = 1\x00\n", StudentException, "null byte"),
        ("", NotWritten, r"work\.py has no f"),
        ("f = 3\n", NotWritten, r"work\.py has no f"),
    ],
    ids=["syntax", "import", "exit", "crash", "null", "empty", "number"],
)
def test_a_file_that_cannot_be_run_is_told_in_a_sentence(
    tmp_path: Path, text: str, error: type[StudentFault], words: str
) -> None:
    (tmp_path / "work.py").write_text(text)
    (tmp_path / "scratch").mkdir()
    with (
        StudentProgram(tmp_path / "work.py", tmp_path / "scratch") as own,
        pytest.raises(error, match=words),
    ):
        own.call("f")


def test_an_import_that_does_not_end_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(student_process, "START_SECONDS", 0.5)
    file, words = (
        tmp_path / "work.py",
        r"^work\.py does not end when it is imported: is there a loop",
    )
    file.write_text(f"# {tmp_path}\nwhile True:\n    pass\n")
    with StudentProgram(file, tmp_path) as program, pytest.raises(StudentTimeout, match=words):
        program.call("f")
    with monkeypatch.context() as without:
        without.setattr(
            student_process, "start_process", lambda _: pytest.fail("it was started again")
        )
        with StudentProgram(file, tmp_path) as again, pytest.raises(StudentTimeout, match=words):
            again.call("f")
    monkeypatch.setattr(student_process, "START_SECONDS", 60.0)
    file.write_text("def f():\n    return 1\n")
    with StudentProgram(file, tmp_path) as mended:
        assert mended.call("f") == 1


def test_an_import_that_had_no_time_left_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "work.py"
    file.write_text(f"# {tmp_path}\nimport time\ntime.sleep(0.5)\ndef f():\n    return 1\n")
    with (
        StudentProgram(file, tmp_path, until=clock.now() + 0.1) as late,
        pytest.raises(StudentTimeout),
    ):
        late.call("f")
    with StudentProgram(file, tmp_path) as program:
        assert program.call("f") == 1


def test_waits_for_a_processor_are_not_a_programs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that slept for longer than it may would have waited all that time."""
    file = tmp_path / "work.py"
    file.write_text("import time\ndef f():\n    time.sleep(0.5)\n    return 1\n")
    with StudentProgram(file, tmp_path) as program, pytest.raises(StudentTimeout):
        program.call("f", seconds=0.2)
    monkeypatch.setattr(clock, "processor_wait", lambda _: time.monotonic())
    with StudentProgram(file, tmp_path) as program:
        assert program.call("f", seconds=0.2) == 1


def test_a_program_that_never_ends_is_ended_however_long_it_has_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "work.py"
    file.write_text("def f():\n    while True:\n        pass\n")
    monkeypatch.setattr(clock, "processor_wait", lambda _: 100.0 * time.monotonic())
    with StudentProgram(file, tmp_path) as program, pytest.raises(StudentTimeout):
        program.call("f", seconds=0.2)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell")
def test_a_process_beside_another_one_on_its_processor_is_seen_to_wait() -> None:
    spin = (
        f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True: pass"
    )
    with ExitStack() as stack:
        processes = []
        for _ in range(2):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", spin]))
            stack.callback(process.kill)
            processes.append(process)
        before = clock.processor_wait(processes[0].pid)
        while clock.processor_wait(processes[0].pid) < before + 0.05:
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: None, "cannot be read"),
        (lambda file: file.mkdir(), "cannot be read"),
        (lambda file: file.write_bytes(b"# \xff\xfe\n"), "not UTF-8"),
        (lambda file: file.write_bytes(b"#" * 2_000_000), "larger than"),
    ],
    ids=["missing", "folder", "latin", "long"],
)
def test_a_file_that_cannot_be_read_is_told_in_a_sentence(
    tmp_path: Path, make: Callable[[Path], Any], words: str
) -> None:
    make(tmp_path / "work.py")
    with (
        StudentProgram(tmp_path / "work.py", tmp_path) as own,
        pytest.raises(LabUsageError, match=words),
    ):
        own.call("f")


def test_a_law_is_the_sum_of_all_branches(shared: StudentProgram) -> None:
    law = shared.law("krr", 4, Fraction(3, 7), 1)
    assert law.of == {
        0: Fraction(3, 28),
        1: Fraction(19, 28),
        2: Fraction(3, 28),
        3: Fraction(3, 28),
    }
    assert (law.exact, law.lost, law.leaves) == (True, 0, 5)
    assert shared.law("sure").of == {(True, False, True, 0): 1}
    assert shared.law("middle", COINS, 5).of == {5: Fraction(1, 2), 6: Fraction(1, 2)}
    assert shared.law("stored", fresh("Store", 10)).of == {10: Fraction(1, 2), 11: Fraction(1, 2)}


def test_a_law_of_exponentials_says_what_was_not_followed(shared: StudentProgram) -> None:
    law = shared.law("laplace", Fraction(1), floor=Fraction(1, 10**6))
    assert not law.exact
    assert 0 < law.lost < 1e-5
    assert law.of[0] == pytest.approx(0.6321205588285577, rel=1e-12)
    assert law.of[3] == pytest.approx(0.6321205588285577 * 0.049787068367863944, rel=1e-12)
    law = shared.law("unending", floor=Fraction(1, 1000))
    assert law.of[1] + law.lost == 1


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("wide", TooWide, r"wide: coins\.below\(9007199254740992\) has too many branches"),
        ("large", TooLarge, "large: more than 500 different runs"),
        ("unhashable", BadAnswer, "a dict in it"),
        ("bad_flip", StudentException, "a probability from 0 to 1"),
        ("by_random", RandomnessElsewhere, "by_random: it used random"),
        ("by_loading_again", RandomnessElsewhere, "it used random"),
        ("by_numpy", RandomnessElsewhere, r"it used numpy\.random"),
        ("by_system", RandomnessElsewhere, r"it used os\.urandom"),
        ("remembers", RandomnessElsewhere, "nothing may be remembered"),
        ("stub", StudentException, "takes 0 positional arguments"),
    ],
)
def test_what_is_no_function_of_its_coins_has_no_law(
    shared: StudentProgram, name: str, error: type[StudentFault], words: str
) -> None:
    with pytest.raises(error, match=words):
        shared.law(name, leaves=500)


def test_a_sample_follows_the_draws_that_answer_its_coins(shared: StudentProgram) -> None:
    first, again = (
        [
            shared.sample("krr", 5, Fraction(1, 2), 3, coins=Draws(b"seed").child(str(turn)))
            for turn in range(40)
        ]
        for _ in range(2)
    )
    assert first == again
    assert len(set(first)) > 1  # all alike with probability below 2^-39


def test_a_library_that_is_loaded_in_the_midst_of_a_run_is_no_randomness(
    program: StudentProgram,
) -> None:
    """The first run of a fresh process loads `random`, which the runs after it only find."""
    law = program.law("by_loading")
    assert law.of == {0: Fraction(1, 2), 1: Fraction(1, 2)}
