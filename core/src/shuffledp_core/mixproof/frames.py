"""A limit on the memory that a MessagePack document takes, applied before any of it is built.

A value of two bytes on the wire takes up to 16 times as many in memory, so a limit on the bytes
alone does not limit memory. The documents of verified rounds consist of keys, records, proofs,
signatures and digests of 32 bytes and more: at least 25 bytes for every value that is built from
them.
"""

from __future__ import annotations

from typing import Final

from shuffledp_core.errors import MalformedDocumentError

_BYTES_OF_A_VALUE: Final = 16
"""Fewest bytes for each value that a document is built from, on average."""

_FREE_VALUES: Final = 1024
"""Values that a document may have beyond that; they take some 100 KiB."""

_NIL_OR_BOOLEAN: Final = frozenset({0xC0, 0xC2, 0xC3})

_NUMBERS: Final = {
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
}
"""Bytes of a number behind its first byte."""

_STRINGS: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes of the length of `bin` and `str` behind the first byte."""

_ARRAYS: Final = {0xDC: 2, 0xDD: 4}
_MAPS: Final = {0xDE: 2, 0xDF: 4}
"""Bytes of the number of items behind the first byte."""


def check_frame(data: bytes) -> None:
    """Check that a document has few enough values for its length.

    It builds none and takes no memory.

    A map counts its values, not its keys, which are the names of fields. A document that passes
    takes at most five times its bytes when it is decoded. Its content is not checked.

    Raises:
        MalformedDocumentError: it has too many values, ends too early, or is not MessagePack as we
            use it.
    """
    most = _FREE_VALUES + len(data) // _BYTES_OF_A_VALUE
    values = left = 1
    at = 0
    while left:
        if at >= len(data):
            raise MalformedDocumentError("the document ends before its last value")
        first = data[at]
        at += 1
        left -= 1
        if first < 0x80 or first >= 0xE0 or first in _NIL_OR_BOOLEAN:
            continue
        if 0xA0 <= first < 0xC0:
            at += first & 0x1F
            continue
        if first in _STRINGS:
            end = at + _STRINGS[first]
            at = end + int.from_bytes(data[at:end], "big")
            continue
        if first in _NUMBERS:
            at += _NUMBERS[first]
            continue
        at, items, values_per_item = _read_count(data, first, at)
        # Before the items are read: an array or map names their number first.
        values += items
        left += items * values_per_item
        if values > most:
            raise MalformedDocumentError(
                f"the document has more than {most:,} values in {len(data):,} bytes, which no "
                "honest document has"
            )
    if at > len(data):
        raise MalformedDocumentError("the document ends within its last value")


def _read_count(data: bytes, first: int, at: int) -> tuple[int, int, int]:
    """Start of the first item, number of items, and number of values from which each is read."""
    if first < 0xA0:
        return at, first & 0x0F, 2 if first < 0x90 else 1
    width = _ARRAYS.get(first) or _MAPS.get(first)
    if width is None:
        raise MalformedDocumentError(
            f"the document has a value of MessagePack type {first:#04x}, which these documents "
            "do not use"
        )
    return at + width, int.from_bytes(data[at : at + width], "big"), 2 if first in _MAPS else 1
