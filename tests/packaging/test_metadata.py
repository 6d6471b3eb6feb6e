"""What the wheels say of themselves, and the list of what is in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

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


def test_the_bill_of_materials_lists_what_the_lock_holds(tmp_path: Path) -> None:
    """CycloneDX 1.5, written as `make sbom` and the images do."""
    file = tmp_path / "sbom.cdx.json"
    subprocess.run(
        ["/bin/sh", ROOT / "deploy" / "sbom.sh", file, "--all-packages", "--all-extras"],
        env={**os.environ, "UV": UV},
        check=True,
    )
    bill = json.loads(file.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    locked = {(entry["name"], entry["version"]) for entry in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    parts = bill["components"]
    listed = {(part["name"], part["version"]) for part in parts}
    assert listed <= locked
    assert {name for name, _ in listed} >= {"numpy", "grpcio", "matplotlib", "pyarrow", "psycopg", "shuffledp-core"}
    assert not {name for name, _ in listed} & {"pytest", "mypy", "ruff"}
    references = {part["bom-ref"] for part in parts} | {bill["metadata"]["component"]["bom-ref"]}
    assert len(references) == len(parts) + 1
    for link in bill["dependencies"]:
        assert {link["ref"], *link.get("dependsOn", [])} <= references
    for part in parts:
        ours = part["name"].startswith("shuffledp")
        assert ours or part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert ours or all(source["hashes"] for source in part["externalReferences"])
