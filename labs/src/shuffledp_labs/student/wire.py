"""Values and frames between the grader and a student's process.

A frame is four bytes of length and JSON in which everything that JSON lacks is an object with one
key, its tag. This module runs on both sides, and is the only one in the sandbox, so it imports only
the standard library. What comes out of a student's process is data, whatever it does: nothing in it
can name code.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

MAX_FRAME: Final = 16 * 2**20
"""Longest frame in bytes: the largest batch of any lab is a tenth of it."""

MAX_DEPTH: Final = 20
"""Deepest nesting of lists and dicts."""

MAX_BITS: Final = 8192
"""Longest number in bits: the labs' own have some hundreds, and Python can print these."""

MAX_CONTAINERS: Final = 2**18
"""Most lists and dicts in one frame: each takes a hundred bytes of the reader's memory, and two of
the frame.
"""

_LONG_NUMBER: Final = re.compile(rb"[0-9]{21}")
"""Longer than any number that is written as JSON's own, not in hex."""

_HEAD: Final = struct.Struct(">I")
_SAFE: Final = 2**63


class WireError(Exception):
    """A value or frame cannot be sent; the message says why."""


class TaggedValue:
    """A value that the other side treats specially, such as coins or a handle.

    Attributes:
        tag: kind of the value.
        content: a plain value that represents it.
    """

    def __init__(self, tag: str, content: Any = None) -> None:
        self.tag = tag
        self.content = content


Inner: TypeAlias = Callable[[Any], Any]
Special: TypeAlias = Callable[[Any], TaggedValue | None]


def pack(value: Any, special: Special | None = None) -> bytes:
    """Encode a value as a frame with its head.

    `special` gives the mark of a value that is not plain, or None.
    """
    try:
        body = json.dumps(_encode(value, special, 0), separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise WireError("a text with half a character in it (a lone surrogate)") from None
    if len(body) > MAX_FRAME:
        raise WireError(f"{len(body):,} bytes; the limit is {MAX_FRAME:,}")
    if _containers(body) > MAX_CONTAINERS:
        raise WireError(f"{_containers(body):,} lists and dicts; the limit is {MAX_CONTAINERS:,}")
    return _HEAD.pack(len(body)) + body


def unpack(
    body: bytes, marked: Callable[[str, Any], Any] | None = None, *, lists: bool = False
) -> Any:
    """Decode the value in a frame's body.

    Lists are tuples unless `lists`; `marked` gives what a mark stands for.

    Raises:
        WireError: the bytes are not a frame, or its numbers or its nesting exceed the limits of
            this module.
    """
    if _containers(body) > MAX_CONTAINERS:
        raise WireError("more lists and dicts than a frame may have")
    try:
        parsed = json.loads(body, parse_int=_short_int if _LONG_NUMBER.search(body) else None)
    except (ValueError, RecursionError):
        raise WireError("bytes that are not a frame") from None
    return _decode(parsed, marked, lists=lists, depth=0)


def length(head: bytes) -> int:
    """Length of the body, as announced in a frame's head."""
    (size,) = _HEAD.unpack(head)
    if size > MAX_FRAME:
        raise WireError(f"a frame of {size:,} bytes; the limit is {MAX_FRAME:,}")
    return int(size)


HEAD_BYTES: Final = _HEAD.size


def _containers(body: bytes) -> int:
    """Upper bound of the number of lists and dicts; brackets in texts count, too."""
    return body.count(b"[") + body.count(b"{")


def _short_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("a long number that is not in hex")
    return int(digits)


def _int(value: int, _: Inner) -> Any:
    if -_SAFE < value < _SAFE:
        return value
    if value.bit_length() > MAX_BITS:
        raise WireError(f"a number of {value.bit_length():,} bits; the limit is {MAX_BITS:,}")
    return {"i": hex(value)}


def _encode(value: Any, special: Special | None, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise WireError(f"nested deeper than {MAX_DEPTH}")

    def inner(part: Any) -> Any:
        return _encode(part, special, depth + 1)

    write = _WRITERS.get(type(value))
    return write(value, inner) if write is not None else _unusual(value, special, inner)


def _key(key: Any) -> Any:
    if type(key) not in {str, int}:
        raise WireError(
            f"a dict whose key is of type {type(key).__name__}: keys are text or whole numbers"
        )
    return key


def _as_it_is(value: Any, _: Inner) -> Any:
    return value


def _bytes(value: bytes, _: Inner) -> Any:
    return {"b": base64.b64encode(value).decode()}


def _parts(values: Sequence[Any], inner: Inner) -> list[Any]:
    """Encode each part.

    Long lists hold only numbers or words, which JSON writes as they are.
    """
    kinds = set(map(type, values))
    if kinds <= _SIMPLE or (kinds == {int} and -_SAFE < min(values) <= max(values) < _SAFE):
        return [*map(inner, values[:1]), *values[1:]]  # one of them, for the depth
    return [inner(part) for part in values]


_SIMPLE: Final[frozenset[type]] = frozenset({type(None), bool, float, str})
"""Types that JSON has, whatever the value."""

_WRITERS: Final[dict[type, Callable[[Any, Inner], Any]]] = {
    type(None): _as_it_is,
    bool: _as_it_is,
    float: _as_it_is,
    str: _as_it_is,
    int: _int,
    bytes: _bytes,
    bytearray: _bytes,
    list: _parts,
    tuple: lambda value, inner: {"t": _parts(value, inner)},
    Fraction: lambda value, inner: {"f": [inner(value.numerator), inner(value.denominator)]},
    dict: lambda value, inner: {
        "d": [[inner(_key(key)), inner(part)] for key, part in value.items()]
    },
    TaggedValue: lambda value, inner: {"m": [value.tag, inner(value.content)]},
}


def _unusual(value: Any, special: Special | None, inner: Inner) -> Any:
    """Encode a value that is not plain (a numpy number, a subclass), or is tagged."""
    mark = special(value) if special is not None else None
    if mark is not None:
        return inner(mark)
    plain = getattr(value, "tolist", None)  # numpy's numbers and arrays
    if plain is not None:
        return inner(plain())
    kinds: tuple[Any, ...] = (int, float, str, bytes, Fraction, tuple, list, dict)
    for kind in kinds:
        if isinstance(value, kind):
            return inner(kind(value))
    raise WireError(
        f"a value of type {type(value).__name__}: only None, bool, int, float, str, bytes, "
        "Fraction, lists, tuples and dicts can be answers"
    )


def _decode(
    value: Any, marked: Callable[[str, Any], Any] | None, *, lists: bool, depth: int
) -> Any:
    if depth > 2 * MAX_DEPTH + 4:
        raise WireError(f"nested deeper than {MAX_DEPTH}")
    if type(value) is list:
        parts = _parts_of(value, lambda part: _decode(part, marked, lists=lists, depth=depth + 1))
        return parts if lists else tuple(parts)
    if type(value) is not dict:
        return value
    try:
        ((tag, content),) = value.items()
        return _decode_tagged(
            tag, content, lambda part: _decode(part, marked, lists=lists, depth=depth + 1), marked
        )
    except (ValueError, TypeError, ZeroDivisionError, KeyError, AttributeError):
        raise WireError("bytes that are not a frame") from None


def _parts_of(parts: list[Any], inner: Callable[[Any], Any]) -> list[Any]:
    """Decode each part.

    Those that JSON has are there already, but for the depth of one of them.
    """
    if {list, dict}.isdisjoint(map(type, parts)):
        return [*map(inner, parts[:1]), *parts[1:]]
    return [inner(part) for part in parts]


def _decode_tagged(
    tag: str, content: Any, inner: Callable[[Any], Any], marked: Callable[[str, Any], Any] | None
) -> Any:
    if tag == "t":
        return tuple(_parts_of(content, inner))
    if tag == "b":
        return base64.b64decode(content, validate=True)
    if tag == "i":
        if len(content) > MAX_BITS // 4 + 3:  # with sign and 0x
            raise ValueError("a number of too many digits")
        return int(content, 16)
    if tag == "f":
        numerator, denominator = content
        return Fraction(inner(numerator), inner(denominator))
    if tag == "d":
        return {inner(key): inner(part) for key, part in content}
    if tag == "m" and marked is not None:
        name, part = content
        return marked(name, inner(part))
    raise ValueError(tag)
