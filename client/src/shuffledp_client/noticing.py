"""Which announcements a device has looked at, and when it asks for more."""

from __future__ import annotations

from typing import Final

from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.signed import Signed
from shuffledp_core.sampling.randomness import RandomIntegers

LONGEST_PAUSE: Final = 900.0
"""Longest pause in seconds while nobody answers."""

REMEMBERED: Final = 1000
"""Announcements that are not looked at twice, and rounds that are not told of twice."""

_STEPS: Final = 2**16


class Seen:
    """Announcements that were looked at, the latest thousand, each with its round once that is
    known.

    And the manifests that somebody was told of: whoever passes an announcement on can write it in
    many ways.
    """

    def __init__(self) -> None:
        self._rounds: dict[str, str | None] = {}
        self._told: dict[str, None] = {}

    def before(self, data: bytes) -> bool:
        """Whether these bytes were here before; from now on they were."""
        key = digest(data)
        if key in self._rounds:
            return True
        self._rounds[key] = None
        if len(self._rounds) > REMEMBERED:
            del self._rounds[next(iter(self._rounds))]
        return False

    def told(self, manifest: Signed) -> bool:
        """Whether somebody was told of this genuine manifest before; from now on they were."""
        key = document_digest(manifest)
        if key in self._told:
            return True
        self._told[key] = None
        if len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]
        return False

    def forget(self, data: bytes) -> None:
        """These bytes are to be looked at again."""
        self._rounds.pop(digest(data), None)

    def is_round(self, data: bytes, round_id: str) -> None:
        """These bytes announce this round."""
        self._rounds[digest(data)] = round_id

    def round_of(self, data: bytes) -> str | None:
        """The round of these bytes, if it is known."""
        return self._rounds.get(digest(data))


def pause(interval: float, failures: int, integers: RandomIntegers) -> float:
    """Seconds until the next question: half to one and a half of `interval`, or after failures a
    longer back-off.

    Then the limit doubles with each failure up to a quarter of an hour, and the pause is uniform
    between 0 and it (full jitter): of a million devices that lost one gateway, none comes back in
    step with another.
    """
    share = integers.below(_STEPS) / _STEPS
    if not failures:
        return interval * (0.5 + share)
    return max(interval, min(LONGEST_PAUSE, interval * 2.0 ** min(failures, 20))) * share
