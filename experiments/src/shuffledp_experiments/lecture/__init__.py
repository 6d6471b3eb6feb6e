"""Lecture notes (paper 003): local privacy, its averages, and what shuffling adds."""

from __future__ import annotations

from typing import Final

from shuffledp_experiments.entry import Entry

ENTRIES: Final[tuple[Entry, ...]] = ()
