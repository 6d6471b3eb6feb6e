"""What all tests share: how they are dealt out among processes, and that none leaves its log
settings to the next."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

if TYPE_CHECKING:
    from small_disk import SmallDisk

# Before anybody imports numpy, here and in every program that a test starts. The matrices of tests
# are small, and threads that wait for each other on cores that all have work took a third of the
# time of tests that multiply them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

LONG = ("packaging", "labs", "system", "experiments", "shuffledp", "deploy")
"""Folders with long files, which begin first: the short ones then fill what is left of every
process's time.
"""


def pytest_xdist_auto_num_workers() -> int | None:
    """Two more processes than cores: what starts programs waits for them a good part of its time.

    PYTEST_XDIST_AUTO_NUM_WORKERS says another number, as everywhere.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return cores + 2


def pytest_configure(config: pytest.Config) -> None:
    """Name the test that leaves a transport open, not the one during which it is found."""
    from open_transports import watch_transports

    config.pluginmanager.register(watch_transports())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts whole folders; within them the order stays.

    With `--no-loadscope-reorder` files are dealt out in it.
    """
    tests = config.rootpath / "tests"

    @cache
    def rank(path: Path) -> int:
        folder = path.relative_to(tests).parts[0] if path.is_relative_to(tests) else ""
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=lambda item: rank(item.path))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, and keep them out of its sight afterwards.

    Thousands of tests and all imported modules stay until the end. To look through them again and
    again took a fifth of the time of collecting them, and 4% of that of running them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """An empty file system of 4 MiB below the test's folder.

    Skipped where this user may not mount one.
    """
    from small_disk import SmallDisk

    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a full disk needs a file system of its own: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """A command sets the log of its whole process up, which here is that of other tests, too."""
    yield
    structlog.reset_defaults()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Collect what a failed test left behind before the next test begins.

    Warnings are errors: an open socket in a frame of the failed test would otherwise fail a test
    that happens to run when the garbage collector finds it."""
    failed = item.session.testsfailed
    handled = yield
    if item.session.testsfailed > failed:
        for name in (
            "last_type",
            "last_value",
            "last_traceback",
            "last_exc",
        ):  # they keep the frames alive
            if hasattr(sys, name):
                delattr(sys, name)
        report = sys.unraisablehook
        sys.unraisablehook = lambda _: None
        try:
            gc.collect()
        finally:
            sys.unraisablehook = report
    return handled
