"""Decimals in a wording, in their only spelling, and numbers as people answer them. Pure."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import Final

from shuffledp_core.documents.open_list import BLANKS

EXACT: Final = Context(prec=60)
"""No sum or product of a scale has more digits."""

_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{0,8}[1-9])?")


def parse_decimal(text: str) -> Decimal:
    """The number of a decimal in its only spelling, such as "-2.5".

    Raises `ValueError`.
    """
    if not _DECIMAL.fullmatch(text) or text == "-0":
        raise ValueError(
            f"{text[:40]!r} is not a decimal such as 12.5: no exponent, no plus sign, no needless "
            "zeros, up to 15 digits before the point and 9 after it"
        )
    return Decimal(text)


def spell_decimal(number: Decimal) -> str:
    """The only spelling of a number as `parse_decimal` reads it."""
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in {"-0", ""} else text


def read_number(answer: str) -> Decimal:
    """An answer as a number: a decimal of ordinary length, however it is spelled."""
    text = answer.strip(BLANKS)
    if len(text) > 40 or not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?|[+-]?\.[0-9]+", text, re.ASCII):
        raise ValueError("expected a number such as 12.5")
    return Decimal(text)
