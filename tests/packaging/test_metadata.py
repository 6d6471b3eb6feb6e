"""What the wheels say of themselves, and the list of what is in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.backends.openssl import backend

ROOT = Path(__file__).parents[2]
UV = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())
    return found


WORKSPACE = project(ROOT)
MEMBERS: list[str] = WORKSPACE["tool"]["uv"]["workspace"]["members"]


@pytest.mark.parametrize("member", MEMBERS)
def test_every_package_has_the_one_version_licence_and_its_types(member: str) -> None:
    folder, said = ROOT / member, project(ROOT / member)["project"]
    assert said["version"] == WORKSPACE["project"]["version"], "`make version` sets all of them"
    ours = [name for name in said.get("dependencies", []) if name.startswith("shuffledp")]
    assert all(name.endswith(f"=={said['version']}") for name in ours), "releases are not mixed"
    assert said["license"] == "Apache-2.0"
    assert [(folder / name).read_bytes() for name in said["license-files"]] == [
        (ROOT / "LICENSE").read_bytes(),
        (ROOT / "NOTICE").read_bytes(),
    ]
    assert said["description"].endswith(".")
    assert said["name"] in (folder / said["readme"]).read_text()
    assert "Typing :: Typed" in said["classifiers"]
    assert "urls" not in said
    package = said["name"].replace("-", "_")
    assert (folder / "src" / package / "py.typed").is_file()


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {WORKSPACE['project']['version']}\n" in (ROOT / "CITATION.cff").read_text()


def exported(*options: str) -> set[tuple[str, str]]:
    """Name and version of all that uv would install from the lock of others' packages, by its other
    export."""
    command = [
        UV,
        "export",
        "--quiet",
        "--frozen",
        "--offline",
        "--no-dev",
        "--no-header",
        "--no-annotate",
        "--no-hashes",
    ]
    text = subprocess.run(
        [*command, *options], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    lines = (line.split(";")[0].strip() for line in text.splitlines() if "==" in line)
    return {(name.split("[")[0], version) for name, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize(
    "options",
    [
        ("--all-packages", "--all-extras"),
        ("--package", "shuffledp-accountant", "--extra", "postgres"),
        ("--package", "shuffledp"),
    ],
    ids=["wheels", "image", "library"],
)
def test_the_bill_of_materials_lists_what_is_installed_from_the_lock(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """CycloneDX 1.5, written as `make sbom` and the images do."""
    file = tmp_path / "sbom.cdx.json"
    script = ROOT / "deploy" / "sbom.sh"
    subprocess.run(["/bin/sh", script, file, *options], env={**os.environ, "UV": UV}, check=True)
    bill = json.loads(file.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    parts = [part for part in bill["components"] if not part["name"].startswith("shuffledp")]
    assert {(part["name"], part["version"]) for part in parts} == exported(*options)
    for part in parts:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert all(source["hashes"] for source in part["externalReferences"])
    check_libraries(parts)
    own = {part["name"] for part in bill["components"]} | {bill["metadata"]["component"]["name"]}
    assert {
        "shuffledp-core",
        options[1] if options[0] == "--package" else "shuffledp-adversary",
    } <= own
    references = {part["bom-ref"] for part in bill["components"]} | {
        bill["metadata"]["component"]["bom-ref"]
    }
    for link in bill["dependencies"]:
        assert {link["ref"], *link.get("dependsOn", [])} <= references


LIBRARIES = {
    "cryptography": {"OpenSSL"},
    "grpcio": {"BoringSSL", "zlib"},
    "numpy": {"OpenBLAS"},
    "psycopg-binary": {"OpenSSL", "libpq", "libkrb5"},
    "pynacl": {"libsodium"},
    "rbcl": {"libsodium"},
}
"""C libraries that wheels bring, by package."""


def check_libraries(parts: list[dict[str, Any]]) -> None:
    """The C libraries inside wheels: versions are those that the libraries, in other ways, report
    here."""
    searched = [
        part for part in parts if "components" in part
    ]  # of two versions in the lock the one installed here
    inside = {
        part["name"]: {one["name"]: one.get("version") for one in part["components"]}
        for part in searched
    }
    for name in LIBRARIES.keys() & {part["name"] for part in parts}:
        assert LIBRARIES[name] <= inside[name].keys(), name
    for name in {"pynacl", "rbcl"} & inside.keys():
        assert re.fullmatch(r"1\.\d+\.\d+\S*", inside[name]["libsodium"])
    assert f"OpenSSL {inside['cryptography']['OpenSSL']} " in backend.openssl_version_text()
    assert (
        inside["numpy"]["OpenBLAS"]
        in np.__config__.show(mode="dicts")["Build Dependencies"]["blas"]["version"]
    )
    assert all(one["properties"] for part in searched for one in part["components"])
