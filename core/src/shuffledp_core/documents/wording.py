"""The wording of a question: identifier, sentence, fields, units, meaning of each symbol. Pure.

A certificate carries it, so that devices and the people who use them learn which question is asked
(docs/protocol.md, "Wording"). A symbol is the position of a cell in a table with one axis for each
field, row by row; most questions have one axis. A question may have one more symbol, `others`, for
records that are in no cell; then a device can answer from its record whatever that holds.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Final, TypeAlias

import msgspec

from shuffledp_core.documents.decimals import EXACT, parse_decimal, read_number, spell_decimal
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.open_list import BLANKS, MISSING, SymbolHashes

MOST_AXES: Final = 4
MOST_CONDITIONS: Final = 4
MOST_NAMED: Final = 1024
"""Most names, or edges of ranges, of one wording."""

MOST_BYTES: Final = 16_384
"""Most bytes of all texts of one wording in UTF-8: announcements stay far below 1 MiB."""

LONGEST_TEXT: Final = 300
LONGEST_NAME: Final = 100
LONGEST_UNIT: Final = 32

_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_REFUSED: Final = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180e\u2000-\u200b\u200e"
    "\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
"""Control characters, invisible ones and those that change the direction of writing, and every
space but U+0020. A fixed list, so that implementations agree whatever Unicode version they have.
"""

_UNSEEN: Final = re.compile("[\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Joiners and variation selectors: several scripts and emoji need them, and in most places no one
sees them. Two texts that differ only in these count as the same.
"""

FieldValue: TypeAlias = str | int | float | Decimal | bool | None
"""A value in a device's record; None, a number that is not finite and blank text are missing."""


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the parts of a wording."""


class SymbolNames(_Words, frozen=True, kw_only=True, tag_field="kind", tag="names"):
    """One name for each symbol, such as an answer to choose."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            check_plain("name of an answer", name, LONGEST_NAME)
        if len(self.names) < 2 or _count_seen(self.names) < len(self.names):
            raise ValueError("names must be at least 2, all different")

    @property
    def size(self) -> int:
        """Number of symbols."""
        return len(self.names)

    def name(self, symbol: int, unit: str) -> str:
        """The symbol in words, with the unit."""
        return f"{self.names[symbol]} {unit}".rstrip()

    def locate(self, answer: str) -> int:
        """The symbol of an answer; a `ValueError` does not repeat the answer, which is secret."""
        composed = unicodedata.normalize("NFC", answer.strip(BLANKS))
        if composed not in self.names:
            raise ValueError(f"expected one of {self.describe('')}")
        return self.names.index(composed)

    def describe(self, unit: str) -> str:
        """The first twelve possible answers, separated by commas, and "..." if there are more."""
        shown = [self.name(symbol, unit) for symbol in range(min(self.size, 12))]
        return ", ".join(shown) + (", ..." if self.size > len(shown) else "")

    def texts(self) -> Iterator[str]:
        """The strings of this part of a wording: the names."""
        yield from self.names


class SymbolRanges(_Words, frozen=True, kw_only=True, tag_field="kind", tag="ranges"):
    """Symbols that stand for ranges: symbol i from edge i to below edge i + 1; the last is closed.

    Edges are decimals in ascending order; the first may be "-inf", the last "inf".
    """

    edges: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.edges) < 3:
            raise ValueError(f"ranges need at least 3 edges, not {len(self.edges)}")
        inner = self.edges[self.edges[0] == "-inf" : len(self.edges) - (self.edges[-1] == "inf")]
        numbers = [parse_decimal(edge) for edge in inner]
        if not numbers or any(low >= high for low, high in pairwise(numbers)):
            raise ValueError("edges must be in ascending order")

    @property
    def size(self) -> int:
        """Number of symbols."""
        return len(self.edges) - 1

    def name(self, symbol: int, unit: str) -> str:
        """The symbol in words, with the unit."""
        low, high = self.edges[symbol], self.edges[symbol + 1]
        if low == "-inf":
            words = f"below {high}"
        elif high == "inf":
            words = f"{low} or more"
        else:
            words = f"{low}–{high}"
        return f"{words} {unit}".rstrip()

    def locate(self, answer: str) -> int:
        """The symbol of an answer; a `ValueError` does not repeat the answer, which is secret."""
        number = read_number(answer)
        low, high = Decimal(self.edges[0]), Decimal(self.edges[-1])
        if not low <= number <= high:
            raise ValueError(f"expected a number: {self.describe('')}")
        edges = [Decimal(edge) for edge in self.edges[1:-1]]
        return bisect_right(edges, number)

    def describe(self, unit: str) -> str:
        """The range of possible answers, in words."""
        low, high = self.edges[0], self.edges[-1]
        if low == "-inf":
            words = "any number" if high == "inf" else f"up to {high}"
        else:
            words = f"{low} or more" if high == "inf" else f"{low} to {high}"
        return f"{words} {unit}".rstrip()

    def texts(self) -> Iterator[str]:
        """The strings of this part of a wording: the edges."""
        yield from self.edges


class SymbolScale(_Words, frozen=True, kw_only=True, tag_field="kind", tag="scale"):
    """Symbols that stand for numbers on a scale: symbol i is start + i x step, in decimals.

    An answer between two of these numbers counts as the nearer one; halfway, as the even symbol.
    """

    start: str
    step: str
    size: int

    def __post_init__(self) -> None:
        parse_decimal(self.start)
        if parse_decimal(self.step) <= 0:
            raise ValueError(f"the step of a scale must be above 0, not {self.step}")
        if not 2 <= self.size < 2**31:
            raise ValueError(f"the size of a scale must be from 2 to 2^31 - 1, not {self.size}")

    def value(self, symbol: int) -> Decimal:
        """The number that a symbol stands for."""
        return EXACT.add(Decimal(self.start), EXACT.multiply(Decimal(symbol), Decimal(self.step)))

    def convert(self, symbols: float, answers: float = 1.0) -> float:
        """Convert the sum of the symbols of `answers` answers into the sum of their numbers."""
        return answers * float(self.start) + symbols * float(self.step)

    def name(self, symbol: int, unit: str) -> str:
        """The symbol in words, with the unit."""
        return f"{spell_decimal(self.value(symbol))} {unit}".rstrip()

    def locate(self, answer: str) -> int:
        """The symbol of an answer; a `ValueError` does not repeat the answer, which is secret."""
        steps = (Fraction(read_number(answer)) - Fraction(self.start)) / Fraction(self.step)
        nearest = round(steps)
        if not 0 <= nearest < self.size:
            raise ValueError(f"expected a number from {self.describe('')}")
        return nearest

    def describe(self, unit: str) -> str:
        """The range of possible answers, in words."""
        return f"{self.name(0, '')} to {self.name(self.size - 1, unit)}"

    def texts(self) -> Iterator[str]:
        """The strings of this part of a wording: start and step."""
        yield from (self.start, self.step)


SymbolMeaning: TypeAlias = (
    SymbolNames | SymbolRanges | SymbolScale | SymbolHashes | SymbolMagnitudes
)
"""The meaning of the symbols of an axis."""


class QuestionAxis(_Words, frozen=True, kw_only=True):
    """A field that the question asks for, its unit, and the meaning of its symbols.

    `field` names it in a device's record; `unit` is "" if there is none.
    """

    field: str
    unit: str
    symbols: SymbolMeaning

    def __post_init__(self) -> None:
        check_plain("field", self.field, LONGEST_NAME)
        if self.unit:
            check_plain("unit", self.unit, LONGEST_UNIT)


class NameSet(_Words, frozen=True, kw_only=True, tag_field="kind", tag="among"):
    """A condition: the value is one of these names."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            check_plain("name in a condition", name, LONGEST_NAME)
        if not self.names or _count_seen(self.names) < len(self.names):
            raise ValueError("a condition must list at least 1 name, all different")

    @property
    def size(self) -> int:
        """Number of texts."""
        return len(self.names)

    def holds(self, answer: str) -> bool:
        """Return whether an answer is one of the names."""
        return unicodedata.normalize("NFC", answer.strip(BLANKS)) in self.names

    def describe(self, unit: str) -> str:
        """The condition in words."""
        shown = [f"{name} {unit}".rstrip() for name in self.names[:12]]
        return ", ".join(shown) + (", ..." if self.size > len(shown) else "")

    def texts(self) -> Iterator[str]:
        """The strings of this part of a wording: the names."""
        yield from self.names


class NumberRange(_Words, frozen=True, kw_only=True, tag_field="kind", tag="range"):
    """A condition: the number is from `low` to below `high`, of which one may be infinite."""

    low: str
    high: str

    def __post_init__(self) -> None:
        low = None if self.low == "-inf" else parse_decimal(self.low)
        high = None if self.high == "inf" else parse_decimal(self.high)
        if low is None and high is None:
            raise ValueError("a range in a condition needs at least one end")
        if low is not None and high is not None and low >= high:
            raise ValueError("a range in a condition must begin below its end")

    @property
    def size(self) -> int:
        """Number of texts."""
        return 2

    def holds(self, answer: str) -> bool:
        """Return whether an answer is a number in the range."""
        try:
            number = read_number(answer)
        except ValueError:
            return False
        return Decimal(self.low) <= number < Decimal(self.high)

    def describe(self, unit: str) -> str:
        """The condition in words."""
        if self.low == "-inf":
            words = f"below {self.high}"
        elif self.high == "inf":
            words = f"{self.low} or more"
        else:
            words = f"from {self.low} to below {self.high}"
        return f"{words} {unit}".rstrip()

    def texts(self) -> Iterator[str]:
        """The strings of this part of a wording: both ends."""
        yield from (self.low, self.high)


class QuestionCondition(_Words, frozen=True, kw_only=True):
    """A condition on a field of a record: people who do not meet it are counted as `others`."""

    field: str
    unit: str
    holds: NameSet | NumberRange

    def __post_init__(self) -> None:
        check_plain("field", self.field, LONGEST_NAME)
        if self.unit:
            check_plain("unit", self.unit, LONGEST_UNIT)

    def describe(self) -> str:
        """The condition in words, with its field."""
        return f"{self.field}: {self.holds.describe(self.unit)}"


class QuestionWording(_Words, frozen=True, kw_only=True, omit_defaults=True):
    """A question in words: an identifier, one sentence for people, and one axis for each field.

    Attributes:
        where: conditions, all of which a record meets that is counted in a cell.
        others: name of the last symbol, for records that do not meet a condition, lack a field, or
            have a value that no cell has; "" without such a symbol.
    """

    id: str
    text: str
    axes: tuple[QuestionAxis, ...]
    where: tuple[QuestionCondition, ...] = ()
    others: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(
                f"{self.id[:80]!r} is not a valid identifier of a question: use 1 to 64 of a-z, "
                "0-9, '.', '_' and '-', and begin with a letter or digit"
            )
        check_plain("sentence of a question", self.text, LONGEST_TEXT)
        if not 1 <= len(self.axes) <= MOST_AXES:
            raise ValueError(f"a question has 1 to {MOST_AXES} axes, not {len(self.axes)}")
        if _count_seen(axis.field for axis in self.axes) < len(self.axes):
            raise ValueError("a field may be an axis of a question only once")
        if sum(isinstance(axis.symbols, SymbolMagnitudes) for axis in self.axes) > 1:
            raise ValueError("a question may add up at most one field")
        self._check_others()
        if self.is_open and (len(self.axes) > 1 or self.others):
            raise ValueError("an open list must be its question's only axis, and has no others")
        counted = [
            axis.symbols
            for axis in self.axes
            if not isinstance(axis.symbols, SymbolScale | SymbolHashes)
        ]
        named = sum(symbols.size for symbols in counted)
        if named + sum(condition.holds.size for condition in self.where) > MOST_NAMED:
            raise ValueError(f"a question may name at most {MOST_NAMED} symbols; use a scale")
        size = sum(len(text.encode()) for text in self._texts())
        if size > MOST_BYTES:
            raise ValueError(
                f"the wording of a question has {size} bytes; at most {MOST_BYTES} are allowed"
            )

    def _check_others(self) -> None:
        if len(self.where) > MOST_CONDITIONS:
            raise ValueError(
                f"a question has at most {MOST_CONDITIONS} conditions, not {len(self.where)}"
            )
        if _count_seen(condition.field for condition in self.where) < len(self.where):
            raise ValueError("a question may have only one condition on a field")
        if self.where and not self.others:
            raise ValueError("a question with conditions needs a name for the others")
        if not self.others:
            return
        check_plain("name of the others", self.others, LONGEST_NAME)
        others = _UNSEEN.sub("", self.others)
        texts = (text for axis in self.axes for text in axis.symbols.texts())
        if any(_UNSEEN.sub("", text) == others for text in texts):
            raise ValueError("the name of the others must not be that of a symbol")

    def _texts(self) -> Iterator[str]:
        yield from (self.id, self.text, self.others)
        for axis in self.axes:
            yield from (axis.field, axis.unit)
            yield from axis.symbols.texts()
        for condition in self.where:
            yield from (condition.field, condition.unit)
            yield from condition.holds.texts()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a record that the question asks for: those of axes, then of conditions."""
        names = [axis.field for axis in self.axes]
        names += [condition.field for condition in self.where if condition.field not in names]
        return tuple(names)

    @property
    def is_open(self) -> bool:
        """True if the question asks for texts without a list of names."""
        return any(isinstance(axis.symbols, SymbolHashes) for axis in self.axes)

    @property
    def hashes(self) -> SymbolHashes | None:
        """The hashes of an open list; None for any other question."""
        symbols = self.axes[0].symbols
        return symbols if isinstance(symbols, SymbolHashes) else None

    @property
    def columns(self) -> tuple[int, ...]:
        """Number of cells of each column, for a mechanism that counts every column by itself."""
        return self.shape if self.hashes is None else self.hashes.shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(axis.symbols.size for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of symbols: the cells of all axes, and the others."""
        return prod(self.shape) + (self.others != "")

    @property
    def scale(self) -> SymbolScale | None:
        """The scale of a question with one axis of numbers; None for any other."""
        symbols = self.axes[0].symbols
        return symbols if len(self.axes) == 1 and isinstance(symbols, SymbolScale) else None

    @property
    def sum_axis(self) -> int | None:
        """The axis of magnitudes, whose numbers are added up; None without such an axis."""
        kinds = [isinstance(axis.symbols, SymbolMagnitudes) for axis in self.axes]
        return kinds.index(True) if any(kinds) else None

    @property
    def unit(self) -> str:
        """The unit of a question with one axis; "" for any other."""
        return self.axes[0].unit if len(self.axes) == 1 else ""

    def name(self, symbol: int) -> str:
        """A symbol in words, with units."""
        if self.others and symbol == self.size - 1:
            return self.others
        parts = []
        for axis in reversed(self.axes):
            symbol, cell = divmod(symbol, axis.symbols.size)
            parts.append(axis.symbols.name(cell, axis.unit))
        return ", ".join(reversed(parts))

    def names(self) -> tuple[str, ...]:
        """All symbols in words."""
        return tuple(self.name(symbol) for symbol in range(self.size))

    def cell_names(self) -> tuple[str, ...]:
        """The cells of every column in words, one column after the other, each with its field."""
        if self.hashes is not None:
            return tuple(
                f"{self.axes[0].field}: cell {cell} of hash {column}"
                for column, size in enumerate(self.columns, start=1)
                for cell in range(size)
            )
        return tuple(
            f"{axis.field}: {axis.symbols.name(cell, axis.unit)}"
            for axis in self.axes
            for cell in range(axis.symbols.size)
        )

    def locate(self, *answers: str) -> int:
        """The symbol of one answer for each of `fields`, as people give them.

        Raises `ValueError` with what is expected; it does not repeat the answer, which is secret.
        """
        if self.others and answers == (self.others,):
            return self.size - 1
        if len(answers) != len(self.fields):
            raise ValueError(f"expected one answer for each of {', '.join(self.fields)}")
        given = dict(zip(self.fields, answers, strict=True))
        if not all(condition.holds.holds(given[condition.field]) for condition in self.where):
            return self.size - 1
        symbol = 0
        for axis in self.axes:
            symbol = symbol * axis.symbols.size + axis.symbols.locate(given[axis.field])
        return symbol

    def locate_record(self, record: Mapping[str, FieldValue]) -> int:
        """The symbol of a device's record; a record without a cell gets the symbol of `others`.

        Raises:
            ValueError: it has no cell, and the question no symbol for others; the message does not
                repeat the record, which is secret.
        """
        given = {name: spell_value(record.get(name)) for name in self.fields}
        if self.is_open:
            return self.locate(*(answer or MISSING for answer in given.values()))
        missing = [name for name, answer in given.items() if answer is None]
        if missing and not self.others:
            raise ValueError(
                f"the record has no value for the field {missing[0]!r}, which the question needs"
            )
        try:
            return self.locate(*(answer or "" for answer in given.values()))
        except ValueError:
            if not self.others:
                raise
            return self.size - 1

    def check_size(self, domain: int, *, is_sum: bool) -> None:
        """Raise `ValueError` unless the words fit a mechanism with `domain` values."""
        if self.size != domain:
            raise ValueError(
                f"the question {self.id!r} gives {self.size:,} symbols a meaning, but the "
                f"mechanism has {domain:,}"
            )
        if is_sum and self.others:
            raise ValueError(
                f"the question {self.id!r} has a name for others, which a sum cannot count: "
                "leave it out, or choose a histogram"
            )
        if is_sum and self.scale is None:
            raise ValueError(
                f"a sum needs one axis with a scale, which the question {self.id!r} does not "
                "have: give it one, or choose a histogram"
            )


def _count_seen(texts: Iterable[str]) -> int:
    """Number of texts that look different."""
    return len({_UNSEEN.sub("", text) for text in texts})


def check_plain(what: str, text: str, most: int) -> None:
    """Raise `ValueError` unless `text` is one line of plain text in its only spelling."""
    if not 1 <= len(text) <= most:
        raise ValueError(f"a {what} has 1 to {most} characters, not {len(text)}")
    refused = _REFUSED.search(text)
    if refused:
        raise ValueError(
            f"a {what} must be plain text; it contains the character U+{ord(refused.group()):04X}"
        )
    if not _UNSEEN.sub("", text):
        raise ValueError(f"a {what} must have at least one visible character")
    if text.split(" ") != text.split():
        raise ValueError(
            f"a {what} must not begin or end with a space, or have two spaces in a row"
        )
    if not unicodedata.is_normalized("NFC", text):
        raise ValueError(f"a {what} must be in Unicode form C (NFC)")


def spell_value(value: FieldValue) -> str | None:
    """A record's value as an answer; None for one that is missing. `TypeError` for other types."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if value.strip(BLANKS) else None
    if not isinstance(value, int | float | Decimal):
        raise TypeError("a record's values must be text, numbers, true or false, or missing")
    # By its shortest spelling, as people write it: 0.1 is not below 0.1, and 12.0 is 12.
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        return None
    return spell_decimal(number) if isinstance(value, float) else f"{number:f}"
