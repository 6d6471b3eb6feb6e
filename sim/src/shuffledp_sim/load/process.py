"""How arrivals can be spread. Apart from `arrivals`, so that the command line starts without numpy."""

from __future__ import annotations

from enum import StrEnum


class ArrivalProcess(StrEnum):
    """`POISSON`: a Poisson process, bursts included; `UNIFORM`: at equal distances."""

    POISSON = "poisson"
    UNIFORM = "uniform"
