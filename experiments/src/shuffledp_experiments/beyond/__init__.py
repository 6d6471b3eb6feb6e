"""Figures that no paper has."""

from __future__ import annotations

from typing import Final

from shuffledp_experiments.entry import Entry

ENTRIES: Final[tuple[Entry, ...]] = ()
