"""The library's own commands, ready to be added to `shuffledp`.

Importing this costs no numerics.
"""

from __future__ import annotations

from shuffledp.commands.advise import advise
from shuffledp.commands.calibrate import calibrate
from shuffledp.commands.certify import certify_app
from shuffledp.commands.compose import compose
from shuffledp.commands.location import location
from shuffledp.commands.simulate import simulate
from shuffledp.commands.verify import verify

__all__ = ["advise", "calibrate", "certify_app", "compose", "location", "simulate", "verify"]
