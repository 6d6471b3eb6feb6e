"""Operations on many elements: by the accelerator if installed, else by libsodium one by one.

The results are the same, byte for byte. Work on many elements is divided among the processor's
cores: neither library holds the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Final, TypeVar, overload

from shuffledp_core.errors import ProofError
from shuffledp_core.mixproof.acceleration import points
from shuffledp_core.mixproof.group import (
    IDENTITY,
    WIDTH,
    Element,
    Scalar,
    add_points,
    element,
    minus,
    multiply,
    multiply_add,
)
from shuffledp_core.runtime.workers import cores

_LEAST: Final = 256
"""Fewer elements than this are not worth a thread of their own."""

_ZERO: Final = Scalar(bytes(WIDTH))

ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")


class Elements(Sequence[Element]):
    """Valid group elements, decoded together as `element` decodes one.

    Raises `ProofError` if one is not an element, or is the identity.
    """

    def __init__(self, encoded: Iterable[bytes]) -> None:
        self._encoded = tuple(Element(bytes(encoding)) for encoding in encoded)
        self._pieces = spread(_Piece, _parts(self._encoded))

    @overload
    def __getitem__(self, index: int) -> Element: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Element]: ...
    def __getitem__(self, index: int | slice) -> Element | Sequence[Element]:
        return self._encoded[index]

    def __iter__(self) -> Iterator[Element]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    @cached_property
    def total(self) -> bytes:
        """The sum of the elements; it may be the identity if one user chose all of them."""
        return add_points(piece.total() for piece in self._pieces)

    def times(self, factor: Scalar) -> tuple[Element, ...]:
        """The multiple factor · element of each element. Raises `ProofError` for the factor 0.

        The time does not depend on the factor.
        """
        return tuple(_flatten(spread(lambda piece: piece.times(_not_zero(factor)), self._pieces)))

    def powers(self, c: Scalar) -> Element:
        """Σ c^i times element i, for i from 1; in variable time, so not for secrets.

        Raises `ProofError` if the sum is the identity, or c is 0.
        """
        starts, sums = 0, []
        for piece in self._pieces:
            sums.append(piece.powers(_not_zero(c), starts))
            starts += len(piece.encoded)
        weighted_sum = add_points(sums)
        if weighted_sum == IDENTITY:
            raise ProofError(
                "a sum of group elements is the identity, which no honest batch yields"
            )
        return Element(weighted_sum)

    def commitments(
        self, base: Element, proofs: Sequence[tuple[Scalar, Scalar]]
    ) -> list[Element | None]:
        """z · base - c · element for each element and the (c, z) of its proof.

        None for refused proofs. A proof is refused if c or z is 0, or if the difference is the
        identity. This method is not for secrets.
        """
        # Cut as the elements were: how many cores there are may have changed since.
        ends = list(accumulate(len(piece.encoded) for piece in self._pieces))
        jobs = [
            (piece, proofs[end - len(piece.encoded) : end])
            for piece, end in zip(self._pieces, ends, strict=True)
        ]
        return _flatten(spread(lambda job: job[0].commitments(base, job[1]), jobs))


def multiples(base: Element, factors: Sequence[Scalar]) -> list[Element]:
    """The multiples of `base` by each secret factor. Raises `ProofError` for a factor of 0.

    The time does not depend on the factors.
    """
    wheel = points()
    if wheel is None:
        return [multiply(factor, base) for factor in factors]
    return _cut_elements(_base(base).times(b"".join(_not_zero(factor) for factor in factors)))


@lru_cache(maxsize=64)
def _base(encoded: Element) -> Any:
    """The wheel's form of a base point, with a 30 KB table of multiples; cached per process."""
    return points().Base(encoded)


def spread(work: Callable[[ItemT], FoundT], items: Sequence[ItemT]) -> list[FoundT]:
    """Apply `work` to each item in threads; raise the first error in the order of the items."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), cores())) as threads:
        return list(threads.map(work, items))


class _Piece:
    """The part of a sequence of elements that one thread works on."""

    def __init__(self, encoded: Sequence[Element]) -> None:
        self.encoded = encoded
        wheel = points()
        if wheel is None:
            for encoding in encoded:
                element(encoding)
            self._decoded: Any = None
            return
        if any(len(encoding) != WIDTH for encoding in encoded):
            raise ProofError(f"a group element must have {WIDTH} bytes")
        try:
            self._decoded = wheel.Elements(b"".join(encoded))
        except ValueError as error:
            for encoding in encoded:
                element(encoding)  # says which one, in the same words as without the wheel
            raise ProofError(str(error)) from error

    def total(self) -> bytes:
        return add_points(self.encoded) if self._decoded is None else bytes(self._decoded.total())

    def times(self, factor: Scalar) -> list[Element]:
        if self._decoded is None:
            return [multiply(factor, encoding) for encoding in self.encoded]
        return _cut_elements(self._decoded.times(factor))

    def powers(self, c: Scalar, first: int) -> bytes:
        if self._decoded is not None:
            return bytes(self._decoded.powers(c, first))
        # Horner's rule. A sum on the way that is the identity is refused here and not by the
        # accelerator: keys for which that happens would have to be chosen before c, which is a hash
        # of them.
        inner = self.encoded[-1]
        for encoding in reversed(self.encoded[:-1]):
            inner = Element(add_points((multiply(c, inner), encoding)))
        power = c
        for _ in range(first):
            power = multiply_add(power, c, _ZERO)
        return multiply(power, inner)

    def commitments(
        self, base: Element, proofs: Sequence[tuple[Scalar, Scalar]]
    ) -> list[Element | None]:
        if self._decoded is None:
            return [
                _commitment(base, encoding, *proof)
                for encoding, proof in zip(self.encoded, proofs, strict=True)
            ]
        c, z = (b"".join(numbers) for numbers in zip(*proofs, strict=True))
        commitments = _cut_elements(self._decoded.commitments(base, c, z))
        refused = [
            _ZERO in proof or encoding == IDENTITY
            for encoding, proof in zip(commitments, proofs, strict=True)
        ]
        return [
            None if not_taken else encoding
            for encoding, not_taken in zip(commitments, refused, strict=True)
        ]


def _commitment(base: Element, point: Element, c: Scalar, z: Scalar) -> Element | None:
    try:
        return minus(multiply(z, base), multiply(c, point))
    except ProofError:
        return None


def _not_zero(factor: Scalar) -> Scalar:
    if factor == _ZERO:
        raise ProofError(
            "a product of group elements is the identity, which no honest batch yields"
        )
    return factor


def _parts(items: Sequence[ItemT]) -> list[Sequence[ItemT]]:
    """Split into one part per core, but into fewer if parts would have less than `_LEAST` items."""
    if len(items) <= _LEAST:
        return [items] if items else []
    size = max(_LEAST, -(-len(items) // cores()))
    return [items[start : start + size] for start in range(0, len(items), size)]


def _cut_elements(packed: bytes) -> list[Element]:
    return [Element(packed[start : start + WIDTH]) for start in range(0, len(packed), WIDTH)]


def _flatten(parts: Iterable[Iterable[ItemT]]) -> list[ItemT]:
    return [item for part in parts for item in part]
