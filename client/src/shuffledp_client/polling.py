"""The announcements that a device has seen, and the pause before it polls again."""

from __future__ import annotations

from typing import Final

from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.signed import Signed
from shuffledp_core.sampling.randomness import RandomIntegers

LONGEST_PAUSE: Final = 900.0
"""Longest pause between polls, in seconds, while no party answers."""

REMEMBERED: Final = 1000
"""Number of announcements, and of manifests, that are remembered."""

_STEPS: Final = 2**16


class AnnouncementMemory:
    """The last thousand announcements that a device has seen, with their rounds if known.

    It also holds the manifests that the app was told of, because a relay can encode one
    announcement in many ways.
    """

    def __init__(self) -> None:
        self._rounds: dict[str, str | None] = {}
        self._manifests: dict[str, None] = {}

    def add(self, data: bytes) -> bool:
        """Record these bytes; return True if they had been seen before."""
        key = digest(data)
        if key in self._rounds:
            return True
        self._rounds[key] = None
        if len(self._rounds) > REMEMBERED:
            del self._rounds[next(iter(self._rounds))]
        return False

    def add_manifest(self, manifest: Signed) -> bool:
        """Record that the app gets this genuine manifest; return True if it already did."""
        key = document_digest(manifest)
        if key in self._manifests:
            return True
        self._manifests[key] = None
        if len(self._manifests) > REMEMBERED:
            del self._manifests[next(iter(self._manifests))]
        return False

    def forget(self, data: bytes) -> None:
        """Forget these bytes, so that they are processed again."""
        self._rounds.pop(digest(data), None)

    def record_round(self, data: bytes, round_id: str) -> None:
        """Record the round that these bytes announce."""
        self._rounds[digest(data)] = round_id

    def round_of(self, data: bytes) -> str | None:
        """The round that these bytes announce; None if unknown."""
        return self._rounds.get(digest(data))


def poll_pause(interval: float, failures: int, integers: RandomIntegers) -> float:
    """Seconds until the next poll: 0.5 to 1.5 times `interval`, longer after failures.

    Then the limit doubles with each failure up to a quarter of an hour, and the pause is uniform
    between 0 and it (full jitter): of a million devices that lost one gateway, none comes back in
    step with another.
    """
    share = integers.below(_STEPS) / _STEPS
    if not failures:
        return interval * (0.5 + share)
    return max(interval, min(LONGEST_PAUSE, interval * 2.0 ** min(failures, 20))) * share
