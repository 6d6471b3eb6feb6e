"""Vocabulary of privacy guarantees: adjacency and composition."""

from __future__ import annotations

from enum import StrEnum


class Adjacency(StrEnum):
    """Relation between neighbouring datasets; the number of users is public in both.

    STANDARD: one user's value changes in any way; ε is for the whole change.
    METRIC: one user's value changes by d, 1 <= d <= d_max, at most the largest value; ε is per unit
    of d.

    Definition 4 of Athanasiou et al. 2025 covers several changed values as well, which needs a
    larger δ.
    """

    STANDARD = "standard"
    METRIC = "metric"


class CompositionRule(StrEnum):
    """Composition of a population's rounds, by what their parameters may depend on.

    ADAPTIVE: the results of earlier rounds; a privacy filter decides which round still fits.
    FIXED: nothing that a round showed; smaller totals, true only if every parameter was fixed in
    advance.
    """

    ADAPTIVE = "adaptive"
    FIXED = "fixed"
