"""Bounds for any finite local randomiser, given as its matrix of probabilities (K11, K12).

    certified   the hidden-flag blanket of the matrix itself, the worst of all changes of a value
                (K11)
    attained    all others hold one value, exact (K11)

A change of a value is any change: rows have no order, so under metric adjacency the worst distance
is 1 and the numbers are those of the standard adjacency (K7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.runtime.arguments import check_rational_number
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    check_delta,
)
from shuffledp_privacy.histogram.binary import TwoOutputs
from shuffledp_privacy.local.encodings import (
    FilterResponse,
    HadamardResponse,
    SubsetSelection,
    UnaryEncoding,
)
from shuffledp_privacy.local.flags import HiddenFlags, Rows
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.rounds.subsampling import reflect_curve
from shuffledp_privacy.sums.common import chord

LONGEST_ENTRY: Final = 200
"""Most characters of one chance."""

LONGEST_EXPONENT: Final = 4
"""Most characters of a decimal's exponent."""

CURVE_WORK: Final = 6000
"""Nodes of a curve times different pairs; chords in e^ε between the nodes are upper bounds, as
curves are convex.
"""


@dataclass(frozen=True, slots=True)
class LocalMatrix:
    """A local randomiser with one message, as the matrix R(y|x) of its probabilities.

    R(y|x) is the probability of output y for value x.

    Attributes:
        rows: a row for each value, a column for each output; exact, each row of sum 1.
        inputs: number of values.
        outputs: number of outputs.
        digest: first 16 hexadecimal digits of the SHA-256 of the matrix as text, to tell matrices
            apart.

    >>> from fractions import Fraction
    >>> half = Fraction(1, 2)
    >>> LocalMatrix(((half, half), (Fraction(1, 4), Fraction(3, 4)))).inputs
    2
    """

    rows: Rows = field(repr=False)
    inputs: int = field(init=False)
    outputs: int = field(init=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.rows, str) or not (self.rows is None or isinstance(self.rows, Sequence)):
            raise UsageError(
                f"rows must be a tuple of rows of fractions, not a {type(self.rows).__name__}"
            )
        if not self.rows or not self.rows[0]:
            raise UsageError("a matrix needs at least one value (row) and one output (column)")
        for number, row in enumerate(self.rows, 1):
            _check_row(row, len(self.rows[0]), f"row {number}")
        text = "\n".join(",".join(str(value) for value in row) for row in self.rows)
        object.__setattr__(self, "inputs", len(self.rows))
        object.__setattr__(self, "outputs", len(self.rows[0]))
        object.__setattr__(self, "digest", sha256(text.encode()).hexdigest()[:16])

    def __hash__(self) -> int:
        return hash(self.digest)


def _check_row(row: tuple[Fraction, ...], columns: int, where: str) -> None:
    if len(row) != columns:
        raise UsageError(
            f"{where} has {len(row)} probabilities, but the first row has {columns}: every row "
            "needs one per output"
        )
    for column, value in enumerate(row, 1):
        check_rational_number(f"{where}, column {column}", value)
        if not 0 <= value <= 1:
            raise UsageError(
                f"{where}, column {column}: a probability must be from 0 to 1, not {value}"
            )
    total = sum(row)
    if total != 1:
        raise UsageError(
            f"{where} adds up to {float(total):.12g}, not exactly to 1: write the probabilities "
            "as fractions such as 1/3, or as decimals that add up to 1"
        )


def parse_matrix(text: str) -> LocalMatrix:
    """Parse a matrix of comma-separated probabilities such as 1/3 or 0.25, one line per value.

    Empty lines, and what follows a #, are left out.

    Raises:
        UsageError: with the number of the line that is wrong, and what to do.
    """
    entry = lru_cache(maxsize=4096)(_chance)
    rows: list[tuple[Fraction, ...]] = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        if content:
            row = tuple(entry(cell.strip(), number) for cell in content.split(","))
            _check_row(row, len(rows[0]) if rows else len(row), f"line {number}")
            rows.append(row)
    if not rows:
        raise UsageError(
            "the matrix is empty: write one line per value, with a probability for each output"
        )
    return LocalMatrix(tuple(rows))


def _chance(cell: str, line: int) -> Fraction:
    shown = cell if len(cell) <= 40 else f"{cell[:40]}..."
    refusal = UsageError(
        f"line {line}: {shown!r} is not a probability: write a fraction such as 1/3, or a decimal"
    )
    # A long number, or one with a large exponent, would take all memory.
    if len(cell) > LONGEST_ENTRY or len(cell.lower().partition("e")[2]) > LONGEST_EXPONENT:
        raise refusal
    try:
        return Fraction(cell)
    except (ValueError, ZeroDivisionError):
        raise refusal from None


Finite = LocalMatrix | UnaryEncoding | SubsetSelection | HadamardResponse | FilterResponse
"""Randomisers with finitely many outputs, all known."""


@lru_cache(maxsize=4)
def _flags(spec: Finite) -> HiddenFlags:
    return HiddenFlags(spec.rows, getattr(spec, "blanket", None))


@lru_cache(maxsize=4)
def _two_outputs(spec: Finite, honest: int) -> TwoOutputs | None:
    """Bounds over all compositions of the others, if messages are informative bits; else None."""
    if len(spec.rows[0]) != 2:
        return None
    rates = [row[1] for row in spec.rows]
    return None if max(rates) == min(rates) else TwoOutputs(max(rates), min(rates), honest)


def _certified_delta(spec: Finite, honest: int, epsilon: float) -> float:
    """Certified δ for ε >= 0: by flags, or by every composition for two outputs."""
    flags = _flags(spec)
    two = _two_outputs(spec, honest)
    bound = flags.delta(honest, epsilon)
    return bound if two is None or bound == 0.0 else min(bound, two.upper(epsilon))


_COMPOSITIONS = "two outputs: every composition of the others (K6), or flags (K11)"
_BASIS = (
    "hidden-flag blanket of this very randomiser, the worst of all changes of a value (K11, K12)"
)
_ATTAINED = "attained: all others hold one value, exact (K11)"


@analyses(LocalMatrix, UnaryEncoding, SubsetSelection, HadamardResponse, FilterResponse)
@dataclass(frozen=True, slots=True)
class FiniteAnalysis(Analysis):
    """Analysis of a shuffled randomiser with finitely many known outputs (K11)."""

    spec: Finite

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        if not epsilon >= 0.0:
            raise UsageError(f"epsilon must be at least 0, not {epsilon}")
        flags = _flags(self.spec)
        certified = _certified_delta(self.spec, setting.honest, epsilon)
        two = _two_outputs(self.spec, setting.honest)
        attained = 0.0
        if certified > 0.0:
            attained = max(
                pair.lower(setting.honest, epsilon)
                for pair in flags.datasets(setting.honest, epsilon)
            )
            attained = attained if two is None else max(attained, two.lower(epsilon))
        return Bounds(
            certified,
            min(attained, certified),
            None,
            (_BASIS if two is None else _COMPOSITIONS, _ATTAINED),
        )

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        certified = self.certified_epsilon(setting, delta)
        flags = _flags(self.spec)
        two = _two_outputs(self.spec, setting.honest)
        basis = (_BASIS if two is None else _COMPOSITIONS, _ATTAINED)
        if certified == 0.0:
            return Bounds(0.0, 0.0, None, basis[:1])
        # The dataset that is worst near the answer: only that one is inverted.
        near = 0.98 * certified
        best = max(
            flags.datasets(setting.honest, near), key=lambda pair: pair.lower(setting.honest, near)
        )
        attained = attained_epsilon(
            lambda epsilon: best.lower(setting.honest, epsilon, delta), delta, certified
        )
        if two is not None:
            attained = max(attained, attained_epsilon(two.lower, delta, certified))
        return Bounds(certified, attained, None, basis)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        check_delta(delta)
        flags = _flags(self.spec)
        certified = flags.least(setting.honest, delta)
        two = _two_outputs(self.spec, setting.honest)
        if certified > 0.0 and two is not None:
            certified = min(certified, certified_epsilon(two.upper, delta, flags.epsilon0))
        return certified

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """The pure ε0 = max ln R(y|x)/R(y|x') of one report.

        Where that is infinite, the least ε at δ.
        """
        del setting
        flags = _flags(self.spec)
        if flags.epsilon0 < float("inf"):
            return CorruptedBounds(
                flags.epsilon0, 0.0, ("one report: the largest log ratio of the matrix (K11)",)
            )
        if delta == 0.0:
            raise CannotCertify(
                "an output that some value can send and another cannot has no finite epsilon at "
                "delta 0"
            )
        return CorruptedBounds(flags.least(1, delta), delta, ("one report: its exact curve (K11)",))

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Maximum of the curves of all pairs, in both orders.

        It is convex and falling in e^ε, so that one pair has it (C2).
        """
        del distance
        flags = _flags(self.spec)
        sizes = np.abs(np.asarray(epsilons, dtype=np.float64))
        nodes = np.unique(sizes)
        most = max(24, min(160, CURVE_WORK // max(1, len(flags.changes))))
        if nodes.size > most:
            nodes = np.unique(
                np.concatenate([np.quantile(nodes, np.linspace(0, 1, most)), nodes[[0, -1]]])
            )
        values = np.minimum.accumulate(
            [_certified_delta(self.spec, setting.honest, float(node)) for node in nodes]
        )
        upper = chord(nodes, np.asarray(values), sizes)
        return np.asarray(np.where(epsilons >= 0.0, upper, reflect_curve(upper, sizes)))
