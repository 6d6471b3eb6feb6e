"""New figures, which are in none of the papers."""

from __future__ import annotations

from typing import Final

from shuffledp_experiments.beyond.dummies import N17
from shuffledp_experiments.beyond.kept import N16
from shuffledp_experiments.beyond.measured import N11, N13, N15
from shuffledp_experiments.beyond.parties import N5, N10
from shuffledp_experiments.beyond.rounds import N7, N14
from shuffledp_experiments.beyond.statements import N1, N2
from shuffledp_experiments.beyond.texts import N18
from shuffledp_experiments.beyond.tightness import N8, N9
from shuffledp_experiments.beyond.utility import N3, N4, N6, N12
from shuffledp_experiments.entry import Experiment

ENTRIES: Final[tuple[Experiment, ...]] = (
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N7,
    N8,
    N9,
    N10,
    N11,
    N12,
    N13,
    N14,
    N15,
    N16,
    N17,
    N18,
)
