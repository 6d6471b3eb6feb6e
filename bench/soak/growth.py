"""Resources held after each round: memory, descriptors and files of every process."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.machine import children_of, resident

FEWEST: Final = 9
"""Rounds from which on growth is judged: three thirds of three, the first of which is left out as
warming up.
"""

MOST: Final = 1.1
"""The last third of the rounds over the second: memory varies as much with how many strangers are
connected.
"""

_FEW, _PART = 4, 0.5
"""Descriptors, and part of a file a round, that come and go while one looks."""


@dataclass(frozen=True)
class HeldResources:
    """Resources of one process after a round: memory with workers, descriptors, files and bytes."""

    memory: int
    descriptors: int
    files: int
    kept_bytes: int

    @classmethod
    def of(cls, pid: int, state: Path) -> HeldResources:
        """Measure a process. Raises `OSError` or `StopIteration` if it has ended."""
        sizes = []
        for path in state.rglob("*"):
            try:
                if path.is_file():
                    sizes.append(path.stat().st_size)
            except FileNotFoundError:  # erased meanwhile
                continue
        memory = sum(resident(process) for process in (pid, *children_of(pid)))
        return cls(
            memory, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()), len(sizes), sum(sizes)
        )


class Growth:
    """Collects the resources held after each round, and compares medians of thirds of the rounds.

    A process that grows by a tenth in a third of the rounds is named; slower growth takes a longer
    soak. What a round leaves on disk is printed, and judged only if later rounds leave more.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[HeldResources]] = {}

    def look(self, name: str, pid: int, state: Path) -> None:
        """Measure a process after a round. Errors as in `HeldResources.of`."""
        self._seen.setdefault(name, []).append(HeldResources.of(pid, state))

    def show(self) -> list[str]:
        """Print early and late rounds side by side; return the names of processes that grow.

        With too few rounds it says so, and names no process.
        """
        rounds = min(map(len, self._seen.values()), default=0)
        if rounds < FEWEST:
            print(f"  growth: not judged, {rounds} rounds are fewer than {FEWEST}")
            return []
        print(
            "  between rounds         MiB in thirds of the rounds   descriptors   files a round   "
            "KiB a round"
        )
        growing = []
        for name, seen in self._seen.items():
            third = len(seen) // 3
            first, middle, last = seen[:third], seen[third : 2 * third], seen[-third:]
            early, *memory = (
                statistics.median(left.memory for left in part) for part in (first, middle, last)
            )
            descriptors = [
                statistics.median(left.descriptors for left in part) for part in (middle, last)
            ]
            files = [_mean_growth(part, "files") for part in (middle, last)]
            kept_bytes = [_mean_growth(part, "kept_bytes") / 2**10 for part in (middle, last)]
            print(
                f"  {name:<18} {early / 2**20:>13,.0f} {memory[0] / 2**20:>9,.0f} "
                f"{memory[1] / 2**20:>9,.0f} {descriptors[0]:>7,.0f} {descriptors[1]:>5,.0f} "
                f"{files[0]:>9,.1f} {files[1]:>5,.1f} {kept_bytes[0]:>8,.0f} "
                f"{kept_bytes[1]:>6,.0f}"
            )
            if (
                memory[1] > MOST * memory[0]
                or descriptors[1] > MOST * descriptors[0] + _FEW
                or files[1] > MOST * files[0] + _PART
            ):
                growing.append(name)
        return growing


def _mean_growth(part: list[HeldResources], field: str) -> float:
    """Mean increase of a field from one round to the next."""
    return float(getattr(part[-1], field) - getattr(part[0], field)) / max(1, len(part) - 1)
