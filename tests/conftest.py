"""What all tests share: how they are dealt out among processes, and that none leaves its log settings to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import structlog

# Before anybody imports numpy, here and in every program that a test starts. The matrices of tests are small, and
# threads that wait for each other on cores that all have work took a third of the time of tests that multiply them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

LONG = ("packaging", "labs", "system", "experiments", "shuffledp", "deploy")
"""Folders with long files, which begin first: the short ones then fill what is left of every process's time."""


def pytest_xdist_auto_num_workers() -> int | None:
    """Two more processes than cores: what starts programs waits for them a good part of its time.

    PYTEST_XDIST_AUTO_NUM_WORKERS says another number, as everywhere.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts whole folders; within them the order stays. With `--no-loadscope-reorder` files are dealt out in it."""
    tests = config.rootpath / "tests"

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(tests).parts[0] if item.path.is_relative_to(tests) else ""
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=rank)


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """A command sets the log of its whole process up, which here is that of other tests, too."""
    yield
    structlog.reset_defaults()
