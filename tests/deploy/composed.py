"""A deployment in containers, as tests see it: our own make targets and scripts, under a project
name of its own."""

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

WITH_PAGES: Final = bool(os.environ.get("NIGHTLY"))
"""Whether the deployment has the overlay `web`: its test in containers is for a schedule."""

FLEETS: Final = 4
USERS_OF_A_FLEET: Final = 251
USERS: Final = FLEETS * USERS_OF_A_FLEET
"""A number that stands on no page by chance."""

GRAFANA_IMAGE: Final = os.environ.get("GRAFANA_IMAGE", "grafana/grafana:11.6.0")

START_SECONDS: Final = 420
"""A bound on what starts or stops containers; a free machine needs about 30 s."""


def why_no_docker(component: str = "sim") -> str | None:
    """Why tests in containers, this component's among them, cannot run here, or None."""
    if shutil.which("docker") is None or _run(["docker", "info"]).returncode != 0:
        return "no Docker engine answers"
    if _run(["docker", "image", "inspect", f"shuffledp/{component}:local"]).returncode != 0:
        return "the images are not built: make images"
    return None


def has_grafana() -> bool:
    """Whether an image of Grafana is at hand; it is no Debian package."""
    return _run(["docker", "image", "inspect", GRAFANA_IMAGE]).returncode == 0


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
    assert done.returncode == 0, (
        f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


def until(reached: Callable[[], bool], what: str) -> None:
    """Asks again and again whether something has happened.

    Fails when it has not within `START_SECONDS`.
    """
    deadline = time.monotonic() + START_SECONDS
    while not reached():
        assert time.monotonic() < deadline, f"not within {START_SECONDS} s: {what}"
        time.sleep(0.5)


@dataclass(frozen=True)
class Composed:
    """One deployment.

    `environment` goes to every command: overlays, numbers of users and fleets.
    """

    project: str
    environment: dict[str, str] = field(default_factory=dict)

    def compose(self, *arguments: str) -> str:
        """`deploy/compose.sh` with these arguments; its standard output."""
        return run(["sh", "deploy/compose.sh", *arguments], **self._all())

    def make(self, target: str) -> str:
        """`make TARGET` with the images that are there; its standard output."""
        return run(["make", "--no-print-directory", "--assume-old=images", target], **self._all())

    def making(self, target: str, **variables: str) -> subprocess.Popen[str]:
        """`make TARGET` while something else happens, both streams piped; a context manager."""
        command = [
            "make",
            "--no-print-directory",
            "--assume-old=images",
            target,
            *(f"{name}={value}" for name, value in variables.items()),
        ]
        return subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=os.environ | self._all(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def round(self, *options: str) -> dict[str, Any]:
        """`deploy/round.sh`: the report of one round as its JSON object."""
        out = run(["sh", "deploy/round.sh", "--format", "json", *options], **self._all())
        answer: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return answer

    def containers(self, service: str) -> list[str]:
        """The ids of a service's containers, running or not.

        The engine is asked, which is faster than compose.
        """
        labels = {"project": self.project, "service": service, "oneoff": "False"}
        filters = [
            f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()
        ]
        return run(["docker", "ps", "--all", "--quiet", "--no-trunc", *filters]).split()

    def container(self, service: str) -> str:
        """The id of a service's only container."""
        (found,) = self.containers(service)
        return found

    def inspect(self, service: str) -> dict[str, Any]:
        """What the engine says of a service's first container."""
        answer: list[dict[str, Any]] = json.loads(
            run(["docker", "inspect", self.containers(service)[0]])
        )
        return answer[0]

    def until_healthy(self, service: str) -> None:
        """Waits until a service's first container reports healthy."""
        until(
            lambda: self.inspect(service)["State"]["Health"]["Status"] == "healthy",
            f"{service} is healthy",
        )

    def until_logged(self, container: str, pattern: str, since: float = 0.0) -> str:
        """Waits for a line of a container's log with this regular expression, written since then.

        The line.
        """

        def found() -> str | None:
            return next(
                (
                    line
                    for line in self.logs(container, since).splitlines()
                    if re.search(pattern, line)
                ),
                None,
            )

        until(lambda: found() is not None, f"{container} logs {pattern!r}")
        return str(found())

    def python(self, service: str, code: str) -> str:
        """Runs Python in a service's container, as its user; the standard output."""
        return run(["docker", "exec", self.containers(service)[0], "python", "-c", code])

    def logs(self, container: str, since: float = 0.0) -> str:
        """Both streams of a container's log, written since then (seconds since 1970 by this
        machine's clock)."""
        done = _run(["docker", "logs", "--since", f"{since:.6f}", container])
        return done.stdout + done.stderr

    def script(self, name: str, *arguments: str) -> str:
        """`deploy/NAME` with these arguments; its standard output."""
        return run(["sh", f"deploy/{name}", *arguments], **self._all())

    def remove(self) -> None:
        """Containers, networks and volumes."""
        self.compose("--profile", "operator", "down", "--volumes", "--remove-orphans")

    def _all(self) -> dict[str, str]:
        return {"COMPOSE_PROJECT_NAME": self.project, **self.environment}


@dataclass(frozen=True)
class FirstRound:
    """What `make round` printed, where it left its documents, and the result among them."""

    printed: str
    documents: Path
    result: dict[str, Any]

    @classmethod
    def of(cls, deployment: Composed) -> FirstRound:
        """Runs it, with all fleets."""
        before = set((REPOSITORY / "out").glob("*[0-9a-f]"))
        printed = deployment.make("round")
        (documents,) = set((REPOSITORY / "out").glob("*[0-9a-f]")) - before
        return cls(
            printed,
            documents,
            json.loads(json.loads((documents / "result.json").read_text())["body"]),
        )
