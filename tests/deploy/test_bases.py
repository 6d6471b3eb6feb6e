"""Images of others are named by digest: deploy/bases.sh with a program that answers as `docker`
does."""

import os
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKER = """#!/bin/sh
# `docker pull --quiet IMAGE`, `docker image inspect [--format F] IMAGE`: a registry with every image, none pulled yet.
for image; do :; done
name=${image%%@*}
here="$DOCKER_HERE/$(echo "$image" | tr / _)"
case $1 in
    pull) echo "$image" >>"$DOCKER_HERE/pulls"; touch "$here" ;;
    image) [ -e "$here" ] && echo "${name%%:*}@sha256:$(echo "$image" | sha256sum | cut -d' ' -f1)" ;;
esac
"""  # noqa: E501


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    settings = {
        "DOCKER_HERE": tmp_path,
        "IMAGES_LOCK": tmp_path / "lock",
        "ENV_IMAGES": tmp_path / "env",
    }
    kept = {name: value for name, value in os.environ.items() if name != "BASE_IMAGE"}
    return (
        kept
        | {name: str(value) for name, value in settings.items()}
        | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )


def bases(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(DEPLOY / "bases.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_without_a_pin_the_base_is_what_the_registry_gave_by_digest(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert bases(environment).returncode == 0
    assert (tmp_path / "pulls").read_text().split() == ["python:3.11-slim-bookworm"]
    (line,) = (tmp_path / "env").read_text().splitlines()
    assert line.startswith("BASE_IMAGE=python@sha256:")


def test_pinned_images_are_pulled_and_used_by_their_digests(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert bases(environment, "pin").returncode == 0
    lines = [line.split() for line in (tmp_path / "lock").read_text().splitlines()]
    pins = {variable: digest for variable, _, digest in lines}
    assert pins.keys() == {
        "BASE_IMAGE",
        "MOSQUITTO_IMAGE",
        "POSTGRES_IMAGE",
        "PROMETHEUS_IMAGE",
        "GRAFANA_IMAGE",
        "HAPROXY_IMAGE",
    }
    assert all("@sha256:" in digest for digest in pins.values())
    (tmp_path / "pulls").unlink()
    assert bases(environment).returncode == 0
    assert (tmp_path / "pulls").read_text().split() == [pins["BASE_IMAGE"]]
    assert dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines()) == pins


def test_a_pin_of_another_tag_than_that_of_the_sources_is_an_error(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "lock").write_text(
        f"MOSQUITTO_IMAGE eclipse-mosquitto:1.0 eclipse-mosquitto@sha256:{'0' * 64}\n"
    )
    done = bases(environment)
    assert done.returncode != 0
    assert "pins another tag than eclipse-mosquitto:2.0" in done.stderr
    assert not (tmp_path / "env").exists()


def test_a_base_that_was_named_is_taken_as_it_is(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert bases(environment | {"BASE_IMAGE": "mine:1"}).returncode == 0
    assert (tmp_path / "env").read_text() == "BASE_IMAGE=mine:1\n"
