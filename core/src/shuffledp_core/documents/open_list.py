"""Symbols of an open list: a text is hashed once per column, and each hash names a cell there.

docs/protocol.md, "Open lists". Devices need no list. A reader of the result who has a list of
candidates looks up each of them in the counts.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLANKS: Final = " \t\r\n"
"""Characters around an answer that do not belong to it; a fixed list, so that programs agree."""

LONGEST_STRING: Final = 256
"""Characters of a text in an open list; a longer one counts as missing."""

FEWEST_BITS: Final = 4
MOST_HASHES: Final = 4
MOST_HASHED_CELLS: Final = 2**15
"""Cells of all columns: a signed result has room for no more."""

MISSING: Final = ""
"""The text that a record without one is counted as."""

_SALT: Final = re.compile(r"[0-9a-f]{32}")
_LABEL: Final = b"shuffledp/v1/open-list\0"


class SymbolHashes(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="kind",
    tag="hashes",
):
    """Meaning of an open list's symbols: hashes of any text, with a cell in each column.

    Attributes:
        salt: 16 bytes in lower-case hex, public and fixed before anyone answers; by default a hash
            of the question's words.
        columns: independent hashes of a text, each with a histogram of its own.
        bits: log2 of the number of cells of each.
    """

    salt: str
    columns: int
    bits: int

    def __post_init__(self) -> None:
        if not _SALT.fullmatch(self.salt):
            raise ValueError("the salt of an open list must be 32 lower-case hex digits")
        if not 1 <= self.columns <= MOST_HASHES:
            raise ValueError(f"an open list has 1 to {MOST_HASHES} columns, not {self.columns}")
        most = (MOST_HASHED_CELLS // self.columns).bit_length() - 1
        if not FEWEST_BITS <= self.bits <= most:
            raise ValueError(
                f"the bits of an open list with {self.columns} columns must be from "
                f"{FEWEST_BITS} to {most}, not {self.bits}"
            )

    @property
    def size(self) -> int:
        """Number of symbols: all combinations of cells."""
        return 1 << (self.columns * self.bits)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return (1 << self.bits,) * self.columns

    def name(self, symbol: int, unit: str) -> str:
        """The symbol in words: as it has no name of its own, its hash in hex."""
        digits = -(-self.columns * self.bits // 4)
        return f"text with hash {symbol:0{digits}x} {unit}".rstrip()

    def locate(self, answer: str) -> int:
        """The symbol of any text; a text that is too long counts as missing."""
        return self.locate_all([normalise(answer)])[0]

    def locate_all(self, texts: Iterable[str]) -> list[int]:
        """The symbols of texts in the spelling of `normalise`: the first bits of their SHA-256."""
        salted = hashlib.sha256(_LABEL + bytes.fromhex(self.salt))
        others = 64 - self.columns * self.bits
        symbols = []
        for text in texts:
            digest = salted.copy()
            digest.update(text.encode())
            symbols.append(int.from_bytes(digest.digest()[:8], "big") >> others)
        return symbols

    def cells_of(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each symbol in each column, shape (columns, symbols)."""
        import numpy as np

        shifts = self.bits * np.arange(self.columns - 1, -1, -1)
        return (symbols >> shifts[:, np.newaxis]) & ((1 << self.bits) - 1)

    def describe(self, unit: str) -> str:
        """The possible answers, in words."""
        words = f"any text of up to {LONGEST_STRING} characters"
        return f"{words}, {unit}" if unit else words

    def texts(self) -> Iterator[str]:
        """The strings of this part of a wording: the salt."""
        yield self.salt


def normalise(answer: str) -> str:
    """The one spelling of a text: Unicode form C, no blanks around it; `MISSING` if too long.

    A text that UTF-8 does not have, such as half of a surrogate pair, counts as missing, too.
    """
    text = unicodedata.normalize("NFC", answer.strip(BLANKS))
    try:
        text.encode()
    except UnicodeEncodeError:
        return MISSING
    return text if len(text) <= LONGEST_STRING else MISSING
