"""Lecture notes (paper 003): local privacy, averaging attacks, and the effect of shuffling."""

from __future__ import annotations

from typing import Final

from shuffledp_experiments.entry import Experiment
from shuffledp_experiments.lecture import amplification, averaging, means

_FOUND: Final = (*means.ENTRIES, *averaging.ENTRIES, *amplification.ENTRIES)

ENTRIES: Final[tuple[Experiment, ...]] = tuple(sorted(_FOUND, key=lambda entry: entry.id))
