"""Random changes to the data that parties of a verified round send.

They change any field or bit, or records while keeping the sum of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any, TypeVar

from shuffledp_core.mixproof.group import WIDTH, Element, Scalar, minus, multiply, total

ValueT = TypeVar("ValueT")


def flip_bit(data: bytes, draw: Random) -> bytes:
    """The bytes with one random bit flipped; unchanged if there are none."""
    at = draw.randrange(8 * len(data)) if data else 0
    return bytes(byte ^ (1 << at % 8 if index == at // 8 else 0) for index, byte in enumerate(data))


def change_field(value: ValueT, draw: Random) -> ValueT:
    """A dataclass instance with one field changed: a bit of bytes, a number, or a path."""
    given: Any = value
    name = draw.choice(
        [part.name for part in fields(given) if getattr(value, part.name) not in {b"", ()}]
    )
    old = getattr(value, name)
    changes: dict[type, Callable[[], object]] = {
        int: lambda: (old + draw.choice([1, -1, 5])) % 2**16,
        tuple: lambda: (
            old[:-1] if draw.random() < 0.3 else tuple(flip_bit(part, draw) for part in old)
        ),
        bytes: lambda: flip_bit(old, draw),
    }
    changed: ValueT = replace(given, **{name: changes[type(old)]()})
    return changed


def change_records(records: Sequence[bytes], draw: Random) -> list[bytes]:
    """Change one or two of at least two records, with or without keeping the sum of the keys."""
    changed = list(records)
    (first, second) = draw.sample(range(len(records)), 2)
    keys = Element(records[first][:WIDTH]), Element(records[second][:WIDTH])
    other = multiply(Scalar(draw.randrange(2, 2**200).to_bytes(WIDTH, "little")), keys[0])
    boxes = records[first][WIDTH:], records[second][WIDTH:]
    changes: list[Callable[[], object]] = [
        lambda: changed.__setitem__(first, flip_bit(changed[first], draw)),
        lambda: changed.__setitem__(first, changed[second]),
        lambda: changed.pop(first),
        lambda: changed.append(changed[first]),
        lambda: changed.__setitem__(first, other + boxes[0]),
        lambda: changed.__setitem__(first, keys[0] + boxes[1]),  # the box of another record
        lambda: (
            changed.__setitem__(first, other + boxes[0]),
            changed.__setitem__(second, minus(total(keys), other) + boxes[1]),
        ),
        lambda: (
            changed.__setitem__(first, keys[0] + boxes[1]),
            changed.__setitem__(second, keys[1] + boxes[0]),
        ),
    ]
    draw.choice(changes)()
    return changed
