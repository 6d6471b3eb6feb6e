"""How users arrive and how often they ask. Apart from `arrivals`, so that the command line starts without numpy."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

ATTEMPTS: Final = 8
"""Calls of a user whom nobody answers: as many as of a real client (`Backoff` of shuffledp-client)."""


class ArrivalProcess(StrEnum):
    """`POISSON`: a Poisson process, bursts included; `UNIFORM`: at equal distances."""

    POISSON = "poisson"
    UNIFORM = "uniform"
