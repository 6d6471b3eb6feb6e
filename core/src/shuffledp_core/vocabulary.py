"""Shared vocabulary of the parties: the stages of a certificate and the form of round ids."""

from __future__ import annotations

import re
from typing import Final

PLAN: Final = "plan"
"""A certificate issued before a round, for the planned number of reports."""

FINAL: Final = "final"
"""A certificate issued after a round, for the reports that were mixed."""

ROUND_ID: Final = re.compile(r"[0-9a-f]{16,64}")
"""Pattern of a whole round id: lower-case hex digits."""
