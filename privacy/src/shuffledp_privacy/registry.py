"""Imports every analysis, so that all of them are known to the dispatch functions of `bounds`."""

from __future__ import annotations

from shuffledp_privacy.histogram import krr
from shuffledp_privacy.local import clones, lecture, rappor
from shuffledp_privacy.sums import geo, rr, sgdl

ANALYSES = (krr, clones, rr, geo, sgdl, lecture, rappor)
"""The modules that register; naming them here keeps the imports from looking unused."""
