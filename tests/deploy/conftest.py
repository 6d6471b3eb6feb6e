"""Tests in containers run where an engine answers and the images are built; elsewhere they are skipped and say why."""

import pytest
from composed import why_no_docker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is marked `docker` where it cannot run; the engine is asked once, and only if there is such a test."""
    marked = [item for item in items if item.get_closest_marker("docker")]
    reason = why_no_docker() if marked else None
    for item in marked if reason else ():
        item.add_marker(pytest.mark.skip(reason=str(reason)))
