"""Shared vocabulary of the parties: stages of a certificate, form of round ids, default suite."""

from __future__ import annotations

import re
from typing import Final

PLAN: Final = "plan"
"""A certificate issued before a round, for the planned number of reports."""

FINAL: Final = "final"
"""A certificate issued after a round, for the reports that were mixed."""

ROUND_ID: Final = re.compile(r"[0-9a-f]{32}")
"""Pattern of a whole round id: the 16 random bytes that the analyst drew, as hex digits."""

DEFAULT_SUITE: Final = "sealed-box"
"""The public-key suite of a round whose plan names none; `shuffledp_core.onion.suites` has all of them."""
