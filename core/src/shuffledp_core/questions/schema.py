"""The schema of a record: fields of categories with names, and of numbers in ranges."""

from __future__ import annotations

import hashlib
import math
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Final, TypeAlias

from shuffledp_core.documents.decimals import parse_decimal, spell_decimal
from shuffledp_core.documents.magnitudes import (
    MOST_DOUBLINGS,
    MOST_PARTS,
    SymbolMagnitudes,
    multiple_of,
)
from shuffledp_core.documents.open_list import SymbolHashes
from shuffledp_core.documents.wording import (
    LONGEST_NAME,
    LONGEST_UNIT,
    MOST_NAMED,
    SymbolMeaning,
    SymbolNames,
    SymbolRanges,
    check_plain,
)
from shuffledp_core.errors import UsageError

Number: TypeAlias = int | float | str | Decimal
"""A number of a description; text has the spelling of decimals, "inf" and "-inf" among them."""

MOST_FIELDS: Final = 1000
"""Most fields of a schema."""

COLUMNS: Final = 3
BITS: Final = 13
"""Columns of an open list, and log2 of their cells, unless a description has others: 28 texts of
1% of 10,000 people are told from a million candidates (docs/accounting.md, S23).
"""

_FARTHEST: Final = 100
"""Doublings among which the largest number is sought: more than any number has."""

_DOUBLINGS: Final = 30
"""The largest number of a field of amounts that names none is 2 to this power times its least."""


@dataclass(frozen=True, init=False)
class CategoryField:
    """A field whose value is one of several names.

    Attributes:
        names: 2 or more different ones, in the order of the answer.
        unit: shown behind each; "" for none.
    """

    names: tuple[str, ...]
    unit: str

    def __init__(self, names: Iterable[str | int], *, unit: str = "") -> None:
        if isinstance(names, str):
            raise UsageError(f"names must be a list such as ['yes', 'no'], not {shorten(names)}")
        levels = tuple(_name(name) for name in names)
        if len(levels) < 2:
            raise UsageError(
                f"a field needs 2 or more names to choose from, not {len(levels)}: add the others"
            )
        for name in levels:
            if levels.count(name) > 1:
                raise UsageError(f"the name {shorten(name)} is listed twice: leave one out")
        _check_number_of_levels(len(levels), "names")
        object.__setattr__(self, "names", levels)
        object.__setattr__(self, "unit", check_unit(unit))

    @property
    def symbols(self) -> SymbolMeaning:
        """Meaning of the symbols of this field: one for each name."""
        return SymbolNames(names=self.names)


@dataclass(frozen=True, init=False)
class RangeField:
    """A field of numbers, counted in ranges.

    Attributes:
        edges: ascending decimals; range i is from edge i to below edge i + 1, the last one with its
            end. The first may be "-inf", the last "inf".
        unit: unit of the numbers; "" for none.
    """

    edges: tuple[str, ...]
    unit: str

    def __init__(self, edges: Iterable[Number], *, unit: str = "") -> None:
        if isinstance(edges, str):
            raise UsageError(f"edges must be a list such as [0, 18, 65], not {shorten(edges)}")
        given = tuple(edges)
        last = len(given) - 1
        spelled = tuple(
            spell_edge(edge, is_first=at == 0, is_last=at == last) for at, edge in enumerate(given)
        )
        if len(spelled) < 3:
            raise UsageError(
                f"ranges need 3 or more edges, not {len(spelled)}: two ranges have three edges, "
                "such as [0, 18, 65]"
            )
        _check_number_of_levels(len(spelled) - 1, "ranges")
        for low, high in pairwise(spelled):
            if Decimal(low) >= Decimal(high):
                raise UsageError(
                    f"edges must ascend, so that ranges do not overlap: {high} stands after {low}"
                )
        if spelled[1:-1] == () or set(spelled) <= {"-inf", "inf"}:
            raise UsageError("ranges need a finite edge: name a number where one range ends")
        object.__setattr__(self, "edges", spelled)
        object.__setattr__(self, "unit", check_unit(unit))

    @classmethod
    def steps(cls, start: Number, stop: Number, step: Number, *, unit: str = "") -> RangeField:
        """Ranges of one width from `start` to `stop`, where the last one ends."""
        low, high, width = (spell_edge(number) for number in (start, stop, step))
        if Decimal(width) <= 0:
            raise UsageError(f"step must be above 0, not {width}")
        if Decimal(low) >= Decimal(high):
            raise UsageError(f"from must be below to: {low} is not below {high}")
        count = math.ceil((Decimal(high) - Decimal(low)) / Decimal(width))
        if count < 2:
            raise UsageError(f"step {width} makes one range of {low} to {high}: make it smaller")
        if count > MOST_NAMED:
            raise UsageError(
                f"a field has at most {MOST_NAMED:,} ranges, not {count:,}: make the step larger"
            )
        inner = [Decimal(low) + Decimal(width) * at for at in range(count)]
        return cls([*inner, high], unit=unit)

    @property
    def symbols(self) -> SymbolMeaning:
        """Meaning of the symbols of this field: one for each range."""
        return SymbolRanges(edges=self.edges)


@dataclass(frozen=True)
class TextField:
    """A field of any text: an open list, whose texts need not be known beforehand.

    Attributes:
        columns: independent hashes of a text; ε is divided among them.
        bits: log2 of the cells of each; every node adds dummies to all of them.
        salt: 32 hex digits, which make the hashes; "" for those of the question's words.
        unit: shown behind each; "" for none.
    """

    columns: int = COLUMNS
    bits: int = BITS
    salt: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        check_unit(self.unit)
        for key in ("columns", "bits"):
            number = getattr(self, key)
            if isinstance(number, bool) or not isinstance(number, int):
                raise UsageError(f"{key} must be a whole number, not {shorten(number)}")
        if not isinstance(self.salt, str):
            raise UsageError(
                f"salt must be 32 hex digits in quotation marks, not {shorten(self.salt)}: or "
                "leave it out"
            )
        _ = self.symbols  # every mistake is found here

    @property
    def symbols(self) -> SymbolHashes:
        """Meaning of the symbols of this field: hashes of the text."""
        try:
            return SymbolHashes(salt=self.salt or "0" * 32, columns=self.columns, bits=self.bits)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{error}: change this setting, or leave it out") from error

    def hashes_of(self, *words: str) -> SymbolHashes:
        """Meaning of the symbols, with a salt derived from `words` unless the field has one."""
        salt = self.salt or hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]
        return SymbolHashes(salt=salt, columns=self.columns, bits=self.bits)


@dataclass(frozen=True, init=False)
class AmountField:
    """A field of numbers from 0 up whose sum is asked for; their range need not be known.

    Attributes:
        least: decimal; numbers are rounded at random to multiples of it, larger ones to
            `parts` numbers between doublings.
        parts: number of values in each doubling, 1 to 64. With more of them, numbers are rounded
            less, and the noise is larger.
        most: decimal that no one should exceed; numbers above it count as it. Far too large costs
            little.
        unit: unit of the numbers; "" for none.
    """

    least: str
    parts: int
    most: str
    unit: str

    def __init__(
        self, least: Number = 1, *, most: Number | None = None, parts: int = 2, unit: str = ""
    ) -> None:
        smallest = _amount("least", least)
        if smallest <= 0:
            raise UsageError(f"least must be above 0, not {smallest}: name the smallest difference")
        if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= MOST_PARTS:
            raise UsageError(f"parts must be a whole number from 1 to {MOST_PARTS}, not {parts!r}")
        largest = smallest * 2**_DOUBLINGS if most is None else _amount("most", most)
        if largest < smallest * 2 * (parts + 1):
            raise UsageError(
                f"most must be at least {2 * (parts + 1)} times least, {smallest}, not {largest}: "
                "raise it, or leave it out"
            )
        object.__setattr__(self, "least", spell_decimal(smallest))
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "most", spell_decimal(largest))
        object.__setattr__(self, "unit", check_unit(unit))
        try:
            _ = self.symbols
        except ValueError as error:
            raise UsageError(
                f"least {spell_decimal(smallest)} and most {spell_decimal(largest)} are too far "
                f"apart: at most {MOST_DOUBLINGS} doublings fit between them; choose a larger "
                "least, or a smaller most"
            ) from error

    @property
    def symbols(self) -> SymbolMeaning:
        """Meaning of the symbols: magnitudes, up to the first that is at least `most`."""
        steps = math.ceil(Decimal(self.most) / Decimal(self.least))
        size = bisect_left(range(self.parts * _FARTHEST), steps, key=self._multiple) + 1
        return SymbolMagnitudes(step=self.least, parts=self.parts, size=size)

    def _multiple(self, symbol: int) -> int:
        return multiple_of(symbol, self.parts)


def _amount(key: str, number: Number) -> Decimal:
    """Read a finite number of an amount's description; a `UsageError` names its key."""
    try:
        return Decimal(spell_edge(number))
    except UsageError as error:
        raise UsageError(
            f"{key} must be a number such as 0.01, with up to 15 digits before the point and 9 "
            f"after it, not {shorten(number)}"
        ) from error


SchemaField: TypeAlias = CategoryField | RangeField | TextField | AmountField
"""A field of a schema."""


@dataclass(frozen=True, init=False)
class RecordSchema:
    """The fields of a record by name; known to the operator, who puts only parts into plans."""

    fields: Mapping[str, SchemaField]

    def __init__(self, fields: Mapping[str, SchemaField]) -> None:
        if not fields:
            raise UsageError("a schema needs a field: describe one, such as [fields.age]")
        if len(fields) > MOST_FIELDS:
            raise UsageError(
                f"a schema has at most {MOST_FIELDS:,} fields, not {len(fields):,}: describe those "
                "that questions ask for"
            )
        for name in fields:
            check_text("field", name)
        object.__setattr__(self, "fields", dict(fields))

    def field(self, name: str) -> SchemaField:
        """The field with this name; the `UsageError` for a missing one lists all names."""
        if name not in self.fields:
            raise UsageError(
                f"there is no field {shorten(name)} in the schema; choose one of "
                f"{_join_names(self.fields)}, or describe it"
            )
        return self.fields[name]


def spell_edge(number: Number, *, is_first: bool = False, is_last: bool = False) -> str:
    """The spelling of a decimal in a wording; infinity only as a first or last edge."""
    if isinstance(number, bool) or not isinstance(number, int | float | str | Decimal):
        raise UsageError(f"expected a number such as 12.5, not {shorten(number)}")
    text = number.strip() if isinstance(number, str) else repr(number)
    if isinstance(number, Decimal):
        text = str(number)
    if text in {"inf", "Infinity"} and is_last:
        return "inf"
    if text in {"-inf", "-Infinity"} and is_first:
        return "-inf"
    if text.removeprefix("-") in {"inf", "Infinity"}:
        raise UsageError("only the first edge may be -inf, and only the last one inf")
    try:
        finite = Decimal(text)
        return spell_decimal(parse_decimal(spell_decimal(finite)))
    except (ArithmeticError, ValueError) as error:
        raise UsageError(
            f"{shorten(number)} is not a number such as 12.5 with up to 15 digits before the "
            "point and 9 after it"
        ) from error


def check_text(what: str, text: str, most: int = LONGEST_NAME) -> str:
    """The text in composed form (NFC). Raises `UsageError` unless it is plain text in one line."""
    if not isinstance(text, str):
        raise UsageError(f"a {what} must be text in quotation marks, not {shorten(text)}")
    composed = unicodedata.normalize("NFC", text)
    try:
        check_plain(what, composed, most)
    except ValueError as error:
        raise UsageError(f"{error}: correct {shorten(text)}") from error
    return composed


def check_unit(unit: str) -> str:
    """The unit in composed form (NFC); "" for none."""
    return "" if unit == "" else check_text("unit", unit, LONGEST_UNIT)


def shorten(given: object) -> str:
    """Shorten a value for an error message: one line of at most 40 characters."""
    text = repr(given)
    return text if len(text) <= 42 else f"{text[:40]}…"


def _name(name: str | int) -> str:
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    return check_text("name", name)  # type: ignore[arg-type]


def _check_number_of_levels(number: int, what: str) -> None:
    if number > MOST_NAMED:
        raise UsageError(
            f"a field has at most {MOST_NAMED:,} {what}, not {number:,}: put some together"
        )


def _join_names(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")
