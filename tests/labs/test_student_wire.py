"""Frames between grader and student: every value comes back as it was, long lists at little
cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_labs.student import wire

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.binary(max_size=5),
    st.fractions(),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text(), inner)
    ),
    max_leaves=20,
)


def crossed(value: Any) -> Any:
    return wire.unpack(wire.pack(value)[wire.HEAD_BYTES :], lists=True)


def typed(value: Any) -> Any:
    """With the types of all parts: 1 == True == 1.0 otherwise."""
    if isinstance(value, list | tuple):
        return type(value), [typed(part) for part in value]
    if isinstance(value, dict):
        return [(key, typed(part)) for key, part in value.items()]
    return type(value), value


@settings(max_examples=50)
@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert typed(crossed(value)) == typed(value)


@pytest.mark.parametrize(
    "value",
    [
        [1, 2**63 - 1, 2**63, -(2**63), 1 - 2**63, 2**200],
        [1, True, 0, False, 1.0, None, "1"],
        [[1, 2], [3], []],
        [0, [1], {"a": [2]}, (3,)],
        [Fraction(1, 2), 1, b"\x00"],
        [],
        [[]],
    ],
    ids=repr,
)
def test_lists_of_mixed_parts_keep_the_type_of_each(value: list[Any]) -> None:
    assert typed(crossed(value)) == typed(value)
    assert typed(crossed(tuple(value))) == typed(tuple(value))


def nested(depth: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(depth):
        value = [value]
    return value


def test_a_list_is_as_deep_as_before_and_no_deeper() -> None:
    assert crossed(nested(wire.MAX_DEPTH - 1)) == nested(wire.MAX_DEPTH - 1)
    with pytest.raises(wire.WireError, match="nested deeper"):
        wire.pack(nested(wire.MAX_DEPTH))


@pytest.mark.parametrize("part", [7, 0.5, "word"])
def test_a_long_list_of_one_kind_is_written_and_read_at_one_go(
    part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def counted(function: Any) -> Any:
        def wrapper(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            return function(*arguments, **named)

        return wrapper

    for name in ("_encode", "_decode"):
        monkeypatch.setattr(wire, name, counted(getattr(wire, name)))
    value = [[part] * 50_000, (part,) * 50_000]
    assert typed(crossed(value)) == typed(value)
    assert calls < 20
