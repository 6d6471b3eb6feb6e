"""Arrival processes and attempts.

Apart from `arrivals`, so that the command line starts without numpy.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

ATTEMPTS: Final = 8
"""Most calls of a user without an answer, as of a real client (`Backoff` of shuffledp-client)."""


class ArrivalProcess(StrEnum):
    """Arrival process of users.

    `POISSON`: a Poisson process, bursts included; `UNIFORM`: at equal distances.
    """

    POISSON = "poisson"
    UNIFORM = "uniform"
