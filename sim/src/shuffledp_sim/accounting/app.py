"""The accounting commands, ready to be added to `shuffledp`. Importing this costs no numerics."""

from __future__ import annotations

from shuffledp_sim.accounting.advise import advise
from shuffledp_sim.accounting.calibrate import calibrate
from shuffledp_sim.accounting.certify import certify_app
from shuffledp_sim.accounting.verify import verify

__all__ = ["advise", "calibrate", "certify_app", "verify"]
