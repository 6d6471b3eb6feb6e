"""Any bytes give counts that are right, or exactly one typed error."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.answering.decoding import Board, decode
from shuffledp_core.errors import BadBatchError, CountMismatchError
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry


def geometry(messages: int = 2, width: int = 1) -> Geometry:
    return Geometry(suite="sealed-box", hops=2, messages_per_user=messages, symbol_bytes=width)


def packed(symbols: list[int], width: int = 1) -> bytes:
    return b"".join(symbol.to_bytes(width, "big") + os.urandom(TAG_BYTES) for symbol in symbols)


@pytest.mark.parametrize(
    ("width", "alphabet"), [(1, 2), (1, 256), (2, 300), (3, 70_000), (4, 2**24 + 5)]
)
def test_symbols_are_counted_at_every_width(width: int, alphabet: int) -> None:
    symbols = [0, alphabet - 1, alphabet // 2, 1, alphabet - 1, 0]
    board = decode(packed(symbols, width), geometry(2, width), alphabet, 3)
    assert board.messages == 6
    assert {symbol: count for symbol, count in enumerate(board.counts) if count} == dict(
        Counter(symbols)
    )


def test_a_memory_mapped_board_decodes_like_bytes() -> None:
    data = packed([0, 1, 1, 1])
    assert decode(np.frombuffer(data, dtype=np.uint8), geometry(), 2, 2) == decode(
        data, geometry(), 2, 2
    )


@pytest.mark.parametrize("accepted", [2, 4])
def test_one_report_too_few_or_too_many_is_a_count_mismatch(accepted: int) -> None:
    with pytest.raises(CountMismatchError, match="6 messages"):
        decode(packed([0] * 6), geometry(), 2, accepted)


def test_one_message_too_few_is_a_count_mismatch() -> None:
    with pytest.raises(CountMismatchError):
        decode(packed([0] * 5), geometry(), 2, 3)


def test_a_torn_batch_is_refused() -> None:
    with pytest.raises(BadBatchError, match="damaged"):
        decode(packed([0] * 6)[:-1], geometry(), 2, 3)


def test_a_symbol_outside_the_alphabet_does_not_count() -> None:
    assert decode(packed([0, 1, 2, 255]), geometry(), 2, 2) == Board(4, (1, 1), outside=2)


def test_no_message_counts_whose_tag_is_repeated_even_with_another_symbol() -> None:
    tag = os.urandom(TAG_BYTES)
    assert decode(b"\x00" + tag + packed([0, 1]) + b"\x01" + tag, geometry(), 2, 2) == Board(
        4, (1, 1), repeated=2
    )


def test_a_message_with_both_faults_is_counted_once_and_takes_its_twin_along() -> None:
    tag = os.urandom(TAG_BYTES)
    board = decode(b"\x05" + tag + packed([1, 1]) + b"\x01" + tag, geometry(), 2, 2)
    assert board == Board(4, (0, 2), outside=1, repeated=1)
    assert board.invalid == 2


def test_dropped_messages_are_not_missed() -> None:
    assert decode(packed([0, 1, 1]), geometry(), 2, 2, dropped=1) == Board(3, (1, 2))
    with pytest.raises(CountMismatchError, match="less 2 dropped messages, make 2"):
        decode(packed([0, 1, 1]), geometry(), 2, 2, dropped=2)


def test_tags_that_agree_in_one_half_only_are_different() -> None:
    halves = [b"\x00" * 8, b"\x01" * 8]
    data = b"".join(b"\x01" + first + second for first in halves for second in halves)
    assert decode(data, geometry(), 2, 2).counts == (0, 4)


@given(
    tags=st.lists(
        st.binary(min_size=16, max_size=16).map(lambda tag: bytes(b & 0x81 for b in tag)),
        max_size=40,
    ),
)
def test_tags_repeat_exactly_when_python_says_so(tags: list[bytes]) -> None:
    data = b"".join(b"\x00" + tag for tag in tags)
    alone = sum(times == 1 for times in Counter(tags).values())
    assert decode(data, geometry(1), 2, len(tags)) == Board(
        len(tags), (alone, 0), repeated=len(tags) - alone
    )


@given(
    data=st.binary(max_size=200),
    accepted=st.integers(1, 6),
    width=st.integers(1, 4),
    alphabet=st.integers(1, 300),
)
def test_any_bytes_decode_or_raise_one_typed_error(
    data: bytes, accepted: int, width: int, alphabet: int
) -> None:
    try:
        board = decode(data, geometry(1, width), alphabet, accepted)
    except (BadBatchError, CountMismatchError):
        return
    assert sum(board.counts) + board.invalid == accepted == board.messages
