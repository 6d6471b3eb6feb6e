"""Vectors of samplers, and of what a device computes of a mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from vector_cases import (
    LABELLED,
    OPEN_LIST,
    Case,
    make_case,
    plain,
)
from vector_world import (
    derive,
)


def integers() -> Iterator[Case]:
    """Bytes to integers: rejection, bounds of every width, and the ends of blocks."""
    for name, bounds in {
        "small bounds": [1, 2, 3, 6, 10, 100, 128, 129, 255, 256] * 5,
        "two bytes and more": [257, 1000, 2**16, 2**16 + 1, 2**24 + 1, 2**32, 2**33 - 1] * 8,
        "beyond machine words": [2**63, 2**63 + 1, 2**64, 2**64 + 1, 3**50, 2**127 + 1] * 5,
        "two blocks, whose rest is dropped": [2**24 + 1] * 1500,
    }.items():
        fields = {
            "coins": derive("integers", name).hex(),
            "bounds": [str(bound) for bound in bounds],
        }
        yield make_case(name, "integers", fields)


WRONG_VALUES: Final[tuple[Any, ...]] = (-1, True, 0.5, "1", None)
"""Values that no mechanism asks for."""


def samplers() -> Iterator[Case]:
    """A value and coins give an answer and its symbols."""
    for label, mechanism in (LABELLED | {"node-columns of an open list": OPEN_LIST}).items():
        last = mechanism.domain - 1
        for value in sorted({0, 1, last // 2, last}):
            for number in range(4):
                fields = {
                    "mechanism": plain(mechanism),
                    "value": value,
                    "coins": derive("sample", label, value, number).hex(),
                }
                yield make_case(f"{label}, value {value}, coins {number}", "sample", fields)
        for wrong in (*WRONG_VALUES, mechanism.domain):
            fields = {
                "mechanism": plain(mechanism),
                "value": wrong,
                "coins": derive("sample", label).hex(),
            }
            yield make_case(f"{label}, value {wrong!r}", "sample", fields, "UsageError")


def laws() -> Iterator[Case]:
    """Draws of the exact samplers that mechanisms are made of."""
    for law, rational, whole in (
        ("bernoulli", "1/3", None),
        ("bernoulli", "123456789/987654323", None),
        ("bernoulli_exp", "1/3", None),
        ("bernoulli_exp", "7/2", None),
        ("geometric", "1/4", None),
        ("geometric", "1/1000003", None),
        ("geometric", "5/2", None),
        ("discrete_laplace", "1/4", None),
        ("bounded_laplace", "1/4", 3),
        ("geometric_share", "1/8", 10),
        ("sgdl", "1/8", 10),
    ):
        fields = {
            "law": law,
            "rational": rational,
            "whole": whole,
            "count": 60,
            "coins": derive("law", law, rational).hex(),
        }
        yield make_case(f"{law} of {rational}", "law", fields)


def numbers() -> Iterator[Case]:
    """What a device computes itself of a mechanism: ε_L, and δ of two neighbouring datasets."""
    for label, mechanism in LABELLED.items():
        for honest in (2, 90, 5000):
            for epsilon in (0.0, 0.1, 1.0):
                for distance in sorted({1, mechanism.domain - 1}):
                    fields = {
                        "mechanism": plain(mechanism),
                        "honest": honest,
                        "distance": distance,
                        "epsilon": epsilon,
                    }
                    name = f"{label}, {honest} honest, distance {distance}, ε {epsilon}"
                    yield make_case(name, "numbers", fields)
