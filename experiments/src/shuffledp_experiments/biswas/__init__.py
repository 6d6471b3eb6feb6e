"""Tables and figures on k-randomised response by Biswas, Jung and Palamidessi.

Papers 000 and 001, of 2022 and 2023.
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
