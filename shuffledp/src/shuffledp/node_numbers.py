"""Parses the numbers of corrupt nodes, such as "1,3"."""

from __future__ import annotations

import re
from typing import Final

from shuffledp_core.errors import UsageError

_NUMBERS: Final = re.compile(r"\s*[0-9]{1,6}\s*(,\s*[0-9]{1,6}\s*)*")


def node_numbers(text: str | None, nodes: int, option: str) -> frozenset[int]:
    """Parse a list of node numbers such as "1,3"; None is an empty list.

    Args:
        text: the option as typed.
        nodes: mix nodes of the route, numbered from 1.
        option: the option's name, for the message.

    Raises:
        UsageError: anything else, a number out of 1..nodes, or one that is repeated.
    """
    if text is None or not text.strip():
        return frozenset()
    if not _NUMBERS.fullmatch(text):
        raise UsageError(f"{option} must be node numbers such as 1,3, not {text!r}")
    numbers = [int(part) for part in text.split(",")]
    for number in numbers:
        if not 1 <= number <= nodes:
            raise UsageError(
                f"{option} must be from 1 to {nodes}, the number of nodes, not {number}"
            )
        if numbers.count(number) > 1:
            raise UsageError(f"{option} names node {number} more than once: {text!r}")
    return frozenset(numbers)
