"""A deployment in containers, as tests see it: our own make targets and scripts, under a project name of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[2]
DEPLOY: Final = REPOSITORY / "deploy"

START_SECONDS: Final = 420
"""A bound on what starts or stops containers; a free machine needs about 30 s."""


def why_no_docker() -> str | None:
    """Why tests in containers cannot run here, or None."""
    if shutil.which("docker") is None or _run(["docker", "info"]).returncode != 0:
        return "no Docker engine answers"
    if _run(["docker", "image", "inspect", "shuffledp/sim:local"]).returncode != 0:
        return "the images are not built: make images"
    return None


def _run(command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


def run(command: Sequence[str], **environment: str) -> str:
    """The standard output of a command that must succeed."""
    done = _run(command, **environment)
    assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def until(reached: Callable[[], bool], what: str) -> None:
    """Asks again and again whether something has happened; fails when it has not within `START_SECONDS`."""
    deadline = time.monotonic() + START_SECONDS
    while not reached():
        assert time.monotonic() < deadline, f"not within {START_SECONDS} s: {what}"
        time.sleep(0.5)


@dataclass(frozen=True)
class Composed:
    """One deployment. `environment` goes to every command: overlays, numbers of users and fleets."""

    project: str
    environment: dict[str, str] = field(default_factory=dict)

    def compose(self, *arguments: str) -> str:
        """`deploy/compose.sh` with these arguments; its standard output."""
        return run(["sh", "deploy/compose.sh", *arguments], **self._all())

    def make(self, target: str) -> str:
        """`make TARGET`; its standard output."""
        return run(["make", target], **self._all())

    def round(self, *options: str) -> dict[str, Any]:
        """`deploy/round.sh`: the report of one round as its JSON object."""
        out = run(["sh", "deploy/round.sh", "--format", "json", *options], **self._all())
        answer: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return answer

    def containers(self, service: str) -> list[str]:
        """The ids of a service's containers."""
        return self.compose("ps", "-q", service).split()

    def inspect(self, service: str) -> dict[str, Any]:
        """What the engine says of a service's first container."""
        answer: list[dict[str, Any]] = json.loads(run(["docker", "inspect", self.containers(service)[0]]))
        return answer[0]

    def until_healthy(self, service: str) -> None:
        """Waits until a service's first container reports healthy."""
        until(lambda: self.inspect(service)["State"]["Health"]["Status"] == "healthy", f"{service} is healthy")

    def until_logged(self, container: str, pattern: str) -> str:
        """Waits for a line of a container's log with this regular expression; the line."""
        until(lambda: bool(re.search(pattern, self.logs(container))), f"{container} logs {pattern!r}")
        return next(line for line in self.logs(container).splitlines() if re.search(pattern, line))

    def python(self, service: str, code: str) -> str:
        """Runs Python in a service's container, as its user; the standard output."""
        return run(["docker", "exec", self.containers(service)[0], "python", "-c", code])

    def logs(self, container: str) -> str:
        """Both streams of a container's log."""
        done = _run(["docker", "logs", container])
        return done.stdout + done.stderr

    def remove(self) -> None:
        """Containers, networks and volumes."""
        self.compose("--profile", "operator", "down", "--volumes", "--remove-orphans")

    def _all(self) -> dict[str, str]:
        return {"COMPOSE_PROJECT_NAME": self.project, **self.environment}
