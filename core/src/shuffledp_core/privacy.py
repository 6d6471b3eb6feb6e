"""The words in which a guarantee is stated."""

from __future__ import annotations

from enum import StrEnum


class Adjacency(StrEnum):
    """What two neighbouring datasets are; the number of users is public in both.

    STANDARD: one user's value changes in any way; ε is for the whole change.
    METRIC: one user's value changes by d, 1 <= d <= d_max; ε is per unit of d (paper 002, Definition 4).
    """

    STANDARD = "standard"
    METRIC = "metric"
