"""Every program of the project, and every worker process, leaves no core dump."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from shuffledp_core.runtime.workers import begin

PROGRAMS = (
    "shuffledp.cli",
    "shuffledp_accountant.cli",
    "shuffledp_analyst.cli",
    "shuffledp_client.cli",
    "shuffledp_client.gateway.cli",
    "shuffledp_shuffler.cli",
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")


SETTINGS = """(
    __import__("resource").getrlimit(__import__("resource").RLIMIT_CORE),
    __import__("ctypes").CDLL(None).prctl(3, 0, 0, 0, 0),
)"""
"""Limit of core dumps, soft and hard; and PR_GET_DUMPABLE."""

RUN_AND_CRASH = """
import os, resource, runpy, sys
_, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
sys.argv = ["program", "--version"]
try:
    runpy.run_module({program!r}, run_name="__main__")
except SystemExit:
    pass
print({settings}, flush=True)
os.abort()
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_crashes_leaves_no_core_dump(program: str, tmp_path: Path) -> None:
    """The program's own entry point runs, then the process aborts, in a shell that allows dumps."""
    script = RUN_AND_CRASH.format(settings=SETTINGS, program=program)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as stdout:
        printed = stdout.read()
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == -signal.SIGABRT
    assert not os.WCOREDUMP(status)
    assert printed.splitlines()[-1] == "((0, 0), 0)"


def test_workers_leave_no_core_dump_either() -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=begin) as pool:
        assert pool.submit(eval, SETTINGS).result() == ((0, 0), 0)
