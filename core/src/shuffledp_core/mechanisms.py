"""The frozen specification of every mechanism: parameters necessary and sufficient, and nothing else.

Three interpreters read these values: the client's sampler (`shuffledp_core.randomisers`), the analyst's
estimator (`shuffledp_core.estimation`) and the accountant's analysis (`shuffledp_privacy`).
Probabilities are rationals so that the client samples exactly the law that is certified, with integers.

Notation follows docs/accounting.md: k symbols or largest value, γ, p, φ = exp(-ε), β = 1/shares, c padding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, TypeAlias

import msgspec

MAX_DOMAIN = 2**31 - 1
"""Largest domain or value a spec may name: symbols are written in at most four bytes."""

MAX_DENOMINATOR = 2**63
"""Largest denominator of a rational parameter, so that every sampler works with machine-sized integers."""


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="mechanism"):
    """Common shape of a spec: immutable, hashable, strict on the wire, tagged by its name."""


def _whole(name: str, value: int, low: int, high: int = MAX_DOMAIN) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def _rational(name: str, value: Fraction, high: Fraction | None = None) -> None:
    if not isinstance(value, Fraction):
        raise TypeError(f"{name} must be a Fraction, not {value!r}")
    if value <= 0 or (high is not None and value > high):
        raise ValueError(f"{name} must be above 0{'' if high is None else f' and at most {high}'}, not {value}")
    if value.denominator > MAX_DENOMINATOR or value.numerator > MAX_DENOMINATOR:
        raise ValueError(f"{name} must be a ratio of integers up to 2^63, not {value}")


class KRRHistogram(_Spec, frozen=True, kw_only=True, tag="krr-histogram"):
    """k-ary randomised response, one message: a histogram over {0..k-1} (Biswas et al. 2023; Koskela et al. 2021).

    With probability `blanket` (γ) the symbol is uniform over all k, otherwise the true one, so that
    p = 1 - γ + γ/k, q = γ/k and ε0 = ln(p/q).
    """

    kind: ClassVar[str] = "krr-histogram"
    symbols: int
    blanket: Fraction

    def __post_init__(self) -> None:
        _whole("symbols", self.symbols, 2)
        _rational("blanket", self.blanket, Fraction(1))

    @property
    def domain(self) -> int:
        """Number of admissible inputs, {0..domain-1}."""
        return self.symbols

    @property
    def messages_per_user(self) -> int:
        """One symbol a user."""
        return 1

    @property
    def alphabet(self) -> int:
        """Number of different symbols a message can carry."""
        return self.symbols


class _UnarySpec(_Spec, frozen=True, kw_only=True):
    """A sum over values {0..max_value}, sent as a fixed number of bits."""

    max_value: int

    @property
    def domain(self) -> int:
        """Number of admissible inputs, {0..max_value}."""
        return self.max_value + 1

    @property
    def alphabet(self) -> int:
        """Messages are bits."""
        return 2


class RRShuffle(_UnarySpec, frozen=True, kw_only=True, tag="rr-shuffle"):
    """Bitwise randomised response on the unary code of length k = max_value (Athanasiou et al. 2025, Algorithm 2).

    With probability `randomise` (p) a bit is replaced by a fair coin, so it is flipped with probability p/2.
    """

    kind: ClassVar[str] = "rr-shuffle"
    randomise: Fraction

    def __post_init__(self) -> None:
        _whole("max_value", self.max_value, 1)
        _rational("randomise", self.randomise, Fraction(1))

    @property
    def messages_per_user(self) -> int:
        """k bits."""
        return self.max_value


class GeoShuffle(_UnarySpec, frozen=True, kw_only=True, tag="geo-shuffle"):
    """Discrete Laplace noise per user, shifted, clamped and unary-coded (Athanasiou et al. 2025, Algorithm 3).

    N ~ discrete Laplace, P(N = j) = (1-φ)/(1+φ) φ^|j| with φ = exp(-epsilon_geo); the user sends
    clamp(x + N + c, 0, k + 2c) ones among k + 2c bits, c = padding.
    """

    kind: ClassVar[str] = "geo-shuffle"
    epsilon_geo: Fraction
    padding: int

    def __post_init__(self) -> None:
        _whole("max_value", self.max_value, 1)
        _rational("epsilon_geo", self.epsilon_geo)
        _whole("padding", self.padding, 0)

    @property
    def messages_per_user(self) -> int:
        """k + 2c bits."""
        return self.max_value + 2 * self.padding


class SGDLShuffle(_UnarySpec, frozen=True, kw_only=True, tag="sgdl-shuffle"):
    """Symmetric generalised discrete Laplace noise, a share per user (Athanasiou et al. 2025, Algorithm 4).

    N = A - B with A, B ~ NB(β, 1-φ) independent, β = 1/shares, φ = exp(-noise_epsilon); `shares` honest
    users together add exactly one discrete Laplace noise. Shift, clamp and code as in `GeoShuffle`.
    """

    kind: ClassVar[str] = "sgdl-shuffle"
    noise_epsilon: Fraction
    shares: int
    padding: int

    def __post_init__(self) -> None:
        _whole("max_value", self.max_value, 1)
        _rational("noise_epsilon", self.noise_epsilon)
        _whole("shares", self.shares, 1)
        _whole("padding", self.padding, 0)

    @property
    def messages_per_user(self) -> int:
        """k + 2c bits."""
        return self.max_value + 2 * self.padding


Mechanism: TypeAlias = KRRHistogram | RRShuffle | GeoShuffle | SGDLShuffle
"""Any spec. A new mechanism is added here, and the walk in tests/core names the interpreters it lacks."""

MECHANISMS: dict[str, type[Mechanism]] = {
    spec.kind: spec for spec in (KRRHistogram, RRShuffle, GeoShuffle, SGDLShuffle)
}
"""Every spec by its name on command lines and on the wire."""
