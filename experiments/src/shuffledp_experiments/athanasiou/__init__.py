"""Athanasiou et al. 2025 (paper 002): sums with metric privacy through a shuffler."""

from __future__ import annotations

from typing import Final

from shuffledp_experiments.athanasiou import (
    boost,
    claims,
    corrupted,
    losses,
    noise,
    planar,
    planar_map,
    sentences,
)
from shuffledp_experiments.entry import Experiment

ENTRIES: Final[tuple[Experiment, ...]] = tuple(
    entry
    for module in (losses, planar, planar_map, boost, corrupted, noise, claims, sentences)
    for entry in module.ENTRIES
)
