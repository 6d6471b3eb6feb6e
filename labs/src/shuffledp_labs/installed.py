"""The installed labs; each is imported at its first use."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.lab import Lab

LABS: Final = {
    1: "lab01_lie_well",
    2: "lab02_wire",
    3: "lab03_node",
    4: "lab04_onion",
    5: "lab05_again",
    6: "lab06_surrounded",
    7: "lab07_cheats",
    8: "lab08_theorem",
    9: "lab09_liar",
    10: "lab10_spend",
    11: "lab11_always",
}
"""Packages by number."""


def numbers() -> tuple[int, ...]:
    """Numbers of the installed labs."""
    return tuple(number for number, name in LABS.items() if find_spec(f"{__package__}.{name}"))


def lab(number: int) -> Lab:
    """The lab with this number."""
    if number not in numbers():
        raise LabUsageError(
            f"there is no lab {number}: `shuffledp lab list` shows those that there are"
        )
    definition: Lab = import_module(f"{__package__}.{LABS[number]}").LAB
    return definition


def all_labs() -> Iterator[Lab]:
    """All installed labs, by number."""
    return map(lab, numbers())
