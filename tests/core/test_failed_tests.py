"""A failed test fails alone."""

import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[1] / "conftest.py"

TWO_TESTS = """
import gc
import socket

def test_that_fails():
    left = [socket.socket()]
    left.append(left)
    raise AssertionError

def test_beside_it():
    gc.collect()
"""


def test_what_a_failed_test_leaves_open_fails_no_other_test(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_two.py").write_text(TWO_TESTS)
    options = [
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "--rootdir",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout
