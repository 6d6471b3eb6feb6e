"""Many elements at a time: what comes out is that of one at a time, with the accelerator and
without it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from mixing_model import randomness

from shuffledp_core.errors import ProofError
from shuffledp_core.mixproof import acceleration, batches
from shuffledp_core.mixproof.batches import Elements, multiples, spread
from shuffledp_core.mixproof.group import (
    GENERATOR,
    IDENTITY,
    Element,
    Scalar,
    add_points,
    minus,
    multiply,
    multiply_add,
    random_scalar,
)
from shuffledp_core.onion.acceleration import AcceleratorWarning

ZERO = Scalar(bytes(32))
ORDER = (2**252 + 27742317777372353535851937790883648493).to_bytes(32, "little")
WHEEL = acceleration.points()


@pytest.fixture(params=["libsodium", "accelerator"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches by this library alone."""
    if request.param == "accelerator" and WHEEL is None:
        pytest.skip("shuffledp-accel is not installed: make accel, where cargo is")
    monkeypatch.setattr(
        batches, "points", lambda: WHEEL if request.param == "accelerator" else None
    )


def some(what: str, count: int) -> tuple[Element, list[Scalar], list[Element]]:
    """A base, factors, and elements that are other multiples of it."""
    random = randomness(what)
    base = multiply(random_scalar(random), GENERATOR)
    factors = [random_scalar(random) for _ in range(count)]
    return base, factors, [multiply(random_scalar(random), base) for _ in range(count)]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("count", [1, 2, 7, 90, 600])
def test_every_count_gives_what_one_at_a_time_gives(count: int) -> None:
    base, factors, points = some("count", count)
    elements, secret, c = Elements(points), factors[0], factors[-1]
    assert list(elements) == points
    assert elements.total == add_points(points)
    assert list(elements.times(secret)) == [multiply(secret, point) for point in points]
    for _ in range(3):  # of 90 factors, the last time by the accelerator's table
        assert multiples(base, factors) == [multiply(factor, base) for factor in factors]
    weighted, power = [], c
    for point in points:
        weighted.append(multiply(power, point))
        power = multiply_add(power, c, ZERO)
    assert elements.powers(c) == add_points(weighted)
    proofs = list(zip(factors, reversed(factors), strict=True))
    expected = [
        minus(multiply(z, base), multiply(c, point))
        for point, (c, z) in zip(points, proofs, strict=True)
    ]
    assert elements.commitments(base, proofs) == expected


@pytest.mark.usefixtures("library")
def test_where_a_process_is_not_told_its_cores_as_on_macos_batches_work_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    _, (secret, *_), points = some("no affinity", 300)
    assert list(Elements(points).times(secret)) == [multiply(secret, point) for point in points]


@pytest.mark.usefixtures("library")
def test_a_process_that_gets_other_cores_meanwhile_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    base, factors, points = some("cores", 600)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    elements = Elements(points)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    proofs = list(zip(factors, reversed(factors), strict=True))
    expected = [
        minus(multiply(z, base), multiply(c, point))
        for point, (c, z) in zip(points, proofs, strict=True)
    ]
    assert elements.commitments(base, proofs) == expected


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("place", [0, 5, 299])
@pytest.mark.parametrize("wrong", [IDENTITY, b"\xff" * 32, ORDER, bytes(31), bytes(33), b""])
def test_what_is_no_element_is_refused_at_every_place(place: int, wrong: bytes) -> None:
    _, _, points = some("wrong", 1)
    with pytest.raises(ProofError) as caught:
        Elements([*points * place, wrong, *points * (299 - place)])
    if len(wrong) == 32:
        assert wrong.hex() in str(caught.value)


@pytest.mark.usefixtures("library")
def test_what_gives_the_identity_is_refused_except_as_a_sum() -> None:
    base, (c, other), (point, _) = some("identity", 2)
    opposite = multiply(_number(int.from_bytes(ORDER, "little") - 1), point)
    assert Elements((point, opposite)).total == IDENTITY
    elements = Elements((point,))
    for refused in (
        lambda: elements.times(ZERO),
        lambda: elements.powers(ZERO),
        lambda: multiples(base, [c, ZERO]),
    ):
        with pytest.raises(ProofError):
            refused()
    # z base = c point for point = (z / c) base: as 2 base is for z = 2 and c = 1.
    one, two = _number(1), _number(2)
    same = Elements((multiply(two, base),) * 4)
    assert (
        same.commitments(base, [(one, two), (ZERO, two), (one, ZERO), (one, other)])[:3]
        == [None] * 3
    )


def _number(value: int) -> Scalar:
    return Scalar(value.to_bytes(32, "little"))


def test_the_first_error_in_the_order_of_the_items_is_the_one_that_is_raised() -> None:
    def work(item: int) -> int:
        if item in {3, 40}:
            raise ProofError(f"number {item}")
        return item

    with pytest.raises(ProofError, match="number 3"):
        spread(work, range(100))
    assert spread(work, range(3)) == [0, 1, 2]


class _Batch:
    """Elements of the wheel, with one answer changed.

    "many powers": only where there are many elements.
    """

    def __init__(self, right: Any, changed: str) -> None:
        self._right, self._changed = right, changed

    def __getattr__(self, name: str) -> Callable[..., bytes]:
        answer: Callable[..., bytes] = getattr(self._right, name)
        changed = name == self._changed or (
            f"many {name}" == self._changed and len(self._right) > 100
        )
        return (lambda *given: bytes(32) + answer(*given)[32:]) if changed else answer


class _Base:
    """A base of the wheel, that multiplies wrongly, or wrongly once it has its table."""

    def __init__(self, right: Any, changed: str) -> None:
        self._right, self._changed = right, changed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def times(self, factors: bytes) -> bytes:
        found: bytes = self._right.times(factors)
        wrong = self._changed == "multiples" or (self._changed == "table" and self._right.has_table)
        return bytes(32) + found[32:] if wrong else found


class _Wheel:
    """The wheel, with one answer changed."""

    def __init__(self, changed: str) -> None:
        self._changed = changed

    def Elements(self, encoded: bytes) -> _Batch:  # noqa: N802 - the name in the wheel
        try:
            right = WHEEL.Elements(encoded)
        except ValueError:
            if self._changed != "refuses":
                raise
            right = None
        return _Batch(right, self._changed)

    def Base(self, encoded: bytes) -> _Base:  # noqa: N802 - the name in the wheel
        return _Base(WHEEL.Base(encoded), self._changed)


@pytest.mark.skipif(
    WHEEL is None, reason="shuffledp-accel is not installed: make accel, where cargo is"
)
@pytest.mark.parametrize(
    "changed",
    ["multiples", "table", "times", "total", "powers", "many powers", "commitments", "refuses"],
)
def test_a_wheel_that_computes_otherwise_is_left_with_a_warning(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceleration, "wheel", lambda: _Wheel(changed))
    acceleration.points.cache_clear()
    try:
        with pytest.warns(
            AcceleratorWarning, match="not agree|accepts|times the generator|adds the generator"
        ):
            assert acceleration.points() is None
    finally:
        acceleration.points.cache_clear()


def test_a_wheel_from_before_it_had_elements_is_left_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceleration, "wheel", lambda: ModuleType("shuffledp_accel"))
    acceleration.points.cache_clear()
    try:
        with pytest.warns(AcceleratorWarning, match="older version"):
            assert acceleration.points() is None
    finally:
        acceleration.points.cache_clear()


@pytest.mark.skipif(
    WHEEL is None, reason="shuffledp-accel is not installed: make accel, where cargo is"
)
def test_arguments_of_other_lengths_and_scalars_beyond_the_order_are_refused() -> None:
    base, (c, _), points = some("lengths", 2)
    elements = WHEEL.Elements(b"".join(points))
    assert len(elements) == 2
    wrongs: Sequence[Callable[[], object]] = (
        lambda: WHEEL.Elements(bytes(33)),
        lambda: elements.times(ORDER),
        lambda: elements.times(bytes(31)),
        lambda: elements.powers(ORDER, 0),
        lambda: elements.commitments(base, c, c),
        lambda: elements.commitments(IDENTITY, c * 2, c * 2),
        lambda: WHEEL.Base(IDENTITY),
        lambda: WHEEL.Base(base).times(c + b"x"),
        lambda: WHEEL.Base(base).times(ORDER),
    )
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"bytes|scalar|element"):
            wrong()
