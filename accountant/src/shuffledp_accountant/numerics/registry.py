"""Imports every analysis, so that all of them are known to the dispatch functions of `bounds`."""

from __future__ import annotations

from shuffledp_accountant.numerics.histogram import krr
from shuffledp_accountant.numerics.local import clones, lecture, rappor
from shuffledp_accountant.numerics.sums import geo, rr, sgdl

ANALYSES = (krr, clones, rr, geo, sgdl, lecture, rappor)
"""The modules that register; naming them here keeps the imports from looking unused."""
