"""ristretto255 in plain Python, from RFC 9496, section 4: for comparison with the libraries.

Not constant time.
"""

from __future__ import annotations

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, FIELD) % FIELD
ROOT_OF_MINUS_ONE = pow(2, (FIELD - 1) // 4, FIELD)

Point = tuple[int, int]
"""Affine (x, y) on -x^2 + y^2 = 1 + d x^2 y^2: one of the four or eight that stand for an element.
"""


def square_root_of_ratio(numerator: int, denominator: int) -> tuple[bool, int]:
    """SQRT_RATIO_M1 (section 4.2): whether u/v is a square, and the non-negative root of it or of i
    u/v."""
    ratio = numerator * pow(denominator, -1, FIELD) % FIELD if denominator else 0
    is_square = pow(ratio, (FIELD - 1) // 2, FIELD) in (0, 1)
    root = _root(ratio if is_square else ratio * ROOT_OF_MINUS_ONE % FIELD)
    return is_square and bool(denominator or not numerator), root


def _root(square: int) -> int:
    """The non-negative root of a square, by Euler's criterion for p = 5 modulo 8."""
    root = pow(square, (FIELD + 3) // 8, FIELD)
    if root * root % FIELD != square % FIELD:
        root = root * ROOT_OF_MINUS_ONE % FIELD
    assert root * root % FIELD == square % FIELD
    return absolute(root)


def is_negative(value: int) -> bool:
    return value % FIELD % 2 == 1


def absolute(value: int) -> int:
    return -value % FIELD if is_negative(value) else value % FIELD


def decode(encoded: bytes) -> Point | None:
    """The point that 32 bytes encode, or None (section 4.3.1)."""
    s = int.from_bytes(encoded, "little")
    if len(encoded) != 32 or s >= FIELD or is_negative(s):
        return None
    u1, u2 = 1 - s * s, 1 + s * s
    v = (-D * u1 * u1 - u2 * u2) % FIELD
    was_square, root = square_root_of_ratio(1, v * u2 * u2 % FIELD)
    x = absolute(2 * s * root * u2)
    y = u1 * root * root * u2 * v % FIELD
    if not was_square or is_negative(x * y) or y == 0:
        return None
    return x, y


def encode(point: Point) -> bytes:
    """The encoding of the element that a point stands for (section 4.3.2)."""
    x, y = point
    _, root = square_root_of_ratio(1, (1 - y * y) * x * x * y * y % FIELD)
    den1, den2 = root * (1 + y) * (1 - y), root * x * y
    inverse_z = den1 * den2 * x * y % FIELD
    rotate = is_negative(x * y * inverse_z)
    if rotate:
        x, y = y * ROOT_OF_MINUS_ONE, x * ROOT_OF_MINUS_ONE
        den2 = den1 * _inverse_root_of_a_minus_d()
    if is_negative(x * inverse_z):
        y = -y
    return absolute(den2 * (1 - y)).to_bytes(32, "little")


def _inverse_root_of_a_minus_d() -> int:
    return square_root_of_ratio(1, -1 - D)[1]


def add(left: Point, right: Point) -> Point:
    (x1, y1), (x2, y2) = left, right
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + y1 * x2) * pow(1 + product, -1, FIELD)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, FIELD)
    return x % FIELD, y % FIELD


def multiply(factor: int, point: Point) -> Point:
    found: Point = (0, 1)
    for bit in f"{factor:b}":
        found = add(found, found)
        if bit == "1":
            found = add(found, point)
    return found
