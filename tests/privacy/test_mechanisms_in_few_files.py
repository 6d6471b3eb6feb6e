"""A mechanism is named by its own two files; the lists of other places may only shrink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PRODUCT = [
    "accountant",
    "adversary",
    "analyst",
    "client",
    "core",
    "labs",
    "ops",
    "privacy",
    "shuffledp",
    "shuffler",
    "sim",
]

OWN = {
    "BloomRappor": "bloom",
    "DummyHistogram": "dummies",
    "HadamardHistogram": "hadamard",
    "LocalLaplace": "local_laplace",
    "NodeColumns": "node_columns",
    "NodeHistogram": "node_histogram",
    "NodeSum": "node_sum",
    "NodeTree": "node_tree",
    "QuantisedRR": "quantised",
    "SplitMix": "split",
}
"""Spec classes, and the name of their files in both folders of mechanisms."""

PUBLIC_NAMES = {
    "core/src/shuffledp_core/mechanisms/__init__.py",
    "shuffledp/src/shuffledp/__init__.py",
}
"""Lists of all mechanisms: their public names."""

ELSEWHERE = {
    "BloomRappor": set[str](),
    "DummyHistogram": set[str](),
    "HadamardHistogram": set[str](),
    "LocalLaplace": {"privacy/src/shuffledp_privacy/sums/local_laplace.py"},
    "NodeColumns": set[str](),
    "NodeHistogram": {
        "adversary/src/shuffledp_adversary/attacks/flood.py",
        "labs/src/shuffledp_labs/lab06_surrounded/rounds.py",
    },
    "NodeSum": set[str](),
    "NodeTree": set[str](),
    "QuantisedRR": {"privacy/src/shuffledp_privacy/sums/quantised.py"},
    "SplitMix": {
        "privacy/src/shuffledp_privacy/sums/split.py",
        "shuffledp/src/shuffledp/commands/asking.py",
        "shuffledp/src/shuffledp/commands/questions.py",
        "adversary/src/shuffledp_adversary/attacks/spoil.py",
    },
}
"""The mathematics, the options that are not fields, and attacks on these mechanisms."""


@pytest.mark.parametrize("name", OWN)
def test_a_mechanism_is_named_in_its_own_files_and_in_no_other_list(name: str) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in PRODUCT
        for path in (ROOT / folder / "src").rglob("*.py")
        if re.search(rf"\b{name}\b", path.read_text())
    }
    own = {
        f"core/src/shuffledp_core/mechanisms/{OWN[name]}.py",
        f"privacy/src/shuffledp_privacy/mechanisms/{OWN[name]}.py",
    }
    assert own <= files
    assert files - own - PUBLIC_NAMES == ELSEWHERE[name]
