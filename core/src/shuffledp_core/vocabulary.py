"""Shared vocabulary: roles, mixing, stages of a certificate, outcomes, round ids, suites."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """Role of a caller: a party of the roster, or a client, operator or viewer outside it."""

    NODE = "node"
    ANALYST = "analyst"
    ACCOUNTANT = "accountant"
    CLIENT = "client"
    OPERATOR = "operator"
    VIEWER = "viewer"


class Mix(StrEnum):
    """How the nodes mix: plainly, or with publicly verifiable proofs (docs/mixing.md)."""

    PLAIN = "plain"
    VERIFIED = "verified"


class CertificateStage(StrEnum):
    """When a certificate is issued: for the planned reports, or after the round for those mixed."""

    PLAN = "plan"
    FINAL = "final"


class Outcome(StrEnum):
    """Outcome of a round."""

    PUBLISHED = "published"
    FAILED = "failed"


PROTOCOL: Final = "shuffledp/v1"
"""The protocol and its version, with which every signature, onion label and topic begins."""

MIXPROOF_PROTOCOL: Final = "shuffledp/v2"
"""The version of provable mixing, with which its signatures and hashes begin."""

ROUND_ID: Final = re.compile(r"[0-9a-f]{32}")
"""Pattern of a whole round id: the 16 random bytes that the analyst drew, as hex digits."""

DEFAULT_SUITE: Final = "sealed-box"
"""The public-key suite of a round whose plan names none; `shuffledp_core.onion.suites` has all of
them.
"""
