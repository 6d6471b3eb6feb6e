"""Biswas, Jung and Palamidessi 2022, 2023 (papers 000 and 001): tables and figures about
k-randomised response.
"""

from __future__ import annotations

from typing import Final

from shuffledp_experiments.biswas import maps, surface, synthetic, tables
from shuffledp_experiments.entry import Experiment

ENTRIES: Final[tuple[Experiment, ...]] = (
    *tables.ENTRIES,
    *surface.ENTRIES,
    *synthetic.ENTRIES,
    *maps.ENTRIES,
)
