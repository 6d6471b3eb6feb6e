"""Koskela, Heikkilä and Honkela 2021 (paper 004): tight accounting in the shuffle model."""

from __future__ import annotations

from typing import Final

from shuffledp_experiments.entry import Experiment
from shuffledp_experiments.koskela import compositions, gaussian, terms

ENTRIES: Final[tuple[Experiment, ...]] = (*compositions.ENTRIES, *gaussian.ENTRIES, *terms.ENTRIES)
