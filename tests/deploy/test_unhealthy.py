"""What `make up` prints when a deployment does not become healthy. Needs an engine."""

import os
import secrets
import subprocess
from collections.abc import Iterator

import pytest
from composed import DEPLOY, run, until

pytestmark = pytest.mark.docker

IMAGE = "shuffledp/client:local"


@pytest.fixture
def project() -> Iterator[str]:
    name = f"unhealthy-{secrets.token_hex(4)}"
    yield name
    label = f"label=com.docker.compose.project={name}"
    for container in run(["docker", "ps", "--all", "--quiet", "--filter", label]).split():
        run(["docker", "rm", "--force", container])


def start(project: str, service: str, script: str, *options: str) -> str:
    """A container of a project, as compose labels it."""
    labels = [f"com.docker.compose.project={project}", f"com.docker.compose.service={service}"]
    named = [word for label in labels for word in ("--label", label)]
    command = ["docker", "run", "--detach", *named, *options, "--entrypoint", "sh"]
    return run([*command, IMAGE, "-c", script]).strip()


def explain(project: str) -> tuple[int, str]:
    """Exit code and output of `deploy/unhealthy.sh`."""
    command = ["/bin/sh", str(DEPLOY / "unhealthy.sh")]
    ended = subprocess.run(
        command,
        env=os.environ | {"COMPOSE_PROJECT_NAME": project},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return ended.returncode, ended.stderr


def state(container: str, field: str) -> str:
    return run(["docker", "inspect", "--format", f"{{{{.State.{field}}}}}", container]).strip()


def test_what_is_unhealthy_is_named_with_its_reason(project: str) -> None:
    fine = start(project, "broker", "sleep 600")
    keys = start(project, "keys", "echo made all keys")
    crashed = start(project, "node-1", "echo config.toml: unknown key >&2; exit 2")
    health = ("--health-cmd", "echo no roster yet; exit 1", "--health-interval", "1s")
    sick = start(project, "analyst", "sleep 600", *health, "--health-retries", "1")
    until(lambda: state(keys, "Status") == "exited", "the keys are made")
    until(lambda: state(crashed, "Status") == "exited", "the node has ended")
    until(lambda: state(sick, "Health.Status") == "unhealthy", "the health check has failed")
    code, words = explain(project)
    assert code == 1
    assert "node-1: exited, exit code 2\n    log: config.toml: unknown key\n" in words
    assert "analyst: running, unhealthy, exit code 0\n    health check: no roster yet\n" in words
    assert "keys" not in words
    assert "broker" not in words
    run(["docker", "rm", "--force", crashed, sick])
    assert state(fine, "Status") == "running"
    assert explain(project) == (0, "")
