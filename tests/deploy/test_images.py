"""What is in an image, and what is not. Needs an engine and the images; about 20 s."""

import json
import os
from typing import Any

import pytest
from composed import run

pytestmark = pytest.mark.docker

PARTS = {
    "shuffler": {"shuffledp_proto", "shuffledp_core", "shuffledp_shuffler"},
    "client": {"shuffledp_proto", "shuffledp_core", "shuffledp_client"},
    "gateway": {"shuffledp_proto", "shuffledp_core", "shuffledp_client"},
    "analyst": {"shuffledp_proto", "shuffledp_core", "shuffledp_analyst"},
    "accountant": {"shuffledp_proto", "shuffledp_core", "shuffledp_privacy",
    "shuffledp_accountant"},
    "sim": {
        "shuffledp_proto", "shuffledp_core", "shuffledp_shuffler", "shuffledp_client",
        "shuffledp_analyst",
        "shuffledp_accountant", "shuffledp_privacy", "shuffledp_ops", "shuffledp_sim",
        "shuffledp_adversary",
        "shuffledp_labs", "shuffledp_experiments",
    },
}  # fmt: skip
PACKAGES = {"sim": "shuffledp", "gateway": "shuffledp-client"}
"""As deploy/images.sh installs; of all others it is shuffledp-COMPONENT."""
PROBES = {
    **dict.fromkeys(("shuffler", "analyst", "accountant"), "shuffledp_core.transport.probe"),
    "gateway": "shuffledp_client.gateway.probe",
}

LOOK = """
import importlib.metadata, json, os, pathlib, shutil
print(json.dumps({
    "versions": {d.metadata["Name"].lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()},
    "ours": sorted({p.name for p in pathlib.Path("/opt/shuffledp").rglob("shuffledp_*") if p.is_dir()
                    and p.suffix != ".dist-info"}),
    "uid": os.getuid(),
    "programs": [p for p in ("pip", "pip3", "gcc", "cc", "make", "git", "uv", "curl") if shutil.which(p)],
    "writable": [p for p in ("/", "/opt", "/opt/shuffledp", "/usr", "/etc") if os.access(p, os.W_OK)],
}))
"""  # noqa: E501


@pytest.fixture(scope="module", params=sorted(PARTS))
def image(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A component, and what its image says of itself from the inside."""
    command = [
        "docker",
        "run",
        "--rm",
        "--network",
        "none",
        "--read-only",
        "--entrypoint",
        "python",
    ]
    return request.param, json.loads(
        run([*command, f"shuffledp/{request.param}:local", "-c", LOOK])
    )


def test_an_image_holds_its_component_and_no_other(image: tuple[str, dict[str, Any]]) -> None:
    component, inside = image
    assert set(inside["ours"]) == PARTS[component]


def test_only_experiments_bring_scipy(image: tuple[str, dict[str, Any]]) -> None:
    component, inside = image
    assert ("scipy" in inside["versions"]) == ("shuffledp_experiments" in PARTS[component])
    assert "numpy" in inside["versions"]


def test_nobody_is_root_and_nothing_installs_or_builds(image: tuple[str, dict[str, Any]]) -> None:
    _, inside = image
    assert inside["uid"] == 10001
    assert inside["programs"] == []
    assert inside["writable"] == []
    assert not {"pip", "setuptools", "wheel"} & inside["versions"].keys()


def test_versions_are_those_of_the_lock(image: tuple[str, dict[str, Any]]) -> None:
    component, inside = image
    package = PACKAGES.get(component, f"shuffledp-{component}")
    exported = run(
        [os.environ.get("UV", "uv"), "export", "--quiet", "--frozen", "--no-dev", "--no-hashes",
        "--no-header",
         "--no-annotate", "--no-emit-workspace", "--all-extras", "--package", package]
    )  # fmt: skip
    locked = {
        tuple(line.split(" ;")[0].split("==")) for line in exported.splitlines() if "==" in line
    }
    theirs = {
        (name, version)
        for name, version in inside["versions"].items()
        if not name.startswith("shuffledp")
    }
    assert theirs <= locked


def test_labels_say_what_it_is(image: tuple[str, dict[str, Any]]) -> None:
    component, inside = image
    config = json.loads(run(["docker", "image", "inspect", f"shuffledp/{component}:local"]))[0][
        "Config"
    ]
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items()}
    assert labels["title"] == f"shuffledp-{component}"
    assert labels["version"] == inside["versions"]["shuffledp-core"]
    assert len(labels["revision"]) == 40 or labels["revision"] == "unknown"
    asked = config["Healthcheck"]["Test"]
    assert PROBES[component] in asked if component in PROBES else asked == ["NONE"]
