"""No check of docs/mixing.md is there for show: without it, one of the attacks ends otherwise.

The package and the attacks are copied under another name, with one check cut out of the source.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mixing_attacks import attacks
from mixing_cuts import CUT, without_check

import shuffledp_core.mixproof

PACKAGE = Path(shuffledp_core.mixproof.__file__).parent
TESTS = Path(__file__).parent
PARTS = (
    "mixing_model",
    "mixing_cheats",
    "mixing_couriers",
    "mixing_dummies",
    "mixing_false_claims",
    "mixing_spellings",
)
"""Modules of this folder that the attacks consist of."""


@pytest.fixture
def without(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The attacks against a copy of the package without one check."""
    where, old, new = CUT[request.param]
    name = "mixing_without_" + request.param.lower().replace(" ", "_")
    (tmp_path / name).mkdir()
    for file in (*PACKAGE.glob("*.py"), *TESTS.glob("mixing_*.py")):
        text = file.read_text()
        if file == PACKAGE / f"{where}.py":
            text = without_check(text, old, new)
        text = text.replace("shuffledp_core.mixproof", name)
        for module in PARTS:
            text = text.replace(f"from {module} import", f"from {name}.{module} import")
            text = text.replace(f"import {module} as", f"import {name}.{module} as")
        (tmp_path / name / file.name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(f"{name}.mixing_attacks")
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


@pytest.mark.parametrize("without", CUT, indirect=True, ids=CUT)
def test_without_the_check_an_attack_ends_otherwise(
    without: ModuleType, request: pytest.FixtureRequest
) -> None:
    check = request.node.callspec.id
    meant = {name: attack for name, attack in without.attacks().items() if check in attack.removed}
    assert meant
    ended = {name: without.outcome(attack.play) for name, attack in meant.items()}
    assert all(ended[name] != (attack.error, attack.party) for name, attack in meant.items()), ended


def test_every_attack_names_checks_that_are_cut_here() -> None:
    assert {check for attack in attacks().values() for check in attack.removed} == set(CUT)
